"""Where trained attention is set beside training of the finite model: points fixed beforehand.

Every activation (softmax, linear, erf, softplus) meets every task (spiked of strength 1, 2, 4; max of strength
2 and infinity) at two and at three tokens: 40 points. Eight more have small penalties, where the landscape is
rougher and replica symmetry may be unstable. Order parameters at finite D differ from their limits by order 1/D; two
sizes, extrapolated, remove that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from theorykit.errors import ConvergenceError
from theorykit.results import Estimate, Solution
from theorykit.single_location.activations import Activation, Erf, Linear, Softmax, Softplus
from theorykit.single_location.replica_solution import erm
from theorykit.single_location.tasks import Max, Spiked, Task
from theorykit.single_location.training import train
from theorykit.theory import Prediction, ValidationPoint

__all__ = [
    "FAST_POINTS", "POINTS", "QUANTITIES", "TRIALS", "TrainedPoint", "extrapolate", "measure", "training_study",
]  # fmt: skip

#: What is compared.
QUANTITIES = ("m_k", "q_k", "m_v", "q_v", "test_risk", "train_loss", "objective")
#: Data sets of each size.
TRIALS = 20
#: Nodes enough for errors of the theory below those of 20 trials; 8 scramblings, so that they are well known.
_ACCURACY = {"nodes": 2**13, "scramblings": 8}
#: Where jumps of the minimizer keep one of so many scramblings from its fixed point.
_LESS = {"nodes": 2**12, "scramblings": 4}


@dataclass(frozen=True)
class TrainedPoint:
    """One problem, and the sizes at which it is trained."""

    task: Task
    activation: Activation
    alpha: float
    ridge_k: float
    ridge_v: float
    dimensions: tuple[int, int]

    def theory(self, **options: Any) -> Solution:
        """The replica solution."""
        return erm(self.task, self.activation, self.alpha, self.ridge_k, self.ridge_v, **options)

    def validation(self, **options: Any) -> ValidationPoint:
        """The point as :func:`theorykit.validate` takes it; ``options`` go to :func:`erm`."""
        shown = {
            "task": repr(self.task), "activation": repr(self.activation), "alpha": self.alpha,
            "ridge_k": self.ridge_k, "ridge_v": self.ridge_v, "dimensions": self.dimensions,
        }  # fmt: skip
        return ValidationPoint(shown, partial(_predict, self, options), partial(measure, self), TRIALS)


_TASKS: tuple[Task, ...] = (
    Spiked(nu=4, length=2, noise=0.3),
    Max(nu=2, length=3, noise=0.3),
    Spiked(nu=1, length=2, noise=0.3),
    Max(nu=math.inf, length=2, noise=0.1),
    Spiked(nu=2, length=3, noise=0.5),
    Max(nu=math.inf, length=3, noise=0.3),
    Spiked(nu=4, length=3, noise=0.3),
    Max(nu=2, length=2, noise=0.1),
    Spiked(nu=2, length=2, noise=0.1),
    Spiked(nu=1, length=3, noise=0.3),
)
_ACTIVATIONS: tuple[Activation, ...] = (Softmax(), Linear(), Erf(0.0), Softplus())
# (alpha, ridge_k, ridge_v): few samples need large penalties for the landscape to be simple
_REGIMES = (
    (2.0, 0.5, 0.5), (50.0, 1.0, 1.0), (0.5, 1.0, 1.0), (10.0, 0.5, 0.2), (1.0, 0.5, 1.0), (4.0, 0.3, 0.3),
)  # fmt: skip
#: For each activation that a task meets in turn, how far on in the list of regimes: four different ones.
_TURNS = (0, 2, 5, 3)
#: Largest alpha -> sizes: training takes a time that grows as alpha D^2.
_SIZES = {2.0: (200, 400), 4.0: (150, 300), 10.0: (100, 200), 50.0: (60, 120)}


def _point(task: Task, activation: Activation, alpha: float, ridge_k: float, ridge_v: float) -> TrainedPoint:
    sizes = next(sizes for most, sizes in _SIZES.items() if alpha <= most)
    return TrainedPoint(task, activation, alpha, ridge_k, ridge_v, sizes)


def _product() -> tuple[TrainedPoint, ...]:
    """Every pair of task and activation; each ten in a row hold every task and every activation."""
    return tuple(
        _point(task, _ACTIVATIONS[(row + turn) % 4], *_REGIMES[(row + shift) % 6])
        for turn, shift in enumerate(_TURNS)
        for row, task in enumerate(_TASKS)
    )


_ROUGH = (
    _point(Spiked(nu=4, length=2, noise=0.3), Softmax(), 2.0, 0.1, 0.1),
    _point(Max(nu=math.inf, length=2, noise=0.1), Softmax(), 3.0, 0.05, 0.1),
    _point(Spiked(nu=4, length=2, noise=0.3), Linear(), 0.5, 0.2, 2.2),
    _point(Max(nu=math.inf, length=3, noise=0.3), Linear(), 4.0, 0.1, 0.1),
    _point(Spiked(nu=4, length=2, noise=0.3), Erf(0.0), 3.0, 0.1, 0.1),
    _point(Spiked(nu=2, length=3, noise=0.5), Erf(-0.5), 10.0, 0.1, 0.1),
    _point(Spiked(nu=4, length=2, noise=0.3), Softplus(), 3.0, 0.05, 0.2),
    _point(Spiked(nu=4, length=3, noise=0.3), Softmax(), 50.0, 0.1, 0.1),
)
#: 48 points.
POINTS = (*_product(), *_ROUGH)
#: Six of the kind, in smaller dimension: for fast tests.
FAST_POINTS = (
    TrainedPoint(_TASKS[0], Softmax(), 4.0, 0.5, 0.5, (50, 100)),
    TrainedPoint(_TASKS[0], Linear(), 2.0, 0.5, 0.5, (50, 100)),
    TrainedPoint(_TASKS[2], Softplus(), 0.5, 1.0, 1.0, (50, 100)),
    TrainedPoint(_TASKS[1], Softmax(), 4.0, 0.5, 0.5, (50, 100)),
    TrainedPoint(_TASKS[3], Linear(), 4.0, 1.0, 1.0, (50, 100)),
    TrainedPoint(_TASKS[3], Erf(0.0), 3.0, 0.5, 0.5, (50, 100)),
)


def training_study() -> tuple[ValidationPoint, ...]:
    """The 48 points as :func:`theorykit.validate` takes them."""
    return tuple(point.validation(**_ACCURACY) for point in POINTS)


def _predict(point: TrainedPoint, options: Mapping[str, Any]) -> Prediction:
    try:
        found = point.theory(**options)
    except ConvergenceError:
        found = point.theory(**{**options, **_LESS})
    radius = f"replica symmetry is unstable (spectral radius {found.values['spectral_radius']:.2f})"
    doubt = "" if found.values["rs_stable"] else radius
    return Prediction({name: found.values[name] for name in QUANTITIES}, doubt)


def extrapolate(small: Estimate, large: Estimate, sizes: tuple[int, int]) -> Estimate:
    """Value at 1/D -> 0 from two sizes, linear in 1/D; the errors are independent."""
    low, high = sizes
    weight = high / (high - low)
    value = weight * large - (weight - 1.0) * small
    error = math.hypot(weight * large.error, (weight - 1.0) * small.error)
    return Estimate(value, error, "standard error")


def measure(point: TrainedPoint, trials: int, seed: Any, start: str = "informed") -> dict[str, Estimate]:
    """Training at both sizes, on independent data, extrapolated; seed: int or SeedSequence."""
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    runs = [
        train(
            point.task, point.activation, dimension, point.alpha, point.ridge_k, point.ridge_v, trials,
            np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, index)), start,
        ).values
        for index, dimension in enumerate(point.dimensions)
    ]  # fmt: skip
    return {n: extrapolate(runs[0][n], runs[1][n], point.dimensions) for n in QUANTITIES}
