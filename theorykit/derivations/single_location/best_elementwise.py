r"""The best activation that is applied token by token, and its risk.

Setting: f = sum_l S(chi*_l) z_l with any function S (a key along k*: an orthogonal part would only average
S over noise; the scale of the value is absorbed in S). The excess risk is an average over the field x of
one token of a parabola in S(x), so the minimum over functions is taken point by point.

Results: spiked, S(x) = 1/(1 + (L - 1) exp(nu/2 - sqrt(nu) x)) and best_excess = E 1/(1 + exp(sqrt(nu) x +
nu/2)/(L - 1)) for x standard; only E L matters at random length. Max, with p h(x) the density of the hidden
field relative to the normal one: best_excess = 1 - sum over pairs of lengths p p' overlap(L, L')/E L,
overlap = E h_L(x) h_L'(x), in closed form L L'/(L + L' - 1) at nu = inf. The setting is that of arXiv
2509.21936; the results are ours.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.gaussian import tilt
from theorykit.derivations.laplace import INDICES, expand_token_sums, factorize_tokens, integrate_family
from theorykit.derivations.ledger import (
    Derivation,
    Equations,
    Limit,
    Quantity,
    proved,
    verified,
)
from theorykit.derivations.minimum import AtMinimum, minimum, numerically, pointwise
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
    PAPER,
    TOKEN_FIELD,
    TOKEN_LABEL,
    S,
    T,
    others,
    quantities,
)
from theorykit.derivations.special import gamma_weight, normal_cdf

__all__ = ["LENGTH_OTHER", "derive_best_elementwise"]

ACTIVATION = sp.Function("S", real=True)
LIKELIHOOD = sp.Function("a", positive=True)
RATIO = sp.Function("h", positive=True)  # h(x, L) = L P(a token is the hidden one | its field is x)
LENGTH_OTHER = sp.Symbol("L_other", positive=True, integer=True)
SHARE = sp.Symbol("share", positive=True)  # probability of the first of two lengths
BELOW_OTHER = sp.Symbol("w", real=True)
BEST_EXCESS = sp.Symbol("best_excess", nonnegative=True)
ODDS = sp.Symbol("odds", nonnegative=True)
OVERLAP = sp.Symbol("overlap", nonnegative=True)
Concrete = Callable[[sp.Expr, int], sp.Expr]


def derive_best_elementwise(task: str = "spiked") -> Derivation:
    """Task "spiked": "best_excess" in nu, L. Tasks "max", "max_infinite": "overlap" in (nu,) L, L_other."""
    parts = {"spiked": _spiked, "max": lambda: _max("max"), "max_infinite": lambda: _max("max_infinite")}
    if task not in parts:
        raise ValueError(f"task must be one of {tuple(parts)}, got {task!r}")
    chain, record = parts[task]()
    title = f"Best elementwise activation, {task.replace('_', ' ')} task"
    return chain.conclude(title, PAPER, record)


def _completed(right: sp.Expr, total: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """(minimizer, least value) of right (1 - s)^2 + (total - right) s^2, by setting its slope to zero."""
    alpha, beta, s = sp.symbols("alpha beta s", positive=True)
    parabola = alpha * (1 - s) ** 2 + beta * s**2
    (root,) = sp.solve(sp.diff(parabola, s), s)
    least = sp.factor(parabola.subs(s, root))
    values = {alpha: right, beta: total - right}
    return root.xreplace(values), least.xreplace(values)


def _least(objective: sp.Expr) -> AtMinimum:
    """The least value of an objective over all activations."""
    return minimum(objective, (ACTIVATION(FIELD),))


def _exponential(expression: sp.Expr, _length: int = 0) -> sp.Expr:
    """The likelihood factor a(x) = exp(nu x) inserted."""
    return expression.replace(LIKELIHOOD, lambda u: sp.exp(NU * u))


def _any_function(expression: sp.Expr, _length: int = 0) -> sp.Expr:
    """S made concrete by a function of no special form, where both sides hold for any S."""
    return expression.replace(ACTIVATION, lambda u: 1 / (2 + sp.exp(-u)))


# --------------------------------------------------------------------------- spiked


def _spiked() -> tuple[Chain, Equations]:
    x, z, root = TOKEN_FIELD, TOKEN_LABEL, sp.sqrt(NU)
    own, labels = (1 - ACTIVATION(x[1] + root)) * z[1], others(lambda i: ACTIVATION(x[i]) * z[i])
    error = TokenExpectation((own - labels) ** 2, (x, z), LENGTH)
    product = own**2 - 2 * own * labels + expand_token_sums(labels**2)
    wicked = integrate_family(error.with_integrand(product), (z,))
    ratio, value = sp.exp(root * FIELD - NU / 2), ACTIVATION(FIELD)
    parabola = Expectation(ratio * (1 - value) ** 2 + (LENGTH - 1) * value**2, FIELD)
    best, least = _completed(ratio, ratio + LENGTH - 1)
    squares = Expectation(least + (ratio + LENGTH - 1) * (value - best) ** 2, FIELD)
    closed = _outside(tilt(Expectation(least, FIELD)))
    point = {"nu": "0.9", "L": 2, "x": "0.4"}
    anywhere, searched = verified(point, concrete=pointwise(_any_function)), numerically(point)
    precise = {"digits": 30, "left": "mp-trapezoid", "right": "mp-quad"}
    chain = Chain()
    chain.define(BEST_EXCESS, _least(error), "smallest excess risk of sum_l S(chi*_l) z_l over functions S")
    chain.add(
        BEST_EXCESS,
        "average over the label fields",
        _least(wicked),
        "Wick's theorem: the fields z_l are standard Gaussians, independent of the chi*",
        anywhere,
    )
    chain.add(
        BEST_EXCESS,
        "one-token averages",
        _least(factorize_tokens(wicked, {x: FIELD})),
        "independent tokens, the wrong ones exchangeable",
        anywhere,
    )
    chain.add(
        BEST_EXCESS,
        "likelihood ratio",
        _least(parabola),
        "E g(x + sqrt(nu)) = E exp(sqrt(nu) x - nu/2) g(x)",
        anywhere,
    )
    chain.add(
        BEST_EXCESS,
        "completed square",
        _least(squares),
        "a parabola in S(x) at every x, least where its slope vanishes",
        anywhere,
    )
    chain.add(
        BEST_EXCESS,
        "minimum over functions",
        Expectation(least, FIELD),
        "the square vanishes at S = r/(r + L - 1), r = exp(sqrt(nu) x - nu/2)",
        verified(point, concrete=searched),
    )
    chain.add(
        BEST_EXCESS,
        "back to the hidden token",
        closed,
        "exponential tilt, the other way round",
        verified(point, {**point, "L": 9}, **precise),
    )
    odds = ratio * (1 / value - 1)
    chain.define(ODDS, AtMinimum(odds, error, (value,)), "r (1 - S)/S at the best S: S = r/(r + odds)")
    chain.add(
        ODDS,
        "squares",
        AtMinimum(odds, squares, (value,)),
        "the risk of S, as above",
        anywhere,
        also=(BEST_EXCESS,),
    )
    chain.add(
        ODDS,
        "minimum over functions",
        LENGTH - 1,
        "the odds are the same for all x",
        verified(point, concrete=searched),
    )
    chain.add(BEST_EXCESS, "in the odds", closed.subs(LENGTH, ODDS + 1), "the odds inserted",
              verified({**point, "L": 9}, concrete=lambda e, _: e.xreplace({ODDS: LENGTH - 1}), **precise),
              also=(ODDS,))  # fmt: skip
    record = Equations(
        "single_location.best_elementwise.spiked",
        quantities(NU, LENGTH, extra=(*_ROWS, _FIELD)),
        dict(chain.results),
        {BEST_EXCESS.name: chain.results[BEST_EXCESS]},
        limits=(
            Limit("best_excess", {"nu": 0, "L": 5}, sp.Rational(4, 5), "no signal: a guess, 1 - 1/L"),
            Limit("best_excess", {"nu": 3, "L": 1}, sp.Integer(0), "a single token"),
        ),
    )
    return chain, record


_FIELD = Quantity(FIELD, "x", "field of one token along k*")
_ROWS = (
    Quantity(BEST_EXCESS, "E^*", "smallest excess risk of a function applied token by token"),
    Quantity(ODDS, r"\omega", "odds against a token before its field is seen", "[0, inf)"),
)


def _outside(node: Expectation) -> sp.Expr:
    """Constant factors in front of an average, exponents multiplied out."""
    tidy = node.integrand.replace(sp.exp, lambda e: sp.exp(sp.expand(e)))
    constant, rest = tidy.as_independent(*node.variables, as_Add=False)
    return constant * Expectation(rest, node.variables)


# --------------------------------------------------------------------------- max


def _max(task: str) -> tuple[Chain, Equations]:
    """The length is L with probability ``share`` and L_other otherwise, so that pairs of lengths occur."""
    model = {"max": _Soft, "max_infinite": _Hard}[task]()
    chain = Chain()
    _best_of_two_lengths(chain, model)
    pair = Expectation(RATIO(FIELD, LENGTH) * RATIO(FIELD, LENGTH_OTHER), FIELD)
    chain.define(RATIO(FIELD, LENGTH), model.definition, model.meaning)
    chain.define(OVERLAP, pair, _OVERLAP.meaning)
    model.overlap(chain)
    overlap = chain.results[OVERLAP]
    record = Equations(
        f"single_location.best_elementwise.{task}",
        quantities(*([NU] if task == "max" else []), LENGTH, extra=(_OTHER_LENGTH, _OVERLAP, _SHARE, _FIELD)),
        {OVERLAP: overlap},
        {OVERLAP.name: overlap},
        limits=model.limits,
    )
    return chain, record


_SHARE = Quantity(SHARE, "p", "probability of the first of two lengths", "(0, 1)")
_OVERLAP = Quantity(OVERLAP, r"\Omega", "average of h_L h_L' over a standard field", "[1, min(L, L')]")
_OTHER_LENGTH = Quantity(LENGTH_OTHER, "L'", "another number of tokens", "1, 2, ...", "O(1), or large")


def _best_of_two_lengths(chain: Chain, model: _Hard) -> None:
    """Minimum over functions at a random length: what the overlaps of all pairs of lengths stand for."""
    value = ACTIVATION(FIELD)
    mixed = SHARE * RATIO(FIELD, LENGTH) + (1 - SHARE) * RATIO(FIELD, LENGTH_OTHER)
    mean_length = SHARE * LENGTH + (1 - SHARE) * LENGTH_OTHER
    error, wicked = (_mixed(e) for e in model.errors())
    parabola = Expectation(1 - 2 * mixed * value + mean_length * value**2, FIELD)
    least = 1 - mixed**2 / mean_length
    squares = Expectation(least + mean_length * (value - mixed / mean_length) ** 2, FIELD)
    share = {LENGTH: SHARE, LENGTH_OTHER: 1 - SHARE}
    pairs = [
        share[i] * share[j] * Expectation(RATIO(FIELD, i) * RATIO(FIELD, j), FIELD)
        for i in share
        for j in share
    ]
    short = {"nu": "0.9", "L": 2, "L_other": 1, "share": "0.3"}
    point, stand_in = {**short, "L_other": 3}, _Hard()
    anywhere = verified(short, concrete=pointwise(model.concrete(1)))
    chain.define(BEST_EXCESS, _least(error), "smallest excess risk over functions S at a random length")
    chain.add(
        BEST_EXCESS,
        "average over the label fields",
        _least(wicked),
        "Wick's theorem: the fields z_l are standard Gaussians, independent of the chi*",
        anywhere,
    )
    chain.add(
        BEST_EXCESS,
        "one field",
        _least(parabola),
        "exchangeable tokens; h is the density of the hidden field relative to the normal one",
        anywhere,
    )
    chain.add(
        BEST_EXCESS,
        "completed square",
        _least(squares),
        "a parabola in S(x) at every x",
        verified(point, concrete=pointwise(stand_in.concrete(3))),
    )
    chain.add(
        BEST_EXCESS,
        "minimum over functions",
        Expectation(least, FIELD),
        "the square vanishes at S = E h/E L",
        verified(point, concrete=numerically(point, concrete=stand_in.ratios(3))),
    )
    chain.add(BEST_EXCESS, "pairs of lengths", 1 - sp.Add(*pairs) / mean_length,
              "linearity: overlap(L, L') is the average of h_L h_L'",
              verified(point, concrete=stand_in.ratios(3)))  # fmt: skip


def _mixed(average: sp.Expr) -> sp.Expr:
    """An average at length L with probability ``share``, at L_other otherwise."""
    return SHARE * average + (1 - SHARE) * average.xreplace({LENGTH: LENGTH_OTHER})


class _Hard:
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
        return lambda expression, length: _any_function(self.ratios(other)(expression, length))

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


class _Soft(_Hard):
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
        other = _exponential(self.half_line(S, BELOW_OTHER)).xreplace({LENGTH: LENGTH_OTHER})
        forms = {symbol: _exponential(form), RATIO(FIELD, LENGTH_OTHER): other}
        rules = {"concrete": self.ratios(3), "left": "legendre", "right": "trapezoid"}
        chain.add(
            symbol,
            "Laplace representation",
            form,
            "1/A = int_0^inf exp(-tA) dt, then independence of the other tokens",
            verified({"nu": 0.9, "x": 0.4, "L": 3}, **rules),
        )
        chain.add(
            symbol,
            "exponential likelihood",
            _exponential(form),
            "the posterior of the location is a softmax of the fields",
            proved(_exponential),
        )
        average = chain.results[OVERLAP]  # the forms hold its bound field, so they go into the integrand
        chain.add(OVERLAP, "density of the hidden field", average.with_integrand(average.integrand.xreplace(forms)),
                  "the half-line forms of both lengths inserted",
                  verified({"nu": 0.9, "L": 2, "L_other": 3}, **rules), also=(symbol,))  # fmt: skip
