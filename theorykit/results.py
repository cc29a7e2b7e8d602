"""What computations return: numbers with errors, optima, solutions of fixed-point equations.

All are immutable and picklable.  :class:`Estimate` is a float, so it goes wherever a float goes; the error
travels beside it until arithmetic makes a plain float of it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import ROUND_CEILING, Decimal, localcontext
from types import MappingProxyType
from typing import Any

from theorykit.errors import require_integer, require_real

__all__ = ["Estimate", "Optimum", "Solution", "Status"]

_KINDS = ("bound", "standard error")
_DOUBLE_DIGITS = 17  # a double has no more significant digits; further ones would be noise
_PRECISION = 1600  # enough for the exact decimal expansion of any double aligned with any other


class Estimate(float):
    """A computed number together with its error.

    Parameters
    ----------
    value : float
        The number; finite.
    error : float
        Size of the error, at least 0; finite.
    kind : str
        "bound": the true value lies within ``error``; "standard error": one standard deviation of sampling.

    Raises
    ------
    TypeError, ValueError
        For anything that is not finite, a negative error, an unknown kind.

    Notes
    -----
    Compares, hashes, serialises and computes as the float ``value``; arithmetic returns plain floats.

    Examples
    --------
    >>> Estimate(0.11550911104, 1.3e-10)
    0.1155091110(2)
    >>> Estimate(1.2344e-12, 5e-15), f"{Estimate(0.25, 1e-9):.3f}"
    (1.234(5)e-12, '0.250')
    """

    __slots__ = ("_error", "_kind")

    _error: float
    _kind: str

    def __new__(cls, value: Any, error: Any, kind: str = "bound") -> Estimate:
        self = super().__new__(cls, require_real("value", value))
        if kind not in _KINDS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, _KINDS))}, got {kind!r}")
        checked = require_real("error", error)
        object.__setattr__(self, "_error", checked if checked >= 0 else require_real("error", error, low=0))
        object.__setattr__(self, "_kind", kind)
        return self

    @property
    def value(self) -> float:
        """The number as a plain float."""
        return float(self)

    @property
    def error(self) -> float:
        """Its error."""
        return self._error

    @property
    def kind(self) -> str:
        """What the error means: "bound" or "standard error"."""
        return self._kind

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an Estimate is immutable; {name!r} cannot be set")

    def __repr__(self) -> str:
        return _with_error(float(self), self._error)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else repr(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (float(self), self._error, self._kind)


def _with_error(value: float, error: float) -> str:
    """``value(error)``: the error to one digit, rounded up, in units of the last digit shown."""
    if error == 0:
        return f"{value!r}(0)"
    with localcontext() as context:
        context.prec = _PRECISION
        exact, spread = Decimal(value), Decimal(repr(error))
        place = spread.adjusted()
        if exact:
            place = max(place, exact.adjusted() - _DOUBLE_DIGITS + 1)
        digit = int(spread.scaleb(-place).to_integral_value(ROUND_CEILING))
        if digit == 10:
            digit, place = 1, place + 1
        shown = exact.quantize(Decimal(1).scaleb(place))
        lead = max(shown.adjusted(), place) if shown else place
        shown = shown if shown else abs(shown)  # no "-0.00"
        if -5 < lead < 16 and place <= 0:
            return f"{shown:f}({digit})"
        return f"{shown.scaleb(-lead):f}({digit})e{lead:+03d}"


class Status(enum.StrEnum):
    """How a computation ended; ``message`` says it in words."""

    message: str

    CONVERGED = "converged", "the tolerance was reached"
    NOISE_FLOOR = "noise_floor", "sampling noise limits the accuracy; the errors are widened accordingly"
    MAX_STEPS = "max_steps", "the last allowed step was made before the tolerance was reached"
    NON_FINITE = "non_finite", "a value became infinite or not a number"
    DOMAIN = "domain", "an iterate left the domain of the equations"
    LIMIT = "limit", "the infimum is reached only in a limit of infinite overlaps; its value is the limit"

    def __new__(cls, value: str, message: str) -> Status:
        member = str.__new__(cls, value)
        member._value_ = value
        member.message = message
        return member

    def __repr__(self) -> str:
        return f"Status.{self.name}"


def _status(value: Status | str) -> Status:
    for status in Status:
        if status == value:
            return status
    raise ValueError(f"status must be one of {', '.join(Status)}, got {value!r}")


def _refuse_nan(owner: str, name: str, value: object) -> None:
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"{owner}: {name} must not be nan")


@dataclass(frozen=True)
class Optimum:
    """The smallest risk of an estimator, and where it is.

    Attributes
    ----------
    risk : Estimate
        The minimal (or infimal) risk.
    m_k, q_k, m_v, q_v : Estimate or float
        Overlaps there; infinite ones are legal where ``attained`` is False.
    shift : float or None
        Optimal shift of an activation that has one to optimize.
    attained : bool
        False: the infimum is approached as overlaps grow without bound, and ``risk`` is its limit.
    status : Status
    evaluations : int
        Number of risks evaluated in the search.
    """

    risk: Estimate
    m_k: Estimate | float
    q_k: Estimate | float
    m_v: Estimate | float
    q_v: Estimate | float
    shift: float | None = None
    attained: bool = True
    status: Status = Status.CONVERGED
    evaluations: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.risk, Estimate):
            raise TypeError(f"risk must be an Estimate, got {self.risk!r} ({type(self.risk).__name__})")
        if not isinstance(self.attained, bool):
            raise TypeError(f"attained must be a bool, got {self.attained!r}")
        for name in ("m_k", "q_k", "m_v", "q_v"):
            require_real(name, getattr(self, name), allow_inf=not self.attained)
        if self.shift is not None:
            require_real("shift", self.shift, allow_inf=not self.attained)
        object.__setattr__(self, "status", _status(self.status))
        object.__setattr__(self, "evaluations", require_integer("evaluations", self.evaluations, low=0))


@dataclass(frozen=True)
class Solution:
    """A solution of fixed-point equations: named values, and how they were found.

    Attributes
    ----------
    values : Mapping[str, Estimate | float | bool | None]
        The order parameters and observables; each is an attribute too (``solution.test_risk``).
    status : Status
    residual : float
        Size of the residual of the undamped map at the solution.
    iterations : int
    start : str or None
        Name of the start the iteration was given.
    branch : str or None
        Which of several coexisting solutions this is.
    messages : tuple of str
        What a user should know: noise floors, instabilities, neighbouring branches.
    """

    values: Mapping[str, Any]
    status: Status
    residual: float
    iterations: int
    start: str | None = None
    branch: str | None = None
    messages: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        taken = {f.name for f in fields(self)}
        for name, value in self.values.items():
            if not (isinstance(name, str) and name.isidentifier()) or name in taken or name.startswith("_"):
                raise ValueError(f"{name!r} cannot be the name of a value of a Solution")
            _refuse_nan("Solution", name, value)
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))
        object.__setattr__(self, "status", _status(self.status))
        object.__setattr__(self, "residual", require_real("residual", self.residual, low=0, allow_inf=True))
        object.__setattr__(self, "iterations", require_integer("iterations", self.iterations, low=0))
        object.__setattr__(self, "messages", tuple(self.messages))

    def __getattr__(self, name: str) -> Any:
        # Copying and unpickling look attributes up before `values` exists.
        if name == "values" or name.startswith("__"):
            raise AttributeError(name)
        try:
            return self.values[name]
        except KeyError:
            known = ", ".join(self.values)
            raise AttributeError(f"this Solution has no value {name!r}; its values are {known}") from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.values})

    def __hash__(self) -> int:
        return hash((frozenset(self.values.items()), self.status, self.residual, self.start, self.branch))

    def __repr__(self) -> str:
        lines = [f"{name}={value!r}" for name, value in self.values.items()]
        rest = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.name != "values"]
        return f"Solution({', '.join(lines)}; {', '.join(rest)})"

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = [getattr(self, f.name) for f in fields(self)]
        return type(self), (dict(self.values), *arguments[1:])
