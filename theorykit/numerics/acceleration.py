"""Fixed points of a map with some noise: damping and Anderson acceleration, every step limited.

Input: a map on float vectors and a start; no knowledge of what they mean. Convergence is judged on the residual of the
undamped map. Not for maps whose derivative is cheap: Newton is better there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["Acceleration", "Outcome", "iterate"]


@dataclass(frozen=True)
class Acceleration:
    """Options of :func:`iterate`.

    Attributes
    ----------
    tolerance : float
        Largest component of map(u) - u at which the iteration stops.
    damping : float
        Weight of the old iterate in the first step, in [0, 1): u <- damping u + (1 - damping) map(u). It grows where
        the residual does, up to 1 - ``least_mixing``.
    memory : int
        Number of past steps that Anderson acceleration combines; 0: none.
    near : float
        Acceleration starts once the residual is below this; farther away steps are plain and damped.
    largest : float or tuple of float
        No component moves further in one step; one number, or one per component.
    """

    tolerance: float = 1e-6
    max_steps: int = 150
    damping: float = 0.3
    least_mixing: float = 0.05
    memory: int = 5
    near: float = 0.3
    largest: float | tuple[float, ...] = 1.0


@dataclass(frozen=True)
class Outcome:
    """Last iterate, residual of the undamped map there, steps made, residuals of all steps."""

    point: np.ndarray
    residual: float
    steps: int
    history: tuple[float, ...]
    best: np.ndarray

    def reached(self, tolerance: float) -> bool:
        return self.residual <= tolerance


def iterate(
    function: Callable[[np.ndarray, int], np.ndarray], start: np.ndarray, options: Acceleration
) -> Outcome:
    """Iterate ``u <- function(u, step)`` to a fixed point; the caller judges what a residual is worth."""
    u = np.array(start, dtype=float)
    points: list[np.ndarray] = []
    gaps: list[np.ndarray] = []
    history: list[float] = []
    best, least = u, np.inf
    mixing = 1 - options.damping
    for step in range(options.max_steps):
        gap = function(u, step) - u
        if not np.isfinite(gap).all():
            return Outcome(u, np.inf, step, tuple(history), best)
        residual = float(np.abs(gap).max())
        if history and residual > history[-1]:
            mixing = max(0.5 * mixing, options.least_mixing)
        elif history:
            mixing = min(1.1 * mixing, 1 - options.damping)
        history.append(residual)
        if residual < least:
            best, least = u.copy(), residual
        if residual <= options.tolerance:
            return Outcome(u, residual, step + 1, tuple(history), u)
        if residual >= options.near:  # the past of a far point misleads
            points, gaps = [], []
        points.append(u.copy())
        gaps.append(gap)
        points, gaps = points[-options.memory - 1 :], gaps[-options.memory - 1 :]
        move = mixing * gap
        if residual < options.near and len(gaps) > 1:
            move = _combined(points, gaps, mixing)
        largest = np.array(options.largest)
        u = u + np.clip(move, -largest, largest)
    return Outcome(u, history[-1], options.max_steps, tuple(history), best)


def _combined(points: list[np.ndarray], gaps: list[np.ndarray], mixing: float) -> np.ndarray:
    """Anderson's step: the combination of past steps whose gap is least, moved along that gap."""
    gap_changes = np.diff(np.array(gaps), axis=0).T
    point_changes = np.diff(np.array(points), axis=0).T
    weights, *_ = np.linalg.lstsq(gap_changes, gaps[-1], rcond=1e-8)
    return mixing * gaps[-1] - (point_changes + mixing * gap_changes) @ weights
