"""Least risk over all values v at a given key k, by linear regression on the attended tokens.

With phi = sum_l sigma_l X_l in R^D the estimator is f = phi . v/sqrt(D), linear in v: the least risk is the
residual of the regression of y on phi. Both passes see the same samples; the D fitted components make the
mean residual small by the factor (n - D)/n, which is divided out. This is exact for a Gaussian linear model;
otherwise an error of order 1/n is left, far below the standard error of order 1/sqrt(n).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from theorykit.results import Estimate
from theorykit.validation.simulate.averages import average_chunks

if TYPE_CHECKING:
    from theorykit.validation.simulate.single_location import Batch, Experiment

__all__ = ["best_value_risk"]


def best_value_risk(experiment: Experiment, sizes: Sequence[int], threads: int | None) -> Estimate:
    """Mean squared residual of y on sum_l sigma_l X_l, corrected for the D fitted components.

    Raises
    ------
    ValueError
        With fewer than 10 samples per fitted component.
    """
    samples, dimension = sum(sizes), len(experiment.vectors)
    if samples < 10 * dimension:
        raise ValueError(
            f"samples must be at least {10 * dimension} for best_value at dimension {dimension}, "
            f"got {samples}"
        )

    def products(chunk: int, size: int) -> np.ndarray:
        return np.concatenate([_products(batch) for batch in experiment.batches(chunk, size, True)], axis=1)

    mean = average_chunks(products, sizes, threads).mean
    correlation, upper = mean[:dimension], mean[dimension:]
    gram = np.empty((dimension, dimension))
    gram[np.triu_indices(dimension)] = upper
    gram.T[np.triu_indices(dimension)] = upper
    best = np.linalg.lstsq(gram, correlation)[0]  # of least norm where no token gets any weight

    def residuals(chunk: int, size: int) -> np.ndarray:
        batches = experiment.batches(chunk, size, True)
        return np.concatenate([(batch.label - best @ _attended(batch)) ** 2 for batch in batches])[None]

    (residual,) = average_chunks(residuals, sizes, threads).estimates()
    factor = samples / (samples - dimension)
    return Estimate(residual.value * factor, residual.error * factor, residual.kind)


def _attended(batch: Batch) -> np.ndarray:
    """sum_l sigma_l X_l, shape (dimension, samples)."""
    if batch.tokens is None:
        raise ValueError("the batch was drawn without its tokens")
    return np.einsum("ls,dls->ds", batch.attention, batch.tokens)


def _products(batch: Batch) -> np.ndarray:
    features = _attended(batch)
    rows, columns = np.triu_indices(len(features))
    return np.concatenate([features * batch.label, features[rows] * features[columns]])
