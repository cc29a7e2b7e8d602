r"""The objective and its slope for infinitely many tokens, and the flow of the alignment.

Setting: L -> inf with pi = R/L fixed and d fixed, or d/L -> kappa. By the exact reduction the objective is
E[(q.f)^2 + theta^2 (1 - rho^2) S^2] + (d - 1) E sum_i a_i^2; every ratio of sums over tokens becomes the ratio of
their means. Results, with w the attention mass on informative tokens,

    J  = beta^2 + 2 beta theta rho w + theta^2 w^2 + kappa e^(beta^2) [w^2/pi + (1 - w)^2/(1 - pi)]
    J' = 2 beta theta w {1 + theta (1 - w)(beta rho + theta w) + kappa e^(beta^2) (1 - w)[w/pi - (1 - w)/(1 - pi)]}

and rho' = (1 - rho^2) J' for gradient ascent on the sphere. Written in w and 1 - w, both without cancellation,
nothing overflows however large beta theta is.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.ledger import Derivation, Limit, Quantity, proved, simulated
from theorykit.derivations.nodes import Expectation
from theorykit.derivations.overlaps import Gram, overlap_flow
from theorykit.derivations.signal_recovery.symbols import (
    BETA,
    FIELD,
    FRACTION,
    KAPPA,
    MASS,
    NOISE_MASS,
    REST,
    RHO,
    THETA,
    along_rho,
    conclude,
    declare,
    gaussian_moments,
    masses,
    precise,
)

__all__ = [
    "CURVATURE",
    "DRIFT",
    "DRIFT_SLOPE",
    "OBJECTIVE",
    "RAPIDITY",
    "ROWS",
    "SLOPE",
    "add_limit",
    "add_masses",
    "derive_limit",
    "take_from_limit",
]

OBJECTIVE = sp.Symbol("objective", positive=True)
SLOPE = sp.Symbol("slope", real=True)
CURVATURE = sp.Symbol("curvature", real=True)
DRIFT = sp.Symbol("drift", real=True)
DRIFT_SLOPE = sp.Symbol("drift_slope", real=True)
RAPIDITY = sp.Symbol("rapidity", real=True)
RAPIDITY_RATE = sp.Symbol("rapidity_rate", real=True)

ROWS = declare(
    Quantity(OBJECTIVE, "J", "objective, the mean square length of the output"),
    Quantity(SLOPE, "J'", "derivative of the objective in the alignment"),
    Quantity(CURVATURE, "J''", "second derivative of the objective"),
    Quantity(DRIFT, "F", "rate of the alignment, its derivative in time"),
    Quantity(DRIFT_SLOPE, "F'", "derivative of the rate in the alignment"),
    Quantity(RAPIDITY, "s", "artanh rho"),
    Quantity(RAPIDITY_RATE, r"\dot s", "derivative of artanh rho in time"),
)
_LARGE = "law of large numbers for the sums over tokens, class by class"
_SEEN = simulated("gradient of the finite model, corrected to order 1/L, at the validation points")


def derive_limit(proportional: bool = True) -> Derivation:
    """Observables "objective", "slope", "curvature", "drift", "drift_slope", "rapidity_rate", "w", "w_noise".

    Parameters
    ----------
    proportional : bool
        True: d/L -> kappa. False: d fixed, where kappa = 0 and nothing grows like exp(beta^2).
    """
    chain = Chain()
    add_limit(chain, proportional)
    _add_rapidity(chain)
    shown = (OBJECTIVE, SLOPE, CURVATURE, DRIFT, DRIFT_SLOPE, RAPIDITY_RATE)
    both = (MASS, NOISE_MASS)
    title = "Flow of the alignment for many tokens"
    return conclude(chain, "limit", title, (*shown, *both), both, proportional, limits=_limits(proportional))


def add_masses(chain: Chain) -> None:
    """The chains of both masses alone."""
    for symbol in (MASS, NOISE_MASS):
        _add_mass(chain, symbol)


def take_from_limit(chain: Chain, proportional: bool, *symbols: sp.Symbol) -> None:
    """Results of this derivation as definitions of another one."""
    limit = Chain()
    add_limit(limit, proportional)
    for symbol in symbols:
        meaning = f"{ROWS[symbol].meaning}, from the derivation of the flow for many tokens"
        chain.define(symbol, limit.results[symbol], meaning)


def add_limit(chain: Chain, proportional: bool) -> None:
    """The chains of both masses, the objective, its two derivatives, and the rate of the alignment."""
    add_masses(chain)
    _add_objective(chain, KAPPA if proportional else sp.Integer(0))
    _add_derivatives(chain, KAPPA if proportional else sp.Integer(0))
    _add_flow(chain)


def _mixture(summand: sp.Expr, power: int = 1) -> tuple[sp.Expr, sp.Expr]:
    """Mean over informative and over noise tokens, times their fractions, of e^(power beta t) summand(t)."""
    t = sp.Symbol("t", real=True)

    def average(score: sp.Expr) -> sp.Expr:
        return Expectation(sp.exp(power * BETA * score) * summand.xreplace({t: score}), FIELD)

    return FRACTION * average(THETA * RHO + FIELD), REST * average(FIELD)


def _add_mass(chain: Chain, symbol: sp.Symbol) -> None:
    informative, noise = _mixture(sp.Integer(1))
    chosen = informative if symbol == MASS else noise
    label = "S_L" if symbol == MASS else r"1 - S_L"
    finite = sp.Function("S_L")(RHO) if symbol == MASS else 1 - sp.Function("S_L")(RHO)
    chain.define(symbol, sp.Limit(finite, sp.Symbol("L"), sp.oo), f"limit of the mass {label}")
    chain.add(symbol, "law of large numbers", chosen / (informative + noise), _LARGE, _SEEN)
    chain.add(symbol, "exponential tilt", gaussian_moments(chosen / (informative + noise)),
              "E exp(beta g) = exp(beta^2/2)", precise())  # fmt: skip
    chain.add(symbol, "logistic form", masses()[symbol], "divided by its numerator", precise())


def _add_objective(chain: Chain, kappa: sp.Expr) -> None:
    t = sp.Symbol("t", real=True)
    (one, zero), (first, second) = _mixture(sp.Integer(1)), _mixture(t)
    twice = sum(_mixture(sp.Integer(1), power=2))
    total = one + zero
    ratios = (
        ((first + second) / total) ** 2
        + THETA**2 * (1 - RHO**2) * (one / total) ** 2
        + kappa * twice / total**2
    )
    finite = sp.Limit(sp.Function("J_L")(RHO), sp.Symbol("L"), sp.oo)
    chain.define(OBJECTIVE, finite, "limit of E|f|^2 as the exact reduction gives it")
    chain.add(OBJECTIVE, "law of large numbers", ratios, _LARGE, _SEEN)
    tilted = gaussian_moments(ratios)
    chain.add(OBJECTIVE, "exponential tilt", tilted, "tilt by exp(beta g), then Wick's theorem", precise())
    spread = MASS**2 / FRACTION + NOISE_MASS**2 / REST
    in_mass = BETA**2 + 2 * BETA * THETA * RHO * MASS + THETA**2 * MASS**2 + kappa * sp.exp(BETA**2) * spread
    chain.add(OBJECTIVE, "in attention masses", in_mass,
              "numerators over denominators are the masses; the terms theta^2 rho^2 w^2 cancel",
              precise(), also=(MASS, NOISE_MASS))  # fmt: skip


def _add_derivatives(chain: Chain, kappa: sp.Expr) -> None:
    explicit = chain.results[OBJECTIVE].xreplace(masses())
    chain.define(SLOPE, sp.diff(explicit, RHO), "derivative of the objective, the masses written out")
    by_chain = along_rho(chain.results[OBJECTIVE])
    chain.add(SLOPE, "chain rule", by_chain, "w' = beta theta w (1 - w)", precise(), also=(MASS, NOISE_MASS))
    # w/pi - (1 - w)/(1 - pi), as a product: (u - 1)/(u + 1) is a hyperbolic tangent for u = exp(beta theta rho)
    excess = sp.tanh(BETA * THETA * RHO / 2) * (MASS / FRACTION + NOISE_MASS / REST)
    force = (
        1 + THETA * NOISE_MASS * (BETA * RHO + THETA * MASS) + kappa * sp.exp(BETA**2) * NOISE_MASS * excess
    )
    chain.add(SLOPE, "collected", 2 * BETA * THETA * MASS * force, "common factor 2 beta theta w", precise())
    chain.define(CURVATURE, sp.diff(explicit, RHO, 2), "second derivative, the masses written out")
    second = along_rho(2 * BETA * THETA * MASS * force)
    chain.add(CURVATURE, "chain rule", second, "w' = beta theta w (1 - w)", precise(), also=(SLOPE,))


def _add_flow(chain: Chain) -> None:
    """rho = q.xi under q' = grad J - (q.grad J) q with grad J = J' xi."""
    slope, curvature = SLOPE, CURVATURE
    value = sp.Function("J")(RHO)
    gram = Gram(("q",), ("xi",), {RHO: ("q", "xi")}, {("q", "q"): sp.Integer(1)})
    rate = overlap_flow(value, gram, spheres=["q"], ascent=True)[RHO]
    chain.define(DRIFT, rate.xreplace({sp.diff(value, RHO): chain.results[SLOPE]}),
                 "q.xi under the gradient ascent on the sphere, by the chain rule on the Gram matrix")  # fmt: skip
    flow = (1 - RHO) * (1 + RHO) * chain.results[SLOPE]
    chain.add(DRIFT, "projected gradient", flow, "|q| = |xi| = 1", proved())
    drift = (1 - RHO) * (1 + RHO) * slope
    explicit = drift.xreplace({slope: chain.results[SLOPE].xreplace(masses())})
    chain.define(DRIFT_SLOPE, sp.diff(explicit, RHO), "derivative of the rate, the masses written out")
    product = sp.diff(drift, RHO) + sp.diff(drift, slope) * curvature
    inserted = product.xreplace({slope: chain.results[SLOPE], curvature: chain.results[CURVATURE]})
    chain.add(DRIFT_SLOPE, "product rule", inserted, "both derivatives of the objective inserted", precise(),
              also=(SLOPE, CURVATURE))  # fmt: skip


def _add_rapidity(chain: Chain) -> None:
    """s = artanh rho: no singular points, and rho = tanh s never leaves [-1, 1]."""
    to_rapidity = {RHO: sp.tanh(RAPIDITY)}
    rate = (chain.results[DRIFT] * sp.diff(sp.atanh(RHO), RHO)).xreplace(masses()).xreplace(to_rapidity)
    chain.define(RAPIDITY_RATE, rate, "F/(1 - rho^2), the masses written out, at rho = tanh s")
    there = chain.results[SLOPE].xreplace(masses()).xreplace(to_rapidity)
    chain.add(RAPIDITY_RATE, "slope at tanh s", there, "(1 - rho)(1 + rho) cancels",
              precise(rapidity="-0.8"), also=(DRIFT, SLOPE))  # fmt: skip


def _limits(proportional: bool) -> tuple[Limit, ...]:
    flat = {"theta": 1, "fraction": 0.25, "noise_fraction": 0.75, "beta": 1, "rho": 0}
    flat |= {"kappa": 0} if proportional else {}
    ends = {**flat, "rho": 1}
    known = (
        Limit("w", flat, sp.Rational(1, 4), "at the equator attention is uniform"),
        Limit("drift", ends, sp.Integer(0), "the pole is a fixed point"),
        Limit("slope", flat, sp.Rational(19, 32), "2 beta theta pi [1 + theta^2 pi (1 - pi)]"),
    )
    if not proportional:
        return known
    spread = {"theta": 1, "fraction": 0.5, "noise_fraction": 0.5, "beta": 1, "rho": 0, "kappa": 2}
    return (
        *known,
        Limit("objective", spread, 1 + sp.Rational(1, 4) + 2 * sp.E, "kappa e^(beta^2) at the equator"),
    )
