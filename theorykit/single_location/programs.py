"""Compiled records of single-location regression: which program answers which question.

A program is found by the name of its derivation and the options it is derived with. The functions here return
numbers with errors at one length; nothing of the mathematics is repeated.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from theorykit import derivations
from theorykit.results import Estimate
from theorykit.single_location.activations import Activation, Erf, Linear
from theorykit.single_location.tasks import Spiked, Task

if TYPE_CHECKING:
    from theorykit.codegen.program import Program

__all__ = [
    "STEEP",
    "STRONG",
    "bayes_risks",
    "is_aligned",
    "moments_program",
    "observed",
    "program",
    "propagate",
    "risk_program",
    "task_name",
]


STEEP = 8.0  # exponential weights exp(c x) with a larger c are integrated over themselves, not over x
STRONG = 16.0  # nu of the max task above which the location is treated as that of the largest noisy field
_SUBNORMAL = 5e-324


def program(name: str, observables: tuple[str, ...], **options: Any) -> Program:
    """The compiled observables of a derivation; a substituted derivation is compiled as it is."""
    from theorykit.codegen import compile_record, load

    full = f"single_location.{name}"

    def derive() -> Any:
        return derivations.get(full, **options).equations

    if derivations.is_substituted(full):
        return compile_record(derive(), observables)
    return load(full, tuple(sorted(options.items())), derive, observables)


def task_name(task: Task) -> str:
    """ "spiked", "max" or "max_infinite": the three laws of the hidden location."""
    if isinstance(task, Spiked):
        return "spiked"
    return "max_infinite" if math.isinf(task.nu) else "max"


def is_aligned(m_k: float, q_k: float) -> bool:
    """Whether k has no part orthogonal to k*, up to rounding of m_k**2."""
    return q_k - m_k * m_k <= 8 * 2.0**-52 * q_k


def moments_program(
    task: Task,
    activation: Activation,
    aligned: bool,
    with_value: bool = True,
    steep: bool = False,
    joint: str = "",
) -> Program:
    """Moments of the weights: ``with_value`` with the residual, which depends on m_v, ``steep`` for long keys.

    ``joint`` names the steeper weight, "location" or "attention", where both are (see the derivation).
    """
    kind = task_name(task)
    aligned = aligned and kind != "spiked"
    if activation.kind == "normalized":
        observables = ("miss", "miss_square", "leak")
        options = {"task": kind, "kernel": activation.formula.text, "aligned": aligned}
        options |= ({"steep": True} if steep else {}) | ({"joint": joint} if joint else {})
        return program("normalized_moments", observables, **options)
    observables = ("A", "power", "leak", *(("residual",) if with_value else ()))
    if isinstance(activation, Erf | Linear) and kind == "spiked":  # closed
        return program("erf" if isinstance(activation, Erf) else "linear", observables, task=kind)
    return program(
        "elementwise_moments",
        observables,
        task=kind,
        activation=activation.formula.text,
        aligned=aligned,
        shifted=isinstance(activation, Erf),
        **({"steep": True} if steep else {}),
    )


def risk_program(activation: Activation) -> Program:
    """Risk and best value overlap from the moments of the weights."""
    own = "A" if activation.kind == "normalized" else "plain_residual"
    observables = (own, "excess", "risk", "best_m_v", "B", "best_excess")
    return program("risk", observables, activation=activation.kind)


def bayes_risks(task: Task, length: int) -> dict[str, Estimate]:
    """ "bayes_excess" and "bayes_risk" at one length; no excess where the location is known."""
    kind = task_name(task)
    if length == 1 or kind == "max_infinite":
        noise = task.noise**2
        return {"bayes_excess": Estimate(0.0, 0.0), "bayes_risk": Estimate(noise, 2.0**-52 * noise)}
    steepness = math.sqrt(task.nu) if kind == "spiked" else task.nu
    options = {"steep": True} if steepness > STEEP else {}
    compiled = program("bayes_risk", ("bayes_excess", "bayes_risk"), task=kind, **options)
    found = compiled.values({"nu": task.nu, "L": length, "noise": task.noise})
    # a number that underflows is known to the last subnormal digit, times what multiplies it
    return {name: Estimate(float(v), v.error + _SUBNORMAL * length) for name, v in found.items()}


def observed(compiled: Program, inputs: Mapping[str, float]) -> dict[str, float]:
    """Closed observables without errors, for searches; some may be undefined (nan)."""
    import numpy as np

    values = compiled.observables(compiled.vector(inputs), np.zeros(0))
    return dict(zip(compiled.layout["observables"], values.tolist(), strict=True))


def propagate(
    compiled: Program, inputs: Mapping[str, float], wanted: Collection[str] = ()
) -> dict[str, Estimate]:
    """Closed observables of uncertain inputs: errors add up, each through the change it makes.

    Only the ``wanted`` ones, where named: the others may be undefined (the best v of weights that vanish).
    """
    import numpy as np

    none = np.zeros(0)
    centre = compiled.vector(inputs)
    values = compiled.observables(centre, none)
    errors = 4 * 2.0**-52 * np.abs(values)
    for position, name in enumerate(compiled.parameters):
        given = inputs[name]
        error = given.error if isinstance(given, Estimate) else 0.0
        if error > 0:
            moved = centre.copy()
            moved[position] += error
            errors = errors + np.abs(compiled.observables(moved, none) - values)
    names = compiled.layout["observables"]
    return {
        n: Estimate(float(v), float(e))
        for n, v, e in zip(names, values, errors, strict=True)
        if not wanted or n in wanted
    }
