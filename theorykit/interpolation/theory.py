"""The interpolation error as a theory: what ``tk.audit``, ``tk.latex`` and ``tk.validate`` read."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from theorykit import derivations
from theorykit.interpolation.coefficients import hermite
from theorykit.interpolation.comparison import compare
from theorykit.interpolation.error import interpolation_error, linear_regression_error, solve
from theorykit.interpolation.simulation import simulate
from theorykit.interpolation.spectrum import density, outliers
from theorykit.interpolation.validation_points import validation_points
from theorykit.theory import Theory

__all__ = ["THEORY"]


def _catalogue() -> dict[str, Callable[[], Any]]:
    """Every derivation with the options it is used with."""
    plain = (
        "normalization", "linearization", "linear_regression", "reductions", "linear_attention", "structure",
        "softmax", "centering",
    )  # fmt: skip
    entries: dict[str, Callable[[], Any]] = {
        name: partial(derivations.get, f"interpolation.{name}") for name in plain
    }
    for centering in ("entry", "row", "column", "none"):
        for name in ("attention", "spectrum"):
            label = f"{name}[{centering}]"
            entries[label] = partial(derivations.get, f"interpolation.{name}", centering=centering)
    for formula in ("tanh(x)", "erf(x)", "relu(x)", "gelu(x)", "cos(x)", "exp(x)"):
        entries[f"hermite[{formula}]"] = partial(
            derivations.get, "interpolation.hermite", formula=formula, degree=3
        )
    return entries


def _claims() -> Any:
    return importlib.import_module("theorykit.interpolation.claims").claims()


THEORY = Theory(
    name="interpolation",
    title="Interpolation error of nonlinear attention",
    derivations=_catalogue(),
    claims=_claims,
    solver={
        "hermite": hermite,
        "solve": solve,
        "interpolation_error": interpolation_error,
        "linear_regression_error": linear_regression_error,
        "compare": compare,
        "density": density,
        "outliers": outliers,
    },
    simulate={"interpolation_error": simulate},
    validation_points=validation_points(),
)
