"""Replica equations beside training: order parameters, losses and risk, extrapolated to infinite dimension.

Points and sizes are fixed in the package. Tolerance: |z| <= 4 with joint standard errors where replica symmetry
is reported stable.
"""

from __future__ import annotations

import math

import pytest

from theorykit.results import Estimate
from theorykit.single_location.trained_points import FAST_POINTS, POINTS, QUANTITIES, extrapolate, measure


def scores(point, trials, seed, **options):
    theory, measured = point.theory(**options), measure(point, trials, seed)
    found = {}
    for name in QUANTITIES:
        value = theory.values[name]
        found[name] = (value - measured[name]) / math.hypot(value.error, measured[name].error)
    return theory, measured, found


def test_list_covers_what_it_promises():
    assert len(POINTS) == len(set(POINTS)) == 48
    pairs = {(p.task, p.activation.name) for p in POINTS}
    assert len(pairs) == 24
    assert {p.task.nu for p in POINTS} == {1, 2, 4, math.inf}
    assert {p.task.lengths[0][0] for p in POINTS} == {2, 3}
    assert min(p.alpha for p in POINTS) == 0.5 and max(p.alpha for p in POINTS) == 50
    assert len({(p.ridge_k, p.ridge_v) for p in POINTS}) >= 4


def test_extrapolation_removes_a_term_in_one_over_the_dimension():
    small, large = Estimate(1 + 3 / 50, 0.1, "standard error"), Estimate(1 + 3 / 100, 0.2, "standard error")
    found = extrapolate(small, large, (50, 100))
    assert found.value == pytest.approx(1, rel=1e-14)
    assert found.error == pytest.approx(math.hypot(0.4, 0.1))


@pytest.mark.parametrize("index", range(len(FAST_POINTS)))
def test_theory_and_training_agree(index):
    theory, _, found = scores(FAST_POINTS[index], trials=12, seed=1000 + 10 * index, nodes=2**11)
    assert theory.rs_stable
    assert max(abs(z) for z in found.values()) <= 4, found


def test_a_wrong_theory_is_found():
    """A quarter of the penalty on the value: training says so."""
    from dataclasses import replace

    point = FAST_POINTS[1]
    wrong = replace(point, ridge_v=0.25 * point.ridge_v).theory(nodes=2**11)
    measured = measure(point, 12, 1010)
    gaps = [
        abs(wrong.values[n] - measured[n]) / math.hypot(measured[n].error, wrong.values[n].error)
        for n in QUANTITIES
    ]
    assert max(gaps) > 6, gaps


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(POINTS)))
def test_theory_and_training_agree_everywhere(index):
    theory, measured, found = scores(POINTS[index], trials=20, seed=5000 + 10 * index)
    if theory.rs_stable:
        assert max(abs(z) for z in found.values()) <= 4, found
    else:  # by how much theory and training differ is the finding; energies stay close
        relative = {n: float(theory.values[n] / measured[n] - 1) for n in QUANTITIES}
        print(f"replica symmetry unstable at {POINTS[index]}: theory/training - 1 = {relative}")
        assert abs(relative["objective"]) < 0.1, relative
