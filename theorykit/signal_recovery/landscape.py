"""The objective and its slope as functions of the alignment, and the rate of the alignment itself.

A single alignment gives an :class:`~theorykit.results.Estimate`, an array of alignments an array of the same shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from theorykit.errors import ConvergenceError
from theorykit.signal_recovery.model import Model, checked_rho
from theorykit.signal_recovery.programs import parameters, program, scaling

if TYPE_CHECKING:
    import numpy as np

    from theorykit.results import Estimate

__all__ = ["attention_mass", "drift", "objective", "slope"]

_OBSERVABLES = ("objective", "slope", "drift", "w")


def objective(model: Model, rho: Any) -> Estimate | np.ndarray:
    """The limit J(rho) of E|f|^2 for many tokens.

    Parameters
    ----------
    model : Model
    rho : float or array
        Alignment q.xi, in [-1, 1].

    Returns
    -------
    Estimate or array
        Of the shape of ``rho``.

    Raises
    ------
    TypeError, ValueError
        ``rho`` is no real number in [-1, 1].
    ConvergenceError
        The averages of a kernel of your own do not converge (it grows too fast).

    Notes
    -----
    Derived in ``signal_recovery.limit`` from arXiv 2606.22406 (``signal_recovery.kernel`` for other weights than the
    exponential). At a finite number L of tokens the limit needs beta < sqrt(2 ln L), and kappa > 0 needs
    beta < sqrt(ln(L)/2).

    Examples
    --------
    >>> round(float(objective(Model(theta=1, fraction=0.1), 0.5)), 12)
    1.178799839188
    """
    return _evaluate(model, rho, "objective")


def slope(model: Model, rho: Any) -> Estimate | np.ndarray:
    """The derivative J'(rho) of the objective; its sign is that of the flow.

    Parameters
    ----------
    model : Model
    rho : float or array
        Alignment q.xi, in [-1, 1].

    Returns
    -------
    Estimate or array
        Of the shape of ``rho``.

    Raises
    ------
    TypeError, ValueError, ConvergenceError
        As for :func:`objective`, where the source of the equation is named as well.

    Examples
    --------
    >>> round(float(slope(Model(theta=1, fraction=0.1), 0.5)), 12)
    0.481033039172
    """
    return _evaluate(model, rho, "slope")


def drift(model: Model, rho: Any) -> Estimate | np.ndarray:
    """The rate (1 - rho^2) J'(rho) of the alignment under gradient ascent on the sphere.

    Parameters
    ----------
    model : Model
    rho : float or array
        Alignment q.xi, in [-1, 1].

    Returns
    -------
    Estimate or array
        Of the shape of ``rho``; time counts step sizes times steps.

    Raises
    ------
    TypeError, ValueError, ConvergenceError
        As for :func:`objective`, where the source of the equation is named as well.
    """
    return _evaluate(model, rho, "drift")


def attention_mass(model: Model, rho: Any) -> Estimate | np.ndarray:
    """The attention mass w(rho) on the informative tokens.

    Parameters
    ----------
    model : Model
    rho : float or array
        Alignment q.xi, in [-1, 1].

    Returns
    -------
    Estimate or array
        Of the shape of ``rho``, in [0, 1].

    Raises
    ------
    TypeError, ValueError, ConvergenceError
        As for :func:`objective`, where the source of the equation is named as well.
    """
    return _evaluate(model, rho, "w")


def _evaluate(model: Model, rho: Any, name: str) -> Estimate | np.ndarray:
    is_single, values = checked_rho("rho", rho)
    if not model.is_exponential:
        from theorykit.signal_recovery.kernels import kernel_values

        return kernel_values(model, values, is_single, name)
    found = program("limit", _OBSERVABLES, **scaling(model))
    if is_single:
        return found.values(parameters(model, rho=float(values)))[name]
    return finite(found.rows(parameters(model, rho=values))[name], name, model)


def finite(values: np.ndarray, name: str, model: Model) -> np.ndarray:
    """The values, or an error where one of them is not a number."""
    import numpy as np

    if not np.isfinite(values).all():
        raise ConvergenceError(f"{name} is beyond the range of a double for {model!r}", last=values)
    return values
