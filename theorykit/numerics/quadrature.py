"""Adaptive quadrature of a compiled plan: value and error of every observable.

A plan (see :mod:`theorykit.codegen.program`) evaluates tables on given grids. This module chooses the grids:
it finds where each variable matters (``locate``), evaluates, and refines every variable by itself until the
observables stop to change. The error of a result is the sum of the changes under refinement of each variable,
of what the roughness of the outermost integrands does to the observables, and of a rounding floor. All decisions
depend on the arguments only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from theorykit.errors import ConvergenceError
from theorykit.numerics.evaluation import (
    Evaluation,
    Intervals,
    QuadraturePlan,
    evaluation_on,
    make_grids,
    parameter_text,
)
from theorykit.numerics.grids import Interval
from theorykit.numerics.location import ON_LATTICES, Vanishing, locate, widened

__all__ = [
    "Known",
    "Options",
    "QuadraturePlan",
    "Result",
    "coarser",
    "integrate",
    "locate",
    "quick_on",
]


@dataclass(frozen=True)
class Options:
    """rtol: relative accuracy asked of each observable. A result is returned if its error estimate is below
    ``accept`` (relative) and raises ConvergenceError otherwise. ``max_points`` bounds the integrand values of one
    evaluation, ``max_nodes`` the nodes of a variable, ``max_table`` the numbers in a table. ``negligible``: what an
    integral is at most, if its integrand is smooth on the scale of the coarse grids and underflows on all of them; it
    is then 0 with this error (None: ConvergenceError)."""

    rtol: float = 2e-14
    accept: float = 1e-6
    atol: float = 1e-320
    max_rounds: int = 14
    max_points: float = 4e8
    max_nodes: float = 1e6
    max_table: float = 4e7
    negligible: float | None = None


@dataclass(frozen=True)
class Result:
    """Observables with errors, the intervals that were used and how many integrand values it took."""

    values: np.ndarray
    errors: np.ndarray
    intervals: Intervals
    evaluations: int


REFINEMENT = 1.5  # of one variable, to see what it changes
GROWTH = 1.6  # of a variable that changes too much, at most
MARGIN = 1.15
TAIL = 0.05  # of the target, up to which the ends of the grids stay where they are

#: Evaluations by their intervals, whose tables may serve at other parameters.
Known = dict[tuple, Evaluation]
ROUNDING = 2e-15


def quick_on(
    plan: QuadraturePlan, parameters: np.ndarray, intervals: Intervals, base: Evaluation | None = None
) -> tuple[np.ndarray, Evaluation]:
    """Observables on the grids of the intervals, and the tables; those of ``base`` are used where they can be."""
    evaluation = evaluation_on(plan, parameters, intervals, base)
    _require_finite_tables(evaluation)
    return plan.observables(parameters, evaluation.integrals), evaluation


def _observe(evaluation: Evaluation) -> tuple[np.ndarray, np.ndarray]:
    """Observables and how far rounding of the integrals moves them."""
    plan, parameters = evaluation.plan, evaluation.parameters
    _require_finite_tables(evaluation)
    integrals, absolute = evaluation.integrals, evaluation.absolute_integrals
    values = plan.observables(parameters, integrals)
    # a number of size exp(-c) comes from exponents of size c, whose rounding is relative to c
    floor = ROUNDING * np.abs(values) * (1 + _exponent(values) / 8)
    for k in range(integrals.size):
        moved = integrals.copy()
        moved[k] += 2 * ROUNDING * absolute[k] * (1 + _exponent(absolute[k]) / 8)
        floor = floor + np.abs(plan.observables(parameters, moved) - values)
    if integrals.size == 0:  # closed: rounding inside shows where the arguments are moved by as much
        for k in range(parameters.size):
            moved = parameters.copy()
            moved[k] *= 1 + 2 * ROUNDING
            floor = floor + np.abs(plan.observables(moved, integrals) - values)
    return values, floor


def _growth(change: np.ndarray, values: np.ndarray, target: np.ndarray) -> float:
    """How much finer a variable must be whose error falls geometrically with its nodes, with some margin."""
    size = np.maximum(np.abs(values), 1e-300)
    digits = -np.log(np.clip(change / size, 1e-17, 1.0))
    missing = np.log(np.maximum(change / np.maximum(target, 1e-300), 1.0))
    factors = np.where(digits > 3.0, MARGIN + missing / np.maximum(digits, 3.0), GROWTH)
    return float(min(GROWTH, np.max(factors, where=change > target, initial=MARGIN)))


def _require_finite_tables(evaluation: Evaluation) -> None:
    if not evaluation.is_finite():
        plan, parameters = evaluation.plan, evaluation.parameters
        raise ConvergenceError(
            f"{plan.layout['name']}: the integrand is not finite at {parameter_text(plan, parameters)}",
            last=parameters,
            residual=float("inf"),
            steps=0,
            start="quadrature",
        )


def _exponent(values: np.ndarray) -> np.ndarray:
    return np.abs(np.log(np.maximum(np.abs(values), 1e-300)))


def _moves(
    evaluation: Evaluation, values: np.ndarray, errors: list[tuple[str, float]]
) -> dict[str, np.ndarray]:
    """How far errors of the integrals, each with its variable, move the observables."""
    integrals = evaluation.integrals
    moves: dict[str, np.ndarray] = {}
    for k, (variable, error) in enumerate(errors):
        if error > 0:
            moved = integrals.copy()
            moved[k] += error
            change = np.abs(evaluation.plan.observables(evaluation.parameters, moved) - values)
            moves[variable] = moves.get(variable, 0.0) + change
    return moves


def integrate(
    plan: QuadraturePlan,
    parameters: np.ndarray,
    options: Options | None = None,
    intervals: Intervals | None = None,
    known: Known | None = None,
) -> Result:
    """All observables of a plan at one parameter point, each with an error estimate.

    ``known`` holds evaluations at other parameters, whose tables are used where they are the same; those made here
    are added to it.

    Raises
    ------
    ConvergenceError
        the integrand is nowhere finite and nonzero, or the error estimate stays above ``options.accept``.
    """
    options = Options() if options is None else options
    try:
        current = dict(locate(plan, parameters) if intervals is None else intervals)
    except Vanishing:
        if options.negligible is None:
            raise
        return _zero(plan, parameters, options.negligible)
    names = [v["name"] for v in plan.layout["variables"] if v["outer"] is None]
    total = 0
    grown: set[str] = set()
    last: dict[str, Interval] | None = None
    for _ in range(options.max_rounds):
        step = _step(plan, parameters, current, names, known)
        if isinstance(step, ConvergenceError):
            if last is None:
                raise step
            current = last  # finer grids reach a little farther, to where the integrand overflows
            break
        base, values, floor, changes, rough, count = step
        last = current
        total += base.evaluations + count
        errors = sum(changes.values()) + sum(rough.values()) + floor
        target = np.maximum(options.rtol * np.abs(values), 2 * floor) + options.atol
        # an inner variable on too few nodes makes the outer integrand rough: first those that change by themselves
        slow = _above(changes, target) or _above(rough, target)
        if slow and not _is_large(base, GROWTH ** len(slow), options):
            for name in slow:
                grow = GROWTH if name in grown else _growth(changes[name], values, target / len(changes))
                current = _refined(plan, current, name, grow)
            grown |= set(slow)
            continue
        wider = _widened(base, current) if _is_cut_short(base, values, target) else None
        if wider is None:
            break
        current = wider
    errors = errors + _beyond(base, values)
    if slow:  # not the geometric convergence that the comparison of two lattices relies on
        errors = errors + sum(_moves(base, values, base.roughness(on_lattices=True)).values())
    return _checked(plan, parameters, values, errors, current, total, options)


def _zero(plan: QuadraturePlan, parameters: np.ndarray, bound: float) -> Result:
    """Observables where all integrals are zero up to a bound."""
    count = sum(s["outputs"] for s in plan.layout["stages"] if s["reduced"] is None)
    values = plan.observables(parameters, np.zeros(count))
    errors = sum(np.abs(plan.observables(parameters, row) - values) for row in bound * np.eye(count))
    return Result(values, errors, {}, 0)


def _step(
    plan: QuadraturePlan, parameters: np.ndarray, intervals: Intervals, names: list[str], known: Known | None
) -> (
    tuple[Evaluation, np.ndarray, np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray], int]
    | ConvergenceError
):
    """Tables, observables, their rounding floor, and what finer grids change; an error where they are not finite."""
    try:
        base = _evaluated(plan, parameters, intervals, known)
        values, floor = _observe(base)
        _require_finite(plan, parameters, values)
        changes, rough, count = _compare(base, intervals, names, values, known)
    except ConvergenceError as error:
        return error
    return base, values, floor, changes, rough, count


def _evaluated(
    plan: QuadraturePlan,
    parameters: np.ndarray,
    intervals: Intervals,
    known: Known | None,
    base: tuple[Evaluation, frozenset[str]] | None = None,
) -> Evaluation:
    """Tables on the grids of the intervals, with those known there, or of a base that differs in some variables."""
    key = tuple(sorted(intervals.items()))
    same = known.get(key) if known is not None else None
    if same is not None or base is None:
        found = evaluation_on(plan, parameters, intervals, same)
    else:
        grids = make_grids(plan, parameters, intervals, base=base[0].grids, changed=base[1])
        found = Evaluation(plan, parameters, grids, base[0])
    if known is not None:
        known[key] = found
    return found


def _compare(
    base: Evaluation, intervals: Intervals, names: list[str], values: np.ndarray, known: Known | None
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], int]:
    """Changes of the observables with finer grids of each variable, what roughness adds, integrand values."""
    changes, rough, count = {}, _moves(base, values, base.roughness(on_lattices=False)), 0
    for name in names:
        finer, finer_rough, more = _with_finer(base, intervals, name, known)
        changes[name] = np.abs(finer - values)
        rough[name] = np.maximum(rough.get(name, 0.0), finer_rough)
        count += more
    return changes, rough, count


def _beyond(base: Evaluation, values: np.ndarray) -> np.ndarray:
    """How far what lies beyond the ends of the grids moves the observables."""
    moves = _moves(base, values, [(name, below + above) for name, below, above in base.tails])
    return np.asarray(sum(moves.values()) + np.zeros_like(values))


def _is_cut_short(base: Evaluation, values: np.ndarray, target: np.ndarray) -> bool:
    """Whether what lies beyond the ends matters."""
    return bool(np.any(_beyond(base, values) > TAIL * target))


def _widened(base: Evaluation, intervals: Intervals) -> dict[str, Interval] | None:
    """Longer intervals where the integrand matters at an end, or None: coarse grids may have seen too little."""
    open_low = {(name, "low") for name, below, _ in base.tails if below > 0}
    open_high = {(name, "high") for name, _, above in base.tails if above > 0}
    wider = widened(base.plan, intervals, open_low | open_high)
    can_grow = any(wider[n].low < intervals[n].low for n, _ in open_low)
    can_grow |= any(wider[n].high > intervals[n].high for n, _ in open_high)
    if not can_grow:
        return None
    evaluation = Evaluation(base.plan, base.parameters, make_grids(base.plan, base.parameters, wider))
    return wider if evaluation.is_finite() else None


def _require_finite(plan: QuadraturePlan, parameters: np.ndarray, values: np.ndarray) -> None:
    for name, value in zip(plan.layout["observables"], values, strict=True):
        if not np.isfinite(value):
            raise ConvergenceError(
                f"{plan.layout['name']}: {name} = {value} is not finite at {parameter_text(plan, parameters)}",
                last=values,
                residual=float("inf"),
                steps=0,
                start="quadrature",
            )


def _above(changes: Mapping[str, np.ndarray], target: np.ndarray) -> list[str]:
    """The variables that move an observable by more than their part of the target."""
    return [name for name, change in changes.items() if np.any(change > target / len(changes))]


def _is_large(base: Evaluation, growth: float, options: Options) -> bool:
    """Whether finer grids would take too long or too much memory."""
    longest = max(grid.nodes.size for grid in base.grids.values())
    largest = max(table.size for table in base.tables)
    return (
        base.size * growth > options.max_points
        or longest * growth > options.max_nodes
        or largest * growth > options.max_table
    )


def _with_finer(
    base: Evaluation, intervals: Intervals, name: str, known: Known | None
) -> tuple[np.ndarray, np.ndarray, int]:
    """Observables with one variable finer than in ``base``, their roughness, the integrand values it took.

    The lattice is moved as well: a kink close to an edge that both share would be seen by neither.
    """
    plan, parameters = base.plan, base.parameters
    finer = _refined(plan, intervals, name, REFINEMENT, shift=0.25)
    changed = frozenset(n for n in finer if finer[n] != intervals[n])
    evaluation = _evaluated(plan, parameters, finer, known, (base, changed))
    values, _ = _observe(evaluation)
    rough = _moves(evaluation, values, evaluation.roughness(on_lattices=False))
    return values, rough.get(name, np.zeros_like(values)), evaluation.evaluations


def coarser(plan: QuadraturePlan, intervals: Intervals, panels: float, steps: float) -> dict[str, Interval]:
    """The same intervals with panels and steps of lattices that are larger by these factors."""
    measures = {v["name"]: v["measure"] for v in plan.layout["variables"]}
    return {n: i.refined(1 / (steps if measures[n] in ON_LATTICES else panels)) for n, i in intervals.items()}


def _refined(
    plan: QuadraturePlan, intervals: Intervals, name: str, factor: float, shift: float = 0.0
) -> dict[str, Interval]:
    """One variable finer, together with the truncated variables that share its panels."""
    tied = {v["name"] for v in plan.layout["variables"] if v["outer"] == name} | {name}
    return {n: i.refined(factor, shift) if n in tied else i for n, i in intervals.items()}


def _checked(
    plan: QuadraturePlan,
    parameters: np.ndarray,
    values: np.ndarray,
    errors: np.ndarray,
    intervals: Intervals,
    evaluations: int,
    options: Options,
) -> Result:
    accept = max(options.accept, 2 * options.rtol)
    bad = ~(errors <= accept * np.abs(values) + options.atol) & ~(errors <= 1e-9)
    if np.any(bad):
        worst = int(np.argmax(bad))
        raise ConvergenceError(
            f"{plan.layout['name']}: {plan.layout['observables'][worst]} = {values[worst]:.6g} has error "
            f"{errors[worst]:.1g} at {parameter_text(plan, parameters)}; the integrand is too steep for the grid limit",
            last=values,
            residual=float(errors[worst]),
            steps=evaluations,
            start="quadrature",
        )
    return Result(values, errors, dict(intervals), evaluations)
