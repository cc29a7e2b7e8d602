"""Verdict on the claim that trained softmax attention always beats trained linear attention.

Both are compared at their best penalties, at one task and several sample ratios; where the sign of the difference
changes, the crossover is interpolated. Replica symmetry is unstable for softmax attention at few samples, so that the
theory is approximate there: on both sides of the crossover the finite model is trained, both activations on the same
data, and the difference of their risks decides.
"""

from __future__ import annotations

import importlib
import math
from itertools import pairwise
from typing import Any

import numpy as np

from theorykit.findings import Finding
from theorykit.results import Estimate
from theorykit.single_location.activations import Activation, Linear, Softmax
from theorykit.single_location.ridge_search import least_risk_near
from theorykit.single_location.tasks import Spiked, Task
from theorykit.single_location.training import plain_activation, plain_task

__all__ = ["softmax_beats_linear", "trained_gap"]

_TASK = Spiked(nu=4, length=2, noise=0.3)
#: Sample ratio -> penalties near the best ones of softmax and of linear attention, found by :func:`optimal_ridge`.
_NEAR = {
    0.5: ((0.3, 0.5), (0.18, 2.1)),
    1.0: ((0.18, 0.34), (0.2, 3.2)),
    2.0: ((0.11, 0.3), (0.34, 4.2)),
}
#: Sample ratio -> dimension and number of data sets: enough for more than 4 standard errors.
_TRAINED = {0.5: (1000, 16), 2.0: (250, 8)}
_CLEAR = 4.0


def trained_gap(
    task: Task,
    first: tuple[Activation, float, float],
    second: tuple[Activation, float, float],
    alpha: float,
    dimension: int,
    trials: int,
    seed: Any,
    start: str = "best",
) -> Estimate:
    """Test risk of one trained model less that of another, both trained and tested on the same data sets.

    Parameters
    ----------
    first, second : (activation, ridge_k, ridge_v)
    alpha, dimension, trials, seed, start
        As for :func:`train`; "best" is the lower minimum from two starts, the nearest to the estimator itself.

    Returns
    -------
    Estimate
        Mean of the differences and its standard error. What is common to both (the data) drops out of it.
    """
    simulation = importlib.import_module("theorykit.validation.simulate.training")
    column = simulation.QUANTITIES.index("test_risk")
    risks = [
        simulation.train(
            plain_task(task), plain_activation(activation), dimension, alpha, ridge_k, ridge_v, trials, seed, start
        )["samples"][:, column]
        for activation, ridge_k, ridge_v in (first, second)
    ]  # fmt: skip
    differences = risks[0] - risks[1]
    error = float(np.std(differences, ddof=1)) / math.sqrt(trials)
    return Estimate(float(np.mean(differences)), error, "standard error")


def softmax_beats_linear() -> Finding:
    """Least risks over the penalties, where their order changes, and training on both sides."""
    outcomes: dict[str, bool] = {}
    evidence: dict[str, float] = {}
    remarks: dict[str, str] = {}
    gaps: dict[float, float] = {}
    for alpha, (softmax_near, linear_near) in _NEAR.items():
        softmax, *at = least_risk_near(_TASK, Softmax(), alpha, *softmax_near)
        first = (Softmax(), at[0], at[1])
        linear, *at = least_risk_near(_TASK, Linear(), alpha, *linear_near)
        second = (Linear(), at[0], at[1])
        name = f"alpha = {alpha:g}"
        gaps[alpha] = float(softmax) - float(linear)
        outcomes[name] = gaps[alpha] < 0
        evidence |= {f"softmax at {name}": float(softmax), f"linear at {name}": float(linear)}
        if gaps[alpha] >= 0:
            remarks[name] = f"linear attention is better by {gaps[alpha]:.2g}"
        if alpha in _TRAINED:
            dimension, trials = _TRAINED[alpha]
            gap = trained_gap(_TASK, first, second, alpha, dimension, trials, seed=3)
            evidence[f"trained softmax less linear at {name} ({trials} data sets, D = {dimension})"] = gap
            evidence[f"standard errors of that at {name}"] = gap / gap.error
            outcomes[name] = gap < 0
            remarks |= _remark(name, gap, gaps[alpha])
    for low, high in pairwise(gaps):
        if gaps[low] > 0 > gaps[high]:
            part = gaps[low] / (gaps[low] - gaps[high])
            evidence["alpha of the crossover"] = math.exp((1 - part) * math.log(low) + part * math.log(high))
    return Finding(outcomes, evidence, remarks)


def _remark(name: str, gap: Estimate, theory: float) -> dict[str, str]:
    """What training says: which one is better and how clearly, or that it does not decide."""
    size = abs(gap) / gap.error
    if size < _CLEAR:
        return {name: f"training does not decide: {gap} is {size:.1f} standard errors"}
    if (gap < 0) != (theory < 0):
        return {name: f"training contradicts the replica equations: {gap} against {theory:.2g}"}
    better = "softmax" if gap < 0 else "linear"
    return {
        name: f"{better} attention is better by {abs(gap):.2g} when trained ({size:.1f} standard errors), by "
        f"{abs(theory):.2g} in theory"
    }
