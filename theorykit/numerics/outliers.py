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
_ROUNDS = {True: 3, False: 7}  # a crossing is then interpolated, a touching zero is not
_STENCIL = 6
_FALL = 0.1


def find_outliers(solve: Solve, grid: np.ndarray) -> tuple[float, ...]:
    """Zeros of the determinant in the gaps of the spectrum.

    Parameters
    ----------
    solve : callable
        ``solve(x)`` for real x: Stieltjes transform (limit from above) and determinant.
    grid : array
        Increasing; covers the spectrum with all outliers, fine enough to show its bulk.
    """
    grid, density, determinant = _refined(solve, grid)
    outside = np.abs(np.imag(density)) < _DENSITY * np.max(np.abs(density))
    found: list[float] = []
    for start, stop in _runs(outside):
        found += _zeros(solve, grid[start:stop], np.real(determinant[start:stop]))
    return tuple(sorted(found))


def _refined(solve: Solve, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The grid with points that gather in the gaps at the edges of the spectrum, and what is solved there."""
    density, determinant = solve(grid)
    floor = _DENSITY * np.max(np.abs(density))
    inside = np.abs(np.imag(density)) >= floor
    changes = np.flatnonzero(inside[1:] != inside[:-1])
    left, right = grid[changes], grid[changes + 1]
    for _ in range(3 if changes.size else 0):  # the edges, to a fraction of the spacing, all at once
        fine = np.linspace(left, right, 17)
        marks = np.abs(np.imag(solve(fine.ravel())[0])).reshape(fine.shape) >= floor
        turns = marks[1:] != marks[:-1]
        at, known, columns = np.argmax(turns, axis=0), turns.any(axis=0), np.arange(changes.size)
        left, right = np.where(known, fine[at, columns], left), np.where(known, fine[at + 1, columns], right)
    extra = []
    for k, low, high in zip(changes, left, right, strict=True):
        edge, sign = (high, 1.0) if inside[k] else (low, -1.0)
        reach = grid[-1] - edge if sign > 0 else edge - grid[0]
        extra.append(edge + sign * reach * np.geomspace(1e-8, 1.0, 100))
    if not extra:
        return grid, density, determinant
    new = np.setdiff1d(np.concatenate(extra), grid)
    new = new[(new > grid[0]) & (new < grid[-1])]
    more = solve(new)
    merged = np.concatenate([grid, new])
    order = np.argsort(merged)
    return (
        merged[order],
        np.concatenate([density, more[0]])[order],
        np.concatenate([determinant, more[1]])[order],
    )


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
    for turn in range(_ROUNDS[crosses]):
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
        if not crosses:  # where it touches zero the modulus falls by about 1000 each time
            falling = np.min(size, axis=0) <= _FALL ** (turn + 1) * first
            if not falling.any():
                return []
            low, high, first = low[falling], high[falling], first[falling]
            ends = ends[0][falling], ends[1][falling]
    smallest = np.minimum(*np.abs(ends))
    # towards a pole the determinant grows; a zero that is touched is reached up to rounding only
    is_zero = smallest < (1e-3 if crosses else 1e-9) * first
    if crosses:
        places = [_interpolated(points[:, k], values[:, k], int(left[k])) for k in np.flatnonzero(is_zero)]
        return [float(v) for v in places]
    return [float(v) for v in 0.5 * (low + high)[is_zero]]


def _interpolated(x: np.ndarray, values: np.ndarray, left: int) -> float:
    """Where the polynomial through the points around a crossing, in the values, is zero."""
    first = min(max(left - _STENCIL // 2 + 1, 0), x.size - _STENCIL)
    x, values = x[first : first + _STENCIL], values[first : first + _STENCIL]
    unit = values / np.max(np.abs(values))
    if np.any(np.diff(unit) * (unit[-1] - unit[0]) <= 0):  # not monotone: the line between the neighbours
        k = left - first
        return float(x[k] - values[k] * (x[k + 1] - x[k]) / (values[k + 1] - values[k]))
    offset = x - x[0]  # Neville's scheme at 0
    for order in range(1, x.size):
        above = unit[order:]
        below = unit[:-order]
        offset = (above * offset[:-1] - below * offset[1:]) / (above - below)
    return float(x[0] + offset[0])
