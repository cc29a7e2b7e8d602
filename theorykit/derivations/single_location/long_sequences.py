r"""Long sequences: the denominator of the attention weights becomes the number of tokens times its mean.

Setting: L -> inf at fixed signal strength. Results: 1 - excess Bayes risk = e^nu/L (spiked) and e^(nu^2)/L
(max), and for linear attention (1 + nu)/L and (1 + nu^2)/L. The law of large numbers holds for tokens of
any law, so that the asymptotic steps are verified with fields of two values at L = 10^12. Sources: ours,
for the model of arXiv 2509.21936.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.gaussian import tilt, wick
from theorykit.derivations.laplace import factorize_tokens, laplace_denominators
from theorykit.derivations.ledger import Quantity, verified
from theorykit.derivations.nodes import DistinctSum, Expectation, TokenExpectation
from theorykit.derivations.single_location.linear import derive_linear
from theorykit.derivations.single_location.symbols import FIELD, LENGTH, NU, TOKEN_FIELD, T, others

__all__ = ["CROWD", "FIELD_MEAN_ROW", "long_max", "long_spiked", "two_valued"]

BAYES = sp.Symbol("bayes_rate", positive=True)
LINEAR = sp.Symbol("linear_rate", positive=True)
FIELD_MEAN = sp.Symbol("field_mean", nonnegative=True)
LIKELIHOOD = sp.Function("a", positive=True)

_PRECISE = {"digits": 30, "left": "mp-trapezoid", "right": "mp-quad"}
_FAR = {"digits": 10, "left": "mp-trapezoid", "right": "mp-quad"}
_MEANINGS = {
    BAYES: "L (1 - excess Bayes risk)",
    FIELD_MEAN: "mean field of the hidden token",
}
CROWD = (Quantity(BAYES, "b", _MEANINGS[BAYES]), Quantity(LINEAR, "r", "the same for linear attention"))
FIELD_MEAN_ROW = Quantity(FIELD_MEAN, r"\mu_\infty", _MEANINGS[FIELD_MEAN])


def long_spiked(chain: Chain) -> None:
    """The denominator of the posterior weights becomes L times its mean."""
    x, a, shifted = TOKEN_FIELD, LIKELIHOOD, LIKELIHOOD(TOKEN_FIELD[1] + sp.sqrt(NU))
    total = shifted + others(lambda i: a(x[i]))
    weight = TokenExpectation(shifted / total, (x,), LENGTH)
    mean = Expectation(a(FIELD + sp.sqrt(NU)), FIELD) / Expectation(a(FIELD), FIELD)
    _crowd(chain, BAYES, LENGTH * weight, {total: T}, mean, sp.sqrt(NU))
    record = derive_linear("spiked").equations
    power = LENGTH * (1 - record.observables["best_excess"])
    chain.define(LINEAR, power, "L (1 - minimal excess risk), linear attention")
    chain.add(LINEAR, "long sequence", sp.limit(power, LENGTH, sp.oo), "limit of a rational function",
              verified({"nu": "0.7", "L": 10**12}, **_FAR))  # fmt: skip


def long_max(chain: Chain) -> None:
    """The same, with the mean field of the hidden token, on which linear attention depends."""
    x, a = TOKEN_FIELD, LIKELIHOOD
    total = others(lambda i: a(x[i]), first=1)
    weight = TokenExpectation(others(lambda i: a(x[i]) ** 2, first=1) / total**2, (x,), LENGTH)
    mean = Expectation(a(FIELD) ** 2, FIELD) / Expectation(a(FIELD), FIELD) ** 2
    _crowd(chain, BAYES, LENGTH * weight, {total: T}, mean, NU)
    field = TokenExpectation(others(lambda i: x[i] * a(x[i]), first=1) / total, (x,), LENGTH)
    tilted = Expectation(FIELD * a(FIELD), FIELD) / Expectation(a(FIELD), FIELD)
    _crowd(chain, FIELD_MEAN, field, {total: T}, tilted, NU)
    record = derive_linear("max").equations
    (mu,) = record.observables["best_m_k"].free_symbols
    power = LENGTH * (1 - record.observables["best_excess"])
    chain.define(LINEAR, power.xreplace({mu: FIELD_MEAN}), "L (1 - minimal excess risk), linear attention")
    chain.add(LINEAR, "mean field", sp.expand(power.xreplace({mu: chain.results[FIELD_MEAN]})),
              "the mean field of the hidden token inserted",
              verified({"nu": "0.7", "L": 5}, concrete=lambda e, _: e.xreplace({FIELD_MEAN: NU}), **_PRECISE),
              also=(FIELD_MEAN,))  # fmt: skip


def _crowd(
    chain: Chain,
    symbol: sp.Symbol,
    average: sp.Expr,
    denominators: dict[sp.Expr, sp.Symbol],
    mean: sp.Expr,
    growth: sp.Expr,
) -> None:
    """Average over tokens -> one-token averages -> law of large numbers for the denominator -> closed."""

    def exponential(expression: sp.Expr, _length: int = 0) -> sp.Expr:
        return expression.replace(LIKELIHOOD, lambda u: sp.exp(growth * u))

    coefficient, node = average.as_independent(TokenExpectation)
    one_token = coefficient * factorize_tokens(laplace_denominators(node, denominators), {TOKEN_FIELD: FIELD})
    closed = exponential(mean).replace(lambda e: isinstance(e, Expectation), _exponential_moment)
    chain.define(symbol, average, _MEANINGS[symbol])
    chain.add(
        symbol,
        "one-token averages",
        one_token,
        "Laplace variable, then independence of the tokens",
        verified({"nu": 0.7, "L": 2}, concrete=exponential, left="legendre", right="trapezoid"),
    )
    chain.add(
        symbol,
        "law of large numbers",
        mean,
        "the denominator is L E a(x) for fields of any law",
        verified({"nu": "0.4", "L": 10**12}, concrete=lambda e, _: two_valued(exponential(e)), **_FAR),
    )
    chain.add(symbol, "exponential moments", sp.powsimp(closed), "a(x) = exp(beta x), tilted",
              verified({"nu": "0.7", "L": 2}, concrete=exponential, **_PRECISE))  # fmt: skip


def _exponential_moment(node: Expectation) -> sp.Expr:
    """Average of an exponential, times a power of the field, by the tilt and Wick's theorem."""
    tilted = tilt(node)
    return tilted.replace(lambda e: isinstance(e, Expectation), wick)


def two_valued(expression: sp.Expr, length: int = 0) -> sp.Expr:
    """Fields that are 1 or -1 with equal probability, cheap at any length: some steps hold for any law."""

    def token_by_token(integrand: sp.Expr, *_: sp.Basic) -> sp.Expr:
        whole = integrand.replace(DistinctSum, lambda *args: DistinctSum(*args).expand_at(length))
        names = {f: sp.Symbol(f"x_{f.indices[0]}", real=True) for f in whole.atoms(sp.Indexed)}
        return Expectation(whole.xreplace(names), sorted(names.values(), key=str))

    def halves(integrand: sp.Expr, variables: sp.Tuple, _: sp.Basic) -> sp.Expr:
        for x in variables:
            integrand = (integrand.subs(x, 1) + integrand.subs(x, -1)) / 2
        return integrand

    return expression.replace(TokenExpectation, token_by_token).replace(Expectation, halves)
