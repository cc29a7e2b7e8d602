"""Averages over one token of either class under the normalized weights, from which corrections and noise are made.

The weight of a token over its mean is a = (w/pi) e^(beta g - beta^2/2) for an informative token and
((1 - w)/(1 - pi)) e^(beta g - beta^2/2) for a noise token, with score t = b theta rho + g. Across the query, in the
plane of q and xi, an informative token has the component theta sqrt(1 - rho^2) + y.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import sympy as sp

from theorykit.derivations.nodes import Expectation
from theorykit.derivations.signal_recovery.symbols import (
    BETA,
    FIELD,
    FRACTION,
    MASS,
    NOISE_MASS,
    REST,
    RHO,
    THETA,
)

__all__ = ["ACROSS", "Token", "average", "closed_average", "closed_variance", "covariance", "variance"]

ACROSS = sp.Symbol("y", real=True)  # noise of one token in the plane of q and xi, across q

_WEIGHT = sp.Symbol("a", positive=True)


@dataclass(frozen=True)
class Token:
    """Weight, score, label and transverse component of a token of one class, in its Gaussian fields."""

    share: sp.Expr
    label: sp.Expr
    scale: sp.Expr
    abstract: bool = False  # the weight is a symbol

    @property
    def weight(self) -> sp.Expr:
        return _WEIGHT if self.abstract else self.scale * sp.exp(BETA * FIELD - BETA**2 / 2)

    @property
    def score(self) -> sp.Expr:
        return self.label * THETA * RHO + FIELD

    @property
    def across(self) -> sp.Expr:
        return self.label * THETA * sp.sqrt((1 - RHO) * (1 + RHO)) + ACROSS


_CLASSES = (
    Token(FRACTION, sp.Integer(1), MASS / FRACTION),
    Token(REST, sp.Integer(0), NOISE_MASS / REST),
)
Statistic = Callable[[Token], sp.Expr]


def _within(statistic: sp.Expr) -> sp.Expr:
    used = [x for x in (FIELD, ACROSS) if x in statistic.free_symbols]
    return Expectation(statistic, used) if used else statistic


def average(statistic: Statistic) -> sp.Expr:
    """Mean over all tokens."""
    return sp.Add(*[c.share * _within(statistic(c)) for c in _CLASSES])


def covariance(first: Statistic, second: Statistic) -> sp.Expr:
    """Covariance within the classes, whose sizes are fixed, averaged over them."""
    return sp.Add(
        *[
            c.share * (_within(first(c) * second(c)) - _within(first(c)) * _within(second(c)))
            for c in _CLASSES
        ]
    )


def variance(statistic: Statistic) -> sp.Expr:
    """Variance within the classes, averaged over them."""
    return covariance(statistic, statistic)


# --------------------------------------------------------------------------- closed forms that stay short


def closed_average(first: Statistic, second: Statistic | None = None) -> sp.Expr:
    """Mean of a statistic, or of a product of two, polynomial in the weight and both fields.

    The weights tilt g by beta for each power; coefficients of the two polynomials are multiplied, not expanded.
    """
    return sp.Add(*[c.share * _closed(c, first, second) for c in _CLASSES])


def closed_variance(statistic: Statistic) -> sp.Expr:
    """Variance of a statistic within the classes, averaged over them."""
    return sp.Add(
        *[c.share * (_closed(c, statistic, statistic) - _closed(c, statistic, None) ** 2) for c in _CLASSES]
    )


def _closed(c: Token, first: Statistic, second: Statistic | None) -> sp.Expr:
    parts = [_by_weight(c, first), _by_weight(c, second or (lambda _: sp.Integer(1)))]
    total = sp.Integer(0)
    for i, left in parts[0].items():
        for j, right in parts[1].items():
            tilt = (i + j) * BETA
            moment = _moment(_tilted(left, tilt), _tilted(right, tilt))
            total += c.scale ** (i + j) * sp.exp(sp.Rational((i + j) * (i + j - 1), 2) * BETA**2) * moment
    return total


def _by_weight(c: Token, statistic: Statistic) -> dict[int, sp.Expr]:
    """The polynomial that multiplies each power of the weight."""
    plain = statistic(replace(c, abstract=True))
    found = sp.collect(sp.expand(plain), _WEIGHT, evaluate=False)
    return {int(sp.degree(power, _WEIGHT)) if power != 1 else 0: part for power, part in found.items()}


def _tilted(polynomial: sp.Expr, shift: sp.Expr) -> dict[tuple[int, int], sp.Expr]:
    """Coefficients of the powers of g and y once g is shifted."""
    found: dict[tuple[int, int], sp.Expr] = {}
    for term in sp.Add.make_args(sp.expand(polynomial.xreplace({FIELD: FIELD + shift}))):
        rest, powers = term.as_independent(FIELD, ACROSS, as_Add=False)
        key = tuple(int(sp.degree(powers, x)) if powers.has(x) else 0 for x in (FIELD, ACROSS))
        found[key] = found.get(key, sp.Integer(0)) + rest
    return found


def _moment(left: dict[tuple[int, int], sp.Expr], right: dict[tuple[int, int], sp.Expr]) -> sp.Expr:
    """E of a product of two polynomials in independent standard variables."""
    total = sp.Integer(0)
    for (a, b), first in left.items():
        for (c, d), second in right.items():
            if (a + c) % 2 == 0 and (b + d) % 2 == 0:
                total += _double_factorial(a + c) * _double_factorial(b + d) * first * second
    return total


def _double_factorial(power: int) -> sp.Expr:
    """E g**power for an even power: (power - 1)!!."""
    return sp.factorial2(power - 1)
