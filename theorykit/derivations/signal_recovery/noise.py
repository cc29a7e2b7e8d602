r"""Variances of the stochastic gradient, of one sequence of L tokens.

Setting: g_1 is the component of the sample gradient along the projection of xi across q, g_e one orthogonal to both.
The ratios of sums over tokens are linearized (influence functions), the self-terms a_i^2 |z_i|^2 giving the powers of
kappa. With a the normalized weight, X = x_1 - m and m = theta sqrt(1 - rho^2) w,

    L Var(g_e) -> 4 beta^2 {E a^2 [1 + F (t - F) + m X + kappa (a - m_2)]^2 + kappa m_2^2},
    L Var(g_1) -> 4 beta^2 {Var(psi) + kappa (m_2 E[a^2 X^2] + E[a^2 X]^2)},

psi as below, variances within the classes. All are Gaussian averages of polynomials times exp(k beta g), k <= 8.
They grow like exp(beta^2), their kappa parts like kappa^2 exp(6 beta^2).
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.ledger import Check, Derivation, Quantity, simulated, verified
from theorykit.derivations.signal_recovery.averages import (
    Token,
    average,
    closed_average,
    closed_variance,
    variance,
)
from theorykit.derivations.signal_recovery.finite_size import (
    MEAN_SCORE,
    SECOND_MOMENT,
    add_first_moments,
)
from theorykit.derivations.signal_recovery.limit import add_masses
from theorykit.derivations.signal_recovery.symbols import (
    BETA,
    KAPPA,
    MASS,
    NOISE_MASS,
    POINTS,
    RHO,
    THETA,
    conclude,
    declare,
    in_masses,
)

__all__ = ["PARALLEL", "PERPENDICULAR", "ROWS", "SYMBOLS", "add_noise", "derive_noise"]

TRANSVERSE = sp.Symbol("transverse", real=True)
CROSS = sp.Symbol("cross_moment", real=True)
WITHIN = sp.Symbol("within_moment", positive=True)
SKEW = sp.Symbol("skew", real=True)
SPREAD = sp.Symbol("spread", positive=True)
PARALLEL = sp.Symbol("parallel", positive=True)
PERPENDICULAR = sp.Symbol("perpendicular", positive=True)

ROWS = declare(
    Quantity(TRANSVERSE, "m", "component of the output across the query, in the plane of q and xi"),
    Quantity(CROSS, "A_{1t}", "mean of transverse component times score"),
    Quantity(WITHIN, "A_{11}", "mean square of the transverse component"),
    Quantity(SKEW, "Q", "mean of a^2 X"),
    Quantity(SPREAD, "Q_2", "mean of a^2 X^2"),
    Quantity(PARALLEL, r"v_\parallel", "L times the variance of the gradient in the plane of q and xi"),
    Quantity(PERPENDICULAR, r"v_\perp", "L times the variance of the gradient in any other direction"),
)
#: Symbols in which both variances are written, besides the masses.
SYMBOLS = (MEAN_SCORE, SECOND_MOMENT, TRANSVERSE, CROSS, WITHIN, SKEW, SPREAD)
_SEEN = simulated("variances of the sample gradient at the validation points")
_POINTS = tuple(
    {**point, "beta": beta, "tokens": 40, "dimension": 7}
    for point, beta in zip(POINTS, ("0.35", "0.5"), strict=True)
)


def derive_noise(proportional: bool = True) -> Derivation:
    """Observables "parallel" and "perpendicular"."""
    chain = Chain()
    add_masses(chain)
    add_first_moments(chain)
    add_noise(chain, KAPPA if proportional else sp.Integer(0))
    used = SYMBOLS if proportional else tuple(s for s in SYMBOLS if s not in (SECOND_MOMENT, SKEW, SPREAD))
    shown = (PARALLEL, PERPENDICULAR)
    title = "Noise of the gradient"
    return conclude(chain, "noise", title, shown, (MASS, NOISE_MASS, *used), proportional)


def add_noise(chain: Chain, kappa: sp.Expr) -> None:
    """The moments of the transverse component, then both variances."""
    across = THETA * sp.sqrt((1 - RHO) * (1 + RHO))
    closed = {
        TRANSVERSE: across * MASS,
        CROSS: across * MASS * (THETA * RHO + BETA),
        WITHIN: 1 + across**2 * MASS,
    }
    statistics = {
        TRANSVERSE: lambda c: c.weight * c.across,
        CROSS: lambda c: c.weight * c.across * c.score,
        WITHIN: lambda c: c.weight * c.across**2,
    }
    for symbol, form in closed.items():
        chain.define(symbol, average(statistics[symbol]), ROWS[symbol].meaning)
        chain.add(symbol, "Gaussian moments", form, "tilt and Wick's theorem; w + (1 - w) = 1", _check(chain),
                  also=(MASS, NOISE_MASS))  # fmt: skip
    if kappa != 0:
        for symbol, power in ((SKEW, 1), (SPREAD, 2)):

            def statistic(c: Token, k: int = power) -> sp.Expr:
                return c.weight**2 * (c.across - TRANSVERSE) ** k

            mean = average(statistic)
            chain.define(symbol, mean, ROWS[symbol].meaning)
            chain.add(symbol, "Gaussian moments", closed_average(statistic), "tilt and Wick's theorem", _check(chain),
                      also=(TRANSVERSE,))  # fmt: skip
    _add_variances(chain, kappa)


def _add_variances(chain: Chain, kappa: sp.Expr) -> None:
    f, m, m2 = MEAN_SCORE, TRANSVERSE, SECOND_MOMENT

    def orthogonal(c: Token) -> sp.Expr:
        return c.weight * (1 + f * (c.score - f) + m * (c.across - m) + kappa * (c.weight - m2))

    def plane(c: Token) -> sp.Expr:
        x = c.across - m
        first = (CROSS - 2 * m * f) * (c.score - f) + f * (c.across * c.score - CROSS)
        second = (WITHIN - f**2 - 3 * m**2) * x + m * (c.across**2 - WITHIN)
        return c.weight * (first + second) + kappa * c.weight * (c.weight * x - 2 * SKEW - m2 * x)

    forms = {
        PERPENDICULAR: 4 * BETA**2 * (average(lambda c: orthogonal(c) ** 2) + kappa * m2**2),
        PARALLEL: 4 * BETA**2 * (variance(plane) + kappa * (m2 * SPREAD + SKEW**2)),
    }
    closed = {
        PERPENDICULAR: 4 * BETA**2 * (closed_average(orthogonal, orthogonal) + kappa * m2**2),
        PARALLEL: 4 * BETA**2 * (closed_variance(plane) + kappa * (m2 * SPREAD + SKEW**2)),
    }
    label = sp.Symbol("L")
    for symbol, form in forms.items():
        finite = label * sp.Function(f"V_{symbol.name}")(RHO)
        chain.define(symbol, sp.Limit(finite, label, sp.oo), f"limit of {ROWS[symbol].meaning}")
        chain.add(symbol, "linearized ratios", form, "influence functions of the ratios of sums over tokens", _SEEN,
                  also=(MEAN_SCORE, TRANSVERSE))  # fmt: skip
        chain.add(symbol, "Gaussian moments", closed[symbol], "tilt by exp(k beta g), then Wick's theorem",
                  _check(chain))  # fmt: skip


def _check(chain: Chain) -> Check:
    """Both sides agree to 10 digits (averages are two-dimensional), the symbols replaced by what they stand for."""

    def concrete(expression: sp.Expr, _: int) -> sp.Expr:
        known = {s: chain.results[s] for s in SYMBOLS if s in chain.results}
        return in_masses(expression, known)

    return verified(*_POINTS, digits=10, left="trapezoid", right="legendre", concrete=concrete)
