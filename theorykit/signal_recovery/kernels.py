"""Weights other than the exponential: averages by quadrature, the slope by interpolation, all of its zeros.

The slope is analytic in rho whatever the kernel is, because Gaussian noise smooths the scores. It is computed on
Chebyshev points until the coefficients of its interpolant have decayed to rounding; zeros, times and trajectories
use the interpolant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from theorykit.errors import ConvergenceError
from theorykit.results import Estimate
from theorykit.signal_recovery.model import Model
from theorykit.signal_recovery.programs import flow, parameters, program, scaling

__all__ = ["Interpolant", "interpolant", "kernel_pace", "kernel_states", "kernel_values", "kernel_zeros"]

_OBSERVABLES = ("objective", "slope", "drift", "w")
_DECAY = 1e-12  # of the last coefficients, relative to the largest
_DEGREES = (16, 32, 64, 128, 256, 512)
_SINGLY = 32  # arrays of up to as many alignments are computed one by one
_ACCEPT = 1e-10
_FINEST = 1e-10  # half-width at which two zeros are given up to be told apart


@dataclass(frozen=True, eq=False)
class Interpolant:
    """Chebyshev coefficients of a function on [-1, 1], and a bound on what they miss."""

    coefficients: np.ndarray
    error: float

    def __call__(self, rho: Any) -> np.ndarray:
        return np.asarray(chebyshev.chebval(rho, self.coefficients))

    def derivative(self) -> np.ndarray:
        """Coefficients of the derivative."""
        return np.asarray(chebyshev.chebder(self.coefficients))


def kernel_values(model: Model, rho: np.ndarray, is_single: bool, name: str) -> Estimate | np.ndarray:
    """An observable at one alignment with its error, or at an array of them to 1e-10."""
    if is_single:
        return _values(model, float(rho))[name]
    if rho.size <= _SINGLY:
        found = [_values(model, float(r))[name] for r in rho.reshape(-1)]
        errors = [v.error / (1 + abs(v)) for v in found]
        if errors and max(errors) > _ACCEPT:
            raise ConvergenceError(
                f"{name} of {model!r} has error {max(errors):.1g} > {_ACCEPT:g}", last=found
            )
        return np.array([float(v) for v in found]).reshape(rho.shape)
    if name == "drift":
        return (1 - rho) * (1 + rho) * interpolant(model, "slope")(rho)
    return interpolant(model, name)(rho)


def _values(model: Model, rho: float) -> dict[str, Estimate]:
    options = {"kernel": model.formula.text, **scaling(model)}
    return program("kernel", _OBSERVABLES, **options).values(parameters(model, rho=rho))


@lru_cache(maxsize=4096)
def _at_angle(model: Model, numerator: int, denominator: int) -> dict[str, Estimate]:
    return _values(model, float(np.cos(np.pi * numerator / denominator)))


@lru_cache(maxsize=256)
def interpolant(model: Model, name: str = "slope") -> Interpolant:
    """An observable on [-1, 1] as a Chebyshev series; finer grids contain the coarser ones.

    Raises
    ------
    ConvergenceError
        The coefficients do not decay to 1e-12 (the largest of them counting as 1) by degree 512.
    """
    from math import gcd

    for degree in _DEGREES:
        pairs = [(k // gcd(k, degree), degree // gcd(k, degree)) for k in range(degree + 1)]
        found = [_at_angle(model, *pair)[name] for pair in pairs]
        coefficients = _coefficients(np.array([float(v) for v in found]))
        noise = max(v.error for v in found)
        size = float(np.abs(coefficients).max())
        tail = float(np.abs(coefficients[-max(3, degree // 8) :]).max())
        if tail <= _DECAY * size + noise:
            kept = np.flatnonzero(np.abs(coefficients) > 1e-17 * size)
            last = int(kept[-1]) if kept.size else 0
            return Interpolant(coefficients[: last + 1], 4 * degree * tail + 4 * noise + 1e-15 * size)
    raise ConvergenceError(
        f"{name} of {model!r} is too steep in rho to be interpolated: coefficients of degree {degree} are "
        f"{tail:.1g} of {size:.3g}; lower beta or theta",
        last=coefficients,
        residual=tail,
    )


def _coefficients(values: np.ndarray) -> np.ndarray:
    """Chebyshev coefficients from values at cos(pi k/n), k = 0..n."""
    from scipy.fft import dct

    degree = values.size - 1
    found = np.asarray(dct(values, type=1)) / degree
    found[0] *= 0.5
    found[-1] *= 0.5
    return found


# --------------------------------------------------------------------------- zeros


def kernel_zeros(model: Model) -> tuple[list[Estimate], tuple[Estimate, list[Estimate], Estimate]]:
    """All zeros of the slope in (-1, 1), and (slope at -1, curvature at every zero, slope at 1).

    Intervals are halved until, by bounds on the derivatives of the interpolant, there is no zero in them, or the
    slope is monotone there and a change of sign decides.

    Raises
    ------
    ConvergenceError
        Zeros that can neither be separated nor excluded (a double zero, to within the error of the slope).
    """
    series = interpolant(model)
    first = series.derivative()
    second = chebyshev.chebder(first)
    bound = float(np.abs(second).sum())
    zeros = [_refined(series, low, high) for low, high in _isolated(model, series, first, bound)]
    estimates, curvatures = [], []
    for zero in zeros:
        rate = float(chebyshev.chebval(zero, first))
        slack = bound * 1e-15 + series.error * series.coefficients.size**2
        estimates.append(Estimate(zero, series.error / abs(rate) + 1e-15))
        curvatures.append(Estimate(rate, slack + bound * estimates[-1].error))
    ends = [_values(model, pole)["slope"] for pole in (-1.0, 1.0)]
    return estimates, (ends[0], curvatures, ends[1])


def _isolated(
    model: Model, series: Interpolant, first: np.ndarray, bound: float
) -> list[tuple[float, float]]:
    """Intervals in which the slope is monotone and changes sign, by increasing rho."""
    found = []
    edges = np.linspace(-1.0, 1.0, 65)
    low, high = edges[:-1], edges[1:]
    while low.size:
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        value, rate = np.abs(series(middle)), np.abs(chebyshev.chebval(middle, first))
        empty = value > rate * half + 0.5 * bound * half**2 + series.error
        monotone = ~empty & (rate > bound * half)
        below, above = series(low), series(high)
        crossing = monotone & (np.sign(below) != np.sign(above)) & (below != 0)
        found += list(zip(low[crossing].tolist(), high[crossing].tolist(), strict=True))
        rest = ~empty & ~monotone
        if rest.any() and half[rest].max() < _FINEST:
            raise ConvergenceError(
                f"zeros of the slope of {model!r} near rho = {float(middle[rest][0])!r} are not told apart: it nearly "
                "touches zero there",
                last=middle[rest],
            )
        low, high = (
            np.concatenate([low[rest], middle[rest]]),
            np.concatenate([middle[rest], high[rest]]),
        )
    return sorted(found)


def _refined(series: Interpolant, low: float, high: float) -> float:
    from scipy.optimize import brentq

    if series(high) == 0:
        return high
    return float(brentq(lambda r: float(series(r)), low, high, xtol=1e-16, rtol=4 * 2.0**-52))


# --------------------------------------------------------------------------- times and trajectories


def kernel_pace(model: Model) -> Callable[[np.ndarray], np.ndarray]:
    """Time per rapidity artanh(rho), as a function of arrays."""
    series = interpolant(model)
    return lambda rapidity: 1.0 / series(np.tanh(rapidity))


def kernel_states(model: Model, starts: np.ndarray, times: np.ndarray, **options: Any) -> np.ndarray:
    """Alignments of shape (starts, times) by the compiled flow of the angle arccos(rho)."""
    series = interpolant(model)
    degree = next(d for d in _DEGREES if d >= series.coefficients.size - 1)
    padded = np.zeros(degree + 1)
    padded[: series.coefficients.size] = series.coefficients
    given = {f"c_{k}": float(c) for k, c in enumerate(padded)}
    compiled = flow("interpolated_flow", ("angle",), ("angle_rate",), degree=degree)
    found = compiled(times, {"angle": np.arccos(starts)}, given, **options)
    return np.asarray(np.cos(found.states[..., 0]))
