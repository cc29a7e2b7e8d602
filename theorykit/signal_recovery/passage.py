"""Time of passage from one alignment to another along the flow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from theorykit.errors import ConvergenceError, require_real
from theorykit.results import Estimate
from theorykit.signal_recovery.model import Model
from theorykit.signal_recovery.phases import FixedPoint, fixed_points
from theorykit.signal_recovery.programs import parameters, program, scaling

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["time_to"]

_ORDER, _FINER = 16, 24  # Gauss-Legendre nodes per panel, and to compare with
_ACCEPT = 1e-8
# of a panel in artanh(rho): tanh has its poles at a distance of pi/2, so that 16 nodes leave 25**-32 on this length;
# poles of the rate are kept away by the panels themselves, and whatever else there is shows in the finer rule
_LONGEST = 0.25


def time_to(model: Model, rho0: float, rho1: float) -> Estimate:
    """The time in which the flow takes the alignment from ``rho0`` to ``rho1``.

    Parameters
    ----------
    model : Model
    rho0, rho1 : float
        Start and end, in [-1, 1]; the flow must pass from one to the other.

    Returns
    -------
    Estimate
        Time, the sum of the step sizes of the gradient ascent.

    Raises
    ------
    ValueError
        The flow never reaches ``rho1``: it is a fixed point (approached for t -> infinity), it lies behind the start,
        or beyond a fixed point.
    ConvergenceError
        The quadrature does not reach 1e-8.

    Notes
    -----
    A quadrature over artanh(rho), in which the poles of 1/F at -1 and 1 are integrated in closed form, on panels that
    shrink towards a separatrix (``theorykit.derivations.signal_recovery.escape``).

    Examples
    --------
    >>> round(float(time_to(Model(theta=1.5, fraction=0.1), 0.0, 0.99)), 10)
    1.911749173
    """
    start = require_real("rho0", rho0, low=-1, high=1)
    end = require_real("rho1", rho1, low=-1, high=1)
    if start == end:
        return Estimate(0.0, 0.0)
    points = fixed_points(model)
    _require_passage(points, start, end)
    ends = math.atanh(start), math.atanh(end)
    singular = [math.atanh(p.rho) for p in points if abs(p.rho) < 1]
    return _quadrature(_pace(model), singular, *ends)


def _pace(model: Model) -> Callable[[np.ndarray], np.ndarray]:
    """Time per rapidity artanh(rho), as a function of arrays."""
    if not model.is_exponential:
        from theorykit.signal_recovery.kernels import kernel_pace

        return kernel_pace(model)
    found = program("escape", ("pace",), **scaling(model))
    return lambda s: found.rows(parameters(model, rapidity=s))["pace"]


def _require_passage(points: tuple[FixedPoint, ...], start: float, end: float) -> None:
    low, high = min(start, end), max(start, end)
    for point in points:
        if low <= point.rho + point.rho.error and point.rho - point.rho.error <= high:
            raise ValueError(
                f"rho1 must be reached from rho0 = {start!r} in finite time, got {end!r}: {float(point.rho)!r} is a "
                "fixed point of the flow, which trajectories neither reach nor leave nor pass"
            )
    neighbour = max((p for p in points if p.rho < low), key=lambda p: p.rho)
    rises = not neighbour.stable
    if rises != (end > start):
        direction = "increases" if rises else "decreases"
        raise ValueError(
            f"rho1 must be ahead of rho0 = {start!r}, got {end!r}: the alignment {direction} there"
        )


def _quadrature(
    integrand: Callable[[np.ndarray], np.ndarray], singular: list[float], start: float, end: float
) -> Estimate:
    """Integral from start to end; its error is the change under a finer rule."""
    edges = _panels(singular, min(start, end), max(start, end))
    coarse, fine = (_panel_sum(integrand, edges, order) for order in (_ORDER, _FINER))
    value = fine if end > start else -fine
    # rounding of the ends counts by the integrand there
    ends = integrand(np.array([start, end])) * np.array([start, end])
    error = abs(fine - coarse) + 4 * 2.0**-52 * (abs(fine) + float(np.abs(ends).sum()))
    if not error <= _ACCEPT * abs(value):
        raise ConvergenceError(
            f"time from {math.tanh(start)!r} to {math.tanh(end)!r} is {value:.6g} with error {error:.1g}; the start or "
            "the end is too close to a fixed point for double precision",
            last=value,
            residual=error,
        )
    return Estimate(value, error)


def _panels(singular: list[float], low: float, high: float) -> np.ndarray:
    """Edges of panels that are short against their distance to every singular point."""
    edges = [low]
    while edges[-1] < high:
        here = edges[-1]
        distances = [here - s if s <= here else 0.5 * (s - here) for s in singular]
        following = here + min(_LONGEST, *distances) if distances else here + _LONGEST
        edges.append(following if here < following < high else high)
    return np.array(edges)


def _panel_sum(integrand: Callable[[np.ndarray], np.ndarray], edges: np.ndarray, order: int) -> float:
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half = 0.5 * np.diff(edges)[:, None]
    return float((half * weights * integrand(edges[:-1, None] + half * (1.0 + nodes))).sum())
