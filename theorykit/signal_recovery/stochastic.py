"""Stationary law of stochastic gradient ascent at a direction, and its splitting at the separatrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from theorykit.errors import require_real
from theorykit.results import Estimate
from theorykit.signal_recovery.finite_size import finite_parameters, gradient_noise
from theorykit.signal_recovery.landscape import slope
from theorykit.signal_recovery.model import Model, Sizes, checked_sizes
from theorykit.signal_recovery.phases import separatrix
from theorykit.signal_recovery.programs import program, roots

__all__ = ["Splitting", "Stationary", "splitting", "stationary"]

_NEAR = 1e-6  # step of the derivative of the mean flow at its separatrix


@dataclass(frozen=True)
class Stationary:
    """The stationary law close to a direction.

    Attributes
    ----------
    pole : int
        1 or -1.
    variance : Estimate
        Of each of the d - 1 components of the query across the direction.
    gap : Estimate
        Mean of 1 - |rho|, which is half the variance times a chi-square variable with d - 1 degrees of freedom.
    """

    pole: int
    variance: Estimate
    gap: Estimate


@dataclass(frozen=True)
class Splitting:
    """How a start close to the separatrix of the mean flow ends.

    Attributes
    ----------
    centre : Estimate
        The separatrix of the mean flow, shifted by step noise.
    width : Estimate
        Distance over which the probability changes.
    opposed : Estimate
        Probability to end at -1.
    """

    centre: Estimate
    width: Estimate
    opposed: Estimate


def stationary(model: Model, tokens: int, dimension: int, step_size: float, pole: int = 1) -> Stationary:
    """The stationary law of projected gradient ascent with constant steps close to a stable direction.

    Parameters
    ----------
    model : Model
        With the exponential kernel; kappa must be 0 or (dimension - 1)/tokens.
    tokens, dimension : int
    step_size : float
        Positive; below 2/|J'| at the direction.
    pole : int
        1 or -1: the direction.

    Returns
    -------
    Stationary
        Numbers with their errors. Derived in ``signal_recovery.linear_laws``.

    Raises
    ------
    ValueError
        The direction is not stable, or the steps are too large for a stationary law.

    Notes
    -----
    Linearized about the direction: it holds while the gap is small against 1 (compare with ``trajectory``).

    Examples
    --------
    >>> law = stationary(Model(theta=1.5, fraction=0.3, beta=0.5), tokens=1000, dimension=10, step_size=0.05)
    >>> round(float(law.gap), 6)
    0.000742
    """
    if pole not in (1, -1):
        raise ValueError(f"pole must be 1 or -1, got {pole!r}")
    sizes, step = (
        checked_sizes(model, tokens, dimension),
        require_real("step_size", step_size, low=0, low_open=True),
    )
    finite_parameters(model, sizes, "the stationary law")
    full = model.replace(kappa=sizes.kappa)
    rate = float(slope(full, pole)) * pole
    if rate <= 0:
        raise ValueError(f"pole must be a stable direction, but J'({pole}) = {rate * pole:g}, got {pole}")
    if step * rate >= 2:
        raise ValueError(f"step_size must be below 2/|J'| = {2 / rate:g} for a stationary law, got {step!r}")
    noise = float(gradient_noise(full, pole).perpendicular)
    found = program("linear_laws", ("variance", "gap")).values(_sizes(sizes, step, rate, noise))
    return Stationary(pole, found["variance"], found["gap"])


def splitting(model: Model, rho0: float, tokens: int, dimension: int, step_size: float) -> Splitting:
    """The probability that a start close to the separatrix ends at -1, with constant small steps.

    Parameters
    ----------
    model : Model
        With the exponential kernel; kappa must be 0 or (dimension - 1)/tokens.
    rho0 : float
        Alignment at the start.
    tokens, dimension : int
    step_size : float
        Positive.

    Returns
    -------
    Splitting
        Numbers with their errors. Derived in ``signal_recovery.linear_laws``.

    Raises
    ------
    ValueError
        The mean flow has no separatrix: step noise or the parameters remove it.
    """
    start = require_real("rho0", rho0, low=-1, high=1)
    sizes, step = (
        checked_sizes(model, tokens, dimension),
        require_real("step_size", step_size, low=0, low_open=True),
    )
    given = finite_parameters(model, sizes, "the splitting probability") | {"step_size": step}
    edge = separatrix(model.replace(kappa=sizes.kappa))
    flow = program("stochastic", ("corrected_drift", "parallel"))

    def drift(rho: Any) -> Any:
        return flow.rows(given | {"rho": rho})["corrected_drift"]

    low, high = _bracket(drift, None if edge is None else float(edge))
    found = roots("stochastic", "rho", "corrected_drift")(low, high, given)
    centre = float(found.root)
    rate = float(drift(centre + _NEAR) - drift(centre - _NEAR)) / (2 * _NEAR)
    noise = float(flow.rows(given | {"rho": centre})["parallel"])
    point = _sizes(sizes, step, rate, noise) | {"centre": centre, "rho_0": start}
    law = program("linear_laws", ("width", "opposed")).values(point)
    return Splitting(Estimate(centre, float(found.error) + 1e-14), law["width"], law["opposed"])


def _bracket(drift: Any, edge: float | None) -> tuple[float, float]:
    """Alignments below and above the separatrix of the mean flow."""
    import numpy as np

    if edge is not None:
        grid = np.linspace(-1.0, 0.0, 401)
        signs = drift(grid) > 0
        rising = np.flatnonzero(~signs[:-1] & signs[1:])
        if rising.size:
            return float(grid[rising[-1]]), float(grid[rising[-1] + 1])
    raise ValueError("the mean flow has no separatrix at these parameters: every start ends at 1")


def _sizes(sizes: Sizes, step: float, rate: float, noise: float) -> dict[str, float]:
    return {
        "tokens": sizes.tokens, "dimension": sizes.dimension, "step_size": step, "rate": rate, "noise_square": noise,
    }  # fmt: skip
