"""Training of the finite model: gradients, gradients of zero at the end, exact cases, theory beside it.

Independent truth: complex steps, ridge regression solved by linear algebra, the replica equations (4 joint
standard errors; order parameters at finite D are off by order 1/D, which is added as one standard error of the
measurement).
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import erf

from theorykit import single_location as slr
from theorykit.errors import ConvergenceError
from theorykit.validation.simulate import attention_loss
from theorykit.validation.simulate.attention_loss import Objective
from theorykit.validation.simulate.single_location_request import read_task
from theorykit.validation.simulate.training import draw_data, train

SPIKED = {"kind": "spiked", "nu": 4.0, "length": 2, "noise": 0.3}
# activation and the same weights for complex scores of shape (samples, L), written with NumPy and SciPy
ACTIVATIONS = {
    "softmax": ({"kind": "softmax"}, lambda x: share(np.exp(x))),
    "softplus": ({"kind": "softplus"}, lambda x: share(np.log(1 + np.exp(x)))),
    "linear": ({"kind": "linear"}, lambda x: 1 + x),
    "erf": ({"kind": "erf", "shift": 0.3}, lambda x: 1 + erf(0.3 + x)),
    "normalized": ({"kind": "normalized_kernel", "formula": "1 + x**2"}, lambda x: share(1 + x * x)),
    "elementwise": ({"kind": "elementwise", "formula": "x*tanh(x) - 1/2"}, lambda x: x * np.tanh(x) - 0.5),
    "kink": ({"kind": "elementwise", "formula": "max(x, -x/3)"}, lambda x: np.where(x.real > 0, x, -x / 3)),
}
QUICK = ("softmax", "erf", "elementwise")


def share(kernel):
    return kernel / kernel.sum(axis=1, keepdims=True)


def complex_objective(data, weights, ridges, point):
    """The objective per dimension for complex vectors: no conjugates, so that it is analytic."""
    k, v = point.reshape(2, -1)
    dimension, total = len(k), 0
    for tokens, labels in data.parts:
        chi, z = tokens @ k / math.sqrt(dimension), tokens @ v / math.sqrt(dimension)
        total += 0.5 * np.sum((labels - np.sum(weights(chi) * z, axis=1)) ** 2)
    return (total + 0.5 * ridges[0] * np.sum(k * k) + 0.5 * ridges[1] * np.sum(v * v)) / dimension


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in ACTIVATIONS]
)
def test_gradient_by_complex_steps(name):
    """Im f(x + ih)/h is the slope to rounding: no cancellation. Sizes leave rests of chunks of four rows."""
    activation, weights = ACTIVATIONS[name]
    stream = np.random.default_rng(3)
    task = read_task({"kind": "max", "nu": 2.0, "length": {2: 0.5, 3: 0.5}, "noise": 0.3})
    data, ridges = draw_data(stream, task, 61, 7), (0.3, 0.2)
    point, step = stream.standard_normal(14), 1e-30
    slopes = [
        complex_objective(data, weights, ridges, point + 1j * step * direction).imag / step
        for direction in np.eye(14)
    ]
    value, gradient = Objective(data, activation, *ridges)(point)
    assert value == pytest.approx(complex_objective(data, weights, ridges, point + 0j).real, rel=1e-13)
    assert gradient == pytest.approx(np.array(slopes), rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("samples, dimension, length", [(1, 4, 1), (9, 5000, 2), (50, 300, 7), (400, 33, 3)])
def test_every_shape_of_the_chunks_gives_the_same_sums(samples, dimension, length):
    """Against array operations: one sample, tokens longer than a chunk, many samples in one, rests."""
    stream = np.random.default_rng(samples)
    task = read_task({"kind": "spiked", "nu": 1.0, "length": length, "noise": 0.3})
    data = draw_data(stream, task, samples, dimension)
    both = stream.standard_normal((2, dimension))
    (tokens, labels), scale = data.parts[0], dimension**-0.5
    chi, z = tokens @ both[0] * scale, tokens @ both[1] * scale
    weights = share(np.exp(chi))
    output = np.sum(weights * z, axis=1)
    rest = labels - output
    pull = -rest[:, None] * weights * scale
    slopes = np.stack([np.einsum("sl,sld->d", f, tokens) for f in (pull * (z - output[:, None]), pull)])
    value, gradient = Objective(data, {"kind": "softmax"}, 1.0, 1.0).losses(both)
    assert value == pytest.approx(0.5 * rest @ rest, rel=1e-12)
    assert gradient == pytest.approx(slopes, rel=1e-10, abs=1e-11)


def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    stream = np.random.default_rng(6)
    objective = Objective(draw_data(stream, read_task(SPIKED), 300, 40), {"kind": "softmax"}, 1.0, 1.0)
    both, found = stream.standard_normal((2, 40)), []
    for threads in (1, 2, 3, 16):
        monkeypatch.setattr(attention_loss, "_pool", lambda n=threads: (ThreadPoolExecutor(n), n))
        value, gradient = objective.losses(both)
        found.append((value, gradient.tobytes()))
    assert len(set(found)) == 1


def test_a_minimum_that_is_not_reached_is_an_error():
    """Weights that overflow: the loss is not finite."""
    task = {**SPIKED, "nu": 1.0}
    activation = {"kind": "elementwise", "formula": "exp(exp(3 + 5*x))"}
    with pytest.raises(ConvergenceError, match="minimum of the training loss") as caught:
        train(task, activation, 20, 2.0, 1e-6, 1e-6, trials=2, seed=1)
    assert caught.value.last.shape == (2, 20)


@pytest.mark.slow
def test_kinks_of_an_activation_do_not_stop_the_search():
    """relu(c x) = c relu(x): at any minimum, also on kinks, the penalties of both vectors are equal.

    The search ends when a restart gains less than 1e-7 of the loss, which leaves some 1e-3 of the vectors: 1e-2.
    """
    found = train(SPIKED, {"kind": "elementwise", "formula": "relu(x)"}, 40, 4.0, 0.25, 0.5, trials=3, seed=1)
    assert found["samples"][:, 1] * 0.25 == pytest.approx(found["samples"][:, 3] * 0.5, rel=1e-2)
    assert found["test_risk"] < 1.09  # that of no fit


def test_random_and_informed_starts_find_one_minimum_where_penalties_are_large():
    both = [
        train(SPIKED, {"kind": "softmax"}, 60, 4.0, 0.5, 0.5, 4, 2, s)["samples"]
        for s in ("informed", "random")
    ]
    assert both[0][:, 6] == pytest.approx(both[1][:, 6], rel=1e-9)
    assert both[0][:, :4] == pytest.approx(both[1][:, :4], rel=1e-3)


def test_best_of_both_starts_has_the_lower_loss():
    """Few samples, small penalties: several minima. A trial starts where it does when its start is alone."""
    found = {
        s: train(SPIKED, {"kind": "softmax"}, 60, 0.5, 0.1, 0.3, 6, 2, s)["samples"][:, 6]
        for s in ("informed", "random", "best")
    }
    assert np.abs(found["informed"] - found["random"]).max() > 1e-4
    assert (found["best"] == np.minimum(found["informed"], found["random"])).all()


def test_objective_is_that_of_the_definition():
    """Written out sample by sample in NumPy."""
    stream = np.random.default_rng(4)
    data = draw_data(stream, read_task(SPIKED), 20, 6)
    both = stream.standard_normal((2, 6))
    (tokens, labels), total = data.parts[0], 0.0
    for token, label in zip(tokens, labels, strict=True):
        chi, z = token @ both[0] / math.sqrt(6), token @ both[1] / math.sqrt(6)
        weights = np.exp(chi) / np.exp(chi).sum()
        total += 0.5 * (label - weights @ z) ** 2
    total += 0.5 * 0.3 * both[0] @ both[0] + 0.5 * 0.2 * both[1] @ both[1]
    found, _ = Objective(data, {"kind": "softmax"}, 0.3, 0.2)(both.ravel())
    assert found == pytest.approx(total / 6, rel=1e-12)


def test_scores_that_would_overflow_are_harmless():
    stream = np.random.default_rng(5)
    objective = Objective(draw_data(stream, read_task(SPIKED), 10, 4), {"kind": "softmax"}, 1.0, 1.0)
    value, gradient = objective(np.full(8, 2000.0))
    assert math.isfinite(value) and np.isfinite(gradient).all()


def test_uniform_attention_is_ridge_regression_by_linear_algebra():
    """Infinite penalty on the key: the value solves normal equations of the mean token."""
    found = train(SPIKED, {"kind": "softmax"}, 30, 2.0, math.inf, 0.5, trials=2, seed=7)
    for trial in range(2):
        stream = np.random.Generator(np.random.PCG64(np.random.SeedSequence(7, spawn_key=(trial,))))
        ((tokens, labels),) = draw_data(stream, read_task(SPIKED), 60, 30).parts
        mean = tokens.mean(axis=1) / math.sqrt(30)
        v = np.linalg.solve(mean.T @ mean + 0.5 * np.eye(30), mean.T @ labels)
        m_v, q_v = v[1] / math.sqrt(30), v @ v / 30
        row = dict(zip(("m_k", "q_k", "m_v", "q_v"), found["samples"][trial], strict=False))
        assert (row["m_k"], row["q_k"]) == (0, 0)
        assert (row["m_v"], row["q_v"]) == pytest.approx((m_v, q_v), rel=1e-4)


def test_more_trials_keep_the_earlier_ones():
    few = train(SPIKED, {"kind": "linear"}, 12, 2.0, 1.0, 1.0, trials=2, seed=1)["samples"]
    more = train(SPIKED, {"kind": "linear"}, 12, 2.0, 1.0, 1.0, trials=3, seed=1)["samples"]
    assert (few == more[:2]).all()


def test_bad_arguments_are_named():
    good = {"dimension": 10, "alpha": 1.0, "ridge_k": 1.0, "ridge_v": 1.0, "trials": 2, "seed": 0}
    task = slr.Spiked(nu=1, length=2)
    for change, message in (
        ({"dimension": 2}, "dimension must be an integer"),
        ({"alpha": 0.0}, "alpha must be a real number"),
        ({"ridge_v": 0.0}, "ridge_v must be a real number"),
        ({"trials": 1}, "trials must be an integer"),
        ({"start": "warm"}, "start must be one of informed, random, best"),
    ):
        with pytest.raises(ValueError, match=message):
            slr.train(task, slr.Softmax(), **{**good, **change})
