"""Records of self-consistent equations: unknowns, the branch that is meant, derivatives of the unknowns.

An unknown stands on both sides of its equation, so it is never replaced by it; the record says where the wanted
solution begins (``start``, exact where the ``path`` parameter is infinite) and which equations are those of the
derivatives of the unknowns (linear in them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy as sp

from theorykit.derivations.ledger import Equations
from theorykit.derivations.matrices import total_derivative
from theorykit.errors import DerivationError

__all__ = ["FixedPoint", "implicit_rates"]


@dataclass(frozen=True)
class FixedPoint(Equations):
    """Equations whose ``unknowns`` are solved for; every other equation is explicit.

    Attributes
    ----------
    start : unknown -> its value where the path begins
    rates : unknown -> symbol of its derivative, whose equation is linear in the rates
    path : parameter whose infinite value makes ``start`` exact; None: no path is known
    matrices : symmetric matrices of unknowns (or zeros), positive in the imaginary part on the branch
    """

    start: Mapping[sp.Symbol, sp.Expr] = field(default_factory=dict)
    rates: Mapping[sp.Symbol, sp.Symbol] = field(default_factory=dict)
    path: sp.Symbol | None = None
    matrices: tuple[sp.ImmutableDenseMatrix, ...] = ()

    @property
    def unknowns(self) -> tuple[sp.Symbol, ...]:
        return tuple(self.start)

    @property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        free = {s for s in super().parameters}
        for expression in self.start.values():
            free |= expression.free_symbols
        return tuple(sorted(free - set(self.equations), key=lambda s: s.name))

    def closed(self, expression: sp.Expr) -> sp.Expr:
        """The expression with every explicit symbol replaced by what it stands for; unknowns and rates stay."""
        solved = {*self.unknowns, *self.rates.values()}
        explicit = {s: e for s, e in self.equations.items() if s not in solved}
        for _ in range(len(explicit) + 1):
            inside = expression.free_symbols & set(explicit)
            if not inside:
                return expression
            expression = expression.xreplace({s: explicit[s] for s in inside})
        raise DerivationError(f"the explicit equations of {self.name} refer to each other in a circle")

    def tangent(self) -> tuple[dict[sp.Symbol, sp.Symbol], dict[sp.Symbol, sp.Expr]]:
        """Directions of the unknowns, and the derivative of every right side along them."""
        along = {u: sp.Symbol(f"d_{u.name}") for u in self.unknowns}
        return along, {u: total_derivative(self.closed(self.equations[u]), along) for u in self.unknowns}

    def evaluate(self, values: Mapping[str, Any], digits: int = 40) -> dict[str, Any]:
        """All observables at ``values`` to ``digits`` digits: the equations are solved along the path."""
        from theorykit.derivations.solve import evaluate_fixed_point

        return evaluate_fixed_point(self, values, digits)


def implicit_rates(
    equations: Mapping[sp.Symbol, sp.Expr], parameter: sp.Symbol, names: Mapping[sp.Symbol, sp.Symbol]
) -> dict[sp.Symbol, sp.Expr]:
    """Equations of the derivatives of the unknowns with respect to a parameter, by implicit differentiation.

    ``names`` gives the symbol of the derivative of each unknown.
    """
    rates = {**names, parameter: sp.Integer(1)}
    return {names[u]: total_derivative(e, rates) for u, e in equations.items()}
