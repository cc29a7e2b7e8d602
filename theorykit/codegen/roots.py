"""A compiled bracketing root finder at run time, batched over parameters. Knows no SymPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from theorykit.codegen.flow import batch_of
from theorykit.errors import CodegenError, ConvergenceError, require_real
from theorykit.numerics.roots import RootStatus

if TYPE_CHECKING:
    from theorykit.codegen.program import Program

__all__ = ["Enclosures", "Roots"]

_EVALUATIONS_PER_ROOT = 2_000.0


@dataclass(frozen=True, eq=False)
class Enclosures:
    """Intervals that hold a root each: the residual has opposite signs at the ends, or vanishes at both.

    Arrays have the shape of the batch; ``status`` holds :class:`~theorykit.numerics.roots.RootStatus`.
    """

    low: np.ndarray
    high: np.ndarray
    status: np.ndarray
    evaluations: np.ndarray

    @property
    def root(self) -> np.ndarray:
        """The middle of each interval."""
        return self.low + 0.5 * (self.high - self.low)

    @property
    def error(self) -> np.ndarray:
        """Half the width of each interval."""
        return 0.5 * (self.high - self.low)


class Roots:
    """The roots of an observable in one of its parameters, from :func:`theorykit.codegen.load_roots`."""

    def __init__(self, program: Program) -> None:
        if "roots" not in program.layout:
            raise CodegenError(f"module {program.key} of {program.layout['name']} holds no residual")
        self.program = program
        self.unknown: str = program.layout["roots"]["unknown"]

    def __reduce__(self) -> tuple[Any, ...]:
        return Roots, (self.program,)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of what must be given besides the interval."""
        return tuple(p for p in self.program.parameters if p != self.unknown)

    def residual(self, x: Any, parameters: Mapping[str, Any]) -> np.ndarray:
        """The residual itself, shape of the batch."""
        shape, table = batch_of(self.program, {**parameters, self.unknown: x})
        out = np.empty((len(table), 1))
        none = np.empty(0)
        for row, value in zip(table, out, strict=True):
            self.program.function("residual")(row, none, value)
        return out[:, 0].reshape(shape)

    def __call__(
        self,
        low: Any,
        high: Any,
        parameters: Mapping[str, Any] | None = None,
        *,
        xtol: float = 0.0,
        rtol: float = 2.0**-52,
        on_failure: str = "raise",
    ) -> Enclosures:
        """Enclose one root in each interval [low, high] down to a half-width of ``xtol + rtol |x|``.

        Parameters
        ----------
        low, high : array_like
            Ends, low < high, with residuals of opposite signs; they broadcast with the parameters.
        parameters : mapping of names to numbers or arrays
        xtol, rtol : float
            At least 0; the default ends at neighbouring doubles.
        on_failure : "raise" or "return"

        Raises
        ------
        TypeError, ValueError
            An argument is of the wrong type or out of range.
        ConvergenceError
            The signs at the ends agree, or the residual is not a number; ``last`` holds the :class:`Enclosures`.
        """
        from theorykit.codegen.program import share_out

        xtol = require_real("xtol", xtol, low=0.0)
        rtol = require_real("rtol", rtol, low=0.0, high=1.0)
        if on_failure not in ("raise", "return"):
            raise ValueError(f"on_failure must be 'raise' or 'return', got {on_failure!r}")
        lower, upper = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        if not (np.isfinite(lower).all() and np.isfinite(upper).all() and (lower < upper).all()):
            raise ValueError(f"low and high must be finite with low < high, got {low!r} and {high!r}")
        shape, table = batch_of(self.program, {**(parameters or {}), self.unknown: lower + 0.0 * upper})
        ends = [np.broadcast_to(end, shape).reshape(-1) for end in (lower, upper)]
        brackets = np.ascontiguousarray(np.stack(ends, axis=1))
        enclosures, counts = np.empty((len(table), 2)), np.zeros((len(table), 2), dtype=np.int64)
        arguments = [table, brackets, xtol, rtol, enclosures, counts]
        share_out(self.program.function("roots"), arguments, len(table), len(table) * _EVALUATIONS_PER_ROOT)
        columns = (enclosures[:, 0], enclosures[:, 1], counts[:, 0], counts[:, 1])
        found = Enclosures(*(np.ascontiguousarray(c).reshape(shape) for c in columns))
        bad = np.flatnonzero(found.status.reshape(-1) != RootStatus.BRACKETED)
        if bad.size and on_failure == "raise":
            status = RootStatus(int(found.status.reshape(-1)[bad[0]]))
            raise ConvergenceError(
                f"{self.program.layout['name']}: {bad.size} of {len(table)} roots not enclosed; number {bad[0]} in "
                f"{brackets[bad[0]].tolist()}: {status.message}; start from another interval",
                last=found,
            )
        return found
