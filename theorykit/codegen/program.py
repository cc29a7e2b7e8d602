"""A compiled record at run time: drives the generated module, knows no SymPy."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from theorykit.errors import CodegenError
from theorykit.results import Estimate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from theorykit.numerics.grids import Grid, Interval
    from theorykit.numerics.quadrature import Known, Options, Result

__all__ = ["Program", "share_out", "single_threaded"]

# rows of a table are independent: above this many integrand values they are shared out over threads
_WORTH_THREADS = 2_000_000
_REMEMBERED = 2  # evaluations before the last, whose tables may be used again
_COARSE = 1e-6  # accuracy from which panels four times as wide as for full accuracy mostly do
_FEW, _FINER = 2, 1.6  # with so few variables, finer steps cost less than to find out that they are needed
_ROWS = "void(float64[:, ::1], float64[:, ::1], int64, int64)"
_inside_worker: ContextVar[bool] = ContextVar("inside_worker", default=False)


@contextmanager
def single_threaded() -> Iterator[None]:
    """Inside, programs use the calling thread only (the caller is itself one of several workers)."""
    token = _inside_worker.set(True)
    try:
        yield
    finally:
        _inside_worker.reset(token)


@cache
def _pool() -> tuple[ThreadPoolExecutor, int]:
    wanted = os.environ.get("THEORYKIT_THREADS") or str(os.cpu_count() or 1)
    if not wanted.isdecimal() or int(wanted) < 1:
        raise ValueError(f"THEORYKIT_THREADS must be a positive integer, got {wanted!r}")
    return ThreadPoolExecutor(int(wanted)), int(wanted)


def share_out(
    function: Any, arguments: list[Any], rows: int, work: float, pieces_per_thread: int = 1
) -> None:
    """Call ``function(*arguments, first, last)`` on ranges of independent rows, in threads if the work is worth it."""
    if work < _WORTH_THREADS or _inside_worker.get():
        function(*arguments, 0, rows)
        return
    pool, count = _pool()
    edges = np.linspace(0, rows, min(count * pieces_per_thread, rows) + 1).astype(int)
    jobs = [pool.submit(function, *arguments, int(a), int(b)) for a, b in pairwise(edges)]
    for job in jobs:
        job.result()


class Program:
    """The observables of one record, compiled.

    ``program.values({"nu": 4.0, "L": 3})`` returns every observable as an
    :class:`~theorykit.results.Estimate`; ``program.layout`` describes parameters, grids and stages.
    """

    def __init__(self, key: str, module: ModuleType) -> None:
        self.key = key
        self.layout: Mapping[str, Any] = module.LAYOUT
        self._module = module
        self.parameters: tuple[str, ...] = tuple(self.layout["parameters"])
        self._last = threading.local()
        self._stages = [getattr(module, s["function"]) for s in self.layout["stages"]]
        # modules without integrals, such as those of sample problems, have no integration variables
        self._kinks = {v["name"]: v["breakpoints"] for v in self.layout.get("variables", ())}

    def __reduce__(self) -> tuple[Any, ...]:
        from theorykit.codegen import load_source

        return load_source, (self._module.__loader__.get_source(self._module.__name__),)

    def function(self, name: str) -> Any:
        """A function of the module."""
        return getattr(self._module, name)

    @property
    def compiled_functions(self) -> list[Any]:
        return [f for f in vars(self._module).values() if hasattr(f, "stats")]

    def vector(self, values: Mapping[str, float]) -> np.ndarray:
        """Parameters in the order of the compiled functions, as float64."""
        try:
            return np.array([values[p] for p in self.parameters], dtype=np.float64)
        except KeyError:
            missing = [p for p in self.parameters if p not in values]
            raise CodegenError(f"{self.layout['name']} needs values for {missing}") from None

    # ---------------------------------------------------------------- what the quadrature drives

    def breakpoints(self, variable: str, parameters: np.ndarray) -> tuple[float, ...]:
        """Where integrands are not smooth in a variable, at these parameters."""
        if not self._kinks[variable]:
            return ()
        out = np.empty(self._kinks[variable])
        getattr(self._module, f"breakpoints_{variable}")(parameters, np.empty(0), out)
        return tuple(sorted(float(b) for b in out if np.isfinite(b)))

    def run(
        self, stage: int, parameters: np.ndarray, grids: Mapping[str, Grid], tables: list[np.ndarray]
    ) -> np.ndarray:
        """The tables of one stage on the given grids, shape (outputs, *dims)."""
        layout = self.layout["stages"][stage]
        reduced = layout["reduced"]
        nodes = [grids[d].nodes for d in layout["dims"]]
        sizes = [n.size for n in nodes]
        out = np.empty((layout["outputs"], *sizes))
        arguments = [parameters, *nodes]
        work = math.prod(sizes)
        if reduced:
            grid = grids[reduced]
            work *= grid.nodes.size
            arguments += [grid.nodes, grid.weights]
            if grid.panels is not None:
                arguments += [grid.blocks, grid.panels]
        arguments += [tables[i] for i in layout["inputs"]]
        rows = sizes[0] if sizes else 1
        share_out(self._stages[stage], [*arguments, out], rows, work)
        return out

    def observables(self, parameters: np.ndarray, integrals: np.ndarray) -> np.ndarray:
        """Observables from the integrals of the roots."""
        out = np.empty(len(self.layout["observables"]))
        self._module.observables(parameters, integrals, out)
        return out

    # ---------------------------------------------------------------- what theories call

    def values(
        self,
        values: Mapping[str, float],
        options: Options | None = None,
        intervals: Mapping[str, Interval] | None = None,
    ) -> dict[str, Estimate]:
        """Every observable with its error estimate; ``intervals`` are grids to start from.

        Raises
        ------
        ConvergenceError
            the quadrature does not reach an acceptable error (see :mod:`theorykit.numerics.quadrature`).
        """
        from theorykit.numerics.quadrature import integrate

        return self._named(integrate(self, self.vector(values), options, intervals))

    def _named(self, result: Result) -> dict[str, Estimate]:
        return {
            name: Estimate(float(v), float(e))
            for name, v, e in zip(self.layout["observables"], result.values, result.errors, strict=True)
        }

    def rows(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Closed observables at many points at once: arrays of the common shape of the values.

        Raises
        ------
        CodegenError
            an observable contains an average.
        """
        from theorykit.codegen.flow import batch_of

        if self.layout["stages"]:
            raise CodegenError(f"{self.layout['name']} contains averages: it has values, but no rows")
        shape, table = batch_of(self, {p: values[p] for p in self.parameters if p in values})
        out = np.empty((len(table), len(self.layout["observables"])))
        share_out(self._rows(), [table, out], len(table), 100.0 * out.size)
        return {
            name: np.ascontiguousarray(out[:, k]).reshape(shape)
            for k, name in enumerate(self.layout["observables"])
        }

    def _rows(self) -> Any:
        """The function of ``rows``, compiled or loaded at the first request; damaged files of Numba are made again."""
        function = self._module.rows
        if not function.signatures:
            try:
                function.compile(_ROWS)
            except Exception:  # anything a damaged file can raise: a second failure has another cause
                from theorykit.codegen.cache import discard_compiled

                discard_compiled(self.key)
                function.compile(_ROWS)
        return function

    def located(
        self, values: Mapping[str, float], rtol: float, near: Mapping[str, Interval] | None = None
    ) -> dict[str, Interval]:
        """Intervals that hold the integrals, with a resolution to start from on the way to an accuracy.

        ``near`` are those at similar parameters, where they may be looked for first.
        """
        from theorykit.numerics.quadrature import coarser, locate

        wide = 4.0 if rtol > _COARSE else 2.0
        steps = wide / _FINER if len(self.layout["variables"]) <= _FEW else wide
        return coarser(self, locate(self, self.vector(values), near, rtol), wide, steps)

    def measured(
        self,
        values: Mapping[str, float],
        rtol: float,
        start: Mapping[str, Interval] | None = None,
        known: Known | None = None,
    ) -> tuple[dict[str, Interval], dict[str, Estimate]]:
        """Grids that are good to a relative accuracy at these parameters, for ``quick`` near them, and values there.

        ``known`` collects evaluations that other parameters may share tables with.
        """
        from theorykit.numerics.quadrature import Options, integrate

        start = self.located(values, rtol) if start is None else start
        result = integrate(self, self.vector(values), Options(rtol=rtol), start, known)
        return dict(result.intervals), self._named(result)

    def quick(self, values: Mapping[str, float], intervals: Mapping[str, Interval]) -> dict[str, float]:
        """Observables on fixed grids, without error estimate: for the inner loop of a minimization.

        Tables of the last call in this thread are used again where grids and parameters are the same.
        """
        from theorykit.numerics.quadrature import quick_on

        vector = self.vector(values)
        known = getattr(self._last, "entries", [])
        same = [entry[1] for entry in known if entry[0] == intervals]
        base = same[0] if same else None
        if len(same) > 1:  # the one with the most parameters in common
            base = max(same, key=lambda e: int(np.sum(e.parameters == vector)))
        result, evaluation = quick_on(self, vector, intervals, base)
        others = [e for e in known if e[1] is not base][-_REMEMBERED:]
        self._last.entries = [*others, (dict(intervals), evaluation)]
        return dict(zip(self.layout["observables"], map(float, result), strict=True))
