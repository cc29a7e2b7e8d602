r"""Fields of the tokens at any overlaps, what they are conditioned on, and the averages that the risk is made of.

A token has independent standard components x along k*, z along v*, h along the rest of k, zeta along the rest of v.
Scores chi = X.k/sqrt D, labels z* = X.v*/sqrt D and values X.v/sqrt D are linear in them. Weights and location depend
on few of their combinations; given these, label and value are Gaussian with a linear mean: a :class:`View` holds
score and conditional means as functions of the token index. ``off_manifold`` derives the risk from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

from theorykit.derivations.ledger import Quantity
from theorykit.derivations.nodes import Largest
from theorykit.derivations.single_location.risk import MEAN, MISS, SQUARE
from theorykit.derivations.single_location.symbols import (
    LENGTH,
    M_K,
    M_V,
    NU,
    Q_K,
    Q_V,
    SHIFT,
    TOKEN_ETA,
    TOKEN_FIELD,
    TOKEN_LABEL,
    TOKEN_VALUE,
    WEIGHT,
    aligned_length,
    others,
)

__all__ = [
    "ALIGNMENT",
    "EXCESS",
    "KERNEL",
    "LABEL_SLOPE",
    "LIKELIHOOD",
    "M_KV",
    "M_VK",
    "NOTATION",
    "PROBABILITY",
    "Q_KV",
    "REST_SLOPE",
    "ROWS",
    "SCORE",
    "SIGMA",
    "SINGLE",
    "SPREAD",
    "S_12",
    "S_22",
    "TOKEN_SCORE",
    "VALUE_SLOPE",
    "WASTE",
    "Model",
    "Moment",
    "View",
]

M_KV, M_VK, Q_KV = (sp.Symbol(name, real=True) for name in ("m_kv", "m_vk", "q_kv"))
R_K, R_V = (sp.Symbol(name, positive=True) for name in ("r_k", "r_v"))
R_KV = sp.Symbol("r_kv", real=True)
TOKEN_REST = sp.IndexedBase("h")  # field of one token along the part of k orthogonal to k* and v*
TOKEN_SCORE = sp.IndexedBase("u")  # score of one token in units of its standard deviation
SCORE = sp.Symbol("u", real=True)
PROBABILITY = sp.IndexedBase("p")
KERNEL = sp.Function("b", positive=True)
SIGMA = sp.Function("sigma", real=True)
LIKELIHOOD = sp.Function("a", positive=True)

EXCESS, SINGLE = (sp.Symbol(name, nonnegative=True) for name in ("excess", "single"))
LABEL_SLOPE, VALUE_SLOPE, REST_SLOPE = (
    sp.Symbol(name, real=True) for name in ("label_slope", "value_slope", "rest_slope")
)
S_12, S_22 = sp.Symbol("S_12", real=True), sp.Symbol("S_22", nonnegative=True)
WASTE, SPREAD = (sp.Symbol(name, nonnegative=True) for name in ("waste", "spread"))
ALIGNMENT = sp.Symbol("alignment", real=True)

ROWS = {
    q.symbol: q
    for q in (
        Quantity(M_KV, "m_{kv}", "overlap of the key with the hidden value, k.v*/D"),
        Quantity(M_VK, "m_{vk}", "overlap of the value with the hidden key, v.k*/D"),
        Quantity(Q_KV, "q_{kv}", "overlap of key and value, k.v/D"),
        Quantity(LABEL_SLOPE, r"\tau^*", "slope of the label in the field that it depends on"),
        Quantity(VALUE_SLOPE, r"\tau", "slope of the value in the score"),
        Quantity(REST_SLOPE, r"\tau_\eta", "slope of the value in the part of the score orthogonal to chi*"),
        Quantity(S_12, "S_{12}", "covariance of label and value given the fields of the location"),
        Quantity(S_22, "S_{22}", "variance of the value given the score", "[0, inf)"),
        Quantity(WASTE, r"\bar W", "squared weights of the wrong tokens, and the square of their sum"),
        Quantity(ALIGNMENT, r"\mathcal C", "overlap of label and output through their conditional means"),
        Quantity(SPREAD, r"\mathcal V", "second moment of the output through its conditional mean"),
        Quantity(SINGLE, "E_1", "excess risk of a single token of weight 1", "[0, inf)"),
        Quantity(EXCESS, "E", "excess risk", "[0, inf)"),
    )
}

#: Symbols of the steps that the record does not need.
_IN_BOTH = (
    Quantity(R_V, "r_v", "length of the part of the value orthogonal to all other directions", "(0, inf)"),
    Quantity(TOKEN_FIELD.label, "x", "field of a token along k*"),
    Quantity(WEIGHT.label, r"\sigma", "attention weight of a token"),
)
NOTATION = {
    "spiked": (
        *_IN_BOTH,
        Quantity(R_K, "r_k", "length of the part of the key orthogonal to the hidden directions", "(0, inf)"),
        Quantity(R_KV, "r_{kv}", "overlap of the value with the orthogonal part of the key"),
        Quantity(TOKEN_LABEL.label, "z", "field of a token along v*"),
        Quantity(TOKEN_REST.label, "h", "field of a token along the orthogonal part of the key"),
    ),
    "max": (
        *_IN_BOTH,
        Quantity(PROBABILITY.label, "p", "posterior probability that a token is the hidden one", "[0, 1]"),
    ),
}

OfToken = Callable[[sp.Basic], sp.Expr]
_ONE = sp.Integer(1)


@dataclass(frozen=True)
class View:
    """Fields of a token, and its score, label and value as functions of the token index.

    ``label`` and ``value`` are conditional means given the fields.
    """

    families: tuple[sp.IndexedBase, ...]
    score: OfToken
    label: OfToken
    value: OfToken


@dataclass(frozen=True)
class Moment:
    """One average over the tokens; ``integrand`` is a function of the weights and of L p_1.

    ``power``: of the normalization in it; ``first``: where its sums over tokens start, 1 where the hidden token is
    one of them; ``is_located``: whether the probability of the location occurs.
    """

    symbol: sp.Symbol
    view: View
    integrand: Callable[[OfToken, sp.Expr], sp.Expr]
    power: int
    first: int = 2
    is_located: bool = False


@dataclass(frozen=True)
class Model:
    """One task with one kind of weights; ``is_aligned`` for a key along k*, k = 0 included."""

    task: str
    kind: str
    is_aligned: bool = False
    is_shifted: bool = False

    # ---------------------------------------------------------------- the fields as the overlaps define them

    def _if_shifted(self, index: sp.Basic, by: sp.Expr) -> sp.Expr:
        return by if self.task == "spiked" and index == 1 else sp.Integer(0)

    def _true(self, index: sp.Basic) -> sp.Expr:
        return TOKEN_FIELD[index] + self._if_shifted(index, sp.sqrt(NU))

    @property
    def components(self) -> View:
        """All directions of a token: along k*, v*, and the parts of k and v orthogonal to them."""
        x, z, h, zeta = self._true, TOKEN_LABEL, TOKEN_REST, TOKEN_VALUE
        if self.is_aligned:
            return View(
                (TOKEN_FIELD, z, zeta),
                lambda i: M_K * x(i),
                lambda i: z[i],
                lambda i: M_VK * x(i) + M_V * z[i] + R_V * zeta[i],
            )
        return View(
            (TOKEN_FIELD, z, h, zeta),
            lambda i: M_K * x(i) + M_KV * z[i] + R_K * h[i],
            lambda i: z[i],
            lambda i: M_VK * x(i) + M_V * z[i] + R_KV * h[i] + R_V * zeta[i],
        )

    @property
    def lengths(self) -> dict[sp.Symbol, tuple[sp.Expr, str]]:
        """Components of k and v orthogonal to k* and v*: symbol -> (expression, meaning)."""
        if self.is_aligned:
            return {R_V: (sp.sqrt(Q_V - M_VK**2 - M_V**2), "length of the part of v orthogonal to k* and v*")}
        r_k = sp.sqrt(Q_K - M_K**2 - M_KV**2)
        r_kv = (Q_KV - M_K * M_VK - M_KV * M_V) / r_k
        r_v = sp.sqrt(Q_V - M_VK**2 - M_V**2 - r_kv**2)
        return {
            R_K: (r_k, "length of the part of k orthogonal to k* and v*"),
            R_KV: (r_kv, "component of v along that part"),
            R_V: (r_v, "length of the part of v orthogonal to k*, v* and k"),
        }

    # ---------------------------------------------------------------- what they are conditioned on

    @property
    def by_score(self) -> View:
        """Given the score, chi_l = sqrt(q_k) u_l; for an aligned key given chi*, of which it is a multiple."""
        if self.is_aligned:
            x = self._true
            return View((TOKEN_FIELD,), lambda i: M_K * x(i), lambda i: sp.Integer(0), lambda i: M_VK * x(i))
        u = TOKEN_SCORE
        return View(
            (u,),
            lambda i: sp.sqrt(Q_K) * u[i] + self._if_shifted(i, sp.sqrt(NU) * M_K),
            lambda i: LABEL_SLOPE * u[i],
            lambda i: VALUE_SLOPE * u[i] + self._if_shifted(i, sp.sqrt(NU) * M_VK),
        )

    @property
    def by_location(self) -> View:
        """Given what location and weights depend on: in the max task chi* = x and the rest of the score, eta."""
        if self.task == "spiked" or self.is_aligned:
            return self.by_score
        x, eta = TOKEN_FIELD, TOKEN_ETA
        return View(
            (x, eta),
            lambda i: M_K * x[i] + aligned_length(False) * eta[i],
            lambda i: LABEL_SLOPE * eta[i],
            lambda i: M_VK * x[i] + REST_SLOPE * eta[i],
        )

    @property
    def covariance(self) -> sp.Expr:
        """Covariance of label and value given the fields of the location."""
        return M_V if self.is_aligned else S_12

    # ---------------------------------------------------------------- averages over the tokens

    def location(self, probability: sp.Expr) -> sp.Expr:
        """Factor under which token 1 is the hidden one: 1, or L p_1 where any token may be."""
        return _ONE if self.task == "spiked" else LENGTH * probability

    @property
    def is_missing(self) -> bool:
        """Whether the risk is written in what the hidden token misses, so that nothing cancels."""
        return self.kind == "normalized" and self.task == "spiked"

    def moments(self) -> tuple[Moment, ...]:
        """The averages that the excess risk is made of."""
        return self._missing() if self.is_missing else self._plain()

    def excess(self) -> sp.Expr:
        """The excess risk in its moments."""
        if self.is_missing:
            return SINGLE + 2 * (self.covariance - S_22) * MISS + S_22 * WASTE + 2 * ALIGNMENT + SPREAD
        overlap = self.covariance * MEAN + (0 if self.is_aligned else ALIGNMENT)
        return 1 - 2 * overlap + S_22 * SQUARE + SPREAD

    def _missing(self) -> tuple[Moment, ...]:
        view = self.by_score
        own, error = view.value(_ONE), view.label(_ONE) - view.value(_ONE)

        def off(weight: OfToken) -> sp.Expr:
            return own * others(weight) - others(lambda i: weight(i) * view.value(i))

        return (
            Moment(MISS, view, lambda w, _: others(w), 1),
            Moment(WASTE, view, lambda w, _: others(w) ** 2 + others(lambda i: w(i) ** 2), 2),
            Moment(ALIGNMENT, view, lambda w, _: error * off(w), 1),
            Moment(SPREAD, view, lambda w, _: off(w) ** 2, 2),
        )

    def _plain(self) -> tuple[Moment, ...]:
        view, located, first = self.by_score, self.by_location, 2 if self.task == "spiked" else 1

        def over_tokens(of_token: OfToken) -> sp.Expr:
            return others(of_token, first) + (of_token(_ONE) if first == 2 else 0)

        def aligned(weight: OfToken, where: sp.Expr) -> sp.Expr:
            output = weight(_ONE) * located.value(_ONE)
            if self.kind == "normalized":  # otherwise the others know nothing of the label, which has mean 0
                output += others(lambda i: weight(i) * located.value(i))
            return where * located.label(_ONE) * output

        found = [
            Moment(MEAN, located, lambda w, where: where * w(_ONE), 1, is_located=True),
            Moment(SQUARE, view, lambda w, _: over_tokens(lambda i: w(i) ** 2), 2, first),
            Moment(SPREAD, view, lambda w, _: over_tokens(lambda i: w(i) * view.value(i)) ** 2, 2, first),
        ]
        if not self.is_aligned:  # the label does not depend on chi*
            found.insert(1, Moment(ALIGNMENT, located, aligned, 1, is_located=True))
        return tuple(found)

    # ---------------------------------------------------------------- weights and location

    def token_weight(self, view: View) -> OfToken:
        """The weight of a token before normalization."""
        if self.kind == "normalized":
            return lambda i: KERNEL(view.score(i))
        return lambda i: SIGMA(view.score(i) + (SHIFT if self.is_shifted else 0))

    def total(self, view: View, first: int = 2) -> sp.Expr:
        """What the weights are divided by."""
        if self.kind == "elementwise":
            return _ONE
        weight = self.token_weight(view)
        return others(weight, first) + (weight(_ONE) if first == 2 else 0)

    def probability(self) -> tuple[sp.Expr, sp.Expr]:
        """(numerator, denominator) of the probability that token 1 is the hidden one; 1 where it always is."""
        if self.task == "spiked":
            return _ONE, _ONE
        if self.task == "max_infinite":
            return Largest(TOKEN_FIELD, 1), _ONE
        own = LIKELIHOOD(TOKEN_FIELD[1])
        return own, own + others(lambda i: LIKELIHOOD(TOKEN_FIELD[i]))
