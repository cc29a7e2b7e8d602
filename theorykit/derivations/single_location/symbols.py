"""Symbols of single-location regression, and the small pieces every derivation of it starts from."""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from theorykit.derivations.laplace import INDICES
from theorykit.derivations.ledger import Quantity
from theorykit.derivations.nodes import DistinctSum

__all__ = [
    "BELOW",
    "DELTA",
    "ETA",
    "FIELD",
    "LENGTH",
    "M_K",
    "M_V",
    "NU",
    "PAPER",
    "Q_K",
    "Q_V",
    "SHIFT",
    "TOKEN_ETA",
    "TOKEN_FIELD",
    "TOKEN_LABEL",
    "TOKEN_VALUE",
    "WEIGHT",
    "XI",
    "Kernel",
    "S",
    "Score",
    "T",
    "aligned_length",
    "others",
    "pairs",
    "quantities",
    "softmax_weights",
]

PAPER = "arXiv 2509.21936"

NU = sp.Symbol("nu", nonnegative=True)
LENGTH = sp.Symbol("L", positive=True, integer=True)
DELTA = sp.Symbol("noise", nonnegative=True)
M_K = sp.Symbol("m_k", real=True)
Q_K = sp.Symbol("q_k", nonnegative=True)
M_V = sp.Symbol("m_v", real=True)
Q_V = sp.Symbol("q_v", nonnegative=True)
SHIFT = sp.Symbol("shift", real=True)

T = sp.Symbol("t", positive=True)  # Laplace variable of the attention weights
S = sp.Symbol("s", positive=True)  # Laplace variable of the location probabilities
FIELD = sp.Symbol("x", real=True)  # field of one token along k*
BELOW = sp.Symbol("y", real=True)  # the same field of a token below the largest one
ETA = sp.Symbol("eta", real=True)  # field of one token along the part of k orthogonal to k*
TOKEN_FIELD = sp.IndexedBase("x")
TOKEN_ETA = sp.IndexedBase("eta")
TOKEN_LABEL = sp.IndexedBase("z")  # field of one token along v*
TOKEN_VALUE = sp.IndexedBase("zeta")  # field along the part of v orthogonal to v*
WEIGHT = sp.IndexedBase("sigma")  # attention weight of a token
XI = sp.Symbol("xi", real=True)  # label noise

Kernel = Callable[[sp.Expr], sp.Expr]
Score = Callable[[sp.Basic], sp.Expr]

_TABLE = {
    NU: Quantity(NU, r"\nu", "signal strength of the location", "[0, inf)"),
    LENGTH: Quantity(LENGTH, "L", "number of tokens", "1, 2, ...", "O(1), or large"),
    DELTA: Quantity(DELTA, r"\Delta", "standard deviation of the label noise", "[0, inf)"),
    M_K: Quantity(M_K, "m_k", "overlap of the key with the hidden key, k.k*/D", "real"),
    Q_K: Quantity(Q_K, "q_k", "self-overlap of the key, |k|^2/D", "[m_k^2, inf)"),
    M_V: Quantity(M_V, "m_v", "overlap of the value with the hidden value, v.v*/D", "real"),
    Q_V: Quantity(Q_V, "q_v", "self-overlap of the value, |v|^2/D", "[m_v^2, inf)"),
    SHIFT: Quantity(SHIFT, "c", "shift of the error function", "real"),
}


def quantities(*symbols: sp.Symbol, extra: tuple[Quantity, ...] = ()) -> tuple[Quantity, ...]:
    """Rows of the symbol table for some symbols of the model, and further ones."""
    return tuple(_TABLE[s] for s in symbols) + extra


def others(summand: Callable[[sp.Basic], sp.Expr], first: int = 2) -> DistinctSum:
    """Sum of a function of the token index over the tokens from ``first`` on."""
    return DistinctSum(summand(INDICES[0]), (INDICES[0],), first, LENGTH)


def pairs(summand: Callable[..., sp.Expr], count: int, first: int = 1) -> DistinctSum:
    """Sum of a function of ``count`` pairwise distinct token indices."""
    return DistinctSum(summand(*INDICES[:count]), INDICES[:count], first, LENGTH)


def aligned_length(is_aligned: bool) -> sp.Expr:
    """Length of the part of k orthogonal to k*: 0 for an aligned key."""
    return sp.Integer(0) if is_aligned else sp.sqrt(Q_K - M_K**2)


def softmax_weights(expression: sp.Expr, score: Score) -> sp.Expr:
    """Abstract weights sigma[l] made concrete as softmax weights of a score: for numerical checks."""
    denominator = sp.exp(score(sp.Integer(1))) + others(lambda i: sp.exp(score(i)))

    def concrete(node: sp.Basic) -> sp.Basic:
        if isinstance(node, sp.Indexed) and node.base == WEIGHT:
            return sp.exp(score(node.indices[0])) / denominator
        if not node.args:
            return node
        if isinstance(node, sp.Indexed):
            return node
        arguments = [concrete(a) for a in node.args]
        return node if tuple(arguments) == node.args else node.func(*arguments)

    return concrete(expression)
