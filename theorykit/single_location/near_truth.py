"""Keys almost along k*, at strong signals of the max task: moments interpolated in the part orthogonal to k*.

The location is then almost that of the largest score. What separates the two is a small noise, of which averages are
smooth functions of the variance: moments at a fixed m_k are interpolated in 1 - m_k^2/q_k, from keys farther off k*
and, where it can be had, the key along k*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from theorykit.results import Estimate

__all__ = ["NEAR", "interpolated"]

NEAR = 0.004  # of 1 - m_k^2/q_k, up to which integrals over the score take long
_NODES = (0.0, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03)  # of the same

Moments = Mapping[str, Estimate]


def interpolated(
    at: Callable[[float], Moments], m_k: float, q_k: float, has_aligned: bool
) -> dict[str, Estimate]:
    """Moments at a key, from ``at(q_k)`` at keys of the same m_k; ``has_aligned``: also at q_k = m_k^2.

    Errors are those of the moments there, and what the polynomial changes by without the farthest of them.
    """
    shares = _NODES if has_aligned else _NODES[1:]
    place = max(0.0, (q_k - m_k * m_k) / q_k)
    known = [at(m_k * m_k / (1 - share)) for share in shares]
    found = {}
    for name in known[0]:
        values = [k[name] for k in known]
        value = _polynomial(shares, values, place)
        fewer = _polynomial(shares[:-1], values[:-1], place)
        noise = math.fsum(abs(w) * v.error for w, v in zip(_weights(shares, place), values, strict=True))
        found[name] = Estimate(value, noise + abs(value - fewer))
    return found


def _polynomial(shares: tuple[float, ...], values: list[Estimate], place: float) -> float:
    return math.fsum(w * float(v) for w, v in zip(_weights(shares, place), values, strict=True))


def _weights(shares: tuple[float, ...], place: float) -> list[float]:
    """Lagrange's weights of the nodes."""
    return [math.prod((place - o) / (s - o) for o in shares if o != s) for s in shares]
