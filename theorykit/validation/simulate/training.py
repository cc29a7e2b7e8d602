"""The finite model itself: attention trained on drawn data by minimizing its regularized loss.

Stages: draw tokens, location and labels in D dimensions -> minimize (L-BFGS on a compiled, fused pass) ->
overlaps of the minimizer, its losses, and its risk on fresh data. Nothing of the theory is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from theorykit.errors import ConvergenceError, require_integer, require_real
from theorykit.results import Estimate
from theorykit.validation.simulate.attention_loss import Data, Objective
from theorykit.validation.simulate.single_location_request import Task, read_activation, read_task
from theorykit.validation.simulate.streams import chunk_stream, resolve_seed

__all__ = ["QUANTITIES", "draw_data", "train"]

#: What is measured in every trial.
QUANTITIES = ("m_k", "q_k", "m_v", "q_v", "test_risk", "train_loss", "objective")
STARTS = ("informed", "random", "best")
_GRADIENT = (
    1e-5  # of the loss of all samples, in every component: the vectors are right to this over the penalty
)
_RESTARTS, _GAIN = 100, 1e-7  # with kinks: until the loss falls by less than this, relatively
_FRESH = 40_000  # samples on which the risk is measured


def _locations(stream: np.random.Generator, task: Task, fields: np.ndarray) -> np.ndarray:
    """Hidden tokens given the fields along k*, shape (samples, L)."""
    if task.kind == "spiked":
        return stream.integers(0, fields.shape[1], size=len(fields))
    if math.isinf(task.nu):
        return np.argmax(fields, axis=1)
    return np.argmax(task.nu * fields + stream.gumbel(size=fields.shape), axis=1)


def draw_data(stream: np.random.Generator, task: Task, samples: int, dimension: int) -> Data:
    """Samples of the model in D dimensions; |k*|^2 = |v*|^2 = D, k* orthogonal to v*."""
    counts = [samples] if len(task.lengths) == 1 else stream.multinomial(samples, task.probabilities)
    parts = []
    for length, count in zip(task.lengths, counts, strict=True):
        if count == 0:
            continue
        tokens = stream.standard_normal((int(count), length, dimension))
        hidden = _locations(stream, task, tokens[:, :, 0])
        rows = np.arange(int(count))
        if task.kind == "spiked":
            tokens[rows, hidden, 0] += math.sqrt(task.nu)
        labels = tokens[rows, hidden, 1] + task.noise * stream.standard_normal(int(count))
        parts.append((tokens, labels))
    return Data(tuple(parts))


# --------------------------------------------------------------------------- one trial


def _starts(
    stream: np.random.Generator, task: Task, start: str, dimension: int, frozen: bool
) -> list[np.ndarray]:
    """Where the minimization begins: near the hidden directions, or at random vectors."""
    found = []
    near = 0.1 * stream.standard_normal(
        (2, dimension)
    )  # drawn in any case: a random start is the same when alone
    if start in ("informed", "best"):
        strength = math.sqrt(task.nu) if task.kind == "spiked" else task.nu
        near[0, 0] += min(strength, 1.5) * math.sqrt(dimension)
        near[1, 1] += math.sqrt(dimension)
        found.append(near)
    if start in ("random", "best"):
        found.append(0.5 * stream.standard_normal((2, dimension)))
    for both in found:
        if frozen:
            both[0] = 0.0
    return found


def _trial(
    stream: np.random.Generator,
    task: Task,
    activation: Mapping[str, Any],
    dimension: int,
    alpha: float,
    ridges: tuple[float, float],
    start: str,
) -> tuple[list[float], float]:
    """The quantities of one trial, and the size of the gradient that is left."""
    data = draw_data(stream, task, max(1, round(alpha * dimension)), dimension)
    objective = Objective(data, activation, *ridges)
    starts = _starts(stream, task, start, dimension, math.isinf(ridges[0]))
    best = min((_minimum(objective, both) for both in starts), key=lambda found: float(found.fun))
    both = np.ascontiguousarray(best.x.reshape(2, dimension))
    loss, _ = objective.losses(both)
    k, v = both
    overlaps = [
        k[0] / math.sqrt(dimension),
        k @ k / dimension,
        v[1] / math.sqrt(dimension),
        v @ v / dimension,
    ]
    risk = _fresh_risk(stream, task, activation, both)
    values = [*map(float, overlaps), risk, loss / data.samples, float(best.fun)]
    return values, float(np.abs(best.jac).max())


def _minimum(objective: Objective, both: np.ndarray) -> Any:
    """Local minimum near a start.

    The gradient that is left must be small beside the penalties. Where the activation has kinks the minimum may lie
    on some: there the search begins anew where it stood, with no memory of slopes, until nothing is gained.
    """
    from scipy.optimize import minimize

    tolerance = _GRADIENT / objective.dimension
    options = {"maxiter": 3000, "maxfun": 6000, "ftol": 1e-14, "gtol": tolerance, "maxcor": 20}

    def descend(flat: np.ndarray) -> Any:
        return minimize(objective, flat, jac=True, method="L-BFGS-B", options=options)

    found = descend(both.ravel())
    gained = math.inf
    for _ in range(_RESTARTS if objective.kinked else 0):
        if np.abs(found.jac).max() <= tolerance or gained <= _GAIN:
            break
        again = descend(found.x)
        gained, found = float(found.fun - again.fun) / abs(float(found.fun)), again
    left = float(np.abs(found.jac).max())
    reached = left <= 100 * tolerance or (objective.kinked and gained <= _GAIN)
    if not reached:  # also where something is not a number
        raise ConvergenceError.not_reached(
            "minimum of the training loss", residual=left, tolerance=tolerance, steps=int(found.nit),
            start="given", last=found.x.reshape(both.shape), advice="try larger penalties, or a smoother activation",
        )  # fmt: skip
    return found


def _fresh_risk(
    stream: np.random.Generator, task: Task, activation: Mapping[str, Any], both: np.ndarray
) -> float:
    """Mean squared error on fresh data: only the span of k*, v*, k and v matters."""
    dimension = both.shape[1]
    hidden = np.eye(2, dimension)
    basis = np.linalg.qr(np.vstack([hidden, both]).T)[0].T
    basis[:2] = hidden
    inside = np.ascontiguousarray(both @ basis.T) / math.sqrt(dimension)
    data = draw_data(stream, task, _FRESH, len(basis))
    weights = read_activation(activation)
    total = 0.0
    for tokens, labels in data.parts:
        chi, z = (np.einsum("sld,d->ls", tokens, direction) for direction in inside)
        total += float(np.sum((labels - np.sum(weights(chi) * z, axis=0)) ** 2))
    return total / _FRESH


def train(
    task: Mapping[str, object],
    activation: Mapping[str, Any],
    dimension: int,
    alpha: float,
    ridge_k: float,
    ridge_v: float,
    trials: int,
    seed: int | np.random.SeedSequence | np.random.Generator | None = None,
    start: str = "informed",
) -> dict[str, Any]:
    """Train attention on ``trials`` independent data sets.

    Parameters
    ----------
    task, activation : mapping
        Plain data, as for the other simulations of this theory.
    dimension : int
        D; alpha D samples (rounded) are drawn.
    ridge_k, ridge_v : float
        Penalties; ``ridge_k`` may be infinite.
    start : "informed", "random" or "best"
        Best: from both, the lower minimum counts.

    Returns
    -------
    dict
        Every one of ``QUANTITIES`` as an :class:`Estimate` (mean over trials, standard error), ``gradient``:
        the largest component of a gradient that was left, ``seed``, and ``samples``: an array (trials,
        quantities).
    """
    read, count = read_task(task), require_integer("trials", trials, low=2)
    read_activation(activation)
    size = require_integer("dimension", dimension, low=4)
    ratio = require_real("alpha", alpha, low=0, low_open=True)
    ridges = (
        require_real("ridge_k", ridge_k, low=0, low_open=True, allow_inf=True),
        require_real("ridge_v", ridge_v, low=0, low_open=True),
    )
    if start not in STARTS:
        raise ValueError(f"start must be one of {', '.join(STARTS)}, got {start!r}")
    chosen = resolve_seed(seed)
    rows, left = [], 0.0
    for trial in range(count):
        values, gradient = _trial(chunk_stream(chosen, trial), read, activation, size, ratio, ridges, start)
        rows.append(values)
        left = max(left, gradient)
    return {**_estimates(rows), "gradient": left, "seed": chosen, "samples": np.array(rows)}


def _estimates(rows: Sequence[Sequence[float]]) -> dict[str, Estimate]:
    table = np.array(rows)
    errors = table.std(axis=0, ddof=1) / math.sqrt(len(table))
    means = table.mean(axis=0)
    return {
        n: Estimate(float(m), float(e), "standard error")
        for n, m, e in zip(QUANTITIES, means, errors, strict=True)
    }
