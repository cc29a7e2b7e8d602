r"""Attention whose weights cannot be trained: ridge regression on the sum of the tokens, exactly.

Setting: :mod:`theorykit.derivations.single_location.erm` with the same weight s on each of L tokens: a single
token under normalized attention (s = 1), or an infinite penalty on the key (s = 1/L, or the activation at 0).
Results: conjugates of v, risk T = E(y - s sum_l omega_l)^2 and training loss in closed form; the loss is
convex, so replica symmetry is exact (arXiv 2509.21936 for the model; ridge regression: Hastie, Montanari,
Rosset, Tibshirani 2022).
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.gaussian import wick
from theorykit.derivations.laplace import factorize_tokens
from theorykit.derivations.ledger import Derivation, Equations, Limit, Quantity, verified
from theorykit.derivations.nodes import Expectation, TokenExpectation
from theorykit.derivations.replica import ALPHA, over_tokens
from theorykit.derivations.single_location.erm_symbols import VALUE
from theorykit.derivations.single_location.symbols import DELTA, LENGTH, PAPER, XI

__all__ = ["derive_erm_fixed"]

WEIGHT = sp.Symbol("s", real=True)
RISK, TRAIN = sp.Symbol("risk", nonnegative=True), sp.Symbol("train_loss", nonnegative=True)
_POINT = {"L": 2, "s": 0.6, "m_v": 0.7, "q_v": 0.9, "V_v": 0.5, "noise": 0.4, "alpha": 1.7}


def derive_erm_fixed() -> Derivation:
    """Observables: ``risk``, ``train_loss`` and the conjugates of v, in L, s, m_v, q_v, V_v, noise, alpha."""
    chain = Chain()
    label = VALUE.truth[1] + DELTA * XI
    stiff = 1 + VALUE.V * LENGTH * WEIGHT**2
    error = label - WEIGHT * over_tokens(VALUE.omega, LENGTH)
    response = WEIGHT * error / stiff  # of each token alike

    def average(integrand: sp.Expr) -> TokenExpectation:
        return TokenExpectation(integrand, (VALUE.truth, VALUE.noise), LENGTH, (XI,))

    noises = over_tokens(lambda i: VALUE.noise[i], LENGTH)
    truths = over_tokens(lambda i: VALUE.truth[i] - VALUE.m * VALUE.noise[i] / VALUE.spread, LENGTH)
    lines = {
        RISK: (average(error**2), "risk E(y - f)^2"),
        TRAIN: (average((error / stiff) ** 2) / 2, "training loss, half the mean square residual"),
        VALUE.q_hat: (ALPHA * LENGTH * average(response**2), "alpha times the mean square response"),
        VALUE.V_hat: (-ALPHA * average(response * noises) / VALUE.spread, "by parts"),
        VALUE.m_hat: (ALPHA * average(response * truths), "by parts"),
    }
    for symbol, (definition, meaning) in lines.items():
        chain.define(symbol, definition, meaning)
        closed = definition.replace(lambda e: isinstance(e, TokenExpectation), _by_wick)
        chain.add(symbol, "Wick's theorem", sp.factor(sp.expand(closed)),
                  "independent tokens with Gaussian fields; the response is linear in them",
                  verified(_POINT))  # fmt: skip
    record = Equations(
        "single_location.erm_fixed",
        (
            *[r for r in VALUE.rows() if r.symbol not in (VALUE.ridge,)],
            Quantity(ALPHA, r"\alpha", "samples per dimension, N/D", "(0, inf)"),
            Quantity(DELTA, r"\Delta", "standard deviation of the label noise", "[0, inf)"),
            Quantity(LENGTH, "L", "number of tokens"),
            Quantity(WEIGHT, "s", "weight of each token"),
            *[Quantity(s, latex, lines[s][1]) for s, latex in ((RISK, "R"), (TRAIN, r"\epsilon"))],
        ),
        {},
        {s.name: e for s, e in chain.results.items()},
        limits=(
            Limit("risk", {"L": 1, "s": 1, "m_v": 1, "q_v": 1, "noise": 0.5}, sp.Rational(1, 4), "the truth itself"),
            Limit("risk", {"L": 3, "s": 0, "m_v": 1, "q_v": 1, "noise": 0}, sp.Integer(1), "no attention at all"),
        ),
    )  # fmt: skip
    return chain.conclude("Attention with fixed weights", PAPER, record)


def _by_wick(node: TokenExpectation) -> sp.Expr:
    """Tokens factorize; averages over one token by Wick's theorem, over the label noise too."""
    over_noise = Expectation(sp.expand(node.integrand), [XI])
    inner = wick(over_noise) if isinstance(over_noise, Expectation) else over_noise
    z, eta = sp.symbols("_z _eta", real=True)
    tokens = TokenExpectation(inner, node.families, node.length)
    one = factorize_tokens(tokens, {VALUE.truth: z, VALUE.noise: eta})
    return one.replace(lambda e: isinstance(e, Expectation), lambda e: sp.expand(wick(e)))
