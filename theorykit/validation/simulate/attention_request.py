"""What a simulation of the interpolation error is asked for: plain data, checked before any work.

Stages: mappings of numbers and names -> `Request`. The checks and the mean of f are this simulator's own, because
it shares nothing with the theory it tests.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from theorykit.errors import require_integer, require_real
from theorykit.formula import Formula, parse

__all__ = ["NOISES", "Request", "gaussian_mean", "read_request"]

#: Law of the noise entries (mean 0, variance 1) -> variance of their squares.
NOISES = {"gaussian": 2.0, "rademacher": 0.0, "uniform": 0.8, "student5": 8.0}
ATTENTIONS = ("entrywise", "softmax")
CENTERINGS = ("entry", "row", "column", "none")
_SOFTMAX_MAP = Formula("exp(x - 1/2) - 1")
_REACH, _POINTS = 12.0, 2_000_001
_ROUNDING = 1e-9
_ENTRIES = ("formula", "ratio", "gram", "label_mean", "square_variance", "diagonal", "centering")


@dataclass(frozen=True)
class Request:
    """The finite model. `frame` has the components of mu, w_K, w_Q along three orthonormal directions, as rows."""

    formula: Formula
    mean: float
    tokens: int
    dimension: int
    frame: np.ndarray
    positive: int
    diagonal: str | float
    centering: str
    noise: str
    attention: str


def read_request(model: Mapping[str, object], tokens: object, noise: object, attention: object) -> Request:
    """Check a model given as plain data.

    `model` has the entries `formula` (text in x), `ratio` p/n, `gram` (scalar products of mu, w_K, w_Q),
    `label_mean`, `square_variance`, `diagonal` ("zero", "kept" or a number) and `centering`.
    """
    missing = [name for name in _ENTRIES if name not in model]
    if missing or len(model) != len(_ENTRIES):
        raise ValueError(
            f"model must have the entries {', '.join(_ENTRIES)}, got {', '.join(map(str, model))}"
        )
    formula = parse(model["formula"])  # type: ignore[arg-type]
    count = require_integer("tokens", tokens, low=4)
    ratio = require_real("ratio", model["ratio"], low=0, low_open=True)
    dimension = round(ratio * count)
    if dimension < 4:
        raise ValueError(
            f"tokens must make ratio * tokens at least 4 dimensions, got {count} at ratio {ratio!r}"
        )
    mean = gaussian_mean(formula)
    law = _noise(noise, model["square_variance"])
    label_mean = require_real("label_mean", model["label_mean"], low=-1, high=1)
    diagonal = model["diagonal"]
    if diagonal not in ("zero", "kept"):
        diagonal = require_real("diagonal", diagonal)
    centering = _choice("centering", model["centering"], CENTERINGS)
    kind = _choice("attention", attention, ATTENTIONS)
    if kind == "softmax":
        centering = _softmax_centering(formula, diagonal, centering, label_mean)
    elif centering == "none" and abs(mean) < _ROUNDING:
        raise ValueError(
            f"centering 'none' keeps the mean of f, which is zero for {formula.text!r}: give attention='softmax', "
            "or a formula with a mean"
        )
    positive = round(count * (1 + label_mean) / 2)
    return Request(
        formula, mean, count, dimension, _frame(model["gram"]), positive, diagonal, centering, law, kind  # type: ignore[arg-type]
    )  # fmt: skip


@functools.lru_cache(maxsize=64)
def gaussian_mean(formula: Formula) -> float:
    """E f(xi), by the midpoint rule on a grid fine enough for kinks and jumps."""
    step = 2 * _REACH / _POINTS
    points = -_REACH + step * (np.arange(_POINTS) + 0.5)
    density = np.exp(-points * points / 2) * step / math.sqrt(2 * math.pi)
    mean = float(np.sum(density * formula.evaluate(points)))
    if not math.isfinite(mean):
        raise ValueError(f"formula must be finite for |x| <= {_REACH:g}, got {formula.text!r}")
    return mean


def _noise(noise: object, square_variance: object) -> str:
    law = _choice("noise", noise, tuple(NOISES))
    given = require_real("square_variance", square_variance, low=0)
    if abs(given - NOISES[law]) > _ROUNDING:
        raise ValueError(f"square_variance must be {NOISES[law]:g} for noise {law!r}, got {given!r}")
    return law


def _softmax_centering(formula: Formula, diagonal: object, centering: str, label_mean: float) -> str:
    if formula != _SOFTMAX_MAP:
        raise ValueError(f"attention 'softmax' needs the formula {_SOFTMAX_MAP.text!r}, got {formula.text!r}")
    if diagonal not in ("zero", 0.0):
        raise ValueError(f"attention 'softmax' needs diagonal 'zero' (it is masked), got {diagonal!r}")
    if centering != "entry":
        return centering
    if label_mean != 0:
        raise ValueError(
            "attention 'softmax' with label_mean different from 0 needs centering 'row', 'column' or 'none': their "
            "limits differ, and none of them is that of 'entry'"
        )
    return "none"  # balanced labels do not see the mean


def _frame(gram: object) -> np.ndarray:
    """Rows with the given scalar products: the symmetric root of the Gram matrix."""
    if not isinstance(gram, Sequence | np.ndarray):
        raise TypeError(f"gram must be a 3 x 3 matrix, got {gram!r}")
    matrix = np.array(gram, dtype=float)
    if matrix.shape != (3, 3) or not np.isfinite(matrix).all() or not np.array_equal(matrix, matrix.T):
        raise ValueError(f"gram must be a finite symmetric 3 x 3 matrix, got {gram!r}")
    values, axes = np.linalg.eigh(matrix)
    if values[0] < -1e-10 * max(1.0, values[-1]):
        raise ValueError(f"gram must be scalar products of three vectors, got the eigenvalue {values[0]:.3g}")
    return (axes * np.sqrt(np.maximum(values, 0.0))) @ axes.T


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    wanted = f"{name} must be one of {', '.join(map(repr, allowed))}"
    if not isinstance(value, str):
        raise TypeError(f"{wanted}, got {value!r} ({type(value).__name__})")
    if value not in allowed:
        raise ValueError(f"{wanted}, got {value!r}")
    return value
