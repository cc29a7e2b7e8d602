"""The simulator against the reference values of single-location regression and against closed forms.

Points, seeds and the threshold |z| <= 4 were fixed before any was run. The numbers come from quadrature or
closed forms, never from this package.
"""

from __future__ import annotations

import functools
import math

import pytest

from theorykit.results import Estimate
from theorykit.validation.compare import Comparison, ValidationReport
from theorykit.validation.simulate.single_location import population_risk

INF = math.inf
SOFTMAX, LINEAR, SOFTPLUS = {"kind": "softmax"}, {"kind": "linear"}, {"kind": "softplus"}


def spiked(nu, length, noise=0.0):
    return {"kind": "spiked", "nu": nu, "length": length, "noise": noise}


def maximum(nu, length, noise=0.0):
    return {"kind": "max", "nu": nu, "length": length, "noise": noise}


def erf(shift):
    return {"kind": "erf", "shift": shift}


def aligned(m_k, m_v=1.0):
    return {"m_k": m_k, "q_k": m_k**2, "m_v": m_v, "q_v": m_v**2}


def linear_moments_spiked(nu, length, m_k, q_k):
    root = math.sqrt(nu)
    return {"A": 1 + root * m_k, "B": length * (1 + q_k) + nu * m_k**2 + 2 * root * m_k}


def bayes(task, size, value):
    """Softmax matched to the task: its risk is the Bayes risk."""
    return task, SOFTMAX, aligned(size), {"risk": value, "bayes_risk": value}


MU_3 = 1.5 / math.sqrt(math.pi)  # mean of the largest of three standard normal numbers
MU_3_AT_4 = 4 * 0.201056739779  # nu times the Bayes risk
LINEAR_SPIKED = linear_moments_spiked(4, 3, 4 / 3, 16 / 9)
GENERIC_LINEAR = linear_moments_spiked(2.5, 4, -0.6, 0.9)
MISALIGNED = {"m_k": 1.6, "q_k": 3.6, "m_v": 0.9, "q_v": 1.1}
UNIFORM_3 = {1: 1 / 3, 2: 1 / 3, 3: 1 / 3}
MU_UNIFORM_3 = (0 + 1 / math.sqrt(math.pi) + MU_3) / 3
LOGISTIC = {"kind": "elementwise", "formula": "1/(1 + 2*exp(2 - 2*x))"}
SQUARED_PHI = {"kind": "elementwise", "formula": "Phi(x)**2"}

# name: (task, activation, overlaps, expected). A number in a name is the one of the reference table.
POINTS = {
    "1 spiked": bayes(spiked(1, 2), 1, 0.324943297662),
    "2 spiked": bayes(spiked(4, 2), 2, 0.115509110965),
    "3 spiked": bayes(spiked(4, 3), 2, 0.194123973657),
    "4 spiked": bayes(spiked(9, 5), 3, 0.0813549837501),
    "5 a million tokens": (spiked(25, 10**6), SOFTMAX, aligned(5), {"bayes_risk": 0.562670657173}),
    "6 max": bayes(maximum(2, 2), 2, 0.240012127168),
    "7 max": bayes(maximum(4, 3), 4, 0.201056739779),
    "8 max, a million tokens": (maximum(2, 10**6), SOFTMAX, aligned(2), {"bayes_risk": 0.999945685077}),
    "9 linear spiked": (
        spiked(4, 3),
        LINEAR,
        aligned(4 / 3, LINEAR_SPIKED["A"] / LINEAR_SPIKED["B"]),
        {"risk": 6 / 17} | LINEAR_SPIKED,
    ),
    "10 linear max": (
        maximum(INF, 3),
        LINEAR,
        aligned(MU_3, 1 / 3),
        {"risk": 0.427934252029, "A": 1 + MU_3**2, "B": 3 * (1 + MU_3**2)},
    ),
    "10 linear max, finite": (maximum(4, 3), LINEAR, aligned(MU_3_AT_4, 1 / 3), {"risk": 0.451072999410}),
    "11 best elementwise": (spiked(4, 3), LOGISTIC, aligned(1), {"risk": 0.310232212489}),
    "12 erf": (spiked(4, 2), erf(0.0), aligned(0.655310769, 0.387829342), {"risk": 0.291823186783}),
    "13 erf": (spiked(4, 3), erf(-1.128735717), aligned(0.844068088), {"best_value_risk": 0.310356747563}),
    "14 softplus": (spiked(4, 3), SOFTPLUS, aligned(4.78491, 1.06968), {"risk": 0.234405124682}),
    "15 softmax": (
        spiked(4, 3),
        SOFTMAX,
        MISALIGNED,
        {
            "A": 0.740481305984,
            "B": 0.754902171113,
            "risk": 1 - 1.8 * 0.740481305984 + 1.1 * 0.754902171113,
            "best_value_risk": 1 - 0.740481305984**2 / 0.754902171113,
        },
    ),
    "16 softplus": (spiked(4, 3), SOFTPLUS, MISALIGNED, {"A": 0.618063911353, "B": 0.553327782729}),
    "17 softmax": (maximum(2, 2), SOFTMAX, aligned(1.5), {"A": 0.731866701994, "B": 0.707882807342}),
    "18 softplus": (maximum(2, 2), SOFTPLUS, aligned(1.5), {"A": 0.689886634938, "B": 0.644258051649}),
    "19 softmax": (maximum(INF, 4), SOFTMAX, aligned(2), {"A": 0.685869979476, "B": 0.574413955979}),
    "20 erf": (
        maximum(4, 3),
        erf(0.3),
        {"m_k": 1.5, "q_k": 2.5, "m_v": 0.2, "q_v": 0.3},
        {
            "A": 1.702258669509,
            "B": 5.723624148976,
            "risk": 1 - 0.4 * 1.702258669509 + 0.3 * 5.723624148976,
        },
    ),
    "29 random length": bayes(spiked(4, UNIFORM_3), 2, 0.103211028207),
    "linear max, random length": (
        maximum(INF, UNIFORM_3),
        LINEAR,
        aligned(MU_UNIFORM_3, 0.5),
        {"risk": 0.389475734, "A": 1 + MU_UNIFORM_3**2, "B": 2 * (1 + MU_UNIFORM_3**2)},
    ),
    "best elementwise max": (maximum(INF, 3), SQUARED_PHI, aligned(1), {"risk": 0.4, "A": 0.6, "B": 0.6}),
    "linear spiked, generic": (
        spiked(2.5, 4, 0.4),
        LINEAR,
        {"m_k": -0.6, "q_k": 0.9, "m_v": 0.3, "q_v": 0.2},
        GENERIC_LINEAR | {"risk": 0.16 + 1 - 0.6 * GENERIC_LINEAR["A"] + 0.2 * GENERIC_LINEAR["B"]},
    ),
    "one token": (
        spiked(4, 1, 0.5),
        SOFTMAX,
        {"m_k": 1, "q_k": 2, "m_v": 0.5, "q_v": 1.5},
        {"A": 1.0, "B": 1.0, "risk": 0.25 + 1 - 1.0 + 1.5, "bayes_risk": 0.25, "best_value_risk": 0.25},
    ),
    "no signal": (
        spiked(0, 3, 0.5),
        SOFTMAX,
        aligned(0),
        {"A": 1 / 3, "B": 1 / 3, "risk": 0.25 + 2 / 3, "bayes_risk": 0.25 + 2 / 3},
    ),
    "argmax is known": (maximum(INF, 5, 0.5), SOFTMAX, aligned(0), {"bayes_risk": 0.25}),
}


@functools.cache
def compared(name: str) -> tuple[Comparison, ...]:
    task, activation, overlaps, expected = POINTS[name]
    samples, dimension = (12, 4) if task["length"] == 10**6 else (200_000, 8)
    seed = 20250921 + list(POINTS).index(name)
    fitted = "best_value_risk" in expected
    found = population_risk(task, activation, overlaps, samples, seed, dimension, best_value=fitted)
    if "bayes_risk" in expected:
        expected = expected | {"bayes_risk_mse": expected["bayes_risk"]}
    return tuple(Comparison.of(key, {"point": name}, value, found[key]) for key, value in expected.items())


@pytest.mark.parametrize("name", POINTS)
def test_reference_value(name):
    for row in compared(name):
        assert row.ok, f"{row.name}: {row.theory} against {row.simulation}, z = {row.z:.2f}"


def test_all_reference_values_together():
    report = ValidationReport(tuple(row for name in POINTS for row in compared(name)))
    assert report.ok, str(report)
    assert report.degrees_of_freedom >= 25


@pytest.mark.parametrize(
    ("name", "quantity", "wrong"),
    [
        ("10 linear max", "risk", 1 - MU_3**2 / 3),  # the constant of the activation forgotten
        ("9 linear spiked", "risk", 1 / 3),  # 6/18: nu (L - 1) replaced by nu (L - 1) + 1
        ("20 erf", "B", 5.723624148976 * 1.01),
        ("11 best elementwise", "risk", 0.310232212489 - 0.01),
        ("29 random length", "risk", 0.115509110965),  # the length replaced by its mean
        ("one token", "A", 1.0 + 1e-9),  # no sampling error: any difference counts
    ],
)
def test_wrong_number_fails(name, quantity, wrong):
    (row,) = [row for row in compared(name) if row.name == quantity]
    spoiled = Comparison.of(row.name, row.parameters, wrong, row.simulation)
    assert not spoiled.ok
    rows = tuple(spoiled if other is row else other for other in compared(name))
    report = ValidationReport(rows)
    assert not report.ok and report.worst is spoiled and report.failures == (spoiled,)


def test_standard_errors_are_calibrated():
    """60 independent runs: z-scores of the right size, which errors 1.6 times off do not give."""
    value = 0.194123973657
    runs = [
        population_risk(spiked(4, 3), SOFTMAX, aligned(2.0), 4000, seed=seed, dimension=4)
        for seed in range(60)
    ]
    rows = [Comparison.of("risk", {"seed": run["seed"]}, value, run["risk"]) for run in runs]
    assert ValidationReport(tuple(rows)).ok
    for factor in (1.6, 1 / 1.6):
        errors = [
            Estimate(row.simulation.value, factor * row.simulation.error, "standard error") for row in rows
        ]
        pairs = zip(rows, errors, strict=True)
        changed = [
            Comparison.of("risk", row.parameters, value, other, threshold=99.0) for row, other in pairs
        ]
        assert not ValidationReport(tuple(changed), threshold=99.0).ok
