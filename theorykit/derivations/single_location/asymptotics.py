r"""Laws of the minimal risks at strong signal and for long sequences, and the claims of the paper about them.

==================  =========================================================================================
law                 statement, with a bound or the order of what is left out
==================  =========================================================================================
softmax             spiked, nu -> inf: (L - 1)/2 sqrt(pi/nu) exp(-nu/4) [1 - pi^2/(4 nu) + 5 pi^4/(32 nu^2)]
best_elementwise    spiked, nu -> inf: sqrt(pi (L - 1)/(2 nu)) exp(-nu/8) [1 - ...]
linear              spiked, nu -> inf: L/nu
erf                 spiked, nu -> inf, no shift: a constant, at best (L - 1)/(L + 3) for a short key
softplus            spiked, nu -> inf: kappa (L - 1)/nu at slope m_k; kappa* is its minimum over the slope
long_spiked         L -> inf: 1 - excess risk = e^nu/L (Bayes), (1 + nu)/L (linear)
long_max            L -> inf: 1 - excess risk = e^(nu^2)/L (Bayes), (1 + nu^2)/L (linear)
==================  =========================================================================================

An asymptotic step is verified far out in its limit, where what it leaves out is below the digits asked for.
Sources: arXiv 2509.21936 for the exponential law of softmax attention and the algebraic one of linear
attention; prefactors and the other laws are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.gaussian import tilt
from theorykit.derivations.laplace import expand_token_sums, factorize_tokens
from theorykit.derivations.ledger import Claim, Derivation, Equations, Limit, Quantity, verified
from theorykit.derivations.nodes import Expectation, HalfLine, TokenExpectation
from theorykit.derivations.single_location.best_elementwise import derive_best_elementwise
from theorykit.derivations.single_location.erf import derive_erf
from theorykit.derivations.single_location.linear import derive_linear
from theorykit.derivations.single_location.long_sequences import (
    CROWD,
    FIELD_MEAN_ROW,
    long_max,
    long_spiked,
    two_valued,
)
from theorykit.derivations.single_location.symbols import (
    FIELD,
    LENGTH,
    M_K,
    NU,
    PAPER,
    Q_K,
    SHIFT,
    TOKEN_FIELD,
    others,
    pairs,
    quantities,
)

__all__ = ["CLAIMS", "LAWS", "derive_asymptotics"]

U = sp.Symbol("u", positive=True)  # log-likelihood ratio of two tokens
LAW = sp.Symbol("law", nonnegative=True)
SERIES = sp.Symbol("series", real=True)
PAIR_EXCESS = sp.Symbol("pair_excess", nonnegative=True)
REMAINDER = sp.Symbol("remainder", nonnegative=True)
RATE = sp.Symbol("rate", positive=True)
FLOOR = sp.Symbol("floor", positive=True)
SLOPE = sp.Symbol("slope", positive=True)

_PRECISE = {"digits": 30, "left": "mp-trapezoid", "right": "mp-quad"}
_FAR = {"digits": 10, "left": "mp-trapezoid", "right": "mp-quad"}


def derive_asymptotics(law: str = "softmax") -> Derivation:
    """One of the laws ``LAWS``; observables are named in the table of the module."""
    if law not in LAWS:
        raise ValueError(f"law must be one of {tuple(LAWS)}, got {law!r}")
    title, derive, rows, notes = LAWS[law]
    chain, breakpoints, limits = Chain(), {}, ()
    extras = derive(chain)
    if extras is not None:
        breakpoints, limits = extras
    record = Equations(
        f"single_location.asymptotics.{law}",
        quantities(NU, LENGTH, extra=rows),
        dict(chain.results),
        {s.name: e for s, e in chain.results.items()},
        limits=limits,
        breakpoints=breakpoints,
    )
    return chain.conclude(title, PAPER, record, notes)


# --------------------------------------------------------------------------- strong signal


def _softmax(chain: Chain) -> None:
    """Two tokens are confused: a Gaussian integral of sech. Three at once cost exp(-nu/3)."""
    x, root = TOKEN_FIELD, sp.sqrt(NU)
    rival, hidden = sp.exp(root * x[2]), sp.exp(root * (x[1] + root))
    pair = TokenExpectation(rival / (hidden + rival), (x,), 2)
    ratio = NU + sp.sqrt(2) * root * FIELD
    secant = _centred(Expectation(sp.exp(-ratio / 2) / (2 * sp.cosh(ratio / 2)), FIELD))
    gaussian = sp.exp(-(U**2) / (4 * NU))
    chain.define(PAIR_EXCESS, (LENGTH - 1) * pair, "excess Bayes risk of two tokens, times L - 1")
    chain.add(
        PAIR_EXCESS,
        "log-likelihood ratio",
        (LENGTH - 1) * Expectation(1 / (1 + sp.exp(ratio)), FIELD),
        "the log of the ratio of two posterior weights is normal, with mean nu and variance 2 nu",
        verified(*_GENTLE),
    )
    chain.add(
        PAIR_EXCESS,
        "tilt",
        (LENGTH - 1) * secant,
        "1/(1 + e^T) = e^(-T/2)/(2 cosh(T/2)); the exponential tilt centres T",
        verified(*_GENTLE, **_PRECISE),
    )
    on_line = sp.exp(-NU / 4) / sp.sqrt(sp.pi * NU) * HalfLine(gaussian * _SECANT, U)
    chain.add(
        PAIR_EXCESS,
        "integral over the ratio",
        (LENGTH - 1) * on_line,
        "even integrand, u = |T|",
        verified(*_GENTLE, **_PRECISE),
    )
    leading = sp.sqrt(sp.pi / NU) * sp.exp(-NU / 4) * (LENGTH - 1) / 2
    _series(chain, (LENGTH - 1) * pair, leading, HalfLine(2 / sp.pi * gaussian * _SECANT, U))
    rivals = pairs(lambda i, j: sp.exp(root / 3 * (x[i] + x[j] - 2 * x[1] - 2 * root)), 2, first=2) / 2
    average = TokenExpectation(rivals, (x,), LENGTH)
    one, two, three = sp.symbols("x_1 x_2 x_3", real=True)
    exponent = root / 3 * (two + three - 2 * one - 2 * root)
    choices = (LENGTH - 1) * (LENGTH - 2) / 2
    chain.define(REMAINDER, average, "0 <= pair_excess - excess Bayes risk <= remainder")
    chain.add(REMAINDER, "exponential tilt", choices * tilt(Expectation(sp.exp(exponent), (one, two, three))),
              "exchangeable pairs of wrong tokens; the power 1/3 gives the smallest bound",
              verified({"nu": 0.6, "L": 3}))  # fmt: skip


def _best_elementwise(chain: Chain) -> None:
    """One token is judged by itself: half the exponent of softmax attention."""
    record = derive_best_elementwise("spiked").equations
    excess = record.closed(record.observables["best_excess"])
    prior = sp.log(LENGTH - 1)
    shifted = [sp.exp(-((U + sign * prior) ** 2) / (2 * NU)) for sign in (1, -1)]
    leading = sp.sqrt(sp.pi * (LENGTH - 1) / (2 * NU)) * sp.exp(-NU / 8)
    ratio = sp.sqrt(NU) * FIELD + NU / 2 - prior
    secant = _centred(Expectation(sp.exp(-ratio / 2) / (2 * sp.cosh(ratio / 2)), FIELD))
    on_line = HalfLine(sp.Add(*shifted) / sp.pi * _SECANT, U)
    reason = "1/(1 + e^T) = e^(-T/2)/(2 cosh(T/2)); the exponential tilt centres T"
    _series(chain, excess, leading, on_line, ("tilt", secant / leading, reason))


_SECANT = 1 / (2 * sp.cosh(U / 2))
_GENTLE = ({"nu": "1.3", "L": 4}, {"nu": "7", "L": 3})


def _centred(node: Expectation) -> sp.Expr:
    """The exponential tilt, with the argument of the hyperbolic cosine multiplied out."""
    return tilt(node).replace(sp.cosh, lambda a: sp.cosh(sp.expand(a)))


def _series(
    chain: Chain,
    excess: sp.Expr,
    leading: sp.Expr,
    on_line: HalfLine,
    before: tuple[str, sp.Expr, str] | None = None,
) -> None:
    """Chains of the law and of its series: ``excess/leading``, an integral with sech, powers of 1/nu."""
    check = verified(_GENTLE[0], **({"right": "mp-quad"} if excess.has(TokenExpectation) else _PRECISE))
    chain.define(SERIES, excess / leading, "the excess risk over its leading term")
    if before is not None:
        chain.add(SERIES, *before, check)
    chain.add(SERIES, "integral over the ratio", on_line, "the two halves of the line joined, u = |T|", check)
    small = sp.Symbol("small", positive=True)
    kernel = on_line.integrand / _SECANT
    terms = sp.series(kernel.xreplace({NU: 1 / small}), small, 0, 3).removeO()
    polynomial = sp.Poly(sp.expand(terms.subs(small, 1 / NU)), U)
    chain.add(
        SERIES,
        "Gaussian factor expanded",
        HalfLine(polynomial.as_expr() * _SECANT, U),
        "exp(-y) = 1 - y + y^2/2 up to y^3/6: what is left out is of order nu^-3",
        verified(
            {"nu": "1e8", "L": 4}, {"nu": "3e8", "L": 3}, digits=15, left="mp-trapezoid", right="mp-quad"
        ),
    )
    frequency = sp.Symbol("omega", real=True)
    transform = sp.pi / sp.cosh(sp.pi * frequency) / 2

    def moment(degree: int) -> sp.Expr:
        """Integral of u^degree sech(u/2)/2 over the half-line, from the Fourier transform of the kernel."""
        return sp.I**degree * sp.diff(transform, frequency, degree).subs(frequency, 0)

    summed = sp.Add(*[coefficient * moment(degree) for (degree,), coefficient in polynomial.terms()])
    chain.add(
        SERIES,
        "moments",
        sp.collect(sp.expand(summed), NU),
        "int cos(omega u)/(2 cosh(u/2)) du = pi/cosh(pi omega), differentiated at omega = 0",
        verified(*_GENTLE, **_PRECISE),
    )
    inserted = verified(
        *_GENTLE,
        **({} if excess.has(TokenExpectation) else _PRECISE),
        concrete=lambda e, _: e.xreplace({SERIES: excess / leading}),
    )
    chain.define(LAW, excess, "leading terms of the excess risk")
    chain.add(LAW, "leading term and series", leading * SERIES, "by definition of the series", inserted,
              also=(SERIES,))  # fmt: skip


def _linear(chain: Chain) -> None:
    record = derive_linear("spiked").equations
    excess = record.observables["best_excess"]
    chain.define(RATE, NU * excess, "nu times the minimal excess risk")
    chain.add(RATE, "strong signal", sp.limit(NU * excess, NU, sp.oo), "limit of a rational function",
              verified({"nu": "1e16", "L": 2}, {"nu": "1e16", "L": 7}, **_FAR))  # fmt: skip


def _erf(chain: Chain) -> tuple[dict[sp.Symbol, tuple[sp.Expr, ...]], tuple[Limit, ...]]:
    """Without a shift the wrong tokens keep a weight: only a bias lets the risk vanish."""
    record = derive_erf("spiked").equations
    moments = {
        n: e.subs(SHIFT, 0).subs(M_K, SLOPE).subs(Q_K, SLOPE**2) for n, e in record.observables.items()
    }
    excess = 1 - moments["A"] ** 2 / (moments["power"] + moments["leak"])
    leak = moments["leak"]
    chain.define(FLOOR, excess, "excess risk of the best value, key slope k*, no shift")
    chain.add(
        FLOOR,
        "strong signal",
        leak / (4 + leak),
        "the hidden token has weight 2, the others do not know of the signal",
        verified(
            {"nu": "400", "L": 3, "slope": "0.9"},
            {"nu": "3e4", "L": 5, "slope": "0.1"},
            digits=30,
            left="mp-trapezoid",
            right="mp-quad",
        ),
    )
    best = Limit("floor", {"L": 2, "slope": 0}, sp.Rational(1, 5), "short key: (L - 1)/(L + 3)")
    return {}, (best,)  # fmt: skip


def _softplus(chain: Chain) -> tuple[dict[sp.Symbol, tuple[sp.Expr, ...]], tuple[Limit, ...]]:
    """The hidden score grows like sqrt(nu), the others stay: their share is b/(sqrt(nu) slope)."""
    x, root = TOKEN_FIELD, sp.sqrt(NU)

    def softplus(u: sp.Expr) -> sp.Expr:
        return sp.log(1 + sp.exp(u))

    own, rest = softplus(SLOPE * (x[1] + root)), others(lambda i: softplus(SLOPE * x[i]))

    def average(integrand: sp.Expr) -> TokenExpectation:
        return TokenExpectation(integrand, (x,), LENGTH)

    leaks = others(lambda i: softplus(SLOPE * x[i]) ** 2)
    missed, leak = rest / (own + rest), leaks / (own + rest) ** 2
    spread = average(missed**2) - average(missed) ** 2 + average(leak)
    square = average((own / (own + rest)) ** 2) + average(leak)
    far = (average(rest**2) - average(rest) ** 2 + average(leaks)) / SLOPE**2
    one_token = factorize_tokens(average(expand_token_sums(rest**2) + leaks), {x: FIELD})
    one_token -= factorize_tokens(average(rest), {x: FIELD}) ** 2
    closed = sp.factor(one_token / SLOPE**2)
    chain.define(RATE, NU * spread / square, "nu times the excess risk of the best value, key slope k*")
    chain.add(
        RATE,
        "strong signal",
        far,
        "for fields of any law: the hidden score is slope sqrt(nu) (1 + x/sqrt(nu)), and its "
        "fluctuation, like softplus(u) - u, is of higher order",
        verified(
            {"nu": "1e26", "L": 2, "slope": "1.4"},
            {"nu": "1e26", "L": 3, "slope": "0.7"},
            concrete=two_valued,
            **_FAR,
        ),
    )
    chain.add(
        RATE,
        "one-token averages",
        closed,
        "independent tokens: the variance of the sum is the sum of the variances",
        verified({"L": 2, "slope": 1.4}, {"L": 3, "slope": 0.9}),
    )
    relu = Limit("rate", {"L": 2, "slope": 10**9}, 1 - 1 / (2 * sp.pi), "steep: the kernel max(x, 0)")
    return {FIELD: (sp.Integer(0),)}, (relu,)  # fmt: skip


_SERIES = (
    Quantity(SERIES, "s", "excess risk over its leading term, in powers of 1/nu"),
    Quantity(LAW, "E", "excess risk at strong signal"),
)
_SLOPE = Quantity(SLOPE, "a", "length of the key, k = a k*", "(0, inf)")
#: Name of a law -> (title, function that writes its chains, rows of the symbol table, notes).
LAWS: dict[str, tuple[str, Callable[[Chain], Any], tuple[Quantity, ...], str]] = {
    "softmax": (
        "Softmax attention at strong signal, spiked task",
        _softmax,
        (
            *_SERIES,
            Quantity(PAIR_EXCESS, "E_2", "excess Bayes risk of two tokens, times L - 1"),
            Quantity(REMAINDER, r"\delta", "bound on pair_excess minus the excess Bayes risk"),
        ),
        "Let clocks of rates 1 (hidden) and b_l (wrong tokens) run: 1 - p_1 is the probability that a wrong "
        "one rings first. The union bound is pair_excess; Bonferroni's inequality subtracts pairs, each of "
        "probability at most min(b_l, b_m, 1) <= (b_l b_m)^(1/3), whose mean is exp(-nu/3).",
    ),
    "best_elementwise": (
        "Best elementwise activation at strong signal, spiked task",
        _best_elementwise,
        _SERIES,
        "For L > 1; the series needs nu well above log(L - 1)^2.",
    ),
    "linear": (
        "Linear attention at strong signal, spiked task",
        _linear,
        (Quantity(RATE, "r", "limit of nu times the excess risk"),),
        "",
    ),
    "erf": (
        "Sigmoidal attention without a shift at strong signal, spiked task",
        _erf,
        (Quantity(FLOOR, "f", "limit of the excess risk"), _SLOPE),
        "",
    ),
    "softplus": (
        "Normalized softplus attention at strong signal, spiked task",
        _softplus,
        (Quantity(RATE, "r", "limit of nu times the excess risk"), _SLOPE),
        "The minimum over the slope is (L - 1) times 0.834...; corrections are of relative order 1/sqrt(nu).",
    ),
    "long_spiked": ("Long sequences, spiked task", long_spiked, CROWD, ""),
    "long_max": (
        "Long sequences, max task",
        long_max,
        (*CROWD, FIELD_MEAN_ROW),
        "",
    ),
}

#: Statements of the paper at population level; their verdicts: ``theorykit.single_location.claims``.
CLAIMS = tuple(
    Claim(name, statement, f"{PAPER}, results at population level")
    for name, statement in {
        "softmax_is_bayes": "Softmax attention at its best overlaps has the Bayes risk, at any fixed or "
        "random length of the sequence, in both tasks.",
        "softmax_exponential_in_nu": "The excess risk of softmax attention vanishes exponentially in the "
        "signal strength nu.",
        "linear_does_not_vanish_with_nu": "The excess risk of linear attention stays away from zero as "
        "the signal strength grows.",
        "linear_worse_with_length": "The excess risk of linear attention grows with the length of the "
        "sequence and tends to 1.",
        "variable_length_hurts_elementwise": "At the same mean length, a variable length of the sequence "
        "raises the excess risk of attention with elementwise activations.",
        "normalization_is_key": "Normalization of the weights is what near-optimal attention needs: "
        "normalized kernels do better than any elementwise activation.",
        "optimal_q_k": "At the best overlaps the key has no part orthogonal to k*, q_k = m_k^2.",
    }.items()
)
CLAIMS += (
    Claim(
        "softmax_beats_linear_when_trained",
        "At finite samples softmax attention always has a smaller test risk than linear attention, each trained with "
        "its best penalties.",
        f"{PAPER}, results at finite sample ratio",
    ),
)
