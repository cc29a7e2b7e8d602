"""A compiled flow at run time: batches of trajectories over initial states and parameters. Knows no SymPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from theorykit.errors import CodegenError, ConvergenceError, require_integer, require_real
from theorykit.numerics.dormand_prince import FlowStatus

if TYPE_CHECKING:
    from theorykit.codegen.program import Program

__all__ = ["Flow", "Trajectories", "batch_of"]

_SLOPES_PER_TRAJECTORY = (
    50_000.0  # what the choice of threads assumes: a pool is worth it from some 40 trajectories
)
_LEAST_RTOL = 1e-13


@dataclass(frozen=True, eq=False)
class Trajectories:
    """A batch of trajectories; arrays begin with the axes of the batch.

    Attributes
    ----------
    times : array, shape (times,)
    states : array, shape (..., times, components)
        nan after the end of a trajectory that a terminal event or a failure stopped.
    status : array of int, shape (...)
        :class:`~theorykit.numerics.dormand_prince.FlowStatus`.
    steps, refused : arrays of int, shape (...)
        Steps taken, and steps whose error was too large.
    reached : array, shape (...)
        Time at the end.
    event_times : array, shape (..., events)
        Time of the first crossing; inf where there was none.
    event_states : array, shape (..., events, components)
        The state there; nan where there was none.
    """

    times: np.ndarray
    states: np.ndarray
    status: np.ndarray
    steps: np.ndarray
    refused: np.ndarray
    reached: np.ndarray
    event_times: np.ndarray
    event_states: np.ndarray

    @property
    def ok(self) -> bool:
        """Whether every trajectory is complete."""
        return bool((self.status <= FlowStatus.EVENT).all())


class Flow:
    """``d state / dt = slopes`` with its adaptive integrator, from :func:`theorykit.codegen.load_flow`.

    Examples
    --------
    ``flow([0.0, 1.0], {"x": [0.1, 0.2]}, {"rate": 2.0}).states`` has the shape (2 starts, 2 times, 1 component).
    """

    def __init__(self, program: Program) -> None:
        if "flow" not in program.layout:
            raise CodegenError(f"module {program.key} of {program.layout['name']} holds no flow")
        self.program = program
        layout = program.layout["flow"]
        self.state: tuple[str, ...] = tuple(layout["state"])
        self.events: tuple[str, ...] = tuple(layout["events"])
        self.time: str | None = layout["time"]

    def __reduce__(self) -> tuple[Any, ...]:
        return Flow, (self.program,)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of what must be given besides the starts."""
        return tuple(p for p in self.program.parameters if p not in self.state and p != self.time)

    def __call__(
        self,
        times: Any,
        starts: Mapping[str, Any],
        parameters: Mapping[str, Any] | None = None,
        *,
        rtol: float = 1e-9,
        atol: float | Sequence[float] = 1e-12,
        start_time: float = 0.0,
        max_steps: int = 100_000,
        terminal: Sequence[str] = (),
        directions: Mapping[str, int] | None = None,
        on_failure: str = "raise",
    ) -> Trajectories:
        """Integrate from ``start_time`` through all times.

        Parameters
        ----------
        times : array_like, shape (times,)
            Not decreasing, from ``start_time`` on.
        starts, parameters : mapping of names to numbers or arrays
            Arrays are broadcast against each other; their common shape is that of the batch.
        rtol : float
            Relative error per step, in [1e-13, 0.1].
        atol : float or one per component
            Absolute error per step, positive.
        max_steps : int
            Largest number of steps of one trajectory, refused ones included.
        terminal : sequence of event names
            Events that end a trajectory.
        directions : mapping of event names to -1, 0 or 1
            Which crossings count: falling, both (default), rising.
        on_failure : "raise" or "return"
            What happens if a trajectory does not reach its end.

        Raises
        ------
        TypeError, ValueError
            An argument is of the wrong type or out of range.
        ConvergenceError
            A trajectory failed; ``last`` holds the :class:`Trajectories`.

        Notes
        -----
        Each trajectory is computed by one thread on its own: results do not depend on the batch or on threads, to the
        last bit. An event is seen if it changes sign between the ends of a step.
        """
        instants = _times(times, start_time)
        rtol = require_real("rtol", rtol, low=_LEAST_RTOL, high=0.1)
        tolerances = np.array(
            [require_real("atol", a, low=0.0, low_open=True) for a in self._per_state(atol)]
        )
        max_steps = require_integer("max_steps", max_steps, low=1)
        if on_failure not in ("raise", "return"):
            raise ValueError(f"on_failure must be 'raise' or 'return', got {on_failure!r}")
        ends = np.array([name in terminal for name in self._known_events("terminal", terminal)], dtype=bool)
        signs = self._directions(directions or {})
        shape, table = batch_of(self.program, {**(parameters or {}), **starts}, self.time)
        slots = [self.program.parameters.index(name) for name in self.state]
        begin = np.ascontiguousarray(table[:, slots])
        found = self._integrate(
            table, begin, instants, float(start_time), (rtol, tolerances, max_steps), signs, ends
        )
        result = Trajectories(instants, *(a.reshape(shape + a.shape[1:]) for a in found))
        if on_failure == "raise" and not result.ok:
            self._fail(result, max_steps)
        return result

    def _integrate(
        self, table: np.ndarray, begin: np.ndarray, times: np.ndarray, start: float, limits: tuple[Any, ...],
        signs: np.ndarray, ends: np.ndarray,
    ) -> tuple[np.ndarray, ...]:  # fmt: skip
        from theorykit.codegen.program import share_out

        count, size, events = len(table), len(self.state), len(self.events)
        states = np.full((count, times.size, size), np.nan)
        counts = np.zeros((count, 3), dtype=np.int64)
        reached = np.empty(count)
        event_times = np.full((count, events), np.inf)
        event_states = np.full((count, events, size), np.nan)
        if times.size and count:
            outputs = [states, counts, reached, event_times, event_states]
            arguments = [table, begin, times, start, *limits, signs, ends, *outputs]
            share_out(
                self.program.function("flow"),
                arguments,
                count,
                count * _SLOPES_PER_TRAJECTORY,
                pieces_per_thread=8,
            )
        else:
            reached[:] = start
        return (states, *np.ascontiguousarray(counts.T), reached, event_times, event_states)

    def _per_state(self, atol: Any) -> list[Any]:
        values = list(atol) if np.ndim(atol) else [atol] * len(self.state)
        if len(values) != len(self.state):
            raise ValueError(f"atol must be a number or {len(self.state)} numbers, got {atol!r}")
        return values

    def _known_events(self, name: str, given: Any) -> tuple[str, ...]:
        unknown = [e for e in given if e not in self.events]
        if isinstance(given, str) or unknown:
            raise ValueError(f"{name} must name events among {list(self.events)}, got {given!r}")
        return self.events

    def _directions(self, given: Mapping[str, int]) -> np.ndarray:
        names = self._known_events("directions", given)
        return np.array(
            [require_integer(f"direction of {n}", given.get(n, 0), -1, 1) for n in names], dtype=np.int64
        )

    def _fail(self, result: Trajectories, max_steps: int) -> None:
        flat = result.status.reshape(-1)
        bad = np.flatnonzero(flat > FlowStatus.EVENT)
        status = FlowStatus(int(flat[bad[0]]))
        where = np.unravel_index(bad[0], result.status.shape) if result.status.shape else ()
        advice = {
            FlowStatus.TOO_MANY_STEPS: f"raise max_steps (now {max_steps}) or rtol",
            FlowStatus.STEP_TOO_SMALL: "the solution may end here; ask for earlier times, or raise rtol and atol",
            FlowStatus.NON_FINITE: "the equation may not be defined here; ask for earlier times",
        }[status]
        raise ConvergenceError(
            f"flow of {self.program.layout['name']}: {bad.size} of {flat.size} trajectories not finished; number "
            f"{tuple(int(i) for i in where)} stopped at t = {result.reached.reshape(-1)[bad[0]]:.6g}: "
            f"{status.message}; {advice}",
            last=result,
            steps=int(result.steps.reshape(-1)[bad[0]]),
        )


def _times(times: Any, start: Any) -> np.ndarray:
    start = require_real("start_time", start)
    try:
        found = np.ascontiguousarray(times, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"times must be an array of real numbers, got {times!r}") from None
    if found.ndim != 1 or found.size == 0:
        raise ValueError(f"times must be a non-empty array with one axis, got the shape {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError(f"times must be finite, got {float(found[~np.isfinite(found)][0])!r}")
    if found[0] < start:
        raise ValueError(f"times must be at least start_time = {start!r}, got {float(found[0])!r}")
    falls = np.flatnonzero(np.diff(found) < 0)
    if falls.size:
        at = int(falls[0])
        raise ValueError(f"times must not decrease, got {float(found[at])!r} before {float(found[at + 1])!r}")
    return found


def batch_of(
    program: Program, values: Mapping[str, Any], free: str | None = None
) -> tuple[tuple[int, ...], np.ndarray]:
    """Shape of the batch and the parameter vectors of its members, shape (members, parameters).

    ``free`` is a parameter that needs no value.
    """
    names = [p for p in program.parameters if p != free]
    missing = [p for p in names if p not in values]
    unknown = [p for p in values if p not in names]
    if missing or unknown:
        what = f"needs values for {missing}" if missing else f"knows no {unknown}; it has {names}"
        raise ValueError(f"{program.layout['name']} {what}")
    arrays = []
    for name in names:
        try:
            array = np.asarray(values[name], dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"{name} must be a number or an array of numbers, got {values[name]!r}") from None
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite, got {float(array[~np.isfinite(array)][0])!r}")
        arrays.append(array)
    try:
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError:
        shapes = {n: a.shape for n, a in zip(names, arrays, strict=True) if a.shape}
        raise ValueError(f"starts and parameters must have shapes that broadcast, got {shapes}") from None
    table = np.zeros((*shape, len(program.parameters)))
    for name, array in zip(names, arrays, strict=True):
        table[..., program.parameters.index(name)] = array
    return shape, table.reshape(-1, len(program.parameters))
