r"""Newton's method for batches of small fixed-point systems :math:`X=G(X)` with a known Jacobian.

A system is anything with ``step(P, X)`` and ``jacobian(P, X)``; parameters P and unknowns X are arrays with one row
each and one column per point, real or complex. Points are independent: one that has converged is not touched again,
so its value does not depend on its neighbours.

Newton converges to whatever solution is near its start. Which solution that is, is the business of the caller
(:mod:`theorykit.numerics.continuation`, :mod:`theorykit.numerics.halfplane`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

__all__ = ["Outcome", "System", "newton", "residual_of", "spectral_radius"]


class System(Protocol):
    """What is solved."""

    def start(self, P: np.ndarray) -> np.ndarray: ...

    def step(self, P: np.ndarray, X: np.ndarray) -> np.ndarray: ...

    def jacobian(self, P: np.ndarray, X: np.ndarray) -> np.ndarray: ...


@dataclass
class Outcome:
    """Iterates, relative residuals ``max|G(X) - X| / max|X|``, which points converged, and steps made."""

    X: np.ndarray
    residual: np.ndarray
    converged: np.ndarray
    steps: np.ndarray


def residual_of(system: System, P: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Relative residual of the undamped map, one number per point."""
    with np.errstate(all="ignore"):
        return _relative(_safe(system.step, P, X) - X, X)


def _relative(change: np.ndarray, X: np.ndarray) -> np.ndarray:
    size = np.max(np.abs(X), axis=0)
    found = np.max(np.abs(change), axis=0) / np.where(size > 0, size, 1.0)
    return np.where(np.isfinite(found), found, np.inf)


def _safe(function: Any, P: np.ndarray, X: np.ndarray) -> np.ndarray:
    """A function of the system; a singular matrix of one point leaves nan there, not an error of all."""
    try:
        return function(P, X)
    except np.linalg.LinAlgError:
        found = []
        for k in range(P.shape[1]):
            try:
                found.append(function(P[:, k : k + 1], X[:, k : k + 1]))
            except np.linalg.LinAlgError:
                # a regular neighbour gives the shape
                shape = (1, X.shape[0], X.shape[0]) if function.__name__ == "jacobian" else (X.shape[0], 1)
                found.append(np.full(shape, np.nan))
        return np.concatenate(found, axis=0 if function.__name__ == "jacobian" else 1)


def newton(
    system: System,
    P: np.ndarray,
    X: np.ndarray,
    tolerance: float = 1e-12,
    max_steps: int = 40,
    polish: bool = True,
) -> Outcome:
    """Newton's method from X; full steps, shortened where they would more than double the iterate.

    With ``polish`` it iterates on until the residual stops falling, so that what is accepted is as good as the
    arithmetic allows; ``converged`` says where the last residual is below the tolerance.
    """
    X = np.array(X)
    count = X.shape[1]
    best, residual = X.copy(), np.full(count, np.inf)
    steps = np.zeros(count, dtype=int)
    active = np.arange(count)
    unit = np.eye(X.shape[0])
    with np.errstate(all="ignore"):
        for _ in range(max_steps + 1):
            Pa, Xa = P[:, active], X[:, active]
            change = _safe(system.step, Pa, Xa) - Xa
            now = _relative(change, Xa)
            better = now < residual[active]
            improved = active[better]
            gain = now < 0.25 * residual[active]
            best[:, improved], residual[improved] = X[:, improved], now[better]
            # close to the end a step that gains nothing is rounding; far from it Newton may have to climb
            going = np.isfinite(now) & (now > 1e-16) & ((gain & polish) | (now > tolerance))
            active, Pa, Xa, change = active[going], Pa[:, going], Xa[:, going], change[:, going]
            if not active.size:
                break
            delta = _scaled_solve(unit - _safe(system.jacobian, Pa, Xa), change, Xa)
            largest = np.max(np.abs(delta), axis=0)
            allowed = np.max(np.abs(Xa), axis=0)
            delta = delta * np.minimum(1.0, allowed / np.where(largest > 0, largest, 1.0))
            X[:, active] = Xa + delta
            steps[active] += 1
    return Outcome(best, residual, residual <= tolerance, steps)


def _scaled_solve(matrix: np.ndarray, right: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Newton steps in units of the unknowns: small ones are as accurate, relatively, as large ones."""
    size = np.abs(X)
    size = np.maximum(size, 1e-30 * np.max(size, axis=0))
    size = np.where(size > 0, size, 1.0)
    weights = size.T
    return size * _solve(matrix * (weights[:, None, :] / weights[:, :, None]), right / size)


def _solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solutions of a batch of linear systems; nan for singular ones."""
    right = right.T[..., None]
    try:
        return np.linalg.solve(matrix, right)[..., 0].T
    except np.linalg.LinAlgError:
        out = np.full(right.shape, np.nan, dtype=np.result_type(matrix, right))
        for k in range(matrix.shape[0]):
            try:
                out[k] = np.linalg.solve(matrix[k], right[k])
            except np.linalg.LinAlgError:
                continue  # nan stays: the point does not converge
        return out[..., 0].T


def spectral_radius(system: System, P: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Largest modulus of the eigenvalues of the Jacobian, per point: below 1 the solution is stable."""
    jacobian = _safe(system.jacobian, P, X)
    radius = np.full(jacobian.shape[0], np.inf)
    good = np.all(np.isfinite(jacobian), axis=(1, 2))
    radius[good] = np.max(np.abs(np.linalg.eigvals(jacobian[good])), axis=1)
    return radius
