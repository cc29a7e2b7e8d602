"""Compiled records of signal recovery: which module answers which question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from theorykit import derivations
from theorykit.signal_recovery.model import Model

if TYPE_CHECKING:
    from theorykit.codegen.flow import Flow
    from theorykit.codegen.program import Program
    from theorykit.codegen.roots import Roots
    from theorykit.derivations.ledger import Equations

__all__ = ["flow", "parameters", "program", "roots", "rounding", "scaling"]

_ROUNDING = 4e-15  # relative change of an argument that stands for rounding inside


def scaling(model: Model) -> dict[str, bool]:
    """The option of derivations that exist with and without kappa."""
    return {"proportional": model.is_proportional}


def parameters(model: Model, **further: Any) -> dict[str, Any]:
    """The parameters of the model by the names they have in the records."""
    fractions = {
        "fraction": model.fraction,
        "noise_fraction": 1 - model.fraction,
    }  # both exact near 0 and near 1
    values = {"theta": model.theta, "beta": model.beta, **fractions, **further}
    return {**values, "kappa": model.kappa} if model.is_proportional else values


def _request(name: str, options: dict[str, Any]) -> tuple[str, tuple[Any, ...], Any]:
    full = f"signal_recovery.{name}"

    def derive() -> Equations:
        return derivations.get(full, **options).equations

    return full, tuple(sorted(options.items())), derive


def program(name: str, observables: tuple[str, ...], **options: Any) -> Program:
    """The compiled observables of a derivation; a substituted derivation is compiled as it is."""
    from theorykit.codegen import compile_record, load

    full, request, derive = _request(name, options)
    if derivations.is_substituted(full):
        return compile_record(derive(), observables)
    return load(full, request, derive, observables)


def flow(name: str, state: tuple[str, ...], slopes: tuple[str, ...], **options: Any) -> Flow:
    """The compiled flow of a derivation with its integrator."""
    from theorykit.codegen import load_flow, load_source

    full, request, derive = _request(name, options)
    if derivations.is_substituted(full):
        from theorykit.codegen.flow import Flow
        from theorykit.codegen.loops import emit_flow

        return Flow(load_source(emit_flow(derive(), state, slopes, (), None, f"Substituted {full}.")))
    return load_flow(full, request, derive, state, slopes)


def roots(name: str, unknown: str, residual: str, **options: Any) -> Roots:
    """The compiled bracketing root finder of an observable in one of its parameters."""
    from theorykit.codegen import load_roots, load_source

    full, request, derive = _request(name, options)
    if derivations.is_substituted(full):
        from theorykit.codegen.loops import emit_roots
        from theorykit.codegen.roots import Roots

        return Roots(load_source(emit_roots(derive(), unknown, residual, f"Substituted {full}.")))
    return load_roots(full, request, derive, unknown, residual)


def rounding(found: Program, values: dict[str, float]) -> dict[str, tuple[float, float]]:
    """(value, change under rounding of the arguments) of closed observables, however large the change is."""
    import numpy as np

    names = found.parameters
    moved = {n: np.full(len(names) + 1, float(values[n])) for n in names}
    for k, name in enumerate(names):
        moved[name][k + 1] *= 1 - _ROUNDING  # towards 0: an alignment stays in [-1, 1]
    rows = found.rows(moved)
    return {
        n: (float(v[0]), float(np.abs(v[1:] - v[0]).sum() + _ROUNDING * abs(v[0]))) for n, v in rows.items()
    }
