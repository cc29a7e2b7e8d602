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
    eta, factor, floor = 3.0 * scale, 0.5, 1e-7 * scale
    P[row] = eta
    X = system.start(P).astype(complex)
    X = _damped(system, P, X, 60)
    steps = np.full(P.shape[1], 60)
    while eta > floor:
        P[row] = eta
        trial = newton(system, P, X, 1e-9, 12)
        good = trial.converged & (positive(P, trial.X) > -1e-9)
        steps += trial.steps
        X = np.where(good, trial.X, X)
        if not np.all(good):
            bad = np.flatnonzero(~good)
            X[:, bad] = _damped(system, P[:, bad], X[:, bad], 200)
            steps[bad] += 200
            again = newton(system, P[:, bad], X[:, bad], 1e-9, 12)
            fine = again.converged & (positive(P[:, bad], again.X) > -1e-9)
            X[:, bad[fine]] = again.X[:, fine]
        eta *= factor
    P[row] = 0.0
    final = newton(system, P, X, tolerance, 60)
    # at an atom the solution diverges with the shift, and Newton finds another one without it
    moved = np.max(np.abs(final.X - X), axis=0) / np.max(np.abs(X), axis=0)
    final.converged &= (positive(P, final.X) > -1e-7) & (moved < 0.05)
    final.steps += steps
    return final


def _damped(system: System, P: np.ndarray, X: np.ndarray, count: int) -> np.ndarray:
    """The mean of the iterate and its image, ``count`` times or until nothing changes."""
    for _ in range(count):
        with np.errstate(all="ignore"):
            image = system.step(P, X)
        X = 0.5 * (X + np.where(np.isfinite(image), image, X))
        if np.all(residual_of(system, P, X) < 1e-9):
            break
    return X
