"""Regularized loss of attention on given data, with its gradient: one compiled pass over the tokens.

Input: tokens and labels, an activation as plain data, two penalties; output: a function of the two trainable vectors.
The tokens are read from memory once: a few samples at a time, small enough to stay in the cache, are met by both
vectors, then weighted into both gradients.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from theorykit.codegen.formulas import load_with_formula
from theorykit.formula import parse

__all__ = ["Data", "Objective"]

_BLOCKS = 8  # the gradient is added up in so many parts, whatever the number of threads
_CHUNK = 12_000  # numbers in the tokens that are worked on at a time: 96 kB, a part of a core's own cache
_FORMULAS = {"softmax": "exp(x)", "softplus": "softplus(x)", "linear": "1 + x", "erf": "1 + erf(x)"}

# Sums may be taken in any order here (and only here), which lets the compiler use vector instructions. Four rows at
# a time: every number of the vectors, or of the gradients, that is loaded serves four tokens.
_TEMPLATE = """
@njit(fastmath={"reassoc", "contract", "nsz"}, error_model="numpy", boundscheck=False)
def fields_of(rows, lo, hi, both, scale, chi, z):
    dimension = rows.shape[1]
    r = lo
    while r + 4 <= hi:
        k0 = k1 = k2 = k3 = v0 = v1 = v2 = v3 = 0.0
        for a in range(dimension):
            k, v = both[0, a], both[1, a]
            x0, x1, x2, x3 = rows[r, a], rows[r + 1, a], rows[r + 2, a], rows[r + 3, a]
            k0 += x0 * k
            k1 += x1 * k
            k2 += x2 * k
            k3 += x3 * k
            v0 += x0 * v
            v1 += x1 * v
            v2 += x2 * v
            v3 += x3 * v
        at = r - lo
        chi[at], chi[at + 1], chi[at + 2], chi[at + 3] = k0 * scale, k1 * scale, k2 * scale, k3 * scale
        z[at], z[at + 1], z[at + 2], z[at + 3] = v0 * scale, v1 * scale, v2 * scale, v3 * scale
        r += 4
    while r < hi:
        k0 = v0 = 0.0
        for a in range(dimension):
            k0 += rows[r, a] * both[0, a]
            v0 += rows[r, a] * both[1, a]
        chi[r - lo], z[r - lo] = k0 * scale, v0 * scale
        r += 1


@njit(fastmath={"reassoc", "contract", "nsz"}, error_model="numpy", boundscheck=False)
def add_rows(rows, lo, hi, to_k, to_v, gradient):
    dimension = rows.shape[1]
    r = lo
    while r + 4 <= hi:
        at = r - lo
        k0, k1, k2, k3 = to_k[at], to_k[at + 1], to_k[at + 2], to_k[at + 3]
        v0, v1, v2, v3 = to_v[at], to_v[at + 1], to_v[at + 2], to_v[at + 3]
        for a in range(dimension):
            x0, x1, x2, x3 = rows[r, a], rows[r + 1, a], rows[r + 2, a], rows[r + 3, a]
            gradient[0, a] += k0 * x0 + k1 * x1 + k2 * x2 + k3 * x3
            gradient[1, a] += v0 * x0 + v1 * x1 + v2 * x2 + v3 * x3
        r += 4
    while r < hi:
        k0, v0 = to_k[r - lo], to_v[r - lo]
        for a in range(dimension):
            gradient[0, a] += k0 * rows[r, a]
            gradient[1, a] += v0 * rows[r, a]
        r += 1


@njit(error_model="numpy", boundscheck=False)
def loss_of(label, chi, z, to_k, to_v, length, scale, shift, normalized):
    top = -np.inf
    for l in range(length):
        top = max(top, chi[l])
    total = 0.0
    for l in range(length):
        x = chi[l] - top if SHIFTABLE else chi[l] + shift
        to_v[l] = value(x)
        to_k[l] = slope(x)
        total += to_v[l]
    output = 0.0
    for l in range(length):
        if normalized:
            to_v[l] /= total
            to_k[l] /= total
        output += to_v[l] * z[l]
    rest = label - output
    centre = output if normalized else 0.0
    for l in range(length):
        to_k[l] *= -rest * (z[l] - centre) * scale
        to_v[l] *= -rest * scale
    return 0.5 * rest * rest


@njit("void(float64[:, :, ::1], float64[::1], float64[:, ::1], float64, boolean, int64, float64[:, :, ::1], "
      "float64[::1], int64, int64)", nogil=True, cache=True, error_model="numpy", boundscheck=False)
def loss_and_gradient(tokens, labels, both, shift, normalized, chunk, gradients, losses, lo, hi):
    samples, length, dimension = tokens.shape
    rows = tokens.reshape(samples * length, dimension)
    blocks = losses.shape[0]
    scale = 1.0 / math.sqrt(dimension)
    chi, z, to_k, to_v = np.empty((4, chunk * length))
    for block in range(lo, hi):
        gradients[block] = 0.0
        losses[block] = 0.0
        last = (block + 1) * samples // blocks
        for first in range(block * samples // blocks, last, chunk):
            end = min(first + chunk, last)
            fields_of(rows, first * length, end * length, both, scale, chi, z)
            for i in range(first, end):
                at = (i - first) * length
                losses[block] += loss_of(
                    labels[i], chi[at:], z[at:], to_k[at:], to_v[at:], length, scale, shift, normalized
                )
            add_rows(rows, first * length, end * length, to_k, to_v, gradients[block])
"""


@dataclass(frozen=True)
class Data:
    """Training data: for each length the tokens (samples, L, D) and labels. k* and v* are the first two axes."""

    parts: tuple[tuple[np.ndarray, np.ndarray], ...]

    @property
    def samples(self) -> int:
        return sum(len(labels) for _, labels in self.parts)


class Objective:
    """Regularized loss per dimension and its gradient, as a function of (k, v) flattened."""

    def __init__(self, data: Data, activation: Mapping[str, Any], ridge_k: float, ridge_v: float) -> None:
        self.data, self.ridges = data, (ridge_k, ridge_v)
        kind = str(activation["kind"])
        self.shift = float(activation.get("shift") or 0.0)
        self.normalized = kind in ("softmax", "softplus", "normalized_kernel")
        text = str(_FORMULAS.get(kind, activation.get("formula")))
        # exp can be shifted by any common amount, which keeps it from overflowing
        self.kernel = _kernel(text, kind == "softmax")
        self.kinked = bool(parse(text).kinks())
        self.dimension = data.parts[0][0].shape[2]

    def losses(self, both: np.ndarray) -> tuple[float, np.ndarray]:
        """Sum of the losses of the samples and its gradient, shape (2, D); the same for any number of threads."""
        total, gradient = 0.0, np.zeros((2, self.dimension))
        pool, threads = _pool()
        for tokens, labels in self.data.parts:
            gradients, losses = np.empty((_BLOCKS, 2, self.dimension)), np.empty(_BLOCKS)
            chunk = max(1, _CHUNK // (tokens.shape[1] * self.dimension))
            fixed = (tokens, labels, both, self.shift, self.normalized, chunk, gradients, losses)
            if threads == 1 or tokens.size < _CHUNK:
                self.kernel(*fixed, 0, _BLOCKS)
            else:
                edges = np.linspace(0, _BLOCKS, min(threads, _BLOCKS) + 1).astype(int)
                jobs = [pool.submit(self.kernel, *fixed, int(a), int(b)) for a, b in pairwise(edges)]
                for job in jobs:
                    job.result()
            total += float(losses.sum())
            gradient += gradients.sum(axis=0)
        return total, gradient

    def __call__(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        both = np.ascontiguousarray(flat.reshape(2, self.dimension))
        value, gradient = self.losses(both)
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
