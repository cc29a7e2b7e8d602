"""Exceptions of theorykit, and the checks of numbers that every public function applies to its arguments.

Bad input raises ``ValueError`` or ``TypeError`` naming argument, value and allowed range; what goes wrong
later (deriving, generating code, converging) has a class of its own, below :class:`TheorykitError`.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

__all__ = [
    "CacheError",
    "CodegenError",
    "ConvergenceError",
    "DerivationError",
    "FormulaError",
    "TheorykitError",
    "require_integer",
    "require_real",
]


class TheorykitError(Exception):
    """Base of the errors raised by theorykit for reasons other than a bad argument."""


class DerivationError(TheorykitError):
    """A derivation is not a chain: a missing premise, an undeclared symbol, a claim without evaluator."""


class CodegenError(TheorykitError):
    """An expression cannot be turned into code; the message names the node and the equation."""


class CacheError(CodegenError):
    """The folder of generated modules is unusable or unsafe."""


class FormulaError(TheorykitError, ValueError):
    """A formula given as text is refused.

    Attributes
    ----------
    source : str or None
        The text as given.
    column : int or None
        Column of the offending part, counted from 1.
    """

    def __init__(self, message: str, *, source: str | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.source = source
        self.column = column


class ConvergenceError(TheorykitError, RuntimeError):
    """An iteration stopped before reaching its tolerance.

    Attributes
    ----------
    last : object
        The last iterate, so that the caller may inspect it or start again from it.
    residual : float or None
        Size of the residual there.
    steps : int or None
        Number of steps made.
    start : object
        Where the iteration started: a name or a vector.
    """

    def __init__(
        self,
        message: str,
        *,
        last: Any = None,
        residual: float | None = None,
        steps: int | None = None,
        start: Any = None,
    ) -> None:
        super().__init__(message)
        self.last = last
        self.residual = residual
        self.steps = steps
        self.start = start

    @classmethod
    def not_reached(
        cls,
        what: str,
        *,
        residual: float,
        tolerance: float,
        steps: int,
        start: Any,
        advice: str,
        last: Any = None,
    ) -> ConvergenceError:
        """What was not reached, by how much, after how many steps, from where, and what to try.

        Examples
        --------
        >>> error = ConvergenceError.not_reached("fixed point", residual=3e-4, tolerance=1e-8, steps=2000,
        ...                                      start="uninformed", advice="raise max_steps or damping")
        >>> print(error)  # doctest: +ELLIPSIS
        fixed point not reached: residual 0.0003 > 1e-08 after 2000 steps from start 'uninformed'; raise ...
        """
        message = (
            f"{what} not reached: residual {residual:.3g} > {tolerance:.3g} after {steps} steps "
            f"from start {start!r}; {advice}"
        )
        return cls(message, last=last, residual=residual, steps=steps, start=start)


def _interval(low: float | None, high: float | None, low_open: bool, high_open: bool, allow_inf: bool) -> str:
    left = "(" if low_open or (low is None and not allow_inf) else "["
    right = ")" if high_open or ((high is None or math.isinf(high)) and not allow_inf) else "]"
    return f"{left}{-math.inf if low is None else low:g}, {math.inf if high is None else high:g}{right}"


def _scalar(value: Any) -> Any:
    """Unwrap NumPy scalars and 0-d arrays (anything of shape ``()``) to the number inside."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    return value


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def require_real(
    name: str,
    value: Any,
    low: float | None = None,
    high: float | None = None,
    low_open: bool = False,
    high_open: bool = False,
    allow_inf: bool = False,
) -> float:
    """Return ``value`` as a plain float, or say what is wrong with it.

    Parameters
    ----------
    name : str
        The argument, as the user wrote it.
    value : object
        Python or NumPy real number, or 0-d array of one; booleans, text, complex numbers, arrays are refused.
    low, high : float, optional
        Ends of the allowed interval; None: unbounded.
    low_open, high_open : bool
        Whether the end itself is excluded.
    allow_inf : bool
        Whether infinite values inside the interval are legal.  NaN never is.

    Raises
    ------
    TypeError
        Not a real number.
    ValueError
        NaN, infinite where that is not allowed, or outside the interval.

    Examples
    --------
    >>> require_real("nu", -1.0, low=0, allow_inf=True)
    Traceback (most recent call last):
        ...
    ValueError: nu must be a real number in [0, inf], got -1.0
    """
    if type(value) is float and low is None and high is None and math.isfinite(value):
        return value  # what computations do all the time
    allowed = f"{name} must be a real number in {_interval(low, high, low_open, high_open, allow_inf)}"
    number = _scalar(value)
    if not _is_real(number):
        raise TypeError(f"{allowed}, got {value!r} ({type(value).__name__})")
    try:
        result = float(number)
    except OverflowError:
        raise ValueError(f"{allowed}, got a number beyond the range of a double") from None
    below = low is not None and (result < low or (low_open and result == low))
    above = high is not None and (result > high or (high_open and result == high))
    if math.isnan(result) or below or above or (math.isinf(result) and not allow_inf):
        raise ValueError(f"{allowed}, got {result!r}")
    return result


def _is_whole(number: Any) -> bool:
    if isinstance(number, numbers.Rational):  # of any size: beyond the range of a double, too
        return number.denominator == 1
    return math.isfinite(number) and number == math.floor(number)


def require_integer(name: str, value: Any, low: int | None = None, high: int | None = None) -> int:
    """Return ``value`` as a plain int, or say what is wrong with it.

    Floats with an integer value (a grid made by NumPy, say) are accepted; nothing is rounded.

    Raises
    ------
    TypeError
        Not a real number.
    ValueError
        Not an integer, or outside [low, high].

    Examples
    --------
    >>> require_integer("length", 2.5, low=1)
    Traceback (most recent call last):
        ...
    ValueError: length must be an integer in [1, inf), got 2.5
    """
    left = "(-inf" if low is None else f"[{low}"
    right = "inf)" if high is None else f"{high}]"
    allowed = f"{name} must be an integer in {left}, {right}"
    number = _scalar(value)
    if not _is_real(number):
        raise TypeError(f"{allowed}, got {value!r} ({type(value).__name__})")
    if not _is_whole(number):
        raise ValueError(f"{allowed}, got {number!r}")
    result = int(number)
    if (low is not None and result < low) or (high is not None and result > high):
        raise ValueError(f"{allowed}, got {result}")
    return result
