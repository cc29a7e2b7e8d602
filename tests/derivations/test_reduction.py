"""Reduction to zero: identities are found, what is not zero never is, and everything is bounded."""

from __future__ import annotations

import time

import pytest
import sympy as sp

from theorykit.derivations.gaussian import gaussian_moment
from theorykit.derivations.nodes import (
    DistinctSum,
    Expectation,
    HalfLine,
    TokenExpectation,
    TruncatedExpectation,
)
from theorykit.derivations.reduction import MOST_OPERATIONS, canonical, reduces_to_zero
from theorykit.derivations.special import gamma_weight, normal_cdf

X, Y = sp.symbols("x y", real=True)
A, B, T, S = sp.symbols("a b t s", positive=True)
LENGTH = sp.Symbol("L", integer=True, positive=True)
CHI = sp.IndexedBase("chi")
ONE, TWO = sp.symbols("l m", integer=True, positive=True)

IDENTITIES = {
    "rational": 1 / (A * (A + 1)) - 1 / A + 1 / (A + 1),
    "bound names": Expectation(sp.exp(A * X), [X]) - Expectation(sp.exp(A * Y), [Y]),
    "linearity": Expectation((sp.exp(X) + A) ** 2, [X])
    - Expectation(sp.exp(2 * X), [X])
    - 2 * A * Expectation(sp.exp(X), [X])
    - A**2,
    "moments": Expectation(X**6, [X]) - 15,
    "correlated moments": Expectation(X**2 * Y**2, [X, Y], [[1, A], [A, 1]]) - 1 - 2 * A**2,
    "fraction under an average": Expectation(1 / (1 + X**2), [X]) + Expectation(X**2 / (1 + X**2), [X]) - 1,
    "constant in front of an integral": HalfLine(A * sp.exp(-T), T) - A * HalfLine(sp.exp(-S), S),
    "average in front of an integral": HalfLine(sp.exp(-A * T) * Expectation(sp.exp(X), [X]), T)
    - Expectation(sp.exp(Y), [Y]) * HalfLine(sp.exp(-A * T), T),
    "truncated": TruncatedExpectation(2 * X + 1, X, A) - 2 * TruncatedExpectation(Y, Y, A) - normal_cdf(A),
    "tokens": TokenExpectation(CHI[1] * A + DistinctSum(CHI[ONE], ONE, 2, LENGTH), [CHI], LENGTH)
    - A * TokenExpectation(CHI[1], [CHI], LENGTH)
    - TokenExpectation(DistinctSum(CHI[TWO], TWO, 2, LENGTH), [CHI], LENGTH),
    "reflection": normal_cdf(X) + normal_cdf(-X) - 1,
    "gamma weight": gamma_weight(T * A, 1) - T * A * sp.exp(-T * A),
    "hyperbolic": sp.tanh(X) - (1 - sp.exp(-2 * X)) / (1 + sp.exp(-2 * X)),
    "logarithm": sp.log(A / B) - sp.log(A) + sp.log(B),
    "gamma function": sp.gamma(A + 2) - (A + 1) * A * sp.gamma(A),
    "powers": sp.exp(X) ** 2 * sp.exp(Y) - sp.exp(2 * X + Y),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_identity_is_found(name):
    assert reduces_to_zero(IDENTITIES[name]) is not None


@pytest.mark.parametrize("name", IDENTITIES)
def test_identity_with_something_added_is_not_zero(name):
    for extra in (sp.Rational(1, 10**9), A, Expectation(sp.exp(X), [X])):
        assert reduces_to_zero(IDENTITIES[name] + extra) is None


@pytest.mark.parametrize("name", [n for n in IDENTITIES if n != "reflection"])
def test_identity_with_a_flipped_sign_is_not_zero(name):
    terms = sp.Add.make_args(IDENTITIES[name])
    for flipped in terms:
        mutated = sp.Add(*[-t if t is flipped else t for t in terms])
        assert reduces_to_zero(mutated) is None


def test_different_laws_are_not_mixed():
    assert reduces_to_zero(Expectation(X**2, [X], [[A]]) - Expectation(X**2, [X], [[B]])) is None
    upper = TruncatedExpectation(X, X, A) - TruncatedExpectation(X, X, B)
    assert reduces_to_zero(upper) is None


def test_averages_inside_functions_are_compared_too():
    left = sp.exp(Expectation((X + 1) ** 2 * A, [X]))
    assert reduces_to_zero(left - sp.exp(2 * A)) == "Gaussian moments"
    assert reduces_to_zero(left - sp.exp(3 * A)) is None


def test_an_average_of_a_product_is_no_product_of_averages():
    assert reduces_to_zero(Expectation(sp.exp(X) * X, [X]) - Expectation(sp.exp(X), [X]) * X) is None
    product = Expectation(sp.exp(X), [X]) * Expectation(sp.tanh(X) ** 2, [X])
    assert reduces_to_zero(Expectation(sp.exp(X) * sp.tanh(X) ** 2, [X]) - product) is None


def test_size_is_bounded():
    big = sp.Add(*[sp.Symbol(f"v{i}") * (i + 2) for i in range(MOST_OPERATIONS // 2 + 1)])
    start = time.perf_counter()
    with pytest.raises(ValueError, match="is not reduced"):
        reduces_to_zero(big)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("powers", [(2, 2), (4, 2), (3, 1), (3, 3), (1, 2)])
def test_moments_by_parts_agree_with_pairings(powers):
    covariance = sp.Matrix([[A, B], [B, 1]])
    node = Expectation(X ** powers[0] * Y ** powers[1], [X, Y], covariance)
    difference = node - gaussian_moment(powers, covariance)
    assert reduces_to_zero(difference) == "Gaussian moments"


def test_canonical_form_is_stable():
    for expression in IDENTITIES.values():
        once = canonical(expression)
        assert canonical(once) == once
