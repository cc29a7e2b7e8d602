"""The finite model itself: forwards to the simulation, which knows nothing of this theory."""

from __future__ import annotations

import importlib
from typing import Any

from theorykit.results import Solution, Status
from theorykit.single_location.activations import Activation, Elementwise, Erf, NormalizedKernel
from theorykit.single_location.population import _require_activation, _require_task
from theorykit.single_location.tasks import Task

__all__ = ["plain_activation", "plain_task", "train"]

_KINDS = {"Softmax": "softmax", "Softplus": "softplus", "Linear": "linear", "Erf": "erf"}


def plain_task(task: Task) -> dict[str, Any]:
    """A task as the plain data that simulations take."""
    return {"kind": task.name, "nu": task.nu, "length": dict(task.lengths), "noise": task.noise}


def plain_activation(activation: Activation) -> dict[str, Any]:
    """An activation as the plain data that simulations take."""
    plain: dict[str, Any] = {"kind": _KINDS.get(type(activation).__name__, activation.name)}
    if isinstance(activation, Erf):
        plain["shift"] = activation.shift
    elif isinstance(activation, Elementwise | NormalizedKernel):
        plain["formula"] = activation.formula.text
    return plain


def train(
    task: Task,
    activation: Activation,
    dimension: int,
    alpha: float,
    ridge_k: float,
    ridge_v: float,
    trials: int = 10,
    seed: Any = None,
    start: str = "informed",
) -> Solution:
    """Train attention of finite dimension on drawn data: what :func:`erm` predicts, measured.

    Parameters
    ----------
    dimension : int
        D, at least 4; round(alpha D) samples.
    alpha, ridge_k, ridge_v : float
        As for :func:`erm`.
    trials : int
        Independent data sets, at least 2; some 20 for standard errors that are themselves known to a sixth.
    seed : int, SeedSequence, Generator or None
        Each trial has its own stream; more trials keep the earlier ones.
    start : "informed", "random" or "best"
        Where the minimization (L-BFGS) begins; best: both, the lower minimum counts.

    Returns
    -------
    Solution
        ``m_k q_k m_v q_v``, ``test_risk`` (on fresh data), ``train_loss``, ``objective``: means over the trials with
        standard errors. ``residual`` is the largest component of the gradient (of the objective per dimension) left.

    Raises
    ------
    ValueError, TypeError
        An argument outside its range.
    ConvergenceError
        A minimization does not reach a minimum; ``last`` holds both vectors, shape (2, D).
    """
    _require_task(task)
    _require_activation(activation)
    simulation = importlib.import_module("theorykit.validation.simulate.training")
    found = simulation.train(
        plain_task(task),
        plain_activation(activation),
        dimension,
        alpha,
        ridge_k,
        ridge_v,
        trials,
        seed,
        start,
    )
    values = {name: found[name] for name in simulation.QUANTITIES}
    return Solution(
        values, Status.CONVERGED, found["gradient"], int(trials), start, messages=(f"seed {found['seed']}",)
    )  # fmt: skip
