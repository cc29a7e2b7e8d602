"""Tokens of single-location regression, drawn in D dimensions by a compiled kernel.

Every token is a vector of D independent Gaussian numbers, of which only the projections on the columns of
`vectors` are kept; memory grows with the length of the sequence, not with the dimension. The kernel is
compiled on first use.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from theorykit.validation.simulate.compiled import compile_kernel

__all__ = ["ARGMAX", "MAX", "SPIKED", "draw_tokens"]

SPIKED, MAX, ARGMAX = 0, 1, 2  # the law of the hidden location; ARGMAX is MAX at infinite signal strength


def draw_tokens(
    stream: np.random.Generator, law: int, strength: float, vectors: np.ndarray, length: int, samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """Projections of the tokens, and the hidden locations, of `samples` sequences.

    Parameters
    ----------
    stream : Generator
        Source of all random numbers; it advances.
    law : {SPIKED, MAX, ARGMAX}
        SPIKED: the location is uniform, its token is shifted by `strength` times the first column of
        `vectors`. MAX: the location maximizes `strength` times the first projection plus a Gumbel variable,
        which gives it the softmax probabilities. ARGMAX: it maximizes the first projection.
    strength : float
        sqrt(nu) for SPIKED, nu for MAX, ignored by ARGMAX.
    vectors : array, shape (dimension, fields)
        Directions to project on, k*/sqrt(D) first.
    length, samples : int
        Tokens per sequence and number of sequences.

    Returns
    -------
    fields : array, shape (fields, length, samples)
    hidden : array of int, shape (samples,)
    """
    fields = np.empty((vectors.shape[1], length, samples))
    hidden = np.empty(samples, dtype=np.int64)
    _compiled_kernel()(
        stream, law, float(strength), np.ascontiguousarray(vectors, dtype=float), fields, hidden
    )
    return fields, hidden


def _draw(generator, law, strength, vectors, fields, hidden):
    count, length, samples = fields.shape
    dimension = vectors.shape[0]
    token = np.empty(dimension)
    for sample in range(samples):
        location = 0
        if law == SPIKED:
            location = generator.integers(0, length)
        for place in range(length):
            for axis in range(dimension):
                token[axis] = generator.standard_normal()
            if law == SPIKED and place == location:
                for axis in range(dimension):
                    token[axis] += strength * vectors[axis, 0]
            for field in range(count):
                total = 0.0
                for axis in range(dimension):
                    total += token[axis] * vectors[axis, field]
                fields[field, place, sample] = total
        if law != SPIKED:
            top = 0
            for place in range(length):
                if fields[0, place, sample] > fields[0, top, sample]:
                    top = place
            location = top
            if law == MAX:
                # Measured from the largest field, so that no strength overflows to equal infinities.
                best = -np.inf
                for place in range(length):
                    gumbel = -math.log(generator.standard_exponential())
                    score = strength * (fields[0, place, sample] - fields[0, top, sample]) + gumbel
                    if score > best:
                        best = score
                        location = place
        hidden[sample] = location


@functools.cache
def _compiled_kernel() -> Any:
    import numba

    generator = numba.typeof(np.random.default_rng(0))
    signature = (
        *(generator, numba.int64, numba.float64, numba.float64[:, ::1]),
        *(numba.float64[:, :, ::1], numba.int64[::1]),
    )
    return compile_kernel(_draw, signature)
