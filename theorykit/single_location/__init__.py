"""Single-location regression with attention: population theory of arXiv 2509.21936.

A sequence of L tokens hides one informative token; the label is a projection of it.  Records say what is
computed, functions compute it::

    from theorykit import single_location as slr

    slr.bayes_risk(slr.Spiked(nu=4, length=3))
    slr.optimal_risk(slr.Max(nu=2, length={1: 0.5, 2: 0.5}), slr.Softmax())

Risks are E(y - f)^2 without a factor 1/2, label noise included unless ``excess=True``.
"""

from __future__ import annotations

import importlib
from typing import Any

from theorykit.single_location.activations import (
    Elementwise,
    Erf,
    Linear,
    NormalizedKernel,
    Softmax,
    Softplus,
)
from theorykit.single_location.tasks import Max, Spiked

#: Loaded when first used: name -> module.
_LAZY = {
    "attention_moments": "theorykit.single_location.population",
    "bayes_risk": "theorykit.single_location.population",
    "best_elementwise_risk": "theorykit.single_location.population",
    "erm": "theorykit.single_location.replica_solution",
    "optimal_ridge": "theorykit.single_location.ridge_search",
    "train": "theorykit.single_location.training",
    "optimal_risk": "theorykit.single_location.population",
    "risk": "theorykit.single_location.population",
    "THEORY": "theorykit.single_location.theory",
}

__all__ = [
    "THEORY",
    "Elementwise",
    "Erf",
    "Linear",
    "Max",
    "NormalizedKernel",
    "Softmax",
    "Softplus",
    "Spiked",
    "attention_moments",
    "bayes_risk",
    "best_elementwise_risk",
    "erm",
    "optimal_ridge",
    "optimal_risk",
    "risk",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        public = ", ".join(__all__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; public names: {public}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
