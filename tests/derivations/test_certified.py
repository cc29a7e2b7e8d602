"""Digits that two independent runs vouch for: nested integrals against mpmath, and refusals."""

from __future__ import annotations

import mpmath
import pytest
import sympy as sp

from theorykit import derivations
from theorykit.derivations.certified import certified, evaluate_certified
from theorykit.derivations.evaluate import evaluate, evaluate_all
from theorykit.derivations.nodes import Expectation, HalfLine
from theorykit.derivations.special import gamma_weight, normal_cdf
from theorykit.derivations.translation import PLACE, translation_of
from theorykit.errors import ConvergenceError

X, Y, Z = sp.symbols("x y z", real=True)
A, B, T, U = sp.symbols("a b t u", positive=True)


def assert_digits(value, expected, digits):
    with mpmath.workdps(digits + 20):
        assert abs(value - expected) <= abs(expected) * mpmath.mpf(10) ** -digits


# ----------------------------------------------------------------- nested integrals


def softmax_of_two(nu: str, digits: int) -> mpmath.mpf:
    """E sigmoid(-(sqrt(2 nu) z + nu)): the mass on the wrong one of two tokens, an average over one field."""
    with mpmath.workdps(digits + 15):
        nu = mpmath.mpf(nu)
        return mpmath.quad(
            lambda z: mpmath.npdf(z) / (1 + mpmath.exp(mpmath.sqrt(2 * nu) * z + nu)),
            [mpmath.mpf(k) / 2 for k in range(-36, 37)],
        )


@pytest.mark.parametrize("nu", ["0.3", *(pytest.param(nu, marks=pytest.mark.slow) for nu in ("2", "7"))])
def test_spiked_bayes_risk_of_two_tokens(nu):
    """Excess risk E[1 - p_eps]; without a Laplace variable the posterior of two tokens is a logistic function."""
    record = derivations.get("single_location.bayes_risk").equations
    value = record.evaluate({"nu": nu, "L": 2, "noise": 0}, 40)["bayes_excess"]
    assert_digits(value, softmax_of_two(nu, 40), 40)


def test_max_bayes_risk_of_two_tokens():
    """E[2 p (1 - p)] with p = sigmoid(nu sqrt(2) z)."""
    record = derivations.get("single_location.bayes_risk", task="max").equations
    value = record.evaluate({"nu": "3/2", "L": 2, "noise": 0}, 40)["bayes_excess"]
    with mpmath.workdps(55):
        scale = mpmath.mpf(3) / mpmath.sqrt(2)
        expected = mpmath.quad(
            lambda z: mpmath.npdf(z) / (2 * mpmath.cosh(scale * z / 2) ** 2),
            [mpmath.mpf(k) / 4 for k in range(-68, 69)],
        )
    assert_digits(value, expected, 40)


@pytest.mark.slow
def test_more_digits_agree_with_fewer():
    record = derivations.get("single_location.bayes_risk").equations
    fewer, more = (record.evaluate({"nu": 2, "L": 3, "noise": "1/2"}, n) for n in (25, 50))
    for name, value in more.items():
        assert_digits(fewer[name], value, 25)


def test_forms_of_the_bayes_risk_agree():
    """The half-line integrals over fields and over weights move with different variables."""
    point = {"nu": 3, "L": 4, "noise": 0}
    plain, steep = (
        derivations.get("single_location.bayes_risk", task="max", steep=steep).equations.evaluate(point, 20)
        for steep in (False, True)
    )
    assert_digits(plain["bayes_excess"], steep["bayes_excess"], 20)


def test_no_signal_and_single_token():
    record = derivations.get("single_location.bayes_risk").equations
    value = record.evaluate({"nu": 0, "L": 3, "noise": 0}, 30)["bayes_excess"]
    with mpmath.workdps(50):
        assert_digits(value, mpmath.mpf(2) / 3, 30)
    assert record.evaluate({"nu": 1, "L": 1, "noise": 0}, 30)["bayes_excess"] == 0


# ----------------------------------------------------------------- tables of inner integrals


def one_average(function):
    """E f(x) over a standard Gaussian x, to 50 digits."""
    grid = [mpmath.mpf(k) / 4 for k in range(-68, 69)]
    return mpmath.quad(lambda x: mpmath.npdf(x) * function(x), grid)


def logistic_squared(x, a, b):
    return 1 / (1 + mpmath.exp(a * (x + b))) ** 2


# a nested integral and its value as an average over one field, or in closed form
NESTED = {
    "Laplace factor": (
        HalfLine(Expectation(gamma_weight(T * sp.exp(A * X), 1), [X]) ** 2 / T, T),
        lambda a, b: one_average(lambda x: 1 / (4 * mpmath.cosh(a * x / mpmath.sqrt(2)) ** 2)),
    ),
    "shifted": (
        HalfLine(T * sp.exp(-T) * Expectation(sp.exp(-T * sp.exp(A * (X + B))), [X]), T),
        lambda a, b: one_average(lambda x: logistic_squared(x, a, b)),
    ),
    "own factor": (
        HalfLine(sp.exp(-T) * Expectation(X**2 * gamma_weight(T * sp.exp(-X), 2), [X]), T),
        lambda a, b: one_average(lambda x: 2 * x**2 * mpmath.exp(x) / (1 + mpmath.exp(x)) ** 3),
    ),
    "outer factor": (
        HalfLine(Expectation(sp.exp(-T) * sp.cos(sp.log(T) / 3 + A * X), [X]), T),
        lambda a, b: mpmath.exp(-(a**2) / 2) * mpmath.re(mpmath.gamma(1 + mpmath.mpc(0, 1) / 3)),
    ),
    "half-line inside": (
        HalfLine(sp.exp(-T) * HalfLine(sp.exp(-U) * normal_cdf(sp.log(U) - sp.log(T) + B), U), T),
        lambda a, b: one_average(lambda x: 1 / (1 + mpmath.exp(x - b))),
    ),
    "average around": (
        Expectation(HalfLine(sp.exp(-T) * normal_cdf(sp.log(T) + A * X), T), [X]),
        lambda a, b: one_average(lambda x: mpmath.exp(-mpmath.exp(mpmath.sqrt(1 + a**2) * x))),
    ),
    "no slope": (
        HalfLine(sp.exp(-T) * Expectation(X**2 * sp.exp(-T * sp.exp((A - B / 2) * X)), [X]), T),
        lambda a, b: mpmath.mpf(1) / 2,
    ),
    "factors averaged where they vary": (
        Expectation(sp.exp(A * X) * sp.cos(X * Y), [X, Y, Z]),
        lambda a, b: mpmath.exp(a**2 / 4) / mpmath.sqrt(2),
    ),
}


FAST = ("no slope", "outer factor", "average around")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in FAST)) for n in NESTED]
)
def test_nested_integrals_to_forty_digits(name):
    node, closed = NESTED[name]
    (found,) = evaluate_certified({"value": node}, {"a": "1/4", "b": "1/2"}, 40).values()
    with mpmath.workdps(55):
        expected = closed(mpmath.mpf(1) / 4, mpmath.mpf(1) / 2)
    assert_digits(found.value, expected, 40)
    assert found.error <= mpmath.mpf(10) ** -40 * abs(found.value)


def test_an_inner_integral_that_gets_ever_steeper():
    """E 1/(1 + x^2); exp(-t x^2) becomes a spike at large t, where nothing is left of exp(-t)."""
    node = HalfLine(sp.exp(-T) * Expectation(sp.exp(-T * X**2), [X]), T)
    (found,) = evaluate_certified({"value": node}, {}, 10).values()
    with mpmath.workdps(30):
        expected = mpmath.sqrt(mpmath.pi * mpmath.e / 2) * mpmath.erfc(1 / mpmath.sqrt(2))
    assert_digits(found.value, expected, 10)


@pytest.mark.slow
def test_tables_agree_with_integrals_one_by_one():
    """The rule "quad" nests tanh-sinh quadratures and knows no tables."""
    node = HalfLine(sp.exp(-T) * Expectation(X * gamma_weight(T * sp.exp(A * X), 2), [X]) ** 2, T)
    value, plain = (evaluate(node, {"a": "2/3"}, 7, rule) for rule in ("trapezoid", "quad"))
    assert_digits(value, plain, 6)


def test_translation_of_a_laplace_factor():
    """With t = exp(s) the factor is a function of s + a x alone, at any place."""
    node = Expectation(X * sp.exp(-T * sp.exp(A * (X + B))) / (1 + T), [X])
    found = translation_of(node, T, logarithm=True)
    assert (found.ratio, found.own, found.outer) == (A, X, 1 / (1 + T))
    s = sp.Symbol("s", real=True)
    moved = found.moving.xreplace({PLACE: s + A * X})
    gap = moved - sp.exp(-sp.exp(s) * sp.exp(A * (X + B)))
    assert abs(gap.subs({s: 0.3, A: 0.7, X: -0.4, B: 0.2})) < 1e-14


@pytest.mark.parametrize(
    "integrand", [sp.exp(-T * (X**2 + 1)), sp.exp(-T * sp.exp(X)) * sp.cos(X * T), sp.exp(X)]
)
def test_what_does_not_move_as_a_whole(integrand):
    assert translation_of(Expectation(integrand, [X]), T, logarithm=True) is None


# ----------------------------------------------------------------- digits that cancel, refusals


def test_digits_that_cancel_are_carried():
    value = evaluate_certified({"gap": sp.exp(A) - 1 - A}, {"a": "1e-18"}, 40)["gap"].value
    with mpmath.workdps(100):
        a = mpmath.mpf("1e-18")
        assert_digits(value, mpmath.exp(a) - 1 - a, 40)
    single = evaluate_all({"gap": sp.exp(A) - 1 - A}, {"a": "1e-18"}, 40)["gap"]
    assert abs(single / value - 1) > 1e-30  # one run does not see it


def test_what_cancels_to_nothing_is_zero_with_its_size_as_error():
    found = evaluate_certified({"zero": sp.sin(A) ** 2 + sp.cos(A) ** 2 - 1}, {"a": "1/3"}, 30)["zero"]
    assert found.value == 0 and found.error < mpmath.mpf(10) ** -60


def test_a_quadrature_that_does_not_converge_is_refused():
    step = HalfLine(sp.exp(-T) * sp.Heaviside(T - A), T)
    with pytest.raises(ConvergenceError, match="did not reach 22 digits"):
        evaluate_certified({"value": step}, {"a": 1}, 20)


def test_runs_that_never_agree_are_refused():
    def run(which: int, carried: int) -> dict[str, mpmath.mpf]:
        return {"value": mpmath.mpf(1) + which * mpmath.mpf(10) ** -12}

    assert certified(run, 11)["value"].value == pytest.approx(1, abs=1e-11)
    with pytest.raises(
        ConvergenceError, match=r"value not reached to 20 digits.*9 digits are missing"
    ) as caught:
        certified(run, 20)
    assert caught.value.steps == 4 and caught.value.last["value"][0] == 1


@pytest.mark.parametrize("digits", [0, -3, 2.5, "40"])
def test_digits_are_a_positive_integer(digits):
    with pytest.raises((ValueError, TypeError), match="digits must be an integer"):
        evaluate_certified({"value": A}, {"a": 1}, digits)
