"""Formulas: what is read, what is refused, and that values, SymPy expressions and text say the same thing."""

from __future__ import annotations

import itertools
import math
import pickle
import subprocess
import sys
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from theorykit.errors import FormulaError
from theorykit.formula import Formula, parse

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

FORBIDDEN = [
    "x.__class__",
    "().__class__.__bases__[0].__subclasses__()",
    "__import__('os').system('true')",
    "__builtins__",
    "__name__",
    "eval('x')",
    "exec(x)",
    "open(x)",
    "getattr(x, x)",
    "globals()",
    "(lambda: x)()",
    "lambda x: x",
    "[x for x in x]",
    "(x for x in (1, 2))",
    "{x: x}",
    "{x}",
    "x[0]",
    "x if x else 1",
    "x and x",
    "not x",
    "x < 1",
    "x == 1",
    "x := 1",
    "(x := 1)",
    "x; x",
    "x = 1",
    "import os",
    "'x'",
    '"x"',
    'f"{x}"',
    "b'x'",
    "`x`",
    "x @ x",
    "x // 2",
    "x % 2",
    "x ^ 2",
    "x & 1",
    "x << 2",
    "~x",
    "x!",
    "x # comment",
    "x \\\n + 1",
    "...",
    "None",
    "True",
    "await x",
    "yield x",
    "max(*x)",
    "max(x, *x)",
    "exp(**x)",
    "exp(x=1)",
    "x, x",
    "()",
    "exp",
    "exp(x)(x)",
    "(exp)(x)(x)",
    "x(2)",
    "pi(2)",
    "2(x)",
    "2x",
    "2 x",
    "x x",
    "exp()",
    "exp(x, x)",
    "max(x)",
    "y",
    "exp(y)",
    "ln(x)",
    "integrate(x)",
    "Symbol(x)",
    "S(x)",
    "E",
    "I",
    "1j",
    "0x10",
    "0b1",
    "1e999",
    "nan",
    "inf",
    "1/0",
    "x/0",
    "9**9**9",
    "x**x**x",
    "x**(x**2)",
    "x**65",
    "x**(-65)",
    "x**(10*10)",
    "x**exp(10)",
    "x**log(-1)",
    "((2**64)**64)**64",
    "(abs(2*x**64)**64)**64",
    "2**(1000*(1000*x))",
    "1000000000000001",
    "9" * 400,
    "(" * 150 + "x" + ")" * 150 + ")",
    "(" * 400 + "x" + ")" * 400,
    "-" * 70 + "x",
    "-" * 900 + "x",
    "exp(" * 61 + "x" + ")" * 61,
    "exp(" * 240 + "x" + ")" * 240,
    "max(x, x)+" * 80 + "x",
    "x+" * 499 + "x",
    "x" + " " * 1000,
    "",
    "  ",
    "+",
    "x +",
    "(x",
    "x)",
    "\u0445",  # Cyrillic look-alike of x
    "\uff58",  # full-width x, which Python's own parser would turn into x
    "e\u0445p(x)",
    "x\u00b2",
    "x \u2212 1",
    "\u03c0",
    "x\u200b",
    "x\u00a0+ 1",
    "x\0",
    "x\x0c+ 1",
]


@pytest.mark.parametrize("text", FORBIDDEN, ids=lambda text: ascii(text[:24]))
def test_everything_outside_the_language_is_refused(text):
    with pytest.raises(FormulaError) as caught:
        parse(text)
    message = str(caught.value)
    assert message.startswith("formula ") and message.isascii() and len(message) < 500
    assert caught.value.source == text


@pytest.mark.parametrize(
    "source",
    [None, True, 1j, math.nan, -math.inf, [1], b"x", {}, object(), np.ones(2)],
    ids=lambda s: type(s).__name__,
)
def test_other_sources_are_refused(source):
    with pytest.raises(FormulaError, match="a formula must be text, a finite real number"):
        parse(source)


@pytest.mark.parametrize(
    ("text", "column", "part"),
    [
        ("1 + tnh(x)", 5, "unknown name 'tnh'"),
        ("1 + tnh(x)", 5, "did you mean 'tanh'"),
        ("ln(x)", 1, "did you mean 'log'"),
        ("  x^2", 4, "write powers with **"),
        (" 2*(x + x.real)", 10, "attribute access"),
        ("2x", 2, "write a product with *"),
        ("exp(x, x)", 1, "exp takes 1 argument"),
        ("1 + x**70", 8, "constant exponents reach 64"),
        ("1 + 2*y", 7, "the variable x"),
    ],
)
def test_messages_say_what_where_and_what_instead(text, column, part):
    with pytest.raises(FormulaError) as caught:
        parse(text)
    assert caught.value.column == column and f"at column {column};" in str(caught.value)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    "source", [10**15 + 1, -(10**5000), Fraction(1, 10**16)], ids=["above", "huge", "ratio"]
)
def test_numbers_have_the_limits_of_text(source):
    with pytest.raises(FormulaError, match=r"may reach 10\*\*15"):
        parse(source)


def test_limits_are_inclusive():
    assert parse("exp(" * 59 + "x" + ")" * 59).text.count("exp") == 59
    assert parse("1000000000000000").to_sympy() == 10**15
    assert parse("x**64").to_sympy(x) == x**64
    assert len(parse("x" + " " * 999).text) == 1


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("1+tanh( x )", "1 + tanh(x)"),
        ("((x))*(2)", "x*2"),
        ("2/6*x", "1/3*x"),
        ("+x", "x"),
        ("x--1", "x - (-1)"),
        ("x**-2", "x**(-2)"),
        ("1.50*x", "1.5*x"),
        ("1_000", "1000"),
        (3, "3"),
        (np.int64(-3), "-3"),
        (0.1, "0.1"),
        (np.float32(0.5), "0.5"),
        (Fraction(-2, 6), "-1/3"),
        (1e22, "1e+22"),
    ],
)
def test_canonical_text(source, text):
    assert parse(source).text == text == str(parse(source))
    assert parse(text) == parse(source) and parse(text).text == text


def test_records():
    formula = parse(" 1+tanh(x)")
    assert repr(formula) == "Formula('1 + tanh(x)')" and eval(repr(formula), {"Formula": Formula}) == formula
    assert repr(parse("exp(t)", "t")) == "Formula('exp(t)', variable='t')"
    assert pickle.loads(pickle.dumps(formula)) == formula and hash(formula) == hash(parse("1 + tanh(x)"))
    assert parse(formula) is formula and parse("t", "t") != parse("x")
    assert parse("1") != parse("1.0")
    assert parse("2*pi").is_constant and not formula.is_constant
    with pytest.raises(AttributeError):
        formula.text = "x"
    with pytest.raises(FormulaError, match="unknown name 'x'"):
        parse(formula, "t")
    with pytest.raises(FormulaError, match="use parse"):
        Formula(1.0)


@pytest.mark.parametrize(
    "name", ["beta", "gamma", "S", "E", "I", "N", "lambda", "in", "None", "__class__", "e1"]
)
def test_any_identifier_may_be_the_variable(name):
    formula = parse(f"1 + 2*{name}**2", variable=name)
    assert formula.text == f"1 + 2*{name}**2" and formula.evaluate(3.0) == 19.0
    assert formula.to_sympy().free_symbols == {sympy.Symbol(name, real=True)}


@pytest.mark.parametrize("name", ["exp", "pi", "", "1x", "x y", "\u0445", "x.y", 3, "x" * 41])
def test_what_cannot_be_the_variable(name):
    with pytest.raises(FormulaError, match="variable"):
        parse("1", variable=name)


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


_ATOMS = st.one_of(
    st.just("x"),
    st.just("pi"),
    st.integers(0, 9).map(str),
    st.tuples(st.integers(1, 9), st.integers(1, 9)).map(lambda pair: f"{pair[0]}/{pair[1]}"),
    st.floats(0, 10, allow_nan=False).map(repr),
)
_EXPRESSIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", " * "]), inner).map("".join),
        inner.map(lambda text: f"-{text}"),
        inner.map(lambda text: f"({text})"),
        st.tuples(inner, st.integers(0, 3)).map(lambda pair: f"({pair[0]})**{pair[1]}"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}) / (2 + abs({pair[1]}))"),
        st.tuples(
            st.sampled_from(["tanh", "erf", "sigmoid", "relu", "Phi", "sin", "sign", "abs"]), inner
        ).map(lambda pair: f"{pair[0]}({pair[1]})"),
        st.tuples(st.sampled_from(["max", "min"]), inner, inner).map(lambda t: f"{t[0]}({t[1]},{t[2]})"),
    ),
    max_leaves=8,
)


@given(_EXPRESSIONS)
@settings(max_examples=300, deadline=None)
def test_canonical_text_is_a_fixed_point_and_keeps_the_values(text):
    try:
        formula = parse(text)
    except FormulaError as error:
        assert "powers of powers" in str(error)  # the only limit these texts can exceed
        return
    again = parse(formula.text)
    assert again == formula and again.text == formula.text and repr(again) == repr(formula)
    points = np.linspace(-2.0, 2.0, 9)
    assert np.array_equal(again.evaluate(points), formula.evaluate(points), equal_nan=True)
    spaced = text.replace("(", " (\t").replace(")", "\n) ").replace(",", " , ").replace("**", " ** ")
    assert parse(spaced) == formula


_PYTHON_NAMES = {
    "abs": np.abs,
    "tanh": np.tanh,
    "sin": np.sin,
    "sign": np.sign,
    "pi": np.pi,
    "max": np.maximum,
}


@given(_EXPRESSIONS)
@settings(max_examples=200, deadline=None)
def test_precedence_is_that_of_python(text):
    """Trusted text of this file's own making, evaluated by Python itself, is the independent reference."""
    if any(name in text for name in ("erf", "sigmoid", "relu", "Phi", "min")):
        return
    try:
        formula = parse(text)
    except FormulaError as error:
        assert "powers of powers" in str(error)
        return
    points = np.linspace(-2.0, 2.0, 9)
    with np.errstate(all="ignore"):
        value = eval(text, {"__builtins__": {}}, {**_PYTHON_NAMES, "x": points})
        reference = np.broadcast_to(value, points.shape)
    np.testing.assert_allclose(formula.evaluate(points), reference, rtol=1e-13, atol=1e-300)


@given(st.text(max_size=40))
@settings(max_examples=300, deadline=None)
def test_arbitrary_text_is_read_or_refused_and_nothing_else(text):
    try:
        formula = parse(text)
    except FormulaError:
        return
    assert parse(formula.text) == formula


@given(st.text(alphabet="x1.0+-*/(), epi_", max_size=30))
@settings(max_examples=500, deadline=None)
def test_text_of_the_right_alphabet_is_read_or_refused_and_nothing_else(text):
    try:
        formula = parse(text)
    except FormulaError:
        return
    assert parse(formula.text) == formula


def test_reading_text_imports_neither_numpy_nor_sympy():
    code = (
        "import sys; from theorykit.formula import parse; parse('1/3 + tanh(x)**2'); "
        "print(sorted({'numpy', 'scipy', 'sympy'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
