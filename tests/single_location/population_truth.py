"""Independent truth for the population theory of single-location regression.

Nothing here uses the package: mpmath series, extended-precision trapezoids and brute-force sums over Gaussian
fields, written down from the definition of the model. Two-token and three-token averages are taken over the fields
themselves; only the long sequences use the Laplace form, in 80-bit arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest

Function = Callable[[np.ndarray], np.ndarray]

extended = pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="needs 80-bit floating point")
_ROOT_TWO_PI = np.sqrt(np.longdouble(2) * np.arctan2(np.longdouble(0), np.longdouble(-1)))


def within(estimate: float, truth: object, slack: float = 0.0) -> bool:
    """Whether the truth (a float, an mpf or an extended float) lies within the stated error, plus ``slack``."""
    if isinstance(truth, np.floating):
        gap = abs(np.longdouble(estimate.value) - truth)
    else:
        gap = abs(mp.mpf(estimate.value) - truth)
    return bool(gap <= estimate.error + slack)


# ------------------------------------------------------------------------------------- Bayes


def bayes_of_two(task: str, nu: float) -> mp.mpf:
    """Excess Bayes risk of two tokens: a logistic function of one Gaussian, summed by the trapezoid rule.

    Spiked: E 1/(1+e^T), T ~ N(nu, 2 nu), written as e^(-nu/4) times an integral of 1/(2 cosh).
    Max: E 2 p_1 p_2 = E 1/(2 cosh^2(nu d/2)), d the difference of the fields, N(0, 2).
    """
    with mp.workdps(30):
        nu = mp.mpf(nu)
        if nu == 0:
            return mp.mpf(1) / 2
        spread = 2 * mp.sqrt(nu) if task == "spiked" else 2 * nu
        step = min(mp.mpf("0.15"), spread / 12)
        count = int(min(9 * spread, 170) / step)
        total = mp.mpf(0)
        for k in range(-count, count + 1):
            t = k * step
            bump = 2 * mp.cosh(t / 2)
            total += mp.exp(-((t / spread) ** 2)) / (bump if task == "spiked" else bump**2 / 2)
        total *= step / (mp.sqrt(mp.pi) * spread)
        return mp.exp(-nu / 4) * total if task == "spiked" else total


def bayes_of_three(task: str, nu: float) -> np.longdouble:
    """Excess Bayes risk of three tokens: sum over the three fields, in 80-bit arithmetic."""
    scale = np.sqrt(np.longdouble(nu)) if task == "spiked" else np.longdouble(nu)
    step = min(0.25, 0.25 / max(1.0, float(scale)) ** 0.5)
    x, w = trapezoid(step, 13.0 if task == "spiked" else 11.0, np.longdouble)
    hidden = x + scale if task == "spiked" else x
    a = np.exp(scale * hidden)[:, None, None]
    b, c = np.exp(scale * x)[:, None], np.exp(scale * x)
    weights = w[:, None, None] * w[:, None] * w
    if task == "spiked":
        return np.sum(weights * (b + c) / (a + b + c))
    return np.sum(weights * 2 * (a * b + b * c + a * c) / (a + b + c) ** 2)


def bayes_of_many(task: str, nu: float, length: int) -> np.longdouble:
    """Excess Bayes risk of any number of tokens: Laplace variable, both trapezoids in 80-bit arithmetic."""
    beta = math.sqrt(nu) if task == "spiked" else nu
    x, w = trapezoid(min(0.4, 0.2 / max(beta, 0.5)), 14.0, np.longdouble)
    kernel = np.exp((np.sqrt(np.longdouble(nu)) if task == "spiked" else np.longdouble(nu)) * x)
    step = np.longdouble(0.2)
    lowest, highest = -15 * beta - 50 - math.log(length) - nu, 15 * beta + 50
    total = np.longdouble(0)
    for k in range(int(lowest / float(step)), int(highest / float(step)) + 1):
        s = k * step
        u = np.exp(s) * kernel
        decay = np.exp(-u)
        missing = np.sum(w * -np.expm1(-u))
        log_phi = (
            np.log1p(-missing) if missing < 0.5 else np.log(np.sum(w * decay) + np.longdouble("1e-4000"))
        )
        slope = np.sum(w * u * decay)
        total += slope**2 * np.exp((length - 2) * log_phi - (s if task == "spiked" else 0))
    if task == "spiked":
        return (length - 1) * np.exp(-np.longdouble(nu) / 2) * total * step
    return np.longdouble(length) * (length - 1) * total * step


# ------------------------------------------------------------------------------------- sums over Gaussian fields


def trapezoid(step: float, reach: float, kind: type = float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for a standard Gaussian: geometric convergence for smooth functions."""
    count = int(reach / step)
    x = kind(step) * np.arange(-count, count + 1).astype(kind)
    root = _ROOT_TWO_PI if kind is np.longdouble else float(_ROOT_TWO_PI)
    return x, kind(step) * np.exp(-x * x / 2) / root


def panels(
    mean: float, deviation: float, breaks: tuple[float, ...] = (), reach: float = 12.0, width: float = 0.4
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for N(mean, deviation^2): Gauss-Legendre between the breaks."""
    if deviation == 0:
        return np.array([mean]), np.array([1.0])
    ends = {mean - reach * deviation, mean + reach * deviation}
    lattice = {mean + deviation * width * j for j in range(-int(reach / width), int(reach / width) + 1)}
    edges = sorted(ends | lattice | {b for b in breaks if min(ends) < b < max(ends)})
    g, v = np.polynomial.legendre.leggauss(20)
    nodes = np.concatenate([(a + b) / 2 + (b - a) / 2 * g for a, b in pairwise(edges)])
    plain = np.concatenate([(b - a) / 2 * v for a, b in pairwise(edges)])
    density = np.exp(-(((nodes - mean) / deviation) ** 2) / 2) / (deviation * math.sqrt(2 * math.pi))
    return nodes, plain * density


def elementwise_spiked(
    f: Function, nu: float, length: int, m: float, q: float, breaks: tuple[float, ...] = ()
) -> tuple[float, float]:
    """(A, B) of the spiked task: the hidden score is N(sqrt(nu) m, q), the others N(0, q)."""
    x1, w1 = panels(math.sqrt(nu) * m, math.sqrt(q), breaks)
    x0, w0 = panels(0.0, math.sqrt(q), breaks)
    return float(w1 @ f(x1)), float(w1 @ f(x1) ** 2 + (length - 1) * (w0 @ f(x0) ** 2))


def normalized_spiked(
    b: Function, nu: float, length: int, m: float, q: float, step: float | None = None
) -> tuple[float, float]:
    """(A, B) of a smooth kernel, two or three tokens, spiked task: sum over the scores."""
    x, w = trapezoid(step or (0.04 if length == 2 else 0.1), 9.5)
    hidden, other = b(math.sqrt(nu) * m + math.sqrt(q) * x), b(math.sqrt(q) * x)
    if length == 2:
        total = hidden[:, None] + other
        weights = w[:, None] * w
        squares = hidden[:, None] ** 2 + other**2
        first = hidden[:, None]
    else:
        total = hidden[:, None, None] + other[:, None] + other
        weights = w[:, None, None] * w[:, None] * w
        squares = hidden[:, None, None] ** 2 + other[:, None] ** 2 + other**2
        first = hidden[:, None, None]
    return float(np.sum(weights * first / total)), float(np.sum(weights * squares / total**2))


def normalized_spiked_many(
    b: Function, nu: float, length: int, m: float, q: float, breaks: tuple[float, ...] = ()
) -> tuple[float, float]:
    """(A, B) of any kernel and length, spiked task: Laplace variable over panels of the scores."""
    x1, w1 = panels(math.sqrt(nu) * m, math.sqrt(q), breaks)
    x0, w0 = panels(0.0, math.sqrt(q), breaks)
    hidden, other = b(x1), b(x0)
    step, middle = 0.05, math.log(float(np.median(other)))
    first = second = 0.0
    for s in np.arange(-80 - math.log(length), 60, step):
        t = math.exp(s - middle)
        missing = float(w0 @ -np.expm1(-t * other))
        phi = 1 - missing if missing < 0.5 else float(w0 @ np.exp(-t * other))
        if phi <= 0:
            continue
        log_phi = math.log1p(-missing) if missing < 0.5 else math.log(phi)
        decay = np.exp(-t * hidden)
        bend = float(w0 @ ((t * other) ** 2 * np.exp(-t * other)))
        rest = math.exp((length - 1) * log_phi)
        first += float(w1 @ (t * hidden * decay)) * rest
        second += float(w1 @ ((t * hidden) ** 2 * decay)) * rest
        second += (length - 1) * float(w1 @ decay) * bend * math.exp((length - 2) * log_phi)
    return first * step, second * step


def normalized_max_of_two(
    b: Function, nu: float, m: float, q: float, step: float = 0.1
) -> tuple[float, float]:
    """(A, B) of a smooth kernel, two tokens, max task: sum over the fields.

    In sum and difference of the fields; the location is that of the larger one where nu is infinite.
    """
    v, wv = trapezoid(step, 8.7)
    if math.isinf(nu):
        g, plain = np.polynomial.legendre.leggauss(60)
        u = 5 * (g + 1)
        wu = 2 * 5 * plain * np.exp(-u * u / 2) / math.sqrt(2 * math.pi)
        chosen = np.ones_like(u)
    else:
        u, wu = trapezoid(min(step, 0.15 / max(nu, 0.1)), 8.7)
        chosen = 2 / (1 + np.exp(-nu * math.sqrt(2) * u))
    rest = math.sqrt(max(0.0, q - m * m))
    eta, we = (trapezoid(2.5 * step, 8.5)) if rest > 1e-9 else (np.zeros(1), np.ones(1))
    first = second = 0.0
    weights = wv[:, None, None] * we[:, None] * we
    for difference, weight, share in zip(u, wu, chosen, strict=True):
        b1 = b(m * (v[:, None] + difference) / math.sqrt(2) + rest * eta)[:, :, None]
        b2 = b(m * (v[:, None] - difference) / math.sqrt(2) + rest * eta)[:, None, :]
        total = b1 + b2
        first += weight * share * float(np.sum(weights * b1 / total))
        second += weight * float(np.sum(weights * (b1**2 + b2**2) / total**2))
    return first, second


def hidden_density(nu: float, length: int, x: np.ndarray) -> np.ndarray:
    """Density of the field of the hidden token of the max task at ``x``."""
    plain = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    if math.isinf(nu):
        below = np.array([float(mp.ncdf(value)) for value in x])
        return length * plain * below ** (length - 1)
    field, w = trapezoid(min(0.25, 0.15 / max(nu, 0.5)), 13.0)
    step, total = 0.1, np.zeros_like(x)
    for s in np.arange(-15 * nu - 50 - math.log(length), 15 * nu + 50, step):
        u = np.exp(s + nu * field)
        missing = float(w @ -np.expm1(-u))
        phi = 1 - missing if missing < 0.5 else float(w @ np.exp(-u))
        if phi > 0:
            log_phi = math.log1p(-missing) if missing < 0.5 else math.log(phi)
            own = np.exp(s + nu * x)
            total += own * np.exp(-own + (length - 1) * log_phi)
    return length * plain * total * step


def elementwise_max(f: Function, nu: float, length: int, m: float, q: float) -> tuple[float, float]:
    """(A, B) of a smooth activation, max task: the density of the hidden field, then the rest of the score."""
    x = np.arange(-11, 11.0001, 0.02)
    eta, w = trapezoid(0.1, 10.0) if q > m * m else (np.zeros(1), np.ones(1))
    rest = math.sqrt(max(0.0, q - m * m))
    averaged = f(m * x[:, None] + rest * eta) @ w
    y, v = trapezoid(0.02, 11.0)
    first = 0.02 * float(np.sum(hidden_density(nu, length, x) * averaged))
    return first, length * float(v @ f(math.sqrt(q) * y) ** 2)


# ------------------------------------------------------------------------------------- erf in closed form


def _owen(h: mp.mpf, a: mp.mpf) -> mp.mpf:
    return mp.quad(lambda x: mp.exp(-h * h * (1 + x * x) / 2) / (1 + x * x), [0, a / 2, a]) / (2 * mp.pi)


def erf_excess(nu: float, length: int, shift: mp.mpf, m: mp.mpf) -> mp.mpf:
    """Excess risk of erf attention at its best v, spiked task, key m k*: Owen's T function in mpmath."""
    shift, m = mp.mpf(shift), mp.mpf(m)
    wide, tau = mp.sqrt(1 + 2 * m * m), 1 / mp.sqrt(1 + 4 * m * m)
    first, other = (mp.sqrt(2) * (shift + field) / wide for field in (mp.sqrt(nu) * m, 0))
    squares = [4 * (mp.ncdf(h) - 2 * _owen(h, tau)) for h in (first, other)]
    return 1 - (2 * mp.ncdf(first)) ** 2 / (squares[0] + (length - 1) * squares[1])


def plain(kernel: str) -> Callable:
    """A kernel of this text as a NumPy function."""
    return {
        "exp(x)": np.exp,
        "softplus(x)": lambda x: np.logaddexp(0, x),
        "1 + x**2": lambda x: 1 + x * x,
        "1 + tanh(x)": lambda x: 2 / (1 + np.exp(-2 * x)),
        "exp(-x)": lambda x: np.exp(-x),
        "exp(x**2/20)": lambda x: np.exp(x * x / 20),
        "2 + sin(3*x)": lambda x: 2 + np.sin(3 * x),
        "exp(-x**2) + 0.001": lambda x: np.exp(-x * x) + 0.001,
        "1e-8*exp(x)": np.exp,
        "3": lambda x: 3 + 0 * x,
        "abs(x) + 0.1": lambda x: np.abs(x) + 0.1,
        "max(x, 1 - x)": lambda x: np.maximum(x, 1 - x),
        "relu(x) + 0.01": lambda x: np.maximum(x, 0) + 0.01,
        "1.001 + erf(50*x)": lambda x: 0.001 + np.array([math.erfc(-50 * v) for v in x]),
        "1/(1 + exp(-30*x)) + 0.001": lambda x: 0.001 + 1 / (1 + np.exp(np.minimum(700, -30 * x))),
    }[kernel]
