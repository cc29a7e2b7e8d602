"""Excess risk where the cross overlaps m_kv = k.v*/D, m_vk = v.k*/D, q_kv = k.v/D do not vanish."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from theorykit.results import Estimate
from theorykit.single_location.activations import Activation, Erf
from theorykit.single_location.moments import mix
from theorykit.single_location.overlaps import Overlaps
from theorykit.single_location.programs import is_aligned, program, task_name
from theorykit.single_location.tasks import Spiked, Task

if TYPE_CHECKING:
    from theorykit.codegen.program import Program

__all__ = ["excess_risk"]

_ROUNDING = 8 * 2.0**-52
_RTOL = 1e-10  # where tables are three-dimensional
_COARSE = 0.25  # their first panels are four times as wide as where every bit is wanted


def excess_risk(task: Task, activation: Activation, overlaps: Overlaps) -> Estimate:
    """Population risk without the label noise, at any overlaps and any law of the length.

    Parameters
    ----------
    task : Spiked or Max
    activation : Activation
        An ``Erf`` needs a shift.
    overlaps : Overlaps

    Returns
    -------
    Estimate
        With an error bound: about 1e-14 of the risk; 1e-10 for normalized weights of the max task whose key has a
        part orthogonal to k*.

    Raises
    ------
    ConvergenceError
        The quadrature does not converge.
    """
    return mix(
        [(p, {"excess": _at_length(task, activation, overlaps, length)}) for length, p in task.lengths]
    )["excess"]


def _at_length(task: Task, activation: Activation, overlaps: Overlaps, length: int) -> Estimate:
    values = {**asdict(overlaps), "nu": task.nu, "L": float(length)}
    if isinstance(activation, Erf):
        values["shift"] = float(activation.shift or 0.0)
    if overlaps.q_k == 0 or (not isinstance(task, Spiked) and _is_along_truth(overlaps)):
        return _value(task, activation, values, aligned=True)
    if isinstance(task, Spiked) or not is_aligned(overlaps.m_k, overlaps.q_k):
        return _value(task, activation, values, aligned=False)
    # k is along k* up to rounding, the cross overlaps are not: the risk is smooth in q_k, which is moved by a
    # little more than its rounding, so that the part of k orthogonal to k* is long enough for them
    near, far = (
        _value(task, activation, {**values, "q_k": overlaps.q_k * (1 + factor * _ROUNDING)}, aligned=False)
        for factor in (8, 16)
    )
    return Estimate(float(near), near.error + far.error + 2 * abs(near - far))


def _is_along_truth(overlaps: Overlaps) -> bool:
    """Whether k is a multiple of k*, and v has just the overlap with it that follows, up to rounding."""
    excess = abs(overlaps.q_kv - overlaps.m_k * overlaps.m_vk)
    rounding = _ROUNDING * (abs(overlaps.q_kv) + abs(overlaps.m_k * overlaps.m_vk))
    return is_aligned(overlaps.m_k, overlaps.q_k) and overlaps.m_kv == 0 and excess <= rounding


def _value(task: Task, activation: Activation, values: dict[str, float], aligned: bool) -> Estimate:
    is_single = values["L"] == 1 and activation.kind == "normalized"
    observable = "single" if is_single else "excess"
    compiled = program(
        "off_manifold",
        (observable,),
        task=task_name(task),
        kind=activation.kind,
        formula=activation.formula.text,
        aligned=aligned,
        shifted=isinstance(activation, Erf),
    )
    if is_single or aligned or activation.kind == "elementwise" or isinstance(task, Spiked):
        return compiled.values(values)[observable]
    return _from_wide_panels(compiled, values)


def _from_wide_panels(compiled: Program, values: dict[str, float]) -> Estimate:
    """The observable to the accuracy that three-dimensional tables are worth."""
    from theorykit.numerics.quadrature import Options, integrate, locate

    parameters = compiled.vector(values)
    half_lines = {
        v["name"] for v in compiled.layout["variables"] if v["measure"] in ("half_line", "exponential")
    }
    intervals = {
        name: interval if name in half_lines else interval.refined(_COARSE)
        for name, interval in locate(compiled, parameters).items()
    }
    found = integrate(compiled, parameters, Options(rtol=_RTOL), intervals)
    return Estimate(float(found.values[0]), 2 * float(found.errors[0]))  # twice the change to a finer grid
