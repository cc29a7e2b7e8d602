"""Where an integrand is not smooth, so that a quadrature can be split there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

import mpmath
import sympy as sp

from theorykit.derivations.skeleton import MP_FUNCTIONS

__all__ = ["KINKED", "kinks"]

KINKED = (sp.Abs, sp.Max, sp.Min, sp.sign, sp.Heaviside, sp.Piecewise)


def kinks(integrand: sp.Expr, variable: sp.Symbol, environment: Mapping[sp.Symbol, Any]) -> list[mpmath.mpf]:
    """Where the integrand is not smooth in the variable: roots of the arguments of abs, max, sign.

    A switch that also depends on an inner variable is smoothed by the inner average and left out.
    """
    found: list[mpmath.mpf] = []
    for atom in integrand.atoms(*KINKED):
        for switch in _switches(atom):
            if variable in switch.free_symbols and switch.free_symbols <= {variable, *environment}:
                symbols = sorted(switch.free_symbols - {variable}, key=str)
                function = sp.lambdify([variable, *symbols], switch, modules=[MP_FUNCTIONS, "mpmath"])
                found += _roots(lambda x, f=function, s=symbols: f(x, *[environment[k] for k in s]))
    return found


def _roots(function: Callable[[mpmath.mpf], mpmath.mpf]) -> list[mpmath.mpf]:
    """Sign changes on [-20, 20], by a scan and bisection to the working precision."""
    found: list[mpmath.mpf] = []
    grid = [mpmath.mpf(k) / 16 + mpmath.mpf(1) / 971 for k in range(-320, 321)]
    values = [function(x) for x in grid]
    for low, high, before, after in zip(grid, grid[1:], values, values[1:], strict=False):
        if before * after < 0:
            for _ in range(int(3.4 * mpmath.mp.dps) + 8):
                middle = (low + high) / 2
                if before * function(middle) <= 0:
                    high = middle
                else:
                    low = middle
            found.append((low + high) / 2)
    return found


def _switches(atom: sp.Expr) -> list[sp.Expr]:
    if isinstance(atom, sp.Max | sp.Min):
        return [first - second for first, second in combinations(atom.args, 2)]
    if isinstance(atom, sp.Piecewise):
        return [c.lhs - c.rhs for _, c in atom.args if isinstance(c, sp.core.relational.Relational)]
    return [atom.args[0]]
