"""Tables of a plan on given grids, and the integrals of its roots."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from theorykit.numerics.grids import (
    ORDER,
    Grid,
    Interval,
    exponential_grid,
    gaussian_grid,
    half_line_grid,
    truncated_grid,
)
from theorykit.numerics.smoothness import lattice_roughness, panel_roughness, tails_beyond

__all__ = ["Evaluation", "Intervals", "QuadraturePlan", "evaluation_on", "make_grids", "parameter_text"]

Intervals = Mapping[str, Interval]


class QuadraturePlan(Protocol):
    """What the quadrature needs of a compiled plan."""

    layout: Mapping

    def breakpoints(self, variable: str, parameters: np.ndarray) -> tuple[float, ...]: ...

    def run(
        self, stage: int, parameters: np.ndarray, grids: Mapping[str, Grid], tables: list[np.ndarray]
    ) -> np.ndarray: ...

    def observables(self, parameters: np.ndarray, integrals: np.ndarray) -> np.ndarray: ...


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
    if len(grids) == len(variables):
        return grids
    shared = _shared_breakpoints(plan, parameters)
    for variable in sorted(variables, key=lambda v: v["outer"] is not None):
        name, interval = variable["name"], intervals[variable["name"]]
        if name in grids:
            continue
        if variable["measure"] == "half_line":
            grids[name] = half_line_grid(interval)
        elif variable["measure"] == "exponential":
            grids[name] = exponential_grid(interval)
        elif variable["outer"] is not None:
            grids[name] = truncated_grid(interval, grids[variable["outer"]], shared[name], order)
        else:
            grids[name] = gaussian_grid(interval, shared[name], order)
    return grids


def evaluation_on(
    plan: QuadraturePlan, parameters: np.ndarray, intervals: Intervals, base: Evaluation | None = None
) -> Evaluation:
    """Tables on the grids of the intervals; of ``base``, made on the same intervals, what can be used is used."""
    if base is None:
        return Evaluation(plan, parameters, make_grids(plan, parameters, intervals))
    kinked = {v["name"] for v in plan.layout["variables"] if v["breakpoints"]}
    if kinked:  # grids that share panels with theirs move as well
        kinked |= {v["outer"] for v in plan.layout["variables"] if v["name"] in kinked and v["outer"]}
        kinked |= {v["name"] for v in plan.layout["variables"] if v["outer"] in kinked}
    grids = make_grids(plan, parameters, intervals, base=base.grids, changed=frozenset(kinked))
    return Evaluation(plan, parameters, grids, base)


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
class Evaluation:
    """Tables of all stages on given grids, and the integrals of the roots.

    Tables that depend on none of the grids and parameters that differ from those of ``base`` are taken from it.
    """

    plan: QuadraturePlan
    parameters: np.ndarray
    grids: dict[str, Grid]
    base: InitVar[Evaluation | None] = None

    def __post_init__(self, base: Evaluation | None) -> None:
        self.tables: list[np.ndarray] = []
        self._reused: list[bool] = []
        changes = None if base is None else self._changes(base)
        for index, stage in enumerate(self.plan.layout["stages"]):
            if base is not None and changes is not None and self._is_unchanged(stage, *changes):
                self._reused.append(True)
                self.tables.append(base.tables[index])
            else:
                self._reused.append(False)
                self.tables.append(self.plan.run(index, self.parameters, self.grids, self.tables))

    def _changes(self, base: Evaluation) -> tuple[set[int], set[str]]:
        """Positions of parameters and names of grids that differ from those of the base."""
        pairs = zip(self.parameters.tolist(), base.parameters.tolist(), strict=True)
        moved = {i for i, (new, old) in enumerate(pairs) if new != old}
        return moved, {name for name, grid in self.grids.items() if grid is not base.grids[name]}

    def _is_unchanged(self, stage: Mapping, moved: set[int], changed: set[str]) -> bool:
        used = stage.get("parameters")
        if moved if used is None else not moved.isdisjoint(used):
            return False
        if stage["reduced"] in changed or not changed.isdisjoint(stage["dims"]):
            return False
        return all(self._reused[i] for i in stage["inputs"])

    @property
    def evaluations(self) -> int:
        """Number of integrand values that were computed."""
        pairs = zip(self.plan.layout["stages"], self._reused, strict=True)
        return sum(self._size(stage) for stage, reused in pairs if not reused)

    @property
    def size(self) -> int:
        """Number of integrand values, with those taken over."""
        return sum(self._size(stage) for stage in self.plan.layout["stages"])

    def _size(self, stage: Mapping) -> int:
        """Integrand values of a stage; below the largest token they are shared by all outer nodes."""
        sizes = {v: self.grids[v].nodes.size for v in self.grids}
        reduced = stage["reduced"]
        if reduced and self.grids[reduced].panels is not None:
            *dims, outer = stage["dims"]
            return math.prod(sizes[v] for v in dims) * (sizes[reduced] + ORDER * sizes[outer])
        return math.prod(sizes[v] for v in [*stage["dims"], *([reduced] if reduced else [])])

    @cached_property
    def roots(self) -> list[tuple[str, np.ndarray]]:
        """(variable, weighted integrand of shape (outputs, nodes)) of every root stage."""
        found = []
        for stage, table in zip(self.plan.layout["stages"], self.tables, strict=True):
            if stage["reduced"] is None:
                (variable,) = stage["dims"]
                found.append((variable, table * self.grids[variable].weights))
        return found

    @cached_property
    def integrals(self) -> np.ndarray:
        """Integrals of the roots."""
        return np.concatenate([np.zeros(0), *(weighted.sum(axis=1) for _, weighted in self.roots)])

    @cached_property
    def absolute_integrals(self) -> np.ndarray:
        """Integrals of the absolute values of the roots."""
        return np.concatenate([np.zeros(0), *(np.abs(weighted).sum(axis=1) for _, weighted in self.roots)])

    def roughness(self, on_lattices: bool) -> list[tuple[str, float]]:
        """(variable, error that the integrand shows on its own grid) of every integral, on lattices or on panels."""
        found: list[tuple[str, float]] = []
        for variable, weighted in self.roots:
            is_lattice = self.grids[variable].edges is None
            rough = np.zeros(weighted.shape[0])
            if is_lattice == on_lattices:
                rough = lattice_roughness(weighted) if is_lattice else panel_roughness(weighted, ORDER)
            found += [(variable, float(r)) for r in rough]
        return found

    @cached_property
    def tails(self) -> list[tuple[str, float, float]]:
        """(variable, mass below its interval, mass above) of every integral, judged by the decay towards the ends."""
        found: list[tuple[str, float, float]] = []
        for stage, table in zip(self.plan.layout["stages"], self.tables, strict=True):
            if stage["reduced"] is None:
                (variable,) = stage["dims"]
                grid = self.grids[variable]
                if grid.edges is not None:
                    distance = 1.0
                else:
                    distance = 4.0 if grid.places is None else 0.5
                density = np.abs(table) * grid.density
                below, above = tails_beyond(grid.coordinates, density, grid.spacing, distance)
                found += [(variable, float(b), float(a)) for b, a in zip(below, above, strict=True)]
        return found

    def is_finite(self) -> bool:
        """Whether the tables made here are; those taken over were asked before."""
        made = [t for t, reused in zip(self.tables, self._reused, strict=True) if not reused]
        # one pass: a sum is finite if all terms are, unless it overflows
        return all(math.isfinite(t.sum()) or bool(np.isfinite(t).all()) for t in made)


def parameter_text(plan: QuadraturePlan, parameters: np.ndarray) -> str:
    pairs = zip(plan.layout["parameters"], parameters, strict=True)
    return ", ".join(f"{n} = {v:.6g}" for n, v in pairs)
