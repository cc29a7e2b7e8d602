r"""Density of the field of the hidden token in the max task, and its overlaps between two lengths.

Setting: fields x_l of L tokens, independent and standard; the location is drawn from p = softmax(nu x), or is the
argmax of x at nu = inf. phi(x) h(x, L) is the density of the field of the hidden token: h(x, L) is L times the
probability that a token with field x is the hidden one. Results: h as a half-line integral, also in a form for strong
signals in which nothing is steep however large nu is, and overlap(L, L') = E h(x, L) h(x, L'), in closed form
L L'/(L + L' - 1) at nu = inf. The setting is that of arXiv 2509.21936; the results are ours.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.laplace import INDICES, expand_token_sums, factorize_tokens, integrate_family
from theorykit.derivations.ledger import Limit, proved, verified
from theorykit.derivations.nodes import (
    DistinctSum,
    Expectation,
    HalfLine,
    Largest,
    TokenExpectation,
    TokenPower,
)
from theorykit.derivations.single_location.symbols import (
    BELOW,
    FIELD,
    LENGTH,
    NU,
    TOKEN_FIELD,
    TOKEN_LABEL,
    S,
    T,
    others,
)
from theorykit.derivations.special import gamma_weight, normal_cdf
from theorykit.derivations.steep import over_own_weight, over_weights

__all__ = ["ACTIVATION", "LENGTH_OTHER", "OVERLAP", "RATIO", "Drawn", "Ranked", "Strong", "any_function"]

ACTIVATION = sp.Function("S", real=True)
LIKELIHOOD = sp.Function("a", positive=True)
RATIO = sp.Function("h", positive=True)  # h(x, L) = L P(a token is the hidden one | its field is x)
LENGTH_OTHER = sp.Symbol("L_other", positive=True, integer=True)
BELOW_OTHER = sp.Symbol("w", real=True)
OVERLAP = sp.Symbol("overlap", nonnegative=True)
Concrete = Callable[[sp.Expr, int], sp.Expr]


def _exponential(expression: sp.Expr, _length: int = 0) -> sp.Expr:
    """The likelihood factor a(x) = exp(nu x) inserted."""
    return expression.replace(LIKELIHOOD, lambda u: sp.exp(NU * u))


def any_function(expression: sp.Expr, _length: int = 0) -> sp.Expr:
    """S made concrete by a function of no special form, where both sides hold for any S."""
    return expression.replace(ACTIVATION, lambda u: 1 / (2 + sp.exp(-u)))


class Ranked:
    """nu = inf: the hidden token, called 1, is the one with the largest field."""

    definition = LENGTH * TokenPower(normal_cdf(FIELD), LENGTH - 1)
    meaning = "L times the probability that the other L - 1 fields lie below x"
    limits = (
        Limit("overlap", {"L": 1, "L_other": 7}, sp.Integer(1), "a single token is the hidden one"),
        Limit("overlap", {"L": 2, "L_other": 2}, sp.Rational(4, 3), "best excess risk 1/3 at two tokens"),
    )

    @staticmethod
    def errors() -> tuple[TokenExpectation, TokenExpectation]:
        """The squared error, and its average over the label fields."""
        x, z = TOKEN_FIELD, TOKEN_LABEL
        own, labels = (1 - ACTIVATION(x[1])) * z[1], others(lambda i: ACTIVATION(x[i]) * z[i])
        chosen = LENGTH * Largest(x, 1)
        error = TokenExpectation(chosen * (own - labels) ** 2, (x, z), LENGTH)
        product = chosen * own**2 - 2 * chosen * own * labels + chosen * expand_token_sums(labels**2)
        return error, integrate_family(error.with_integrand(product), (z,))

    @staticmethod
    def ratio(x: sp.Expr, length: int) -> sp.Expr:
        """h at an integer length."""
        return length * normal_cdf(x) ** (length - 1)

    def ratios(self, other: int) -> Concrete:
        """h replaced by its values at integer lengths (the second one is ``other``) and a by exp(nu x)."""

        def concrete(expression: sp.Expr, length: int) -> sp.Expr:
            numbers = {LENGTH: length, LENGTH_OTHER: other}
            return _exponential(expression).replace(RATIO, lambda u, count: self.ratio(u, numbers[count]))

        return concrete

    def concrete(self, other: int) -> Concrete:
        """The same, and S replaced by any function."""
        return lambda expression, length: any_function(self.ratios(other)(expression, length))

    def overlap(self, chain: Chain) -> None:
        """The chain of the overlap, from h to the observable."""
        power, u = sp.Symbol("n", nonnegative=True, integer=True), sp.Symbol("u", positive=True)
        moment = sp.integrate(u**power, (u, 0, 1)).subs(power, LENGTH + LENGTH_OTHER - 2)
        inserted = chain.results[OVERLAP].replace(RATIO, lambda x, n: n * TokenPower(normal_cdf(x), n - 1))
        point = {"L": 2, "L_other": 3}
        chain.add(
            OVERLAP,
            "fields below the largest",
            inserted,
            "independent fields",
            verified(point, concrete=self.ratios(3)),
            also=(RATIO(FIELD, LENGTH),),
        )
        chain.add(OVERLAP, "uniform variable", LENGTH * LENGTH_OTHER * moment,
                  "u = Phi(x) is uniform on (0, 1) and E u^(L + L' - 2) = 1/(L + L' - 1)",
                  verified(point, {"L": 4, "L_other": 1}, digits=30, left="mp-trapezoid",
                           right="mp-quad"))  # fmt: skip


class Drawn(Ranked):
    """Finite nu: the location is drawn with probabilities a(x_l)/sum_m a(x_m), a(x) = exp(nu x)."""

    rest = DistinctSum(LIKELIHOOD(TOKEN_FIELD[INDICES[0]]), (INDICES[0],), 1, LENGTH - 1)
    definition = LENGTH * TokenExpectation(
        LIKELIHOOD(FIELD) / (LIKELIHOOD(FIELD) + rest), (TOKEN_FIELD,), LENGTH - 1
    )
    meaning = "L times the probability that a token with field x is the hidden one"
    limits = (
        Limit("overlap", {"nu": 2, "L": 1, "L_other": 7}, sp.Integer(1), "a single token is the hidden one"),
        Limit("overlap", {"nu": 0, "L": 4, "L_other": 3}, sp.Integer(1), "no signal: h = 1"),
    )

    @staticmethod
    def errors() -> tuple[TokenExpectation, TokenExpectation]:
        x, z, a, token = TOKEN_FIELD, TOKEN_LABEL, LIKELIHOOD, INDICES[1]
        evidence = others(lambda i: a(x[i]), first=1)
        output = others(lambda i: ACTIVATION(x[i]) * z[i], first=1)
        error = DistinctSum(a(x[token]) * (z[token] - output) ** 2, (token,), 1, LENGTH) / evidence
        average = TokenExpectation(error, (x, z), LENGTH)
        cross = others(lambda i: a(x[i]) * z[i], first=1) * output
        product = others(lambda i: a(x[i]) * z[i] ** 2, first=1) / evidence
        product += expand_token_sums(output**2) - 2 * expand_token_sums(cross) / evidence
        return average, integrate_family(average.with_integrand(product), (z,))

    @staticmethod
    def ratio(x: sp.Expr, length: int) -> sp.Expr:
        """The definition of h at an integer length, token by token."""
        fields = [sp.Symbol(f"field_{i}", real=True) for i in range(2, length + 1)]
        share = 1 / (1 + sp.Add(*[sp.exp(NU * (f - x)) for f in fields]))
        return length * (Expectation(share, fields) if fields else share)

    def half_line(self, t: sp.Symbol, field: sp.Symbol) -> sp.Expr:
        """h(x, L) by a Laplace variable; ``field`` names the field of the other tokens."""
        given = TokenExpectation(sp.exp(-t * self.rest), (TOKEN_FIELD,), LENGTH - 1)
        own = gamma_weight(t * LIKELIHOOD(FIELD), 1) / t
        return LENGTH * HalfLine(own * factorize_tokens(given, {TOKEN_FIELD: field}), t)

    def overlap(self, chain: Chain) -> None:
        symbol, form = RATIO(FIELD, LENGTH), self.half_line(T, BELOW)
        chain.add(
            symbol,
            "Laplace representation",
            form,
            "1/A = int_0^inf exp(-tA) dt, then independence of the other tokens",
            verified({"nu": 0.9, "x": 0.4, "L": 3}, **self._rules()),
        )
        chain.add(
            symbol,
            "exponential likelihood",
            _exponential(form),
            "the posterior of the location is a softmax of the fields",
            proved(_exponential),
        )
        other = _exponential(self.half_line(S, BELOW_OTHER)).xreplace({LENGTH: LENGTH_OTHER})
        self._insert(chain, other)

    def _rules(self) -> dict[str, object]:
        return {"concrete": self.ratios(3), "left": "legendre", "right": "trapezoid"}

    def _insert(self, chain: Chain, other: sp.Expr) -> None:
        """Both densities put into the overlap; ``other`` is the one at the other length."""
        symbol, average = RATIO(FIELD, LENGTH), chain.results[OVERLAP]
        forms = {symbol: chain.results[symbol], RATIO(FIELD, LENGTH_OTHER): other}
        inserted = average.integrand.xreplace(forms)  # the forms hold the bound field of the average
        chain.add(OVERLAP, "density of the hidden field", average.with_integrand(inserted),
                  "the half-line forms of both lengths inserted",
                  verified({"nu": 0.9, "L": 2, "L_other": 3}, **self._rules()), also=(symbol,))  # fmt: skip


class Strong(Drawn):
    """Finite nu, in a form for strong signals: the weights of the tokens as variables. It needs nu > 0."""

    limits = ()

    def _insert(self, chain: Chain, other: sp.Expr) -> None:
        symbol = RATIO(FIELD, LENGTH)
        weights = over_weights(chain.results[symbol], T)
        own = over_own_weight(weights, NU * FIELD)
        check = verified({"nu": 3, "x": 0.4, "L": 3}, left="legendre", right="trapezoid")
        chain.add(symbol, "weights as variables", weights,
                  "the weight u = t a(y) of another token instead of its field; E e^-u by parts", check)  # fmt: skip
        chain.add(symbol, "weight of the hidden token", own,
                  "w = t a(x): an exponential variable, whatever nu is", check)  # fmt: skip
        super()._insert(chain, own.xreplace({LENGTH: LENGTH_OTHER}))
