r"""Time of passage between two alignments, as an integral whose singular part is removed.

Setting: the flow rho' = F(rho) = (1 - rho)(1 + rho) J'(rho). The time T = int d rho/F diverges logarithmically at both
poles. With s = artanh rho, whose differential is d rho/(1 - rho^2), both singular parts are integrated in closed form:

    T(rho_0 -> rho_1) = int ds/J'(tanh s)  from artanh rho_0 to artanh rho_1,

which is regular but for a separatrix; close to 1 it is (s_1 - s_0)/J'(1), a logarithm of the distance to 1.
Close to the equator F = J'(0) + J''(0) rho, with both coefficients given: escape from rho_0 of order d^(-1/2) is
ballistic.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.ledger import Derivation, Limit, Quantity
from theorykit.derivations.signal_recovery.limit import CURVATURE, DRIFT, RAPIDITY, SLOPE, take_from_limit
from theorykit.derivations.signal_recovery.symbols import (
    BETA,
    FRACTION,
    KAPPA,
    REST,
    RHO,
    THETA,
    conclude,
    declare,
    masses,
    precise,
)

__all__ = ["derive_escape"]

PACE = sp.Symbol("pace", real=True)
EQUATOR, EQUATOR_CURVATURE = (
    sp.Symbol("slope_at_equator", positive=True),
    sp.Symbol("curvature_at_equator", real=True),
)

_ROWS = declare(
    Quantity(PACE, r"\tau", "time per rapidity, the inverse of the rate of artanh rho"),
    Quantity(EQUATOR, "J'_0", "slope at the equator"),
    Quantity(EQUATOR_CURVATURE, "J''_0", "curvature at the equator"),
)


def derive_escape(proportional: bool = True) -> Derivation:
    """Observables "pace" in the rapidity, "slope_at_equator" and "curvature_at_equator"."""
    chain = Chain()
    take_from_limit(chain, proportional, SLOPE, DRIFT, CURVATURE)
    _add_pace(chain)
    _add_equator(chain, KAPPA if proportional else sp.Integer(0))
    title = "Times of passage"
    return conclude(chain, "escape", title, _ROWS, proportional=proportional, limits=_limits(proportional))


def _at(expression: sp.Expr, rho: sp.Expr) -> sp.Expr:
    """The expression at another alignment, the masses written out."""
    return expression.xreplace(masses()).xreplace({RHO: rho})


def _add_pace(chain: Chain) -> None:
    """dt/ds = (d rho/ds)/F at rho = tanh s."""
    inverse = 1 / chain.results[DRIFT]
    along = sp.diff(sp.tanh(RAPIDITY), RAPIDITY)
    chain.define(
        PACE, _at(inverse, sp.tanh(RAPIDITY)) * along, "1/F times the derivative of tanh, at rho = tanh s"
    )
    chain.add(PACE, "substitution of the rapidity", 1 / _at(chain.results[SLOPE], sp.tanh(RAPIDITY)),
              "the derivative of tanh s is 1 - tanh^2 s: the poles at -1 and 1 cancel",
              precise(rapidity="-0.8"), also=(DRIFT, SLOPE))  # fmt: skip


def _add_equator(chain: Chain, kappa: sp.Expr) -> None:
    zero = sp.Integer(0)
    spread = THETA**2 * FRACTION * REST
    chain.define(EQUATOR, _at(chain.results[SLOPE], zero), "slope at rho = 0")
    chain.add(EQUATOR, "masses at the equator", 2 * BETA * THETA * FRACTION * (1 + spread),
              "w = pi: kappa drops out", precise())  # fmt: skip
    force = 2 + THETA**2 * FRACTION * (2 - 3 * FRACTION) + kappa * sp.exp(BETA**2)
    chain.define(EQUATOR_CURVATURE, _at(chain.results[CURVATURE], zero), "curvature at rho = 0")
    chain.add(EQUATOR_CURVATURE, "masses at the equator",
              2 * BETA**2 * THETA**2 * FRACTION * REST * force, "w = pi", precise())  # fmt: skip


def _limits(proportional: bool) -> tuple[Limit, ...]:
    point: dict[str, object] = {
        "theta": 1,
        "fraction": 0.25,
        "noise_fraction": 0.75,
        "beta": 1,
        "rapidity": 0,
    }
    point |= {"kappa": 1} if proportional else {}
    return (
        Limit("slope_at_equator", point, sp.Rational(19, 32), "2 beta theta pi [1 + theta^2 pi (1 - pi)]"),
        Limit("pace", point, sp.Rational(32, 19), "the inverse slope at the equator"),
    )
