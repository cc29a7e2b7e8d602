"""Adaptive quadrature of a compiled plan: value and error of every observable.

A plan (see :mod:`theorykit.codegen.program`) evaluates tables on given grids. This module chooses the grids:
it finds where each variable matters (``locate``), evaluates, and refines every variable by itself until the
observables stop to change. The error of a result is the sum of the changes under refinement of each variable,
of what the roughness of the outermost integrands does to the observables, and of a rounding floor. All decisions
depend on the arguments only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from theorykit.errors import ConvergenceError
from theorykit.numerics.grids import (
    ORDER,
    Grid,
    Interval,
    gaussian_grid,
    half_line_grid,
    truncated_grid,
)
from theorykit.numerics.smoothness import lattice_roughness, panel_roughness

__all__ = ["Options", "QuadraturePlan", "Result", "coarser", "evaluate_on", "integrate", "locate"]

Intervals = Mapping[str, Interval]


class QuadraturePlan(Protocol):
    """What the quadrature needs of a compiled plan."""

    layout: Mapping

    def breakpoints(self, variable: str, parameters: np.ndarray) -> tuple[float, ...]: ...

    def run(
        self, stage: int, parameters: np.ndarray, grids: Mapping[str, Grid], tables: list[np.ndarray]
    ) -> np.ndarray: ...

    def observables(self, parameters: np.ndarray, integrals: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Options:
    """rtol: relative accuracy asked of each observable. A result is returned if its error estimate is below
    ``accept`` (relative) and raises ConvergenceError otherwise. ``max_points`` bounds the integrand values of one
    evaluation, ``max_nodes`` the nodes of a variable, ``max_table`` the numbers in a table."""

    rtol: float = 2e-14
    accept: float = 1e-6
    atol: float = 1e-300
    max_rounds: int = 14
    max_points: float = 4e8
    max_nodes: float = 1e6
    max_table: float = 4e7


@dataclass(frozen=True)
class Result:
    """Observables with errors, the intervals that were used and how many integrand values it took."""

    values: np.ndarray
    errors: np.ndarray
    intervals: Intervals
    evaluations: int


PANEL, STEP = 1.0, 0.25  # first panel width of a Gaussian variable, first step of s = log t
MOST_STEP = 2.0
REFINEMENT = 1.5  # of one variable, to see what it changes
GROWTH = 1.6  # of a variable that changes too much
REACHES = (38.0, 34.0, 31.0, 28.0, 25.0, 22.0, 19.0, 16.0, 13.0)  # of the Gaussian variables
NEGLIGIBLE, DECAYED = 1e-18, 1e-15
ROUNDING = 2e-15


def make_grids(
    plan: QuadraturePlan,
    parameters: np.ndarray,
    intervals: Intervals,
    order: int = ORDER,
    base: Mapping[str, Grid] | None = None,
    changed: frozenset[str] = frozenset(),
) -> dict[str, Grid]:
    """Grids of all variables, truncated ones after the variable that bounds them.

    With ``base``, only the grids of the ``changed`` variables are made anew.
    """
    grids: dict[str, Grid] = {} if base is None else {n: g for n, g in base.items() if n not in changed}
    variables = plan.layout["variables"]
    shared = _shared_breakpoints(plan, parameters)
    for variable in sorted(variables, key=lambda v: v["outer"] is not None):
        name, interval = variable["name"], intervals[variable["name"]]
        if name in grids:
            continue
        if variable["measure"] == "half_line":
            grids[name] = half_line_grid(interval)
        elif variable["outer"] is not None:
            grids[name] = truncated_grid(interval, grids[variable["outer"]], shared[name], order)
        else:
            grids[name] = gaussian_grid(interval, shared[name], order)
    return grids


def _shared_breakpoints(plan: QuadraturePlan, parameters: np.ndarray) -> dict[str, tuple[float, ...]]:
    """A truncated variable and its outer one share their panels, hence their breakpoints."""
    own = {v["name"]: plan.breakpoints(v["name"], parameters) for v in plan.layout["variables"]}
    for variable in plan.layout["variables"]:
        outer = variable["outer"]
        if outer is not None:
            both = tuple(sorted({*own[outer], *own[variable["name"]]}))
            own[outer] = own[variable["name"]] = both
    return own


@dataclass
class _Evaluation:
    """Tables of all stages on given grids, and the integrals of the roots.

    Tables that depend on none of the grids that differ from those of ``base`` are taken from it.
    """

    plan: QuadraturePlan
    parameters: np.ndarray
    grids: dict[str, Grid]
    base: _Evaluation | None = None

    def __post_init__(self) -> None:
        self.tables: list[np.ndarray] = []
        self.evaluations = 0
        reused: list[bool] = []
        for index, stage in enumerate(self.plan.layout["stages"]):
            keep = self._is_unchanged(stage) and all(reused[i] for i in stage["inputs"])
            reused.append(keep)
            if keep and self.base is not None:
                self.tables.append(self.base.tables[index])
                continue
            self.tables.append(self.plan.run(index, self.parameters, self.grids, self.tables))
            self.evaluations += self._size(stage)

    def _is_unchanged(self, stage: Mapping) -> bool:
        if self.base is None:
            return False
        loops = [*stage["dims"], *([stage["reduced"]] if stage["reduced"] else [])]
        return all(self.grids[v] is self.base.grids[v] for v in loops)

    def _size(self, stage: Mapping) -> int:
        """Integrand values of a stage; below the largest token they are shared by all outer nodes."""
        sizes = {v: self.grids[v].nodes.size for v in self.grids}
        reduced = stage["reduced"]
        if reduced and self.grids[reduced].panels is not None:
            *dims, outer = stage["dims"]
            return int(np.prod([sizes[v] for v in dims])) * (sizes[reduced] + ORDER * sizes[outer])
        return int(np.prod([sizes[v] for v in [*stage["dims"], *([reduced] if reduced else [])]]))

    def roots(self) -> list[tuple[str, np.ndarray]]:
        """(variable, weighted integrand of shape (outputs, nodes)) of every root stage."""
        found = []
        for stage, table in zip(self.plan.layout["stages"], self.tables, strict=True):
            if stage["reduced"] is None:
                (variable,) = stage["dims"]
                found.append((variable, table * self.grids[variable].weights))
        return found

    def integrals(self) -> tuple[np.ndarray, np.ndarray]:
        """Integrals of the roots and of their absolute values."""
        parts = [weighted for _, weighted in self.roots()]
        if not parts:
            return np.zeros(0), np.zeros(0)
        return (
            np.concatenate([np.sum(p, axis=1) for p in parts]),
            np.concatenate([np.sum(np.abs(p), axis=1) for p in parts]),
        )

    def roughness(self, on_lattices: bool) -> list[tuple[str, float]]:
        """(variable, error that the integrand shows on its own grid) of every integral, on lattices or on panels."""
        found: list[tuple[str, float]] = []
        for variable, weighted in self.roots():
            is_lattice = self.grids[variable].edges is None
            rough = np.zeros(weighted.shape[0])
            if is_lattice == on_lattices:
                rough = lattice_roughness(weighted) if is_lattice else panel_roughness(weighted, ORDER)
            found += [(variable, float(r)) for r in rough]
        return found

    def is_finite(self) -> bool:
        return all(bool(np.all(np.isfinite(t))) for t in self.tables)


# ------------------------------------------------------------------------------------- where the integrals live


def locate(plan: QuadraturePlan, parameters: np.ndarray) -> dict[str, Interval]:
    """Intervals outside of which no variable contributes, with the first panel widths and steps.

    Every variable starts from the range that double precision can represent and is cut, in two passes, to where
    its part of the tables (weighted by the importance of the outer variables) is above 1e-18. Where the integrand
    overflows, the range of the Gaussian variables shrinks; what is left must still reach down to 1e-15.
    """
    last_error = "nothing evaluated"
    half_lines = sum(v["measure"] == "half_line" for v in plan.layout["variables"])
    span = 700.0 if half_lines == 1 else 360.0  # of log t; several half-lines multiply the cost
    for reach in REACHES:
        try:
            coarse = {
                v["name"]: Interval(-span, span, 8.0)
                if v["measure"] == "half_line"
                else Interval(-reach, reach, 2.0)
                for v in plan.layout["variables"]
            }
            return _trim_twice(plan, parameters, coarse)
        except FloatingPointError as error:
            last_error = str(error)
    raise ConvergenceError(
        f"{plan.layout['name']}: {last_error} at {_named(plan, parameters)}; choose less extreme parameters",
        last=parameters,
        residual=float("inf"),
        steps=0,
        start="locate",
    )


def _trim_twice(plan: QuadraturePlan, parameters: np.ndarray, coarse: Intervals) -> dict[str, Interval]:
    measures = {v["name"]: v["measure"] for v in plan.layout["variables"]}
    first = _trim(plan, parameters, coarse, order=4, whole_range=True)
    finer = {n: Interval(i.low, i.high, 2.0 if measures[n] == "half_line" else 1.0) for n, i in first.items()}
    second = _trim(plan, parameters, finer, order=8)
    return {n: _first_resolution(i, measures[n]) for n, i in second.items()}


def _first_resolution(interval: Interval, measure: str) -> Interval:
    """A long range of log t belongs to a steep kernel, whose integrand is smooth on that scale."""
    if measure != "half_line":
        return Interval(interval.low, interval.high, PANEL)
    step = min(MOST_STEP, max(STEP, (interval.high - interval.low) / 320))
    return Interval(interval.low, interval.high, STEP * 2.0 ** math.floor(math.log2(step / STEP)))


def _trim(
    plan: QuadraturePlan, parameters: np.ndarray, intervals: Intervals, order: int, whole_range: bool = False
) -> dict[str, Interval]:
    """Cut the root variables to where their integrands live, then the others on what is left of those."""
    kept = dict(intervals)
    whole = _Evaluation(plan, parameters, make_grids(plan, parameters, kept, order))
    importance = _root_importance(whole)
    for variable, profile in importance.items():
        if whole_range:
            _require_decay(variable, whole.grids[variable].nodes, profile)
        kept[variable] = _cut(whole.grids[variable].nodes, profile, intervals[variable])
    inner = [v["name"] for v in plan.layout["variables"] if _is_reduced(plan, v["name"])]
    if not inner:
        return kept
    evaluation = _Evaluation(plan, parameters, make_grids(plan, parameters, kept, order))
    importance = _root_importance(evaluation)
    for name in inner:  # outer variables come before those inside them
        profile = _reduced_profile(evaluation, name, importance, order)
        importance[name] = np.maximum(importance.get(name, 0.0), profile)
        if whole_range:
            _require_decay(name, evaluation.grids[name].nodes, profile)
        kept[name] = _cut(evaluation.grids[name].nodes, importance[name], intervals[name])
    return kept


def _require_decay(name: str, nodes: np.ndarray, profile: np.ndarray) -> None:
    """What lies beyond the ends of the range cannot be evaluated, and must not matter."""
    for end in (0, -1):
        if profile[end] > DECAYED:
            raise FloatingPointError(f"the integrand has not decayed at {name} = {nodes[end]:.4g}")


def _root_importance(evaluation: _Evaluation) -> dict[str, np.ndarray]:
    importance: dict[str, np.ndarray] = {}
    for variable, weighted in evaluation.roots():
        importance[variable] = np.maximum(importance.get(variable, 0.0), _profile(weighted))
    if importance and not any(np.any(p > 0) for p in importance.values()):
        raise FloatingPointError("the integrand vanishes on the whole range")
    return importance


def _profile(weighted: np.ndarray) -> np.ndarray:
    """Largest share, over the outputs, of each node in its integral."""
    if not np.all(np.isfinite(weighted)):
        raise FloatingPointError("the integrand is not finite")
    total = np.max(np.abs(weighted), axis=1, keepdims=True)
    return np.max(np.abs(weighted) / np.where(total > 0, total, 1.0), axis=0)


def _is_reduced(plan: QuadraturePlan, variable: str) -> bool:
    return any(s["reduced"] == variable for s in plan.layout["stages"])


def _reduced_profile(
    evaluation: _Evaluation, variable: str, importance: Mapping[str, np.ndarray], order: int
) -> np.ndarray:
    """Share of each block of nodes in the tables that are summed over the variable."""
    grid = evaluation.grids[variable]
    block = 2 * order if grid.edges is not None else 4
    profile = np.zeros(grid.nodes.size)
    for index, stage in enumerate(evaluation.plan.layout["stages"]):
        if stage["reduced"] != variable:
            continue
        total = np.abs(evaluation.tables[index])
        if not np.all(np.isfinite(total)):
            raise FloatingPointError("a table is not finite")
        weight = _outer_importance(stage["dims"], evaluation, importance)
        for start in range(0, grid.nodes.size, block):
            stop = min(start + block, grid.nodes.size)
            part = grid.part(start, stop)
            table = evaluation.plan.run(
                index, evaluation.parameters, {**evaluation.grids, variable: part}, _sliced(
                    evaluation, index, variable, slice(start, stop))
            )
            share = np.abs(table) / np.where(total > 0, total, 1.0) * weight
            profile[start:stop] = np.maximum(profile[start:stop], np.max(share, initial=0.0))
    return profile


def _sliced(evaluation: _Evaluation, index: int, variable: str, part: slice) -> list[np.ndarray]:
    """Tables with the nodes of one variable cut out, as a stage on part of the grid needs them."""
    tables = list(evaluation.tables)
    for source in evaluation.plan.layout["stages"][index]["inputs"]:
        dims = evaluation.plan.layout["stages"][source]["dims"]
        if variable in dims:
            cut = [slice(None)] * (1 + len(dims))
            cut[1 + dims.index(variable)] = part
            tables[source] = np.ascontiguousarray(tables[source][tuple(cut)])
    return tables


def _outer_importance(
    dims: list[str], evaluation: _Evaluation, importance: Mapping[str, np.ndarray]
) -> np.ndarray:
    """How much a point of the outer grids matters at most: the smallest share of its coordinates."""
    weight = np.ones((1,) * (1 + len(dims)))
    for position, name in enumerate(dims):
        if name in importance:
            shape = [1] * (1 + len(dims))
            shape[1 + position] = -1
            weight = np.minimum(weight, importance[name].reshape(shape))
    return weight


def _cut(nodes: np.ndarray, profile: np.ndarray, interval: Interval) -> Interval:
    """The interval where the profile is not negligible, with one step of margin."""
    active = np.flatnonzero(profile > NEGLIGIBLE)
    if active.size == 0:
        return interval
    low = max(interval.low, float(nodes[active[0]]) - interval.step)
    high = min(interval.high, float(nodes[active[-1]]) + interval.step)
    return Interval(low, high, interval.step)


# ------------------------------------------------------------------------------------- values with errors


def evaluate_on(
    plan: QuadraturePlan, parameters: np.ndarray, intervals: Intervals
) -> tuple[np.ndarray, np.ndarray, int]:
    """Observables and their rounding floor on the grids of the intervals, without refinement."""
    evaluation = _Evaluation(plan, parameters, make_grids(plan, parameters, intervals))
    values, floor = _observe(evaluation)
    return values, floor, evaluation.evaluations


def _observe(evaluation: _Evaluation) -> tuple[np.ndarray, np.ndarray]:
    """Observables and how far rounding of the integrals moves them."""
    plan, parameters = evaluation.plan, evaluation.parameters
    if not evaluation.is_finite():
        raise ConvergenceError(
            f"{plan.layout['name']}: the integrand is not finite at {_named(plan, parameters)}",
            last=parameters,
            residual=float("inf"),
            steps=0,
            start="quadrature",
        )
    integrals, absolute = evaluation.integrals()
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


def _exponent(values: np.ndarray) -> np.ndarray:
    return np.abs(np.log(np.maximum(np.abs(values), 1e-300)))


def _rough_changes(
    evaluation: _Evaluation, values: np.ndarray, on_lattices: bool = False
) -> dict[str, np.ndarray]:
    """How far the roughness of the root integrands in a variable moves the observables."""
    integrals, _ = evaluation.integrals()
    changes: dict[str, np.ndarray] = {}
    for k, (variable, rough) in enumerate(evaluation.roughness(on_lattices)):
        if rough > 0:
            moved = integrals.copy()
            moved[k] += rough
            change = np.abs(evaluation.plan.observables(evaluation.parameters, moved) - values)
            changes[variable] = changes.get(variable, 0.0) + change
    return changes


def integrate(
    plan: QuadraturePlan,
    parameters: np.ndarray,
    options: Options | None = None,
    intervals: Intervals | None = None,
) -> Result:
    """All observables of a plan at one parameter point, each with an error estimate.

    Raises
    ------
    ConvergenceError
        the integrand is nowhere finite and nonzero, or the error estimate stays above ``options.accept``.
    """
    options = Options() if options is None else options
    current = dict(locate(plan, parameters) if intervals is None else intervals)
    names = [v["name"] for v in plan.layout["variables"] if v["outer"] is None]
    total = 0
    for _ in range(options.max_rounds):
        base = _Evaluation(plan, parameters, make_grids(plan, parameters, current))
        values, floor = _observe(base)
        changes, rough = {}, _rough_changes(base, values)
        total += base.evaluations
        for name in names:
            finer, finer_rough, more = _with_finer(base, current, name)
            changes[name] = np.abs(finer - values)
            rough[name] = np.maximum(rough.get(name, 0.0), finer_rough)
            total += more
        errors = sum(changes.values()) + sum(rough.values()) + floor
        target = np.maximum(options.rtol * np.abs(values), 2 * floor) + options.atol
        # an inner variable on too few nodes makes the outer integrand rough: first those that change by themselves
        slow = _above(changes, target) or _above(rough, target)
        if not slow or _is_large(base, GROWTH ** len(slow), options):
            break
        for name in slow:
            current = _refined(plan, current, name, GROWTH)
    if slow:  # not the geometric convergence that the comparison of two lattices relies on
        errors = errors + sum(_rough_changes(base, values, on_lattices=True).values())
    return _checked(plan, parameters, values, errors, current, total, options)


def _above(changes: Mapping[str, np.ndarray], target: np.ndarray) -> list[str]:
    """The variables that move an observable by more than their part of the target."""
    return [name for name, change in changes.items() if np.any(change > target / len(changes))]


def _is_large(base: _Evaluation, growth: float, options: Options) -> bool:
    """Whether finer grids would take too long or too much memory."""
    longest = max(grid.nodes.size for grid in base.grids.values())
    largest = max(table.size for table in base.tables)
    return (
        base.evaluations * growth > options.max_points
        or longest * growth > options.max_nodes
        or largest * growth > options.max_table
    )


def _with_finer(base: _Evaluation, intervals: Intervals, name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Observables with one variable finer than in ``base``, their roughness, the integrand values it took.

    The lattice is moved as well: a kink close to an edge that both share would be seen by neither.
    """
    plan, parameters = base.plan, base.parameters
    finer = _refined(plan, intervals, name, REFINEMENT, shift=0.25)
    changed = frozenset(n for n in finer if finer[n] != intervals[n])
    grids = make_grids(plan, parameters, finer, base=base.grids, changed=changed)
    evaluation = _Evaluation(plan, parameters, grids, base)
    values, _ = _observe(evaluation)
    rough = _rough_changes(evaluation, values).get(name, np.zeros_like(values))
    return values, rough, evaluation.evaluations


def coarser(intervals: Intervals, factor: float) -> dict[str, Interval]:
    """The same intervals with larger panels and steps."""
    return {n: i.refined(1 / factor) for n, i in intervals.items()}


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
    if np.any(bad) or not np.all(np.isfinite(values)):
        worst = int(np.argmax(bad))
        raise ConvergenceError(
            f"{plan.layout['name']}: {plan.layout['observables'][worst]} = {values[worst]:.6g} has error "
            f"{errors[worst]:.1g} at {_named(plan, parameters)}; the integrand is too steep for the grid limit",
            last=values,
            residual=float(errors[worst]),
            steps=evaluations,
            start="quadrature",
        )
    return Result(values, errors, dict(intervals), evaluations)


def _named(plan: QuadraturePlan, parameters: np.ndarray) -> str:
    pairs = zip(plan.layout["parameters"], parameters, strict=True)
    return ", ".join(f"{n} = {v:.6g}" for n, v in pairs)
