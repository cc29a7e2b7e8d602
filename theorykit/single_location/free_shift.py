"""Smallest risk of erf attention over the shift and the key together."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from theorykit.errors import ConvergenceError
from theorykit.results import Estimate, Optimum
from theorykit.single_location.activations import Erf
from theorykit.single_location.optimum import NOISE, Search, squared
from theorykit.single_location.tasks import Task

__all__ = ["find_shifted_optimum"]

_KEYS = (0.01, 0.03, 0.1, 0.3, 0.7, 1.5, 3.0)
_THRESHOLDS = (0.0, 0.5, 1.0)  # in units of the field where one token in L lies
_LARGEST_LOG, _LARGEST_SHIFT = 12.0, 40.0
_STEP = 1e-3  # of the final differences, in log m_k and in the scaled shift
_LOCATED = 1e-6  # error of both after them


def find_shifted_optimum(task: Task) -> Optimum:
    """Simplex search, then Newton steps on fine grids."""
    from scipy.optimize import minimize

    # long sequences need a threshold, at about the field where one token in L lies
    typical = math.sqrt(2 * math.log(max(task.mean_length, 2.0)))
    calls = 0

    def excess(point: Any) -> float:
        nonlocal calls
        m_k, shift = _key_and_shift(*map(float, point))
        if abs(point[0]) > _LARGEST_LOG or abs(shift) > _LARGEST_SHIFT:
            return 1.0 + abs(float(point[0])) + abs(shift)
        calls += 1
        search = Search(task, Erf(shift))
        return search.quick(m_k, search.search_grids(m_k))

    # the weights are all alike at k = 0, whatever the shift
    zero = Search(task, Erf(0.0)).described(0.0)
    starts = [(math.log(m), -m * c * typical / math.hypot(1, m)) for m in _KEYS for c in _THRESHOLDS]
    start = min(starts, key=excess)
    simplex = [start, (start[0] + 0.3, start[1]), (start[0], start[1] - 0.4)]
    options = {"initial_simplex": simplex, "xatol": 1e-6, "fatol": 1e-13, "maxiter": 600}
    best = minimize(excess, start, method="Nelder-Mead", options=options)
    if float(best.fun) >= float(zero.risk) * (1 - 1e-12):
        return replace(zero, evaluations=calls)
    point, rise, steps = _newton(task, best.x)
    m_k, shift = _key_and_shift(*point)
    found = Search(task, Erf(shift), evaluations=calls + steps).described(m_k)
    key = Estimate(float(found.m_k), getattr(found.m_k, "error", 0.0) + _LOCATED * float(found.m_k))
    m_v = Estimate(float(found.m_v), getattr(found.m_v, "error", 0.0) + 10 * _LOCATED * float(found.m_v))
    risk = Estimate(float(found.risk), found.risk.error + rise)
    return replace(found, risk=risk, m_k=key, q_k=squared(key), m_v=m_v, q_v=squared(m_v))


def _key_and_shift(log_m: float, scaled: float) -> tuple[float, float]:
    """Key and shift of a point of the search.

    The shift is measured by sqrt(1 + m_k^2): for steep activations the point is then the threshold, which is sharp,
    and the steepness, which is not.
    """
    m_k = math.exp(log_m)
    return m_k, scaled * math.hypot(1, m_k)


def _newton(task: Task, start: Any) -> tuple[tuple[float, float], float, int]:
    """The minimum near a point, how far the risk may be above it, and the number of evaluations."""
    import numpy as np

    point = np.array(start, dtype=float)
    for done in range(1, 13):
        gradient, hessian, noise = _derivatives(task, point)
        curvatures, directions = np.linalg.eigh(hessian)
        if np.any(curvatures < -noise):
            break
        is_curved = curvatures > noise  # along the others, any point is as good
        slopes = directions.T @ gradient
        move = directions @ np.where(is_curved, slopes / np.where(is_curved, curvatures, 1.0), 0.0)
        size = float(np.max(np.abs(move)))
        point = point - (move * min(1.0, 0.3 / size) if size > 0 else move)
        if size < 0.1 * _LOCATED:
            rise = np.where(is_curved, 0.5 * curvatures * _LOCATED**2, 0.5 * noise)
            return (float(point[0]), float(point[1])), float(np.sum(rise)), 13 * done
    m_k, shift = _key_and_shift(*map(float, point))
    raise ConvergenceError(
        f"the search over m_k and the shift of erf did not settle for {task!r}: "
        f"last m_k = {m_k:.6g}, shift = {shift:.6g}",
        last=(m_k, shift),
        residual=math.inf,
        steps=13 * done,
        start="scan",
    )


def _derivatives(task: Task, point: Any) -> tuple[Any, Any, float]:
    """Gradient, Hessian and noise of the Hessian of the excess risk, on grids that are good at the point."""
    import numpy as np

    m_k, shift = _key_and_shift(*map(float, point))
    grids = Search(task, Erf(shift)).smooth_grids(m_k)

    def excess(i: int, j: int) -> float:
        m_k, shift = _key_and_shift(float(point[0]) + i * _STEP, float(point[1]) + j * _STEP)
        return Search(task, Erf(shift)).quick(m_k, grids)

    centre = excess(0, 0)
    gradient, diagonal = np.empty(2), np.empty(2)
    for axis, (di, dj) in enumerate(((1, 0), (0, 1))):
        low2, low1, high1, high2 = (excess(k * di, k * dj) for k in (-2, -1, 1, 2))
        gradient[axis] = (8 * (high1 - low1) - (high2 - low2)) / (12 * _STEP)
        diagonal[axis] = (16 * (high1 + low1) - (high2 + low2) - 30 * centre) / (12 * _STEP**2)
    mixed = (excess(1, 1) - excess(1, -1) - excess(-1, 1) + excess(-1, -1)) / (4 * _STEP**2)
    hessian = np.array([[diagonal[0], mixed], [mixed, diagonal[1]]])
    return gradient, hessian, 50 * NOISE * centre / _STEP**2
