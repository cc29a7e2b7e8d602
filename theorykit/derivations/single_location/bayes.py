r"""Bayes risk of single-location regression, spiked and max, at any length.

Setting: k*, v* known, tokens X in the limit of large D (exact at any D at given overlaps). The posterior mean of
the label is :math:`\sum_lp_lz_l` with p = softmax(sqrt(nu) chi) (spiked) or softmax(nu chi) (max), z_l = X_l.v*/sqrt D.
Result: the excess Bayes risk as a half-line integral of one-token averages, also in a form that stays
accurate (and cheap) however large nu is, with the factor exp(-nu/4) of the spiked task in front. Source:
arXiv 2509.21936, section on the population risk; the Laplace forms at any length go beyond it, the first one is
checked by brute force at L = 2, 3.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from theorykit.derivations.laplace import (
    INDICES,
    expand_token_sums,
    factorize_tokens,
    integrate_family,
    laplace_denominators,
)
from theorykit.derivations.ledger import (
    Definition,
    Derivation,
    Equations,
    Limit,
    Quantity,
    Step,
    verified,
)
from theorykit.derivations.nodes import DistinctSum, Expectation, HalfLine, TokenExpectation, TokenPower
from theorykit.derivations.single_location.symbols import (
    DELTA,
    FIELD,
    LENGTH,
    NU,
    PAPER,
    TOKEN_FIELD,
    TOKEN_LABEL,
    XI,
    T,
    others,
    pairs,
    quantities,
)
from theorykit.derivations.special import gamma_weight, normal_cdf, normal_pdf
from theorykit.derivations.steep import OWN, SCALED, over_weights, rescaled

__all__ = ["derive_bayes_risk"]

Concrete = Callable[..., sp.Expr]

A = sp.Function("a", positive=True)  # likelihood factor of a token
EXCESS = sp.Symbol("bayes_excess", nonnegative=True)
RISK = sp.Symbol("bayes_risk", nonnegative=True)
_ROWS = (
    Quantity(EXCESS, "E_B", "excess Bayes risk", "[0, 1]"),
    Quantity(RISK, "R_B", "Bayes risk, label noise included", "[Delta^2, 1 + Delta^2]"),
)
_PAIR = {"nu": 1.3, "L": 2, "noise": 0.4}
_TRIPLE = {"nu": 0.6, "L": 3, "noise": 0.4}
_STRONG = {"nu": 1.7}


def derive_bayes_risk(task: str = "spiked", steep: bool = False) -> Derivation:
    """Excess Bayes risk and Bayes risk of one task ("spiked" or "max"), in nu, L and the noise.

    ``steep`` gives the form for large nu; it needs nu > 0.
    """
    if task not in ("spiked", "max"):
        raise ValueError(f"task must be 'spiked' or 'max', got {task!r}")
    squared_error, noisy, steps, excess = {"spiked": _spiked, "max": _max}[task]()
    if steep:
        more, excess = _steep(task, steps[-1].rhs, steps[-1].name)
        steps = (*steps, *more)
    concrete = _likelihood(task)

    def with_excess(expression: sp.Expr, length: int) -> sp.Expr:
        return concrete(expression.xreplace({EXCESS: squared_error}), length)

    definitions = (
        Definition(EXCESS, squared_error, "excess risk E(E[y|X] - X_eps.v*/sqrt D)^2 of the Bayes estimator"),
        Definition(RISK, noisy, "risk E(y - E[y|X])^2 with y = X_eps.v*/sqrt D + noise * xi"),
    )
    noise_step = Step(
        "label noise",
        noisy,
        DELTA**2 + EXCESS,
        (RISK.name, EXCESS.name),
        "Wick's theorem for the label noise, which is independent of everything else",
        verified(_PAIR, concrete=with_excess),
    )
    record = Equations(
        f"single_location.bayes_risk.{task}",
        quantities(NU, LENGTH, DELTA, extra=_ROWS),
        {EXCESS: excess},
        {EXCESS.name: excess, RISK.name: DELTA**2 + EXCESS},
        limits=() if steep else _limits(task),
    )
    title = {"spiked": "Bayes risk of the spiked model", "max": "Bayes risk of the max model"}[task]
    title += ", strong signals" if steep else ""
    return Derivation(
        f"single_location.bayes_risk.{task}", title, PAPER, definitions, (*steps, noise_step), record
    )


def _likelihood(task: str) -> Concrete:
    """Replace the abstract likelihood a(x) by exp(beta x): beta = sqrt(nu) (spiked), nu (max)."""
    beta = sp.sqrt(NU) if task == "spiked" else NU
    return lambda expression, _length=None: expression.replace(A, lambda x: sp.exp(beta * x))


Part = tuple[TokenExpectation, TokenExpectation, tuple[Step, ...], sp.Expr]


def _spiked() -> Part:
    """Token 1 is the hidden one; its field is shifted by sqrt(nu)."""
    x, z, concrete = TOKEN_FIELD, TOKEN_LABEL, _likelihood("spiked")
    hidden, rest = A(x[1] + sp.sqrt(NU)), others(lambda i: A(x[i]))
    total, labels = hidden + rest, others(lambda i: A(x[i]) * z[i])
    deviation = z[1] - (hidden * z[1] + labels) / total
    error = TokenExpectation(deviation**2, (x, z), LENGTH)
    noisy = TokenExpectation((deviation + DELTA * XI) ** 2, (x, z), LENGTH, shared=(XI,))
    own = (1 - hidden / total) * z[1]
    product = own**2 - 2 * own * labels / total + expand_token_sums(labels**2) / total**2
    wicked = integrate_family(error.with_integrand(product), (z,))
    nishimori = TokenExpectation(1 - hidden / total, (x,), LENGTH)
    wrong = TokenExpectation(rest / total, (x,), LENGTH)
    before = (
        Step("average over the label fields", error, wicked, (EXCESS.name,),
             "Wick's theorem: the fields z_l are standard Gaussians, independent of each other and of the rest",
             verified(_PAIR, concrete=concrete)),
        Step("Nishimori identity", wicked, nishimori, ("average over the label fields",),
             "the hidden location is a sample of its posterior p, so that E sum_l p_l^2 = E p_eps",
             verified(_PAIR, _TRIPLE, concrete=concrete)),
        Step("mass on the wrong tokens", nishimori, wrong, ("Nishimori identity",),
             "the posterior weights sum to 1; written without cancellation",
             verified(_PAIR, _TRIPLE, concrete=concrete)),
    )  # fmt: skip
    after, closed = _factorization(wrong, total, concrete, before[-1].name)
    return error, noisy, (*before, *after, _tilted(closed, after[-1].name)), closed


def _max() -> Part:
    """Tokens are independent and standard, the location is drawn from p = softmax(nu x)."""
    x, z, concrete = TOKEN_FIELD, TOKEN_LABEL, _likelihood("max")
    total = others(lambda i: A(x[i]), first=1)
    mean = others(lambda i: A(x[i]) * z[i], first=1) / total
    index = INDICES[1]

    def squared(noise: sp.Expr) -> sp.Expr:
        return DistinctSum(A(x[index]) * (z[index] - mean + noise) ** 2, (index,), 1, LENGTH) / total

    error = TokenExpectation(squared(sp.Integer(0)), (x, z), LENGTH)
    noisy = TokenExpectation(squared(DELTA * XI), (x, z), LENGTH, shared=(XI,))
    product = others(lambda i: A(x[i]) * z[i] ** 2, first=1) / total
    product -= expand_token_sums(others(lambda i: A(x[i]) * z[i], first=1) ** 2) / total**2
    multiplied = error.with_integrand(product)
    wicked = integrate_family(multiplied, (z,))
    wrong = TokenExpectation(pairs(lambda i, j: A(x[i]) * A(x[j]), 2) / total**2, (x,), LENGTH)
    before = (
        Step("variance under the posterior", error, multiplied, (EXCESS.name,),
             "sum_l p_l (z_l - zbar)^2 = sum_l p_l z_l^2 - zbar^2, since the p_l sum to 1",
             verified(_PAIR, concrete=concrete)),
        Step("average over the label fields", multiplied, wicked, ("variance under the posterior",),
             "Wick's theorem: the fields z_l are standard Gaussians, independent of each other and of the rest",
             verified(_PAIR, concrete=concrete)),
        Step("mass on the wrong tokens", wicked, wrong, ("average over the label fields",),
             "1 - sum_l p_l^2 = sum over pairs p_l p_m, written without cancellation",
             verified(_PAIR, _TRIPLE, concrete=concrete)),
    )  # fmt: skip
    after, closed = _factorization(wrong, total, concrete, before[-1].name)
    return error, noisy, (*before, *after), closed


def _factorization(
    average: TokenExpectation, total: sp.Expr, concrete: Concrete, premise: str
) -> tuple[tuple[Step, ...], sp.Expr]:
    """Laplace representation of 1/total**p, independence of the tokens, and the exponential likelihood."""
    laplace = laplace_denominators(average, {total: T})
    one_token = factorize_tokens(laplace, {TOKEN_FIELD: FIELD})
    closed = concrete(one_token)
    steps = (
        Step("Laplace representation", average, laplace, (premise,),
             "A^-p = int_0^inf t^(p-1) exp(-tA) dt / Gamma(p)", verified(_PAIR, concrete=concrete)),
        Step("independence of the tokens", laplace, one_token, ("Laplace representation",),
             "the tokens are independent and the wrong ones exchangeable",
             verified(_PAIR, concrete=concrete)),
        Step("exponential likelihood", one_token, closed, ("independence of the tokens",),
             "the posterior of the location is a softmax of the fields", verified(_TRIPLE, concrete=concrete)),
    )  # fmt: skip
    return steps, closed


def _tilted(closed: sp.Expr, premise: str) -> Step:
    """The published form: the tilt of the hidden token makes its factor equal to that of a wrong one."""
    growth = sp.exp(sp.sqrt(NU) * FIELD)
    hidden = _likelihood("spiked")(Expectation(sp.exp(-T * A(FIELD + sp.sqrt(NU))), FIELD))
    moment = Expectation(gamma_weight(T * growth, 1), FIELD)
    published = closed.with_integrand(closed.integrand.xreplace({hidden: sp.exp(-NU / 2) * moment / T}))
    return Step(
        "exponential tilt", closed, published, (premise,),
        "E[exp(sqrt(nu) x - nu/2) g(x)] = E[g(x + sqrt(nu))] turns E exp(-ta) into -exp(-nu/2) phi'(t), "
        "phi(t) = E exp(-t exp(sqrt(nu) x))",
        verified(_PAIR, _TRIPLE),
    )  # fmt: skip


def _steep(task: str, form: sp.Expr, premise: str) -> tuple[tuple[Step, ...], sp.Expr]:
    """The weight of a token as the variable, and a Laplace variable whose range does not grow with nu."""
    check = verified({**_STRONG, "L": 2}, {**_STRONG, "L": 4})
    weights = over_weights(form, T)
    scaled = rescaled(weights, sp.sqrt(NU) if task == "spiked" else NU)
    steps = [
        Step("weights as variables", form, weights, (premise,),
             "the weight u = t a(x) of a token instead of its field; E e^-u by parts", check),
        Step("scaled Laplace variable", weights, scaled, ("weights as variables",),
             "t = r^beta: r spans what the fields span, whatever nu is", check),
    ]  # fmt: skip
    if task == "spiked":
        steps.append(Step("leading exponential", scaled, _leading(), ("scaled Laplace variable",),
                          "r moved by exp(-sqrt(nu)/2), to where the integrand is largest", check))  # fmt: skip
    return tuple(steps), steps[-1].rhs


def _leading() -> sp.Expr:
    """exp(-nu/4) times an integral of order 1: both the hidden token and a wrong one sit at sqrt(nu)/2."""
    root, u, r = sp.sqrt(NU), OWN, SCALED
    place = sp.log(u) / root - sp.log(r)
    pair = HalfLine(u ** sp.Rational(-1, 2) * sp.exp(-u) * normal_pdf(place), u) ** 2
    others_below = TokenPower(HalfLine(sp.exp(-u) * normal_cdf(place + root / 2), u), LENGTH - 2)
    return (LENGTH - 1) * sp.exp(-NU / 4) / root * HalfLine(pair * others_below / r, r)


def _limits(task: str) -> tuple[Limit, ...]:
    name = EXCESS.name
    return (
        Limit(name, {"nu": 0, "L": 3}, sp.Rational(2, 3), "no signal: the location is guessed, 1 - 1/L"),
        Limit(name, {"nu": 0, "L": 10**6}, 1 - sp.Rational(1, 10**6), "no signal, long sequences"),
    )
