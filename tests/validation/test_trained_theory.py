"""Replica equations beside training: order parameters, losses and risk, extrapolated to infinite dimension.

Points and sizes are fixed in the package. Tolerance: |z| <= 4 with joint standard errors where replica symmetry
is reported stable, and errors of the theory at most twice those of training; elsewhere the difference is printed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import theorykit as tk
from theorykit.errors import ConvergenceError
from theorykit.results import Estimate
from theorykit.single_location.trained_points import (
    FAST_POINTS,
    POINTS,
    QUANTITIES,
    TRIALS,
    TrainedPoint,
    extrapolate,
    measure,
)
from theorykit.theory import Theory

FAST = Theory("fast", "Six points", {}, studies={"training": lambda: tuple(map(quick, FAST_POINTS))})


def quick(point):
    return point.validation(nodes=2**11)


def test_list_covers_what_it_promises():
    assert len(POINTS) == len(set(POINTS)) == 48
    assert TRIALS == 20
    met = {(p.task.name, p.task.nu, p.task.length, p.activation.name) for p in POINTS}
    tasks = [("spiked", 1), ("spiked", 2), ("spiked", 4), ("max", 2), ("max", math.inf)]
    for task, nu in tasks:
        for length in (2, 3):
            for activation in ("softmax", "linear", "erf", "softplus"):
                assert (task, nu, length, activation) in met
    alphas = {p.alpha for p in POINTS}
    assert {0.5, 50} <= alphas and len(alphas) >= 6
    assert {(p.activation.name, p.alpha) for p in POINTS} >= {
        (name, alpha) for name in ("softmax", "linear", "erf", "softplus") for alpha in (0.5, 50)
    }
    assert len({p.ridge_k for p in POINTS}) >= 4 and len({p.ridge_v for p in POINTS}) >= 4


@pytest.mark.parametrize("first", [0, 10, 20, 30])
def test_every_ten_points_meet_every_task_and_activation(first):
    part = POINTS[first : first + 10]
    assert len({p.task for p in part}) == 10
    assert len({p.activation for p in part}) == 4


def test_extrapolation_removes_a_term_in_one_over_the_dimension():
    small, large = Estimate(1 + 3 / 50, 0.1, "standard error"), Estimate(1 + 3 / 100, 0.2, "standard error")
    found = extrapolate(small, large, (50, 100))
    assert found.value == pytest.approx(1, rel=1e-14)
    assert found.error == pytest.approx(math.hypot(0.4, 0.1))


def test_error_of_the_extrapolation_is_that_of_its_samples():
    """Weights of both sizes, on drawn numbers: the spread of many extrapolations is the stated error."""
    stream = np.random.default_rng(8)
    draws = [stream.normal(1.0, s, 20_000) for s in (0.3, 0.1)]
    pairs = (
        [Estimate(float(x), s, "standard error") for x in d[:2000]]
        for d, s in zip(draws, (0.3, 0.1), strict=True)
    )
    found = [extrapolate(a, b, (60, 90)) for a, b in zip(*pairs, strict=True)]
    assert np.std(found) == pytest.approx(found[0].error, rel=0.07)


@pytest.mark.parametrize("index", range(len(FAST_POINTS)))
def test_theory_and_training_agree(index):
    report = tk.validate(FAST, trials=12, seed=11, study="training", points=[index])
    assert [row.name for row in report.rows] == list(QUANTITIES)
    assert not any(row.doubt for row in report.rows), report
    assert report.ok, report


@cache
def measured():
    return measure(FAST_POINTS[1], 12, 1010)


@pytest.mark.parametrize("name, factor", [("ridge_v", 0.25), ("ridge_k", 3.0), ("alpha", 1.5)])
def test_a_wrong_theory_is_found(name, factor):
    """The theory of another problem: training says so."""
    point = FAST_POINTS[1]
    wrong = replace(point, **{name: factor * getattr(point, name)}).theory(nodes=2**11)
    gaps = [
        abs(wrong.values[n] - measured()[n]) / math.hypot(measured()[n].error, wrong.values[n].error)
        for n in QUANTITIES
    ]
    assert max(gaps) > 6, gaps


def test_fewer_nodes_where_jumps_keep_a_scrambling_from_its_fixed_point(monkeypatch):
    """Only then, and what cannot be solved either way is an error."""
    asked, solve = [], TrainedPoint.theory

    def rough(point, **options):
        asked.append(options)
        if options["nodes"] > most:
            raise ConvergenceError("jumps")
        return solve(point, **{**options, "nodes": 2**9, "scramblings": 2})

    monkeypatch.setattr(TrainedPoint, "theory", rough)
    predicted = FAST_POINTS[1].validation(nodes=2**13, scramblings=8).theory
    most = 2**12
    assert not predicted().doubt
    assert asked == [{"nodes": 2**13, "scramblings": 8}, {"nodes": 2**12, "scramblings": 4}]
    most = 0
    with pytest.raises(ConvergenceError):
        predicted()


def test_errors_are_small_where_the_stiffness_is_negative():
    """A key that learns next to nothing, and one node near a jump: V_hat_k < 0, and its share of jumps is small."""
    (point,) = (
        p for p in POINTS if p.activation.name == "softmax" and p.alpha == 0.5 and p.task.noise == 0.1
    )
    found = point.theory(nodes=2**13, scramblings=2)
    assert found.V_k > 1 / point.ridge_k
    assert 0 < found.jump_share < 0.1
    for name in QUANTITIES:
        assert found.values[name].error < 0.05 * found.values[name]


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(POINTS)))
def test_theory_and_training_agree_everywhere(index):
    report = tk.validate("single_location", seed=0, study="training", points=[index])
    print(report)  # where replica symmetry is unstable: by how much both differ
    assert report.ok, report
    for row in report.rows:
        if row.doubt:
            assert math.isfinite(row.relative)
        else:  # the theory says something: training limits the comparison
            assert row.theory.error <= 2 * row.simulation.error, row
