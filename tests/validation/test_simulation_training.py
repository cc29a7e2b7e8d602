"""Training of the finite model: gradients, gradients of zero at the end, exact cases, theory beside it.

Independent truth: finite differences, ridge regression solved by linear algebra, the replica equations (4 joint
standard errors; order parameters at finite D are off by order 1/D, which is added as one standard error of the
measurement).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from theorykit import single_location as slr
from theorykit.validation.simulate.attention_loss import Objective
from theorykit.validation.simulate.single_location_request import read_task
from theorykit.validation.simulate.training import draw_data, train

SPIKED = {"kind": "spiked", "nu": 4.0, "length": 2, "noise": 0.3}
ACTIVATIONS = (
    {"kind": "softmax"},
    {"kind": "softplus"},
    {"kind": "linear"},
    {"kind": "erf", "shift": 0.3},
    {"kind": "normalized_kernel", "formula": "1 + x**2"},
)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: a["kind"])
def test_gradient_is_the_slope_of_the_objective(activation):
    stream = np.random.default_rng(3)
    task = read_task({"kind": "max", "nu": 2.0, "length": {2: 0.5, 3: 0.5}, "noise": 0.3})
    objective = Objective(draw_data(stream, task, 30, 5), activation, 0.3, 0.2)
    point = stream.standard_normal(10)
    value, gradient = objective(point)
    assert gradient == pytest.approx(approx_fprime(point, lambda p: objective(p)[0], 1e-7), abs=2e-5)
    assert value > 0


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
