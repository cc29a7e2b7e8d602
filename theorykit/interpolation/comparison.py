"""Attention beside linear regression at equal effective degrees of freedom, which no rescaling of f changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from theorykit.errors import ConvergenceError, require_real
from theorykit.interpolation.error import degrees_of_freedom as attention_freedom
from theorykit.interpolation.error import linear_regression, linear_regression_error, solve
from theorykit.interpolation.model import Attention
from theorykit.results import Estimate

__all__ = ["Comparison", "compare"]

_TOLERANCE = 1e-13
_MOST = 60


@dataclass(frozen=True)
class Comparison:
    """Errors of both probes at one number of degrees of freedom (over n).

    Attributes
    ----------
    degrees_of_freedom : float
    ridge_attention, ridge_regression : Estimate
        The ridges at which both have it.
    error_attention, error_regression : Estimate
        Training errors there.
    """

    degrees_of_freedom: float
    ridge_attention: Estimate
    error_attention: Estimate
    ridge_regression: Estimate
    error_regression: Estimate

    @property
    def ratio(self) -> float:
        """Error of attention over that of linear regression."""
        return float(self.error_attention) / float(self.error_regression)


def compare(model: Attention, degrees_of_freedom: float) -> Comparison:
    """Errors of attention and of linear regression at equal effective degrees of freedom.

    Rescaling f by s is the same as a ridge over s^2: at equal ridges any f can be made to win or lose. The trace of
    the hat matrix over n, 1 - ridge tr Q/n, does not depend on such scales.

    Parameters
    ----------
    model : Attention
        Its ridge is not used.
    degrees_of_freedom : float
        In (0, min(1, ratio)).

    Returns
    -------
    Comparison
        ``ridge_attention``, ``error_attention``, ``ridge_regression`` and ``error_regression``.

    Raises
    ------
    ValueError
        Out of range.
    ConvergenceError
        The equations are not solved at some ridge on the way.

    Examples
    --------
    >>> model = Attention("tanh(x)", ratio=0.5, ridge=1.0, signal=1.0, aligned=1.0)
    >>> found = compare(model, degrees_of_freedom=0.2)
    >>> round(found.error_attention, 10), round(found.error_regression, 10)
    (0.3810394259, 0.4117125111)
    """
    if not isinstance(model, Attention):
        raise TypeError(f"model must be an Attention record, got {model!r} ({type(model).__name__})")
    top = min(1.0, model.ratio)
    target = require_real("degrees_of_freedom", degrees_of_freedom, 0, top, low_open=True, high_open=True)

    def attention(ridges: np.ndarray) -> np.ndarray:
        return attention_freedom(model, ridges)

    def regression(ridges: np.ndarray) -> np.ndarray:
        return linear_regression(model.ratio, ridges, 0.0)["degrees_of_freedom"]

    ridge_attention = _ridge_at(attention, target)
    ridge_regression = _ridge_at(regression, target)
    at = solve(model.replace(ridge=float(ridge_attention)))
    error = linear_regression_error(ratio=model.ratio, ridge=float(ridge_regression), signal=model.signal)
    return Comparison(target, ridge_attention, at.interpolation_error, ridge_regression, error)


def _ridge_at(freedom: Callable[[np.ndarray], np.ndarray], target: float) -> Estimate:
    """The ridge with given degrees of freedom, which fall from their maximum to 0 as the ridge grows."""
    low, high = -10.0, 10.0
    while freedom(np.exp2([low]))[0] < target:
        low -= 10.0
        if low < -_MOST:
            raise ConvergenceError(f"degrees of freedom {target} are reached at no ridge above 2**{low:.0f}")
    while freedom(np.exp2([high]))[0] > target:
        high += 10.0
        if high > 4 * _MOST:
            raise ConvergenceError(f"degrees of freedom {target} are reached at no ridge below 2**{high:.0f}")
    points = np.linspace(low, high, 81)
    values = freedom(np.exp2(points)) - target
    at = int(np.flatnonzero(values <= 0)[0])
    low, high = float(points[max(at - 1, 0)]), float(points[at])
    ends = float(values[max(at - 1, 0)]), float(values[at])
    return _secant(freedom, target, (low, high), ends)


def _secant(
    freedom: Callable[[np.ndarray], np.ndarray],
    target: float,
    bracket: tuple[float, float],
    ends: tuple[float, float],
) -> Estimate:
    """Inside a bracket so short that the secant method converges at once."""
    (a, b), (fa, fb) = bracket, ends
    step = b - a
    for _ in range(12):
        if fb == fa:
            break
        c = b - fb * (b - a) / (fb - fa)
        step = abs(c - b)
        a, fa, b = b, fb, c
        fb = float(freedom(np.exp2([b]))[0]) - target
        if step < _TOLERANCE * max(1.0, abs(b)) or fb == 0:
            break
    ridge = float(np.exp2(b))
    slope = (
        abs((fb - fa) / (b - a))
        if b != a and fb != fa
        else abs((ends[1] - ends[0]) / (bracket[1] - bracket[0]))
    )
    error = np.log(2) * (abs(fb) + 1e-15) / slope + 4 * 2.0**-52
    return Estimate(ridge, ridge * float(error))
