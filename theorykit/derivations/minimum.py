r"""Minima inside derivations: an inert node and the two ways in which steps about it are checked.

``AtMinimum(quantity, objective, variables)`` is the value of a quantity where the objective is least;
``minimum(objective, variables)`` the least value itself. Variables are symbols, or an applied function S(x)
where the objective is an average over x of an expression in S(x) and the minimum is over all functions S.

============  ==========================================================================================
check         what a step claims
============  ==========================================================================================
pointwise     the objective is rewritten, as a function of its variables: both sides agree at any point
numerically   the minimum is carried out: one side by a closed form, the other by brute-force search
============  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import mpmath
import numpy as np
import sympy as sp
from sympy.core.containers import Tuple
from sympy.core.function import AppliedUndef
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE

from theorykit.derivations.nodes import Expectation
from theorykit.derivations.special import normal_cdf
from theorykit.errors import DerivationError

__all__ = ["AtMinimum", "minimum", "numerically", "pointwise"]

Concrete = Callable[[sp.Expr, int], sp.Expr]
_DIGITS = 40


class AtMinimum(sp.Expr):
    """``quantity`` at the values of ``variables`` where ``objective`` is least."""

    is_commutative = True
    precedence = PRECEDENCE["Mul"]

    def __new__(cls, quantity: object, objective: object, variables: Iterable[sp.Expr]) -> AtMinimum:
        return sp.Expr.__new__(cls, sp.sympify(quantity), sp.sympify(objective), Tuple(*variables))

    @property
    def quantity(self) -> sp.Expr:
        return self.args[0]

    @property
    def objective(self) -> sp.Expr:
        return self.args[1]

    @property
    def variables(self) -> Tuple:
        return self.args[2]

    @property
    def free_symbols(self) -> set[sp.Basic]:
        inner = self.quantity.free_symbols | self.objective.free_symbols
        return inner - {v for v in self.variables if v.is_Symbol}

    def _eval_subs(self, old: sp.Basic, new: sp.Basic) -> sp.Expr | None:
        return self if old in self.variables else None

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        names = ",".join(printer._print(v.func if isinstance(v, AppliedUndef) else v) for v in self.variables)
        inner = printer.parenthesize(self.objective, PRECEDENCE["Mul"], strict=True)
        if self.quantity == self.objective:
            body = rf"\min_{{{names}}} {inner}"
        else:
            place = rf"\ \text{{at}}\ \arg\min_{{{names}}} {inner}"
            body = rf"\left[{printer._print(self.quantity)}\right]{place}"
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"


def minimum(objective: sp.Expr, variables: Iterable[sp.Expr]) -> AtMinimum:
    """The least value of an objective."""
    return AtMinimum(objective, objective, variables)


def pointwise(concrete: Concrete | None = None) -> Concrete:
    """Check a step that rewrites quantity and objective: at any values of the variables.

    Two functions that agree everywhere have the same minimum. The sides are compared as quantity plus an
    irrational multiple of the objective; ``concrete`` then replaces abstract parts.
    """

    def opened(expression: sp.Expr, length: int) -> sp.Expr:
        both = expression.replace(AtMinimum, lambda q, f, _: q + sp.sqrt(2) * f)
        return both if concrete is None else concrete(both, length)

    return opened


def numerically(*points: Mapping[str, Any], concrete: Concrete | None = None) -> Concrete:
    """Check a step that carries a minimum out: by search, at the point with the length that is asked for."""

    def searched(expression: sp.Expr, length: int) -> sp.Expr:
        (point,) = [p for p in points if int(p["L"]) == length]
        plain = expression if concrete is None else concrete(expression, length)
        return plain.replace(lambda e: isinstance(e, AtMinimum), lambda e: _search(e, point))

    return searched


def _search(node: AtMinimum, point: Mapping[str, Any]) -> sp.Float:
    bound = {v for v in node.variables if v.is_Symbol}
    quantity, objective = (_inserted(e, bound, point) for e in (node.quantity, node.objective))
    if isinstance(node.variables[0], AppliedUndef):
        return _over_functions(quantity, objective, node.variables[0], point)
    return _over_numbers(quantity, objective, list(node.variables))


def _inserted(expression: sp.Expr, bound: set[sp.Basic], point: Mapping[str, Any]) -> sp.Expr:
    """The expression at the parameters of a point; variables bound by averages are no parameters."""
    free = {s for s in expression.free_symbols - bound if s.name in point}
    return expression.xreplace({s: sp.Rational(point[s.name]) for s in free})


def _over_numbers(quantity: sp.Expr, objective: sp.Expr, variables: list[sp.Symbol]) -> sp.Float:
    """Descent from several starts in double precision, the best one polished by Newton's method in mpmath."""
    from scipy.optimize import minimize

    rough = sp.lambdify(variables, objective, "numpy")
    starts = [[sign * (0.7 - 0.2 * i) for i in range(len(variables))] for sign in (1, -1)]
    starts.append([(-1) ** i * 0.6 for i in range(len(variables))])
    found = [minimize(lambda v: float(rough(*v)), start, method="BFGS") for start in starts]
    best = min(found, key=lambda r: r.fun)
    with mpmath.workdps(_DIGITS + 10):
        slopes = [sp.lambdify(variables, sp.diff(objective, v), "mpmath") for v in variables]
        root = mpmath.findroot(lambda *v: [s(*v) for s in slopes], [mpmath.mpf(x) for x in best.x])
        value = sp.lambdify(variables, quantity, "mpmath")(*root)
        least = sp.lambdify(variables, objective, "mpmath")(*root)
        if least > best.fun + 1e-9:
            raise DerivationError(f"the stationary point {root} of {objective} is not its minimum")
        return sp.Float(value, _DIGITS)


def _over_functions(
    quantity: sp.Expr, objective: sp.Expr, function: sp.Expr, point: Mapping[str, Any]
) -> sp.Float:
    """Minimum over functions of an average over one variable: point by point, each by a parabola."""
    if not (isinstance(objective, Expectation) and len(objective.variables) == 1):
        raise DerivationError(f"a minimum over functions needs an average over one variable, got {objective}")
    (x,) = objective.variables
    s = sp.Symbol("_value")
    plain = objective.integrand.xreplace({function.func(x): s})
    if plain.has(function.func):
        raise DerivationError(f"the average must depend on {function.func} at {x} only, got {objective}")
    plain = plain.replace(normal_cdf, lambda u: sp.erfc(-u / sp.sqrt(2)) / 2)
    integrand = sp.lambdify([x, s], plain, ["scipy", "numpy"])
    if quantity == objective:
        nodes = np.linspace(-12.0, 12.0, 4001)
        least = integrand(nodes, _vertex(integrand, nodes))
        density = np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)
        return sp.Float(float(np.sum(density * least) * (nodes[1] - nodes[0])), 17)
    where = sp.Rational(point[function.args[0].name])
    at = _vertex(integrand, np.array([float(where)]))[0]
    return sp.Float(float(quantity.xreplace({function.func(where): sp.Float(at, 17)})), 17)


def _vertex(integrand: Callable[..., np.ndarray], nodes: np.ndarray) -> np.ndarray:
    """Where a parabola through three values is least, checked to be a minimum on both sides."""
    below, here, above = (integrand(nodes, np.full_like(nodes, s)) for s in (-1.0, 0.0, 1.0))
    at = (below - above) / (2 * (below - 2 * here + above))
    least = integrand(nodes, at)
    for step in (-0.05, 0.05):
        if not np.all(integrand(nodes, at + step) > least):
            raise DerivationError("the objective is not least where its parabola is")
    return at
