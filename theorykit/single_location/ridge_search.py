"""Penalties that make the test risk of trained attention least.

The risk is smooth in the logarithms of the penalties; sampling errors of neighbouring points are nearly equal
because all points share their nodes, so that a simplex search on one set of nodes sees a smooth function.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from theorykit.errors import ConvergenceError, require_real
from theorykit.results import Estimate, Solution
from theorykit.single_location.activations import Activation
from theorykit.single_location.erm_exact import has_fixed_weights
from theorykit.single_location.replica_solution import erm
from theorykit.single_location.tasks import Task

__all__ = ["least_risk_near", "optimal_ridge"]

_LOW, _HIGH = math.log(1e-3), math.log(1e2)
_SEARCH: dict[str, Any] = {"nodes": 2**10, "scramblings": 2}
_FLAT = 2e-3  # relative differences of the risk that the search does not resolve


def optimal_ridge(
    task: Task,
    activation: Activation,
    alpha: float,
    start: str | Mapping[str, float] = "informed",
    nodes: int = 2**13,
    scramblings: int = 4,
    seed: int = 0,
) -> Solution:
    """The penalties of least test risk, and the solution of :func:`erm` there.

    Returns
    -------
    Solution
        As :func:`erm`, with ``ridge_k`` and ``ridge_v`` in [0.001, 100]. Their errors say how flat the minimum
        is: within them the risk changes by less than 0.2 %.

    Raises
    ------
    ConvergenceError
        The equations have no solution anywhere in the range of the penalties that was tried.
    """
    ratio = require_real("alpha", alpha, low=0, low_open=True)
    search = _Search(task, activation, ratio, start, seed)
    if has_fixed_weights(task, activation, 1.0):
        best = search.over_value()
    else:
        best = search.over_both()
    ridge_k, ridge_v = (math.exp(float(x)) for x in best)
    found = erm(task, activation, ratio, ridge_k, ridge_v, start, nodes, scramblings, seed)
    widths = search.widths(best)
    values = dict(found.values)
    for name, value, width in (("ridge_k", ridge_k, widths[0]), ("ridge_v", ridge_v, widths[1])):
        values[name] = Estimate(value, value * width)
    return replace(found, values=values)


def least_risk_near(
    task: Task, activation: Activation, alpha: float, ridge_k: float, ridge_v: float, factor: float = 1.7
) -> tuple[Estimate, float, float]:
    """Least test risk on a lattice of penalties around given ones, of ratio ``factor``, walked downhill.

    A coarse and quick form of :func:`optimal_ridge` for comparisons: (risk, ridge_k, ridge_v), the risk on few nodes.

    Raises
    ------
    ConvergenceError
        The equations have no solution at the given penalties.
    """
    search = _Search(task, activation, require_real("alpha", alpha, low=0, low_open=True), "informed", 0)
    here, step = np.log([ridge_k, ridge_v]), math.log(factor)
    if not math.isfinite(search.risk(here)):
        raise ConvergenceError(f"no solution at penalties {ridge_k:g}, {ridge_v:g}, alpha = {alpha:g}")
    for _ in range(8):
        around = [here + step * np.array(d) for d in ((1, 0), (-1, 0), (0, 1), (0, -1))]
        best = min(around, key=search.risk)
        if search.risk(best) >= search.risk(here):
            break
        here = best
    found = erm(task, activation, alpha, math.exp(here[0]), math.exp(here[1]), **_SEARCH)
    return found.test_risk, math.exp(float(here[0])), math.exp(float(here[1]))


class _Search:
    """Risks on few nodes, each solution the start of the next."""

    def __init__(self, task: Task, activation: Activation, alpha: float, start: Any, seed: int) -> None:
        self.task, self.activation, self.alpha = task, activation, alpha
        self.start, self.seed = start, seed
        self.known: dict[tuple[float, float], float] = {}

    def risk(self, logs: np.ndarray) -> float:
        """Test risk at logarithms of the penalties; infinite where the equations have no solution."""
        point = (float(np.clip(logs[0], _LOW, _HIGH)), float(np.clip(logs[1], _LOW, _HIGH)))
        if point not in self.known:
            try:
                found = erm(
                    self.task, self.activation, self.alpha, math.exp(point[0]), math.exp(point[1]),
                    self.start, seed=self.seed, **_SEARCH,
                )  # fmt: skip
                self.known[point] = float(found.test_risk)
            except ConvergenceError:
                self.known[point] = math.inf
        outside = float(np.sum(np.abs(np.array(logs) - point)))
        return self.known[point] * (1 + outside)

    def over_both(self) -> np.ndarray:
        from scipy.optimize import minimize

        grid = [np.array([a, b]) for a in np.log([0.05, 0.4, 3.0]) for b in np.log([0.1, 0.6, 3.0])]
        first = min(grid, key=self.risk)
        if not math.isfinite(self.risk(first)):
            raise ConvergenceError(
                f"the replica equations of {self.activation.label} have no solution at alpha = {self.alpha:g} "
                "for penalties from 0.05 to 3; try another start"
            )
        simplex = first + np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5]])
        options = {"initial_simplex": simplex, "xatol": 0.05, "fatol": 2e-5, "maxfev": 60}
        return np.clip(minimize(self.risk, first, method="Nelder-Mead", options=options).x, _LOW, _HIGH)

    def over_value(self) -> np.ndarray:
        """The key is irrelevant: one penalty, to the accuracy of a parabola."""
        from scipy.optimize import minimize_scalar

        found = minimize_scalar(
            lambda x: self.risk(np.array([0.0, x])),
            bounds=(_LOW, _HIGH),
            method="bounded",
            options={"xatol": 1e-7},
        )
        return np.array([0.0, float(found.x)])

    def widths(self, best: np.ndarray) -> tuple[float, float]:
        """Relative change of each penalty that changes the risk by what the search does not resolve."""
        least, found = self.risk(best), []
        for axis in range(2):
            step = np.zeros(2)
            step[axis] = 0.3
            around = [self.risk(best + s * step) for s in (-1, 1)]
            rise = max(sum(r for r in around if math.isfinite(r)) / max(len(around), 1) - least, 1e-9 * least)
            found.append(min(0.3 * math.sqrt(_FLAT * least / rise), 3.0))
        return found[0], found[1]
