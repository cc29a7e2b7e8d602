r"""Integrands of an inner integral that move with the outer variable as a whole.

In the coordinate s of the outer and y of the inner variable (their logarithms in half-line integrals) many inner
integrands are

.. math:: f(s, y) = a(s)\,b(y)\,g(s+ry):

a Laplace factor :math:`e^{-te^{\beta x}}` with :math:`t=e^s` is a function of :math:`s+\beta x`. On grids whose steps
have the ratio r the arguments of g fall on one lattice, and g is computed once per site, not once per pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from theorykit.derivations.nodes import Expectation, HalfLine, Node

__all__ = ["PLACE", "Translation", "translation_of"]

PLACE = sp.Symbol("_place", real=True)
_S, _Y = sp.symbols("_outer _inner", real=True)


@dataclass(frozen=True)
class Translation:
    """The three factors of an integrand: of the outer variable, of the inner one, of :data:`PLACE` = s + ratio y."""

    outer: sp.Expr
    own: sp.Expr
    moving: sp.Expr
    ratio: sp.Expr


@lru_cache(maxsize=1024)
def translation_of(node: Expectation | HalfLine, outer: sp.Symbol, logarithm: bool) -> Translation | None:
    """How an integral over one variable moves with ``outer`` (or with its logarithm); None where it does not."""
    inner = node.variables[0] if isinstance(node, Expectation) else node.variable
    factors = sp.Mul.make_args(node.integrand)
    both = [f for f in factors if {inner, outer} <= f.free_symbols]
    if not both or any(f.has(Node) for f in both):
        return None
    places = {outer: sp.exp(_S) if logarithm else _S, inner: sp.exp(_Y) if isinstance(node, HalfLine) else _Y}
    found: list[sp.Expr] = []
    moving = [_moving(f.xreplace(places), found) for f in both]
    if None in moving or not found or any(sp.cancel(r - found[0]) != 0 for r in found):
        return None
    alone = [f for f in factors if f not in both]
    return Translation(
        outer=sp.Mul(*[f for f in alone if inner not in f.free_symbols]),
        own=sp.Mul(*[f for f in alone if inner in f.free_symbols]),
        moving=sp.Mul(*moving),
        ratio=found[0],
    )


def _moving(expression: sp.Expr, ratios: list[sp.Expr]) -> sp.Expr | None:
    """An expression of s and y as one of PLACE; ``ratios`` receives r of every affine part, None: there is none."""
    free = expression.free_symbols & {_S, _Y}
    if not free:
        return expression
    if len(free) == 1:
        return None
    affine = _affine(expression)
    if affine is not None:
        slope, ratio, constant = affine
        ratios.append(ratio)
        return slope * PLACE + constant
    arguments = _exponentials_joined(expression) if expression.is_Mul else expression.args
    parts = [_moving(a, ratios) for a in arguments]
    return None if None in parts else expression.func(*parts)


def _affine(expression: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr] | None:
    """(a, r, c) of an expression a (s + r y) + c."""
    if not (expression.is_Add or expression.is_Mul):
        return None
    plain = sp.expand(expression)
    slope, other = plain.coeff(_S, 1), plain.coeff(_Y, 1)
    constant = sp.expand(plain - slope * _S - other * _Y)
    if slope == 0 or other == 0 or any(e.free_symbols & {_S, _Y} for e in (slope, other, constant)):
        return None
    return slope, other / slope, constant


def _exponentials_joined(product: sp.Expr) -> list[sp.Expr]:
    """Factors of a product, its exponentials as one."""
    exponents = [f.args[0] for f in product.args if isinstance(f, sp.exp)]
    rest = [f for f in product.args if not isinstance(f, sp.exp)]
    return [*rest, sp.exp(sp.Add(*exponents))] if exponents else rest
