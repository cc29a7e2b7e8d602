"""Formulas: values, kinks and SymPy expressions say what the text says."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
import sympy
from scipy import integrate

from theorykit.errors import FormulaError
from theorykit.formula import parse

x = sympy.Symbol("x", real=True)

# Every function once or more, and the ways to combine them.
SAMPLES = [
    "1 + tanh(x)",
    "exp(x)",
    "log(1 + x**2)",
    "sqrt(x**2 + 1/3)",
    "sin(x)*cos(2*x) - tan(x/7)",
    "sinh(x/3)/cosh(x/2)",
    "erf(x) + erfc(-x)/2",
    "abs(x - 0.3)*sign(x + 1)",
    "min(x, 1, 2 - x) + max(x**3, -pi)",
    "relu(x) + softplus(2*x)",
    "sigmoid(-x)*gelu(x) - silu(x)",
    "Phi(3*x - 1)",
    "-x**2 + (-x)**2 + 2**(-x)",
    "1/(1 + x**2)**2",
    "x**3/3 - 0.1*x + 1e-3",
    "(1 + x**2)**(2/3) - x*(1/3)",
    "x - (1 - (x - 2)) - 3",
    "-(-x)*(-2)/(-7)",
]


def _mpmath_value(formula, point):
    return sympy.lambdify(x, formula.to_sympy(x), "mpmath")(mpmath.mpf(point))


@pytest.mark.parametrize("text", SAMPLES)
def test_values_agree_with_sympy_at_30_digits(text):
    formula = parse(text)
    points = np.array([-3.7, -1.1, -0.25, 0.125, 0.6, 2.3, 4.9])
    values = formula.evaluate(points)
    with mpmath.workdps(30):
        for point, value in zip(points, values, strict=True):
            reference = _mpmath_value(formula, point)
            assert abs(value - reference) <= 1e-14 * (1 + abs(reference))


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("relu(x)", sympy.Max(x, 0)),
        ("softplus(x)", sympy.log(1 + sympy.exp(x))),
        ("sigmoid(x)", 1 / (1 + sympy.exp(-x))),
        ("Phi(x)", sympy.erfc(-x / sympy.sqrt(2)) / 2),
        ("gelu(x)", x * (sympy.erfc(-x / sympy.sqrt(2)) / 2)),
        ("silu(x)", x / (1 + sympy.exp(-x))),
        ("2/6*x", sympy.Rational(1, 3) * x),
        ("0.1*x", sympy.Float(0.1) * x),
        ("max(x, 1, -x)", sympy.Max(x, 1, -x)),
        ("x**(1/2)", sympy.sqrt(x)),
    ],
)
def test_sympy_form(text, expression):
    assert parse(text).to_sympy(x) == expression
    assert parse(text).to_sympy() == expression


def test_decimals_are_the_doubles_they_denote():
    assert sympy.Rational(parse("0.1").to_sympy()) == sympy.Rational(0.1)
    assert parse("0.1").evaluate(0.0) == 0.1


@pytest.mark.parametrize(
    ("text", "point", "reference"),
    [
        ("softplus(x)", -800.0, 0.0),
        ("softplus(x)", 800.0, 800.0),
        ("softplus(x)", -40.0, "exp(-40) - exp(-80)/2"),
        ("sigmoid(x)", -700.0, "exp(-700)"),
        ("Phi(x)", -30.0, "erfc(30/sqrt(2))/2"),
        ("gelu(x)", -30.0, "-15*erfc(30/sqrt(2))"),
        ("silu(x)", -700.0, "-700*exp(-700)"),
    ],
)
def test_tails_neither_overflow_nor_cancel(text, point, reference):
    with mpmath.workdps(40):
        expected = (
            mpmath.mpf(reference) if isinstance(reference, float) else mpmath.mpf(sympy.N(reference, 40))
        )
        assert abs(parse(text).evaluate(point) - expected) <= 1e-13 * abs(expected)


def test_shape_and_type_of_values():
    formula = parse("1/3")
    assert formula.evaluate(np.zeros((2, 3))).shape == (2, 3) and formula.evaluate(1).shape == ()
    assert parse("x").evaluate([1, 2]).dtype == np.float64
    grid = np.arange(3.0)
    parse("x").evaluate(grid)[0] = 5.0  # a fresh array, not a view of the argument
    assert grid[0] == 0.0
    for bad in ("x", [1j], [True], [None]):
        with pytest.raises(TypeError, match="points must be real numbers"):
            formula.evaluate(bad)


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("tanh(x)", ()),
        ("abs(x)", (0.0,)),
        ("abs(x - 0.3)", (0.3,)),
        ("relu(1000*x - 1)", (0.001,)),
        ("sign(x**2 - 2)", (-math.sqrt(2), math.sqrt(2))),
        ("max(x, 1 - x)", (0.5,)),
        ("max(x, 0, 1 - x)", (0.0, 0.5)),
        ("min(x, x**3)", (-1.0, 0.0, 1.0)),
        ("abs(x**2)", ()),
        ("abs((x - 1)**2)", ()),
        ("abs((x - 1)*(x - 1.0001))", (1.0, 1.0001)),
        ("relu(exp(x) - 2) + abs(x)", (0.0, math.log(2))),
        ("exp(abs(sin(x/40)))", (0.0,)),
        ("abs(log(x))", (1.0,)),
        ("relu(x - 59.99)", (59.99,)),
        ("relu(x - 60.01)", ()),
        ("sign(1e-12*x - 1e-12*pi)", (math.pi,)),
        ("tanh(abs(x + 2))", (-2.0,)),
        ("abs(3)", ()),
    ],
)
def test_kinks(text, points):
    assert parse(text).kinks() == pytest.approx(points, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("exp(x) + abs(x)", ()),
        ("tanh(x)", (0.0,)),
        ("erf(200*(x - 2)) + erfc(x + 1)", (-1.0, 2.0)),
        ("sigmoid(3*x - 1)", (1 / 3,)),
        ("softplus(x**2 - 1)*gelu(x - 5)", (-1.0, 1.0, 5.0)),
        ("silu(x - 1/7) - Phi(x + 1/7)", (-1 / 7, 1 / 7)),
    ],
)
def test_fronts(text, points):
    assert parse(text).fronts() == pytest.approx(points, abs=1e-12)


def test_every_root_of_an_oscillating_argument_is_found():
    expected = np.pi * np.arange(-381, 382) / 20
    assert parse("abs(sin(20*x))").kinks() == pytest.approx(expected[np.abs(expected) <= 60], abs=1e-12)


def test_splitting_at_kinks_makes_quadrature_exact():
    formula = parse("abs(x**3 - 2*x)*max(x, 0.7)")
    edges = [-3.0, *[kink for kink in formula.kinks() if -3 < kink < 3], 3.0]
    nodes, weights = np.polynomial.legendre.leggauss(8)  # exact for the polynomial pieces
    total = sum(
        (b - a) / 2 * weights @ formula.evaluate((a + b) / 2 + (b - a) / 2 * nodes)
        for a, b in itertools.pairwise(edges)
    )
    reference, _ = integrate.quad(
        lambda t: abs(t**3 - 2 * t) * max(t, 0.7), -3, 3, points=edges[1:-1], epsabs=1e-12
    )
    assert total == pytest.approx(reference, abs=1e-11)


@pytest.mark.parametrize(
    "expression",
    [
        x**2 + 1 - 2 * x / 3,
        sympy.exp(-(x**2)) / (1 + sympy.sqrt(1 + x**2)),
        sympy.Max(x, 0, -x - 1) - sympy.Min(x, 2) * sympy.Abs(x - 1),
        sympy.E * sympy.pi * sympy.tanh(x) - sympy.sign(x),
        sympy.Float(0.1) * x - sympy.Rational(3, 7),
        -x / (1 + x**2) ** sympy.Rational(3, 2),
        2 ** (-x) + (1 + x**2) ** x,
        sympy.log(1 + sympy.exp(x))
        + sympy.erf(x) * sympy.erfc(x)
        + sympy.sin(x) * sympy.cos(x) * sympy.tan(x / 9),
        sympy.sinh(x) * sympy.cosh(x) - 1 / (1 + sympy.exp(x)),
    ],
    ids=str,
)
def test_sympy_expressions_are_read(expression):
    formula = parse(expression)
    assert parse(formula.text) == formula
    with mpmath.workdps(30):
        for point in (-1.3, -0.2, 0.4, 1.9):
            reference = sympy.lambdify(x, expression, "mpmath")(mpmath.mpf(point))
            assert abs(formula.evaluate(point) - reference) <= 1e-14 * (1 + abs(reference))


@pytest.mark.parametrize(
    "expression",
    [
        sympy.Symbol("y") + 1,
        sympy.I * x,
        sympy.oo,
        sympy.nan,
        sympy.zoo,
        sympy.gamma(x),
        sympy.Heaviside(x),
        sympy.Piecewise((x, x > 0), (0, True)),
        sympy.Function("f")(x),
        x > 0,
        sympy.true,
        sympy.Integral(x, (x, 0, 1)),
        sympy.Derivative(sympy.exp(x), x),
        sympy.EulerGamma,
        sympy.acos(x),
        sympy.Integer(10**16),
        sympy.Integer(10) ** 5000,
        x + sympy.Symbol("x"),
        x**65,
        sympy.Float("1e400"),
        sympy.Matrix([[1]]).as_immutable(),
    ],
    ids=lambda expression: type(expression).__name__,
)
def test_sympy_expressions_pass_the_same_whitelist(expression):
    with pytest.raises(FormulaError):
        parse(expression)


def _deep(expression, times):
    for _ in range(times):
        expression = sympy.exp(expression)
    return expression


def test_deep_sympy_expressions_are_refused():
    with pytest.raises(FormulaError, match=r"nested too deeply|characters"):
        parse(_deep(x, 100))
