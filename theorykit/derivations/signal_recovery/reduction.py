r"""The objective and its slope at any finite number of tokens and any dimension, as averages over scores.

Setting: L tokens in R^d, the first R of them theta xi + z_i, the others z_i; a_i = softmax of beta q.x_i and
f = sum a_i x_i. In a frame of q, of the direction e of xi across q, and d - 2 more, a token has the coordinates
theta b_i rho + g_i, theta b_i sqrt(1 - rho^2) + y_i and eta_i. The weights depend on the g_i alone. Results, with
S = sum_{b=1} a_i, G = sum a_i g_i, G_1 = sum_{b=1} a_i g_i, A = sum a_i^2:

    J  = E[theta^2 S^2 + 2 theta rho S G + G^2] + (d - 1) E A
    J' = E[2 theta S G + 2 beta theta^3 S^2 (1 - S) + 2 beta theta^2 rho {S (1 - S) G + S (G_1 - S G)}
           + 2 beta theta G (G_1 - S G) + 2 (d - 1) beta theta sum a_i^2 (b_i - S)],

and J'(0) = 2 beta theta (R/L)(1 - E A) + 2 beta theta^3 E[S^2 (1 - S)] > 0. The proof is the same for all R and L; it
is carried out, and checked, for given ones.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.ledger import Check, Derivation, Quantity, verified
from theorykit.derivations.nodes import Expectation, TokenExpectation
from theorykit.derivations.signal_recovery.symbols import (
    BETA,
    DIMENSION,
    RHO,
    THETA,
    conclude,
    declare,
)

__all__ = ["derive_reduction"]

ALONG, ACROSS, REST = (sp.IndexedBase(name) for name in ("g", "y", "eta"))
EXACT = sp.Symbol("exact_objective", positive=True)
EXACT_SLOPE = sp.Symbol("exact_slope", real=True)
EQUATOR_SLOPE = sp.Symbol("exact_slope_at_equator", positive=True)

_ROWS = declare(
    Quantity(EXACT, "J_{R,L,d}", "objective of the finite model"),
    Quantity(EXACT_SLOPE, "J'_{R,L,d}", "its derivative in the alignment"),
    Quantity(EQUATOR_SLOPE, "J'_{R,L,d}(0)", "the same at the equator"),
)
_POINTS = (
    {"theta": 1.3, "beta": 0.8, "rho": -0.35, "dimension": 5},
    {"theta": 0.6, "beta": 1.1, "rho": 0.55, "dimension": 3},
)


def derive_reduction(informative: int = 1, tokens: int = 2) -> Derivation:
    """Observables "exact_objective", "exact_slope", "exact_slope_at_equator" for R of L tokens, in any dimension."""
    if not 0 < informative < tokens:
        raise ValueError(f"informative must be between 1 and tokens - 1, got {informative} of {tokens}")
    chain, sums = Chain(), _Sums(informative, tokens)
    _add_objective(chain, sums)
    _add_slope(chain, sums)
    _add_equator(chain, sums)
    shown = (EXACT, EXACT_SLOPE, EQUATOR_SLOPE)
    title = f"Exact reduction to the alignment, {informative} of {tokens} tokens informative"
    return conclude(chain, f"reduction.{informative}_of_{tokens}", title, shown)


class _Sums:
    """Sums over the tokens of one sequence with their labels, and averages over the noise of all tokens."""

    def __init__(self, informative: int, tokens: int) -> None:
        self.labels = [sp.Integer(1 if i < informative else 0) for i in range(tokens)]
        self.indices = [sp.Integer(i + 1) for i in range(tokens)]
        powers = [sp.exp(BETA * self.score(k)) for k in range(tokens)]
        self.weights = [p / sp.Add(*powers) for p in powers]

    @property
    def count(self) -> int:
        return len(self.labels)

    def score(self, k: int) -> sp.Expr:
        return THETA * self.labels[k] * RHO + ALONG[self.indices[k]]

    def over(self, summand: list[sp.Expr]) -> sp.Expr:
        return sp.Add(*[a * s for a, s in zip(self.weights, summand, strict=True)])

    @property
    def mass(self) -> sp.Expr:
        return self.over(self.labels)

    @property
    def noise(self) -> list[sp.Expr]:
        return [ALONG[i] for i in self.indices]

    def mean(self, integrand: sp.Expr, *families: sp.IndexedBase) -> TokenExpectation:
        return TokenExpectation(integrand, (ALONG, *families), self.count)

    def plain(self, expression: sp.Expr) -> sp.Expr:
        """Averages over tokens as averages over as many scores, which can be compiled."""
        names = {ALONG[i]: sp.Symbol(f"g_{i}", real=True) for i in self.indices}

        def average(node: sp.Expr) -> sp.Expr:
            return Expectation(node.integrand.xreplace(names), sorted(names.values(), key=str))

        return expression.replace(lambda e: isinstance(e, TokenExpectation), average)


def _add_objective(chain: Chain, sums: _Sums) -> None:
    across = THETA * sp.sqrt(1 - RHO**2)
    along = sums.over([sums.score(k) for k in range(sums.count)])
    plane = sums.over([across * b + ACROSS[i] for b, i in zip(sums.labels, sums.indices, strict=True)])
    other = sums.over([REST[i] for i in sums.indices])
    whole = along**2 + plane**2 + (DIMENSION - 2) * other**2
    chain.define(EXACT, sums.mean(whole, ACROSS, REST), "E|f|^2 by coordinates; d - 2 of them are alike")
    squares = sp.Add(*[a**2 for a in sums.weights])
    scores_only = along**2 + across**2 * sums.mass**2 + (DIMENSION - 1) * squares
    chain.add(EXACT, "average across the query", sums.mean(scores_only),
              "the noise across the query is independent of the scores: E[(sum a_i z_i)^2] = sum a_i^2",
              _check())  # fmt: skip
    mean = sums.over(sums.noise)
    reduced = (
        THETA**2 * sums.mass**2 + 2 * THETA * RHO * sums.mass * mean + mean**2 + (DIMENSION - 1) * squares
    )
    chain.add(EXACT, "squares expanded", sums.mean(reduced), "sum a_i t_i = theta rho S + G", _check())
    chain.add(
        EXACT, "scores by name", sums.plain(sums.mean(reduced)), "one Gaussian for each token", _check()
    )


def _add_slope(chain: Chain, sums: _Sums) -> None:
    mass, mean = sums.mass, sums.over(sums.noise)
    signal = sums.over([b * g for b, g in zip(sums.labels, sums.noise, strict=True)])
    squares = sp.Add(*[a**2 for a in sums.weights])
    reduced = THETA**2 * mass**2 + 2 * THETA * RHO * mass * mean + mean**2 + (DIMENSION - 1) * squares
    chain.define(
        EXACT_SLOPE, sums.mean(sp.diff(reduced, RHO)), "derivative of the objective under the average"
    )
    tilted = sp.Add(*[a**2 * (b - mass) for a, b in zip(sums.weights, sums.labels, strict=True)])
    covariance = signal - mass * mean
    form = (
        2 * THETA * mass * mean
        + 2 * BETA * THETA**3 * mass**2 * (1 - mass)
        + 2 * BETA * THETA**2 * RHO * (mass * (1 - mass) * mean + mass * covariance)
        + 2 * BETA * THETA * mean * covariance
        + 2 * (DIMENSION - 1) * BETA * THETA * tilted
    )
    chain.add(EXACT_SLOPE, "derivative of the weights", sums.mean(form),
              "the derivative of a_i is beta theta a_i (b_i - S)", _check(), also=(EXACT,))  # fmt: skip
    chain.add(
        EXACT_SLOPE, "scores by name", sums.plain(sums.mean(form)), "one Gaussian for each token", _check()
    )


def _add_equator(chain: Chain, sums: _Sums) -> None:
    there = {RHO: sp.Integer(0)}
    chain.define(EQUATOR_SLOPE, chain.results[EXACT_SLOPE].subs(RHO, 0), "the slope at rho = 0")
    mass = sums.mass.xreplace(there)
    squares = sp.Add(*[a.xreplace(there) ** 2 for a in sums.weights])
    fraction = sp.Rational(sum(int(b) for b in sums.labels), sums.count)
    positive = 2 * BETA * THETA * fraction * (1 - squares) + 2 * BETA * THETA**3 * mass**2 * (1 - mass)
    chain.add(EQUATOR_SLOPE, "exchangeable tokens", sums.plain(sums.mean(positive)),
              "at rho = 0 all tokens are alike: terms odd in the labels average out, and E G = beta (1 - E A) by "
              "Stein's lemma; every term is positive", _check(), also=(EXACT_SLOPE,))  # fmt: skip


def _check() -> Check:
    return verified(*_POINTS, digits=10, left="trapezoid", right="legendre")
