"""Where trained attention is set beside training of the finite model: points fixed beforehand.

Every activation (softmax, linear, erf, softplus) meets every task (spiked of strength 1, 2, 4; max of strength
2 and infinity), at two or three tokens, sample ratios from 0.5 to 50 and several penalties. Order parameters at
finite D differ from their limits by order 1/D; two sizes, extrapolated, remove that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from theorykit.results import Estimate, Solution
from theorykit.single_location.activations import Activation, Erf, Linear, Softmax, Softplus
from theorykit.single_location.replica_solution import erm
from theorykit.single_location.tasks import Max, Spiked, Task
from theorykit.single_location.training import train

__all__ = ["FAST_POINTS", "POINTS", "QUANTITIES", "TrainedPoint", "extrapolate", "measure"]

#: What is compared.
QUANTITIES = ("m_k", "q_k", "m_v", "q_v", "test_risk", "train_loss", "objective")


@dataclass(frozen=True)
class TrainedPoint:
    """One problem, and the sizes at which it is trained."""

    task: Task
    activation: Activation
    alpha: float
    ridge_k: float
    ridge_v: float
    dimensions: tuple[int, int] = (100, 200)

    def theory(self, **options: Any) -> Solution:
        """The replica solution."""
        return erm(self.task, self.activation, self.alpha, self.ridge_k, self.ridge_v, **options)


_TASKS: tuple[Task, ...] = (
    Spiked(nu=1, length=2, noise=0.3),
    Spiked(nu=2, length=3, noise=0.5),
    Spiked(nu=4, length=2, noise=0.3),
    Spiked(nu=4, length=3, noise=0.3),
    Max(nu=2, length=3, noise=0.3),
    Max(nu=math.inf, length=2, noise=0.1),
)
_ACTIVATIONS: tuple[Activation, ...] = (Softmax(), Linear(), Erf(0.0), Softplus())
# (alpha, ridge_k, ridge_v): few samples need large penalties for the landscape to be simple
_REGIMES = ((0.5, 1.0, 1.0), (2.0, 0.5, 0.5), (4.0, 0.3, 0.3), (10.0, 0.5, 0.2), (50.0, 1.0, 1.0))


def _points() -> tuple[TrainedPoint, ...]:
    """Every pair of task and activation in two regimes, which go round."""
    found = []
    for row, task in enumerate(_TASKS):
        for column, activation in enumerate(_ACTIVATIONS):
            for turn in (0, 1):
                alpha, ridge_k, ridge_v = _REGIMES[(row + 2 * column + 3 * turn) % len(_REGIMES)]
                sizes = (40, 80) if alpha >= 50 else (100, 200)
                found.append(TrainedPoint(task, activation, alpha, ridge_k, ridge_v, sizes))
    return tuple(found)


#: 48 points.
POINTS = _points()
#: Six of the kind, at one activation and task each and in smaller dimension: for fast tests.
FAST_POINTS = (
    TrainedPoint(_TASKS[2], Softmax(), 4.0, 0.5, 0.5, (50, 100)),
    TrainedPoint(_TASKS[2], Linear(), 2.0, 0.5, 0.5, (50, 100)),
    TrainedPoint(_TASKS[0], Linear(), 0.5, 1.0, 1.0, (50, 100)),
    TrainedPoint(_TASKS[4], Softmax(), 4.0, 0.5, 0.5, (50, 100)),
    TrainedPoint(_TASKS[5], Linear(), 4.0, 1.0, 1.0, (50, 100)),
    TrainedPoint(_TASKS[5], Softmax(), 3.0, 0.3, 0.3, (50, 100)),
)


def extrapolate(small: Estimate, large: Estimate, sizes: tuple[int, int]) -> Estimate:
    """Value at 1/D -> 0 from two sizes, linear in 1/D; the errors are independent."""
    low, high = sizes
    weight = high / (high - low)
    value = weight * large - (weight - 1.0) * small
    error = math.hypot(weight * large.error, (weight - 1.0) * small.error)
    return Estimate(value, error, "standard error")


def measure(point: TrainedPoint, trials: int, seed: int, start: str = "informed") -> dict[str, Estimate]:
    """Training at both sizes, extrapolated."""
    runs: list[Mapping[str, Any]] = [
        train(
            point.task,
            point.activation,
            d,
            point.alpha,
            point.ridge_k,
            point.ridge_v,
            trials,
            seed + i,
            start,
        ).values
        for i, d in enumerate(point.dimensions)
    ]
    return {n: extrapolate(runs[0][n], runs[1][n], point.dimensions) for n in QUANTITIES}
