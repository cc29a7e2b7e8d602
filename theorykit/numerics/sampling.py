"""Frozen nodes for averages of many dimensions: scrambled Sobol points, several scramblings for an error.

Each scrambling is an unbiased estimate of the same average; their spread is its error.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["SOBOL_DIMENSIONS", "sobol_points", "spread"]

SOBOL_DIMENSIONS = 21_201  # the tables of the generator go no further


def sobol_points(dimensions: int, exponent: int, scramblings: int, seed: int) -> list[np.ndarray]:
    """2**exponent points in the open unit cube for each scrambling, shape (points, dimensions).

    Parameters
    ----------
    seed : int
        The scrambling number i draws from the stream ``SeedSequence(seed, spawn_key=(i,))``: more scramblings keep the
        earlier ones.
    """
    from scipy.stats import qmc

    if not 1 <= dimensions <= SOBOL_DIMENSIONS:
        raise ValueError(f"dimensions must be an integer in [1, {SOBOL_DIMENSIONS}], got {dimensions}")
    found = []
    for index in range(scramblings):
        stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))
        sampler = qmc.Sobol(dimensions, scramble=True, bits=52, seed=stream)
        found.append(np.clip(sampler.random_base2(exponent), 2.0**-53, 1 - 2.0**-53))
    return found


def spread(values: np.ndarray) -> tuple[float, float]:
    """Mean and standard error over scramblings."""
    values = np.asarray(values, dtype=float)
    if values.size < 2:
        return float(values.mean()), math.inf
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size))
