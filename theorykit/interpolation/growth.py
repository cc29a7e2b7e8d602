"""How fast a formula grows: whether it has a second moment, and its slope at infinity.

Both are read off values at large arguments; what is left undecided there is refused.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from theorykit.formula import Formula

__all__ = ["diagonal_limit", "require_second_moment"]

_REACH = 38.0  # beyond, the Gaussian density is below the smallest double
_INNER = 12.0  # arguments at which a formula must be finite
_CELLS = 6000
_DECAYED = math.log(1e-12)
_ZOOMS = 60
_SLOPES = 0.05  # a growth exponent this close to one is neither sublinear nor superlinear


@functools.lru_cache(maxsize=256)
def require_second_moment(formula: Formula) -> None:
    """Refuse a formula whose square has no finite Gaussian average, or one out of reach of double precision.

    Raises
    ------
    ValueError
        f is constant, not finite for some |x| <= 12, has a pole where f^2 is not integrable, or
        f^2 exp(-x^2/2) has not decayed at |x| = 38.
    """
    import numpy as np

    step = 2 * _REACH / _CELLS
    grid = -_REACH + step * (
        np.arange(_CELLS) + 1 / math.sqrt(7.0)
    )  # off the points where formulas are special
    values = formula.evaluate(grid)
    inner = np.abs(grid) <= _INNER
    if not np.isfinite(values[inner]).all():
        bad = grid[inner][~np.isfinite(values[inner])]
        where = float(bad[np.argmin(np.abs(bad))])
        raise ValueError(
            f"formula must be finite for |x| <= {_INNER:g}, got {float(formula.evaluate(where))!r} from "
            f"{formula.text!r} at x = {where:.4g}"
        )
    if float(np.ptp(values[inner])) == 0.0:
        raise ValueError(f"formula must depend on x: centred, {formula.text!r} vanishes")
    with np.errstate(divide="ignore"):
        weight = 2 * np.log(np.abs(np.nan_to_num(values, nan=np.inf, posinf=np.inf, neginf=np.inf)))
    weight = weight - grid**2 / 2
    finite = np.isfinite(values)
    _require_decay(formula, grid, weight, finite)
    _require_no_pole(formula, grid[inner], values[inner], step)


def _require_decay(formula: Formula, grid: Any, weight: Any, finite: Any) -> None:
    """The exponent of f^2 times the density must fall below its maximum before the values overflow."""
    import numpy as np

    top = float(np.max(weight[finite]))
    for side in (-1, 1):
        reachable = np.flatnonzero(finite & (side * grid > 0))
        # the last argument before the first value that is not finite
        beyond = np.flatnonzero(~finite & (side * grid > 0))
        if beyond.size:
            limit = np.min(np.abs(grid[beyond]))
            reachable = reachable[np.abs(grid[reachable]) < limit]
        last = reachable[np.argsort(np.abs(grid[reachable]))[-8:]]
        if float(np.max(weight[last])) - top > _DECAYED:
            raise ValueError(
                f"formula must have a finite second moment under the standard normal law; for {formula.text!r}, "
                f"f(x)^2 exp(-x^2/2) has not decayed at x = {float(grid[last[-1]]):.4g}"
            )


def _require_no_pole(formula: Formula, grid: Any, values: Any, step: float) -> None:
    """Zoom into the local maxima of |f|: at a pole that is not square integrable f^2 times the width grows."""
    import numpy as np

    size = np.abs(values)
    peaks = np.flatnonzero((size[1:-1] >= size[:-2]) & (size[1:-1] >= size[2:]) & (size[1:-1] > 0)) + 1
    if not peaks.size:
        return
    centre, width = grid[peaks], step
    first = size[peaks] ** 2 * width
    offsets = np.linspace(-1.0, 1.0, 9) + 0.03
    largest = first
    for _ in range(_ZOOMS):
        points = centre[:, None] + width * offsets
        found = np.abs(formula.evaluate(points))
        found = np.where(np.isfinite(found), found, 0.0)
        best = np.argmax(found, axis=1)
        rows = np.arange(centre.size)
        centre, width = points[rows, best], width / 2
        if width < 1e-13 * max(1.0, float(np.max(np.abs(centre)))):
            break
        largest = found[rows, best] ** 2 * width
    bad = largest >= 0.5 * first
    if bad.any():
        where = float(centre[np.argmax(np.where(bad, largest, 0.0))])
        raise ValueError(
            f"formula must have a finite second moment under the standard normal law; {formula.text!r} has a pole at "
            f"x = {where:.6g}"
        )


@functools.lru_cache(maxsize=256)
def diagonal_limit(formula: Formula) -> float:
    """d = lim f(sqrt(p))/sqrt(p), the diagonal of K where it is kept.

    Raises
    ------
    ValueError
        The limit is infinite (then K is proportional to the identity, and the attention model becomes linear
        regression), or it is not decided by the values up to 2^100.
    """
    import numpy as np

    points = 2.0 ** np.arange(3, 101)
    values = formula.evaluate(points)
    stop = int(np.argmin(np.isfinite(values))) if not np.isfinite(values).all() else points.size
    points, values = points[:stop], np.abs(values[:stop]) if stop else values[:stop]
    signs = np.sign(formula.evaluate(points))
    if stop < 3:
        _refuse_superlinear(formula)
    with np.errstate(divide="ignore", invalid="ignore"):
        exponents = np.diff(np.log2(np.maximum(values, 1e-300)))[-12:]
    if np.all(exponents > 1 + _SLOPES):
        _refuse_superlinear(formula)
    ratios = values / points
    if np.all(exponents < 1 - _SLOPES) or float(np.max(ratios[-3:])) <= 1e-12:
        return 0.0
    if float(np.ptp(ratios[-3:])) <= 1e-12 * float(ratios[-1]) and signs[-1] == signs[-2]:
        return float(signs[-1] * ratios[-1])
    raise ValueError(
        f"diagonal 'kept' needs the limit of f(x)/x, which is not decided for {formula.text!r} by its values up to "
        f"x = {float(points[-1]):.3g}; give diagonal as a number, f(sqrt(p))/sqrt(p)"
    )


def _refuse_superlinear(formula: Formula) -> None:
    raise ValueError(
        f"diagonal 'kept' needs f of at most linear growth, got {formula.text!r}: the diagonal dominates, the limit "
        "is linear regression (linear_regression_error, at the ridge divided by the squared diagonal)"
    )
