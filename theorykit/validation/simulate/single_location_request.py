"""What a simulation of single-location regression is asked for: plain data, checked before any work.

Stages: mappings of numbers and names -> `Task`, `Weights`, `teacher_and_student` (all checked). The checks
are this simulator's own, because it shares nothing with the theory it tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from theorykit.errors import require_integer, require_real
from theorykit.formula import parse

__all__ = [
    "ACTIVATIONS",
    "OVERLAPS",
    "Task",
    "Weights",
    "read_activation",
    "read_task",
    "teacher_and_student",
]

OVERLAPS = ("m_k", "q_k", "m_v", "q_v", "m_kv", "m_vk", "q_kv")
_REQUIRED_OVERLAPS = OVERLAPS[:4]
_ROUNDING = 1e-12  # relative size of a Gram defect that is put down to rounding of the given overlaps


@dataclass(frozen=True)
class Task:
    """Law of tokens, hidden location and label; `kind` is "spiked" or "max"."""

    kind: str
    nu: float
    lengths: tuple[int, ...]
    probabilities: tuple[float, ...]
    noise: float


def read_task(task: Mapping[str, object]) -> Task:
    """Check `{"kind", "nu", "length", "noise"}`; `length` is an integer or maps lengths to probabilities."""
    _refuse_unknown("task", task, ("kind", "nu", "length", "noise"), ("kind", "nu", "length"))
    kind = _choice("task kind", task["kind"], ("spiked", "max"))
    nu = require_real("nu", task["nu"], low=0.0, allow_inf=kind == "max")
    noise = require_real("noise", task.get("noise", 0.0), low=0.0)
    length = task["length"]
    if not isinstance(length, Mapping):
        return Task(kind, nu, (require_integer("length", length, low=1),), (1.0,), noise)
    if not length:
        raise ValueError(
            "length must be an integer or a non-empty mapping from length to probability, got {}"
        )
    lengths = tuple(require_integer("length", value, low=1) for value in length)
    weights = [
        require_real(f"probability of length {key}", p, low=0.0, high=1.0) for key, p in length.items()
    ]
    total = math.fsum(weights)
    if abs(total - 1.0) > 1e-9:
        raise ValueError(f"probabilities of length must sum to 1, got {total!r}")
    return Task(kind, nu, lengths, tuple(weight / total for weight in weights), noise)


@dataclass(frozen=True)
class Weights:
    """Attention weights sigma(chi), one per token, from the scores chi of shape (length, samples)."""

    name: str
    function: Callable[[np.ndarray], np.ndarray]
    normalized: bool

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):  # what goes wrong is reported below, with its place
            values = np.broadcast_to(np.asarray(self.function(scores), dtype=float), scores.shape)
        bad = ~np.isfinite(values) | (values < 0.0 if self.normalized else False)
        if bad.any():
            allowed = "finite and not negative" if self.normalized else "finite"
            raise ValueError(
                f"activation {self.name} must be {allowed} where it is sampled; "
                f"at x = {scores[bad][0]!r} it is {values[bad][0]!r}"
            )
        if not self.normalized:
            return values
        total = values.sum(axis=0)
        if not (total > 0.0).all():
            where = scores[:, np.argmin(total)]
            raise ValueError(
                f"activation {self.name} vanishes on all tokens of a sequence, at x = {where.tolist()}"
            )
        return values / total


def _softmax(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores - scores.max(axis=0))


def _linear(scores: np.ndarray) -> np.ndarray:
    return 1.0 + scores


def _softplus(scores: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, scores)


def _shifted_erf(shift: float) -> Callable[[np.ndarray], np.ndarray]:
    from scipy.special import erf

    return lambda scores: 1.0 + erf(shift + scores)


ACTIVATIONS = ("softmax", "linear", "erf", "softplus", "elementwise", "normalized_kernel")
_PLAIN = {"softmax": (_softmax, True), "linear": (_linear, False), "softplus": (_softplus, True)}


def read_activation(activation: Mapping[str, object]) -> Weights:
    """Check `{"kind", "shift", "formula"}`; what a kind does not use is absent, None or (shift) zero."""
    _refuse_unknown("activation", activation, ("kind", "shift", "formula"), ("kind",))
    kind = _choice("activation kind", activation["kind"], ACTIVATIONS)
    shift, formula = activation.get("shift"), activation.get("formula")
    if kind in ("elementwise", "normalized_kernel"):
        if formula is None:
            raise ValueError(f"activation kind {kind!r} needs a formula in x")
    elif formula is not None:
        raise ValueError(f"activation kind {kind!r} takes no formula, got {formula!r}")
    amount = 0.0 if shift is None else require_real("shift", shift)
    if kind == "erf":
        return Weights("erf", _shifted_erf(amount), False)
    if amount != 0.0:
        raise ValueError(f"activation kind {kind!r} takes no shift, got {shift!r}")
    if kind in _PLAIN:
        function, normalized = _PLAIN[kind]
        return Weights(kind, function, normalized)
    parsed = parse(formula, variable="x")
    return Weights(f"{kind} {parsed.text!r}", parsed.evaluate, kind == "normalized_kernel")


def teacher_and_student(overlaps: Mapping[str, object]) -> np.ndarray:
    """Components of k*, v*, k, v over sqrt(D) along four orthonormal directions: the rows of a 4 x 4 matrix.

    The Gram matrix of the rows is the given one: k* and v* are the first two directions; k and v add the
    other two. Overlaps of no vectors (a Gram matrix with a negative eigenvalue) raise ValueError.
    """
    _refuse_unknown("overlaps", overlaps, OVERLAPS, _REQUIRED_OVERLAPS)
    m_k, q_k, m_v, q_v, m_kv, m_vk, q_kv = (
        require_real(name, overlaps.get(name, 0.0), low=0.0 if name in ("q_k", "q_v") else None)
        for name in OVERLAPS
    )
    centre = m_k * m_vk + m_kv * m_v
    rest = np.array(
        [
            [_remainder("q_k", q_k, "m_k**2 + m_kv**2", m_k**2 + m_kv**2), q_kv - centre],
            [q_kv - centre, _remainder("q_v", q_v, "m_v**2 + m_vk**2", m_v**2 + m_vk**2)],
        ]
    )
    scale = np.array([math.sqrt(q) if q > 0.0 else 1.0 for q in (q_k, q_v)])
    spectrum, axes = np.linalg.eigh(rest / np.outer(scale, scale))
    if spectrum[0] < -_ROUNDING:
        reach = math.sqrt(max(rest[0, 0], 0.0)) * math.sqrt(max(rest[1, 1], 0.0))
        raise ValueError(
            f"q_kv must be a real number in [{centre - reach!r}, {centre + reach!r}] for these overlaps, "
            f"got {q_kv!r}"
        )
    # Rounding of the overlaps may leave a tiny negative eigenvalue where k or v has no component of its own.
    root = scale[:, None] * (axes * np.sqrt(np.maximum(spectrum, 0.0))) @ axes.T
    return np.vstack([np.eye(2, 4), np.hstack([[[m_k, m_kv], [m_vk, m_v]], root])])


def _remainder(name: str, square: float, text: str, explained: float) -> float:
    rest = square - explained
    if rest < -_ROUNDING * explained:
        raise ValueError(f"{name} must be at least {text} = {explained!r}, got {square!r}")
    return rest


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
    return value


def _refuse_unknown(name: str, given: object, allowed: tuple[str, ...], required: tuple[str, ...]) -> None:
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must be a mapping with the entries {', '.join(allowed)}, got {given!r}")
    unknown = [key for key in given if key not in allowed]
    if unknown:
        raise ValueError(f"{name} has the unknown entry {unknown[0]!r}; allowed: {', '.join(allowed)}")
    missing = [key for key in required if key not in given]
    if missing:
        raise ValueError(f"{name} lacks the entry {missing[0]!r}; required: {', '.join(required)}")
