r"""The objective of a finite model to order 1/L.

Setting: L tokens in R^d, R = pi L of them informative. The exact reduction holds three ratios of sums over tokens,
F = sum a_i t_i, S = sum a_i b_i and sum a_i^2; the delta method, with the classes of fixed sizes, gives their bias and
variance to order 1/L:

    J_L = J + j_1/L + ((d - 1)/L)(m_2 + m_2'/L),  j_1 = 2 F b_F + v_F + theta^2 (1 - rho^2)(2 w b_S + v_S).

Valid for exp(2 beta^2) << L.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.ledger import Derivation, Quantity, simulated
from theorykit.derivations.signal_recovery.averages import average, covariance, variance
from theorykit.derivations.signal_recovery.limit import OBJECTIVE, add_masses, take_from_limit
from theorykit.derivations.signal_recovery.symbols import (
    BETA,
    DIMENSION,
    FRACTION,
    MASS,
    NOISE_MASS,
    REST,
    RHO,
    THETA,
    TOKENS,
    along_rho,
    conclude,
    declare,
    gaussian_moments,
    masses,
    precise,
)

__all__ = [
    "FINITE_SLOPE",
    "MEAN_SCORE",
    "SECOND_MOMENT",
    "add_finite_size",
    "add_first_moments",
    "derive_finite_size",
]

MEAN_SCORE = sp.Symbol("mean_score", real=True)
SECOND_MOMENT = sp.Symbol("second_moment", positive=True)
CORRECTION = sp.Symbol("objective_correction", real=True)
MOMENT_CORRECTION = sp.Symbol("moment_correction", real=True)
FINITE_OBJECTIVE = sp.Symbol("finite_size_objective", real=True)
FINITE_SLOPE = sp.Symbol("finite_size_slope", real=True)

ROWS = declare(
    Quantity(MEAN_SCORE, "F_q", "component of the output along the query"),
    Quantity(SECOND_MOMENT, "m_2", "L times the sum of squared weights"),
    Quantity(CORRECTION, "j_1", "L times the correction of the objective, without the noise dimensions"),
    Quantity(MOMENT_CORRECTION, "m_2^{(1)}", "L times the correction of the second moment"),
    Quantity(FINITE_OBJECTIVE, "J_L", "objective of a finite model to order 1/L"),
    Quantity(FINITE_SLOPE, "J_L'", "its derivative in the alignment"),
)
_DELTA = "delta method for ratios of sums over tokens, the classes having fixed sizes"
_SEEN = simulated("gradient of the finite model at the validation points")


def derive_finite_size() -> Derivation:
    """Observables "finite_size_objective", "finite_size_slope" and the two corrections."""
    chain = Chain()
    add_masses(chain)
    add_finite_size(chain)
    shown = (FINITE_OBJECTIVE, FINITE_SLOPE, CORRECTION, MOMENT_CORRECTION, SECOND_MOMENT)
    equations = (MASS, NOISE_MASS, MEAN_SCORE, SECOND_MOMENT)
    title = "The objective of a finite model to order 1/L"
    return conclude(chain, "finite_size", title, shown, within=equations)


def inserted(chain: Chain) -> dict[sp.Expr, sp.Expr]:
    """What the symbols of both first moments stand for, in the masses."""
    return {s: chain.results[s] for s in (MEAN_SCORE, SECOND_MOMENT)}


def add_first_moments(chain: Chain) -> None:
    """F_q = sum of the weights times the scores, and m_2 = L sum of squared weights."""
    chain.define(MEAN_SCORE, average(lambda c: c.weight * c.score), "limit of sum a_i t_i")
    chain.add(MEAN_SCORE, "Gaussian moments", BETA + THETA * RHO * MASS, "tilt and Wick's theorem; w + (1 - w) = 1",
              precise(), also=(MASS, NOISE_MASS))  # fmt: skip
    chain.define(SECOND_MOMENT, average(lambda c: c.weight**2), "limit of L sum a_i^2")
    spread = sp.exp(BETA**2) * (MASS**2 / FRACTION + NOISE_MASS**2 / REST)
    chain.add(
        SECOND_MOMENT, "Gaussian moments", spread, "tilt by exp(2 beta g)", precise(), also=(MASS, NOISE_MASS)
    )


def add_finite_size(chain: Chain) -> None:
    """Both corrections, the objective to order 1/L and its derivative."""
    take_from_limit(chain, False, OBJECTIVE)
    add_first_moments(chain)
    _add_corrections(chain)
    flat = chain.results[OBJECTIVE]
    noise = (DIMENSION - 1) / TOKENS * (SECOND_MOMENT + MOMENT_CORRECTION / TOKENS)
    finite = sp.Limit(sp.Function("J_L")(RHO), TOKENS, sp.oo)
    chain.define(FINITE_OBJECTIVE, finite, "expansion of E|f|^2 in 1/L, as the exact reduction gives it")
    expansion = flat + CORRECTION / TOKENS + noise
    chain.add(FINITE_OBJECTIVE, "expansion in 1/L", expansion, "limit and corrections put together", _SEEN,
              also=(OBJECTIVE, CORRECTION, MOMENT_CORRECTION, SECOND_MOMENT))  # fmt: skip
    values = {s: chain.results[s] for s in (CORRECTION, MOMENT_CORRECTION)}
    closed = expansion.xreplace(values).xreplace(inserted(chain))
    chain.add(FINITE_OBJECTIVE, "corrections inserted", closed, "both written in the masses",
              precise({**values, **inserted(chain)}, tokens=40, dimension=7),
              also=(CORRECTION, MOMENT_CORRECTION))  # fmt: skip
    chain.define(FINITE_SLOPE, sp.diff(closed.xreplace(masses()), RHO), "derivative, the masses written out")
    chain.add(FINITE_SLOPE, "chain rule", along_rho(closed), "w' = beta theta w (1 - w)",
              precise(tokens=40, dimension=7), also=(FINITE_OBJECTIVE,))  # fmt: skip


def _add_corrections(chain: Chain) -> None:
    label = sp.Symbol("L")
    gap = label * (sp.Function("j_L")(RHO) - sp.Function("J")(RHO))
    chain.define(CORRECTION, sp.Limit(gap, label, sp.oo), "L (E[F^2 + theta^2 (1 - rho^2) S^2] - limit)")
    bias_f = -covariance(lambda c: c.weight * (c.score - MEAN_SCORE), lambda c: c.weight)
    spread_f = variance(lambda c: c.weight * (c.score - MEAN_SCORE))
    bias_s = -covariance(lambda c: c.weight * (c.label - MASS), lambda c: c.weight)
    spread_s = variance(lambda c: c.weight * (c.label - MASS))
    total = (
        2 * MEAN_SCORE * bias_f + spread_f + THETA**2 * (1 - RHO) * (1 + RHO) * (2 * MASS * bias_s + spread_s)
    )
    chain.add(CORRECTION, "delta method", total, _DELTA, _SEEN, also=(MEAN_SCORE, MASS))
    chain.add(CORRECTION, "Gaussian moments", gaussian_moments(total), "tilt and Wick's theorem",
              precise(lambda: inserted(chain)))  # fmt: skip
    ratio = label * (sp.Function("m_L")(RHO) - sp.Function("m_2")(RHO))
    chain.define(MOMENT_CORRECTION, sp.Limit(ratio, label, sp.oo), "L (L E sum a_i^2 - limit)")
    second = -2 * covariance(lambda c: c.weight**2, lambda c: c.weight)
    second += 3 * SECOND_MOMENT * variance(lambda c: c.weight)
    chain.add(MOMENT_CORRECTION, "delta method", second, _DELTA, _SEEN, also=(SECOND_MOMENT,))
    chain.add(MOMENT_CORRECTION, "Gaussian moments", gaussian_moments(second), "tilt by exp(k beta g)",
              precise(lambda: inserted(chain)))  # fmt: skip
