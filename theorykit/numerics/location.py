"""Where the integrands of a plan live: intervals to start from, found on coarse grids."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from theorykit.errors import ConvergenceError
from theorykit.numerics.evaluation import Evaluation, Intervals, QuadraturePlan, make_grids, parameter_text
from theorykit.numerics.grids import Interval

__all__ = ["ON_LATTICES", "Vanishing", "locate", "widened"]

PANEL, STEP = 1.0, 0.25  # first panel width of a Gaussian variable, first step of s = log t
MOST_STEP = 2.0
# of the Gaussian variables
REACHES = (38.0, 34.0, 30.0, 28.0, 26.0, 24.0, 22.0, 20.0, 18.0, 16.0, 14.0, 12.0)
SPAN = 700.0  # of log t
# under a factor exp(-t): ends of v and first steps, log t = v - exp(-v), see numerics.grids
_EXPONENTIAL, _EXPONENTIAL_STEP = (-6.0, 8.0), 0.2
_EXPONENTIAL_COARSE = (0.25, 0.25)  # in the two passes
ON_LATTICES = ("half_line", "exponential")  # measures of variables with a trapezoid rule
MORE_REACH = 3.0  # of a Gaussian variable, beyond that at similar parameters
NEGLIGIBLE, DECAYED = 1e-18, 1e-7
UNNOTICED = 1e-4  # of what is asked of a result


class Vanishing(ConvergenceError):
    """The integrand is zero, or underflows, on all the coarse grids."""


class _Zero(FloatingPointError):
    """The integrand is zero at all nodes."""


class _NotDecayed(FloatingPointError):
    """The integrand matters at an end of the widest range on which it can be evaluated."""


def locate(
    plan: QuadraturePlan, parameters: np.ndarray, near: Intervals | None = None, rtol: float = 0.0
) -> dict[str, Interval]:
    """Intervals outside of which no variable contributes, with the first panel widths and steps.

    Every variable starts from the range that double precision can represent and is cut, in two passes, to where
    its part of the tables (weighted by the importance of the outer variables) is above 1e-18, or what ``rtol``
    allows. Where the integrand overflows, the range shrinks; if the integrand has not decayed at its ends, the
    integral is out of reach.

    ``near`` are intervals at similar parameters: a range around them is tried first, and taken if the integrand is
    negligible at its ends. What lies apart is not seen then. ``rtol`` is the relative accuracy that is wanted: for a
    low one, more is negligible.
    """
    negligible = max(NEGLIGIBLE, UNNOTICED * rtol)
    if near is not None:
        around = _around(plan, parameters, near, negligible)
        if around is not None:
            return around
    last_error, kind = "nothing evaluated", Vanishing
    half_lines = sum(v["measure"] == "half_line" for v in plan.layout["variables"])
    # of log t; several half-lines multiply the cost
    spans = {0: (0.0,), 1: (SPAN, 360.0, 120.0)}.get(half_lines, (360.0, 120.0))
    for span, reach in itertools.product(spans, REACHES):
        try:
            first = {
                "half_line": Interval(-span, span, 8.0),
                "exponential": Interval(*_EXPONENTIAL, _EXPONENTIAL_COARSE[0]),
            }
            coarse = {
                v["name"]: first.get(v["measure"], Interval(-reach, reach, 2.0))
                for v in plan.layout["variables"]
            }
            return _trim_twice(plan, parameters, coarse, negligible)
        except _Zero as error:
            last_error = str(error)
        except _NotDecayed as error:
            last_error, kind = str(error), ConvergenceError
            break
        except FloatingPointError as error:
            last_error, kind = str(error), ConvergenceError
    raise kind(
        f"{plan.layout['name']}: {last_error} at {parameter_text(plan, parameters)}; choose less extreme parameters",
        last=parameters,
        residual=float("inf"),
        steps=0,
        start="locate",
    )


def _around(
    plan: QuadraturePlan, parameters: np.ndarray, near: Intervals, negligible: float
) -> dict[str, Interval] | None:
    """Intervals within a range around known ones, or None where they reach to an end of it."""
    measures = {v["name"]: v["measure"] for v in plan.layout["variables"]}
    limits = {n: _limits(m) for n, m in measures.items()}
    wide = {}
    for name, interval in near.items():
        on_lattice, (lowest, highest) = measures[name] in ON_LATTICES, limits[name]
        more = (interval.high - interval.low) / 2 if on_lattice else MORE_REACH
        low, high = max(interval.low - more, lowest), min(interval.high + more, highest)
        wide[name] = Interval(low, high, min(2.0, (high - low) / 48) if on_lattice else 1.0)
    try:
        found = _trim(plan, parameters, wide, 8, negligible)
    except FloatingPointError:
        return None
    for name, interval in found.items():
        (lowest, highest), around = limits[name], wide[name]
        if lowest < interval.low <= around.low or around.high <= interval.high < highest:
            return None
    return {n: _first_resolution(i, measures[n]) for n, i in found.items()}


def _limits(measure: str) -> tuple[float, float]:
    """The ends that a variable has at most."""
    if measure == "exponential":
        return _EXPONENTIAL
    limit = SPAN if measure in ON_LATTICES else REACHES[0]
    return -limit, limit


def widened(plan: QuadraturePlan, intervals: Intervals, ends: set[tuple[str, str]]) -> dict[str, Interval]:
    """Intervals longer by a fifth at the given ends (variable, "low" or "high"), as far as numbers reach.

    The others grow a little, since they were cut to what mattered within those.
    """
    limits = {v["name"]: _limits(v["measure"]) for v in plan.layout["variables"]}
    wider = {}
    for name, interval in intervals.items():
        length, (lowest, highest) = interval.high - interval.low, limits[name]
        low = interval.low - length / (5 if (name, "low") in ends else 20)
        high = interval.high + length / (5 if (name, "high") in ends else 20)
        wider[name] = replace(
            interval, low=min(interval.low, max(low, lowest)), high=max(interval.high, min(high, highest))
        )
    return wider


def _trim_twice(
    plan: QuadraturePlan, parameters: np.ndarray, coarse: Intervals, negligible: float
) -> dict[str, Interval]:
    measures = {v["name"]: v["measure"] for v in plan.layout["variables"]}
    first = _trim(plan, parameters, coarse, 4, negligible, whole_range=True)
    steps = {"half_line": 2.0, "exponential": _EXPONENTIAL_COARSE[1]}
    finer = {n: Interval(i.low, i.high, steps.get(measures[n], 1.0)) for n, i in first.items()}
    second = _trim(plan, parameters, finer, 8, negligible)
    return {n: _first_resolution(i, measures[n]) for n, i in second.items()}


def _first_resolution(interval: Interval, measure: str) -> Interval:
    """A long range of log t belongs to a steep kernel, whose integrand is smooth on that scale."""
    if measure != "half_line":
        step = _EXPONENTIAL_STEP if measure == "exponential" else PANEL
        return Interval(interval.low, interval.high, step)
    step = min(MOST_STEP, max(STEP, (interval.high - interval.low) / 320))
    return Interval(interval.low, interval.high, STEP * 2.0 ** math.floor(math.log2(step / STEP)))


def _trim(
    plan: QuadraturePlan,
    parameters: np.ndarray,
    intervals: Intervals,
    order: int,
    negligible: float,
    whole_range: bool = False,
) -> dict[str, Interval]:
    """Cut the root variables to where their integrands live, then the others on what is left of those."""
    kept = dict(intervals)
    inner = [v["name"] for v in plan.layout["variables"] if _is_reduced(plan, v["name"])]
    whole = Evaluation(plan, parameters, make_grids(plan, parameters, kept, order))
    importance = _root_importance(whole)
    for variable, profile in importance.items():
        if whole_range:
            _require_decay(variable, whole.grids[variable].nodes, profile)
        if variable not in inner:  # where it is summed over, it may be needed elsewhere
            kept[variable] = _cut(whole.grids[variable].coordinates, profile, intervals[variable], negligible)
    if not inner:
        return kept
    evaluation = Evaluation(plan, parameters, make_grids(plan, parameters, kept, order))
    importance = _root_importance(evaluation)
    roots = set(importance)
    for name in inner:  # outer variables come before those inside them
        profile = _reduced_profile(evaluation, name, importance, order)
        importance[name] = np.maximum(importance.get(name, 0.0), profile)
        if whole_range and _is_judged_by(plan, name, roots):
            _require_decay(name, evaluation.grids[name].nodes, profile)
        places = evaluation.grids[name].coordinates
        kept[name] = _cut(places, importance[name], intervals[name], negligible)
    return kept


def _is_judged_by(plan: QuadraturePlan, name: str, roots: set[str]) -> bool:
    """Whether the tables summed over a variable hang on root variables alone, whose importance is exact."""
    return all(set(s["dims"]) <= roots for s in plan.layout["stages"] if s["reduced"] == name)


def _require_decay(name: str, nodes: np.ndarray, profile: np.ndarray) -> None:
    """What lies beyond the ends of the range cannot be evaluated, and must not matter."""
    for end in (0, -1):
        if profile[end] > DECAYED:
            raise _NotDecayed(f"the integrand has not decayed at {name} = {nodes[end]:.4g}")


def _root_importance(evaluation: Evaluation) -> dict[str, np.ndarray]:
    importance: dict[str, np.ndarray] = {}
    for variable, weighted in evaluation.roots:
        importance[variable] = np.maximum(importance.get(variable, 0.0), _profile(weighted))
    if importance and not any(np.any(p > 0) for p in importance.values()):
        raise _Zero("the integrand vanishes on the whole range")
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
    evaluation: Evaluation, variable: str, importance: Mapping[str, np.ndarray], order: int
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
        total = np.where(total > 0, total, 1.0)
        weight = _outer_importance(stage["dims"], evaluation, importance)
        for start in range(0, grid.nodes.size, block):
            stop = min(start + block, grid.nodes.size)
            part = grid.part(start, stop)
            table = evaluation.plan.run(
                index,
                evaluation.parameters,
                {**evaluation.grids, variable: part},
                _sliced(evaluation, index, variable, slice(start, stop)),
            )
            share = table / total * weight
            profile[start:stop] = np.maximum(profile[start:stop], max(share.max(), -share.min()))
    return profile


def _sliced(evaluation: Evaluation, index: int, variable: str, part: slice) -> list[np.ndarray]:
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
    dims: list[str], evaluation: Evaluation, importance: Mapping[str, np.ndarray]
) -> np.ndarray:
    """How much a point of the outer grids matters at most: the smallest share of its coordinates."""
    weight = np.ones((1,) * (1 + len(dims)))
    for position, name in enumerate(dims):
        if name in importance:
            shape = [1] * (1 + len(dims))
            shape[1 + position] = -1
            weight = np.minimum(weight, importance[name].reshape(shape))
    return weight


def _cut(nodes: np.ndarray, profile: np.ndarray, interval: Interval, negligible: float) -> Interval:
    """The interval where the profile is not negligible, with one step of margin."""
    active = np.flatnonzero(profile > negligible)
    if active.size == 0:
        return interval
    low = max(interval.low, float(nodes[active[0]]) - interval.step)
    high = min(interval.high, float(nodes[active[-1]]) + interval.step)
    return Interval(low, high, interval.step)
