r"""Solutions of matrix Dyson equations at any spectral parameter, by the branch with positive imaginary part.

With :math:`i\eta` subtracted from all diagonal blocks the equation has one solution with a positive imaginary part,
and the damped iteration converges to it, the faster the larger :math:`\eta` is.
The solution is followed down to :math:`\eta=0`. On the real axis the result is the limit from above.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from theorykit.numerics.newton import Outcome, System, newton, residual_of

__all__ = ["descend"]

_FACTOR = 0.3
_FLOOR = 1e-6
_LOWEST = 1e-15
# at an atom the solution grows like 1/shift, by 0.7 of its new size per step
_LEAP = 0.9


def descend(
    system: System,
    P: np.ndarray,
    row: int,
    positive: Callable[[np.ndarray, np.ndarray], np.ndarray],
    scale: float,
    tolerance: float = 1e-12,
) -> Outcome:
    """Solve at every point of P by lowering the shift in a row of P to zero.

    Parameters
    ----------
    system : System
    P : complex array, shape (parameters, points)
    row : int
        Row of the shift; its values in P are ignored.
    positive : callable
        ``positive(P, X)``: smallest eigenvalue of the imaginary part of the solution, relative to its size.
    scale : float
        Size of the matrices: the first shift is three times this.
    tolerance : float
        For the relative residual.
    """
    P = P.astype(complex)
    eta = 3.0 * scale
    P[row] = eta
    X = _damped(system, P, system.start(P).astype(complex), 30)
    steps = np.full(P.shape[1], 30)
    final = Outcome(X.copy(), np.full(P.shape[1], np.inf), np.zeros(P.shape[1], dtype=bool), steps)
    left = np.arange(P.shape[1])
    change = np.zeros_like(X)
    while eta > _LOWEST * scale and left.size:
        eta *= _FACTOR
        P[row] = eta
        before = X[:, left]
        # on the line through the last two shifts
        X[:, left], made = _lowered(system, P[:, left], before, before + _FACTOR * change[:, left], positive)
        change[:, left] = X[:, left] - before
        steps[left] += made
        if eta < _FLOOR * scale:
            left = _finish(system, P, row, X, final, left, positive, tolerance)
    return final


def _lowered(
    system: System,
    P: np.ndarray,
    X: np.ndarray,
    guess: np.ndarray,
    positive: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """The solution at a lower shift, by Newton's method where it stays on the branch, else by damped iteration."""
    trial = newton(system, P, guess, 1e-9, 12, polish=False)
    good = trial.converged & (positive(P, trial.X) > -1e-9) & (_moved(trial.X, X) < _LEAP)
    steps = trial.steps
    X = np.where(good, trial.X, X)
    if not np.all(good):
        bad = np.flatnonzero(~good)
        X[:, bad] = _damped(system, P[:, bad], X[:, bad], 200)
        steps[bad] += 200
        again = newton(system, P[:, bad], X[:, bad], 1e-9, 12, polish=False)
        fine = again.converged & (positive(P[:, bad], again.X) > -1e-9) & (_moved(again.X, X[:, bad]) < _LEAP)
        X[:, bad[fine]] = again.X[:, fine]
    return X, steps


def _finish(
    system: System,
    P: np.ndarray,
    row: int,
    X: np.ndarray,
    final: Outcome,
    left: np.ndarray,
    positive: Callable[[np.ndarray, np.ndarray], np.ndarray],
    tolerance: float,
) -> np.ndarray:
    """Solve without the shift; returns the points where it still matters (or where the solution diverges)."""
    Q = P[:, left].copy()
    Q[row] = 0.0
    out = newton(system, Q, X[:, left], tolerance, 60)
    # at an atom the solution diverges with the shift, and Newton finds another one without it
    mass = P[row, left].real * np.max(np.abs(out.X), axis=0)
    out.converged &= (positive(Q, out.X) > -1e-7) & (_moved(out.X, X[:, left]) < 0.05) & (mass < 1e-4)
    final.X[:, left], final.residual[left], final.converged[left] = out.X, out.residual, out.converged
    return left[~out.converged]


def _moved(X: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Change relative to the larger one: near 1 where a diverging solution was left for another."""
    size = np.maximum(np.max(np.abs(X), axis=0), np.max(np.abs(before), axis=0))
    return np.max(np.abs(X - before), axis=0) / size


def _damped(system: System, P: np.ndarray, X: np.ndarray, count: int) -> np.ndarray:
    """The mean of the iterate and its image, ``count`` times or until nothing changes."""
    for _ in range(count):
        with np.errstate(all="ignore"):
            image = system.step(P, X)
        X = 0.5 * (X + np.where(np.isfinite(image), image, X))
        if np.all(residual_of(system, P, X) < 1e-9):
            break
    return X
