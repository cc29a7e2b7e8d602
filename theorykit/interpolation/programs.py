"""Compiled records of the interpolation error, and the values of their parameters for a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from theorykit import derivations
from theorykit.interpolation.model import SOFTMAX_MAP, Attention

if TYPE_CHECKING:
    from theorykit.codegen.fixed_point import FixedPointProgram

__all__ = ["BLOCKS", "centering_of", "parameter_errors", "parameters", "program"]

#: Public names of the block traces -> observables of the record.
BLOCKS = {f"m_{pair}": f"trace_{pair}" for pair in ("uu", "uv", "uw", "vv", "vw", "ww")}

OBSERVABLES = {
    "attention": (
        "interpolation_error", "quadratic_form", "degrees_of_freedom", "feature_energy", "bulk_error",
        *BLOCKS.values(),
    ),
    "linear_regression": ("interpolation_error", "quadratic_form", "degrees_of_freedom"),
    "spectrum": ("stieltjes", "determinant"),
    "reductions": ("nonlinear_error", "nonlinear_few", "saturated_error", "saturated_ridge"),
    "structure": ("least_error", "regression_ridgeless", "ridgeless_ratio"),
    "softmax": ("softmax_linear", "softmax_moment"),
}  # fmt: skip


def program(name: str, **options: Any) -> FixedPointProgram:
    """The program of a derivation; a substituted one is compiled as it is."""
    from theorykit.codegen import compile_record, load

    full, observables = f"interpolation.{name}", OBSERVABLES[name]

    def derive() -> Any:
        return derivations.get(full, **options).equations

    if derivations.is_substituted(full):
        found: Any = compile_record(derive(), observables)
    else:
        found = load(full, tuple(sorted(options.items())), derive, observables)
    return found


def centering_of(model: Attention) -> str:
    """The centering of the matrix; a mean that is kept but vanishes is none.

    ``SOFTMAX_MAP`` stands for softmax, whose mean 1/n does not vanish.
    """
    if model.centering == "none" and model.formula != SOFTMAX_MAP:
        mean = model.hermite.coefficients[0]
        if abs(mean) <= 4 * mean.error + 1e-14:
            return "entry"
    return model.centering


def parameters(model: Attention) -> dict[str, float]:
    """Values of the symbols of the records, by name."""
    found, gram = model.hermite, model.gram
    return {
        "c": model.ratio,
        "gamma": model.ridge,
        "a_1": float(found.coefficients[1]),
        "a_2": float(found.coefficients[2]),
        "remainder": max(float(found.remainder), 0.0),
        "d": model.diagonal_value,
        "label_mean": model.label_mean,
        "square_variance": model.square_variance,
        "signal2": gram[0][0],
        "key2": gram[1][1],
        "query2": gram[2][2],
        "signal_key": gram[0][1],
        "signal_query": gram[0][2],
        "key_query": gram[1][2],
    }


def parameter_errors(model: Attention) -> dict[str, float]:
    """Errors of those parameters that are computed numbers themselves."""
    found = model.hermite
    return {
        "a_1": found.coefficients[1].error,
        "a_2": found.coefficients[2].error,
        "remainder": found.remainder.error,
    }


def table(compiled: FixedPointProgram, rows: Sequence[dict[str, float]]) -> np.ndarray:
    """One column per point, in the order of a program."""
    return np.array([[row[name] for row in rows] for name in compiled.parameters])
