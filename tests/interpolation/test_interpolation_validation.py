"""Theory of the interpolation error beside the finite model, at points fixed beforehand."""

from __future__ import annotations

import math
import statistics

import pytest

from theorykit import interpolation as ip
from theorykit.interpolation.validation_points import (
    CASES,
    QUICK,
    calibrate,
    predict,
    simulate_case,
    validation_points,
)
from theorykit.results import Estimate
from theorykit.theory import Theory
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
    assert validated == [repr(case.model) for case in CASES]


@pytest.mark.parametrize("position", [4, 10])
def test_the_measured_deviations_are_measured_again(position):
    assert calibrate(position) == pytest.approx(CASES[position].measured, abs=2e-4)


@pytest.mark.slow
def test_all_measured_deviations_are_measured_again():
    for position, case in enumerate(CASES):
        assert calibrate(position) == pytest.approx(case.measured, abs=2e-4), case


def test_allowed_deviations_shrink_like_the_root_of_the_size():
    case = CASES[4]
    assert case.allowed(2000).error == pytest.approx(case.measured.error / 2)
    assert case.allowed(250).error == pytest.approx(case.measured.error * 2)


def agrees(case, tokens, found, factor=1.0):
    """Whether E (times a factor) and degrees of freedom are within 4 standard errors and the deviation allowed for."""
    predicted, allowed = predict(case, tokens), case.allowed(tokens)
    values = {
        "interpolation_error": (factor * float(predicted["interpolation_error"]), allowed.error),
        "degrees_of_freedom": (float(predicted["degrees_of_freedom"]), allowed.freedom),
    }
    return all(
        abs(value - found[name]) <= math.hypot(4 * found[name].error, share * value)
        for name, (value, share) in values.items()
    )


@pytest.fixture(scope="module")
def quick():
    """The quick cases, simulated at n = 400."""
    return [(CASES[i], simulate_case(CASES[i], 400, 12, 100 + i)) for i in QUICK]


def test_quick_points(quick):
    for case, found in quick:
        assert agrees(case, 400, found), (case, found)


def test_the_quick_points_tell_theories_apart(quick):
    """An error 20 % off, or that of linear regression, is refused at most points."""
    assert sum(not agrees(case, 400, found, 1.2) for case, found in quick) >= 4


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


def _relative(formula, tokens, trials, seed=7):
    """Deviation of E from the limit at a strong signal, on draws that all formulas share, and its standard error."""
    model = ip.Attention(formula, ratio=0.5, ridge=0.1, signal=2.0)
    limit = float(ip.interpolation_error(model))
    baseline = float(ip.linear_regression_error(ratio=0.5, ridge=0.1, signal=2.0))
    found = ip.simulate(model, tokens, trials, seed=seed).controlled_error(baseline)
    return limit, float(found) / limit - 1, found.error / limit


def _with_rest(third, fifth):
    """The linear part and second moment of sin; its remainder in the third or fifth Hermite polynomial."""
    a_1 = math.exp(-0.5)
    rest = math.sqrt((1 - math.exp(-2)) / 2 - a_1**2)
    k, m = third * rest / math.sqrt(6), fifth * rest / math.sqrt(120)
    return f"{a_1!r}*x + {k!r}*(x**3 - 3*x) + {m!r}*(x**5 - 10*x**3 + 15*x)"


def test_the_deviation_at_a_strong_signal_is_the_cubic_term():
    """One limit for four formulas: the deviation has the sign of a_3, and is small where a_3 vanishes."""
    found = {
        name: _relative(formula, 400, 48)
        for name, formula in {
            "sin": "sin(x)",
            "plus": _with_rest(1, 0),
            "minus": _with_rest(-1, 0),
            "none": _with_rest(0, 1),
        }.items()
    }
    limits = [limit for limit, _, _ in found.values()]
    assert limits == pytest.approx([limits[0]] * 4, rel=1e-12)
    assert found["plus"][1] > 4 * found["plus"][2]
    assert found["minus"][1] < -4 * found["minus"][2]
    assert found["sin"][1] < -4 * found["sin"][2]
    assert abs(found["none"][1]) < abs(found["sin"][1]) / 3


def test_the_deviation_at_a_strong_signal_vanishes_like_one_over_the_size():
    """From n = 200 to 800 by a factor of 4, within 3 standard errors of the ratio and at least by 2.5."""
    _, few, few_error = _relative("sin(x)", 200, 192, seed=8)
    _, many, many_error = _relative("sin(x)", 800, 48, seed=9)
    ratio = few / many
    error = abs(ratio) * math.hypot(few_error / few, many_error / many)
    assert few < -10 * few_error
    assert ratio == pytest.approx(4, abs=3 * error)
    assert ratio > 2.5


@pytest.mark.slow
def test_all_points_and_their_trend():
    """|z| at most 4 with the deviation that n = 500 allows for; deviations shrink from n = 1000 to 2000."""
    typical, strong = {}, {}
    for tokens, trials in ((1000, 16), (2000, 8)):
        freedom, error = [], []
        for index, case in enumerate(CASES):
            predicted, found = predict(case, tokens), simulate_case(case, tokens, trials, index)
            assert agrees(case, tokens, found), (case, tokens, predicted, found)
            theory, drawn = (float(v["degrees_of_freedom"]) for v in (predicted, found))
            freedom.append(abs(drawn / theory - 1))
            if case.measured.error > 0.05 and case.noise == "gaussian" and case.model.label_mean == 0:
                theory, drawn = (float(v["interpolation_error"]) for v in (predicted, found))
                error.append(abs(drawn / theory - 1))
        typical[tokens], strong[tokens] = statistics.median(freedom), statistics.mean(error)
    assert typical[2000] < 0.8 * typical[1000]
    assert strong[2000] < 0.8 * strong[1000]
