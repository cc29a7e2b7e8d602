r"""Inner integrals at all outer points from two tables: :math:`\int b(y)\,g(s+ry)\,dy` on grids of ratio r.

What costs time at 40 digits is the functions, not the products. The factors b and g are tabulated where they are
first needed and a value of the integral is a sum of products of table entries, finer and finer until its digits are
there (:mod:`theorykit.derivations.lines`). The products are those of integers, the entries in fixed point; where
that leaves too few digits of a value, it is computed again in floating point. Ranges are judged from the terms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import numpy as np
from mpmath.libmp import mpf_mul, mpf_sum

from theorykit.derivations.lines import FINEST, Line, refined

__all__ = ["Convolution", "Still", "Table"]

_QUIET = 6
_LEAST = 4


class _TooWide(Exception):
    """Fixed point does not hold the digits of a value."""


class Table(dict):
    """Values of a function at integers, computed when they are first asked for (in mpmath's inner form)."""

    def __init__(self, function: Callable[[int], mpmath.mpf]) -> None:
        super().__init__()
        self.function = function
        self.rows: dict[tuple[int, int, int], _Row] = {}

    def __missing__(self, index: int) -> tuple:
        value = self[index] = mpmath.mpmathify(self.function(index))._mpf_
        return value

    def row(self, first: int, stride: int, bits: int) -> _Row:
        """Entries ``first + k * stride`` in fixed point."""
        key = first, stride, bits
        if key not in self.rows:
            self.rows[key] = _Row(self, *key)
        return self.rows[key]


class _Row:
    """Entries of a table along an arithmetic progression as integers times ``2**-bits``; it grows as asked."""

    def __init__(self, table: Table, first: int, stride: int, bits: int) -> None:
        self.table, self.first, self.stride, self.bits = table, first, stride, bits
        self.low = 0
        self.entries = np.empty(0, dtype=object)

    def between(self, low: int, high: int) -> np.ndarray:
        """Entries number ``low`` to ``high - 1``."""
        if not self.entries.size:
            self.low = low
        end = self.low + self.entries.size
        if low < self.low:
            self.entries = np.concatenate([self._fresh(low, self.low), self.entries])
            self.low = low
        if high > end:
            self.entries = np.concatenate([self.entries, self._fresh(end, high)])
        return self.entries[low - self.low : high - self.low]

    def _fresh(self, low: int, high: int) -> np.ndarray:
        made = np.empty(high - low, dtype=object)
        made[:] = [self._fixed(self.table[self.first + self.stride * k]) for k in range(low, high)]
        return made

    def _fixed(self, entry: tuple) -> int:
        sign, digits, exponent, _ = entry
        shift = exponent + self.bits
        if (not digits and exponent) or shift > 4 * self.bits:
            raise _TooWide
        value = digits << shift if shift >= 0 else digits >> -shift
        return -value if sign else value


@dataclass(frozen=True)
class Still:
    """The same where r is zero: the integral of the factor of y, times the other factor at s."""

    own: mpmath.mpf
    moving: Callable[[mpmath.mpf], mpmath.mpf]
    outer: Line

    def at(self, position: int) -> mpmath.mpf:
        """The integral where s is at a position of the outer line."""
        return self.own * self.moving(self.outer.place(position))


class Convolution:
    """The integral over y of ``own(y) * moving(s + ratio * y)``, for s on a line.

    Parameters
    ----------
    own : values at the positions of ``grid``, without the step
    moving : function of the place s + ratio * y
    outer : the grid of s
    grid : the grid of y, from :meth:`grid`
    ratio : r, not zero
    digits : digits of a value
    """

    def __init__(
        self,
        own: Table,
        moving: Callable[[mpmath.mpf], mpmath.mpf],
        outer: Line,
        grid: Line,
        ratio: mpmath.mpf,
        digits: int,
    ) -> None:
        self.step = abs(grid.step)
        self.digits = digits
        # ratio * y of one position, in positions of the outer line, is a power of two: both count in the finer one
        power = int(mpmath.nint(mpmath.log(ratio * grid.step / outer.step, 2)))
        self.outer_scale, self.own_scale = 1 << max(-power, 0), 1 << max(power, 0)
        finest = outer.step / self.outer_scale
        self.own = own
        self.moving = Table(lambda k: moving(outer.origin + mpmath.ldexp(finest * k, -FINEST)))
        self.negligible = int(3.33 * (digits + 6)) + 1
        self.bits = mpmath.mp.prec + 2 * self.negligible
        self.least = int(mpmath.ceil(_LEAST / self.step))
        self.range = (-self.least, self.least + 1)

    @staticmethod
    def grid(outer: Line, ratio: mpmath.mpf, spacing: mpmath.mpf, logarithm: bool) -> Line:
        """The grid of y through 0 with a first step of at most ``spacing`` on which s + ratio y meets a lattice."""
        step = outer.step / abs(ratio)
        halvings = int(mpmath.ceil(mpmath.log(step / spacing, 2)))
        return Line(mpmath.mpf(0), mpmath.ldexp(mpmath.sign(ratio) * step, -halvings), logarithm)

    def at(self, position: int) -> mpmath.mpf:
        """The integral where s is at a position of the outer line."""
        place = position * self.outer_scale
        try:
            return self._fixed_point(place)
        except _TooWide:
            return self._floating_point(place)

    # -------------------------------------------------------------------------------- integers

    def _fixed_point(self, place: int) -> mpmath.mpf:
        low, high, total, largest = self._judged_range(place)
        size = max(map(abs, self._entries(place, 0, low, high)[1].tolist()))
        # an entry is wrong by less than one unit: of own times the size of moving, and the other way round
        wrong = self._number(64 * (size + (1 << self.bits))) * mpmath.mpf(10) ** (self.digits + 4)
        if wrong > abs(self._number(total)):
            raise _TooWide

        def sweep(level: int) -> tuple[mpmath.mpf, mpmath.mpf]:
            if level == 0:
                return self._number(total), self._number(largest)
            half = 1 << (level - 1)
            own, moving = self._entries(place, level, low * half - 1, high * half)
            return self._number(np.dot(own, moving)), self._number(largest)

        value = refined(sweep, self.step, self.digits)
        if wrong * self.step > abs(value):
            raise _TooWide
        return value

    def _number(self, product: int) -> mpmath.mpf:
        return mpmath.ldexp(mpmath.mpf(product), -2 * self.bits)

    def _entries(self, place: int, level: int, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        """Entries of both tables at the places that a level adds, numbered from one origin."""
        stride = 1 << (FINEST - level + (level > 0))
        start = stride >> 1 if level else 0
        scaled = stride * self.own_scale
        number, rest = divmod(place + start * self.own_scale, scaled)
        own = self.own.row(start, stride, self.bits).between(low, high)
        return own, self.moving.row(rest, scaled, self.bits).between(low + number, high + number)

    def _judged_range(self, place: int) -> tuple[int, int, int, int]:
        """Where the terms of the coarsest grid are not negligible, their sum and the size of the largest."""
        low, high = self.range
        while True:
            own, moving = self._entries(place, 0, low, high)
            terms = (own * moving).tolist()
            largest = max(map(abs, terms))
            if not largest:
                raise _TooWide
            floor = largest >> self.negligible
            first = low + next(i for i, t in enumerate(terms) if abs(t) > floor)
            last = high - 1 - next(i for i, t in enumerate(reversed(terms)) if abs(t) > floor)
            wanted = min(first - _QUIET, -self.least), max(last + _QUIET, self.least) + 1
            if low <= wanted[0] and high >= wanted[1]:
                self.range = wanted
                return low, high, sum(terms), largest
            low, high = min(low, wanted[0]), max(high, wanted[1])

    # -------------------------------------------------------------------------------- floating point

    def _floating_point(self, place: int) -> mpmath.mpf:
        low, high, total, largest = self._scanned_range(place)

        def sweep(level: int) -> tuple[mpmath.mpf, mpmath.mpf]:
            if level == 0:
                return total, largest
            stride = 1 << (FINEST - level + 1)
            positions = range((low << FINEST) - (stride >> 1), (high << FINEST) + stride, stride)
            return _added([self._term(place, n) for n in positions]), largest

        return refined(sweep, self.step, self.digits)

    def _term(self, place: int, position: int) -> tuple:
        return mpf_mul(self.own[position], self.moving[place + self.own_scale * position])

    def _scanned_range(self, place: int) -> tuple[int, int, mpmath.mpf, mpmath.mpf]:
        """The same as the judged range, term by term."""
        terms, ends, highest = [], [], None
        for direction in (1, -1):
            quiet, k = 0, 0 if direction == 1 else -1
            while quiet < _QUIET or abs(k) < self.least:
                term = self._term(place, k << FINEST)
                terms.append(term)
                size = term[2] + term[3] if term[1] else None  # binary logarithm, rounded up
                if size is not None and (highest is None or size > highest):
                    highest = size
                quiet = quiet + 1 if size is None or size < highest - self.negligible else 0
                k += direction
            ends.append(k)
        largest = mpmath.mpf(0) if highest is None else mpmath.ldexp(1, highest)
        return ends[1], ends[0], _added(terms), largest


def _added(terms: list[tuple]) -> mpmath.mpf:
    return mpmath.make_mpf(mpf_sum(terms, *mpmath.mp._prec_rounding))
