"""Sampled averages of trained attention: frozen nodes, minimizers kept node by node, sums over the nodes.

One :class:`Sample` belongs to one scrambling: a task with its lengths, an activation, and the noise of the
label. What is sampled (fields, label, location) is that of :mod:`theorykit.derivations.single_location.erm`,
token 1 being the hidden one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from theorykit import derivations
from theorykit.numerics.proximal import CHUNK, OUTPUTS
from theorykit.numerics.sampling import sobol_points
from theorykit.single_location.activations import Activation, Erf, Linear
from theorykit.single_location.tasks import Spiked, Task

if TYPE_CHECKING:
    from theorykit.codegen.program import Program

__all__ = ["Sample", "draw_samples", "erm_options", "proximal_program"]

_NAME, _NEWTON, _DUAL = (f"single_location.{n}" for n in ("erm", "erm_newton", "erm_linear"))
_WIDTHS = (
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
)  # differences of minima that count as small: the first with enough nodes
_EVENTS = 10


def erm_options(activation: Activation) -> dict[str, Any]:
    """Options of the derivation for an activation."""
    return {
        "kind": activation.kind,
        "formula": activation.formula.text,
        "shifted": isinstance(activation, Erf),
    }


def proximal_program(activation: Activation, primal: bool = False) -> Program:
    """The compiled minimization of the sample problem, by Newton's method in the key fields.

    Through the dual for linear attention, unless ``primal``.
    """
    from theorykit import codegen

    options = erm_options(activation)
    has_dual = isinstance(activation, Linear) and not primal

    def derive() -> Any:
        from theorykit.codegen.proximal import varying_statistics

        record = derivations.get(_NAME, **options).equations
        if has_dual:
            return record, None, derivations.get(_DUAL).equations
        count = len(varying_statistics(record))
        return record, derivations.get(_NEWTON, count=count).equations, None

    if any(derivations.is_substituted(n) for n in (_NAME, _NEWTON, _DUAL)):
        from theorykit.codegen.proximal import emit_proximal

        record, newton, dual = derive()
        return codegen.load_source(emit_proximal(record, "substituted", newton, dual))
    return codegen.load_proximal(
        _NAME, tuple(sorted(options.items())), derive, "dual" if has_dual else "newton"
    )


@cache
def _threads() -> tuple[ThreadPoolExecutor, int]:
    wanted = os.environ.get("THEORYKIT_THREADS") or str(os.cpu_count() or 1)
    if not wanted.isdecimal() or int(wanted) < 1:
        raise ValueError(f"THEORYKIT_THREADS must be a positive integer, got {wanted!r}")
    return ThreadPoolExecutor(int(wanted)), int(wanted)


class _Nodes:
    """Frozen fields of one length, and the current minimizers."""

    def __init__(self, task: Task, length: int, points: np.ndarray) -> None:
        from scipy.special import ndtri

        fields = ndtri(points[:, : 3 * length + 1])
        shape = (len(points), length)
        self.truth, self.noise, self.gauss = (
            np.ascontiguousarray(fields[:, i * length : (i + 1) * length]) for i in range(3)
        )
        self.label_noise = np.ascontiguousarray(fields[:, 3 * length])
        self.slope = np.zeros(shape)
        if isinstance(task, Spiked):
            self.truth[:, 0] += math.sqrt(task.nu)
            self.slope[:, 0] = math.sqrt(task.nu)
        elif math.isinf(task.nu):
            self._hide_at(np.argmax(self.truth, axis=1))
        else:
            odds = np.exp(task.nu * (self.truth - self.truth.max(axis=1, keepdims=True)))
            odds /= odds.sum(axis=1, keepdims=True)
            location = (np.cumsum(odds, axis=1) < points[:, [3 * length + 1]]).sum(axis=1)
            location = np.minimum(location, length - 1)
            self._hide_at(location)
            rows = np.arange(len(points))
            odds[rows, 0], odds[rows, location] = odds[rows, location], odds[rows, 0]
            self.slope = -task.nu * odds
            self.slope[:, 0] += task.nu
        self.chi = np.zeros(shape)
        self.rivals = np.full((len(points), 3), np.inf)

    def _hide_at(self, location: np.ndarray) -> None:
        """Exchange tokens so that the hidden one is the first."""
        rows = np.arange(len(location))
        chosen = self.truth[rows, location].copy()
        self.truth[rows, location] = self.truth[:, 0]
        self.truth[:, 0] = chosen


class Sample:
    """Averages over one scrambling; ``means`` moves the kept minimizers along."""

    def __init__(self, task: Task, activation: Activation, points: Mapping[int, np.ndarray]) -> None:
        self.task, self.activation = task, activation
        self.program = proximal_program(activation)
        self.nodes = {length: _Nodes(task, length, points[length]) for length, _ in task.lengths}

    def means(self, overlaps: Mapping[str, float], thorough: bool) -> dict[str, float]:
        """Average of every output over the nodes and the law of the length.

        ``thorough``: search from all starts; otherwise from the kept minimizer and the field without the sample.
        """
        parts = [(p, self._sums(length, overlaps, thorough)) for length, p in self.task.lengths]
        total = np.sum([p * sums for p, sums in parts], axis=0)
        return dict(zip(OUTPUTS, map(float, total), strict=True))

    def _parameters(self, overlaps: Mapping[str, float]) -> np.ndarray:
        shift = float(getattr(self.activation, "shift", 0.0) or 0.0)
        return self.program.vector({**overlaps, "noise": self.task.noise, "shift": shift})

    def _sums(self, length: int, overlaps: Mapping[str, float], thorough: bool) -> np.ndarray:
        nodes = self.nodes[length]
        arguments = (nodes.truth, nodes.noise, nodes.gauss, nodes.slope, nodes.label_noise,
                     nodes.chi, nodes.rivals, thorough)  # fmt: skip
        return self._average("minimize_nodes", self._parameters(overlaps), arguments, len(OUTPUTS))

    def attention(self, overlaps: Mapping[str, float]) -> dict[str, float]:
        """Mean weight of the hidden token, mean of its square, mean sum of squares, on data that was not trained on."""
        parameters, total = self._parameters(overlaps), np.zeros(3)
        for length, p in self.task.lengths:
            nodes = self.nodes[length]
            total += p * self._average("attend_nodes", parameters, (nodes.truth, nodes.noise), 3)
        return dict(zip(("hidden", "hidden_square", "squares"), map(float, total), strict=True))

    def _average(
        self, name: str, parameters: np.ndarray, fields: tuple[Any, ...], outputs: int
    ) -> np.ndarray:
        """Mean over the nodes: chunks shared out over threads, added in a fixed order."""
        count_nodes = len(fields[0])
        chunks = -(-count_nodes // CHUNK)
        out = np.empty((chunks, outputs))
        run: Any = getattr(self.program._module, name)
        arguments: Any = (parameters, *fields, out)
        pool: Any
        pool, count = _threads()
        edges = np.linspace(0, chunks, min(4 * count, chunks) + 1).astype(int)
        jobs = [pool.submit(run, *arguments, int(a), int(b)) for a, b in pairwise(edges)]
        for job in jobs:
            job.result()
        return out.sum(axis=0) / count_nodes

    def jumps(self) -> dict[str, float]:
        """What jumps of the minimizer add to E div f, and how often one is met per unit of the fields.

        A jump is met where two minima have equal values: the density of their difference at 0, from the nodes
        where it is small. ``events`` is their number, which limits the accuracy.
        """
        found = dict.fromkeys(("k", "v", "rate", "roughness", "events"), 0.0)
        for length, p in self.task.lengths:
            gap, key, value = self.nodes[length].rivals.T
            width = next((w for w in _WIDTHS if np.count_nonzero(gap < w) >= _EVENTS), _WIDTHS[-1])
            near = gap < width
            scale = p / (2 * width * len(gap))
            found["k"] += scale * float(key[near].sum())
            found["v"] += scale * float(value[near].sum())
            found["rate"] += scale * float(np.sqrt(key[near]).sum())
            found["roughness"] += scale * float((key[near] ** 1.5).sum())
            found["events"] += int(near.sum())
        return found


def draw_samples(
    task: Task, activation: Activation, exponent: int, scramblings: int, seed: int
) -> list[Sample]:
    """Independent samples, one for each scrambling."""
    extra = 0 if isinstance(task, Spiked) or math.isinf(task.nu) else 1
    points = {
        length: sobol_points(3 * length + 1 + extra, exponent, scramblings, seed)
        for length, _ in task.lengths
    }
    return [Sample(task, activation, {n: p[i] for n, p in points.items()}) for i in range(scramblings)]
