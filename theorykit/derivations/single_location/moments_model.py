"""Scores and law of the tokens, as the moments of attention weights need them.

Spiked: chi_l = sqrt(q_k) x_l, the hidden token shifted by sqrt(nu) m_k. Max: chi_l = m_k x_l + sqrt(q_k - m_k^2) eta_l,
the location drawn from softmax(nu x), or the argmax of x at nu = inf.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

from theorykit.derivations.laplace import factorize_tokens, laplace_denominators
from theorykit.derivations.nodes import Largest, TokenExpectation
from theorykit.derivations.single_location.symbols import (
    BELOW,
    ETA,
    FIELD,
    LENGTH,
    M_K,
    NU,
    Q_K,
    TOKEN_ETA,
    TOKEN_FIELD,
    aligned_length,
    others,
    pairs,
)

__all__ = [
    "KERNEL",
    "SIGMA",
    "Concrete",
    "TokenModel",
    "breakpoints",
    "checked_with",
    "inserted",
    "leak",
    "model_of",
]

KERNEL = sp.Function("b", positive=True)
SIGMA = sp.Function("sigma", real=True)
LIKELIHOOD = sp.Function("a", positive=True)
TASKS = ("spiked", "max", "max_infinite")

Concrete = Callable[..., sp.Expr]


@dataclass(frozen=True)
class TokenModel:
    """Scores and law of the tokens of one task; ``is_aligned`` for a key along k*.

    With ``score_first`` the field x is that along k instead of k*, so that a kink of the kernel stays where it is
    in x whatever the other field; only for the max task at finite nu.
    """

    task: str
    is_aligned: bool
    score_first: bool = False

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ValueError(f"task must be one of {TASKS}, got {self.task!r}")

    def score(self, index: sp.Basic) -> sp.Expr:
        if self.task == "spiked":
            return sp.sqrt(Q_K) * TOKEN_FIELD[index] + (sp.sqrt(NU) * M_K if index == 1 else 0)
        if self.score_first:
            return sp.sqrt(Q_K) * TOKEN_FIELD[index]
        return M_K * TOKEN_FIELD[index] + aligned_length(self.is_aligned) * TOKEN_ETA[index]

    @property
    def families(self) -> tuple[sp.IndexedBase, ...]:
        one_field = self.task == "spiked" or self.is_aligned
        return (TOKEN_FIELD,) if one_field else (TOKEN_FIELD, TOKEN_ETA)

    def average(self, integrand: sp.Expr) -> TokenExpectation:
        return TokenExpectation(integrand, self.families, LENGTH)

    def likelihood(self, index: sp.Basic) -> sp.Expr:
        if self.score_first:
            along, across = M_K / sp.sqrt(Q_K), sp.sqrt(1 - M_K**2 / Q_K)
            return LIKELIHOOD(along * TOKEN_FIELD[index] + across * TOKEN_ETA[index])
        return LIKELIHOOD(TOKEN_FIELD[index])

    @property
    def evidence(self) -> sp.Expr:
        """Denominator of the location probabilities of the max task."""
        return others(self.likelihood, first=1)

    def hidden(self, of_token: Callable[[sp.Basic], sp.Expr]) -> sp.Expr:
        """Integrand whose average over the tokens is the average of a function of the hidden token."""
        one = sp.Integer(1)
        if self.task == "spiked":
            return of_token(one)
        if self.task == "max_infinite":
            return LENGTH * Largest(TOKEN_FIELD, 1) * of_token(one)
        return others(lambda i: self.likelihood(i) * of_token(i), first=1) / self.evidence

    def hidden_and(self, count: int, product: Callable[..., sp.Expr], over: sp.Expr) -> sp.Expr:
        """The same for the sum of product(eps, l, ...) over ``count`` further distinct tokens, over a power."""
        one = sp.Integer(1)
        if self.task == "max":
            total = pairs(lambda i, *rest: self.likelihood(i) * product(i, *rest), count + 1)
            return total / (self.evidence * over)
        summed = pairs(lambda *rest: product(one, *rest), count, first=2) if count else product(one)
        return self.hidden(lambda _: summed / over) if count else self.hidden(lambda _: product(one) / over)

    def names(self) -> dict[sp.IndexedBase, sp.Symbol]:
        return {f: {TOKEN_FIELD: FIELD, TOKEN_ETA: ETA}[f] for f in self.families}

    def factorized(self, average: TokenExpectation, denominators: dict[sp.Expr, sp.Symbol]) -> sp.Expr:
        laplace = laplace_denominators(average, denominators) if denominators else average
        return factorize_tokens(laplace, self.names(), BELOW)

    @property
    def point(self) -> dict[str, object]:
        """Where the rewritings are checked: two tokens, a gentle kernel."""
        general = {"nu": 0.9, "L": 2, "m_k": 0.8, "m_v": 0.6, "shift": 0.2}
        return general if self.is_aligned else {**general, "q_k": 1.1}


def checked_with(function: sp.Function, concrete: Callable[[sp.Expr], sp.Expr]) -> Concrete:
    """Make the kernel and the likelihood of the max task concrete, for numerical checks."""

    def replace(expression: sp.Expr, _length: int = 0) -> sp.Expr:
        likely = expression.replace(LIKELIHOOD, lambda x: sp.exp(NU * x))
        return likely.replace(function, concrete)

    return replace


def inserted(function: sp.Function, formula: str) -> Concrete:
    """Insert a user's kernel, given as text in x, and the exponential likelihood."""
    from theorykit.formula import parse

    variable = sp.Symbol("x", real=True)
    expression = parse(formula).to_sympy(variable)
    return checked_with(function, lambda argument: expression.xreplace({variable: argument}))


def model_of(task: str, aligned: bool, formula: str, steep: bool = False) -> TokenModel:
    """The model of a task; the score comes first where it has kinks, or signals are strong, and it is not the field."""
    from theorykit.formula import parse

    is_aligned = aligned and task != "spiked"
    has_kinks = bool(parse(formula).kinks())
    return TokenModel(task, is_aligned, task == "max" and not is_aligned and (steep or has_kinks))


def breakpoints(model: TokenModel, formula: str, shift: sp.Expr) -> dict[sp.Symbol, tuple[sp.Expr, ...]]:
    """Fields at which a score sits on a kink of the formula."""
    from theorykit.formula import parse

    kinks = [sp.Float(k, 17) for k in parse(formula).kinks()]
    if not kinks or not (model.task == "spiked" or model.is_aligned or model.score_first):
        return {}
    if model.task == "spiked":
        at = [(k - shift) / sp.sqrt(Q_K) for k in kinks]
        at += [(k - shift - sp.sqrt(NU) * M_K) / sp.sqrt(Q_K) for k in kinks]
    elif model.score_first:
        at = [(k - shift) / sp.sqrt(Q_K) for k in kinks]
    else:
        at = [(k - shift) / M_K for k in kinks]
    return {FIELD: tuple(at)}


def leak(model: TokenModel, weight: Callable[[sp.Basic], sp.Expr]) -> sp.Expr:
    """E sum of sigma_l^2 over the tokens other than the hidden one, as the model defines it."""
    if model.task != "max":
        summed = others(lambda i: weight(i) ** 2)
        return summed if model.task == "spiked" else LENGTH * Largest(TOKEN_FIELD, 1) * summed
    return pairs(lambda i, j: model.likelihood(i) * weight(j) ** 2, 2) / model.evidence
