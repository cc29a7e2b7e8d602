"""Verdict on the claim that trained softmax attention always beats trained linear attention.

Both are compared at their best penalties, at one task and several sample ratios; where the sign of the difference
changes, the crossover is interpolated. The penalties at which the searches start were found by :func:`optimal_ridge`.
"""

from __future__ import annotations

import math
from itertools import pairwise

from theorykit.findings import Finding
from theorykit.single_location.activations import Linear, Softmax
from theorykit.single_location.ridge_search import least_risk_near
from theorykit.single_location.tasks import Spiked

__all__ = ["softmax_beats_linear"]

_TASK = Spiked(nu=4, length=2, noise=0.3)
#: Sample ratio -> penalties near the best ones of softmax and of linear attention.
_NEAR = {
    0.5: ((0.3, 0.5), (0.18, 2.1)),
    1.0: ((0.18, 0.34), (0.2, 3.2)),
    2.0: ((0.18, 0.3), (0.2, 2.5)),
}


def softmax_beats_linear() -> Finding:
    """Least risks over the penalties, and where their order changes."""
    outcomes: dict[str, bool] = {}
    evidence: dict[str, float] = {}
    remarks: dict[str, str] = {}
    gaps: dict[float, float] = {}
    for alpha, (softmax_near, linear_near) in _NEAR.items():
        softmax, *_ = least_risk_near(_TASK, Softmax(), alpha, *softmax_near)
        linear, *_ = least_risk_near(_TASK, Linear(), alpha, *linear_near)
        name = f"alpha = {alpha:g}"
        gaps[alpha] = float(softmax) - float(linear)
        outcomes[name] = gaps[alpha] < 0
        evidence |= {f"softmax at {name}": float(softmax), f"linear at {name}": float(linear)}
        if gaps[alpha] >= 0:
            remarks[name] = f"linear attention is better by {gaps[alpha]:.2g}"
    for low, high in pairwise(gaps):
        if gaps[low] > 0 > gaps[high]:
            part = gaps[low] / (gaps[low] - gaps[high])
            evidence["alpha of the crossover"] = math.exp((1 - part) * math.log(low) + part * math.log(high))
    return Finding(outcomes, evidence, remarks)
