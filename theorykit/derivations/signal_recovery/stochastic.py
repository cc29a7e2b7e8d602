r"""Projected stochastic gradient ascent with a fresh sequence per step: mean flow, stationary law, splitting.

Setting: q <- (q + eta g)/|q + eta g| with g the sample gradient projected on the tangent space. The alignment is a
Markov chain, rho <- (rho + eta sqrt(1 - rho^2) g_1)/sqrt(1 + eta^2 |g|^2). To second order in eta its mean increment is
eta times

    (1 - rho^2) J_L' - (eta/2) rho {[v_parallel + (d - 2) v_perp]/L + (1 - rho^2) J_L'^2}.

Close to a stable pole the d - 1 components across it are autoregressions x <- (1 - eta lambda) x + eta s epsilon with
lambda = |J'(+-1)| and s^2 = v_perp/L, whose stationary variance follows. At the separatrix of the mean flow, where its
slope is mu > 0, the linearized chain ends below with probability Phi((rho_c - rho_0)/s), s^2 = eta (1 - rho_c^2)
v_parallel/(2 mu L).
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.ledger import Check, Derivation, Quantity, verified
from theorykit.derivations.signal_recovery.finite_size import FINITE_SLOPE, add_finite_size
from theorykit.derivations.signal_recovery.limit import add_masses
from theorykit.derivations.signal_recovery.noise import PARALLEL, PERPENDICULAR, SYMBOLS, add_noise
from theorykit.derivations.signal_recovery.symbols import (
    DIMENSION,
    MASS,
    NOISE_MASS,
    POINTS,
    RHO,
    STEP_SIZE,
    TOKENS,
    conclude,
    declare,
    in_masses,
)
from theorykit.derivations.special import normal_cdf

__all__ = ["derive_linear_laws", "derive_stochastic"]

ALONG, SQUARE = sp.Symbol("g_1", real=True), sp.Symbol("g_square", positive=True)
DRIFT = sp.Symbol("corrected_drift", real=True)
VARIANCE, GAP = sp.Symbol("variance", positive=True), sp.Symbol("gap", positive=True)
RATE, SIGMA = sp.Symbol("rate", positive=True), sp.Symbol("noise_square", positive=True)
WIDTH, CENTRE, START = (
    sp.Symbol("width", positive=True),
    sp.Symbol("centre", real=True),
    sp.Symbol("rho_0", real=True),
)
OPPOSED = sp.Symbol("opposed", positive=True)

_ROWS = declare(
    Quantity(ALONG, "g_1", "component of a sample gradient in the plane of q and xi, across q"),
    Quantity(SQUARE, "|g|^2", "square of a sample gradient projected on the tangent space"),
    Quantity(DRIFT, "F_{\\eta}", "mean rate of the alignment under steps of size eta"),
    Quantity(
        RATE, r"\lambda", "rate of return to the direction, or of escape from the separatrix", "(0, inf)"
    ),
    Quantity(SIGMA, r"\sigma^2", "L times the variance of a component of the gradient", "(0, inf)"),
    Quantity(VARIANCE, "v", "stationary variance of each component across the direction"),
    Quantity(GAP, r"\delta", "stationary mean of 1 - |rho|"),
    Quantity(CENTRE, r"\bar\rho_c", "separatrix of the mean flow", "(-1, 1)"),
    Quantity(START, r"\rho_0", "alignment at the start", "(-1, 1)"),
    Quantity(WIDTH, "s", "width of the splitting at the separatrix"),
    Quantity(OPPOSED, "P_-", "probability to end at -xi"),
)
_SIZES = {"tokens": 40, "dimension": 7}


def derive_stochastic() -> Derivation:
    """Observables "corrected_drift" and "parallel" at kappa = (d - 1)/L."""
    chain = Chain()
    add_masses(chain)
    add_finite_size(chain)
    add_noise(chain, (DIMENSION - 1) / TOKENS)
    _add_mean_increment(chain)
    moments = (*SYMBOLS, FINITE_SLOPE, PARALLEL, PERPENDICULAR)
    title = "Mean flow of stochastic gradient ascent"
    return conclude(chain, "stochastic", title, (DRIFT, PARALLEL), (MASS, NOISE_MASS, *moments))


def _add_mean_increment(chain: Chain) -> None:
    """The increment over eta, expanded in eta, then averaged."""
    moved = (RHO + STEP_SIZE * sp.sqrt((1 - RHO) * (1 + RHO)) * ALONG) / sp.sqrt(1 + STEP_SIZE**2 * SQUARE)
    chain.define(
        DRIFT, (moved - RHO) / STEP_SIZE, "increment of the alignment over eta, |g|^2 the square of the step"
    )
    orders = [sp.diff(moved, STEP_SIZE, k).subs(STEP_SIZE, 0) / sp.factorial(k) for k in (1, 2)]
    second = orders[0] + STEP_SIZE * orders[1]
    small = [{**p, "step_size": "1e-12", "g_1": "0.7", "g_square": "2.3"} for p in POINTS]
    chain.add(DRIFT, "second order in the step", second, "Taylor expansion in eta; the rest is of order eta^2",
              verified(*small, digits=20, left="mp-trapezoid", right="mp-quad"))  # fmt: skip
    across = (1 - RHO) * (1 + RHO)
    spread = (PARALLEL + (DIMENSION - 2) * PERPENDICULAR) / TOKENS
    means = {ALONG: sp.sqrt(across) * FINITE_SLOPE, SQUARE: spread + across * FINITE_SLOPE**2}
    chain.add(DRIFT, "mean over the sequence", across * FINITE_SLOPE - STEP_SIZE / 2 * RHO * means[SQUARE],
              "linear in g_1 and |g|^2, whose means are sqrt(1 - rho^2) J_L' and squared mean plus variances",
              _check(chain, means), also=(FINITE_SLOPE, PARALLEL, PERPENDICULAR))  # fmt: skip


def _check(chain: Chain, further: dict[sp.Expr, sp.Expr]) -> Check:
    def concrete(expression: sp.Expr, _: int) -> sp.Expr:
        known = {s: chain.results[s] for s in (*SYMBOLS, FINITE_SLOPE, PARALLEL, PERPENDICULAR)}
        return in_masses(expression, {**known, **further})

    points = [{**p, **_SIZES, "step_size": "0.3"} for p in POINTS]
    return verified(*points, digits=30, left="mp-trapezoid", right="mp-quad", concrete=concrete)


# --------------------------------------------------------------------------- linearized laws


def derive_linear_laws() -> Derivation:
    """Observables "variance" and "gap" of the stationary law, "width" and "opposed" of the splitting."""
    chain = Chain()
    noise = STEP_SIZE**2 * SIGMA / TOKENS
    chain.define(VARIANCE, noise / (1 - (1 - STEP_SIZE * RATE) ** 2), "sum of the noise of all earlier steps")
    chain.add(VARIANCE, "stationary variance", STEP_SIZE * SIGMA / TOKENS / (RATE * (2 - STEP_SIZE * RATE)),
              "fixed point of v = (1 - eta lambda)^2 v + eta^2 sigma^2/L", _linear())  # fmt: skip
    chain.define(GAP, (DIMENSION - 1) * VARIANCE / 2, "half the mean square across the direction")
    chain.add(GAP, "chi-square mean", (DIMENSION - 1) * chain.results[VARIANCE] / 2, "d - 1 independent components",
              _linear({VARIANCE: chain.results[VARIANCE]}), also=(VARIANCE,))  # fmt: skip
    across = (1 - CENTRE) * (1 + CENTRE)
    growth = 1 + STEP_SIZE * RATE
    later = STEP_SIZE**2 * across * SIGMA / TOKENS / growth**2 / (1 - 1 / growth**2)
    chain.define(WIDTH, sp.sqrt(later), "standard deviation of all later noise, measured back at the start")
    exact = sp.sqrt(STEP_SIZE * across * SIGMA / TOKENS / (RATE * (2 + STEP_SIZE * RATE)))
    chain.add(
        WIDTH,
        "geometric sum",
        exact,
        "the geometric series of (1 + eta mu)^(-2 k - 2), k = 0, 1, ...",
        _linear(),
    )
    chain.define(OPPOSED, normal_cdf((CENTRE - START) / WIDTH), "the end is where start plus all noise lies")
    chain.add(OPPOSED, "width inserted", normal_cdf((CENTRE - START) / chain.results[WIDTH]), "linearized flow",
              _linear({WIDTH: chain.results[WIDTH]}), also=(WIDTH,))  # fmt: skip
    shown = (VARIANCE, GAP, WIDTH, OPPOSED)
    title = "Stationary law at a direction, and splitting at the separatrix"
    return conclude(chain, "linear_laws", title, shown)


def _linear(known: dict[sp.Expr, sp.Expr] | None = None) -> Check:
    point = {"tokens": 50, "dimension": 7, "step_size": "0.2", "rate": "1.3", "noise_square": "2.1",
             "centre": "-0.4", "rho_0": "-0.37", "L": 1}  # fmt: skip
    return verified(point, {**point, "rate": "0.4", "rho_0": "-0.5"}, digits=30, left="mp-trapezoid",
                    right="mp-quad", concrete=lambda e, _: e.xreplace(known or {}))  # fmt: skip
