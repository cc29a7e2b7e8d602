"""Scalar functions that generated modules may use.

Their source is written into every generated module that needs them, so that a module is complete and its
cache key holds them. Plain Python here (testable without a compiler); ``shared`` compiles each once in a process.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = [
    "NAMES",
    "OPTIONS",
    "add_product",
    "add_row_sums",
    "capped",
    "exponential",
    "exponential_parts",
    "integrate_below",
    "larger",
    "normal_cdf",
    "one_minus_exp",
    "one_minus_exponential",
    "options_of",
    "owens_t",
    "owens_t_gap",
    "sigmoid",
    "sign",
    "smaller",
    "softplus",
    "token_power",
]


def normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x * 0.7071067811865476)


def one_minus_exp(u: float) -> float:
    # beyond 1 nothing cancels, and exp(-u) is mostly known to the caller already
    return 1.0 - math.exp(-u) if u > 1.0 else -math.expm1(-u)


def exponential_parts(x: float) -> tuple[float, float]:
    # exp(x) = 2 s (1 + p), for x in [-708, 710] (cut off there): x = k log 2 + r, s = 2**(k - 1), p = exp(r) - 1
    # from its Chebyshev interpolant in |r| < log(2)/2, good to 1e-17. Sums and products only, which fill lanes;
    # adding 1.5 * 2**52 rounds to the integer k, whose bits are then the last ones
    cut = x if x > -708.0 else -708.0
    cut = cut if cut < 710.0 else 710.0
    t = cut * 1.4426950408889634 + 6755399441055744.0
    k = t - 6755399441055744.0
    r = (cut - k * 0.6931471803691238) - k * 1.9082149292705877e-10
    r2 = r * r
    low = (0.5000000000000001 + 0.16666666666666669 * r) + (
        0.04166666666662374 + 0.008333333333330032 * r
    ) * r2
    middle = 0.0013888888917406447 + 0.00019841269863201828 * r
    high = (2.4801520996825697e-05 + 2.7557268229963227e-06 * r) + (
        2.76202305675069e-07 + 2.5100494788905042e-08 * r
    ) * r2
    p = (low + (middle + high * r2) * (r2 * r2)) * r2 + r
    s = np.int64((np.float64(t).view(np.int64) + 1022) << 52).view(np.float64)
    return s, p


def exponential(x: float) -> float:
    s, p = exponential_parts(x)
    return (s + s * p) * 2.0 if x >= -708.0 else (0.0 if x < -708.0 else x)


def one_minus_exponential(u: float) -> float:
    s, p = exponential_parts(-u)
    return ((0.5 - s) - s * p) * 2.0 if u == u else u


def capped(u: float) -> float:
    return min(u, 1000.0)


def token_power(phi: float, complement: float, count: float) -> float:
    if count <= 0.0:
        return 1.0 if count == 0.0 else 0.0
    if complement >= 0.5:
        return 0.0 if phi <= 0.0 else math.exp(count * math.log(phi))
    return math.exp(count * math.log1p(-complement))


def softplus(x: float) -> float:
    return x + math.log1p(math.exp(-x)) if x > 0.0 else math.log1p(math.exp(x))


def sigmoid(x: float) -> float:
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    e = math.exp(x)
    return e / (1.0 + e)


def sign(x: float) -> float:
    if x > 0.0:
        return 1.0
    return -1.0 if x < 0.0 else x


def larger(a: float, b: float) -> float:
    # unlike max(), nan from either side
    return a if a > b or a != a else b


def smaller(a: float, b: float) -> float:
    return a if a < b or a != a else b


def owens_t(h: float, a: float) -> float:
    # T(h, a) = (1/2pi) int_0^a exp(-h^2 (1+x^2)/2)/(1+x^2) dx; beyond x with h^2 x^2 > 1500 nothing is left
    h = abs(h)
    end = abs(a)
    if h != h or end != end:
        return math.nan
    if end == math.inf:
        value = 0.25 * math.erfc(h * 0.7071067811865476)
    elif end > 1.0:
        # T(h, a) + T(ah, 1/a) = (Phi(h) + Phi(ah))/2 - Phi(h)Phi(ah), in complements
        low = 0.5 * math.erfc(h * 0.7071067811865476)
        high = 0.5 * math.erfc(h * end * 0.7071067811865476)
        value = 0.5 * (low + high) - low * high - owens_t_panels(h * end, 1.0 / end)
    else:
        value = owens_t_panels(h, end)
    return value if a >= 0.0 else -value


def owens_t_gap(h: float, a: float) -> float:
    # T(h, 1) - T(h, a) without cancellation
    return owens_t_between(abs(h), a, 1.0)


def owens_t_panels(h: float, end: float) -> float:
    if h * end > 39.0:
        end = 39.0 / h
    return owens_t_between(h, 0.0, end)


def owens_t_between(h: float, start: float, end: float) -> float:
    panels = math.ceil(max(1.0, (end - start) * max(1.0, h) / 1.5))
    half = 0.5 * (end - start) / panels
    total = 0.0
    for k in range(panels):
        centre = start + (2 * k + 1) * half
        for i in range(8):
            d = half * OWENS_NODES[i]
            for x in (centre - d, centre + d):
                total += OWENS_WEIGHTS[i] * math.exp(-0.5 * h * h * (1.0 + x * x)) / (1.0 + x * x)
    return total * half / 6.283185307179586


def add_product(left, right, weights, out, lo, hi):  # type: ignore[no-untyped-def]
    # out[i, c] += sum_j left[i, j] weights[j] right[j, c], a tile of two rows and four terms at a time, so that what
    # is read serves several products; every element is summed in the order of j, whatever the tiles
    n, m = right.shape
    tiled = n - n % 4
    for i in range(lo, hi - 1, 2):
        o, p = out[i], out[i + 1]
        for j in range(0, tiled, 4):
            w0, w1, w2, w3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
            a0, a1, a2, a3 = left[i, j] * w0, left[i, j + 1] * w1, left[i, j + 2] * w2, left[i, j + 3] * w3
            k = i + 1
            b0, b1, b2, b3 = left[k, j] * w0, left[k, j + 1] * w1, left[k, j + 2] * w2, left[k, j + 3] * w3
            g0, g1, g2, g3 = right[j], right[j + 1], right[j + 2], right[j + 3]
            for c in range(m):
                o[c] = (((o[c] + a0 * g0[c]) + a1 * g1[c]) + a2 * g2[c]) + a3 * g3[c]
                p[c] = (((p[c] + b0 * g0[c]) + b1 * g1[c]) + b2 * g2[c]) + b3 * g3[c]
    for i in range(lo, hi):
        single = (hi - lo) % 2 == 1 and i == hi - 1
        for j in range(0 if single else tiled, n):
            a, g, o = left[i, j] * weights[j], right[j], out[i]
            for c in range(m):
                o[c] += a * g[c]


def add_row_sums(left, weights, out, lo, hi):  # type: ignore[no-untyped-def]
    # out[i, c] += sum_j left[i, j] weights[j]
    for i in range(lo, hi):
        total = 0.0
        for j in range(weights.shape[0]):
            total += left[i, j] * weights[j]
        for c in range(out.shape[1]):
            out[i, c] += total


def integrate_below(values, weights, blocks, panels, out):  # type: ignore[no-untyped-def]
    # out[i] = integral of `values` (at the nodes of panels) up to outer node i, which lies in panel panels[i]
    order = blocks.shape[1]
    count = values.shape[0] // order
    below = np.zeros(count + 1)
    for p in range(count):
        total = 0.0
        for q in range(p * order, (p + 1) * order):
            total += weights[q] * values[q]
        below[p + 1] = below[p] + total
    for i in range(out.shape[0]):
        p = panels[i]
        if p < 0:
            out[i] = 0.0
        elif p >= count:
            out[i] = below[count]
        else:
            total = below[p]
            for q in range(order):
                total += blocks[i, q] * values[p * order + q]
            out[i] = total


# Gauss-Legendre rule of 16 nodes on [-1, 1], the positive half
OWENS_NODES = (
    0.09501250983763744,
    0.28160355077925891,
    0.45801677765722739,
    0.61787624440264375,
    0.75540440835500303,
    0.86563120238783174,
    0.94457502307323258,
    0.98940093499164993,
)
OWENS_WEIGHTS = (
    0.18945061045506850,
    0.18260341504492359,
    0.16915651939500254,
    0.14959598881657673,
    0.12462897125553387,
    0.09515851168249278,
    0.06225352393864789,
    0.02715245941175409,
)

# name -> (other primitives and constants it needs, in order)
NAMES: dict[str, tuple[str, ...]] = {
    "normal_cdf": (),
    "one_minus_exp": (),
    "exponential": ("exponential_parts",),
    "one_minus_exponential": ("exponential_parts",),
    "capped": (),
    "token_power": (),
    "softplus": (),
    "sigmoid": (),
    "sign": (),
    "larger": (),
    "smaller": (),
    "owens_t": ("OWENS_NODES", "OWENS_WEIGHTS", "owens_t_between", "owens_t_panels"),
    "owens_t_gap": ("OWENS_NODES", "OWENS_WEIGHTS", "owens_t_between"),
    "add_product": (),
    "add_row_sums": (),
    "integrate_below": (),
}

#: More options of the compiler. Products and sums may be one instruction, of one rounding (which hides no nan, unlike
#: other "fast" arithmetic); what is inlined into a loop of its own is computed for several nodes at once.
OPTIONS: dict[str, dict[str, object]] = {
    "add_product": {"fastmath": {"contract"}},
    "exponential": {"fastmath": {"contract"}, "forceinline": True},
    "exponential_parts": {"fastmath": {"contract"}, "forceinline": True},
    "one_minus_exponential": {"fastmath": {"contract"}, "forceinline": True},
}


def options_of(name: str) -> dict[str, object]:
    """What a primitive is compiled with."""
    return {"nogil": True, "error_model": "numpy", **OPTIONS.get(name, {})}
