"""Theory of the interpolation error beside the finite model, at points fixed beforehand."""

from __future__ import annotations

import math
import statistics

import pytest

from theorykit import interpolation as ip
from theorykit.interpolation.validation_points import (
    CASES,
    OTHER_DRAWS,
    QUICK,
    predict,
    simulate_case,
    validation_points,
)
from theorykit.results import Estimate
from theorykit.theory import Theory
from theorykit.validation.compare import Comparison
from theorykit.validation.run import validate


def test_the_points_cover_what_the_theory_distinguishes():
    assert len(CASES) >= 30
    models = [case.model for case in CASES]
    assert {case.noise for case in CASES} == {"gaussian", "rademacher", "uniform", "student5"}
    assert {case.model.centering for case in CASES if case.attention == "softmax"} == {
        "none",
        "row",
        "column",
    }
    assert {m.label_mean != 0 for m in models} == {True, False}
    assert len({m.formula for m in models}) >= 8
    assert len({m.ratio for m in models}) >= 4
    assert len(set(map(repr, CASES))) == len(CASES)


def test_the_theory_is_validated_at_these_points():
    validated = [p.parameters["model"] for p in ip.THEORY.validation_points]
    assert len(validated) >= 30
    assert {repr(case.model) for case in OTHER_DRAWS} <= set(validated)


@pytest.fixture(scope="module")
def quick():
    """Prediction and simulation of the quick cases at n = 400, where the stated bias is 1.6 times that at 1000."""
    return [(predict(CASES[i], 400), simulate_case(CASES[i], 400, 12, 100 + i)) for i in QUICK]


def test_quick_points(quick):
    for predicted, found in quick:
        for name, value in predicted.items():
            assert Comparison.of(name, {}, value, found[name]).ok, (name, value, found[name])


def test_the_errors_of_the_quick_points_tell_theories_apart(quick):
    """An error 20 % off, or that of linear regression, is refused at most points."""
    name = "interpolation_error"
    wrong = [
        not Comparison.of(name, {}, Estimate(1.2 * p[name], p[name].error), s[name]).ok for p, s in quick
    ]
    assert sum(wrong) >= 4


def test_a_theory_record_of_these_points_is_validated_and_a_wrong_one_is_not():
    cases = (CASES[0], CASES[7])
    good = Theory("good", "good", {}, validation_points=validation_points(cases, tokens=200, trials=8))
    report = validate(good, seed=3)
    assert report.ok
    assert len(report.rows) == 4

    def double(point):
        return {name: Estimate(2 * v, v.error) for name, v in point.items()}

    points = validation_points(cases, tokens=200, trials=8)
    bad = tuple(type(p)(p.parameters, lambda p=p: double(p.theory()), p.simulate, p.trials) for p in points)
    assert not validate(Theory("bad", "bad", {}, validation_points=bad), seed=3).ok


def test_outliers_beside_simulated_eigenvalues():
    """The signal's eigenvalue of tanh features, within 3 standard errors and a stated bias of 10 % at n = 300."""
    model = ip.Attention("tanh(x)", ratio=0.5, ridge=1.0, signal=1.0)
    found = ip.simulate(model, tokens=300, trials=20, seed=5).largest_eigenvalue
    limit = ip.outliers(model)[-1]
    assert abs(found - limit) < 3 * found.error + 0.1 * limit
    bulk = ip.density(model, [1.2 * limit])["density"].item()
    assert bulk < 1e-12  # outside of it


def test_density_beside_simulated_eigenvalues():
    """Distribution functions at n = 400; stated beforehand: at most 0.02 apart."""
    import numpy as np

    model = ip.Attention("relu(x)", ratio=0.5, ridge=1.0)
    grid = ip.spectral_grid(model, 400)
    data = ip.density(model, grid)
    y = data["density"].values
    area = np.concatenate([[0.0], np.cumsum((y[1:] + y[:-1]) / 2 * np.diff(grid))])
    theory = float(data["atom_mass"]) + area
    drawn = np.sort(ip.simulate_spectrum(model, 400, 2, seed=1).ravel())
    empirical = np.searchsorted(drawn, grid, side="right") / drawn.size
    assert theory[-1] == pytest.approx(1.0, abs=3e-3)
    assert float(np.max(np.abs(theory - empirical))) < 0.02


@pytest.mark.slow
def test_all_points_and_their_trend():
    """|z| at most 4, or a deviation below the stated bias; the deviations shrink from n = 1000 to 2000."""
    typical = {}
    for tokens, trials in ((1000, 16), (2000, 8)):
        deviations = []
        for index, case in enumerate(CASES):
            predicted, found = predict(case, tokens), simulate_case(case, tokens, trials, index)
            theory, simulated = predicted["interpolation_error"], found["interpolation_error"]
            gap = abs(theory - simulated)
            assert gap <= max(4 * simulated.error, case.allowed(tokens) * theory), (case, theory, simulated)
            freedom, drawn = predicted["degrees_of_freedom"], found["degrees_of_freedom"]
            assert abs(freedom - drawn) <= freedom.error + 4 * drawn.error, (case, freedom, drawn)
            deviations.append(abs(freedom / drawn - 1))
        typical[tokens] = statistics.median(deviations)
    assert typical[2000] < 0.8 * typical[1000]
    assert math.isfinite(typical[1000])
