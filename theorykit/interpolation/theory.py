"""The interpolation error as a theory: what ``tk.audit``, ``tk.latex`` and ``tk.validate`` read."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from theorykit import derivations
from theorykit.interpolation.coefficients import hermite
from theorykit.interpolation.comparison import compare
from theorykit.interpolation.error import interpolation_error, linear_regression_error, solve
from theorykit.interpolation.model import SOFTMAX_MAP, Attention, Overlaps
from theorykit.interpolation.simulation import simulate
from theorykit.interpolation.spectrum import density, outliers
from theorykit.interpolation.validation_points import OTHER_DRAWS, validation_points
from theorykit.results import Estimate
from theorykit.theory import Theory, ValidationPoint

__all__ = ["THEORY"]

_TOKENS = 800
# relative deviations of the finite model from the limit at this size, stated beforehand
_FINITE_SIZE = {
    "interpolation_error": 0.02,
    "quadratic_form": 0.02,
    "degrees_of_freedom": 0.005,
    "linear_regression_error": 0.01,
}


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


# ------------------------------------------------------------------------------------- against simulation


def _model(formula: Any, ratio: float = 0.5, ridge: float = 0.1, **rest: Any) -> Attention:
    return Attention(formula, ratio=ratio, ridge=ridge, **rest)


_GENERAL = Overlaps(1, 2, 0.5, -0.3, 0.2)
_MODELS: tuple[Attention, ...] = (
    *(_model("tanh(x)", c, gamma, signal=1, aligned=b)
      for c, gamma, b in ((0.25, 0.1, 1), (0.5, 0.01, 0), (0.5, 0.1, 1), (0.5, 1, -1), (1, 0.1, 1), (2, 0.1, 0),
                          (2, 1, 1), (4, 0.3, 0))),
    *(_model("tanh(x)", c, 0.1, signal=mu, overlaps=_GENERAL.replace(signal_key=0.5 * mu, signal_query=-0.3 * mu))
      for c, mu in ((0.5, 1), (1, 2))),
    *(_model("relu(x)", c, gamma, signal=1, aligned=b, diagonal=d)
      for c, gamma, b, d in ((0.5, 0.1, 0, "zero"), (1, 1, 2, "zero"), (2, 0.1, 0, 0.9), (0.5, 0.1, 1, 0.3))),
    *(_model("cos(x)", c, 0.1, signal=mu) for c, mu in ((0.25, 2), (0.5, 0), (1, 1), (2, 0))),
    *(_model("x", c, gamma, signal=1) for c, gamma in ((0.5, 0.1), (2, 0.1))),
    *(_model("sin(x)", c, 0.1, signal=1, aligned=1) for c in (0.5, 1)),
    *(_model("erf(x)", 0.25, gamma, signal=2) for gamma in (0.01, 1)),
    *(_model("relu(x)", c, 0.1, label_mean=0.6) for c in (0.5, 1)),
    *(_model("cos(x)", 1, 0.1, label_mean=0.6, centering=centering) for centering in ("column", "row")),
    *(_model("tanh(x) + 0.5", 0.5, 0.1, label_mean=0.5, signal=1, centering="none") for _ in range(1)),
    _model("tanh(x)", 0.5, 0.1, label_mean=0.5, signal=1, aligned=1),
    _model(SOFTMAX_MAP, 0.5, 0.1, signal=1, aligned=1, centering="none"),
)  # fmt: skip


def _predict(model: Attention) -> dict[str, float]:
    """Predicted numbers; their errors are the deviation of a finite model from the limit."""
    found = dict(solve(model).values)
    found["linear_regression_error"] = linear_regression_error(
        ratio=model.ratio, ridge=model.ridge, signal=model.signal
    )
    return {n: Estimate(float(found[n]), size * abs(float(found[n]))) for n, size in _FINITE_SIZE.items()}


def _simulate(model: Attention, trials: int, seed: Any) -> Mapping[str, Any]:
    attention = "softmax" if model.formula == SOFTMAX_MAP else "entrywise"
    found: Any = simulate(model, tokens=_TOKENS, trials=max(trials, 2), seed=seed, attention=attention)
    return {name: found[name] for name in _FINITE_SIZE}


def _points() -> tuple[ValidationPoint, ...]:
    return tuple(
        ValidationPoint(
            {"model": repr(m), "tokens": _TOKENS}, partial(_predict, m), partial(_simulate, m), trials=16
        )
        for m in _MODELS
    )


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
    validation_points=(*_points(), *validation_points(OTHER_DRAWS)),
)
