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
        Weight of the old iterate in plain steps, in [0, 1): u <- damping u + (1 - damping) map(u).
    memory : int
        Number of past steps that Anderson acceleration combines; 0: none.
    plain : int
        Number of damped steps before acceleration starts.
    largest : float
        No component moves further in one step.
    """

    tolerance: float = 1e-6
    max_steps: int = 150
    damping: float = 0.3
    memory: int = 5
    plain: int = 6
    largest: float = 1.0


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
    for step in range(options.max_steps):
        gap = function(u, step) - u
        if not np.isfinite(gap).all():
            return Outcome(u, np.inf, step, tuple(history), best)
        residual = float(np.abs(gap).max())
        history.append(residual)
        if residual < least:
            best, least = u.copy(), residual
        if residual <= options.tolerance:
            return Outcome(u, residual, step + 1, tuple(history), u)
        points.append(u.copy())
        gaps.append(gap)
        points, gaps = points[-options.memory - 1 :], gaps[-options.memory - 1 :]
        move = (1 - options.damping) * gap
        if step >= options.plain and len(gaps) > 1:
            move = _combined(points, gaps, options.damping)
        u = u + np.clip(move, -options.largest, options.largest)
    return Outcome(u, history[-1], options.max_steps, tuple(history), best)


def _combined(points: list[np.ndarray], gaps: list[np.ndarray], damping: float) -> np.ndarray:
    """Anderson's step: the combination of past steps whose gap is least, moved along that gap."""
    gap_changes = np.diff(np.array(gaps), axis=0).T
    point_changes = np.diff(np.array(points), axis=0).T
    weights, *_ = np.linalg.lstsq(gap_changes, gaps[-1], rcond=1e-8)
    mixing = 1 - damping
    return mixing * gaps[-1] - (point_changes + mixing * gap_changes) @ weights
