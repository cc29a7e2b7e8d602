"""Estimates print what they know and behave as floats; solutions and optima are immutable records."""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from theorykit.results import Estimate, Optimum, Solution, Status


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.11550911104, 1.3e-10, "0.1155091110(2)"),
        (0.11550911104, 2e-10, "0.1155091110(2)"),
        (0.11550911104, 2.0000001e-10, "0.1155091110(3)"),
        (0.5, 0.0, "0.5(0)"),
        (1.2344e-12, 5e-15, "1.234(5)e-12"),
        (9.9996e-12, 1e-15, "1.0000(1)e-11"),
        (-0.25, 0.003, "-0.250(3)"),
        (0.25, 0.0099, "0.25(1)"),
        (1234.0, 3.0, "1234(3)"),
        (1234.0, 30.0, "1.23(3)e+03"),
        (0.0, 2e-3, "0.000(2)"),
        (0.0, 2e-9, "0(2)e-09"),
        (1e-3, 0.2, "0.0(2)"),
        (-1e-3, 0.2, "0.0(2)"),
        (1e-12, 3e-5, "0(3)e-05"),
        (0.5, 300.0, "0(3)e+02"),
        (5e-324, 5e-324, "5(5)e-324"),
        (1e300, 1e290, "1.0000000000(1)e+300"),
    ],
)
def test_printed_form(value, error, text):
    estimate = Estimate(value, error)
    assert repr(estimate) == str(estimate) == f"{estimate}" == text


@given(st.floats(-1e300, 1e300, allow_nan=False), st.floats(1e-300, 1e300, allow_nan=False, exclude_min=True))
@example(0.3, 1e-300)
@example(9.5, 0.95)
def test_printed_interval_is_within_rounding_of_the_stated_one(value, error):
    """The digit shown is the error rounded up, and the value is rounded to that digit."""
    pattern = r"(-?[0-9]+)(?:\.([0-9]+))?\(([1-9])\)(?:e([+-][0-9]+))?"
    whole, decimals, digit, exponent = re.fullmatch(pattern, repr(Estimate(value, error))).groups()
    unit = Decimal(10) ** (int(exponent or 0) - len(decimals or ""))
    shown = Decimal(f"{whole}.{decimals or '0'}") * Decimal(10) ** int(exponent or 0)
    assert abs(shown - Decimal(value)) <= unit * Decimal("0.5000001")
    shown_error = int(digit) * unit
    assert shown_error >= Decimal(repr(error))
    resolution = Decimal(abs(value)) * Decimal(10) ** -15
    assert shown_error <= max(2 * Decimal(repr(error)), resolution)


def test_behaves_as_the_float_it_is():
    estimate = Estimate(0.25, 1e-9, "standard error")
    assert isinstance(estimate, float) and estimate == 0.25 and hash(estimate) == hash(0.25)
    assert type(estimate.value) is float and (estimate.error, estimate.kind) == (1e-9, "standard error")
    assert type(estimate + 1) is float and type(-estimate) is float and type(float(estimate)) is float
    assert json.loads(json.dumps({"risk": estimate})) == {"risk": 0.25}
    array = np.asarray([estimate, Estimate(1, 0)])
    assert array.dtype == np.float64 and array.tolist() == [0.25, 1.0]
    assert f"{estimate:.3f} {estimate:g}" == "0.250 0.25"
    assert sorted([Estimate(2, 0), Estimate(1, 5)]) == [1.0, 2.0]


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_estimates_can_be_copied_and_not_changed(clone):
    estimate = Estimate(0.1, 2e-3, "standard error")
    twin = clone(estimate)
    assert type(twin) is Estimate and (twin.value, twin.error, twin.kind) == (0.1, 2e-3, "standard error")
    with pytest.raises(AttributeError):
        estimate.error = 1.0


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((math.nan, 0.1), ValueError, "value must be a real number"),
        ((math.inf, 0.1), ValueError, "value must be a real number"),
        ((1.0, math.inf), ValueError, "error must be a real number"),
        ((1.0, math.nan), ValueError, "error must be a real number"),
        ((1.0, -0.1), ValueError, r"error must be a real number in \[0, inf\), got -0.1"),
        ((1.0, 0.1, "guess"), ValueError, "kind must be one of 'bound', 'standard error', got 'guess'"),
        (("1.0", 0.1), TypeError, "value must be a real number"),
    ],
)
def test_what_is_no_estimate(arguments, kind, message):
    with pytest.raises(kind, match=message):
        Estimate(*arguments)


def test_status_is_its_name_and_carries_a_message():
    assert Status.NOISE_FLOOR == "noise_floor" and Status("noise_floor") is Status.NOISE_FLOOR
    assert {status.name for status in Status} == {
        "CONVERGED",
        "NOISE_FLOOR",
        "MAX_STEPS",
        "NON_FINITE",
        "DOMAIN",
        "LIMIT",
    }
    messages = [status.message for status in Status]
    assert len(set(messages)) == len(messages) and all(len(message) > 10 for message in messages)
    assert pickle.loads(pickle.dumps(Status.LIMIT)) is Status.LIMIT
    assert json.dumps(Status.LIMIT) == '"limit"'


def _optimum(**changes):
    one = Estimate(1, 1e-9)
    settings = {"risk": Estimate(0.25, 1e-9), "m_k": one, "q_k": one, "m_v": one, "q_v": one}
    return Optimum(**(settings | changes))


def test_optimum_is_a_record():
    optimum = _optimum(m_k=math.inf, q_k=math.inf, attained=False, status="limit", evaluations=np.int64(7))
    assert optimum.status is Status.LIMIT and type(optimum.evaluations) is int
    assert pickle.loads(pickle.dumps(optimum)) == optimum and hash(optimum) == hash(copy.copy(optimum))
    assert repr(optimum).startswith("Optimum(risk=0.250000000(1), m_k=inf, q_k=inf, m_v=1.000000000(1)")
    with pytest.raises(AttributeError):
        optimum.risk = 0.0


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"m_k": math.inf}, ValueError),
        ({"q_v": math.nan, "attained": False}, ValueError),
        ({"risk": 0.25}, TypeError),
        ({"shift": math.inf}, ValueError),
        ({"shift": "0"}, TypeError),
        ({"attained": 1}, TypeError),
        ({"status": "fine"}, ValueError),
        ({"evaluations": -1}, ValueError),
    ],
)
def test_what_is_no_optimum(changes, kind):
    with pytest.raises(kind):
        _optimum(**changes)


def _solution(**values):
    named = {"start": "informed", "branch": "informed", "messages": ["fine"]}
    return Solution(values, Status.CONVERGED, 1e-12, 40, **named)


def test_solution_reads_values_as_attributes_and_survives_copies():
    solution = _solution(m_k=Estimate(0.5, 1e-9), rs_stable=True)
    for twin in (solution, pickle.loads(pickle.dumps(solution)), copy.deepcopy(solution)):
        assert twin.m_k == 0.5 and twin.m_k.error == 1e-9 and twin.rs_stable is True
        assert (twin.status, twin.residual, twin.iterations) == (Status.CONVERGED, 1e-12, 40)
        assert (twin.start, twin.branch, twin.messages) == ("informed", "informed", ("fine",))
        assert twin == solution and hash(twin) == hash(solution)
    assert "m_k" in dir(solution) and "m_k=0.500000000(1)" in repr(solution)
    assert solution != _solution(m_k=Estimate(0.25, 1e-9), rs_stable=True)


def test_unknown_value_lists_the_known_ones():
    with pytest.raises(AttributeError, match="no value 'm_q'; its values are m_k, m_v"):
        _ = _solution(m_k=Estimate(0, 0), m_v=Estimate(0, 0)).m_q


def test_solution_is_frozen_in_depth():
    given = {"m_k": Estimate(0.5, 0)}
    solution = Solution(given, Status.CONVERGED, 0.0, 1)
    given["m_k"] = Estimate(0.75, 0)
    assert solution.m_k == 0.5
    with pytest.raises(TypeError):
        solution.values["m_k"] = 0.0
    with pytest.raises(AttributeError):
        solution.residual = 1.0


@pytest.mark.parametrize("values", [{"status": 1.0}, {"a b": 1.0}, {"_m": 1.0}, {"m": math.nan}])
def test_what_is_no_solution(values):
    with pytest.raises(ValueError):
        _solution(**values)
