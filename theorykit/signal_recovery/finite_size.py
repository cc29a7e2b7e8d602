"""Corrections of order 1/L, and the noise of the stochastic gradient."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from theorykit.errors import ConvergenceError
from theorykit.results import Estimate
from theorykit.signal_recovery.landscape import finite
from theorykit.signal_recovery.model import Model, Sizes, checked_rho, checked_sizes, require_exponential
from theorykit.signal_recovery.programs import parameters, program, rounding, scaling

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "GradientNoise",
    "LimitWarning",
    "finite_parameters",
    "finite_size_slope",
    "gradient_noise",
    "warn_of_limit",
]

_TRUSTED = 0.1  # largest exp(2 beta^2)/L at which the expansion in 1/L was seen to improve on the limit


class LimitWarning(UserWarning):
    """A limit or an expansion in 1/L is asked for sizes at which it is not to be trusted."""


@dataclass(frozen=True)
class GradientNoise:
    """L times the variances of the components of the gradient across the query, of one sequence.

    Attributes
    ----------
    parallel : Estimate or array
        In the plane of the query and the hidden direction.
    perpendicular : Estimate or array
        In every other direction.
    """

    parallel: Any
    perpendicular: Any


def gradient_noise(model: Model, rho: Any) -> GradientNoise:
    """L times the variances of the sample gradient of |f|^2 for one sequence of L tokens.

    Parameters
    ----------
    model : Model
        With the exponential kernel.
    rho : float or array
        Alignment, in [-1, 1].

    Returns
    -------
    GradientNoise
        Of the shape of ``rho``; both are equal at the poles. A batch of B sequences has variances 1/B as large.

    Raises
    ------
    TypeError, ValueError
        Another kernel, or alignments outside [-1, 1].
    ConvergenceError
        Beyond the range of a double (they grow like exp(beta^2), with kappa > 0 like exp(6 beta^2)).

    Notes
    -----
    Derived in ``theorykit.derivations.signal_recovery.noise``. Heavy tails: where kappa exceeds 0.1 at beta of
    about 1, averages over simulations converge slowly.

    Examples
    --------
    >>> round(float(gradient_noise(Model(theta=1.5, fraction=0.1), 1).perpendicular), 9)
    247.778612134
    """
    require_exponential(model, "gradient noise")
    is_single, values = checked_rho("rho", rho)
    found = program("noise", ("parallel", "perpendicular"), **scaling(model))
    if is_single:
        pairs = rounding(found, parameters(model, rho=float(values)))
        if all(math.isfinite(v + e) for v, e in pairs.values()):
            return GradientNoise(**{name: Estimate(v, e) for name, (v, e) in pairs.items()})
    rows = found.rows(parameters(model, rho=values))
    return GradientNoise(**{name: finite(row, name, model) for name, row in rows.items()})


def finite_size_slope(model: Model, rho: Any, tokens: int, dimension: int) -> Estimate | np.ndarray:
    """The derivative of the objective of a finite model to order 1/L.

    Parameters
    ----------
    model : Model
        With the exponential kernel; kappa must be 0 or (dimension - 1)/tokens.
    rho : float or array
        Alignment, in [-1, 1].
    tokens, dimension : int
        L, with ``fraction * tokens`` an integer, and d.

    Returns
    -------
    Estimate or array
        Of the shape of ``rho``. The error of an Estimate is that of the computation, not the term of order 1/L^2.

    Raises
    ------
    TypeError, ValueError
        Another kernel, alignments outside [-1, 1], sizes that do not fit the model.

    Warns
    -----
    LimitWarning
        exp(2 beta^2) is not small against L: the expansion is not to be trusted.

    Notes
    -----
    Derived in ``theorykit.derivations.signal_recovery.finite_size``.

    Examples
    --------
    >>> round(float(finite_size_slope(Model(theta=1, fraction=0.1), 0.5, tokens=500, dimension=20)), 12)
    0.495052903255
    """
    sizes = checked_sizes(model, tokens, dimension)
    is_single, values = checked_rho("rho", rho)
    given = finite_parameters(model, sizes, "the slope of a finite model")
    found = program("finite_size", ("finite_size_slope",))
    if is_single:
        return found.values(given | {"rho": float(values)})["finite_size_slope"]
    return finite(found.rows(given | {"rho": values})["finite_size_slope"], "finite_size_slope", model)


def finite_parameters(model: Model, sizes: Sizes, what: str) -> dict[str, Any]:
    """Parameters of a finite model by the names they have in the records.

    Raises
    ------
    ValueError
        A kernel that is not exponential.
    ConvergenceError
        The corrections are beyond the range of a double.
    """
    require_exponential(model, what)
    if 6 * model.beta**2 > 700:
        raise ConvergenceError(
            f"{what}: corrections of order exp(6 beta^2) at beta = {model.beta!r} are beyond the range of a double; no "
            "finite model is near the limit there"
        )
    warn_of_limit(model, sizes.tokens)
    return parameters(model.replace(kappa=0.0), tokens=sizes.tokens, dimension=sizes.dimension)


def warn_of_limit(model: Model, tokens: int) -> None:
    """Say where the expansion in 1/L, or the limit itself, does not hold."""
    informative = model.fraction * tokens
    if model.beta > math.sqrt(2 * math.log(min(tokens, max(informative, 1.0)))):
        text = "beta exceeds sqrt(2 ln R): single tokens dominate the sums and the limit itself does not hold"
    elif math.exp(min(2 * model.beta**2, 700.0)) > _TRUSTED * tokens:
        text = "exp(2 beta^2) is not small against L: the expansion in 1/L is not to be trusted"
    else:
        return
    warnings.warn(
        f"{text} (beta = {model.beta:g}, L = {tokens}, R = {informative:g})", LimitWarning, stacklevel=4
    )
