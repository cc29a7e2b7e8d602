"""Where, in each parameter, the opposed direction becomes stable, and where it becomes the global maximum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from theorykit.results import Estimate
from theorykit.signal_recovery.model import Model, require_exponential
from theorykit.signal_recovery.phases import critical_shift
from theorykit.signal_recovery.programs import parameters, program, roots, scaling

__all__ = ["Thresholds", "thresholds"]

_SCAN = 4000  # values of theta at which the sign of h(-1) is looked at, where it may change more than once
_BEYOND = 350.0  # beta theta above which 1 - fraction_c is below 1e-150
_LARGEST_BETA = 26.0  # exp(beta^2) of more is no double


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of a model, each with the other parameters kept as they are; None where there is none.

    Attributes
    ----------
    beta_c : Estimate
        -xi is stable iff beta > beta_c.
    fraction_c : Estimate or None
        -xi is stable for fractions below it (and above ``fraction_low``); None: for no fraction.
    theta_c : Estimate
        -xi is stable for all theta above it (at kappa = 0: iff theta is above it).
    kappa_c : Estimate or None
        -xi is stable iff kappa > kappa_c; None: it is stable at every kappa.
    kappa_global : Estimate or None
        -xi is the global maximum iff kappa > kappa_global; None where it never is (fraction at most 1/2).
    fraction_low : Estimate or None
        Only with kappa > 0: the fraction above which -xi is stable, where small fractions do not make it so.
    """

    beta_c: Estimate
    fraction_c: Estimate | None
    theta_c: Estimate
    kappa_c: Estimate | None
    kappa_global: Estimate | None
    fraction_low: Estimate | None = None


def thresholds(model: Model) -> Thresholds:
    """Where the opposed direction -xi becomes stable in each parameter.

    Parameters
    ----------
    model : Model
        With the exponential kernel.

    Returns
    -------
    Thresholds
        ``beta_c``, ``fraction_c``, ``theta_c``, ``kappa_c`` and ``kappa_global``, each at the other parameters of the
        model; None where there is none. Derived in ``signal_recovery.thresholds`` and ``global_maximum`` from
        arXiv 2606.22406.

    Raises
    ------
    ValueError
        Another kernel.

    Notes
    -----
    ``fraction_c``, ``kappa_c`` and ``kappa_global`` are closed forms; ``beta_c`` is one at kappa = 0, and a root
    enclosed by a change of sign otherwise, as ``theta_c`` is. For kappa > 0 uniqueness in theta is not proved:
    the largest change of sign on a fine grid below the threshold at kappa = 0 is taken, above which there is none.

    Examples
    --------
    >>> found = thresholds(Model(theta=2, fraction=0.1))
    >>> round(float(found.fraction_c), 10), round(float(found.theta_c), 10)
    (0.6356109449, 1.0801441093)
    """
    require_exponential(model, "thresholds")
    flat = model.replace(kappa=0.0)
    upper, lower = _fractions(model)
    return Thresholds(
        beta_c=_beta_c(model, flat),
        fraction_c=upper,
        theta_c=_theta_c(model, flat),
        kappa_c=_kappa_c(flat),
        kappa_global=_kappa_global(flat) if model.fraction > 0.5 else None,
        fraction_low=lower,
    )


def _beta_c(model: Model, flat: Model) -> Estimate:
    x = critical_shift(flat)
    found = program("thresholds", ("beta_c",), proportional=False)
    value = found.values(parameters(flat, x=float(x)))["beta_c"]
    moved = abs(found.values(parameters(flat, x=x + x.error))["beta_c"] - value)
    if not model.is_proportional:
        return Estimate(value, value.error + moved)
    # noise only helps -xi: the threshold is below the one at kappa = 0
    high = min(float(value) * (1 + 1e-9), _LARGEST_BETA)
    return _enclosed(model, "beta", _positive_below(model, "beta", high), high)


def _theta_c(model: Model, flat: Model) -> Estimate:
    low = 1 / flat.beta  # beta theta <= 1: never stable
    high = 2 * low
    force = program("thresholds", ("opposed_force",), proportional=False)
    while force.rows(parameters(flat.replace(theta=high)))["opposed_force"] >= 0:
        high *= 2
    known = _enclosed(flat, "theta", low, high)
    if not model.is_proportional:
        return known
    import numpy as np

    high = float(known) * (1 + 1e-9)
    grid = np.geomspace(_positive_below(model, "theta", high), high, _SCAN)
    force = program("thresholds", ("opposed_force",), proportional=True)
    signs = force.rows(parameters(model) | {"theta": grid})["opposed_force"] > 0
    last = int(np.flatnonzero(signs)[-1])
    return _enclosed(model, "theta", float(grid[last]), float(grid[last + 1]))


def _positive_below(model: Model, unknown: str, high: float) -> float:
    """A value of a parameter below ``high`` at which h(-1) is positive, as it is for beta or theta to 0."""
    force = program("thresholds", ("opposed_force",), **scaling(model))
    low = 1e-8 * high
    while force.rows(parameters(model) | {unknown: low})["opposed_force"] <= 0:
        low *= 1e-8
    return low


def _enclosed(model: Model, unknown: str, low: float, high: float) -> Estimate:
    """The root of h(-1) in one parameter, between values where it is positive and negative."""
    finder = roots("thresholds", unknown, "opposed_force", **scaling(model))
    others = {name: value for name, value in parameters(model).items() if name != unknown}
    found = finder(low, high, others)
    root = float(found.root)
    values = program("thresholds", ("opposed_force",), **scaling(model))
    at = partial(_force, values, others, unknown)
    step = 1e-6 * root
    rate = abs(at(root + step) - at(root - step)) / (2 * step)
    return Estimate(root, float(found.error) + at(root).error / rate + 2.0**-52 * root)


def _force(found: Any, others: dict[str, Any], unknown: str, value: float) -> Estimate:
    result: Estimate = found.values(others | {unknown: value})["opposed_force"]
    return result


def _fractions(model: Model) -> tuple[Estimate | None, Estimate | None]:
    """The ends of the interval of fractions for which -xi is stable; None for an end at 0, or without interval."""
    if model.is_proportional and model.beta * model.theta > _BEYOND:
        return Estimate(1.0, 2.0**-53), None
    inner = program("thresholds", ("a", "b", "discriminant"), **scaling(model)).values(parameters(model))
    if inner["a"] > 1:
        return _fraction(model, "fraction_c"), None
    if inner["b"] > inner["a"] and inner["discriminant"] > 0:
        return _fraction(model, "fraction_c"), _fraction(model, "fraction_low")
    return None, None


def _fraction(model: Model, name: str) -> Estimate:
    return program("thresholds", (name,), **scaling(model)).values(parameters(model))[name]


def _kappa_c(flat: Model) -> Estimate | None:
    force = program("thresholds", ("opposed_force",), proportional=False).values(parameters(flat))[
        "opposed_force"
    ]
    if force <= 0:
        return None
    return program("thresholds", ("kappa_c",), proportional=True).values(parameters(flat))["kappa_c"]


def _kappa_global(flat: Model) -> Estimate:
    return program("global_maximum", ("kappa_global",)).values(parameters(flat))["kappa_global"]
