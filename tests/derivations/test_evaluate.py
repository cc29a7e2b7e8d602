"""Numbers for expressions against closed forms, SciPy and mpmath."""

from __future__ import annotations

import math

import mpmath
import pytest
import scipy.special
import sympy as sp

from theorykit.derivations.evaluate import evaluate
from theorykit.derivations.nodes import (
    DistinctSum,
    Expectation,
    HalfLine,
    Largest,
    TokenExpectation,
    TokenPower,
    TruncatedExpectation,
)
from theorykit.derivations.special import gamma_weight, normal_cdf, normal_pdf, owens_t
from theorykit.derivations.tensor import evaluate_tensor, tensor_value
from theorykit.errors import ConvergenceError, DerivationError

X, Y = sp.symbols("x y", real=True)
A, B, T, S = sp.symbols("a b t s", positive=True)
LENGTH = sp.Symbol("L", integer=True, positive=True)
ELL, EM = sp.symbols("l m", integer=True, positive=True)
CHI, ETA = sp.IndexedBase("chi"), sp.IndexedBase("eta")
THIRD = {"a": "1/3", "b": "3/4"}

# average and its value at a = 1/3, b = 3/4, in closed form
CLOSED = {
    "E exp(ax)": (Expectation(sp.exp(A * X), [X]), lambda a, b: mpmath.exp(a**2 / 2)),
    "E x^8": (Expectation(X**8, [X]), lambda a, b: 105),
    "E exp(-a x^2)": (Expectation(sp.exp(-A * X**2), [X]), lambda a, b: 1 / mpmath.sqrt(1 + 2 * a)),
    "E cos": (Expectation(sp.cos(X + A), [X]), lambda a, b: mpmath.cos(a) * mpmath.exp(-mpmath.mpf(1) / 2)),
    "E Phi": (Expectation(normal_cdf(A + B * X), [X]), lambda a, b: mpmath.ncdf(a / mpmath.sqrt(1 + b**2))),
    "E phi": (
        Expectation(normal_pdf(A + B * X), [X]),
        lambda a, b: mpmath.npdf(a / mpmath.sqrt(1 + b**2)) / mpmath.sqrt(1 + b**2),
    ),
    "variance b": (
        Expectation(X**2 * sp.exp(A * X), [X], [[B]]),
        lambda a, b: (b + a**2 * b**2) * mpmath.exp(a**2 * b / 2),
    ),
    "gamma integral": (HalfLine(T**3 * sp.exp(-A * T), T), lambda a, b: 6 / a**4),
    "beta integral": (HalfLine(T / (1 + T) ** 4, T), lambda a, b: mpmath.mpf(1) / 6),
    "gamma weight": (HalfLine(gamma_weight(A * T, 2) / T, T), lambda a, b: 1),
    "truncated moment": (TruncatedExpectation(X, X, A), lambda a, b: -mpmath.npdf(a)),
    "truncated tail": (TruncatedExpectation(X**2, X, -B), lambda a, b: mpmath.ncdf(-b) + b * mpmath.npdf(b)),
    "density of a weight": (
        HalfLine(Expectation(gamma_weight(T * sp.exp(2 * X), 1), [X]) / T, T),
        lambda a, b: 1,
    ),
}
FAST = [name for name in CLOSED if name != "density of a weight"]


def exact(name: str) -> mpmath.mpf:
    with mpmath.workdps(50):
        return mpmath.mpf(CLOSED[name][1](mpmath.mpf(1) / 3, mpmath.mpf(3) / 4))


def assert_digits(value: mpmath.mpf, expected: mpmath.mpf, digits: int) -> None:
    with mpmath.workdps(50):
        assert abs(value - expected) <= abs(expected) * mpmath.mpf(10) ** -digits


# ----------------------------------------------------------------- closed forms


@pytest.mark.parametrize("rule", ["trapezoid", "quad"])
@pytest.mark.parametrize("name", FAST)
def test_thirty_digits(name, rule):
    assert_digits(evaluate(CLOSED[name][0], THIRD, 31, rule), exact(name), 30)


def test_nested_average_in_a_half_line():
    name = "density of a weight"
    assert_digits(evaluate(CLOSED[name][0], THIRD, 8), exact(name), 7)


@pytest.mark.parametrize("rule", ["trapezoid", "legendre"])
@pytest.mark.parametrize("name", [n for n in CLOSED if n != "beta integral"])
def test_brute_force_is_within_its_error(name, rule):
    node, expected = CLOSED[name][0], float(exact(name))
    value, error = evaluate_tensor(node, {"a": 1 / 3, "b": 3 / 4}, rule)
    assert abs(value - expected) <= error + 1e-12 * abs(expected)
    assert error <= (1e-4 if node.has(HalfLine) else 1e-10) * abs(expected)


def test_correlated_pair():
    node = Expectation(sp.exp(X + A * Y), [X, Y], [[1, B], [B, 2]])
    with mpmath.workdps(50):
        a, b = mpmath.mpf(1) / 3, mpmath.mpf(3) / 4
        expected = mpmath.exp((1 + 2 * a * b + 2 * a**2) / 2)
    assert_digits(evaluate(node, THIRD, 16), expected, 15)
    assert evaluate_tensor(node, {"a": 1 / 3, "b": 3 / 4})[0] == pytest.approx(float(expected), rel=1e-12)


def test_more_digits_on_request():
    value = evaluate(Expectation(sp.exp(A * X), [X]), {A: sp.Rational(1, 3)}, digits=80)
    with mpmath.workdps(90):
        assert abs(value - mpmath.exp(mpmath.mpf(1) / 18)) < mpmath.mpf(10) ** -79


def test_values_are_given_by_symbol_or_name():
    assert evaluate(A * B, {A: 2, "b": "1/4"}, 20) == mpmath.mpf("0.5")


# ----------------------------------------------------------------- special functions


@pytest.mark.parametrize("h", ["-1.3", "0", "0.4", "2.5"])
@pytest.mark.parametrize("slope", ["-0.8", "0.3", "1", "3"])
def test_owens_t_agrees_with_scipy_and_its_reflections(h, slope):
    h_symbol, a_symbol = sp.symbols("h s", real=True)
    node = owens_t(h_symbol, a_symbol)
    point = {"h": h, "s": slope}
    assert float(evaluate(node, point, 30)) == pytest.approx(
        scipy.special.owens_t(float(h), float(slope)), rel=1e-13
    )
    value, _ = evaluate_tensor(node, {k: float(v) for k, v in point.items()})
    assert value == pytest.approx(scipy.special.owens_t(float(h), float(slope)), rel=1e-14)
    with mpmath.workdps(40):
        odd = evaluate(owens_t(h_symbol, -a_symbol) + node, point, 30)
        even = evaluate(owens_t(-h_symbol, a_symbol) - node, point, 30)
        assert abs(odd) + abs(even) < mpmath.mpf(10) ** -29


def test_owens_t_at_slope_one():
    with mpmath.workdps(45):
        phi = mpmath.ncdf(mpmath.mpf("0.7"))
        assert (
            abs(evaluate(owens_t(A, sp.Integer(1)), {"a": "0.7"}, 35) - phi * (1 - phi) / 2)
            < mpmath.mpf(10) ** -34
        )


def test_square_of_a_normal_cdf_is_owens_t():
    """E Phi(a + b x)^2 = Phi(h) - 2 T(h, 1/sqrt(1 + 2 b^2)), h = a/sqrt(1 + b^2)."""
    node = Expectation(normal_cdf(A + B * X) ** 2, [X])
    h = A / sp.sqrt(1 + B**2)
    closed = normal_cdf(h) - 2 * owens_t(h, 1 / sp.sqrt(1 + 2 * B**2))
    assert_digits(evaluate(node, THIRD, 31), evaluate(closed, THIRD, 31), 30)


def test_token_power():
    assert evaluate(TokenPower(A, LENGTH - 3), {"a": 2, "L": 2}, 20) == 0
    assert evaluate(TokenPower(A, LENGTH - 3), {"a": 2, "L": 6}, 20) == 8
    assert evaluate_tensor(TokenPower(A, LENGTH - 3), {"a": 2, "L": 2})[0] == 0


@pytest.mark.parametrize(("length", "expected"), [(3, 1), (2, 0), (4, None)])
def test_what_a_power_of_no_tokens_averages_is_not_computed(length, expected):
    unknown = TokenPower(Expectation(sp.Function("f")(X), [X]), LENGTH - 3)
    if expected is None:
        with pytest.raises(NameError, match="'f' is not defined"):
            evaluate_tensor(unknown, {"L": length})
    else:
        assert evaluate_tensor(unknown, {"L": length}) == (expected, 0)


# ----------------------------------------------------------------- kinks

KINKED = {
    "E |x|": (sp.Abs(X), lambda: mpmath.sqrt(2 / mpmath.pi)),
    "E max(x, 0)": (sp.Max(X, 0), lambda: 1 / mpmath.sqrt(2 * mpmath.pi)),
    "E max(x, 0)^2": (sp.Max(X, 0) ** 2, lambda: mpmath.mpf(1) / 2),
    "E |x - 1/3|": (
        sp.Abs(X - sp.Rational(1, 3)),
        lambda: 2 * mpmath.npdf(mpmath.mpf(1) / 3) + (2 * mpmath.ncdf(mpmath.mpf(1) / 3) - 1) / 3,
    ),
    "E sign(x - 1)": (sp.sign(X - 1), lambda: 1 - 2 * mpmath.ncdf(1)),
    "E min(x, 1/2)": (
        sp.Min(X, sp.Rational(1, 2)),
        lambda: mpmath.ncdf(-mpmath.mpf(1) / 2) / 2 - mpmath.npdf(mpmath.mpf(1) / 2),
    ),
    "P(x > 2)": (sp.Piecewise((1, X > 2), (0, True)), lambda: mpmath.ncdf(-2)),
    "E |x^2 - 1|": (sp.Abs(X**2 - 1), lambda: 4 * mpmath.npdf(1)),
}


@pytest.mark.parametrize("name", KINKED)
def test_kinks_cost_no_digits(name):
    integrand, closed = KINKED[name]
    with mpmath.workdps(50):
        expected = closed()
    assert_digits(evaluate(Expectation(integrand, [X]), {}, 31), expected, 30)


def test_a_kink_that_moves_with_a_parameter():
    node = Expectation(sp.Max(X - A, 0), [X])
    with mpmath.workdps(50):
        a = mpmath.mpf(1) / 3
        expected = mpmath.npdf(a) - a * mpmath.ncdf(-a)
    assert_digits(evaluate(node, THIRD, 31), expected, 30)


# ----------------------------------------------------------------- averages over tokens


@pytest.mark.parametrize("length", [1, 2, 3])
def test_polynomials_in_tokens(length):
    node = TokenExpectation(
        DistinctSum(CHI[ELL], ELL, 1, LENGTH) ** 2 + ETA[1] ** 2 * X**2, [CHI, ETA], LENGTH, [X]
    )
    assert evaluate_tensor(node, {"L": length})[0] == pytest.approx(length + 1, rel=1e-12)


@pytest.mark.parametrize("length", [2, 3])
def test_weights_are_exchangeable(length):
    share = sp.exp(CHI[1]) / DistinctSum(sp.exp(CHI[ELL]), ELL, 1, LENGTH)
    value, _ = evaluate_tensor(TokenExpectation(share, [CHI], LENGTH), {"L": length})
    assert value == pytest.approx(1 / length, rel=1e-9)


def test_pairs_of_tokens_are_distinct():
    node = TokenExpectation(DistinctSum(sp.exp(CHI[ELL] - CHI[EM]), [ELL, EM], 1, LENGTH), [CHI], LENGTH)
    assert evaluate_tensor(node, {"L": 2})[0] == pytest.approx(2 * math.e, rel=1e-11)


@pytest.mark.parametrize("rule", ["trapezoid", "legendre"])
def test_the_largest_of_two_tokens(rule):
    """E[exp(x); x largest] = exp(1/2) Phi(1/sqrt 2); both tokens together give exp(1/2)."""
    node = TokenExpectation(Largest(CHI, 1) * sp.exp(CHI[1]), [CHI], LENGTH)
    expected = math.exp(0.5) * scipy.special.ndtr(math.sqrt(0.5))
    assert evaluate_tensor(node, {"L": 2}, rule)[0] == pytest.approx(expected, rel=1e-10)


def test_an_average_over_tokens_inside_a_half_line():
    """int_0^inf E[exp(-t (1 + x_1^2 + x_2^2))] dt = int_0^inf exp(-t)/(1 + 2t) dt."""
    inner = TokenExpectation(sp.exp(-T * (1 + DistinctSum(CHI[ELL] ** 2, ELL, 1, LENGTH))), [CHI], LENGTH)
    expected = mpmath.quad(lambda t: mpmath.exp(-t) / (1 + 2 * t), [0, 1, 10, mpmath.inf])
    assert evaluate_tensor(HalfLine(inner, T), {"L": 2})[0] == pytest.approx(float(expected), rel=1e-9)


# ----------------------------------------------------------------- what cannot be evaluated


def test_missing_values_are_named():
    for function in (evaluate, evaluate_tensor):
        with pytest.raises(DerivationError, match="no value for b; known: "):
            function(A * B, {"a": 1})


def test_averages_over_tokens_have_no_arbitrary_precision():
    with pytest.raises(DerivationError, match="TokenExpectation has no arbitrary-precision evaluation"):
        evaluate(TokenExpectation(CHI[1], [CHI], LENGTH), {"L": 2})


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        (Expectation(sp.exp(sp.exp(X**2)), [X]), {}),
        (sp.sqrt(A - 2), {"a": 1}),
        (Expectation(sp.log(X), [X]), {}),
    ],
    ids=["infinite", "outside the domain", "partly outside the domain"],
)
def test_a_number_that_does_not_exist_is_refused(expression, values):
    for function in (evaluate_tensor, tensor_value):
        with pytest.raises(DerivationError, match="not finite"):
            function(expression, values)


@pytest.mark.filterwarnings("error")
def test_branches_that_are_not_taken_do_not_warn():
    smooth = sp.Piecewise((X**4 * sp.log(X), X > 0), (X**4 * sp.log(-X), X < 0), (0, True))
    expected = 1.5 * (mpmath.log(2) + mpmath.digamma(2.5))  # the derivative of E|x|^s at s = 4
    assert evaluate_tensor(Expectation(smooth, [X]), {})[0] == pytest.approx(float(expected), rel=1e-8)


def test_a_rule_that_does_not_converge_says_so():
    with pytest.raises(ConvergenceError, match="did not reach 30 digits"):
        evaluate(HalfLine(sp.exp(-T) * sp.Abs(T - A), T), {"a": 1}, 30)
