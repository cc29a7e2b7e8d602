r"""The zeros of the slope, all of them, through a monotone function of the attention mass.

Setting: the limit of many tokens. Where J' = 0 the factor h = J'/(2 beta theta w) vanishes; divided by the noise mass
1 - w and with beta theta rho = logit w - logit pi it becomes Psi(w) - logit pi,

    Psi(w) = logit w + theta^2 w + chi (w - pi) + 1/(1 - w),    chi = kappa e^(beta^2)/(pi (1 - pi)).

Psi increases from -inf to inf, so that there is exactly one w_c, and one rho_c = (logit w_c - logit pi)/(beta theta);
Psi(pi) > logit pi puts it below 0. If rho_c <= -1 everything flows to +1; if rho_c > -1 the latitude rho_c separates
what flows to +1 from what flows to -1. The unknown is the shift x = logit w - logit pi = beta theta rho, in the bracket
[-theta^2 pi - 1/(1 - pi), 0]: at its lower end the function is negative, at its upper one positive.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.ledger import Derivation, Limit, Quantity, verified
from theorykit.derivations.signal_recovery.limit import SLOPE, take_from_limit
from theorykit.derivations.signal_recovery.symbols import (
    BETA,
    FRACTION,
    KAPPA,
    MASS,
    NOISE_MASS,
    POINTS,
    REST,
    RHO,
    THETA,
    conclude,
    declare,
    precise,
)

__all__ = ["SHIFT", "derive_fixed_points"]

SHIFT = sp.Symbol(
    "x", real=True
)  # beta theta rho: logit of the attention mass minus its value at the equator
BALANCE = sp.Symbol("balance", real=True)
BALANCE_SLOPE = sp.Symbol("balance_slope", positive=True)
SEPARATRIX = sp.Symbol("separatrix", negative=True)
LOWER = sp.Symbol("lower", negative=True)

_ROWS = declare(
    Quantity(SHIFT, "x", "logit of the attention mass minus the logit of pi"),
    Quantity(BALANCE, r"\Delta", "Psi(w) - logit pi, zero where the slope is"),
    Quantity(BALANCE_SLOPE, r"\Delta'", "its derivative in the shift, positive"),
    Quantity(SEPARATRIX, r"\rho_c", "alignment at the shift x"),
    Quantity(LOWER, "x_-", "lower end of a bracket of the root, whose upper end is 0"),
)
_ODDS = FRACTION / REST * sp.exp(SHIFT)
_IN_SHIFT = {MASS: 1 / (1 + 1 / _ODDS), NOISE_MASS: 1 / (1 + _ODDS)}
_POINTS = tuple({**point, "x": x} for point, x in zip(POINTS, ("-1.7", "0.4"), strict=True))
_PRECISE = {"digits": 30, "left": "mp-trapezoid", "right": "mp-quad"}


def derive_fixed_points(proportional: bool = True) -> Derivation:
    """Observables "balance", "balance_slope", "separatrix" in x, and "lower"."""
    chain = Chain()
    take_from_limit(chain, proportional, SLOPE)
    add_balance(chain, KAPPA if proportional else sp.Integer(0))
    found = (BALANCE, BALANCE_SLOPE, SEPARATRIX, LOWER)
    title = "Fixed points of the flow"
    return conclude(
        chain, "fixed_points", title, found, proportional=proportional, limits=_limits(proportional)
    )


def add_balance(chain: Chain, kappa: sp.Expr) -> None:
    """h/(1 - w) in x = logit w - logit pi, its derivative, the alignment there, and a bracket."""
    mass, noise = _IN_SHIFT[MASS], _IN_SHIFT[NOISE_MASS]
    prior = sp.log(FRACTION) - sp.log(REST)
    chain.define(SEPARATRIX, (sp.log(mass) - sp.log(noise) - prior) / (BETA * THETA),
                 "alignment at a mass, from logit w = logit pi + beta theta rho")  # fmt: skip
    chain.add(SEPARATRIX, "in the shift", SHIFT / (BETA * THETA), "logit w - logit pi is the shift",
              verified(*_POINTS, **_PRECISE))  # fmt: skip
    force = chain.results[SLOPE] / (2 * BETA * THETA * MASS * NOISE_MASS)
    chain.define(BALANCE, force, "the factor h of the slope over the noise mass")
    chain.add(BALANCE, "alignment by the shift", force.xreplace({RHO: SHIFT / (BETA * THETA)}),
              "beta theta rho is the shift", precise({SHIFT: BETA * THETA * RHO}),
              also=(SEPARATRIX, SLOPE))  # fmt: skip
    excess = sp.tanh(SHIFT / 2) * (mass / FRACTION + noise / REST)
    psi = SHIFT + THETA**2 * mass + kappa * sp.exp(BETA**2) * excess + 1 + FRACTION / REST * sp.exp(SHIFT)
    chain.add(BALANCE, "monotone form", psi, "1/(1 - w) = 1 + exp(logit w)",
              verified(*_POINTS, concrete=_inserted, **_PRECISE))  # fmt: skip
    chain.define(BALANCE_SLOPE, sp.diff(psi, SHIFT), "derivative in the shift")
    chi = kappa * sp.exp(BETA**2) * (1 / FRACTION + 1 / REST)
    positive = 1 + THETA**2 * mass * noise + chi * mass * noise + FRACTION / REST * sp.exp(SHIFT)
    chain.add(BALANCE_SLOPE, "sum of positive terms", positive,
              "the derivative of w in its logit is w (1 - w): every term is positive, so that the root is unique",
              verified(*_POINTS, **_PRECISE))  # fmt: skip
    chain.define(LOWER, -psi.xreplace({SHIFT: sp.Integer(0)}), "minus the balance at shift 0")
    chain.add(LOWER, "balance at the equator", -(THETA**2) * FRACTION - 1 / REST,
              "Psi(pi) - logit pi = theta^2 pi + 1/(1 - pi) > 0; as far below 0 every other term is smaller than "
              "there, and the balance is negative", verified(*_POINTS, **_PRECISE))  # fmt: skip


def _inserted(expression: sp.Expr, _: int) -> sp.Expr:
    return expression.xreplace(_IN_SHIFT)


def _limits(proportional: bool) -> tuple[Limit, ...]:
    prior = {"theta": 1, "fraction": 0.5, "noise_fraction": 0.5, "beta": 1, "x": 0}
    prior |= {"kappa": 3} if proportional else {}
    return (
        Limit("balance", prior, sp.Rational(5, 2), "theta^2 pi + 1/(1 - pi) at the equator, for any kappa"),
        Limit("separatrix", prior, sp.Integer(0), "no shift at the equator"),
    )
