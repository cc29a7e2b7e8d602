r"""Nodes of proximal problems: the least value of a loss plus a penalty, and quantities at the minimizer.

==============  ========================================================================================
node            meaning
==============  ========================================================================================
Moreau          min over the variables of loss + penalty; its derivative is the envelope theorem
AtProximal      a quantity at the minimizer of loss + penalty
==============  ========================================================================================

Variables are symbols, or families ``x[l]`` over tokens. :func:`solve_quadratic` carries the minimum out where loss
and penalty are quadratic; the numerical value of one convex variable is found by bisection of the slope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import sympy as sp
from sympy.core.containers import Tuple
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE

from theorykit.derivations.nodes import Node
from theorykit.errors import DerivationError

__all__ = ["AtProximal", "Moreau", "bisect_slope", "solve_quadratic"]

_DOUBLINGS, _HALVINGS = 60, 80


class _Proximal(Node):
    """What both nodes share: loss, penalty and the variables, which are bound."""

    precedence = PRECEDENCE["Mul"]

    @property
    def loss(self) -> sp.Expr:
        raise NotImplementedError

    @property
    def penalty(self) -> sp.Expr:
        raise NotImplementedError

    @property
    def objective(self) -> sp.Expr:
        return self.loss + self.penalty

    @property
    def variables(self) -> Tuple:
        return self.args[-1]

    @property
    def bound_symbols(self) -> list[sp.Basic]:
        return list(self.variables)

    def places(self) -> list[sp.Expr]:
        """The variables that occur: symbols, and members of families, in a fixed order."""
        found = [v for v in self.variables if isinstance(v, sp.Symbol)]
        families = [v for v in self.variables if isinstance(v, sp.IndexedBase)]
        members = [i for i in self.objective.atoms(sp.Indexed) if i.base in families]
        return [*found, *sorted(members, key=sp.default_sort_key)]

    def _names(self, printer: LatexPrinter) -> str:
        return ",".join(printer._print(v) for v in self.variables)


class Moreau(_Proximal):
    r""":math:`\min_x[\text{loss}(x)+\text{penalty}(x)]`."""

    def __new__(cls, loss: object, penalty: object, variables: Iterable[sp.Basic]) -> Moreau:
        return sp.Expr.__new__(cls, sp.sympify(loss), sp.sympify(penalty), Tuple(*variables))

    @property
    def loss(self) -> sp.Expr:
        return self.args[0]

    @property
    def penalty(self) -> sp.Expr:
        return self.args[1]

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        """Envelope theorem: the minimizer does not move to first order."""
        slope = sp.diff(self.loss, symbol) + sp.diff(self.penalty, symbol)
        return AtProximal(slope, self.loss, self.penalty, self.variables)

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        inner = printer.parenthesize(self.objective, PRECEDENCE["Mul"], strict=True)
        body = rf"\min_{{{self._names(printer)}}} {inner}"
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"


class AtProximal(_Proximal):
    """``quantity`` at the minimizer of loss + penalty; quantities without variables stand outside."""

    def __new__(
        cls, quantity: object, loss: object, penalty: object, variables: Iterable[sp.Basic]
    ) -> sp.Expr:
        quantity, names = sp.sympify(quantity), Tuple(*variables)
        if quantity.is_number:
            return quantity
        return sp.Expr.__new__(cls, quantity, sp.sympify(loss), sp.sympify(penalty), names)

    @property
    def quantity(self) -> sp.Expr:
        return self.args[0]

    @property
    def loss(self) -> sp.Expr:
        return self.args[1]

    @property
    def penalty(self) -> sp.Expr:
        return self.args[2]

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        raise NotImplementedError("the derivative of a minimizer is not part of the language")

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        inner = printer._print(self.quantity)
        place = rf"\arg\min_{{{self._names(printer)}}}\left\{{{printer._print(self.objective)}\right\}}"
        body = rf"\left[{inner}\right]\ \text{{at}}\ {place}"
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"


def solve_quadratic(node: Moreau | AtProximal) -> sp.Expr:
    """The node with its minimum carried out, by the linear equations of a quadratic objective.

    Raises
    ------
    DerivationError
        the objective is not quadratic in the variables, or has no unique minimizer.
    """
    places = node.places()
    stand_ins = {p: sp.Symbol(f"_x{i}", real=True) for i, p in enumerate(places)}
    unknowns = list(stand_ins.values())
    objective = sp.expand(node.objective).xreplace(stand_ins)
    try:
        degree = sp.Poly(objective, *unknowns).total_degree()
    except sp.PolynomialError as error:
        raise DerivationError(f"not quadratic in {places}: {objective}") from error
    if degree != 2:
        raise DerivationError(f"not quadratic in {places}: {objective}")
    found = sp.linsolve([sp.diff(objective, u) for u in unknowns], unknowns)
    (values,) = found or [None]
    if values is None or set().union(*[v.free_symbols for v in values]) & set(unknowns):
        raise DerivationError(f"{objective} has no unique minimizer")
    quantity = node.quantity if isinstance(node, AtProximal) else node.objective
    return quantity.xreplace(stand_ins).xreplace(dict(zip(unknowns, values, strict=True)))


def bisect_slope(slope: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Minimizers of convex functions of one variable, from their slopes; kinks are found like smooth minima.

    Raises
    ------
    DerivationError
        a slope does not change sign: no minimum, or one beyond 1e18.
    """
    low, high = -np.ones(shape), np.ones(shape)
    for _ in range(_DOUBLINGS):
        too_high, too_low = slope(low) > 0, slope(high) < 0
        if not (too_high.any() or too_low.any()):
            break
        low, high = np.where(too_high, 2 * low, low), np.where(too_low, 2 * high, high)
    else:
        raise DerivationError("the objective of a proximal problem has no minimum within 1e18")
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        above = slope(middle) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return 0.5 * (low + high)
