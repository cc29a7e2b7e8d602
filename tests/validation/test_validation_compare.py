"""z-scores, verdicts, and the check of all z together."""

from __future__ import annotations

import io
import json
import math
import pickle

import numpy as np
import pytest
from scipy import stats

from theorykit.results import Estimate
from theorykit.validation.compare import Comparison, ValidationReport


def simulated(value, error):
    return Estimate(value, error, "standard error")


def row(z, name="risk", error=0.1, **parameters):
    return Comparison.of(name, parameters, 1.0 + z * error, simulated(1.0, error), threshold=1e9)


def normal_rows(count, scale=1.0, seed=1):
    scores = scale * np.random.default_rng(seed).standard_normal(count)
    return tuple(row(float(z), point=i) for i, z in enumerate(scores))


def test_z_adds_errors_in_quadrature():
    one = Comparison.of("risk", {"nu": 2.0}, Estimate(1.0, 0.4, "bound"), simulated(0.0, 0.3))
    assert one.z == pytest.approx(2.0, rel=1e-14) and one.ok
    assert Comparison.of("risk", {}, 1.0, simulated(0.0, 0.3)).z == pytest.approx(1 / 0.3, rel=1e-14)


@pytest.mark.parametrize(("z", "ok"), [(3.99, True), (-3.99, True), (4.01, False), (-4.01, False)])
def test_threshold(z, ok):
    one = Comparison.of("risk", {}, z, simulated(0.0, 1.0))
    assert one.ok is ok
    assert Comparison.of("risk", {}, z, simulated(0.0, 1.0), threshold=5.0).ok
    # a report does not accept what was compared more leniently
    assert ValidationReport((row(z),)).passes(row(z)) is ok


def test_constants_are_compared_to_rounding():
    assert Comparison.of("A", {}, 0.0, simulated(0.0, 0.0)).z == 0.0
    assert Comparison.of("A", {}, 1.0 + 2**-52, simulated(1.0, 0.0)).ok
    assert not Comparison.of("A", {}, 1.0 + 2**-42, simulated(1.0, 0.0)).ok
    assert not Comparison.of("A", {}, 1e-300, simulated(0.0, 0.0)).ok


@pytest.mark.parametrize("theory", [math.nan, math.inf])
def test_theory_must_be_finite(theory):
    with pytest.raises(ValueError, match="theory of risk must be a real number"):
        Comparison.of("risk", {}, theory, simulated(1.0, 0.1))


def test_simulation_must_have_a_standard_error():
    with pytest.raises(TypeError, match=r"simulation of risk must be an Estimate, got 1\.0"):
        Comparison.of("risk", {}, 1.0, 1.0)
    with pytest.raises(ValueError, match="must be of kind 'standard error', got 'bound'"):
        Comparison.of("risk", {}, 1.0, Estimate(1.0, 0.1, "bound"))
    with pytest.raises(ValueError, match="threshold must be"):
        Comparison.of("risk", {}, 1.0, simulated(1.0, 0.1), threshold=0.0)


def test_rows_are_values():
    one = row(1.0, nu=2.0)
    assert one == row(1.0, nu=2.0) and hash(one) == hash(row(1.0, nu=2.0))
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(AttributeError):
        one.z = 0.0
    report = ValidationReport([one, row(-2.0, nu=3.0)])
    assert pickle.loads(pickle.dumps(report)) == report and hash(report) == hash(
        pickle.loads(pickle.dumps(report))
    )


def test_an_empty_report_is_refused():
    with pytest.raises(ValueError, match="at least one comparison"):
        ValidationReport(())
    with pytest.raises(TypeError, match="rows must hold comparisons, got 1"):
        ValidationReport((1,))


def test_honest_report():
    report = ValidationReport(normal_rows(40))
    scores = [one.z for one in report.rows]
    assert report.ok and report.plausible and report.failures == ()
    assert report.rms_z == pytest.approx(math.sqrt(np.mean(np.square(scores))), rel=1e-12)
    assert abs(report.worst.z) == max(map(abs, scores))
    assert report.degrees_of_freedom == 40
    total = float(np.sum(np.square(scores)))
    expected = 2 * min(stats.chi2.sf(total, 40), stats.chi2.cdf(total, 40))
    assert report.p_value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("scale", "words"),
    [(0.3, "too small: errors overstated"), (1.9, "too large")],
    ids=["hidden", "understated"],
)
def test_implausible_errors_fail(scale, words):
    """Every row passes, yet the errors cannot be right."""
    report = ValidationReport(normal_rows(40, scale), threshold=8.0)
    assert report.failures == () and not report.plausible and not report.ok
    assert report.verdict.startswith("FAILED") and words in report.verdict


def test_one_simulation_counts_once():
    """Ten times the same number is no more evidence than one: z = 2.5 with one degree of freedom."""
    report = ValidationReport(tuple(row(2.5, name=f"moment {i}", nu=1.0) for i in range(10)))
    assert report.degrees_of_freedom == 1
    assert report.p_value == pytest.approx(2 * stats.chi2.sf(6.25, 1), rel=1e-9)
    assert report.ok


def test_rows_without_sampling_error_do_not_dilute():
    constants = tuple(row(0.0, error=0.0, point=i) for i in range(100))
    report = ValidationReport((row(2.0, nu=1.0), *constants))
    assert report.rms_z == pytest.approx(2.0, rel=1e-12) and report.degrees_of_freedom == 1
    assert ValidationReport(constants).ok and ValidationReport(constants).p_value == 1.0


def test_wrong_row_is_named():
    report = ValidationReport((*normal_rows(10), row(6.0, name="B", nu=4.0)), title="softmax")
    assert not report.ok and report.worst.name == "B" and [one.name for one in report.failures] == ["B"]
    text = str(report)
    assert text.splitlines()[0] == "softmax"
    assert next(line for line in text.splitlines() if line.startswith("B ")).endswith("+6.00  FAILED")
    assert "FAILED: 10 of 11 rows" in text


def test_plain_text_is_aligned():
    lines = str(
        ValidationReport((row(1.0, nu=math.inf, length={1: 0.5, 2: 0.5}), row(-2.0, nu=1)))
    ).splitlines()
    table = lines[1:-1]
    column = table[0].index("theory")
    assert all(line[column - 1] == " " and line[column] != " " for line in table)
    assert "nu=inf, length={1: 0.5, 2: 0.5}" in table[2]


def test_to_dict_is_json():
    rows = (
        Comparison.of(
            "risk", {"nu": math.inf, "length": {1: 0.5, 3: 0.5}}, Estimate(0.5, 1e-9), simulated(0.4, 0.1)
        ),
        Comparison.of("A", {"nu": np.float64(2.0), "task": "max"}, 0.5, simulated(0.9, 0.05)),
    )
    data = json.loads(json.dumps(ValidationReport(rows).to_dict(), allow_nan=False))
    assert data["ok"] is False and data["worst"] == "A" and data["threshold"] == 4.0
    first, second = data["rows"]
    assert first["parameters"] == {"nu": "inf", "length": {"1": 0.5, "3": 0.5}}
    assert (first["theory"], first["theory_error"]) == (0.5, 1e-9)
    assert (second["simulation"], second["simulation_error"]) == (0.9, 0.05)
    assert second["z"] == pytest.approx(-8.0) and second["ok"] is False and second["parameters"]["nu"] == 2.0


def test_rich_table_shows_every_row():
    from rich.console import Console

    console = Console(width=140, record=True, file=io.StringIO())
    report = ValidationReport((row(1.0, nu=2.0), row(9.0, name="B [red]", nu=3.0)))
    console.print(report)
    text = console.export_text()
    assert "nu=2" in text and "+1.00" in text and "B [red]" in text and text.count("FAILED") == 2


def doubtful(z, **parameters):
    return Comparison.of("risk", parameters, 1.0 + 0.1 * z, simulated(1.0, 0.1), doubt="symmetry is unstable")


def test_doubtful_rows_are_shown_and_not_judged():
    report = ValidationReport((*normal_rows(20), doubtful(30.0, point=99)))
    alone = ValidationReport(normal_rows(20))
    assert report.ok and report.rows[-1].ok
    assert (report.rms_z, report.p_value, report.worst) == (alone.rms_z, alone.p_value, alone.worst)
    assert report.degrees_of_freedom == 20
    assert report.table()[-1][-1] == "off by +3e+02 %, not judged: symmetry is unstable"
    assert report.verdict.startswith("ok: 20 of 20 rows") and report.verdict.endswith("1 row is not judged")
    assert [line["doubt"] for line in report.to_dict()["rows"]][-2:] == ["", "symmetry is unstable"]


def test_a_doubt_saves_no_other_row():
    assert not ValidationReport((row(4.5, point=1), doubtful(0.0, point=2))).ok


def test_where_every_row_is_doubtful_the_verdict_says_so():
    assert ValidationReport((doubtful(1.0),)).verdict == "no verdict; 1 row is not judged"


def test_relative_difference():
    assert Comparison.of("risk", {}, 1.1, simulated(1.0, 0.1)).relative == pytest.approx(0.1)
    assert Comparison.of("risk", {}, 0.0, simulated(0.0, 0.1)).relative == 0
    assert Comparison.of("risk", {}, -1.0, simulated(0.0, 0.1)).relative == -math.inf
