"""Whether an expression is zero, by bounded and named rewritings: what a proved step relies on.

An expression that is not zero is never reduced to zero: every rewriting keeps the value. The converse may
fail, so "not reduced" is no refutation. Nothing here searches: each rewriting is applied once, to expressions
of bounded size, and ``sympy.simplify`` is used below ``SIMPLIFY_OPERATIONS`` operations only, because it can
run forever.

``canonical`` is the normal form of expressions with averages: bound variables renamed by depth, averages,
integrals and sums distributed over the terms of their integrands, constants in front of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import sympy as sp
from sympy.core.containers import Tuple

from theorykit.derivations.nodes import Expectation, Node
from theorykit.derivations.special import normal_cdf

__all__ = ["MOST_OPERATIONS", "SIMPLIFY_OPERATIONS", "canonical", "reduces_to_zero"]

MOST_OPERATIONS = 4000
SIMPLIFY_OPERATIONS = 80


def reduces_to_zero(expression: sp.Expr) -> str | None:
    """Name of the first rewriting that reduces an expression to zero; None where none of them does.

    Raises
    ------
    ValueError
        the expression has more than ``MOST_OPERATIONS`` operations.
    """
    if expression == 0:
        return "structural equality"
    size = int(sp.count_ops(expression))
    if size > MOST_OPERATIONS:
        raise ValueError(f"an expression of {size} operations is not reduced (at most {MOST_OPERATIONS})")
    for name, rewrite in _REWRITES.items():
        if _vanishes(rewrite(expression)):
            return name
    is_small = size <= SIMPLIFY_OPERATIONS and not expression.has(Node)
    return "simplification" if is_small and sp.simplify(expression) == 0 else None


def _special_functions(expression: sp.Expr) -> sp.Expr:
    in_erf = expression.replace(normal_cdf, lambda a: (1 + sp.erf(a / sp.sqrt(2))) / 2).rewrite(sp.erf)
    return sp.expand_func(in_erf)


def _moments(expression: sp.Expr) -> sp.Expr:
    """Gaussian averages of monomials, by repeated integration by parts."""
    return canonical(expression).replace(lambda e: isinstance(e, Expectation), _moment)


def _moment(node: Expectation) -> sp.Expr:
    powers = node.integrand.as_powers_dict()
    variables = list(node.variables)
    if any(b not in variables or not (e.is_Integer and 0 < e <= 24) for b, e in powers.items()):
        return node
    order = tuple(int(powers.get(v, 0)) for v in variables)
    return _by_parts(order, node.covariance)


@cache
def _by_parts(order: tuple[int, ...], covariance: sp.ImmutableDenseMatrix) -> sp.Expr:
    """E[x_i g] = sum_j C_ij E[d_j g] for the monomial with these powers."""
    if not any(order):
        return sp.Integer(1)
    first = next(i for i, power in enumerate(order) if power)
    rest = [power - (i == first) for i, power in enumerate(order)]
    total = sp.Integer(0)
    for other, power in enumerate(rest):
        if power:
            lowered = tuple(p - (i == other) for i, p in enumerate(rest))
            total += covariance[first, other] * power * _by_parts(lowered, covariance)
    return sp.expand(total)


_REWRITES: dict[str, Callable[[sp.Expr], sp.Expr]] = {
    "expansion": lambda e: e,
    "Gaussian moments": _moments,
    "powers": lambda e: sp.powsimp(sp.expand(e)),
    "exponentials": lambda e: sp.powsimp(sp.expand(e.rewrite(sp.exp))),
    "logarithms": lambda e: sp.expand_log(sp.expand(e)),
    "special functions": _special_functions,
    "gamma functions": lambda e: sp.gammasimp(sp.expand(e)) if e.has(sp.gamma, sp.factorial) else e,
}


def _vanishes(expression: sp.Expr) -> bool:
    """Whether expansion, linearity of the averages and common denominators leave nothing."""
    expression = canonical(expression)
    if expression != 0 and expression.has(Node):
        expression = canonical(_merged(expression))
    return expression == 0 or sp.expand(sp.fraction(sp.together(expression))[0]) == 0


def _merged(expression: sp.Expr) -> sp.Expr:
    """A sum of averages as one average per law, its integrand over a common denominator and cancelled."""
    groups: dict[tuple[object, ...], sp.Expr] = {}
    rest = sp.Integer(0)
    for term in sp.Add.make_args(expression):
        factors = sp.Mul.make_args(term)
        nodes = sorted((f for f in factors if isinstance(f, Node)), key=sp.default_sort_key)
        plain = sp.Mul(*[f for f in factors if not isinstance(f, Node)])
        if nodes:
            hidden, coefficient = _separate_hidden(plain)
            others = hidden * sp.Mul(*nodes[:-1])
            key = (nodes[-1].func, nodes[-1].args[1:], others)
            groups[key] = groups.get(key, sp.Integer(0)) + coefficient * nodes[-1].integrand
        else:
            rest += plain
    parts = [rest]
    for (node, binding, others), integrand in groups.items():
        if integrand.has(Node):
            integrand = _merged(canonical(integrand))
        parts.append(others * node(_cancelled(integrand), *binding))
    return sp.Add(*parts)


def _cancelled(integrand: sp.Expr) -> sp.Expr:
    together = sp.together(integrand)
    try:
        return sp.cancel(together)
    except sp.PolynomialError:  # a Piecewise, or something else that is no rational function of anything
        return together


def _separate_hidden(product: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Factors with a node inside a power or a function, and the others."""
    factors = sp.Mul.make_args(product)
    return sp.Mul(*[f for f in factors if f.has(Node)]), sp.Mul(*[f for f in factors if not f.has(Node)])


def canonical(expression: sp.Expr) -> sp.Expr:
    """Normal form by expansion, renaming of bound variables and linearity of averages, integrals and sums.

    Notes
    -----
    Splitting an integral is formal: the pieces may diverge one by one. Where two sides have the same normal
    form their integrands agree term by term, which is what an equality of integrals needs.
    """
    expression = sp.sympify(expression)
    for _ in range(6):  # an average that was moved in front of another one is renamed in the next round
        previous, expression = expression, _canonical(expression, 0)
        if expression == previous:
            break
    return expression


def _canonical(expression: sp.Basic, depth: int) -> sp.Basic:
    if isinstance(expression, Node):
        return _distribute(_renamed(expression, depth), depth)
    if not expression.args or not expression.has(Node):
        return sp.expand(expression) if isinstance(expression, sp.Expr) else expression
    rebuilt = expression.func(*[_canonical(a, depth) for a in expression.args])
    return sp.expand(rebuilt, deep=False) if isinstance(rebuilt, sp.Expr) else rebuilt


def _renamed(node: Node, depth: int) -> Node:
    """Bound variables called by their depth: averages that differ in names only become equal."""
    renaming: dict[sp.Basic, sp.Basic] = {}
    for position, symbol in enumerate(node.bound_symbols):
        name = f"bound_{depth}_{position}"
        if isinstance(symbol, sp.IndexedBase):
            renaming[symbol] = sp.IndexedBase(name)
        else:
            assumptions = {"integer": True, "positive": True} if symbol.is_integer else {"real": True}
            if symbol.is_positive:
                assumptions["positive"] = True
            renaming[symbol] = sp.Symbol(name, **assumptions)
    return node.func(*[a.xreplace(renaming) for a in node.args])


def _distribute(node: sp.Expr, depth: int) -> sp.Expr:
    """Sum over the terms of the integrand, constants in front."""
    if not isinstance(node, Node):
        return _canonical(node, depth)
    rest = [a if isinstance(a, Tuple) else _expanded(a) for a in node.args[1:]]
    bound = set(node.bound_symbols)
    total = sp.Integer(0)
    for term in sp.Add.make_args(_canonical(node.integrand, depth + 1)):
        inside, outside = sp.Integer(1), sp.Integer(1)
        for factor in sp.Mul.make_args(term):
            if _depends(factor, bound):
                inside *= factor
            else:
                outside *= factor
        total += outside * node.func(inside, *rest)
    return sp.expand(total, deep=False)


def _expanded(argument: sp.Basic) -> sp.Basic:
    if isinstance(argument, sp.MatrixBase):
        return sp.ImmutableDenseMatrix(argument.applyfunc(sp.expand))
    return sp.expand(argument) if isinstance(argument, sp.Expr) else argument


def _depends(factor: sp.Expr, bound: set[sp.Basic]) -> bool:
    families = {b for b in bound if isinstance(b, sp.IndexedBase)}
    if any(i.base in families for i in factor.atoms(sp.Indexed)):
        return True
    if any(f in families for f in factor.atoms(sp.IndexedBase)):
        return True
    return bool(factor.free_symbols & bound)
