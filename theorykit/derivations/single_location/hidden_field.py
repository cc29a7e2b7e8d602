r"""Mean field of the hidden token along k*, mu = E chi*_eps, in the max task.

Setting: fields x_l of L tokens, independent and standard; the location is drawn from p = softmax(nu x), or
is the argmax of x at nu = inf. Results: mu = nu E[1 - sum p^2], which is nu times the excess Bayes risk,
and mu = L (L - 1) E[phi(x) Phi(x)^(L-2)] at nu = inf, both without cancellation at any length. Stein's
lemma, token by token; the integral forms are ours.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from theorykit.derivations.gaussian import stein
from theorykit.derivations.laplace import factorize_tokens, laplace_denominators
from theorykit.derivations.ledger import (
    Definition,
    Derivation,
    Equations,
    Limit,
    Quantity,
    Step,
    proved,
    verified,
)
from theorykit.derivations.nodes import Expectation, HalfLine, Largest, TokenExpectation
from theorykit.derivations.single_location.symbols import (
    BELOW,
    FIELD,
    LENGTH,
    NU,
    PAPER,
    TOKEN_FIELD,
    T,
    others,
    pairs,
    quantities,
)
from theorykit.derivations.steep import over_weights, rescaled

__all__ = ["MU", "MU_ROW", "derive_hidden_field"]

MU = sp.Symbol("mu", nonnegative=True)
MU_ROW = Quantity(MU, r"\mu", "mean field of the hidden token along k*, E chi*_eps", "[0, inf)")

LIKELIHOOD = sp.Function("a", positive=True)
_PAIR, _TRIPLE = {"nu": 0.9, "L": 2}, {"nu": 0.6, "L": 3}


def derive_hidden_field(task: str = "max", steep: bool = False) -> Derivation:
    """The observable "mu" in nu and L ("max"), or in L ("max_infinite").

    ``steep``: a form for strong signals of the max task, which needs nu > 0.
    """
    if task not in ("max", "max_infinite"):
        raise ValueError(f"task must be 'max' or 'max_infinite', got {task!r}")
    definition, steps, limits = _finite() if task == "max" else _infinite()
    if steep:
        if task != "max":
            raise ValueError(f"steep needs the max task, got {task!r}")
        steps, limits = (*steps, *_over_weights(steps[-1])), ()
    mu = steps[-1].rhs
    record = Equations(
        f"single_location.hidden_field.{task}",
        quantities(*([NU] if task == "max" else []), LENGTH, extra=(MU_ROW,)),
        {MU: mu},
        {MU.name: mu},
        limits=limits,
    )
    title = f"Mean field of the hidden token, {task.replace('_', ' ')} task"
    return Derivation(record.name, title, PAPER, (Definition(MU, definition, MU_ROW.meaning),), steps, record)


def _average(integrand: sp.Expr) -> TokenExpectation:
    return TokenExpectation(integrand, (TOKEN_FIELD,), LENGTH)


def _exponential(expression: sp.Expr, _length: int = 0) -> sp.Expr:
    """The likelihood factor of a token inserted: the posterior is a softmax of nu times the fields."""
    return expression.replace(LIKELIHOOD, lambda x: sp.exp(NU * x))


def _slope(weight: Callable[[sp.Expr], sp.Expr]) -> sp.Expr:
    """d/dx_1 of a weight of token 1 in which x_1 enters through the likelihood a(x_1), a' = nu a."""
    own = sp.Dummy("own", real=True)
    derivative = sp.diff(weight(own), own).replace(sp.Derivative, lambda a, *_: NU * a)
    return derivative.xreplace({own: TOKEN_FIELD[1]})


def _finite() -> tuple[sp.Expr, tuple[Step, ...], tuple[Limit, ...]]:
    x, a = TOKEN_FIELD, LIKELIHOOD
    total = others(lambda i: a(x[i]), first=1)

    def probability(own: sp.Expr) -> sp.Expr:
        return a(own) / (a(own) + others(lambda i: a(x[i])))

    definition = _average(others(lambda i: x[i] * a(x[i]), first=1) / total)
    first = LENGTH * _average(x[1] * probability(x[1]))
    by_parts = LENGTH * _average(_slope(probability))
    wrong = NU * _average(pairs(lambda i, j: a(x[i]) * a(x[j]), 2) / total**2)
    one_token = NU * factorize_tokens(laplace_denominators(wrong / NU, {total: T}), {x: FIELD})
    closed = _exponential(one_token)
    check = verified(_PAIR, _TRIPLE, concrete=_exponential)
    steps = (
        Step("exchangeable tokens", definition, first, (MU.name,), "every token has the same share", check),
        Step("integration by parts", first, by_parts, ("exchangeable tokens",),
             "Stein's lemma for the field of token 1, E x g(x) = E g'(x), with a' = nu a", check),
        Step("mass on the wrong tokens", by_parts, wrong, ("integration by parts",),
             "p_1' = nu p_1 (1 - p_1), summed over the tokens: nu times the excess Bayes risk", check),
        Step("one-token averages", wrong, one_token, ("mass on the wrong tokens",),
             "A^-2 = int_0^inf t exp(-tA) dt, then independence of the tokens",
             verified(_PAIR, _TRIPLE, concrete=_exponential, left="legendre", right="trapezoid")),
        Step("exponential likelihood", one_token, closed, ("one-token averages",),
             "the posterior of the location is a softmax of the fields", proved(_exponential)),
    )  # fmt: skip
    limits = (Limit(MU.name, {"nu": 0, "L": 3}, sp.Integer(0), "no signal: the hidden token is any token"),)
    return definition, steps, limits


def _over_weights(last: Step) -> tuple[Step, ...]:
    """The weight of a token as the variable, and a Laplace variable whose range does not grow with nu."""
    coefficient, integral = last.rhs.as_independent(HalfLine)
    weights = over_weights(integral, T)
    check = verified({"nu": 1.7, "L": 2}, {"nu": 1.7, "L": 4})
    return (
        Step("weights as variables", last.rhs, coefficient * weights, (last.name,),
             "the weight u = t a(x) of a token instead of its field; E e^-u by parts", check),
        Step("scaled Laplace variable", coefficient * weights, coefficient * rescaled(weights, NU),
             ("weights as variables",), "t = r^nu: r spans what the fields span, whatever nu is", check),
    )  # fmt: skip


def _infinite() -> tuple[sp.Expr, tuple[Step, ...], tuple[Limit, ...]]:
    x = TOKEN_FIELD
    definition = _average(LENGTH * Largest(x, 1) * x[1])
    one_token = factorize_tokens(definition, {x: FIELD}, BELOW)
    coefficient, average = one_token.as_independent(Expectation)
    by_parts = coefficient * stein(average, FIELD)
    steps = (
        Step("given the largest field", definition, one_token, (MU.name,),
             "the other L - 1 fields are independent, standard Gaussians below the largest one",
             verified({"L": 2}, {"L": 3})),
        Step("integration by parts", one_token, by_parts, ("given the largest field",),
             "Stein's lemma: E x g(x) = E g'(x); no cancellation is left",
             verified({"L": 5}, digits=30, left="mp-trapezoid", right="mp-quad")),
    )  # fmt: skip
    limits = (
        Limit(MU.name, {"L": 2}, 1 / sp.sqrt(sp.pi), "larger of two standard Gaussians"),
        Limit(MU.name, {"L": 3}, sp.Rational(3, 2) / sp.sqrt(sp.pi), "largest of three standard Gaussians"),
    )
    return definition, steps, limits
