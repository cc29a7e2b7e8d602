"""Sample means with standard errors, accumulated over chunks in a fixed order.

The chunks may be worked on by any number of threads; their moments are merged by chunk number, so the result
does not depend on the threads to the last bit. Squares are centred on the mean of their chunk (no
cancellation), and merged by the update of Chan, Golub and LeVeque.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from theorykit.results import Estimate

__all__ = ["Moments", "available_cores", "average_chunks"]


@dataclass(frozen=True)
class Moments:
    """Count, means and centred sums of squares of several observables (arrays over observables)."""

    count: int
    mean: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, observations: np.ndarray) -> Moments:
        """Moments of `observations`, shape (observables, samples)."""
        mean = observations.mean(axis=1)
        # The mean is rounded; correcting it makes the variance of a constant observable zero exactly.
        mean = mean + (observations - mean[:, None]).mean(axis=1)
        centred = observations - mean[:, None]
        return cls(observations.shape[1], mean, np.einsum("os,os->o", centred, centred))

    def merge(self, other: Moments) -> Moments:
        """Moments of both sets of samples together."""
        count = self.count + other.count
        step = other.mean - self.mean
        mean = self.mean + step * (other.count / count)
        squares = self.squares + other.squares + step**2 * (self.count * other.count / count)
        return Moments(count, mean, squares)

    def estimates(self) -> list[Estimate]:
        """One `Estimate` per observable: mean and standard error of the mean."""
        scale = 1.0 / (self.count * (self.count - 1))
        return [
            Estimate(float(mean), math.sqrt(float(square) * scale), "standard error")
            for mean, square in zip(self.mean, self.squares, strict=True)
        ]


def average_chunks(
    observe: Callable[[int, int], np.ndarray], sizes: Sequence[int], threads: int | None = None
) -> Moments:
    """Merge the moments of `observe(chunk, size)` over all chunks, in the order of the chunks.

    Parameters
    ----------
    observe : callable
        Returns the observations of one chunk, shape (observables, size). It must depend on its arguments
        only.
    sizes : sequence of int
        Number of samples of each chunk.
    threads : int, optional
        Number of threads; by default the number of cores this process may use. The result does not depend on
        it.
    """

    def moments(chunk: int) -> Moments:
        return Moments.of(observe(chunk, sizes[chunk]))

    workers = min(available_cores() if threads is None else threads, len(sizes))
    if workers == 1:
        return _merge_all(map(moments, range(len(sizes))))
    with ThreadPoolExecutor(workers) as pool:
        try:
            return _merge_all(pool.map(moments, range(len(sizes))))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _merge_all(parts) -> Moments:
    total: Moments | None = None
    for part in parts:
        total = part if total is None else total.merge(part)
    if total is None:
        raise ValueError("there must be at least one chunk")
    return total


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
