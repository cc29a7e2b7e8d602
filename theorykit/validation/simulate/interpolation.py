"""The interpolation error of the finite model: a ridge probe on attention features, and on the tokens themselves.

The probe of labels y on features M = X K (columns of a p x n matrix) leaves the residual gamma Q y with
Q = (M^T M/n + gamma)^-1. The smaller Gram matrix of M is diagonalized once for all gamma. The same is done for
M = X: linear regression on the same draw, whose fluctuations are mostly those of the attention model.

Stages: plain data -> checked request -> one draw per trial, each from its own stream -> spectra -> means with
standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from theorykit.errors import require_integer, require_real
from theorykit.results import Estimate
from theorykit.validation.simulate.attention_features import Draw, draw
from theorykit.validation.simulate.attention_request import Request, read_request
from theorykit.validation.simulate.streams import chunk_stream, resolve_seed

__all__ = ["QUANTITIES", "Simulation", "Spectrum", "eigenvalues", "interpolation_error", "probe"]

QUANTITIES = (
    "interpolation_error",
    "quadratic_form",
    "trace",
    "degrees_of_freedom",
    "feature_energy",
    "largest_eigenvalue",
    "linear_regression_error",
)
_NEGLIGIBLE = 1e-13  # of the largest eigenvalue: what is below is rounding of zero


@dataclass(frozen=True)
class Spectrum:
    """Nonzero eigenvalues of M^T M/n and the squared components of y/sqrt(n) along their vectors."""

    eigenvalues: np.ndarray
    components: np.ndarray
    tokens: int

    def error(self, ridge: float) -> float:
        """|y - prediction|^2/n."""
        share = ridge / (self.eigenvalues + ridge)
        return float(self.components @ (share * share)) + self.rest

    def quadratic_form(self, ridge: float) -> float:
        """y^T Q y/n."""
        return float(self.components @ (1.0 / (self.eigenvalues + ridge))) + self.rest / ridge

    def degrees_of_freedom(self, ridge: float) -> float:
        """1 - gamma tr Q/n."""
        return float(np.sum(self.eigenvalues / (self.eigenvalues + ridge))) / self.tokens

    @property
    def rest(self) -> float:
        """The part of y outside of the row space of M, which no probe explains."""
        return max(0.0, 1.0 - float(np.sum(self.components)))


def probe(features: np.ndarray, labels: np.ndarray) -> Spectrum:
    """Spectrum of the features M, shape (p, n), by the smaller of its two Gram matrices."""
    p, n = features.shape
    unit = labels / math.sqrt(n)
    if p <= n:
        values, axes = np.linalg.eigh(features @ features.T / n)
    else:
        values, axes = np.linalg.eigh(features.T @ features / n)
    kept = values > _NEGLIGIBLE * max(values[-1], 0.0)
    values, axes = values[kept], axes[:, kept]
    if p <= n:
        components = (axes.T @ (features @ unit)) ** 2 / (n * values)
    else:
        components = (axes.T @ unit) ** 2
    return Spectrum(values, components, n)


@dataclass(frozen=True)
class Simulation:
    """Means over trials with standard errors.

    Attributes
    ----------
    interpolation_error : Estimate
        E, the training error |y - prediction|^2/n.
    quadratic_form : Estimate
        F = y^T Q y/n.
    trace : Estimate
        tr Q/n.
    degrees_of_freedom : Estimate
        1 - gamma tr Q/n.
    feature_energy : Estimate
        tr K^T X^T X K/n^2.
    largest_eigenvalue : Estimate
        Of K^T X^T X K/n.
    linear_regression_error : Estimate
        The training error of the probe on the tokens themselves, on the same draws.
    samples : Mapping[str, numpy.ndarray]
        The values of all trials, by quantity.
    tokens, dimension, trials, seed : int
    ridge : float
    """

    interpolation_error: Estimate
    quadratic_form: Estimate
    trace: Estimate
    degrees_of_freedom: Estimate
    feature_energy: Estimate
    largest_eigenvalue: Estimate
    linear_regression_error: Estimate
    samples: Mapping[str, np.ndarray] = field(compare=False, repr=False)
    ridge: float
    tokens: int
    dimension: int
    trials: int
    seed: int

    def __getitem__(self, name: str) -> Estimate:
        if name not in QUANTITIES:
            raise KeyError(f"{name!r}; known: {', '.join(QUANTITIES)}")
        estimate: Estimate = getattr(self, name)
        return estimate

    def __contains__(self, name: object) -> bool:
        return name in QUANTITIES

    def controlled_error(self, expected: float) -> Estimate:
        """E with linear regression as control variate, given the exact limit of its error.

        The part of the fluctuation of E that the error of linear regression shares on the same draws is removed by
        a least-squares slope; at least four trials are needed.
        """
        require_integer("trials of a controlled error", self.trials, low=4)
        target, control = self.samples["interpolation_error"], self.samples["linear_regression_error"]
        spread = control - control.mean()
        variance = float(spread @ spread)
        slope = float(spread @ target) / variance if variance > 0 else 0.0
        rest = target - target.mean() - slope * spread
        error = math.sqrt(float(rest @ rest) / (self.trials - 2) / self.trials)
        # the mean of the control on these draws is itself uncertain only through the slope
        shift = float(control.mean()) - require_real("expected", expected)
        error = math.hypot(error, shift * _slope_error(rest, variance, self.trials))
        return Estimate(float(target.mean()) - slope * shift, error, "standard error")


def _slope_error(rest: np.ndarray, variance: float, trials: int) -> float:
    return math.sqrt(float(rest @ rest) / (trials - 2) / variance) if variance > 0 else 0.0


def interpolation_error(
    model: Mapping[str, object],
    tokens: int,
    ridges: Sequence[float],
    trials: int,
    seed: int | np.random.SeedSequence | np.random.Generator | None = None,
    noise: str = "gaussian",
    attention: str = "entrywise",
    weights: np.ndarray | None = None,
) -> tuple[Simulation, ...]:
    """Simulate the finite model at several ridges on common draws.

    Parameters
    ----------
    model : mapping
        See :func:`~theorykit.validation.simulate.attention_request.read_request`.
    tokens : int
        n; the dimension is ratio * n, rounded.
    ridges : sequence of float
        Positive.
    trials : int
        Independent draws, at least 2.
    seed : int, SeedSequence, Generator or None
        Trial number t draws from a stream of its own; more trials keep the earlier ones.
    noise : str
        "gaussian", "rademacher", "uniform" or "student5"; it must agree with `square_variance`.
    attention : str
        "entrywise" or "softmax".
    weights : array of shape (p, p), optional
        Takes the place of I + w_K w_Q^T.

    Returns
    -------
    tuple of Simulation
        One per ridge.

    Raises
    ------
    TypeError, ValueError
        For a request that is incomplete, out of range or contradictory.
    """
    request = read_request(model, tokens, noise, attention)
    penalties = [require_real("ridge", ridge, low=0, low_open=True) for ridge in ridges]
    trials = require_integer("trials", trials, low=2)
    _require_weights(weights, request)
    entropy = resolve_seed(seed)

    def observe(trial: int) -> np.ndarray:
        return _observe(draw(request, chunk_stream(entropy, trial), weights), penalties)

    table = np.stack([observe(trial) for trial in range(trials)])  # (trials, ridges, quantities)
    return tuple(
        _summary(table[:, index, :], ridge, request, entropy) for index, ridge in enumerate(penalties)
    )


def _require_weights(weights: np.ndarray | None, request: Request) -> None:
    if weights is None:
        return
    shape = np.shape(weights)
    if shape != (request.dimension, request.dimension) or not np.isfinite(weights).all():
        raise ValueError(
            f"weights must be a finite matrix of shape ({request.dimension}, {request.dimension}), got {shape}"
        )


def _observe(sample: Draw, ridges: Sequence[float]) -> np.ndarray:
    """The quantities of one draw at every ridge, shape (ridges, quantities)."""
    attention = probe(sample.tokens @ sample.attention, sample.labels)
    baseline = probe(sample.tokens, sample.labels)
    rows = []
    for ridge in ridges:
        freedom = attention.degrees_of_freedom(ridge)
        rows.append(
            (
                attention.error(ridge),
                attention.quadratic_form(ridge),
                (1.0 - freedom) / ridge,
                freedom,
                float(np.sum(attention.eigenvalues)) / attention.tokens,
                float(attention.eigenvalues[-1]),
                baseline.error(ridge),
            )
        )
    return np.array(rows)


def _summary(table: np.ndarray, ridge: float, request: Request, seed: int) -> Simulation:
    trials = len(table)
    means = table.mean(axis=0)
    errors = table.std(axis=0, ddof=1) / math.sqrt(trials)
    estimates = {
        name: Estimate(float(mean), float(error), "standard error")
        for name, mean, error in zip(QUANTITIES, means, errors, strict=True)
    }
    samples = {name: table[:, index].copy() for index, name in enumerate(QUANTITIES)}
    return Simulation(
        **estimates,
        samples=samples,
        ridge=ridge,
        tokens=request.tokens,
        dimension=request.dimension,
        trials=trials,
        seed=seed,
    )


def eigenvalues(
    model: Mapping[str, object],
    tokens: int,
    trials: int,
    seed: int | np.random.SeedSequence | np.random.Generator | None = None,
    noise: str = "gaussian",
    attention: str = "entrywise",
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """All n eigenvalues of K^T X^T X K/n, shape (trials, n), increasing; those that are zero are exactly 0."""
    request = read_request(model, tokens, noise, attention)
    trials = require_integer("trials", trials, low=1)
    _require_weights(weights, request)
    entropy = resolve_seed(seed)
    found = np.zeros((trials, request.tokens))
    for trial in range(trials):
        sample = draw(request, chunk_stream(entropy, trial), weights)
        nonzero = probe(sample.tokens @ sample.attention, sample.labels).eigenvalues
        found[trial, request.tokens - nonzero.size :] = nonzero
    return found
