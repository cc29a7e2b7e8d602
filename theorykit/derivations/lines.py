"""Integrals over the whole line by the trapezoid rule, halved until the digits are there.

For an integrand that is analytic in a strip the error falls exponentially in the number of points, so that every
halving doubles the digits. How fast it really falls is seen in the last three values, and the error of the finest
one is judged from that: an integrand with a kink, whose error falls by a constant factor, is refused, not believed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mpmath

from theorykit.errors import ConvergenceError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FINEST", "MAX_HALVINGS", "Line", "integrate_line", "refined"]

#: Positions on a line are counted in units of ``step / 2**FINEST``: integers, equal where the places are.
FINEST = 64
MAX_HALVINGS = 11
_QUIET = 6  # negligible terms in a row that end a sum; fewer on coarse grids, down to two
_LEAST = 4  # and the distance from the centre that it covers at least


@dataclass
class Line:
    """The grid of one variable of integration, and where the evaluation stands on it.

    ``logarithm`` says that the coordinate is the logarithm of the variable (half-line integrals).
    """

    origin: mpmath.mpf
    step: mpmath.mpf
    logarithm: bool = False
    index: int = 0

    def place(self, index: int) -> mpmath.mpf:
        """Coordinate of a position."""
        return self.origin + mpmath.ldexp(self.step * index, -FINEST)

    @contextmanager
    def standing_in(self, lines: dict, variable: object) -> Iterator[None]:
        """While a variable is integrated, those who evaluate the integrand find its grid in ``lines``."""
        before = lines.get(variable)
        lines[variable] = self
        try:
            yield
        finally:
            if before is None:
                del lines[variable]
            else:
                lines[variable] = before


def integrate_line(
    term: Callable[[mpmath.mpf], mpmath.mpf], line: Line, digits: int, centre: int = 0
) -> mpmath.mpf:
    """Integral of ``term`` over a coordinate that runs over the whole line; ``line.index`` follows the sum.

    ``centre`` counts coarse steps from the origin to where the sums begin.

    Raises
    ------
    ConvergenceError
        The rule does not reach the digits.
    """

    def at(index: int) -> mpmath.mpf:
        line.index = index
        return term(line.place(index))

    def sweep(level: int) -> tuple[mpmath.mpf, mpmath.mpf]:
        spacing = 1 << (FINEST - level + (level > 0))
        start = (centre << FINEST) + (spacing >> 1 if level else 0)
        return _swept(at, start, spacing, line.step, digits)

    return refined(sweep, line.step, digits)


def _swept(
    at: Callable[[int], mpmath.mpf], start: int, spacing: int, step: mpmath.mpf, digits: int
) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Sum of the terms at ``start + k * spacing``, and the largest of them."""
    floor = mpmath.mpf(10) ** (-digits - 6)
    width = mpmath.ldexp(step * spacing, -FINEST)
    least = max(1, int(mpmath.ceil(_LEAST / width)))
    needed = max(2, min(_QUIET, int(mpmath.ceil(_LEAST / width))))
    total, largest = mpmath.mpf(0), mpmath.mpf(0)
    for direction in (1, -1):
        quiet, k = 0, 0 if direction == 1 else 1
        while quiet < needed or k < least:
            value = at(start + direction * k * spacing)
            total += value
            size = abs(value)
            largest = max(largest, size)
            quiet = quiet + 1 if size <= floor * largest else 0
            k += 1
    return total, largest


def refined(
    sweep: Callable[[int], tuple[mpmath.mpf, mpmath.mpf]], step: mpmath.mpf, digits: int
) -> mpmath.mpf:
    """Trapezoid values of halved steps, until the error estimated from the last three is small enough.

    Parameters
    ----------
    sweep : function of the level
        Sum and largest size of the terms that the level adds to those before.
    step : mpf
        Step of level 0.
    digits : int
        Digits of the result that are asked for.

    Notes
    -----
    After gaps g' and then g between successive values the error of the last one is taken to be g g/g': true if the
    gaps go on falling at least that fast, and larger than what an analytic integrand leaves, a exp(-c/step) with the
    gaps a q and a q**2 and the error a q**4. One gap alone says nothing, the amplitude a being unknown. Where terms
    cancel, an error three digits above the rounding of the terms is the most that can be reached, and accepted.
    """
    total, largest = sweep(0)
    value = total * step
    previous = mpmath.inf
    target = mpmath.mpf(10) ** (-digits - 2)
    rounding = mpmath.mpf(10) ** (3 - mpmath.mp.dps)
    for level in range(1, MAX_HALVINGS + 1):
        more, size = sweep(level)
        total, largest, step = total + more, max(largest, size), step / 2
        finer = total * step
        gap = abs(finer - value)
        error = gap * gap / previous if gap < previous < mpmath.inf else gap
        if error <= max(target * abs(finer), rounding * largest):
            return finer
        value, previous = finer, gap
    raise ConvergenceError(
        f"trapezoid rule did not reach {digits} digits: two steps still differ by {mpmath.nstr(gap, 3)} of "
        f"{mpmath.nstr(finer, 6)} after {MAX_HALVINGS} halvings; the integrand is not smooth or too steep there",
        last=finer,
        residual=float(gap),
        steps=MAX_HALVINGS,
    )
