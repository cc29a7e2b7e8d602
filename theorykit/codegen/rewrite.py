"""Stable rewrites: small named rules that change how a number is computed, never the number.

==================== ===============================================================================
rule                 rewriting
==================== ===============================================================================
nest_averages        E over several Gaussians -> nested averages, factors moved outwards
stabilize_powers     E[f]**n -> exp(n log1p(-E[1 - f])), 1 - f by expm1
stabilize_functions  log(1 + e**x), 1/(1 + e**-x), 1 - erfc(x)/2, 1 + tanh(x) by named functions
==================== ===============================================================================

Each rule acts on nodes too, and ``tests/codegen/test_rewrite.py`` checks that each preserves values.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from theorykit.codegen.functions import capped, one_minus_exp, sigmoid, softplus, token_power
from theorykit.derivations.gaussian import standardize
from theorykit.derivations.nodes import Expectation, HalfLine, TokenPower, TruncatedExpectation
from theorykit.derivations.special import gamma_weight, normal_cdf

__all__ = [
    "complement",
    "nest_averages",
    "stabilize",
    "stabilize_functions",
    "stabilize_powers",
]


def _bottom_up(expression: sp.Basic, rule: Callable[[sp.Basic], sp.Basic]) -> sp.Basic:
    """Apply a rule to every subexpression, innermost first."""
    if not expression.args or isinstance(expression, sp.Indexed):
        return rule(expression)
    arguments = [_bottom_up(a, rule) for a in expression.args]
    return rule(expression if tuple(arguments) == expression.args else expression.func(*arguments))


def stabilize(expression: sp.Expr) -> sp.Expr:
    """All rewrites in the order in which they build on each other."""
    for rule in (nest_averages, stabilize_powers, stabilize_functions):
        expression = rule(expression)
    return expression


# --------------------------------------------------------------------------- averages


def nest_averages(expression: sp.Expr) -> sp.Expr:
    """Independent standard variables one inside the other; factors free of the inner ones move outwards."""
    return _bottom_up(expression, _nest)


def _nest(node: sp.Basic) -> sp.Basic:
    if not isinstance(node, Expectation):
        return node
    node = standardize(node)
    *outer, last = node.variables
    integrand = sp.expand_power_exp(node.integrand) if outer else node.integrand
    if not outer:
        return node
    inside, outside = sp.Integer(1), sp.Integer(1)
    for factor in sp.Mul.make_args(sp.powsimp(integrand, deep=False, combine="base")):
        if last in factor.free_symbols:
            inside *= factor
        else:
            outside *= factor
    return _nest(Expectation(outside * Expectation(inside, [last]), outer))


# --------------------------------------------------------------------------- powers of averages


def stabilize_powers(expression: sp.Expr) -> sp.Expr:
    """E[f]**n with many tokens through log1p of the complement E[1 - f]."""

    def rule(node: sp.Basic) -> sp.Basic:
        if isinstance(node, TokenPower):
            base, count = node.args
            return token_power(base, complement(base), count)
        return node

    return _bottom_up(expression, rule)


def complement(factor: sp.Expr) -> sp.Expr:
    """1 - factor, without cancellation for averages of decaying exponentials and their products."""
    if isinstance(factor, Expectation):
        return factor.with_integrand(complement(factor.integrand))
    if isinstance(factor, HalfLine) and factor.integrand.has(sp.exp(-factor.variable)):
        density = sp.exp(-factor.variable)  # of an exponential variable
        return factor.with_integrand(density * complement(factor.integrand / density))
    if isinstance(factor, TruncatedExpectation):
        return normal_cdf(-factor.upper) + factor.with_integrand(complement(factor.integrand))
    if isinstance(factor, sp.Add):  # a probability and small corrections to it
        (main,) = [a for a in factor.args if _is_probability(a)] or factor.args[:1]
        return complement(main) - (factor - main)
    if isinstance(factor, sp.exp):
        return one_minus_exp(-factor.args[0])
    if isinstance(factor, normal_cdf):
        return normal_cdf(-factor.args[0])
    if isinstance(factor, sp.Mul):
        first, *rest = factor.args
        remaining = sp.Mul(*rest, evaluate=False) if len(rest) > 1 else rest[0]
        return complement(first) + first * complement(remaining)
    return 1 - factor


def _is_probability(term: sp.Expr) -> bool:
    """Whether a term of a sum is an average of a distribution function, or one below a limit."""
    return isinstance(term, TruncatedExpectation) or (
        isinstance(term, HalfLine)
        and any(isinstance(f, normal_cdf) for f in sp.Mul.make_args(term.integrand))
    )


# --------------------------------------------------------------------------- functions


def stabilize_functions(expression: sp.Expr) -> sp.Expr:
    """Named stable functions for log(1 + e**x), 1/(1 + e**x), u**n e**-u, and for sigmoids as sums."""
    return _bottom_up(expression, _stable_function)


def _stable_function(node: sp.Basic) -> sp.Basic:
    if isinstance(node, sp.log):
        exponent = _exponent(node.args[0] - 1)
        if exponent is not None:
            return softplus(exponent)
    if isinstance(node, sp.Pow) and node.exp.is_Integer and node.exp < 0:
        exponent = _exponent(node.base - 1)
        if exponent is not None:
            return sigmoid(-exponent) ** (-node.exp)
    if isinstance(node, gamma_weight):
        u, degree = node.args
        return capped(u) ** degree * sp.exp(-u)
    if isinstance(node, sp.Add):
        return _stable_sum(node)
    return node


def _exponent(expression: sp.Expr) -> sp.Expr | None:
    """z of e**z, or of a product of such (averages that were nested leave exponentials of sums as products)."""
    factors = sp.Mul.make_args(expression)
    return sp.Add(*[f.args[0] for f in factors]) if all(isinstance(f, sp.exp) for f in factors) else None


def _stable_sum(node: sp.Expr) -> sp.Expr:
    """a + c f(z) that vanishes in a tail, for f = erf, erfc, tanh: one function, accurate there.

    SymPy writes erfc(-z) as 2 - erfc(z), so that a Gaussian distribution function arrives as 1 - erfc(z)/2.
    """
    for term in sp.Add.make_args(node):
        for function in sp.Mul.make_args(term):
            if not isinstance(function, sp.erf | sp.erfc | sp.tanh):
                continue
            rest = sp.Add.make_args(node - term)
            for amount, single in _sigmoids(function, term / function):
                if amount in rest:
                    return _stable_sum(node - term - amount) + single
    return node


def _sigmoids(function: sp.Function, c: sp.Expr) -> list[tuple[sp.Expr, sp.Expr]]:
    """Pairs (a, g): a + c f(z) = g without cancellation."""
    (z,) = function.args
    if isinstance(function, sp.erfc):
        return [(-2 * c, -2 * c * normal_cdf(sp.sqrt(2) * z))]
    if isinstance(function, sp.erf):
        return [(c, 2 * c * normal_cdf(sp.sqrt(2) * z)), (-c, -2 * c * normal_cdf(-sp.sqrt(2) * z))]
    return [(c, 2 * c * sigmoid(2 * z)), (-c, -2 * c * sigmoid(-2 * z))]
