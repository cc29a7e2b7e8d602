"""One draw of the finite model: tokens, labels and the attention matrix, as defined.

X = mu y^T + Z is p x n with independent entries of Z; the attention matrix is f(X^T W X/sqrt(p))/sqrt(p) entry by
entry, with its diagonal masked, kept or set, or a softmax over rows or columns times n/sqrt(p).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from theorykit.validation.simulate.attention_request import Request

__all__ = ["Draw", "attention_matrix", "draw", "noise_entries"]


@dataclass(frozen=True)
class Draw:
    """Tokens as columns, shape (p, n), labels +-1, shape (n,), and the attention matrix, shape (n, n)."""

    tokens: np.ndarray
    labels: np.ndarray
    attention: np.ndarray


def draw(request: Request, stream: np.random.Generator, weights: np.ndarray | None = None) -> Draw:
    """Tokens, labels and attention matrix of one trial.

    With ``weights``, a p x p matrix, it takes the place of I + w_K w_Q^T.
    """
    p, n = request.dimension, request.tokens
    directions = np.linalg.qr(stream.standard_normal((p, 3)))[0]
    signal, key, query = (directions @ row for row in request.frame)
    labels = np.ones(n)
    labels[request.positive :] = -1.0
    tokens = noise_entries(request.noise, stream, (p, n))
    tokens += np.outer(signal, labels)
    if weights is None:
        scores = tokens.T @ tokens + np.outer(key @ tokens, query @ tokens)
    else:
        scores = tokens.T @ (weights @ tokens)
    return Draw(tokens, labels, attention_matrix(request, scores / math.sqrt(p)))


def noise_entries(law: str, stream: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Independent entries of mean 0 and variance 1."""
    draws: dict[str, Callable[[], np.ndarray]] = {
        "gaussian": lambda: stream.standard_normal(shape),
        "rademacher": lambda: 2.0 * stream.integers(0, 2, shape) - 1.0,
        "uniform": lambda: stream.uniform(-math.sqrt(3.0), math.sqrt(3.0), shape),
        "student5": lambda: math.sqrt(3.0 / 5.0) * stream.standard_t(5, shape),
    }
    return draws[law]()


def attention_matrix(request: Request, scores: np.ndarray) -> np.ndarray:
    """From scores x_i . W x_j/sqrt(p) (rows: keys) to the matrix K."""
    build = _softmax if request.attention == "softmax" else _entrywise
    return build(request, scores)


def _entrywise(request: Request, scores: np.ndarray) -> np.ndarray:
    root = math.sqrt(request.dimension)
    values = request.formula.evaluate(scores)
    bad = ~np.isfinite(values)
    if request.diagonal != "kept":
        np.fill_diagonal(bad, False)
    if bad.any():
        raise ValueError(
            f"formula {request.formula.text!r} must be finite at all scores, it is {float(values[bad][0])!r} at "
            f"x = {float(scores[bad][0])!r}; take fewer tokens or a weaker signal"
        )
    if request.centering != "none":
        values -= request.mean
    matrix = values / root
    if request.diagonal != "kept":
        np.fill_diagonal(matrix, 0.0 if request.diagonal == "zero" else request.diagonal)
    if request.centering == "row":
        matrix -= matrix.mean(axis=1, keepdims=True)
    elif request.centering == "column":
        matrix -= matrix.mean(axis=0, keepdims=True)
    return matrix


def _softmax(request: Request, scores: np.ndarray) -> np.ndarray:
    """Softmax with a masked diagonal, over rows (or over columns where those are centred)."""
    axis = 0 if request.centering == "column" else 1
    masked = scores.copy()
    np.fill_diagonal(masked, -np.inf)
    masked -= masked.max(axis=axis, keepdims=True)
    weights = np.exp(masked)
    weights /= weights.sum(axis=axis, keepdims=True)
    if request.centering != "none":
        weights -= 1.0 / request.tokens
    return weights * (request.tokens / math.sqrt(request.dimension))
