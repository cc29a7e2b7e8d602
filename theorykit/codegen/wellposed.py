"""What must hold before a plan is written as code: distinct, harmless names and nothing that has no code."""

from __future__ import annotations

import re
from collections import Counter

import sympy as sp

from theorykit.codegen.lower import Plan
from theorykit.codegen.printer import require_code
from theorykit.errors import CodegenError

__all__ = ["require_writable"]

_IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def require_writable(plan: Plan) -> None:
    """Raise CodegenError, naming the equation, unless every name and every expression of a plan can be written."""
    _require_names(plan)
    _require_code(plan)


def _require_names(plan: Plan) -> None:
    """Variables are called by their names in the code; parameters and tables are not, but must be distinct."""
    for variable in plan.variables:
        if not _IDENTIFIER.fullmatch(variable.name):
            raise CodegenError(
                f"{plan.name}: the bound variable {variable.name!r} cannot be named in generated code; "
                "use ASCII letters, digits and underscores"
            )
    made = [v.symbol for v in plan.variables if v.measure in ("half_line", "exponential")]
    made += [o.symbol for s in plan.stages for o in s.outputs]
    for what, names in (
        ("bound variables are", [v.name for v in plan.variables]),
        ("parameters are", [p.name for p in plan.parameters]),
        ("symbols of the code are", [*plan.parameters, *made]),
    ):
        twice = [str(name) for name, count in Counter(names).items() if count > 1]
        if twice:
            raise CodegenError(f"{plan.name}: two {what} called {twice[0]!r}; rename one")


def _require_code(plan: Plan) -> None:
    """Every expression can be written; an error says which equation it belongs to."""
    equations = [(", ".join(_served(plan, o.symbol)), o.integrand) for s in plan.stages for o in s.outputs]
    equations += plan.observables.items()
    equations += [(f"breakpoint of {v.name}", b) for v in plan.variables for b in v.breakpoints]
    for label, expression in equations:
        try:
            require_code(expression)
        except CodegenError as error:
            raise CodegenError(f"{plan.name}, {label}: {error}") from error


def _served(plan: Plan, table: sp.Symbol) -> list[str]:
    """The observables that need a table."""
    wanted = {table}
    for stage in plan.stages:
        wanted |= {o.symbol for o in stage.outputs if o.integrand.free_symbols & wanted}
    return [name for name, expression in plan.observables.items() if expression.free_symbols & wanted]
