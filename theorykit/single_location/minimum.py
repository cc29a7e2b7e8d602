"""Small pieces of a minimization: which value is lowest, vertex of a quartic, extrapolation to zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Vertex", "extrapolated", "lowest", "quartic_vertex"]


_UNSEEN = 10.0  # an extrapolation may be off by so many times what fewer points change; up to 6 was met


@dataclass(frozen=True)
class Vertex:
    """Minimum of a quartic, in steps from the middle of its five nodes.

    Attributes
    ----------
    offset : float
        Where it is.
    curvature : float
        Second derivative there, per step squared; 0 where the values are flat within their noise.
    blur : float
        How far the noise of the values moves it.
    """

    offset: float
    curvature: float
    blur: float


def quartic_vertex(values: Sequence[float], noise: float) -> Vertex:
    """Minimum of the polynomial through values at -2, -1, 0, 1, 2, each known to ``noise``.

    Far from the middle the quartic means little: there the offset is that of the parabola, at most 20 steps.
    """
    low2, low1, centre, high1, high2 = values
    slope = (8 * (high1 - low1) - (high2 - low2)) / 12
    bend = (16 * (high1 + low1) - (high2 + low2) - 30 * centre) / 12
    third = ((high2 - low2) - 2 * (high1 - low1)) / 4
    fourth = ((high2 + low2) - 4 * (high1 + low1) + 6 * centre) / 6
    if bend <= 50 * noise:
        return Vertex(0.0, 0.0, 0.0)
    offset = -slope / bend
    for _ in range(6):
        curvature = bend + 2 * third * offset + 3 * fourth * offset**2
        if abs(offset) > 1 or curvature <= 0.2 * bend:
            return Vertex(max(-20.0, min(20.0, -slope / bend)), bend, 2 * noise / bend)
        offset -= (slope + bend * offset + third * offset**2 + fourth * offset**3) / curvature
    return Vertex(offset, curvature, 2 * noise / curvature)


def lowest(risks: Mapping[float, float], noise: float) -> float:
    """Key of the lowest value, of the first one in order where they are equal within a relative ``noise``."""
    least = min(risks.values())
    return next(key for key, risk in risks.items() if risk <= least + noise * abs(least))


def extrapolated(x: Sequence[float], y: Sequence[float], at: float = 0.0) -> tuple[float, float]:
    """Value of the interpolating polynomial (Neville) at a point; error from dropping the farthest points."""

    def neville(points: Sequence[float], values: Sequence[float]) -> float:
        table = list(values)
        for order in range(1, len(points)):
            for i in range(len(points) - order):
                far, near = points[i] - at, points[i + order] - at
                table[i] = (far * table[i + 1] - near * table[i]) / (far - near)
        return table[0]

    best = neville(x[1:], y[1:])
    spread = max(abs(best - neville(x, y)), abs(best - neville(x[2:], y[2:])))
    return best, _UNSEEN * spread + 1e-15
