"""Smallest risk of erf attention over the shift and the key together.

The search runs over log m_k and a scaled shift: a simplex on coarse grids, then Newton steps on fine ones. Where long
sequences leave the activation almost exponential, the risk is flat in the shift and falls to that of the best
elementwise activation: how far it may still fall is then bounded by that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from theorykit.errors import ConvergenceError
from theorykit.results import Estimate, Optimum
from theorykit.single_location.activations import Erf
from theorykit.single_location.moments import KeyMoments
from theorykit.single_location.optimum import Search, squared
from theorykit.single_location.plane import Descent, descend
from theorykit.single_location.tasks import Task

if TYPE_CHECKING:
    from theorykit.single_location.moments import Grids

__all__ = ["find_shifted_optimum"]

_KEYS = (0.01, 0.03, 0.1, 0.3, 0.7, 1.5, 3.0)
_THRESHOLDS = (0.0, 0.5, 1.0)  # in units of the field where one token in L lies
_LARGEST_LOG, _LARGEST_SHIFT = (
    12.0,
    15.0,
)  # beyond that scaled shift, squared weights are too small for doubles
_COARSE, _FINE = 1e-4, 1e-12
_FLAT_GAP = 1e-9  # of the risk over that of the best elementwise activation, relative to what either gains


@dataclass
class _Shifted:
    """The risk as a function of log m_k and the scaled shift."""

    task: Task
    evaluations: int = 0

    @cached_property
    def _unshifted(self) -> KeyMoments:
        return KeyMoments(self.task, Erf(0.0), aligned=True)

    def at(self, shift: float) -> KeyMoments:
        return self._unshifted.at_shift(shift)

    def quick(self, point: Any, grids: Grids) -> tuple[float, float]:
        """(best m_v, risk) on given grids."""
        m_k, shift = _key_and_shift(point)
        self.evaluations += 1
        return self.at(shift).quick_best(m_k, m_k * m_k, grids)

    def bounded(self, point: Any, grids: Grids) -> float:
        """The risk, and a slope back to where it can be computed."""
        if abs(point[0]) > _LARGEST_LOG or abs(point[1]) > math.asinh(_LARGEST_SHIFT):
            return 1.0 + abs(float(point[0])) + abs(float(point[1]))
        return self.quick(point, grids)[1]

    def grids(self, point: Any, rtol: float) -> Grids:
        m_k, shift = _key_and_shift(point)
        return self.at(shift).grids(m_k, m_k * m_k, rtol)


def find_shifted_optimum(task: Task) -> Optimum:
    """Scan, simplex, Newton steps, and the value with its errors."""
    from scipy.optimize import minimize

    risk = _Shifted(task)
    # long sequences need a threshold, at about the field where one token in L lies
    typical = math.sqrt(2 * math.log(max(task.mean_length, 2.0)))
    coarse = risk.grids(_point(_KEYS[-1], 0.0), _COARSE)
    starts = [_point(m, -m * c * typical) for m in _KEYS for c in _THRESHOLDS]
    start = min(starts, key=lambda p: risk.bounded(p, coarse))
    simplex = [start, (start[0] + 0.3, start[1]), (start[0], start[1] - 0.4)]
    options = {"initial_simplex": simplex, "xatol": 1e-3, "fatol": 1e-13, "maxiter": 400}
    found = minimize(risk.bounded, start, args=(coarse,), method="Nelder-Mead", options=options)
    # the weights are all alike at k = 0, whatever the shift
    if float(found.fun) >= float(risk.at(0.0).best_value(0.0, 0.0)[1]) * (1 - 1e-12):
        return Search(task, Erf(0.0)).described(0.0, coarse)
    best = descend(lambda p, grids: risk.quick(p, grids), lambda p: risk.grids(p, _FINE), found.x)
    return _described(risk, best)


def _described(risk: _Shifted, best: Descent) -> Optimum:
    """The value at the end of a descent, with what its errors leave open."""
    from theorykit.single_location.orthogonal import off_truth
    from theorykit.single_location.population import best_elementwise_risk

    m_k, shift = _key_and_shift(best.point)
    m_v, value = risk.at(shift).best_value(m_k, m_k * m_k, best.grids)
    rise = best.rise
    if not (best.settled and rise <= value.error):  # else the bound would change little
        floor = best_elementwise_risk(risk.task, excess=True)
        gap = float(value) - (float(floor) - floor.error)
        rise = min(rise, gap) if best.settled else gap
        if not best.settled and not gap <= _FLAT_GAP * (1 - float(value)) + value.error + floor.error:
            raise ConvergenceError(
                f"the search over m_k and the shift of erf did not settle for {risk.task!r}: "
                f"last m_k = {m_k:.6g}, shift = {shift:.6g}, risk {float(value):.8g}",
                last=(m_k, shift),
                residual=gap,
                steps=risk.evaluations,
                start="scan",
            )
    search = Search(risk.task, Erf(shift), evaluations=risk.evaluations)
    lower = off_truth(search, m_k, float(value), best.grids)
    if lower is not None:
        return lower
    key = Estimate(m_k, best.errors[0] * m_k)
    m_v = Estimate(float(m_v), m_v.error + best.value_error)
    return Optimum(
        Estimate(float(value), value.error + max(rise, 0.0)),
        key,
        squared(key),
        m_v,
        squared(m_v),
        shift=shift,
        evaluations=search.evaluations,
    )


def _key_and_shift(point: Any) -> tuple[float, float]:
    """Key and shift of a point of the search.

    The shift is measured by sqrt(1 + m_k^2): for steep activations the point is then the threshold, which is sharp,
    and the steepness, which is not. Far out it is measured on a logarithmic scale, since an almost exponential
    activation depends on the product of key and shift.
    """
    m_k = math.exp(min(float(point[0]), _LARGEST_LOG))
    return m_k, math.sinh(float(point[1])) * math.hypot(1, m_k)


def _point(m_k: float, shift: float) -> tuple[float, float]:
    """The point of the search of a key and a shift."""
    return math.log(m_k), math.asinh(shift / math.hypot(1, m_k))
