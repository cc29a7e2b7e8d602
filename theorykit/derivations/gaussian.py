"""Gaussian calculus: Wick's theorem, Stein's lemma and the exponential tilt, as rewritings of nodes.

Each function takes an expression, applies one named rule and returns the rewritten expression; it raises
:class:`~theorykit.errors.DerivationError` where the rule does not apply.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from theorykit.derivations.nodes import Expectation
from theorykit.errors import DerivationError

__all__ = ["gaussian_moment", "standardize", "stein", "tilt", "wick"]


@cache
def _pairings(indices: tuple[int, ...]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """All ways to pair up an even number of indices."""
    if not indices:
        return ((),)
    first, rest = indices[0], indices[1:]
    found = []
    for position, partner in enumerate(rest):
        remaining = rest[:position] + rest[position + 1 :]
        found.extend(((first, partner), *tail) for tail in _pairings(remaining))
    return tuple(found)


def gaussian_moment(powers: tuple[int, ...], covariance: sp.Matrix) -> sp.Expr:
    """E[prod_i x_i**powers_i] of zero-mean jointly Gaussian x: the sum over pairings (Wick, Isserlis)."""
    indices = tuple(i for i, power in enumerate(powers) for _ in range(power))
    if len(indices) % 2:
        return sp.Integer(0)
    return sp.Add(*[sp.prod([covariance[i, j] for i, j in p]) for p in _pairings(indices)])


def wick(node: Expectation) -> sp.Expr:
    """Average of a polynomial by Wick's theorem; coefficients may be any expression free of the variables."""
    try:
        polynomial = sp.Poly(sp.expand(node.integrand), *node.variables)
    except sp.PolynomialError as error:
        raise DerivationError(f"Wick's theorem needs a polynomial in {node.variables}: {error}") from error
    return sp.Add(
        *[
            coefficient * gaussian_moment(powers, node.covariance)
            for powers, coefficient in polynomial.terms()
        ]
    )


def stein(node: Expectation, variable: sp.Symbol) -> sp.Expr:
    """Gaussian integration by parts: E[x g] = sum_j Cov(x, x_j) E[d_j g], for an integrand x * g."""
    rest = node.integrand / variable
    if not node.integrand.as_powers_dict()[variable] >= 1:
        raise DerivationError(f"Stein's lemma needs a factor {variable} in {node.integrand}")
    row = list(node.variables).index(variable)
    return sp.Add(
        *[
            node.covariance[row, column] * Expectation(sp.diff(rest, other), node.variables, node.covariance)
            for column, other in enumerate(node.variables)
        ]
    )


def tilt(node: Expectation) -> sp.Expr:
    """Exponential tilt: E[exp(a.x + c) g(x)] = exp(a.Ca/2 + c) E[g(x + Ca)] for linear exponents a.x + c.

    Only the exponential factors that are linear in the variables are used; the others stay in g.
    """
    variables = list(node.variables)
    exponent, rest = sp.Integer(0), sp.Integer(1)
    for factor in sp.Mul.make_args(sp.powsimp(node.integrand, deep=False)):
        if isinstance(factor, sp.exp):
            linear, other = _split_linear(factor.args[0], variables)
            exponent += linear
            rest *= sp.exp(other)
        else:
            rest *= factor
    slope = sp.Matrix([exponent.coeff(v, 1) for v in variables])
    if slope.is_zero_matrix:
        raise DerivationError(f"no linear exponential factor to tilt with in {node.integrand}")
    constant = exponent.subs(dict.fromkeys(variables, 0))
    shift = node.covariance * slope
    moved = rest.xreplace({v: v + s for v, s in zip(variables, shift, strict=True)})
    weight = (slope.T * node.covariance * slope)[0] / 2 + constant
    return sp.exp(sp.expand(weight)) * Expectation(moved, node.variables, node.covariance)


def _split_linear(exponent: sp.Expr, variables: list[sp.Symbol]) -> tuple[sp.Expr, sp.Expr]:
    """Split an exponent into its part that is affine in the variables and the remainder."""
    affine, other = sp.Integer(0), sp.Integer(0)
    for term in sp.Add.make_args(sp.expand(exponent, deep=False)):
        is_affine = all(sp.diff(term, v, w).is_zero for v in variables for w in variables)
        if is_affine:
            affine += term
        else:
            other += term
    return affine, other


def standardize(node: Expectation) -> Expectation:
    """The same average over independent standard variables (Cholesky factor of the covariance)."""
    if node.is_standard:
        return node
    factor = node.covariance.cholesky(hermitian=False)
    correlated = factor * sp.Matrix(list(node.variables))
    integrand = node.integrand.xreplace(dict(zip(node.variables, correlated, strict=True)))
    return Expectation(integrand, node.variables)
