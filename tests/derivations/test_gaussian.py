"""Gaussian calculus against enumeration, numerical averages and closed forms."""

from __future__ import annotations

from itertools import permutations

import mpmath
import numpy as np
import pytest
import sympy as sp

from theorykit.derivations.evaluate import evaluate
from theorykit.derivations.gaussian import gaussian_moment, standardize, stein, tilt, wick
from theorykit.derivations.nodes import Expectation
from theorykit.derivations.special import normal_cdf
from theorykit.derivations.tensor import evaluate_tensor
from theorykit.errors import DerivationError

X, Y, Z = sp.symbols("x y z", real=True)
A, B = sp.symbols("a b", positive=True)
THIRD = sp.Rational(1, 3)
COVARIANCE = sp.Matrix([[2, THIRD / 2, -1], [THIRD / 2, 1, THIRD], [-1, THIRD, 3]])


def brute_force_moment(powers: tuple[int, ...], covariance: sp.Matrix) -> sp.Expr:
    """Sum over all orderings, consecutive factors paired; a pairing of n pairs occurs n! 2^n times."""
    factors = [i for i, p in enumerate(powers) for _ in range(p)]
    if len(factors) % 2:
        return sp.Integer(0)
    half = len(factors) // 2
    total = sum(
        sp.prod([covariance[order[2 * i], order[2 * i + 1]] for i in range(half)])
        for order in permutations(factors)
    )
    return sp.sympify(total) / (sp.factorial(half) * 2**half)


@pytest.mark.parametrize(
    "powers",
    [(0, 0, 0), (2, 0, 0), (1, 1, 0), (1, 1, 1), (2, 1, 1), (4, 0, 2), (1, 2, 3), (2, 2, 2), (3, 3, 1)],
)
def test_moments_equal_the_sum_over_orderings(powers):
    assert gaussian_moment(powers, COVARIANCE) == brute_force_moment(powers, COVARIANCE)


@pytest.mark.parametrize("power", range(0, 13, 2))
def test_moments_of_one_variable_are_double_factorials(power):
    assert gaussian_moment((power,), sp.Matrix([[A]])) == sp.factorial2(power - 1) * A ** (power // 2)


def test_wick_of_a_polynomial_with_symbolic_covariance():
    node = Expectation((X * Y + A) ** 2 * (1 + B * Y), [X, Y], [[A, B], [B, 1]])
    expected = A + 2 * B**2 + 2 * A * B + A**2
    assert sp.expand(wick(node) - expected) == 0


def test_wick_agrees_with_quadrature():
    node = Expectation((X + 2 * Y - 1) ** 4 + X**3 * Y, [X, Y], COVARIANCE[:2, :2])
    value, _ = evaluate_tensor(node, {})
    assert float(wick(node)) == pytest.approx(value, rel=1e-12)


def test_wick_refuses_what_is_no_polynomial():
    with pytest.raises(DerivationError, match="needs a polynomial"):
        wick(Expectation(sp.exp(X), [X]))


# ----------------------------------------------------------------- Stein


@pytest.mark.parametrize(
    "integrand",
    [X * sp.exp(A * X + Y / 3), X * sp.tanh(X + Y), X**3 * normal_cdf(Y - X), X * Y * sp.cos(X)],
)
@pytest.mark.parametrize("correlation", [0, sp.Rational(2, 5)])
def test_stein_keeps_the_value(integrand, correlation):
    node = Expectation(integrand, [X, Y], [[1, correlation], [correlation, 2]])
    before, _ = evaluate_tensor(node, {"a": 0.6})
    after, _ = evaluate_tensor(stein(node, X), {"a": 0.6}, "legendre")
    assert after == pytest.approx(before, rel=1e-11, abs=1e-13)


def test_stein_to_thirty_digits():
    node = Expectation(X * sp.exp(A * X), [X])
    with mpmath.workdps(40):
        gap = evaluate(node, {"a": "3/7"}, 32) - evaluate(stein(node, X), {"a": "3/7"}, 32, "quad")
        assert abs(gap) < mpmath.mpf(10) ** -31


def test_stein_needs_the_factor():
    for integrand in (sp.exp(X), sp.exp(X) / X):
        with pytest.raises(DerivationError, match="needs a factor x"):
            stein(Expectation(integrand, [X]), X)


# ----------------------------------------------------------------- tilt


def test_tilt_of_a_correlated_pair_in_closed_form():
    node = Expectation(sp.exp(2 * X + 3) * X * Y, [X, Y], [[A, B], [B, A]])
    expected = sp.exp(2 * A + 3) * (B + 4 * A * B)
    moved = tilt(node)
    inside = moved.atoms(Expectation).pop()
    assert sp.simplify(moved.xreplace({inside: wick(inside)}) - expected) == 0


@pytest.mark.parametrize(
    "integrand",
    [
        sp.exp(A * X - Y / 2) * sp.tanh(X + Y),
        sp.exp(A * X + 1) / (1 + sp.exp(X)),
        sp.exp(A * X - X**2) * Y**2,
        sp.exp(A * X) * sp.exp(Y) * normal_cdf(X * Y),
    ],
)
def test_tilt_keeps_the_value(integrand):
    node = Expectation(integrand, [X, Y], [[1, sp.Rational(1, 3)], [sp.Rational(1, 3), 1]])
    before, _ = evaluate_tensor(node, {"a": 0.8})
    after, _ = evaluate_tensor(tilt(node), {"a": 0.8}, "legendre")
    assert after == pytest.approx(before, rel=1e-11)


def test_tilt_needs_a_linear_exponent():
    for integrand in (X**2, sp.exp(-(X**2)) * X):
        with pytest.raises(DerivationError, match="no linear exponential factor"):
            tilt(Expectation(integrand, [X]))


# ----------------------------------------------------------------- standardize


def test_standardize_keeps_moments():
    node = Expectation(X**2 * Y + X * Z + Z**4, [X, Y, Z], COVARIANCE)
    standard = standardize(node)
    assert standard.is_standard
    assert sp.simplify(wick(standard) - wick(node)) == 0


def test_standardize_leaves_standard_variables_alone():
    node = Expectation(sp.exp(X), [X])
    assert standardize(node) is node


def test_covariance_agrees_with_sampling():
    node = Expectation(sp.Max(X, 0) * sp.tanh(Y), [X, Y], [[2, 1], [1, 3]])
    value, _ = evaluate_tensor(node, {})
    rng = np.random.default_rng(5)
    x, y = rng.multivariate_normal([0, 0], [[2, 1], [1, 3]], size=400_000).T
    draws = np.maximum(x, 0) * np.tanh(y)
    assert abs(draws.mean() - value) < 4 * draws.std() / np.sqrt(draws.size)
