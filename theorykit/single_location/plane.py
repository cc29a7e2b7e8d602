"""Newton steps towards a minimum in two dimensions, with derivatives from differences on fixed grids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from theorykit.single_location.optimum import NOISE

if TYPE_CHECKING:
    from theorykit.single_location.moments import Grids

__all__ = ["Descent", "descend"]

_STEP = 1e-3  # of the differences
_LOCATED = 1e-7  # error of the minimum after them, at best
_LONGEST = 0.3  # of one step: a longer one is cut, and the quadratic model made anew; no result depends on it
_ROUNDS = 12
_SAME_GRIDS = 0.02  # moves up to which the grids stay


@dataclass(frozen=True)
class Descent:
    """Where a descent ended.

    Attributes
    ----------
    point : tuple of float
    grids : Grids
        Those of the last steps.
    errors : tuple of float
        How far the minimum may be from the point along each axis.
    rise : float
        How far the risk at the point may be above its minimum.
    value_error : float
        How far the best m_v may be from that at the minimum.
    settled : bool
        Whether the last step was as short as the errors say.
    """

    point: tuple[float, float]
    grids: Grids
    errors: tuple[float, float]
    rise: float
    value_error: float
    settled: bool


@dataclass(frozen=True)
class _Model:
    """Quadratic model of the risk at a point, and gradient of the best m_v."""

    gradient: Any
    hessian: Any
    value_gradient: Any
    noise: float  # of the Hessian

    def located(self, curvatures: Any) -> Any:
        """How well the minimum is located along directions of some curvature, given the noise of the gradient."""
        import numpy as np

        return np.minimum(np.maximum(_LOCATED, self.noise * _STEP / curvatures), 1.0)


def descend(
    quick: Callable[[Any, Grids], tuple[float, float]], grids_at: Callable[[Any], Grids], start: Any
) -> Descent:
    """Newton steps for ``quick``, (m_v, risk) at a point on given grids, from a point close to the minimum."""
    import numpy as np

    point = np.array(start, dtype=float)
    made_at, grids = point, grids_at(point)
    for _ in range(_ROUNDS):
        model = _model(quick, point, grids)
        curvatures, directions = np.linalg.eigh(model.hessian)
        is_curved = curvatures > model.noise  # along the others, any point is as good
        slopes = directions.T @ model.gradient
        steepness = np.where(is_curved, curvatures, model.noise)
        open_ends = np.where(is_curved, model.located(steepness), 1.0)
        moves = np.where(is_curved, slopes / steepness, 0.0)
        move = directions @ moves
        size = float(np.max(np.abs(move)))
        settled = bool(np.all(curvatures > -model.noise) and np.all(np.abs(moves) < 0.3 * open_ends))
        point = point - (move * min(1.0, _LONGEST / size) if size > 0 else move)
        if settled or np.any(curvatures < -model.noise):
            break
        if np.max(np.abs(point - made_at)) > _SAME_GRIDS:
            made_at, grids = point, grids_at(point)
    errors = np.abs(directions) @ open_ends
    rise = 0.5 * steepness * open_ends**2
    value_error = float(np.abs(directions.T @ model.value_gradient) @ open_ends)
    ends = (float(point[0]), float(point[1])), (float(errors[0]), float(errors[1]))
    return Descent(ends[0], grids, ends[1], float(np.sum(rise)), value_error, settled)


def _model(quick: Callable[[Any, Grids], tuple[float, float]], point: Any, grids: Grids) -> _Model:
    """Fourth-order differences along the axes, second-order ones across."""
    import numpy as np

    def at(i: int, j: int) -> tuple[float, float]:
        return quick((float(point[0]) + i * _STEP, float(point[1]) + j * _STEP), grids)

    centre = at(0, 0)[1]
    gradient, diagonal, slope = np.empty(2), np.empty(2), np.empty(2)
    for axis, (di, dj) in enumerate(((1, 0), (0, 1))):
        m_v, values = zip(*[at(k * di, k * dj) for k in (-2, -1, 1, 2)], strict=True)
        low2, low1, high1, high2 = values
        gradient[axis] = (8 * (high1 - low1) - (high2 - low2)) / (12 * _STEP)
        diagonal[axis] = (16 * (high1 + low1) - (high2 + low2) - 30 * centre) / (12 * _STEP**2)
        slope[axis] = (m_v[2] - m_v[1]) / (2 * _STEP)
    mixed = (at(1, 1)[1] - at(1, -1)[1] - at(-1, 1)[1] + at(-1, -1)[1]) / (4 * _STEP**2)
    hessian = np.array([[diagonal[0], mixed], [mixed, diagonal[1]]])
    return _Model(gradient, hessian, slope, 50 * NOISE * centre / _STEP**2)
