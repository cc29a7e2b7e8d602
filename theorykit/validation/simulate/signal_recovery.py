"""Projected stochastic gradient ascent of a softmax query on E|f|**2, a fresh sequence per step.

A sequence has L tokens in R**d, of which R are theta xi + z_i and the others z_i, with Gaussian z_i; the query q on
the unit sphere attends with a_i = phi(beta q.x_i)/sum phi, f = sum a_i x_i. A step adds eta times the gradient of
|f|**2 (its part tangential to the sphere, or all of it) and normalizes.

Two engines: "vectors" draws every token and differentiates, as the model is defined; "chain" draws the overlap
rho = q.xi alone, exactly, in O(L) (:mod:`signal_recovery_chain`). They agree in law.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from theorykit.errors import require_integer, require_real
from theorykit.results import Estimate
from theorykit.validation.simulate.averages import available_cores, average_chunks
from theorykit.validation.simulate.signal_recovery_request import (
    Sequences,
    read_sequences,
    read_start,
    read_step_sizes,
    uniform_overlap,
)
from theorykit.validation.simulate.streams import chunk_sizes, chunk_stream, resolve_seed

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ascent", "population_gradient"]

_PROBES = 64  # fresh sequences on which the attention mass at the end is averaged
_TOKENS_PER_CHUNK = 2**20
_ENGINES = ("chain", "vectors")
_UPDATES = ("tangential", "ambient")


def ascent(
    theta: float,
    informative: int,
    tokens: int,
    dimension: int,
    steps: int,
    step_size: float | Callable[[int], float] | Sequence[float],
    start: float | str = "uniform",
    trials: int = 1,
    seed: int | np.random.SeedSequence | np.random.Generator | None = None,
    beta: float = 1.0,
    kernel: str = "exp",
    engine: str = "chain",
    update: str = "tangential",
    every: int = 1,
    threads: int | None = None,
) -> xr.Dataset:
    """Overlaps rho_k = q_k.xi of independent trials, and what attention and the mean token do at the end.

    Parameters
    ----------
    theta : float
        Signal strength, > 0.
    informative, tokens : int
        R and L, 1 <= R < L.
    dimension : int
        d >= 3.
    steps : int
        Number of steps, each on a fresh sequence.
    step_size : float, function of the step k = 1, 2, ..., or sequence of ``steps`` numbers
        At least 0.
    start : float or "uniform"
        The overlap at the start, in [-1, 1], or a query uniform on the sphere.
    trials : int
    seed : int, SeedSequence, Generator or None
        Each trial has its own stream: more trials keep the earlier ones, threads change nothing.
    beta : float
        Inverse temperature, > 0.
    kernel : str
        "exp", or a formula in t that is nowhere negative.
    engine : "chain" or "vectors"
        The exact chain of the overlap, or d-dimensional vectors (d times the work).
    update : "tangential" or "ambient"
        Whether a step leaves out the part of the gradient along the query.
    every : int
        Every so many steps an overlap is kept; the last one always.
    threads : int, optional

    Returns
    -------
    xarray.Dataset
        ``rho`` (trial, step); ``attention_mass`` (trial), the mass on informative tokens at the end, mean of
        fresh sequences; ``noise_mass`` = 1 - ``attention_mass``; ``mean_token`` (trial), the overlap with xi of the
        normalized average of all tokens of all steps, to be compared with the last ``rho``. Attributes say how
        it was made.

    Raises
    ------
    TypeError, ValueError
        An argument is of the wrong type or out of range, or the kernel is negative or not finite.
    """
    law = read_sequences(theta, informative, tokens, dimension, beta, kernel)
    steps = require_integer("steps", steps, low=1)
    sizes = read_step_sizes(step_size, steps)
    begin = read_start(start)
    trials = require_integer("trials", trials, low=1)
    every = require_integer("every", every, low=1, high=steps)
    _require_choice("engine", engine, _ENGINES)
    _require_choice("update", update, _UPDATES)
    threads = None if threads is None else require_integer("threads", threads, low=1)
    entropy = resolve_seed(seed)
    climb = _climb_chain if engine == "chain" else _climb_vectors

    def trial(index: int) -> tuple[np.ndarray, float, float]:
        return climb(law, chunk_stream(entropy, index), begin, sizes, update == "ambient", every)

    with ThreadPoolExecutor(threads or available_cores()) as pool:
        found = list(pool.map(trial, range(trials)))
    made = {"theta": law.theta, "informative": law.informative, "tokens": law.tokens, "dimension": law.dimension,
            "beta": law.weights.beta, "kernel": law.weights.kernel, "steps": steps, "engine": engine,
            "update": update, "start": "uniform" if begin is None else begin, "seed": str(entropy),
            "step_size": float(sizes[0]) if (sizes == sizes[0]).all() else "varies"}  # fmt: skip
    return _dataset(found, every, sizes, made)


def _require_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def _dataset(
    found: list[tuple[np.ndarray, float, float]], every: int, sizes: np.ndarray, made: dict[str, Any]
) -> xr.Dataset:
    import xarray as xr

    import theorykit

    paths = np.stack([path for path, _, _ in found])
    mass = np.array([m for _, m, _ in found])
    steps = np.minimum(np.arange(paths.shape[1]) * every, sizes.size)
    time = np.concatenate([[0.0], np.cumsum(sizes)])[steps]
    names = {"rho": "overlap of query and signal", "attention_mass": "attention on informative tokens",
             "noise_mass": "attention on noise tokens", "mean_token": "overlap of mean token and signal"}  # fmt: skip
    data = {"rho": (("trial", "step"), paths), "attention_mass": ("trial", mass), "noise_mass": ("trial", 1.0 - mass),
            "mean_token": ("trial", np.array([b for _, _, b in found]))}  # fmt: skip
    result = xr.Dataset(
        data,
        coords={"trial": np.arange(len(found)), "step": steps, "time": ("step", time)},
        attrs={**made, "theorykit": theorykit.__version__},
    )
    for name, text in names.items():
        result[name].attrs["long_name"] = text
    return result


# ------------------------------------------------------------------------------------------------ the chain


def _climb_chain(
    law: Sequences,
    stream: np.random.Generator,
    begin: float | None,
    sizes: np.ndarray,
    ambient: bool,
    every: int,
) -> tuple[np.ndarray, float, float]:
    """Overlaps of one trial, attention mass at its end, overlap of the mean token (drawn from its own law)."""
    from theorykit.validation.simulate.signal_recovery_chain import FIELDS, kernel

    rho = uniform_overlap(stream, law.dimension) if begin is None else begin
    path = np.empty(_kept(sizes.size, every))
    if law.weights.is_softmax:
        kernel("ascent")(
            stream, law.informative, law.tokens, law.dimension, law.theta, law.weights.beta, rho, sizes, ambient,
            every, path,
        )  # fmt: skip
    else:
        path[0] = rho
        sample, moved = np.empty(FIELDS), np.empty(1)
        for k, eta in enumerate(sizes, start=1):
            _sample_with_kernel(law, stream, rho, sample)
            kernel("moved")(rho, eta, ambient, sample, moved)
            rho = float(moved[0])
            path[-(-k // every)] = rho
    return path, _mass_at(law, stream, float(path[-1])), _mean_token(law, stream, law.tokens * sizes.size)


def _kept(steps: int, every: int) -> int:
    """Number of overlaps that are kept: at the start, after every so many steps, and at the end."""
    return -(-steps // every) + 1


def _sample_with_kernel(law: Sequences, stream: np.random.Generator, rho: float, out: np.ndarray) -> None:
    """One sample of the gradient with the weights of any kernel."""
    from theorykit.validation.simulate.signal_recovery_chain import kernel

    scores, white = np.empty(law.tokens), np.empty(law.tokens)
    kernel("scores")(stream, law.informative, law.theta * rho, scores)
    weights, slopes = law.weights(scores)
    strength = law.theta * math.sqrt(max(1.0 - rho * rho, 0.0))
    kernel("gradient")(stream, law.informative, law.dimension, strength, scores, weights, slopes, white, out)


def _mass_at(law: Sequences, stream: np.random.Generator, rho: float) -> float:
    """Mean mass on informative tokens of fresh sequences at an overlap."""
    total = 0.0
    for _ in range(_PROBES):
        scores = stream.standard_normal(law.tokens)
        scores[: law.informative] += law.theta * rho
        weights, _ = law.weights(scores)
        total += float(weights[: law.informative].sum())
    return total / _PROBES


def _mean_token(law: Sequences, stream: np.random.Generator, count: int) -> float:
    """Overlap with xi of the average of ``count`` tokens: its components are Gaussian."""
    along = law.theta * law.informative / law.tokens + stream.standard_normal() / math.sqrt(count)
    return along / math.sqrt(along**2 + stream.chisquare(law.dimension - 1) / count)


# ------------------------------------------------------------------------------------------------ vectors


def _climb_vectors(
    law: Sequences,
    stream: np.random.Generator,
    begin: float | None,
    sizes: np.ndarray,
    ambient: bool,
    every: int,
) -> tuple[np.ndarray, float, float]:
    """The same with every token drawn."""
    xi = _unit(stream.standard_normal(law.dimension))
    query = _unit(stream.standard_normal(law.dimension))
    if begin is not None:
        rest = _unit(query - (query @ xi) * xi)
        query = begin * xi + math.sqrt(1.0 - begin**2) * rest
    path = np.empty(_kept(sizes.size, every))
    path[0] = query @ xi
    total = np.zeros(law.dimension)
    for k, eta in enumerate(sizes, start=1):
        tokens = _draw_tokens(law, stream, xi)
        total += tokens.sum(axis=0)
        gradient = _sample_gradient(law, tokens, query)[0]
        if not ambient:
            gradient = gradient - (query @ gradient) * query
        query = _unit(query + eta * gradient)
        path[-(-k // every)] = query @ xi
    return path, _mass_at(law, stream, float(query @ xi)), float(_unit(total) @ xi)


def _draw_tokens(law: Sequences, stream: np.random.Generator, xi: np.ndarray) -> np.ndarray:
    tokens = stream.standard_normal((law.tokens, law.dimension))
    tokens[: law.informative] += law.theta * xi
    return tokens


def _sample_gradient(
    law: Sequences, tokens: np.ndarray, query: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """Gradient of |f|**2 for one sequence, mass on informative tokens, |f|**2."""
    weights, slopes = law.weights(tokens @ query)
    output = weights @ tokens
    square = float(output @ output)
    gradient = 2.0 * ((slopes * (tokens @ output - square)) @ tokens)
    return gradient, float(weights[: law.informative].sum()), square


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / math.sqrt(vector @ vector)


# ------------------------------------------------------------------------------------------------ one overlap


def population_gradient(
    theta: float,
    informative: int,
    tokens: int,
    dimension: int,
    rho: float,
    samples: int,
    seed: int | np.random.SeedSequence | np.random.Generator | None = None,
    beta: float = 1.0,
    kernel: str = "exp",
    engine: str = "chain",
    threads: int | None = None,
) -> dict[str, Estimate | int]:
    """Objective, its slope in rho, and the noise of the gradient at one overlap, by Monte Carlo.

    Parameters
    ----------
    theta, informative, tokens, dimension, beta, kernel, engine
        As for :func:`ascent`.
    rho : float
        In (-1, 1): at the ends the direction of the gradient is undefined.
    samples : int
        Number of independent sequences, at least 2.

    Returns
    -------
    dict
        ``objective`` = E|f|**2; ``slope`` = E g1/sqrt(1 - rho**2), g1 the gradient along xi made orthogonal to q;
        ``radial``, its mean along q; ``parallel`` = L Var(g1); ``perpendicular`` = L times the variance of a
        component orthogonal to q and xi; ``attention_mass``. Each an `Estimate` of kind "standard error".
        Further ``seed`` and ``samples``.
    """
    law = read_sequences(theta, informative, tokens, dimension, beta, kernel)
    rho = require_real("rho", rho, low=-1.0, high=1.0, low_open=True, high_open=True)
    samples = require_integer("samples", samples, low=2)
    _require_choice("engine", engine, _ENGINES)
    entropy = resolve_seed(seed)
    draw = _samples_chain if engine == "chain" else _samples_vectors
    size = max(2, min(4096, _TOKENS_PER_CHUNK // (law.tokens * (1 if engine == "chain" else law.dimension))))

    def observe(chunk: int, count: int) -> np.ndarray:
        rows = draw(law, chunk_stream(entropy, chunk), rho, count)
        along, tangential, radial, mass, square = rows.T
        across = (tangential - along**2) / (law.dimension - 2)
        powers = [along**k for k in range(1, 5)]
        return np.stack([square, along / math.sqrt(1.0 - rho**2), radial, mass, across, *powers])

    moments = average_chunks(observe, chunk_sizes(samples, size), threads)
    objective, slope, radial, mass, across, *_ = moments.estimates()
    scale = float(law.tokens)
    names = {"objective": objective, "slope": slope, "radial": radial, "attention_mass": mass,
             "perpendicular": Estimate(scale * across, scale * across.error, "standard error"),
             "parallel": _variance(moments.mean[5:], samples, scale)}  # fmt: skip
    return {**names, "seed": entropy, "samples": samples}


def _variance(powers: np.ndarray, count: int, scale: float) -> Estimate:
    """scale times the variance, from the means of the first four powers; its error from the fourth central one."""
    m, m2, m3, m4 = powers
    variance = m2 - m * m
    fourth = m4 - 4 * m * m3 + 6 * m * m * m2 - 3 * m**4
    spread = math.sqrt(max(fourth - variance**2, 0.0) / count)
    return Estimate(scale * variance * count / (count - 1), scale * spread, "standard error")


def _samples_chain(law: Sequences, stream: np.random.Generator, rho: float, count: int) -> np.ndarray:
    from theorykit.validation.simulate.signal_recovery_chain import FIELDS, kernel

    rows = np.empty((count, FIELDS))
    if law.weights.is_softmax:
        kernel("samples")(
            stream, law.informative, law.tokens, law.dimension, law.theta, law.weights.beta, rho, rows
        )
    else:
        for row in rows:
            _sample_with_kernel(law, stream, rho, row)
    return rows


def _samples_vectors(law: Sequences, stream: np.random.Generator, rho: float, count: int) -> np.ndarray:
    """Columns as in the chain, every token drawn."""
    xi = np.zeros(law.dimension)
    xi[0] = 1.0
    query = np.zeros(law.dimension)
    query[:2] = rho, math.sqrt(1.0 - rho**2)
    toward = np.zeros(law.dimension)
    toward[:2] = math.sqrt(1.0 - rho**2), -rho
    rows = []
    for _ in range(count):
        gradient, mass, square = _sample_gradient(law, _draw_tokens(law, stream, xi), query)
        radial = gradient @ query
        rows.append((gradient @ toward, gradient @ gradient - radial**2, radial, mass, square))
    return np.array(rows)
