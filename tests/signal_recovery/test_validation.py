"""Theory beside simulation: the points of the record, a wrong theory, and the experiment of the paper."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from theorykit import signal_recovery as sr
from theorykit.signal_recovery.validation_points import validation_points
from theorykit.theory import Theory, resolve
from theorykit.validation.run import validate

POINTS = validation_points()


def chosen(what, count=None):
    return tuple(p for p in POINTS if p.parameters["what"] == what)[:count]


def theory_of(points):
    return Theory("part", "signal recovery, some points", {}, validation_points=points)


def test_the_record_has_more_than_twenty_points_of_every_kind():
    points = resolve("sr").validation_points
    assert [dict(p.parameters) for p in points] == [dict(p.parameters) for p in POINTS]
    assert len({repr(sorted(p.parameters.items())) for p in points}) == len(points) >= 20
    kinds = {p.parameters["what"] for p in points}
    assert kinds == {"gradient", "kernel", "climb", "stationary", "separatrix", "basin"}
    assert pickle.loads(pickle.dumps(points[0])).parameters == points[0].parameters


def test_gradients_agree():
    report = validate(theory_of(chosen("gradient")), trials=1500, seed=101)
    assert report.ok, str(report)
    assert len(report.rows) == 26


def test_slopes_with_other_weights_agree():
    report = validate(theory_of(chosen("kernel")), trials=400, seed=109)
    assert report.ok, str(report)
    assert all(row.simulation.error < 0.15 * abs(row.theory) for row in report.rows)


def test_a_climb_and_a_stationary_law_agree():
    """With the least number of trials."""
    points = (chosen("climb")[5], chosen("climb")[6], chosen("stationary")[0], chosen("basin")[0])
    report = validate(theory_of(points), trials=1, seed=102)
    assert report.ok, str(report)


@pytest.mark.parametrize("factor", [0.9, -1.0])
def test_a_wrong_slope_is_found(factor):
    """Ten per cent are seen at a point where the sampling error is below one per cent."""
    (point,) = (p for p in chosen("gradient") if p.parameters["theta"] == 2.0 and p.parameters["rho"] == 0.8)
    assert validate(theory_of((point,)), trials=2000, seed=103).ok
    wrong = replace(point, theory=lambda: {"slope": factor * point.theory()["slope"]})
    assert not validate(theory_of((wrong,)), trials=2000, seed=103).ok


def test_step_noise_is_needed():
    """Without it, the flow from -0.95 is far behind the trials; with it, it is not."""
    model, sizes = sr.Model(0.5, 0.3), {"tokens": 1000, "dimension": 100, "step_size": 0.002}
    found = sr.simulate(model, **sizes, steps=1500, every=1500, start=-0.95, trials=12, seed=104)["rho"][
        :, -1
    ]
    error = float(found.std(ddof=1)) / math.sqrt(12)
    corrected = sr.trajectory(model, -0.95, [3.0], **sizes)["rho"]
    plain = sr.trajectory(model.replace(kappa=99 / 1000), -0.95, [3.0])["rho"]
    assert abs(float(corrected[0]) - float(found.mean())) < 4 * error
    assert abs(float(plain[0]) - float(found.mean())) > 6 * error


def test_opposed_convergence_where_the_theory_says_so_and_not_elsewhere():
    """Ten trials each: a trap; the same start side without trap; a trap that only the dimension makes."""
    settings = (
        (
            sr.Model(3.0, 0.3),
            {"tokens": 2000, "dimension": 5, "step_size": 0.004, "steps": 1200},
            -0.85,
            True,
        ),
        (sr.Model(3.0, 0.3), {"tokens": 2000, "dimension": 5, "step_size": 0.004, "steps": 600}, -0.4, False),
        (sr.Model(0.9, 0.3), {"tokens": 500, "dimension": 5, "step_size": 0.02, "steps": 1500}, -0.85, False),
        (
            sr.Model(1.0, 0.3, 0.5),
            {"tokens": 200, "dimension": 20, "step_size": 0.01, "steps": 1500},
            -0.9,
            False,
        ),
        (
            sr.Model(1.0, 0.3, 0.5),
            {"tokens": 200, "dimension": 2000, "step_size": 1e-4, "steps": 4000},
            -0.9,
            True,
        ),
    )
    for model, sizes, start, opposed in settings:
        kappa = (sizes["dimension"] - 1) / sizes["tokens"]
        border = sr.separatrix(model.replace(kappa=kappa))
        assert (border is not None and start < border) == opposed
        final = sr.simulate(model, **sizes, every=sizes["steps"], start=start, trials=10, seed=105)["rho"][
            :, -1
        ]
        if opposed:
            assert (final < start).all()
        else:
            assert (final > 0.5).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_all_points_agree(seed):
    report = validate("signal_recovery", seed=seed)
    assert report.ok, str(report)


@pytest.mark.slow
def test_the_finite_size_trend():
    """The distance of the exact slope from the limit falls like 1/L, at d/L fixed: eightfold L, an eighth of it."""
    from theorykit.validation.simulate.signal_recovery import population_gradient

    gaps, errors = [], []
    for tokens, samples in ((40, 1_000_000), (320, 500_000)):
        kappa = (tokens // 2 - 1) / tokens
        limit = sr.slope(sr.Model(1.5, 0.5, 0.7, kappa=kappa), 0.6)
        found = population_gradient(1.5, tokens // 2, tokens, tokens // 2, 0.6, samples, seed=106, beta=0.7)[
            "slope"
        ]
        gaps.append(found - limit)
        errors.append(found.error)
    assert abs(gaps[0]) > 10 * errors[0]
    # the next order of the expansion is a tenth of the first at 40 tokens
    assert abs(gaps[0] / 8 - gaps[1]) < 4 * math.hypot(errors[0] / 8, errors[1]) + 0.02 * abs(gaps[0])


# ------------------------------------------------------------------------------------------------ the paper


def mean_field(model, tokens, dimension, step_sizes):
    """Iteration of the mean with the mean length of the step, from the equator."""
    rho = 0.0
    grid = np.cos(np.pi * np.arange(41) / 40)[::-1]
    finite = model.replace(kappa=(dimension - 1) / tokens)
    noise = [sr.gradient_noise(finite, float(r)) for r in grid]
    length = np.array([float(n.parallel) + (dimension - 2) * float(n.perpendicular) for n in noise]) / tokens
    slopes = np.array(
        [float(sr.finite_size_slope(model, float(r), tokens=tokens, dimension=dimension)) for r in grid]
    )
    from scipy.interpolate import BarycentricInterpolator

    both = BarycentricInterpolator(grid, np.stack([length, slopes], axis=1))
    for eta in step_sizes:
        trace, slope = both(rho)
        up = rho + eta * (1 - rho**2) * slope
        rho = up / math.sqrt(1 + eta**2 * (trace + (1 - rho**2) * slope**2))
    return rho


def experiment(theta, noise_tokens, dimension, steps, trials, seed, scale=0.1, knee=100):
    """500 informative tokens among noise, a query uniform on the sphere, decreasing steps."""
    tokens = 500 + noise_tokens
    model = sr.Model(theta, 500 / tokens)
    sizes = [scale * (1 + k / knee) ** -0.75 for k in range(steps)]
    found = sr.simulate(
        model,
        tokens=tokens,
        dimension=dimension,
        steps=steps,
        step_size=sizes,
        every=steps,
        trials=trials,
        seed=seed,
    )
    return model, found, mean_field(model, tokens, dimension, sizes)


def check(model, found, predicted):
    """Alignment by the mean field; noise mass by 1 - w(+1), which is not small; the baseline is better than both."""
    rho = found["rho"].to_numpy()[:, -1]
    error = rho.std(ddof=1) / math.sqrt(rho.size)
    assert (rho > 0.7).all()
    assert abs(rho.mean() - predicted) < 4 * error + 0.1 * (1 - predicted)
    noise = found["noise_mass"].to_numpy()
    assert abs(noise.mean() - (1 - sr.attention_mass(model, float(rho.mean())))) < 0.01
    assert (found["mean_token"].to_numpy() > rho).all()


def test_the_experiment_in_small():
    """d = 20, 400 steps: aligned to 0.97, and yet most attention is on noise tokens where those are most."""
    model, found, predicted = experiment(1.0, 2000, 20, 400, trials=8, seed=107)
    check(model, found, predicted)
    assert float(found["noise_mass"].mean()) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("theta", "noise_tokens", "steps", "trials", "scale", "knee"),
    [
        (1.0, 500, 1500, 30, 0.1, 100),
        (1.0, 2000, 1500, 30, 0.1, 100),
        (1.0, 5000, 1500, 30, 0.1, 100),
        (1.0, 10000, 1500, 30, 0.1, 100),
        (0.25, 500, 3000, 30, 0.1, 100),
        (0.5, 500, 1500, 30, 0.1, 100),
        (2.0, 500, 1500, 30, 0.1, 100),
        (0.25, 10000, 12000, 6, 0.2, 200),
    ],
)
def test_the_experiment_of_the_paper(theta, noise_tokens, steps, trials, scale, knee):
    """500 informative tokens in 100 dimensions, 500 to 10,000 noise tokens, signal down to 1/4, 30 trials."""
    check(*experiment(theta, noise_tokens, 100, steps, trials, 108, scale, knee))
