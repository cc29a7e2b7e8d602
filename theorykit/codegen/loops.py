"""Loops around generated functions: flows of ordinary differential equations, and bracketed roots.

Input: a record and the names of its observables that are slopes, crossings or the residual. Output: the module that
:func:`theorykit.codegen.emit.emit` makes of them, with the loop's text from ``numerics`` behind it.
"""

from __future__ import annotations

import pprint
from dataclasses import replace
from typing import TYPE_CHECKING

from theorykit.codegen.emit import join_module, layout_of, primitive_sources, scalar_function
from theorykit.codegen.lower import lower
from theorykit.codegen.wellposed import require_writable
from theorykit.errors import CodegenError
from theorykit.numerics.dormand_prince import flow_source
from theorykit.numerics.roots import roots_source

if TYPE_CHECKING:
    from theorykit.codegen.lower import Plan
    from theorykit.derivations.ledger import Equations

__all__ = ["emit_flow", "emit_roots"]


def emit_flow(
    record: Equations,
    state: tuple[str, ...],
    slopes: tuple[str, ...],
    events: tuple[str, ...],
    time: str | None,
    header: str,
) -> str:
    """The module of a flow: ``slopes`` are observables of the record, one per component of the state.

    Raises
    ------
    CodegenError
        a name that the record does not have, twice the same component, or a slope that contains an average.
    """
    if len(slopes) != len(state) or not state:
        raise CodegenError(f"{record.name}: a flow needs one slope per component, got {state} and {slopes}")
    plan = _closed_plan(record, (*slopes, *events))
    plan = _with_parameters(plan, record, state if time is None else (*state, time))
    slots = tuple(_slot(plan, name) for name in state)
    time_slot = None if time is None else _slot(plan, time)
    if len({*slots, time_slot}) != len(slots) + 1:
        raise CodegenError(f"{record.name}: a component of the flow is named twice: {(*state, time)}")
    loop = flow_source(slots, time_slot, len(events))
    functions = {"slopes": slopes, "crossings": events}
    layout = {"state": list(state), "slopes": list(slopes), "events": list(events), "time": time}
    return _module(plan, functions, loop, {"flow": layout}, header)


def emit_roots(record: Equations, unknown: str, residual: str, header: str) -> str:
    """The module of a bracketing root finder for an observable as a function of one of its parameters."""
    plan = _closed_plan(record, (residual,))
    loop = roots_source(_slot(plan, unknown))
    layout = {"unknown": unknown, "residual": residual}
    return _module(plan, {"residual": (residual,)}, loop, {"roots": layout}, header)


def _closed_plan(record: Equations, observables: tuple[str, ...]) -> Plan:
    plan = lower(record, tuple(dict.fromkeys(observables)))
    if plan.stages:
        raise CodegenError(
            f"{record.name}: an observable among {observables} contains an average; a loop needs closed expressions: "
            "interpolate the average first, with the coefficients as parameters"
        )
    require_writable(plan)
    return plan


def _with_parameters(plan: Plan, record: Equations, names: tuple[str, ...]) -> Plan:
    """A component of which nothing depends has a slot all the same."""
    known = {p.name for p in plan.parameters}
    more = [q.symbol for q in record.symbols if q.symbol.name in names and q.symbol.name not in known]
    return replace(plan, parameters=(*plan.parameters, *more))


def _slot(plan: Plan, name: str) -> int:
    names = [p.name for p in plan.parameters]
    if name not in names:
        raise CodegenError(f"{plan.name} does not depend on {name!r}; its parameters are {names}")
    return names.index(name)


def _module(
    plan: Plan, functions: dict[str, tuple[str, ...]], loop: str, extra: dict[str, object], header: str
) -> str:
    sources, used = [], set()
    everything = tuple(plan.observables)
    same = next((name for name, observables in functions.items() if observables == everything), None)
    if same is None:
        functions = {"observables": everything, **functions}
    for name, observables in functions.items():
        source, needed = scalar_function(name, plan, [plan.observables[o] for o in observables], {})
        sources.append(source)
        used |= needed
    if same is not None:  # compiled once
        sources.append(f"observables = {same}")
    layout = "LAYOUT = " + pprint.pformat(layout_of(plan, {}) | extra, width=100, sort_dicts=True)
    return join_module(header, [*primitive_sources(used), *sources, loop.strip(), layout])
