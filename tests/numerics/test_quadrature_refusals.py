"""What the quadrature cannot do ends in a ConvergenceError that says what, where and what is left."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import sympy as sp

from theorykit.codegen import compile_record
from theorykit.derivations.nodes import Expectation, HalfLine
from theorykit.errors import ConvergenceError
from theorykit.numerics.quadrature import Options

a, x = sp.symbols("a x", real=True)
t = sp.Symbol("t", positive=True)


@pytest.fixture(scope="module")
def programs(record_of):
    expressions = {
        "growth": Expectation(sp.exp(a * x), x),
        "tail": HalfLine((1 + t) ** (-1 - a), t),
        "root": Expectation(sp.sqrt(x + a), x),
        "zero": Expectation(sp.Max(x, 0) * sp.Max(-x, 0) + a * 0 * x, x),
        "needle": Expectation(sp.exp(-((x - a) ** 2) * 10**7), x),
        "jump": Expectation(sp.Piecewise((1, x > a), (0, True)), x),
        "pole": 1 / (a - 1),
    }
    made = {}

    def get(name):
        if name not in made:
            made[name] = compile_record(record_of(name, value=expressions[name] + a * 0))
        return made[name]

    return get


def _refusal(program, point, options=None):
    with pytest.raises(ConvergenceError) as caught:
        program.values(point, options)
    return caught.value


@pytest.mark.parametrize("slope", [24.5, 26, 30, 40, -27])
def test_a_peak_beyond_the_range_of_doubles(slope, programs):
    """exp(a x) peaks at x = a, where it overflows: what can be evaluated looks harmless and is no answer."""
    error = _refusal(programs("growth"), {"a": slope})
    assert "growth: the integrand has not decayed at x = " in str(error)
    end = float(str(error).split("x = ")[1].split(" ")[0])
    assert end * slope > 0
    assert abs(end) < abs(slope) + 6  # the range within which exp(a x) is finite cuts the peak
    assert f"at a = {slope}" in str(error)
    assert "choose less extreme parameters" in str(error)
    assert error.last.tolist() == [slope]
    assert (error.residual, error.steps, error.start) == (math.inf, 0, "locate")


@pytest.mark.parametrize("power", [0.02, 0.01, 0.0, -0.5])
def test_a_half_line_integral_that_does_not_end(power, programs):
    error = _refusal(programs("tail"), {"a": power})
    assert "tail: the integrand has not decayed at log_t = 7" in str(error)


def test_an_integrand_that_is_not_finite(programs):
    error = _refusal(programs("root"), {"a": 1.0})
    assert "root: the integrand is not finite at a = 1" in str(error)
    assert programs("root").values({"a": 1e4})["value"] == pytest.approx(100.0, rel=1e-4)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_parameters_that_are_not_finite(value, programs):
    error = _refusal(programs("growth"), {"a": value})
    assert f"at a = {value}" in str(error)


def test_an_integrand_that_vanishes(programs):
    """Zero, or too narrow to be seen: that is not told apart, hence not answered by 0."""
    assert "zero: the integrand vanishes on the whole range" in str(_refusal(programs("zero"), {}))
    assert "needle: the integrand vanishes on the whole range at a = 0.3" in str(
        _refusal(programs("needle"), {"a": 0.3})
    )


def test_convergence_that_is_too_slow(programs):
    error = _refusal(programs("jump"), {"a": 0.3})
    assert "jump: value = 0.38" in str(error)
    assert "at a = 0.3; the integrand is too steep for the grid limit" in str(error)
    truth = 0.5 * math.erfc(0.3 / math.sqrt(2))
    assert isinstance(error.last, np.ndarray)
    assert abs(error.last[0] - truth) <= error.residual < 1e-2
    assert error.steps > 1000
    assert error.start == "quadrature"


def test_what_is_accepted_is_an_option(programs):
    found = programs("jump").values({"a": 0.3}, Options(accept=1e-2))["value"]
    assert abs(found - 0.5 * math.erfc(0.3 / math.sqrt(2))) <= found.error < 1e-2


def test_an_observable_that_is_not_finite(programs):
    error = _refusal(programs("pole"), {"a": 1.0})
    assert "pole: value = inf is not finite at a = 1" in str(error)


def test_less_accuracy_takes_fewer_values(programs):
    from theorykit.numerics.quadrature import integrate

    program = programs("growth")
    parameters = program.vector({"a": 20.0})
    rough = integrate(program, parameters, Options(rtol=1e-3))
    fine = integrate(program, parameters)
    assert rough.evaluations <= fine.evaluations
    assert abs(rough.values[0] - fine.values[0]) <= rough.errors[0]


def test_errors_travel_between_processes(programs):
    error = _refusal(programs("growth"), {"a": 30})
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.start, copy.steps, copy.residual) == (str(error), "locate", 0, math.inf)
    assert copy.last.tolist() == [30.0]
