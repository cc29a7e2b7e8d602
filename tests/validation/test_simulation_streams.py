"""Seeds, chunks and the averages over them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from theorykit.validation.simulate.averages import Moments, average_chunks
from theorykit.validation.simulate.streams import chunk_sizes, chunk_stream, resolve_seed


def test_recorded_seed_reproduces_itself():
    for seed in (0, 7, np.int64(7), np.random.SeedSequence(7), np.random.SeedSequence(7).spawn(2)[1], None):
        value = resolve_seed(seed)
        assert type(value) is int and value >= 0
        assert resolve_seed(value) == value
    assert resolve_seed(np.random.SeedSequence(7)) == resolve_seed(7) == 7


def test_seeds_differ_where_the_sources_do():
    first, second = np.random.SeedSequence(7).spawn(2)
    generator = np.random.default_rng(7)
    values = [resolve_seed(s) for s in (first, second, generator, generator, None, None)]
    assert len(set(values)) == len(values)
    assert resolve_seed(first) == values[0]  # a SeedSequence does not advance


@pytest.mark.parametrize("seed", [1.5, "7", True, (1, 2)])
def test_seed_of_wrong_type(seed):
    with pytest.raises(TypeError, match="seed must be an integer"):
        resolve_seed(seed)


def test_negative_seed():
    with pytest.raises(ValueError, match="seed must be at least 0, got -1"):
        resolve_seed(-1)


def test_chunk_streams_are_the_spawned_ones():
    children = np.random.SeedSequence(11).spawn(3)
    for chunk, child in enumerate(children):
        expected = np.random.default_rng(child).standard_normal(5)
        assert np.array_equal(chunk_stream(11, chunk).standard_normal(5), expected)


def test_more_samples_keep_the_earlier_chunks():
    assert chunk_sizes(20, 8) == [8, 8, 4]
    assert chunk_sizes(24, 8) == [8, 8, 8]
    assert chunk_sizes(3, 8) == [3]


def _observe(chunk: int, size: int) -> np.ndarray:
    return 1e6 + chunk_stream(3, chunk).standard_normal((2, size))


def test_merged_moments_are_those_of_all_samples():
    sizes = chunk_sizes(5000, 700)
    every = np.concatenate([_observe(chunk, size) for chunk, size in enumerate(sizes)], axis=1)
    merged = average_chunks(_observe, sizes, 1)
    assert merged.count == 5000
    # mean and variance by exact summation; the offset 1e6 would ruin a sum of raw squares (tolerance 1e-12)
    for row in range(2):
        mean = math.fsum(every[row]) / 5000
        variance = math.fsum((value - mean) ** 2 for value in every[row]) / 4999
        assert merged.mean[row] == pytest.approx(mean, rel=1e-15)
        estimate = merged.estimates()[row]
        assert estimate.error == pytest.approx(math.sqrt(variance / 5000), rel=1e-10)
        assert estimate.kind == "standard error"


@pytest.mark.parametrize("threads", [2, 3, None])
def test_threads_do_not_change_a_bit(threads):
    sizes = chunk_sizes(5000, 300)
    one, many = average_chunks(_observe, sizes, 1), average_chunks(_observe, sizes, threads)
    assert np.array_equal(one.mean, many.mean) and np.array_equal(one.squares, many.squares)


def test_constant_has_no_error():
    moments = average_chunks(lambda chunk, size: np.full((1, size), 0.1), [700, 700, 13])
    (estimate,) = moments.estimates()
    assert estimate.value == 0.1 and estimate.error == 0.0
    assert Moments.of(np.full((1, 3), 0.1)).squares[0] == 0.0


def test_error_of_one_chunk_reaches_the_caller():
    def observe(chunk: int, size: int) -> np.ndarray:
        if chunk == 2:
            raise ValueError("chunk two")
        return np.zeros((1, size))

    for threads in (1, 2):
        with pytest.raises(ValueError, match="chunk two"):
            average_chunks(observe, [10] * 8, threads)
