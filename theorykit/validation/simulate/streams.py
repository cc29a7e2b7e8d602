"""Random streams of a simulation: one recorded seed, one stream per chunk of samples.

Chunk `i` always draws from the stream `SeedSequence(seed, spawn_key=(i,))`, whatever thread works on it; more
samples add chunks and keep the earlier ones.
"""

from __future__ import annotations

import operator

import numpy as np

__all__ = ["chunk_sizes", "chunk_stream", "resolve_seed"]

_WORDS = 4  # 32-bit words of a drawn seed: 128 bits, the entropy NumPy itself draws


def resolve_seed(seed: int | np.random.SeedSequence | np.random.Generator | None) -> int:
    """Integer that reproduces the run when it is passed as `seed` again.

    Parameters
    ----------
    seed : int, SeedSequence, Generator or None
        A non-negative integer is itself. From a `Generator` (which advances) or a spawned `SeedSequence`
        (which does not) 128 bits are taken; a `SeedSequence` made from one integer stands for this integer.
        `None` draws fresh entropy.

    Raises
    ------
    TypeError, ValueError
        For any other type, or a negative integer.
    """
    if seed is None:
        return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
    if isinstance(seed, np.random.Generator):
        return _join(seed.integers(0, 2**32, size=_WORDS, dtype=np.uint32))
    if isinstance(seed, np.random.SeedSequence):
        if isinstance(seed.entropy, int) and seed.spawn_key == ():
            return seed.entropy
        return _join(seed.generate_state(_WORDS, np.uint32))
    if isinstance(seed, (bool, np.bool_)):
        raise TypeError(f"seed must be an integer, a SeedSequence, a Generator or None, got {seed!r}")
    try:
        value = operator.index(seed)
    except TypeError:
        raise TypeError(
            f"seed must be an integer, a SeedSequence, a Generator or None, got {seed!r}"
        ) from None
    if value < 0:
        raise ValueError(f"seed must be at least 0, got {value}")
    return value


def _join(words: np.ndarray) -> int:
    return sum(int(word) << (32 * place) for place, word in enumerate(words))


def chunk_stream(seed: int, chunk: int) -> np.random.Generator:
    """Generator of one chunk: the stream that `SeedSequence(seed).spawn` gives its child number `chunk`."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(chunk,))))


def chunk_sizes(samples: int, size: int) -> list[int]:
    """Sizes of the chunks that share `samples`: all `size`, but for the last."""
    full, rest = divmod(samples, size)
    return [size] * full + ([rest] if rest else [])
