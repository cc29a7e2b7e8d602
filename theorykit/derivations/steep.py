r"""Steep exponential weights: averages over a field as integrals over the weight itself.

The Laplace factors of an exponential kernel are steps in the field x of a token, of width 1/c for a weight
:math:`u=t\,e^{a+cx}`: a grid in x must resolve them, and t spans :math:`e^{\pm40c}`. With u itself as the variable,

.. math::
    E_x[e^{-u}]=\int_0^\infty e^{-u}\,\Phi(z)\,du,\qquad
    E_x[u^ne^{-u}]=\int_0^\infty u^{n-1}e^{-u}\,\frac{\phi(z)}{c}\,du,\qquad z=\frac{\log u-\log t-a}{c},

and with :math:`t=r^c` nothing is steep or wide any more, however large c is (the first is an integration by parts:
:math:`e^{-u}` is the probability that an exponential variable exceeds u). Both hold for c > 0.

A location drawn from softmax(nu x) is the place of the largest of x + G/nu, G Gumbel noise: -log of the exponential
variables above. With the field :math:`y=-\log(s)/\nu` instead of the Laplace variable s, the other tokens lie below it
up to that noise, as at nu = inf, and

.. math::
    E_x[e^{-se^{\nu x}}g(x)]=\int_{-\infty}^y\phi g\,dx+\frac1\nu\int_0^\infty\Big[e^{-e^{h}}(\phi g)(y+h/\nu)
    -(1-e^{-e^{-h}})(\phi g)(y-h/\nu)\Big]dh.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from theorykit.derivations.nodes import Expectation, HalfLine, TruncatedExpectation
from theorykit.derivations.special import gamma_weight, normal_cdf, normal_pdf
from theorykit.errors import DerivationError

__all__ = [
    "HIDDEN",
    "OWN",
    "SCALED",
    "collected",
    "over_hidden_field",
    "over_own_weight",
    "over_weights",
    "rescaled",
    "rewritten",
]

SCALED = sp.Symbol("r", positive=True)  # Laplace variable to the power 1/c
OWN = sp.Symbol("u", positive=True)  # weight of one token, times the Laplace variable
EDGE = sp.Symbol("w", positive=True)  # distance from the largest noisy field
HIDDEN = sp.Symbol("w", positive=True)  # weight of the hidden token, times the Laplace variable


def over_weights(expression: sp.Expr, t: sp.Symbol) -> sp.Expr:
    """Every one-token average of a Laplace factor of an exponential kernel as an integral over the weight."""
    return rewritten(expression, lambda node: _over_weight(node, t))


def rescaled(node: HalfLine, steepness: sp.Expr) -> HalfLine:
    """A half-line integral over t as one over r, t = r**steepness."""
    t, r = node.variable, SCALED
    inside = node.integrand.xreplace({sp.log(t): steepness * sp.log(r)}).xreplace({t: r**steepness})
    return HalfLine(
        sp.Add(*[collected(term * steepness * r**steepness, r) / r for term in sp.Add.make_args(inside)]), r
    )


def over_own_weight(expression: sp.Expr, exponent: sp.Expr) -> sp.Expr:
    """A half-line integral over t (with factors in front) as one over the weight w = t exp(exponent)."""
    factor, node = expression.as_independent(HalfLine, as_Add=False)
    if not isinstance(node, HalfLine):
        raise DerivationError(f"{expression} is not a factor times a half-line integral")
    t, w, growth = node.variable, HIDDEN, sp.exp(exponent)
    own = node.integrand.xreplace({t * growth: w}).xreplace({sp.log(t): sp.log(w) - exponent})
    own = own.replace(gamma_weight, lambda x, n: x**n * sp.exp(-x) if x == w else gamma_weight(x, n))
    own = own.replace(normal_cdf, lambda x: normal_cdf(sp.expand(x)))
    return factor * HalfLine(own.xreplace({t: w / growth}) / growth, w)


def collected(term: sp.Expr, r: sp.Symbol) -> sp.Expr:
    """Powers of r as one, which SymPy leaves apart where their exponents are symbols."""
    powers, rest = sp.Integer(0), sp.Integer(1)
    for factor in sp.Mul.make_args(term):
        base, exponent = factor.as_base_exp()
        powers, rest = (powers + exponent, rest) if base == r else (powers, rest * factor)
    return rest * r**powers


def rewritten(expression: sp.Expr, rule: Callable[[Expectation], sp.Expr]) -> sp.Expr:
    """Every average of an expression, outermost ones only, replaced by what a rule makes of it."""
    if isinstance(expression, Expectation):
        return rule(expression)
    if not expression.args:
        return expression
    return expression.func(*[rewritten(a, rule) for a in expression.args])


def _over_weight(node: Expectation, t: sp.Symbol) -> HalfLine:
    (x,) = node.variables
    factor = node.integrand
    if isinstance(factor, gamma_weight):
        weight, degree = factor.args
    elif isinstance(factor, sp.exp):
        weight, degree = -factor.args[0], sp.Integer(0)
    else:
        raise DerivationError(f"{factor} is not a Laplace factor u**n exp(-u)")
    exponent = sp.expand(sp.expand_log(sp.log(weight / t), force=True))
    slope = exponent.coeff(x, 1)
    if slope == 0 or sp.expand(exponent - slope * x).has(x):
        raise DerivationError(f"{weight} is not {t} times an exponential of {x}")
    u = OWN
    place = sp.expand((sp.log(u) - sp.log(t) - (exponent - slope * x)) / slope)
    if degree == 0:
        return HalfLine(sp.exp(-u) * normal_cdf(place), u)
    return HalfLine(u ** (degree - 1) * sp.exp(-u) * normal_pdf(place) / slope, u)


def over_hidden_field(node: HalfLine, steepness: sp.Expr, fields: tuple[sp.Symbol, sp.Symbol]) -> sp.Expr:
    """The Laplace variable s of the location probabilities as the noisy field of the hidden token.

    ``fields`` names the field of a token (of the noisy one, in the result) and that of a token below it. A half-line
    integral inside that over s becomes the outer one.
    """
    s, inside = node.variable, node.integrand
    if isinstance(inside, HalfLine):
        return HalfLine(over_hidden_field(HalfLine(inside.integrand, s), steepness, fields), inside.variable)
    terms = [collected(term * s, s) for term in sp.Add.make_args(inside)]
    moved = [rewritten(term, lambda average: _beside(average, s, steepness, fields)) for term in terms]
    return Expectation(sp.Add(*moved), [fields[0]])


def _beside(
    node: Expectation, s: sp.Symbol, steepness: sp.Expr, fields: tuple[sp.Symbol, sp.Symbol]
) -> sp.Expr:
    """One-token average with a Laplace factor in s, given the noisy field of the hidden token."""
    x, below = fields
    likelihood = sp.exp(steepness * x)
    factors = sp.Mul.make_args(node.integrand)
    own, wrong = gamma_weight(s * likelihood, 1), sp.exp(-s * likelihood)
    found = [f for f in factors if f in (own, wrong)]
    if len(found) != 1:
        raise DerivationError(f"{node} must have one Laplace factor in {s}")
    rest = sp.Mul(*[f for f in factors if f != found[0]])
    rest = Expectation(rest, [v for v in node.variables if v != x])
    if found[0] == own:
        u, move = OWN, sp.log(OWN) / steepness
        return HalfLine(sp.exp(-u) * sp.exp(-x * move - move**2 / 2) * rest.xreplace({x: x + move}), u)
    if not rest.has(x):
        move = sp.log(OWN) / steepness
        return rest * HalfLine(sp.exp(-OWN) * normal_cdf(x + move), OWN)
    w = EDGE
    far = 1 + w**2  # exp(h)
    move = sp.log(far) / steepness
    above = sp.exp(-far) * (normal_pdf(x) * rest).xreplace({x: x + move})
    under = (1 - sp.exp(-1 / far)) * (normal_pdf(x) * rest).xreplace({x: x - move})
    edge = HalfLine((above - under) * 2 * w / far / steepness, w)
    return TruncatedExpectation(rest.xreplace({x: below}), below, x) + edge
