"""Interpolation error of nonlinear attention beside linear regression: random-matrix theory of arXiv 2506.18656.

A ridge probe is trained on entrywise nonlinear attention features of n tokens in p dimensions, signal plus noise.
Records say what is computed, functions compute it::

    from theorykit import interpolation as ip

    ip.hermite("tanh(x)").second_moment
    model = ip.Attention("tanh(x)", ratio=0.5, ridge=0.1, signal=1.0, aligned=1.0)

Errors are mean squared training errors of labels +-1, without a factor 1/2: they say nothing about new data.
"""

from __future__ import annotations

import importlib
from typing import Any

from theorykit.interpolation.model import SOFTMAX_MAP, Attention, Overlaps

#: Loaded when first used: name -> module.
_LAZY = {
    "Blocks": "theorykit.interpolation.blocks",
    "Comparison": "theorykit.interpolation.comparison",
    "Hermite": "theorykit.interpolation.coefficients",
    "THEORY": "theorykit.interpolation.theory",
    "compare": "theorykit.interpolation.comparison",
    "density": "theorykit.interpolation.spectrum",
    "hermite": "theorykit.interpolation.coefficients",
    "interpolation_error": "theorykit.interpolation.error",
    "linear_regression_error": "theorykit.interpolation.error",
    "outliers": "theorykit.interpolation.spectrum",
    "plot_spectrum": "theorykit.interpolation.spectrum_figure",
    "plot_weights": "theorykit.interpolation.weights_figure",
    "simulate": "theorykit.interpolation.simulation",
    "simulate_spectrum": "theorykit.interpolation.spectrum_figure",
    "solve": "theorykit.interpolation.error",
    "spectral_grid": "theorykit.interpolation.spectrum_figure",
    "weights": "theorykit.interpolation.weights_report",
    "weights_error": "theorykit.interpolation.weights_simulation",
}

__all__ = [
    "SOFTMAX_MAP",
    "THEORY",
    "Attention",
    "Blocks",
    "Comparison",
    "Hermite",
    "Overlaps",
    "compare",
    "density",
    "hermite",
    "interpolation_error",
    "linear_regression_error",
    "outliers",
    "plot_spectrum",
    "plot_weights",
    "simulate",
    "simulate_spectrum",
    "solve",
    "spectral_grid",
    "weights",
    "weights_error",
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
