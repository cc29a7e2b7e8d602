r"""Time of passage between two alignments, as an integral whose singular part is removed.

Setting: the flow rho' = F(rho) = (1 - rho)(1 + rho) J'(rho). The time T = int d rho/F diverges logarithmically at
the pole it ends at; the pole of 1/F there is subtracted and integrated in closed form,

    T(rho_0 -> rho_1) = int [1/F - 1/(2 J'(1)(1 - rho))] d rho + ln[(1 - rho_0)/(1 - rho_1)]/(2 J'(1)),

and likewise at -1 with 1 + rho and J'(-1). Close to the equator F = J'(0) + J''(0) rho, with both coefficients given:
escape from rho_0 of order d^(-1/2) is ballistic. Equations (10) and (11) of the specification of the model.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.ledger import Derivation, Equations, Limit, Quantity, verified
from theorykit.derivations.signal_recovery.limit import CURVATURE, DRIFT, SLOPE, add_limit
from theorykit.derivations.signal_recovery.symbols import (
    BETA,
    FRACTION,
    KAPPA,
    MASS,
    NOISE_MASS,
    PAPER,
    RHO,
    THETA,
    masses,
    precise,
    quantities,
)

__all__ = ["derive_escape"]

START, END = sp.Symbol("rho_0", real=True), sp.Symbol("rho_1", real=True)
REGULAR_ABOVE, REGULAR_BELOW = sp.Symbol("regular_above", real=True), sp.Symbol("regular_below", real=True)
SINGULAR_ABOVE, SINGULAR_BELOW = (
    sp.Symbol("singular_above", real=True),
    sp.Symbol("singular_below", real=True),
)
EQUATOR, EQUATOR_CURVATURE = (
    sp.Symbol("slope_at_equator", positive=True),
    sp.Symbol("curvature_at_equator", real=True),
)

_ROWS = {
    REGULAR_ABOVE: Quantity(REGULAR_ABOVE, "r_+", "1/F without its pole at 1"),
    REGULAR_BELOW: Quantity(REGULAR_BELOW, "r_-", "1/F without its pole at -1"),
    SINGULAR_ABOVE: Quantity(SINGULAR_ABOVE, "s_+", "integral of the pole at 1 from rho_0 to rho_1"),
    SINGULAR_BELOW: Quantity(SINGULAR_BELOW, "s_-", "integral of the pole at -1 from rho_0 to rho_1"),
    EQUATOR: Quantity(EQUATOR, "J'_0", "slope at the equator"),
    EQUATOR_CURVATURE: Quantity(EQUATOR_CURVATURE, "J''_0", "curvature at the equator"),
}
_ENDS = (
    Quantity(START, r"\rho_0", "alignment at the start", "(-1, 1)"),
    Quantity(END, r"\rho_1", "alignment at the end", "(-1, 1)"),
)
_POINTS = (
    {"theta": "1.3", "fraction": "0.2", "beta": "0.8", "kappa": "0.7", "rho_0": "-0.3", "rho_1": "0.9"},
    {"theta": "0.6", "fraction": "0.65", "beta": "1.1", "kappa": "0.3", "rho_0": "0.8", "rho_1": "0.1"},
)


def derive_escape(proportional: bool = True) -> Derivation:
    """Observables "regular_above", "singular_above" (towards 1), the same below (towards -1), and at the equator."""
    chain = Chain()
    add_limit(chain, proportional)
    for regular, singular, sign in (
        (REGULAR_ABOVE, SINGULAR_ABOVE, sp.Integer(1)),
        (REGULAR_BELOW, SINGULAR_BELOW, sp.Integer(-1)),
    ):
        _add_pole(chain, regular, singular, sign)
    _add_equator(chain, KAPPA if proportional else sp.Integer(0))
    inputs = (THETA, FRACTION, BETA, RHO, *((KAPPA,) if proportional else ()))
    record = Equations(
        f"signal_recovery.escape.{'proportional' if proportional else 'fixed_dimension'}",
        quantities(*inputs, MASS, NOISE_MASS, extra=(*_ENDS, *_ROWS.values())),
        {s: chain.results[s] for s in (MASS, NOISE_MASS)},
        {s.name: chain.results[s] for s in _ROWS},
        limits=_limits(proportional),
    )
    title = (
        f"Times of passage, {'dimension proportional to the tokens' if proportional else 'fixed dimension'}"
    )
    return Derivation(record.name, title, PAPER, tuple(chain.definitions), tuple(chain.steps), record)


def _at(expression: sp.Expr, rho: sp.Expr) -> sp.Expr:
    """The expression at another alignment, the masses written out."""
    return expression.xreplace(masses()).xreplace({RHO: rho})


def _add_pole(chain: Chain, regular: sp.Symbol, singular: sp.Symbol, sign: sp.Expr) -> None:
    """The simple pole of 1/F at rho = sign: its residue is 1/F'(sign), and F'(sign) = -2 sign J'(sign)."""
    distance = 1 - sign * RHO
    rate = _at(sp.diff(chain.results[DRIFT].xreplace(masses()), RHO), sign)
    slope = _at(chain.results[SLOPE], sign)
    inverse = 1 / ((1 - RHO**2) * chain.results[SLOPE])
    chain.define(regular, inverse + sign / (rate * distance),
                 f"1/F minus its pole at {sign}")  # fmt: skip
    removed = 1 / chain.results[DRIFT] - 1 / (2 * slope * distance)
    chain.add(regular, "residue at the pole", removed, f"F'({sign}) = {-2 * sign} J'({sign})", precise(),
              also=(DRIFT, SLOPE))  # fmt: skip
    primitive = -sign * sp.log(distance) / (2 * slope)
    chain.define(singular, primitive.xreplace({RHO: END}) - primitive.xreplace({RHO: START}),
                 f"a primitive of the pole at {sign}, between the ends")  # fmt: skip
    ratio = sp.log((1 - sign * START) / (1 - sign * END))
    chain.add(singular, "logarithm of the ratio", sign * ratio / (2 * slope), "logarithms combined",
              verified(*_POINTS, digits=30, left="mp-trapezoid", right="mp-quad"))  # fmt: skip


def _add_equator(chain: Chain, kappa: sp.Expr) -> None:
    zero = sp.Integer(0)
    spread = THETA**2 * FRACTION * (1 - FRACTION)
    chain.define(EQUATOR, _at(chain.results[SLOPE], zero), "slope at rho = 0")
    chain.add(EQUATOR, "masses at the equator", 2 * BETA * THETA * FRACTION * (1 + spread),
              "w = pi: kappa drops out", precise())  # fmt: skip
    force = 2 + THETA**2 * FRACTION * (2 - 3 * FRACTION) + kappa * sp.exp(BETA**2)
    chain.define(EQUATOR_CURVATURE, _at(chain.results[CURVATURE], zero), "curvature at rho = 0")
    chain.add(EQUATOR_CURVATURE, "masses at the equator",
              2 * BETA**2 * THETA**2 * FRACTION * (1 - FRACTION) * force, "w = pi", precise())  # fmt: skip


def _limits(proportional: bool) -> tuple[Limit, ...]:
    point = {"theta": 1, "fraction": 0.25, "beta": 1, "rho": 0.1, "rho_0": 0.3, "rho_1": 0.3}
    point |= {"kappa": 1} if proportional else {}
    return (
        Limit("slope_at_equator", point, sp.Rational(19, 32), "2 beta theta pi [1 + theta^2 pi (1 - pi)]"),
        Limit("singular_above", point, sp.Integer(0), "no distance, no time"),
    )
