"""Signal recovery as a theory: what ``tk.audit``, ``tk.latex`` and ``tk.validate`` read."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from theorykit import derivations
from theorykit.signal_recovery.bifurcation import thresholds
from theorykit.signal_recovery.finite_size import finite_size_slope, gradient_noise
from theorykit.signal_recovery.landscape import attention_mass, drift, objective, slope
from theorykit.signal_recovery.passage import time_to
from theorykit.signal_recovery.phases import basin, fixed_points, separatrix
from theorykit.signal_recovery.simulation import simulate
from theorykit.signal_recovery.trajectories import trajectory
from theorykit.signal_recovery.validation_points import validation_points
from theorykit.theory import Theory

__all__ = ["THEORY"]


def _catalogue() -> dict[str, Callable[[], Any]]:
    """Every derivation with the options it is used with; "name[option, ...]" -> function that makes it."""
    entries: dict[str, Callable[[], Any]] = {}
    entries["reduction[1 of 2]"] = partial(
        derivations.get, "signal_recovery.reduction", informative=1, tokens=2
    )
    for name in ("limit", "fixed_points", "thresholds", "escape", "noise"):
        for label, proportional in (("fixed dimension", False), ("proportional dimension", True)):
            entries[f"{name}[{label}]"] = partial(
                derivations.get, f"signal_recovery.{name}", proportional=proportional
            )
    for kernel in ("softplus(t)", "cosh(t)"):
        entries[f"kernel[{kernel}]"] = partial(derivations.get, "signal_recovery.kernel", kernel=kernel)
    entries["interpolated_flow[4]"] = partial(derivations.get, "signal_recovery.interpolated_flow", degree=4)
    for name in ("global_maximum", "finite_size", "stochastic", "linear_laws"):
        entries[name] = partial(derivations.get, f"signal_recovery.{name}")
    return entries


def _claims() -> Any:
    return importlib.import_module("theorykit.signal_recovery.claims").claims()


THEORY = Theory(
    name="signal_recovery",
    title="Signal recovery",
    derivations=_catalogue(),
    claims=_claims,
    solver={
        "objective": objective,
        "slope": slope,
        "drift": drift,
        "attention_mass": attention_mass,
        "fixed_points": fixed_points,
        "separatrix": separatrix,
        "thresholds": thresholds,
        "basin": basin,
        "time_to": time_to,
        "trajectory": trajectory,
        "finite_size_slope": finite_size_slope,
        "gradient_noise": gradient_noise,
    },
    simulate={"simulate": simulate},
    validation_points=validation_points(),
)
