r"""The zeros of the slope, all of them, through a monotone function of the attention mass.

Setting: the limit of many tokens. Where J' = 0 the factor h = J'/(2 beta theta w) vanishes; divided by the noise mass
1 - w and with beta theta rho = logit w - logit pi it becomes Psi(w) - logit pi,

    Psi(w) = logit w + theta^2 w + chi (w - pi) + 1/(1 - w),    chi = kappa e^(beta^2)/(pi (1 - pi)).

Psi increases from -inf to inf, so that there is exactly one w_c, and one rho_c = (logit w_c - logit pi)/(beta theta);
Psi(pi) > logit pi puts it below 0. If rho_c <= -1 everything flows to +1; if rho_c > -1 the latitude rho_c separates
what flows to +1 from what flows to -1. In y = logit w the bracket is
[logit pi - theta^2 pi - 1/(1 - pi), logit pi]: at its lower end the function is negative, at its upper one positive.
Equation (7) of the specification of the model.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.ledger import Derivation, Equations, Limit, Quantity, verified
from theorykit.derivations.signal_recovery.limit import SLOPE, add_limit
from theorykit.derivations.signal_recovery.symbols import (
    BETA,
    FRACTION,
    KAPPA,
    MASS,
    NOISE_MASS,
    PAPER,
    RHO,
    THETA,
    precise,
    quantities,
)

__all__ = ["LOGIT", "derive_fixed_points"]

LOGIT = sp.Symbol("y", real=True)  # logit of the attention mass
BALANCE = sp.Symbol("balance", real=True)
BALANCE_SLOPE = sp.Symbol("balance_slope", positive=True)
SEPARATRIX = sp.Symbol("separatrix", negative=True)
LOWER, UPPER = sp.Symbol("lower", real=True), sp.Symbol("upper", real=True)

_ROWS = {
    LOGIT: Quantity(LOGIT, "y", "logit of the attention mass"),
    BALANCE: Quantity(BALANCE, r"\Delta", "Psi(w) - logit pi, zero where the slope is"),
    BALANCE_SLOPE: Quantity(BALANCE_SLOPE, r"\Delta'", "its derivative in y, positive"),
    SEPARATRIX: Quantity(SEPARATRIX, r"\rho_c", "alignment at the attention mass of logit y"),
    LOWER: Quantity(LOWER, "y_-", "lower end of a bracket of the root"),
    UPPER: Quantity(UPPER, "y_+", "upper end of a bracket of the root"),
}
_PRIOR = sp.log(FRACTION) - sp.log(1 - FRACTION)
_IN_LOGIT = {MASS: 1 / (1 + sp.exp(-LOGIT)), NOISE_MASS: 1 / (1 + sp.exp(LOGIT))}
_POINTS = (
    {"theta": "1.3", "fraction": "0.2", "beta": "0.8", "kappa": "0.7", "y": "-1.7"},
    {"theta": "0.6", "fraction": "0.65", "beta": "1.1", "kappa": "0.3", "y": "0.4"},
)
_PRECISE = {"digits": 30, "left": "mp-trapezoid", "right": "mp-quad"}


def derive_fixed_points(proportional: bool = True) -> Derivation:
    """Observables "balance", "balance_slope", "separatrix" in y, and the bracket "lower", "upper"."""
    chain = Chain()
    add_limit(chain, proportional)
    add_balance(chain, KAPPA if proportional else sp.Integer(0))
    found = (BALANCE, BALANCE_SLOPE, SEPARATRIX, LOWER, UPPER)
    inputs = (THETA, FRACTION, BETA, *((KAPPA,) if proportional else ()))
    record = Equations(
        f"signal_recovery.fixed_points.{'proportional' if proportional else 'fixed_dimension'}",
        quantities(*inputs, extra=(_ROWS[LOGIT], *(_ROWS[s] for s in found))),
        {},
        {s.name: chain.results[s] for s in found},
        limits=_limits(proportional),
    )
    title = f"Fixed points of the flow, {'dimension proportional to the tokens' if proportional else 'fixed dimension'}"
    return Derivation(record.name, title, PAPER, tuple(chain.definitions), tuple(chain.steps), record)


def add_balance(chain: Chain, kappa: sp.Expr) -> None:
    """h/(1 - w) in y = logit w, its derivative, the alignment there, and a bracket."""
    alignment = (LOGIT - _PRIOR) / (BETA * THETA)
    odds = _IN_LOGIT[MASS] / _IN_LOGIT[NOISE_MASS]
    chain.define(SEPARATRIX, (sp.log(odds) - _PRIOR) / (BETA * THETA),
                 "alignment at a mass, from logit w = logit pi + beta theta rho")  # fmt: skip
    chain.add(
        SEPARATRIX, "in the logit of the mass", alignment, "y = logit w", verified(*_POINTS, **_PRECISE)
    )
    force = chain.results[SLOPE] / (2 * BETA * THETA * MASS * NOISE_MASS)
    chain.define(BALANCE, force, "the factor h of the slope over the noise mass")
    rho_free = force.xreplace({RHO: alignment})
    chain.add(BALANCE, "alignment by the mass", rho_free, "beta theta rho = logit w - logit pi",
              precise({LOGIT: _PRIOR + BETA * THETA * RHO}), also=(SEPARATRIX, SLOPE))  # fmt: skip
    excess = _IN_LOGIT[MASS] / FRACTION - _IN_LOGIT[NOISE_MASS] / (1 - FRACTION)
    psi = LOGIT + THETA**2 * _IN_LOGIT[MASS] + kappa * sp.exp(BETA**2) * excess + 1 + sp.exp(LOGIT) - _PRIOR
    chain.add(BALANCE, "monotone form", psi, "logit w = y and 1/(1 - w) = 1 + exp(y)",
              verified(*_with_length(), concrete=_logit_only, **_PRECISE))  # fmt: skip
    chain.define(BALANCE_SLOPE, sp.diff(psi, LOGIT), "derivative in y")
    both = _IN_LOGIT[MASS] * _IN_LOGIT[NOISE_MASS]
    chi = kappa * sp.exp(BETA**2) * (1 / FRACTION + 1 / (1 - FRACTION))
    chain.add(BALANCE_SLOPE, "sum of positive terms", 1 + THETA**2 * both + chi * both + sp.exp(LOGIT),
              "the derivative of w in y is w (1 - w): every term is positive, so that the root is unique",
              verified(*_POINTS, **_PRECISE))  # fmt: skip
    _add_bracket(chain, psi)


def _add_bracket(chain: Chain, psi: sp.Expr) -> None:
    """At logit pi the balance is theta^2 pi + 1/(1 - pi); below it by as much, all its terms have fallen."""
    top = psi.xreplace({LOGIT: _PRIOR}) + _PRIOR
    chain.define(UPPER, top - THETA**2 * FRACTION - 1 / (1 - FRACTION), "where the balance is positive")
    chain.add(UPPER, "balance at the prior", _PRIOR, "Psi(pi) - logit pi = theta^2 pi + 1/(1 - pi) > 0",
              verified(*_POINTS, **_PRECISE))  # fmt: skip
    chain.define(LOWER, _PRIOR - (top - _PRIOR), "the prior logit minus the balance there")
    chain.add(LOWER, "lower end", _PRIOR - THETA**2 * FRACTION - 1 / (1 - FRACTION),
              "below logit pi every term but y is smaller than there: the balance is negative",
              verified(*_POINTS, **_PRECISE), also=(UPPER,))  # fmt: skip


def _with_length() -> tuple[dict[str, object], ...]:
    return tuple({**point, "L": 1} for point in _POINTS)


def _logit_only(expression: sp.Expr, _: int) -> sp.Expr:
    return expression.xreplace(_IN_LOGIT)


def _limits(proportional: bool) -> tuple[Limit, ...]:
    prior = {"theta": 1, "fraction": 0.5, "beta": 1, "y": 0}
    prior |= {"kappa": 3} if proportional else {}
    return (
        Limit("balance", prior, sp.Rational(5, 2), "theta^2 pi + 1/(1 - pi) at the prior, for any kappa"),
        Limit("separatrix", prior, sp.Integer(0), "at the prior logit the alignment is 0"),
    )
