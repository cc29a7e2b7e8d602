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

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.gaussian import tilt
from theorykit.derivations.laplace import expand_token_sums, factorize_tokens, integrate_family
from theorykit.derivations.ledger import Derivation, Equations, Limit, Quantity, verified
from theorykit.derivations.minimum import AtMinimum, minimum, numerically, pointwise
from theorykit.derivations.nodes import Expectation, TokenExpectation
from theorykit.derivations.single_location.hidden_density import (
    ACTIVATION,
    LENGTH_OTHER,
    OVERLAP,
    RATIO,
    Drawn,
    Ranked,
    Strong,
    any_function,
)
from theorykit.derivations.single_location.symbols import (
    FIELD,
    LENGTH,
    NU,
    PAPER,
    TOKEN_FIELD,
    TOKEN_LABEL,
    others,
    quantities,
)

__all__ = ["LENGTH_OTHER", "derive_best_elementwise"]

SHARE = sp.Symbol("share", positive=True)  # probability of the first of two lengths
BEST_EXCESS = sp.Symbol("best_excess", nonnegative=True)
ODDS = sp.Symbol("odds", nonnegative=True)


def derive_best_elementwise(task: str = "spiked", steep: bool = False) -> Derivation:
    """Task "spiked": "best_excess" in nu, L. Tasks "max", "max_infinite": "overlap" in (nu,) L, L_other.

    ``steep``: a form for strong signals of the max task, which needs nu > 0.
    """
    if task not in ("spiked", "max", "max_infinite"):
        raise ValueError(f"task must be one of ('spiked', 'max', 'max_infinite'), got {task!r}")
    if steep and task != "max":
        raise ValueError(f"steep needs the max task, got {task!r}")
    chain, record = _spiked() if task == "spiked" else _max(task, steep)
    title = f"Best elementwise activation, {task.replace('_', ' ')} task" + (
        ", strong signals" if steep else ""
    )
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
    anywhere, searched = verified(point, concrete=pointwise(any_function)), numerically(point)
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


def _max(task: str, steep: bool = False) -> tuple[Chain, Equations]:
    """The length is L with probability ``share`` and L_other otherwise, so that pairs of lengths occur."""
    model = Strong() if steep else {"max": Drawn, "max_infinite": Ranked}[task]()
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


def _best_of_two_lengths(chain: Chain, model: Ranked) -> None:
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
    point, stand_in = {**short, "L_other": 3}, Ranked()
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
