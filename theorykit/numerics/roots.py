"""Bracketed roots with proof of sign change: the loop as text, instantiated around a generated residual.

Every result is an interval at whose ends the compiled residual has opposite signs (or a point where it vanishes), so
that a continuous residual has a root inside. The rule is interpolation truncated and projected towards bisection, ITP
(Oliveira and Takahashi, ACM Trans. Math. Softw. 47 (2020) 5): never more evaluations than bisection plus one, and
superlinear on smooth residuals.
"""

from __future__ import annotations

import re

from theorykit.numerics.outcome import Outcome

__all__ = ["RootStatus", "roots_source"]


class RootStatus(Outcome):
    """How the search for one root ended; ``message`` says it in words."""

    BRACKETED = 0, "the interval is as narrow as asked and the residual changes sign in it"
    NO_SIGN_CHANGE = 1, "the residual has the same sign at both ends of the interval"
    NON_FINITE = 2, "the residual is infinite or not a number"

    @property
    def ok(self) -> bool:
        """Whether a root was enclosed."""
        return self is RootStatus.BRACKETED


_TEMPLATE = '''
@njit(DECORATION)
def residual_at(P, none, value, x):
    P[SLOT] = x
    residual(P, none, value)
    return value[0]


@njit(DECORATION)
def kept_weight(new, old):
    factor = 1.0 - new / old
    return factor if factor > 0.0 else 0.5


@njit(DECORATION)
def enclose(P, low, high, xtol, rtol, out):
    """Shrink [low, high] around a root; returns (status, evaluations)."""
    none, value = np.empty(0), np.empty(1)
    f_low, f_high = residual_at(P, none, value, low), residual_at(P, none, value, high)
    count = 2
    out[0], out[1] = low, high
    if math.isnan(f_low) or math.isnan(f_high):
        return NON_FINITE, count
    if f_low == 0.0 or f_high == 0.0:
        out[0] = out[1] = low if f_low == 0.0 else high
        return BRACKETED, count
    if (f_low > 0.0) == (f_high > 0.0):
        return NO_SIGN_CHANGE, count
    g_low, g_high = f_low, f_high  # weights of the ends: halved or less where one end stays
    side, checked, width, bisect = 0, count, high - low, False
    while True:
        goal = 2.0 * (xtol + rtol * min(abs(low), abs(high)))
        x = 0.5 * (low + high)
        if high - low <= goal or not low < x < high:
            return BRACKETED, count
        if not bisect and math.isfinite(g_low) and math.isfinite(g_high):
            point = (low * g_high - high * g_low) / (g_high - g_low)
            # at least half the goal from either end, so that the interval closes from both sides
            point = min(max(point, low + 0.5 * goal), high - 0.5 * goal)
            if low < point < high:
                x = point
        f = residual_at(P, none, value, x)
        count += 1
        if math.isnan(f):
            return NON_FINITE, count
        if f == 0.0:
            out[0] = out[1] = x
            return BRACKETED, count
        if (f > 0.0) == (f_low > 0.0):
            if side < 0:
                g_high *= kept_weight(f, g_low)
            low, g_low, side = x, f, -1
        else:
            if side > 0:
                g_low *= kept_weight(f, g_high)
            high, g_high, side = x, f, 1
        out[0], out[1] = low, high
        if bisect or high - low <= 0.5 * width:
            checked, width, bisect = count, high - low, False
        else:
            bisect = count - checked == 3


@njit("void(float64[:, ::1], float64[:, ::1], float64, float64, float64[:, ::1], int64[:, ::1], int64, int64)",
      DECORATION, cache=True)
def roots(P, brackets, xtol, rtol, enclosures, counts, lo, hi):
    for k in range(lo, hi):
        status, count = enclose(P[k], brackets[k, 0], brackets[k, 1], xtol, rtol, enclosures[k])
        counts[k, 0] = status
        counts[k, 1] = count
'''


def roots_source(slot: int, decoration: str = 'nogil=True, error_model="numpy", boundscheck=False') -> str:
    """The loop for an unknown in a slot of the parameter vector, as text.

    The module must define ``residual(P, none, out)`` before it and import ``math``, ``numpy as np`` and ``njit``.
    What is public in it is ``roots``.
    """
    words = {"SLOT": repr(slot), "DECORATION": decoration}
    words |= {status.name: repr(int(status)) for status in RootStatus}
    names = re.compile(r"\b(" + "|".join(words) + r")\b")
    return names.sub(lambda found: words[found.group()], _TEMPLATE)
