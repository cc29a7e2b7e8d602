"""Fixed points of the flow, the separatrix between what flows to +1 and to -1, and the two basins."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

from theorykit.errors import require_integer
from theorykit.results import Estimate
from theorykit.signal_recovery.model import Model
from theorykit.signal_recovery.programs import parameters, program, roots, rounding, scaling

__all__ = ["Basin", "FixedPoint", "basin", "critical_shift", "fixed_points", "separatrix"]

_EPSILON = 2.0**-52


@dataclass(frozen=True)
class FixedPoint:
    """A zero of the flow.

    Attributes
    ----------
    rho : Estimate
    eigenvalue : Estimate
        Derivative of the rate of rho there; 0 within its error at a bifurcation.
    stable : bool
        Whether everything close to it (within [-1, 1]) flows to it.
    """

    rho: Estimate
    eigenvalue: Estimate
    stable: bool


@dataclass(frozen=True)
class Basin:
    """Probabilities of a uniform start to flow to +1 (``aligned``) and to -1 (``opposed``)."""

    aligned: Estimate
    opposed: Estimate


def fixed_points(model: Model) -> tuple[FixedPoint, ...]:
    """All zeros of the flow in [-1, 1], by increasing rho.

    Both poles are among them. For the exponential kernel there is at most one more, the zero of a monotone function
    of the attention mass, enclosed by a change of sign. For other kernels the search cannot miss a zero of the
    interpolated slope: intervals are discarded only where bounds on its derivatives exclude one (see
    ``theorykit.signal_recovery.kernels``); double zeros that it can neither separate nor exclude raise. Derived in
    ``signal_recovery.fixed_points`` from arXiv 2606.22406.

    Parameters
    ----------
    model : Model

    Returns
    -------
    tuple of FixedPoint
        ``rho``, ``eigenvalue`` (the slope of the rate there) and ``stable``.

    Raises
    ------
    ConvergenceError
        Kernels of your own only: averages that do not converge, or zeros that are not separated.

    Examples
    --------
    >>> [round(float(point.rho), 12) for point in fixed_points(Model(theta=3, fraction=0.3))]
    [-1.0, -0.572974508277, 1.0]
    """
    if not model.is_exponential:
        from theorykit.signal_recovery.kernels import kernel_zeros

        inside, slopes = kernel_zeros(model)
        return _with_poles(inside, slopes)
    crossing = _crossing(model)
    below, above = Estimate(-1.0, 0.0), Estimate(1.0, 0.0)
    if crossing <= -1 + crossing.error:
        return _fixed_point(model, below, False), _fixed_point(model, above, True)
    # the sign of the slope is that of rho - rho_c, also where the slope itself underflows
    known = ((below, True), (crossing, False), (above, True))
    return tuple(_fixed_point(model, rho, stable) for rho, stable in known)


def separatrix(model: Model) -> Estimate | None:
    """The alignment rho_c above which everything flows to +1; None where everything does.

    Parameters
    ----------
    model : Model

    Returns
    -------
    Estimate or None
        The largest unstable fixed point inside (-1, 1), see :func:`fixed_points`.

    Raises
    ------
    ConvergenceError, ValueError
        As for :func:`fixed_points`.

    Examples
    --------
    >>> separatrix(Model(theta=1, fraction=0.3)) is None
    True
    """
    unstable = [p.rho for p in fixed_points(model) if not p.stable and abs(p.rho) < 1]
    return unstable[-1] if unstable else None


def basin(model: Model, dimension: int) -> Basin:
    """Probabilities to flow to +1 and to -1 from a start q_0 that is uniform on the sphere in R^d.

    Parameters
    ----------
    model : Model
    dimension : int
        d, at least 2. The flow is that of ``model``, whatever d is: set ``model.kappa`` to (d - 1)/L.

    Returns
    -------
    Basin
        ``aligned`` and ``opposed``, probabilities with their errors.

    Raises
    ------
    TypeError, ValueError
        ``dimension`` is no integer of at least 2.
    ConvergenceError
        As for :func:`fixed_points`.

    Notes
    -----
    Each is a regularized incomplete beta function of its own: neither is one minus the other.

    Examples
    --------
    >>> round(float(basin(Model(theta=3, fraction=0.3), dimension=10).opposed), 12)
    0.032699988153
    """
    dimension = require_integer("dimension", dimension, low=2)
    points = fixed_points(model)
    zero = Estimate(0.0, 0.0)
    above = _basin_edge(points, 1.0)
    below = _basin_edge(points, -1.0)
    return Basin(
        zero if above is None else _tail(-above, above.error, dimension),
        zero if below is None else _tail(below, below.error, dimension),
    )


def _basin_edge(points: tuple[FixedPoint, ...], pole: float) -> Estimate | None:
    """Where the basin of a pole ends: its neighbour among the fixed points; None if the pole attracts nothing."""
    first, second = (points[-1], points[-2]) if pole > 0 else (points[0], points[1])
    return second.rho if first.stable else None


def _tail(edge: float, error: float, dimension: int) -> Estimate:
    """P(rho_0 < edge) = I_{1 - edge^2}((d - 1)/2, 1/2)/2 for edge <= 0, with what the error of the edge makes of it."""

    def probability(c: float) -> float:
        from scipy.special import betainc, betaincc

        c = min(max(c, -1.0), 1.0)
        tail = betainc if c > 0 else betaincc
        return (0.5 if c > 0 else 0.0) + 0.5 * float(tail(0.5, 0.5 * (dimension - 1), c * c))

    value = probability(edge)
    moved = max(abs(probability(edge + sign * error) - value) for sign in (-1, 1)) if error else 0.0
    return Estimate(value, moved + 1e-13 * value)


# --------------------------------------------------------------------------- exponential kernel


def critical_shift(model: Model) -> Estimate:
    """logit w_c - logit pi = beta theta rho_c, where the slope vanishes: the root of a monotone function."""
    options = scaling(model)
    values = program("fixed_points", ("balance", "balance_slope", "lower"), **options)
    low = rounding(values, parameters(model, x=0.0))["lower"][0]
    finder = roots("fixed_points", "x", "balance", **options)
    given = {name: parameters(model)[name] for name in finder.parameters}
    found = finder(low - 1.0, 0.0, given)  # one more below: the sign there must survive rounding
    x = float(found.root)
    there = rounding(values, parameters(model, x=x))
    return Estimate(x, float(found.error) + there["balance"][1] / there["balance_slope"][0] - _EPSILON * x)


def _crossing(model: Model) -> Estimate:
    """The zero of the slope on the whole real line."""
    x = critical_shift(model)
    found = program("fixed_points", ("separatrix",), **scaling(model))
    values = found.values(parameters(model, x=float(x)))["separatrix"]
    return Estimate(values, values.error + x.error / (model.beta * model.theta))


def _fixed_point(model: Model, rho: Estimate, stable: bool) -> FixedPoint:
    found = program("limit", ("drift_slope",), **scaling(model))
    value = found.values(parameters(model, rho=float(rho)))["drift_slope"]
    moved = 0.0
    if rho.error:
        near = math.copysign(max(abs(rho) - rho.error, 0.0), rho)
        moved = abs(found.values(parameters(model, rho=near))["drift_slope"] - value)
    return FixedPoint(rho, Estimate(value, value.error + moved + sys.float_info.min), stable)


def _with_poles(inside: list[Estimate], slopes: Any) -> tuple[FixedPoint, ...]:
    """The zeros of the slope between the poles, each with J'' there, and both poles with J'."""
    below, curvatures, above = slopes
    points = [FixedPoint(Estimate(-1.0, 0.0), Estimate(2 * below, 2 * below.error), below < 0)]
    for rho, curvature in zip(inside, curvatures, strict=True):
        scale = (1 - rho) * (1 + rho)
        rate = Estimate(scale * curvature, scale * curvature.error + 2 * rho.error * abs(curvature))
        points.append(FixedPoint(rho, rate, rate < 0))
    points.append(FixedPoint(Estimate(1.0, 0.0), Estimate(-2 * above, 2 * above.error), above > 0))
    return tuple(points)
