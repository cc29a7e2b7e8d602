"""Attention whose weights cannot be trained: the replica equations in closed form, exact (ridge regression).

A single token under normalized attention has weight 1 whatever the key; an infinite penalty on the key leaves
the key 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from theorykit.results import Estimate, Solution, Status
from theorykit.single_location.activations import Activation, Erf
from theorykit.single_location.erm_iteration import Regularized
from theorykit.single_location.programs import program
from theorykit.single_location.tasks import Task

__all__ = ["has_fixed_weights", "solve_fixed_weights"]

_ROUNDING = 1e-13
_NAMES = ("V_hat_v", "m_hat_v", "q_hat_v", "risk", "train_loss")


def has_fixed_weights(task: Task, activation: Activation, ridge_k: float) -> bool:
    """Whether the weights do not depend on the key that is found."""
    lone = all(length == 1 for length, _ in task.lengths)
    return math.isinf(ridge_k) or (lone and activation.kind == "normalized")


def _weight(activation: Activation, length: int) -> float:
    """Weight of every token at key 0."""
    if activation.kind == "normalized":
        return 1.0 / length
    shift = float(activation.shift or 0.0) if isinstance(activation, Erf) else 0.0
    return float(activation.formula.evaluate([shift])[0])


class _Averages:
    """The compiled record, averaged over the law of the length."""

    def __init__(self, task: Task, activation: Activation, alpha: float) -> None:
        self.parts = [
            (p, {"L": float(n), "s": _weight(activation, n), "noise": task.noise, "alpha": alpha})
            for n, p in task.lengths
        ]
        self.compiled = program("erm_fixed", _NAMES)

    def at(self, **values: float) -> dict[str, float]:
        vectors = [(p, self.compiled.vector({**fixed, **values})) for p, fixed in self.parts]
        total = np.sum([p * self.compiled.observables(v, np.empty(0)) for p, v in vectors], axis=0)
        return dict(zip(_NAMES, map(float, total), strict=True))


def solve_fixed_weights(task: Task, activation: Activation, fit: Regularized, start: str) -> Solution:
    """The solution: V is the root of a monotone function, m and q follow by linear equations."""
    from scipy.optimize import brentq

    averages = _Averages(task, activation, fit.alpha)

    def at(V: float, m: float, q: float) -> dict[str, float]:
        return averages.at(V_v=V, m_v=m, q_v=q)

    def excess(V: float) -> float:
        return V * (fit.ridge_v + at(V, 0.0, 0.0)["V_hat_v"]) - 1.0

    V = float(brentq(excess, 0.0, (1.0 + 1e-9) / fit.ridge_v, xtol=1e-300, rtol=4 * 2.0**-52))
    m = V * at(V, 0.0, 0.0)["m_hat_v"]
    low, high = (V**2 * at(V, m, q)["q_hat_v"] for q in (0.0, 1.0))  # affine in q
    q = (m**2 + low) / (1.0 - (high - low))
    found = at(V, m, q)
    lone = math.isfinite(fit.ridge_k)
    values: dict[str, Any] = {
        "m_k": 0.0, "q_k": 0.0, "V_k": 1.0 / fit.ridge_k if lone else 0.0, "m_v": m, "q_v": q, "V_v": V,
        "test_risk": found["risk"], "train_loss": found["train_loss"],
        "objective": 0.5 * fit.ridge_v * q + fit.alpha * found["train_loss"],
    }  # fmt: skip
    exact = {n: Estimate(v, _ROUNDING * abs(v)) for n, v in values.items()}
    return Solution(
        {**exact, "rs_stable": True}, Status.CONVERGED, abs(excess(V)), 1, start,
        messages=("the weights are fixed: ridge regression, exact",),
    )  # fmt: skip
