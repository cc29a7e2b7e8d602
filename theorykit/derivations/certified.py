"""Digits that can be relied on: two runs with grids and precisions of their own must agree in all that are asked for.

The runs differ in the first step and the origin of every grid, and in the digits carried: what cancels between the
terms of an expression, a quadrature that stopped too early, or a range that was cut too short shows as a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mpmath
import sympy as sp

from theorykit.derivations.evaluate import evaluate_all
from theorykit.errors import ConvergenceError, require_integer

__all__ = ["Certified", "certified", "evaluate_certified"]

_ATTEMPTS = 4
_GRIDS = ({"spacing": "0.5", "shift": "0"}, {"spacing": "0.4", "shift": "0.13"})
_GUARD = 10


@dataclass(frozen=True)
class Certified:
    """A value, and how far two independent runs to at least as many digits differ."""

    value: mpmath.mpf
    error: mpmath.mpf


def evaluate_certified(
    expressions: Mapping[str, sp.Expr], values: Mapping[Any, Any], digits: int = 40
) -> dict[str, Certified]:
    """Expressions at one point to ``digits`` digits, each computed twice on grids and at precisions of its own.

    Parameters
    ----------
    expressions : name -> SymPy expression with nodes (no averages over tokens)
    values : symbol (or its name) -> number; strings such as "1/3" are read by mpmath
    digits : int
        Digits of the results, 1 or more.

    Returns
    -------
    dict
        Name -> value and error, the error at most ``10**-digits`` of the value. What cancels to nothing at every
        precision that was tried is 0, with the size of what was left as its error.

    Raises
    ------
    ConvergenceError
        The digits are not reached; ``last`` holds the values of the last two runs.
    DerivationError
        A symbol has no value, or a node has no evaluation at this precision.
    TypeError, ValueError
        ``digits`` is no integer of at least 1.
    """
    digits = require_integer("digits", digits, low=1)

    def run(which: int, carried: int) -> dict[str, mpmath.mpf]:
        return evaluate_all(expressions, values, carried, guard=_GUARD * (1 + which), **_GRIDS[which])

    return certified(run, digits)


def certified(run: Callable[[int, int], Mapping[str, mpmath.mpf]], digits: int) -> dict[str, Certified]:
    """Values of two runs that agree to ``digits`` digits; more digits are carried until they do.

    Parameters
    ----------
    run : function of 0 or 1 (which run) and the number of digits to carry

    Raises
    ------
    ConvergenceError
        The runs do not agree after the digits carried have been raised three times.
    """
    carried = digits + 2
    for _ in range(_ATTEMPTS):
        first, second = run(0, carried), run(1, carried)
        with mpmath.workdps(carried + 10):
            found = {name: _agreed(first[name], second[name], digits, carried) for name in first}
            lost = [name for name, value in found.items() if value is None]
            if not lost:
                return {name: value for name, value in found.items() if value is not None}
            worst = max(lost, key=lambda name: _gap(first[name], second[name]))
            missing = int(mpmath.ceil(digits + mpmath.log10(_gap(first[worst], second[worst]))))
            carried += max(missing, digits // 2) + 5
    raise ConvergenceError(
        f"{worst} not reached to {digits} digits: two evaluations with different grids and precisions give "
        f"{mpmath.nstr(first[worst], 15)} and {mpmath.nstr(second[worst], 15)}, {missing} digits are missing",
        last={name: (first[name], second[name]) for name in lost},
        residual=float(_gap(first[worst], second[worst])),
        steps=_ATTEMPTS,
    )


def _gap(first: mpmath.mpf, second: mpmath.mpf) -> mpmath.mpf:
    """Relative difference of two values that are not both zero."""
    return abs(first - second) / max(abs(first), abs(second))


def _agreed(first: mpmath.mpf, second: mpmath.mpf, digits: int, carried: int) -> Certified | None:
    if not (mpmath.isfinite(first) and mpmath.isfinite(second)):
        raise ConvergenceError(f"not finite: {first} and {second}", last=(first, second))
    error = abs(first - second)
    if error <= abs(second) * mpmath.mpf(10) ** -digits:
        with mpmath.workdps(digits):
            return Certified(+second, +error)
    nothing = mpmath.mpf(10) ** (-carried + 5)
    if carried > 2 * digits and max(abs(first), abs(second)) <= nothing:
        return Certified(mpmath.mpf(0), max(abs(first), abs(second)))
    return None
