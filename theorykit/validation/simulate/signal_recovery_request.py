"""What a simulation of signal recovery is asked for: plain data, checked before any work."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from theorykit.errors import require_integer, require_real
from theorykit.formula import parse

__all__ = ["Sequences", "Weights", "read_sequences", "read_start", "read_step_sizes", "uniform_overlap"]

_SPACING = (
    1e-4  # of the difference quotient of a kernel: its error ~ spacing**4 is far below any sampling error
)


@dataclass(frozen=True)
class Weights:
    """Normalized attention weights phi(beta t)/sum phi(beta t) and how the scores move them."""

    beta: float
    kernel: str
    function: Callable[[np.ndarray], np.ndarray] | None

    @property
    def is_softmax(self) -> bool:
        """Whether phi is the exponential, for which there is a compiled chain."""
        return self.function is None

    def __call__(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights a_i, and d_i with da_i/dt_j = delta_ij d_i - a_i d_j."""
        if self.function is None:
            odds = np.exp(self.beta * (scores - scores.max()))
            weights = odds / odds.sum()
            return weights, self.beta * weights
        x, h = self.beta * scores, _SPACING
        values = self._values(x)
        slope = (
            8 * (self._values(x + h) - self._values(x - h))
            - self._values(x + 2 * h)
            + self._values(x - 2 * h)
        ) / (12 * h)
        total = values.sum()
        if not total > 0.0:
            raise ValueError(f"kernel {self.kernel!r} vanishes on all {scores.size} tokens of a sequence")
        return values / total, self.beta * slope / total

    def _values(self, x: np.ndarray) -> np.ndarray:
        assert self.function is not None
        with np.errstate(all="ignore"):  # what goes wrong is reported below, with its place
            values = np.broadcast_to(np.asarray(self.function(x), dtype=float), x.shape)
        bad = ~(np.isfinite(values) & (values >= 0.0))
        if bad.any():
            raise ValueError(
                f"kernel {self.kernel!r} must be finite and not negative where it is sampled; "
                f"at t = {float(x[bad][0])!r} it is {float(values[bad][0])!r}"
            )
        return values


@dataclass(frozen=True)
class Sequences:
    """Law of the sequences and of the query: L tokens in R**d, R of them shifted by theta xi."""

    theta: float
    informative: int
    tokens: int
    dimension: int
    weights: Weights


def read_sequences(
    theta: Any, informative: Any, tokens: Any, dimension: Any, beta: Any, kernel: Any
) -> Sequences:
    """Check the model: theta > 0, 1 <= informative < tokens, dimension >= 3, beta > 0, "exp" or a formula in t."""
    tokens = require_integer("tokens", tokens, low=2)
    informative = require_integer("informative", informative, low=1, high=tokens - 1)
    dimension = require_integer("dimension", dimension, low=3)
    theta = require_real("theta", theta, low=0.0, low_open=True)
    beta = require_real("beta", beta, low=0.0, low_open=True)
    if isinstance(kernel, str) and kernel.strip() == "exp":
        return Sequences(theta, informative, tokens, dimension, Weights(beta, "exp", None))
    parsed = parse(kernel, variable="t")
    function = None if parsed.text == "exp(t)" else parsed.evaluate
    return Sequences(theta, informative, tokens, dimension, Weights(beta, parsed.text, function))


def read_step_sizes(step_size: Any, steps: int) -> np.ndarray:
    """The step sizes of steps 1, 2, ..., ``steps``: of a number, a function of the step, or an array of them."""
    if callable(step_size):
        values = [require_real(f"step_size({k})", step_size(k), low=0.0) for k in range(1, steps + 1)]
        return np.array(values, dtype=float)
    if np.ndim(step_size) == 0:
        return np.full(steps, require_real("step_size", step_size, low=0.0))
    if np.shape(step_size) != (steps,):
        raise ValueError(
            f"step_size must be a number, a function of the step or {steps} numbers, "
            f"got the shape {np.shape(step_size)}"
        )
    return np.array([require_real(f"step_size[{i}]", v, low=0.0) for i, v in enumerate(step_size)])


def read_start(start: Any) -> float | None:
    """The overlap at the start, or None for a query uniform on the sphere."""
    if isinstance(start, str):
        if start != "uniform":
            raise ValueError(f"start must be a number in [-1, 1] or 'uniform', got {start!r}")
        return None
    return require_real("start", start, low=-1.0, high=1.0)


def uniform_overlap(stream: np.random.Generator, dimension: int) -> float:
    """First coordinate of a point uniform on the unit sphere of R**dimension."""
    first = stream.standard_normal()
    return float(first / math.sqrt(first**2 + stream.chisquare(dimension - 1)))
