"""Tables of a plan on given grids, and the integrals of its roots."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import InitVar, dataclass
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
from theorykit.numerics.smoothness import lattice_roughness, panel_roughness, tail_beyond

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
        self.evaluations = 0  # integrand values that were computed
        self.size = 0  # with those taken over
        reused: list[bool] = []
        for index, stage in enumerate(self.plan.layout["stages"]):
            keep = self._is_unchanged(stage, base) and all(reused[i] for i in stage["inputs"])
            reused.append(keep)
            self.size += self._size(stage)
            if keep and base is not None:
                self.tables.append(base.tables[index])
                continue
            self.tables.append(self.plan.run(index, self.parameters, self.grids, self.tables))
            self.evaluations += self._size(stage)

    def _is_unchanged(self, stage: Mapping, base: Evaluation | None) -> bool:
        if base is None:
            return False
        used = stage.get("parameters", range(self.parameters.size))
        if any(self.parameters[i] != base.parameters[i] for i in used):
            return False
        loops = [*stage["dims"], *([stage["reduced"]] if stage["reduced"] else [])]
        return all(self.grids[v] is base.grids[v] for v in loops)

    def _size(self, stage: Mapping) -> int:
        """Integrand values of a stage; below the largest token they are shared by all outer nodes."""
        sizes = {v: self.grids[v].nodes.size for v in self.grids}
        reduced = stage["reduced"]
        if reduced and self.grids[reduced].panels is not None:
            *dims, outer = stage["dims"]
            return math.prod(sizes[v] for v in dims) * (sizes[reduced] + ORDER * sizes[outer])
        return math.prod(sizes[v] for v in [*stage["dims"], *([reduced] if reduced else [])])

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

    def tails(self) -> list[tuple[str, float, float]]:
        """(variable, mass below its interval, mass above) of every integral, judged by the decay towards the ends."""
        found: list[tuple[str, float, float]] = []
        for stage, table in zip(self.plan.layout["stages"], self.tables, strict=True):
            if stage["reduced"] is None:
                (variable,) = stage["dims"]
                grid = self.grids[variable]
                nodes, density, distance = grid.coordinates, np.abs(table), 4.0
                if grid.edges is not None:
                    density, distance = density * np.exp(-nodes * nodes / 2) / np.sqrt(2 * np.pi), 1.0
                elif grid.places is not None:
                    density, distance = density * (1 + np.exp(-nodes)), 0.5
                below = tail_beyond(-nodes[::-1], density[:, ::-1], distance)
                above = tail_beyond(nodes, density, distance)
                found += [(variable, float(b), float(a)) for b, a in zip(below, above, strict=True)]
        return found

    def is_finite(self) -> bool:
        # one pass: a sum is finite if all terms are, unless it overflows
        return all(math.isfinite(t.sum()) or bool(np.isfinite(t).all()) for t in self.tables)


def parameter_text(plan: QuadraturePlan, parameters: np.ndarray) -> str:
    pairs = zip(plan.layout["parameters"], parameters, strict=True)
    return ", ".join(f"{n} = {v:.6g}" for n, v in pairs)
