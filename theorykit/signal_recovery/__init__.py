"""Signal recovery by softmax attention: the alignment flow of the model of arXiv 2606.22406.

A query on the sphere is trained by gradient ascent on E|f(X)|^2 to find a direction that is hidden among noise
tokens; in the limit of many tokens its alignment rho obeys a one-dimensional equation::

    from theorykit import signal_recovery as sr

    model = sr.Model(theta=3.0, fraction=0.3)
    sr.fixed_points(model)
    sr.trajectory(model, rho0=0.0, times=[1.0, 2.0, 5.0])

Time is the sum of the step sizes.
"""

from __future__ import annotations

import importlib
from typing import Any

from theorykit.signal_recovery.model import Model

#: Loaded when first used: name -> module.
_LAZY = {
    "FixedPoint": "theorykit.signal_recovery.phases",
    "LimitWarning": "theorykit.signal_recovery.finite_size",
    "THEORY": "theorykit.signal_recovery.theory",
    "Thresholds": "theorykit.signal_recovery.bifurcation",
    "attention_mass": "theorykit.signal_recovery.landscape",
    "basin": "theorykit.signal_recovery.phases",
    "drift": "theorykit.signal_recovery.landscape",
    "finite_size_slope": "theorykit.signal_recovery.finite_size",
    "fixed_points": "theorykit.signal_recovery.phases",
    "gradient_noise": "theorykit.signal_recovery.finite_size",
    "objective": "theorykit.signal_recovery.landscape",
    "separatrix": "theorykit.signal_recovery.phases",
    "simulate": "theorykit.signal_recovery.simulation",
    "slope": "theorykit.signal_recovery.landscape",
    "splitting": "theorykit.signal_recovery.stochastic",
    "stationary": "theorykit.signal_recovery.stochastic",
    "thresholds": "theorykit.signal_recovery.bifurcation",
    "time_to": "theorykit.signal_recovery.passage",
    "trajectory": "theorykit.signal_recovery.trajectories",
}

__all__ = ["Model", *sorted(_LAZY)]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        public = ", ".join(__all__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; public names: {public}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
