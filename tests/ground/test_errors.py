"""Checks of numbers, and exceptions that survive pickling with what they carry."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from theorykit import errors
from theorykit.errors import ConvergenceError, FormulaError, require_integer, require_real


@pytest.mark.parametrize(
    "value",
    [2, 2.0, np.float64(2), np.float32(2), np.int8(2), np.uint64(2), np.array(2.0), np.array(2), Fraction(2)],
)
def test_every_kind_of_number_gives_the_same_plain_float(value):
    result = require_real("nu", value, low=0)
    assert type(result) is float and result == 2.0


@pytest.mark.parametrize(
    "value",
    ["2", b"2", None, True, np.True_, 2 + 0j, np.complex128(2), [2.0], np.array([2.0]), Decimal(2), {}],
)
@pytest.mark.parametrize("check", [require_real, require_integer])
def test_other_types_are_type_errors_that_name_argument_and_type(check, value):
    with pytest.raises(TypeError, match=rf"^nu must be an? .* got .*\({type(value).__name__}\)$"):
        check("nu", value)


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        (-1.0, {"low": 0, "allow_inf": True}, "nu must be a real number in [0, inf], got -1.0"),
        (-1, {"low": 0}, "nu must be a real number in [0, inf), got -1.0"),
        (math.inf, {"low": 0}, "nu must be a real number in [0, inf), got inf"),
        (math.nan, {"allow_inf": True}, "nu must be a real number in [-inf, inf], got nan"),
        (math.nan, {}, "nu must be a real number in (-inf, inf), got nan"),
        (0.0, {"low": 0, "low_open": True, "high": 1}, "nu must be a real number in (0, 1], got 0.0"),
        (1, {"low": 0, "high": 1, "high_open": True}, "nu must be a real number in [0, 1), got 1.0"),
        (1.5, {"high": 1}, "nu must be a real number in (-inf, 1], got 1.5"),
        (-math.inf, {"high": 1}, "nu must be a real number in (-inf, 1], got -inf"),
        (10**400, {}, "nu must be a real number in (-inf, inf), got a number beyond the range of a double"),
    ],
)
def test_values_out_of_range_are_named_with_the_range(value, options, message):
    with pytest.raises(ValueError) as caught:
        require_real("nu", value, **options)
    assert str(caught.value) == message


def test_closed_ends_and_infinity_are_accepted_where_allowed():
    assert require_real("p", 0, low=0, high=1) == 0.0
    assert require_real("p", 1, low=0, high=1) == 1.0
    assert require_real("nu", math.inf, low=0, allow_inf=True) == math.inf


@pytest.mark.parametrize("value", [3, 3.0, np.int16(3), np.float64(3), np.array(3), Fraction(3)])
def test_integers_of_any_type(value):
    result = require_integer("length", value, low=1)
    assert type(result) is int and result == 3


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "length must be an integer in [1, 10], got 0"),
        (11, "length must be an integer in [1, 10], got 11"),
        (2.5, "length must be an integer in [1, 10], got 2.5"),
        (math.nan, "length must be an integer in [1, 10], got nan"),
        (math.inf, "length must be an integer in [1, 10], got inf"),
    ],
)
def test_integers_out_of_range(value, message):
    with pytest.raises(ValueError) as caught:
        require_integer("length", value, low=1, high=10)
    assert str(caught.value) == message


def test_large_integers_are_not_rounded_through_a_float():
    assert require_integer("seed", 2**63 + 1) == 2**63 + 1
    assert require_integer("seed", 10**400) == 10**400
    with pytest.raises(ValueError, match=r"seed must be an integer in \[0, inf\), got Fraction"):
        require_integer("seed", Fraction(10**400, 3), low=0)


def test_convergence_error_tells_and_keeps_what_happened():
    error = ConvergenceError.not_reached(
        "fixed point",
        residual=3e-4,
        tolerance=1e-8,
        steps=2000,
        start="uninformed",
        advice="raise max_steps or damping",
        last=[0.5, 0.25],
    )
    assert str(error) == (
        "fixed point not reached: residual 0.0003 > 1e-08 after 2000 steps from start 'uninformed'; "
        "raise max_steps or damping"
    )
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is ConvergenceError and str(copy) == str(error)
    assert (copy.last, copy.residual, copy.steps, copy.start) == ([0.5, 0.25], 3e-4, 2000, "uninformed")


def test_formula_error_keeps_source_and_column_when_pickled():
    error = pickle.loads(pickle.dumps(FormulaError("bad", source="x^2", column=2)))
    assert (str(error), error.source, error.column) == ("bad", "x^2", 2)


@pytest.mark.parametrize(
    ("name", "parents"),
    [
        ("DerivationError", (errors.TheorykitError,)),
        ("CodegenError", (errors.TheorykitError,)),
        ("CacheError", (errors.CodegenError,)),
        ("FormulaError", (errors.TheorykitError, ValueError)),
        ("ConvergenceError", (errors.TheorykitError, RuntimeError)),
    ],
)
def test_classes_can_be_caught_by_their_parents(name, parents):
    for parent in parents:
        assert issubclass(getattr(errors, name), parent)
    copy = pickle.loads(pickle.dumps(getattr(errors, name)("message")))
    assert type(copy).__name__ == name and str(copy) == "message"
