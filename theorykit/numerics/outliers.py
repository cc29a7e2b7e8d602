"""Real zeros of a determinant outside a spectrum: where a finite number of eigenvalues lie.

The gaps of the spectrum are found from the density on a grid; in each gap the determinant is real, and its zeros are
bracketed and refined. A zero without a change of sign (two eigenvalues at one place) is found as a minimum of the
modulus that vanishes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["find_outliers"]

Solve = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

_DENSITY = 1e-8
_PARTS = 32
_ROUNDS = 7


def find_outliers(solve: Solve, grid: np.ndarray) -> tuple[float, ...]:
    """Zeros of the determinant in the gaps of the spectrum.

    Parameters
    ----------
    solve : callable
        ``solve(x)`` for real x: Stieltjes transform (limit from above) and determinant.
    grid : array
        Increasing; covers the spectrum with all outliers, fine enough to show its bulk.
    """
    grid = _refined(solve, grid)
    density, determinant = solve(grid)
    outside = np.abs(np.imag(density)) < _DENSITY * np.max(np.abs(density))
    found: list[float] = []
    for start, stop in _runs(outside):
        found += _zeros(solve, grid[start:stop], np.real(determinant[start:stop]))
    return tuple(sorted(found))


def _refined(solve: Solve, grid: np.ndarray) -> np.ndarray:
    """The grid, and points in the gaps that gather at the edges of the spectrum."""
    density, _ = solve(grid)
    floor = _DENSITY * np.max(np.abs(density))
    inside = np.abs(np.imag(density)) >= floor
    extra = []
    for k in np.flatnonzero(inside[1:] != inside[:-1]):
        left, right = grid[k], grid[k + 1]
        for _ in range(3):  # the edge, to a fraction of the spacing
            fine = np.linspace(left, right, 17)
            marks = np.abs(np.imag(solve(fine)[0])) >= floor
            change = np.flatnonzero(marks[1:] != marks[:-1])
            if not change.size:
                break
            left, right = fine[change[0]], fine[change[0] + 1]
        edge, sign = (right, 1.0) if inside[k] else (left, -1.0)
        reach = grid[-1] - edge if sign > 0 else edge - grid[0]
        extra.append(edge + sign * reach * np.geomspace(1e-8, 1.0, 100))
    merged = np.unique(np.concatenate([grid, *extra]))
    return merged[(merged >= grid[0]) & (merged <= grid[-1])]


def _runs(mask: np.ndarray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _zeros(solve: Solve, x: np.ndarray, values: np.ndarray) -> list[float]:
    """All zeros between neighbouring points of one gap; every bracket is narrowed at once."""
    crossing = np.flatnonzero(values[1:] * values[:-1] < 0)
    lowest = np.abs(values)
    dips = 1 + np.flatnonzero(
        (values[:-2] * values[1:-1] > 0)
        & (values[1:-1] * values[2:] > 0)
        & (lowest[1:-1] < np.minimum(lowest[:-2], lowest[2:]))
    )
    found = _narrowed(solve, x[crossing], x[crossing + 1], crosses=True)
    return found + 2 * _narrowed(solve, x[dips - 1], x[dips + 1], crosses=False)


def _narrowed(solve: Solve, low: np.ndarray, high: np.ndarray, crosses: bool) -> list[float]:
    """Places in the brackets where the determinant crosses zero, or touches it."""
    if not low.size:
        return []
    first = None
    for _ in range(_ROUNDS):
        points = np.linspace(low, high, _PARTS + 1)
        values = np.real(solve(points.ravel())[1]).reshape(points.shape)
        size = np.abs(values)
        first = np.maximum(size[0], size[-1]) if first is None else first
        if crosses:
            at = np.argmax(values[1:] * values[:-1] <= 0, axis=0)
            left, right = at, at + 1
        else:
            at = np.clip(np.argmin(size, axis=0), 1, _PARTS - 1)
            left, right = at - 1, at + 1
        columns = np.arange(low.size)
        low, high = points[left, columns], points[right, columns]
        ends = values[left, columns], values[right, columns]
    smallest = np.minimum(*np.abs(ends))
    # towards a pole the determinant grows; a zero that is touched is reached up to rounding only
    is_zero = smallest < (1e-3 if crosses else 1e-9) * first
    if crosses:
        gap = ends[1] - ends[0]
        low = np.where(gap != 0, low - ends[0] * (high - low) / np.where(gap != 0, gap, 1.0), low)
    else:
        low = 0.5 * (low + high)
    return [float(v) for v in low[is_zero]]
