"""The finite model itself: attention trained on drawn data by minimizing its regularized loss.

Stages: draw tokens, location and labels in D dimensions -> minimize (L-BFGS on a compiled, fused pass) ->
overlaps of the minimizer, its losses, and its risk on fresh data. Nothing of the theory is used.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from theorykit.codegen.formulas import load_with_formula
from theorykit.errors import require_integer, require_real
from theorykit.formula import parse
from theorykit.results import Estimate
from theorykit.validation.simulate.single_location_request import Task, read_activation, read_task
from theorykit.validation.simulate.streams import chunk_stream, resolve_seed

__all__ = ["QUANTITIES", "Data", "Objective", "draw_data", "train"]

#: What is measured in every trial.
QUANTITIES = ("m_k", "q_k", "m_v", "q_v", "test_risk", "train_loss", "objective")
STARTS = ("informed", "random", "best")
_BLOCKS = 8  # the gradient is added up in so many parts, whatever the number of threads
_FRESH = 40_000  # samples on which the risk is measured
_FORMULAS = {"softmax": "exp(x)", "softplus": "softplus(x)", "linear": "1 + x"}

# one pass: fields, weights, residual, and the contribution to both gradients while the tokens are in the cache
_TEMPLATE = """
@njit("void(float64[:, :, ::1], float64[::1], float64[:, ::1], float64, boolean, float64[:, :, ::1], float64[::1], "
      "int64, int64)", nogil=True, cache=True, error_model="numpy", boundscheck=False)
def loss_and_gradient(tokens, labels, both, shift, normalized, gradients, losses, lo, hi):
    samples, length, dimension = tokens.shape
    blocks = losses.shape[0]
    scale = 1.0 / math.sqrt(dimension)
    chi, z, w, d = np.empty(length), np.empty(length), np.empty(length), np.empty(length)
    for block in range(lo, hi):
        gradients[block] = 0.0
        losses[block] = 0.0
        first, last = block * samples // blocks, (block + 1) * samples // blocks
        for i in range(first, last):
            top = -np.inf
            for l in range(length):
                chi[l] = np.dot(tokens[i, l], both[0]) * scale
                z[l] = np.dot(tokens[i, l], both[1]) * scale
                top = max(top, chi[l])
            total = 0.0
            for l in range(length):
                x = chi[l] - top if SHIFTABLE else chi[l] + shift
                w[l] = value(x)
                d[l] = slope(x)
                total += w[l]
            output = 0.0
            for l in range(length):
                if normalized:
                    w[l] /= total
                    d[l] /= total
                output += w[l] * z[l]
            rest = labels[i] - output
            losses[block] += 0.5 * rest * rest
            for l in range(length):
                centre = output if normalized else 0.0
                to_k = -rest * d[l] * (z[l] - centre) * scale
                to_v = -rest * w[l] * scale
                for a in range(dimension):
                    gradients[block, 0, a] += to_k * tokens[i, l, a]
                    gradients[block, 1, a] += to_v * tokens[i, l, a]
"""


@dataclass(frozen=True)
class Data:
    """Training data: for each length the tokens (samples, L, D) and labels. k* and v* are the first two axes."""

    parts: tuple[tuple[np.ndarray, np.ndarray], ...]

    @property
    def samples(self) -> int:
        return sum(len(labels) for _, labels in self.parts)


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


class Objective:
    """Regularized loss per dimension and its gradient, as a function of (k, v) flattened."""

    def __init__(self, data: Data, activation: Mapping[str, Any], ridge_k: float, ridge_v: float) -> None:
        self.data, self.ridges = data, (ridge_k, ridge_v)
        kind = str(activation["kind"])
        self.shift = float(activation.get("shift") or 0.0)
        self.normalized = kind in ("softmax", "softplus", "normalized_kernel")
        text = "1 + erf(x)" if kind == "erf" else _FORMULAS.get(kind, activation.get("formula"))
        # exp can be shifted by any common amount, which keeps it from overflowing
        self.kernel = _kernel(str(text), kind == "softmax")
        self.dimension = data.parts[0][0].shape[2]

    def losses(self, both: np.ndarray) -> tuple[float, np.ndarray]:
        """Sum of the losses of the samples and its gradient, shape (2, D)."""
        total, gradient = 0.0, np.zeros((2, self.dimension))
        pool, threads = _pool()
        for tokens, labels in self.data.parts:
            gradients, losses = np.empty((_BLOCKS, 2, self.dimension)), np.empty(_BLOCKS)
            arguments = (tokens, labels, both, self.shift, self.normalized, gradients, losses)
            edges = np.linspace(0, _BLOCKS, min(threads, _BLOCKS) + 1).astype(int)
            jobs = [pool.submit(self.kernel, *arguments, int(a), int(b)) for a, b in pairwise(edges)]
            for job in jobs:
                job.result()
            total += float(losses.sum())
            gradient += gradients.sum(axis=0)
        return total, gradient

    def __call__(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        both = np.ascontiguousarray(flat.reshape(2, self.dimension))
        loss, gradient = self.losses(both)
        value = loss
        for a, penalty in enumerate(self.ridges):
            if math.isinf(penalty):
                gradient[a] = 0.0  # the vector stays 0
                continue
            value += 0.5 * penalty * float(both[a] @ both[a])
            gradient[a] += penalty * both[a]
        return value / self.dimension, gradient.ravel() / self.dimension


@functools.cache
def _kernel(text: str, shiftable: bool) -> Any:
    template = f"SHIFTABLE = {shiftable}\n\n{_TEMPLATE}"
    return load_with_formula(parse(text), template)._module.loss_and_gradient


@functools.cache
def _pool() -> tuple[ThreadPoolExecutor, int]:
    wanted = os.environ.get("THEORYKIT_THREADS") or str(os.cpu_count() or 1)
    count = int(wanted) if wanted.isdecimal() and int(wanted) > 0 else 1
    return ThreadPoolExecutor(count), count


# --------------------------------------------------------------------------- one trial


def _starts(
    stream: np.random.Generator, task: Task, start: str, dimension: int, frozen: bool
) -> list[np.ndarray]:
    """Where the minimization begins: near the hidden directions, or at random vectors."""
    found = []
    if start in ("informed", "best"):
        both = 0.1 * stream.standard_normal((2, dimension))
        strength = math.sqrt(task.nu) if task.kind == "spiked" else task.nu
        both[0, 0] += min(strength, 1.5) * math.sqrt(dimension)
        both[1, 1] += math.sqrt(dimension)
        found.append(both)
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
    from scipy.optimize import minimize

    data = draw_data(stream, task, max(1, round(alpha * dimension)), dimension)
    objective = Objective(data, activation, *ridges)
    best = None
    for both in _starts(stream, task, start, dimension, math.isinf(ridges[0])):
        options = {"maxiter": 3000, "maxfun": 6000, "ftol": 1e-13, "gtol": 1e-7, "maxcor": 20}
        found = minimize(objective, both.ravel(), jac=True, method="L-BFGS-B", options=options)
        if best is None or found.fun < best.fun:
            best = found
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
