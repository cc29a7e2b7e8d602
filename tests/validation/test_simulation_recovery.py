"""The two simulators of signal recovery against each other, exact identities, and known numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from theorykit.formula import parse
from theorykit.validation.simulate.signal_recovery import _sample_gradient, ascent, population_gradient
from theorykit.validation.simulate.signal_recovery_request import Sequences, Weights

QUANTITIES = ("objective", "slope", "radial", "attention_mass", "perpendicular", "parallel")
SMALL = {"theta": 1.5, "informative": 3, "tokens": 8, "dimension": 5, "steps": 30, "step_size": 0.05}


def z_score(left, right):
    error = math.hypot(getattr(left, "error", 0.0), getattr(right, "error", 0.0))
    return (float(left) - float(right)) / error


# ------------------------------------------------------------------------------------------------ one gradient


@pytest.mark.parametrize("kernel", ["exp", "log(1 + exp(t))", "t**2 + 1/2"])
def test_the_gradient_is_the_derivative_of_the_square(kernel):
    """Central differences of |f|**2 in every direction, spacing 1e-5: agreement to 1e-8."""
    stream = np.random.default_rng(5)
    function = None if kernel == "exp" else parse(kernel, "t").evaluate
    law = Sequences(1.2, 3, 7, 4, Weights(0.8, kernel, function))
    tokens, query = stream.standard_normal((7, 4)), stream.standard_normal(4)
    gradient, mass, square = _sample_gradient(law, tokens, query)
    spacing = 1e-5
    for axis in range(4):
        step = spacing * np.eye(4)[axis]
        above, below = (_sample_gradient(law, tokens, query + s)[2] for s in (step, -step))
        assert abs((above - below) / (2 * spacing) - gradient[axis]) < 1e-8
    assert 0.0 < mass < 1.0 and square > 0.0


@pytest.mark.parametrize(
    ("informative", "tokens", "dimension", "theta", "beta", "rho"),
    [
        (6, 20, 3, 1.5, 1.0, 0.4),
        (2, 5, 4, 2.0, 0.7, -0.6),
        (1, 2, 9, 0.5, 0.5, 0.0),
        (10, 40, 6, 3.0, 0.8, 0.9),
    ],
)
def test_chain_and_vectors_agree_at_one_overlap(informative, tokens, dimension, theta, beta, rho):
    """Every moment within |z| <= 4; d = 3 has no isotropic rest."""
    found = [
        population_gradient(
            theta, informative, tokens, dimension, rho, 30_000, seed=seed, beta=beta, engine=engine
        )
        for seed, engine in ((11, "chain"), (12, "vectors"))
    ]
    for name in QUANTITIES:
        assert abs(z_score(found[0][name], found[1][name])) < 4.0, name


def test_chain_and_vectors_agree_with_a_kernel():
    found = [
        population_gradient(1.5, 6, 20, 4, 0.4, 4000, seed=seed, kernel="log(1 + exp(t))", engine=engine)
        for seed, engine in ((13, "chain"), (14, "vectors"))
    ]
    for name in QUANTITIES:
        assert abs(z_score(found[0][name], found[1][name])) < 4.0, name


def test_an_exponential_formula_is_the_softmax():
    """ "exp(t)" takes the compiled path, "exp(t) + 0" must not: the same stream, the same samples to rounding."""
    one = population_gradient(1.0, 2, 6, 5, 0.3, 500, seed=1, kernel="exp")
    two = population_gradient(1.0, 2, 6, 5, 0.3, 500, seed=1, kernel="exp(t)")
    other = population_gradient(1.0, 2, 6, 5, 0.3, 500, seed=1, kernel="2*exp(t)")
    assert one == two
    for name in QUANTITIES:
        assert abs(one[name] - other[name]) < 1e-7


@pytest.mark.parametrize(("informative", "tokens", "dimension"), [(2, 6, 30), (5, 50, 200)])
def test_slope_at_the_equator(informative, tokens, dimension):
    """Exact at every size: J'(0) = 2 beta theta pi (1 - E sum a**2) + 2 beta theta**3 E[S**2 (1 - S)]."""
    theta, beta = 1.3, 0.9
    found = population_gradient(theta, informative, tokens, dimension, 0.0, 40_000, seed=21, beta=beta)[
        "slope"
    ]
    scores = np.random.default_rng(22).standard_normal((200_000, tokens))
    weights = np.exp(beta * scores)
    weights /= weights.sum(axis=1, keepdims=True)
    mass = weights[:, :informative].sum(axis=1)
    fraction = informative / tokens
    sample = 2 * beta * theta * (fraction * (1 - (weights**2).sum(axis=1)) + theta**2 * mass**2 * (1 - mass))
    error = math.hypot(found.error, sample.std() / math.sqrt(sample.size))
    assert abs(found - sample.mean()) < 4.0 * error
    assert found > 5.0 * found.error


def test_slopes_at_large_sizes():
    """Values of the expansion in 1/L that independent work gives, -.35016 and 5.09009."""
    first = population_gradient(1.5, 300, 1000, 1000, -0.5, 6000, seed=31)["slope"]
    second = population_gradient(2.0, 200, 400, 400, 0.8, 6000, seed=32, beta=0.7)["slope"]
    assert abs(first + 0.35016) < 4.0 * first.error
    assert abs(second - 5.09009) < 4.0 * second.error
    assert first.error < 0.05 and second.error < 0.05


# ------------------------------------------------------------------------------------------------ trials


@pytest.mark.parametrize("update", ["tangential", "ambient"])
def test_chain_and_vectors_agree_along_a_climb(update):
    paths = [
        ascent(**SMALL, start=-0.3, trials=400, seed=seed, engine=engine, update=update)
        for seed, engine in ((41, "chain"), (42, "vectors"))
    ]
    for step in (1, 5, 15, 30):
        a, b = (p["rho"].sel(step=step).to_numpy() for p in paths)
        for moment in (lambda x: x, np.square):
            u, v = moment(a), moment(b)
            assert abs(u.mean() - v.mean()) < 4.0 * math.sqrt((u.var() + v.var()) / 400)
    for name in ("attention_mass", "mean_token"):
        a, b = (p[name].to_numpy() for p in paths)
        assert abs(a.mean() - b.mean()) < 4.0 * math.sqrt((a.var() + b.var()) / 400)


def test_the_ambient_step_is_a_shorter_tangential_one():
    """The part along q, positive in the mean, divides the step: from the same draws it moves less far."""
    one_step = {**SMALL, "steps": 1, "start": 0.0, "trials": 400, "seed": 43}
    tangential, ambient = (
        np.abs(ascent(**one_step, update=u)["rho"][:, 1]) for u in ("tangential", "ambient")
    )
    assert float((ambient < tangential).mean()) > 0.9


def test_uniform_starts():
    """rho0 of a uniform query: E rho0**2 = 1/d, E rho0**4 = 3/(d (d + 2))."""
    rho = ascent(1.0, 1, 2, 7, 1, 0.0, "uniform", trials=4000, seed=44)["rho"].to_numpy()[:, 0]
    for power, exact in ((1, 0.0), (2, 1 / 7), (4, 3 / 63)):
        sample = rho**power
        assert abs(sample.mean() - exact) < 4.0 * sample.std() / math.sqrt(rho.size)


def test_the_mean_token_knows_the_sign():
    """(1 + d/(n theta**2 pi**2))**(-1/2) for n tokens, up to relative order 1/d."""
    found = ascent(1.0, 10, 40, 400, 5, 0.01, 0.0, trials=100, seed=45)["mean_token"].to_numpy()
    exact = (1 + 400 / (200 * 0.0625)) ** -0.5
    assert abs(found.mean() - exact) < 4.0 * found.std() / 10 + exact / 400
    assert (found > 0.0).mean() > 0.9


def test_more_trials_keep_the_earlier_ones_and_threads_change_nothing():
    few = ascent(**SMALL, trials=3, seed=7)
    many = ascent(**SMALL, trials=8, seed=7, threads=4)
    assert (many["rho"][:3].to_numpy() == few["rho"].to_numpy()).all()
    assert (many["noise_mass"][:3].to_numpy() == few["noise_mass"].to_numpy()).all()
    assert len({float(r) for r in many["rho"][:, 0]}) == 8


def test_a_drawn_seed_is_recorded_and_repeats_the_run():
    first = ascent(**SMALL, trials=2)
    again = ascent(**SMALL, trials=2, seed=int(first.attrs["seed"]))
    assert (first["rho"].to_numpy() == again["rho"].to_numpy()).all()


def test_kept_steps_and_times():
    whole = ascent(**SMALL, trials=2, seed=8)
    sparse = ascent(**SMALL, trials=2, seed=8, every=7)
    assert sparse["step"].to_numpy().tolist() == [0, 7, 14, 21, 28, 30]
    assert (sparse["rho"].to_numpy() == whole["rho"].sel(step=sparse["step"]).to_numpy()).all()
    np.testing.assert_allclose(sparse["time"], 0.05 * sparse["step"], rtol=1e-14)
    vectors = ascent(**SMALL, trials=1, seed=8, every=7, engine="vectors")
    assert vectors.sizes["step"] == 6


def test_step_sizes_as_function_and_array():
    sizes = [0.1 / k for k in range(1, 31)]
    arguments = {**SMALL, "trials": 2, "seed": 9}
    one = ascent(**{**arguments, "step_size": lambda k: 0.1 / k})
    two = ascent(**{**arguments, "step_size": sizes})
    assert (one["rho"].to_numpy() == two["rho"].to_numpy()).all()
    assert abs(float(one["time"][-1]) - sum(sizes)) < 1e-14


def test_poles_are_legal_starts():
    found = ascent(**{**SMALL, "step_size": 1e-3}, start=-1.0, trials=2, seed=10)["rho"].to_numpy()
    assert (found[:, 0] == -1.0).all()
    assert (np.abs(found) <= 1.0).all()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"theta": 0.0}, ValueError, "theta must be a real number in"),
        ({"informative": 8}, ValueError, r"informative must be an integer in \[1, 7\], got 8"),
        ({"tokens": 1}, ValueError, "tokens must be an integer"),
        ({"dimension": 2}, ValueError, r"dimension must be an integer in \[3"),
        ({"steps": 0}, ValueError, "steps must be an integer"),
        ({"step_size": -0.1}, ValueError, "step_size must be a real number"),
        ({"step_size": lambda k: math.nan}, ValueError, r"step_size\(1\) must be"),
        ({"step_size": lambda k: "much"}, TypeError, r"step_size\(1\) must be"),
        (
            {"step_size": [0.1, 0.1]},
            ValueError,
            "step_size must be a number, a function of the step or 30 numbers",
        ),
        ({"start": 1.5}, ValueError, "start must be a real number in"),
        ({"start": "north"}, ValueError, "start must be a number in"),
        ({"trials": 0}, ValueError, "trials must be an integer"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"seed": "x"}, TypeError, "seed must be"),
        ({"every": 31}, ValueError, "every must be an integer"),
        ({"engine": "gpu"}, ValueError, "engine must be one of 'chain', 'vectors'"),
        ({"update": "free"}, ValueError, "update must be one of"),
        ({"kernel": "t"}, ValueError, "kernel 't' must be finite and not negative"),
        ({"kernel": "import os"}, ValueError, "import"),
        ({"beta": math.inf}, ValueError, "beta must be"),
    ],
)
def test_bad_arguments_are_named(change, error, message):
    with pytest.raises(error, match=message):
        ascent(**{**SMALL, "trials": 2, "seed": 1, **change})


def test_an_overlap_at_a_pole_has_no_direction():
    with pytest.raises(ValueError, match="rho must be"):
        population_gradient(1.0, 1, 2, 3, 1.0, 10)
