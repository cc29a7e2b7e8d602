"""A user's formula and its slope inside a template: the module of a compiled loop that needs both.

Input: a formula and the text of functions that call ``value(x)`` and ``slope(x)``. The derivative is taken by SymPy
here, where no module answers the request already.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from theorykit.codegen import _find

if TYPE_CHECKING:
    from theorykit.codegen.program import Program
    from theorykit.formula import Formula

__all__ = ["load_with_formula"]


def load_with_formula(formula: Formula, template: str) -> Program:
    """The functions of a template, compiled together with a formula and its first derivative."""

    def source() -> str:
        import sympy as sp

        from theorykit.codegen.emit import join_module, primitive_sources
        from theorykit.codegen.proximal import ScalarFunctions

        x = sp.Symbol("x", real=True)
        expression = formula.to_sympy(x)
        functions = ScalarFunctions(())
        functions.add("value(x)", {x: "x"}, [expression])
        # at a kink (relu, max, min) either side's slope will do: that of the right
        slope = sp.diff(expression, x).replace(
            sp.Heaviside, lambda side, *_: sp.Piecewise((0, side < 0), (1, True))
        )
        functions.add("slope(x)", {x: "x"}, [slope])
        layout = {"name": formula.text, "parameters": [], "observables": [], "stages": []}
        parts = [
            *primitive_sources(functions.used),
            *functions.functions,
            template.strip(),
            f"LAYOUT = {layout!r}",
        ]
        return join_module(f"Loops with the formula {formula.text}.", parts)

    return _find(("formula", formula.text, hashlib.sha256(template.encode()).hexdigest()), source)
