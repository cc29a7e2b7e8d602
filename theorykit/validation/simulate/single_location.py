"""Direct Monte Carlo of single-location regression at population level.

A sample is drawn as the model is defined: L Gaussian tokens X in D dimensions, the hidden location eps
(spiked: the token eps is shifted by sqrt(nu) k*/sqrt(D); max: eps has the probabilities
softmax(nu X k*/sqrt(D))), the label y = X_eps . v*/sqrt(D) + noise xi; the estimator is
f = sigma(X k/sqrt(D)) . X v/sqrt(D). For Gaussian tokens the population risk depends on the seven overlaps of
(k*, v*, k, v) only, at any D >= 4, so finite D adds no bias.

Stages: plain data -> checked request -> tokens of a chunk -> observables per sample -> means with standard
errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from theorykit.errors import require_integer
from theorykit.results import Estimate
from theorykit.validation.simulate.averages import average_chunks
from theorykit.validation.simulate.single_location_request import (
    Task,
    Weights,
    read_activation,
    read_task,
    teacher_and_student,
)
from theorykit.validation.simulate.streams import chunk_sizes, chunk_stream, resolve_seed
from theorykit.validation.simulate.token_draws import ARGMAX, MAX, SPIKED, draw_tokens

__all__ = ["OBSERVABLES", "population_risk"]

OBSERVABLES = ("risk", "A", "B", "bayes_risk", "bayes_risk_mse")
_TOKENS_PER_CHUNK = 2**15
_LARGEST_CHUNK = 2**13


def population_risk(
    task: Mapping[str, object],
    activation: Mapping[str, object],
    overlaps: Mapping[str, object],
    samples: int,
    seed: int | np.random.SeedSequence | np.random.Generator | None = None,
    dimension: int = 16,
    excess: bool = False,
    threads: int | None = None,
    best_value: bool = False,
) -> dict[str, Estimate | int]:
    """Risk E (y - f)**2, attention moments and Bayes risk, as sample means with standard errors.

    Parameters
    ----------
    task : mapping
        `kind` "spiked" or "max"; `nu` >= 0 (infinite only for max); `length`, an integer >= 1 or a mapping
        from length to probability; `noise` >= 0, the standard deviation of the label noise (default 0).
    activation : mapping
        `kind` "softmax", "linear", "erf" (with `shift`), "softplus" (normalized), "elementwise" or
        "normalized_kernel" (both with a `formula` in x).
    overlaps : mapping
        `m_k`, `q_k`, `m_v`, `q_v`, and off the manifold `m_kv` = k.v*/D, `m_vk` = v.k*/D, `q_kv` = k.v/D
        (default 0).
    samples : int
        Number of independent sequences, at least 2.
    seed : int, SeedSequence, Generator or None
        None draws entropy; the seed used is recorded in the result.
    dimension : int
        D >= 4. The expectations do not depend on it.
    excess : bool
        Leave the label noise out of the risks (they are `noise**2` smaller).
    threads : int, optional
        By default the cores this process may use. The result does not depend on it, to the last bit.
    best_value : bool
        Also return `best_value_risk`: the least risk over all values v in R^D at the given k, found by least
        squares.

    Returns
    -------
    dict
        `risk`; `A`, the mean of sigma_eps; `B`, the mean of sum_l sigma_l**2; `bayes_risk`, the mean
        posterior variance of the label given X, k*, v*; `bayes_risk_mse`, the mean squared error of the
        posterior mean (the same number by another route); each an `Estimate` of kind "standard error".
        Further `seed`, `samples` and `dimension`.

    Raises
    ------
    TypeError, ValueError
        For an entry that is missing, unknown, of the wrong type or out of range; for overlaps that no vectors
        have; for an activation without a finite value at a sampled score.

    Examples
    --------
    Softmax attention matched to the task attains the Bayes risk, here 0.194124:

    >>> task = {"kind": "spiked", "nu": 4.0, "length": 3}
    >>> matched = {"m_k": 2.0, "q_k": 4.0, "m_v": 1.0, "q_v": 1.0}
    >>> found = population_risk(task, {"kind": "softmax"}, matched, samples=100_000, seed=1)
    >>> found["risk"], found["bayes_risk"]
    (0.195(3), 0.196(2))
    """
    model = read_task(task)
    weights = read_activation(activation)
    components = teacher_and_student(overlaps)
    samples = require_integer("samples", samples, low=2)
    dimension = require_integer("dimension", dimension, low=4)
    threads = None if threads is None else require_integer("threads", threads, low=1)
    for name, flag in (("excess", excess), ("best_value", best_value)):
        if not isinstance(flag, (bool, np.bool_)):
            raise TypeError(f"{name} must be True or False, got {flag!r}")
    entropy = resolve_seed(seed)
    vectors = _random_frame(entropy, dimension) @ components.T
    experiment = Experiment(model, weights, vectors, entropy, 0.0 if excess else model.noise)
    sizes = chunk_sizes(samples, max(1, min(_LARGEST_CHUNK, _TOKENS_PER_CHUNK // max(model.lengths))))
    estimates = average_chunks(experiment.observe, sizes, threads).estimates()
    result: dict[str, Estimate | int] = dict(zip(OBSERVABLES, estimates, strict=True))
    if best_value:
        from theorykit.validation.simulate.least_squares import best_value_risk

        result["best_value_risk"] = best_value_risk(experiment, sizes, threads)
    return result | {"seed": entropy, "samples": samples, "dimension": dimension}


def _random_frame(seed: int, dimension: int) -> np.ndarray:
    """Four random orthonormal directions, shape (dimension, 4), from a stream that no chunk uses."""
    stream = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(0, 0))))
    return np.linalg.qr(stream.standard_normal((dimension, 4)))[0]


@dataclass(frozen=True)
class Batch:
    """Scored sequences of one length; arrays end in the axis of samples.

    `tokens` is there on request only, shape (dimension, length, samples).
    """

    label: np.ndarray
    prediction: np.ndarray
    attention: np.ndarray
    hidden: np.ndarray
    posterior_mean: np.ndarray
    posterior_variance: np.ndarray
    tokens: np.ndarray | None = None


@dataclass(frozen=True)
class Experiment:
    """A request ready to be sampled.

    The columns of `vectors`, shape (D, 4), are k*, v*, k, v over sqrt(D); `noise` is what enters the label.
    """

    task: Task
    weights: Weights
    vectors: np.ndarray
    seed: int
    noise: float

    def observe(self, chunk: int, size: int) -> np.ndarray:
        """The `OBSERVABLES` of one chunk, shape (observables, size)."""
        return np.concatenate([self._observables(batch) for batch in self.batches(chunk, size)], axis=1)

    def batches(self, chunk: int, size: int, with_tokens: bool = False) -> list[Batch]:
        """Scored samples of one chunk, one batch per length that occurs.

        The numbers of samples of each length are multinomial, as if every sample drew its own.
        """
        stream = chunk_stream(self.seed, chunk)
        counts = [size] if len(self.task.lengths) == 1 else stream.multinomial(size, self.task.probabilities)
        return [
            self._batch(stream, length, int(count), with_tokens)
            for length, count in zip(self.task.lengths, counts, strict=True)
            if count
        ]

    def _batch(self, stream: np.random.Generator, length: int, count: int, with_tokens: bool) -> Batch:
        vectors = np.hstack([self.vectors, np.eye(len(self.vectors))]) if with_tokens else self.vectors
        law, strength = self._location_law()
        fields, hidden = draw_tokens(stream, law, strength, vectors, length, count)
        true_scores, true_values, scores, values = fields[:4]
        label = _at(true_values, hidden) + self.noise * stream.standard_normal(count)
        attention = self.weights(scores)
        posterior = _location_posterior(true_scores, law, strength)
        mean = _dot(posterior, true_values)
        variance = _dot(posterior, (true_values - mean) ** 2) + self.noise**2
        prediction = _dot(attention, values)
        return Batch(
            label, prediction, attention, hidden, mean, variance, fields[4:] if with_tokens else None
        )

    def _location_law(self) -> tuple[int, float]:
        if self.task.kind == "spiked":
            return SPIKED, math.sqrt(self.task.nu)
        return (ARGMAX, 0.0) if math.isinf(self.task.nu) else (MAX, self.task.nu)

    @staticmethod
    def _observables(batch: Batch) -> np.ndarray:
        return np.stack(
            [
                (batch.label - batch.prediction) ** 2,
                _at(batch.attention, batch.hidden),
                _dot(batch.attention, batch.attention),
                batch.posterior_variance,
                (batch.label - batch.posterior_mean) ** 2,
            ]
        )


def _location_posterior(true_scores: np.ndarray, law: int, strength: float) -> np.ndarray:
    """P(eps | X, k*) by Bayes' rule; the factors common to all locations cancel."""
    below_top = true_scores - true_scores.max(axis=0)
    odds = (below_top == 0.0).astype(float) if law == ARGMAX else np.exp(strength * below_top)
    return odds / odds.sum(axis=0)


def _dot(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.einsum("ls,ls->s", left, right)


def _at(values: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    return values[hidden, np.arange(hidden.size)]
