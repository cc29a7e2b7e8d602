"""What must not change the simulated numbers: threads, dimension, the form of seed and activation, noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from theorykit.validation.compare import Comparison, ValidationReport
from theorykit.validation.simulate.single_location import OBSERVABLES, population_risk

TASK = {"kind": "spiked", "nu": 4.0, "length": 3, "noise": 0.4}
RANDOM = {"kind": "max", "nu": 2.0, "length": {1: 0.2, 2: 0.3, 5: 0.5}, "noise": 0.4}
SOFTMAX = {"kind": "softmax"}
OVERLAPS = {"m_k": 1.6, "q_k": 3.6, "m_v": 0.9, "q_v": 1.1, "m_kv": 0.2, "m_vk": -0.1, "q_kv": 0.3}


def numbers(result):
    return {name: (result[name].value, result[name].error) for name in OBSERVABLES}


@pytest.mark.parametrize("task", [TASK, RANDOM], ids=["spiked", "random length"])
def test_threads_do_not_change_a_bit(task):
    runs = [
        population_risk(task, SOFTMAX, OVERLAPS, 20_001, seed=3, dimension=8, threads=t, best_value=True)
        for t in (1, 2, 5, None)
    ]
    for run in runs[1:]:
        assert numbers(run) == numbers(runs[0])
        assert run["best_value_risk"].error == runs[0]["best_value_risk"].error
        assert run == runs[0]


def test_seed_forms_and_record():
    first = population_risk(TASK, SOFTMAX, OVERLAPS, 1000, seed=np.random.SeedSequence(5))
    assert first == population_risk(TASK, SOFTMAX, OVERLAPS, 1000, seed=5)
    assert (first["seed"], first["samples"], first["dimension"]) == (5, 1000, 16)
    for seed in (None, np.random.default_rng(8), np.random.SeedSequence(5).spawn(1)[0]):
        run = population_risk(TASK, SOFTMAX, OVERLAPS, 1000, seed=seed)
        assert run == population_risk(TASK, SOFTMAX, OVERLAPS, 1000, seed=run["seed"])
        assert run["risk"] != first["risk"]


def test_numpy_numbers_are_plain_numbers():
    task = {"kind": "spiked", "nu": np.int64(4), "length": np.int32(3), "noise": np.float64(0.4)}
    run = population_risk(task, SOFTMAX, OVERLAPS, np.int64(1000), seed=5, dimension=np.int64(16))
    assert run == population_risk(TASK, SOFTMAX, OVERLAPS, 1000, seed=5)


def test_dimension_does_not_matter():
    runs = [population_risk(TASK, SOFTMAX, OVERLAPS, 100_000, seed=60 + d, dimension=d) for d in (4, 5, 40)]
    rows = []
    for name in OBSERVABLES:
        total = sum(run[name].value for run in runs[:2]) / 2
        error = math.hypot(runs[0][name].error, runs[1][name].error) / 2
        theory = type(runs[0][name])(total, error, "standard error")
        rows.append(Comparison.of(name, {"dimension": 40}, theory, runs[2][name]))
        rows.append(Comparison.of(name, {"dimension": 5}, runs[0][name], runs[1][name]))
    assert ValidationReport(tuple(rows)).ok


@pytest.mark.parametrize(
    ("named", "formula"),
    [
        ({"kind": "softmax"}, {"kind": "normalized_kernel", "formula": "exp(x)"}),
        (
            {"kind": "softplus", "shift": 0.0, "formula": None},
            {"kind": "normalized_kernel", "formula": "softplus(x)"},
        ),
        ({"kind": "linear"}, {"kind": "elementwise", "formula": "1 + x"}),
        ({"kind": "erf", "shift": 0.3}, {"kind": "elementwise", "formula": "1 + erf(0.3 + x)"}),
        ({"kind": "erf"}, {"kind": "elementwise", "formula": "2*Phi(sqrt(2)*x)"}),
    ],
)
def test_named_activation_is_its_formula(named, formula):
    """The samples are the same, so the numbers agree to rounding (1e-12)."""
    one, other = (
        population_risk(RANDOM, activation, OVERLAPS, 5000, seed=9) for activation in (named, formula)
    )
    for name in OBSERVABLES:
        assert one[name].value == pytest.approx(other[name].value, rel=1e-12)
        assert one[name].error == pytest.approx(other[name].error, rel=1e-10)


def test_constant_formula():
    run = population_risk(TASK, {"kind": "elementwise", "formula": "1/2"}, OVERLAPS, 1000, seed=9)
    assert numbers(run)["A"] == (0.5, 0.0) and numbers(run)["B"] == (0.75, 0.0)


@pytest.mark.parametrize(("task", "m_k"), [(TASK, 2.0), (RANDOM, 2.0)], ids=["spiked", "max"])
def test_matched_softmax_is_the_posterior_mean(task, m_k):
    """Sample by sample: the same estimator, computed from other fields (1e-12)."""
    matched = {"m_k": m_k, "q_k": m_k**2, "m_v": 1.0, "q_v": 1.0}
    run = population_risk(task, SOFTMAX, matched, 20_000, seed=10)
    assert run["risk"].value == pytest.approx(run["bayes_risk_mse"].value, rel=1e-12)


def test_label_noise():
    with_noise = population_risk(TASK, SOFTMAX, OVERLAPS, 100_000, seed=11)
    excess = population_risk(TASK, SOFTMAX, OVERLAPS, 100_000, seed=11, excess=True)
    noiseless = population_risk(TASK | {"noise": 0.0}, SOFTMAX, OVERLAPS, 100_000, seed=11)
    assert numbers(excess) == numbers(noiseless)
    # the posterior variance gains exactly noise**2 (1e-13); a squared error up to sampling
    assert with_noise["bayes_risk"].value - excess["bayes_risk"].value == pytest.approx(0.16, abs=1e-13)
    for name in ("risk", "bayes_risk_mse"):
        difference = with_noise[name].value - excess[name].value
        assert abs(difference - 0.16) < 4 * with_noise[name].error
    assert with_noise["A"] == excess["A"] and with_noise["B"] == excess["B"]
