"""The alignment over time: the flow of the limit, or the flow that is corrected for sizes and step noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from theorykit.errors import require_real
from theorykit.signal_recovery.model import Model, checked_rho, checked_sizes
from theorykit.signal_recovery.phases import fixed_points
from theorykit.signal_recovery.programs import flow, parameters, scaling

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

__all__ = ["trajectory"]


def trajectory(
    model: Model,
    rho0: Any,
    times: Any,
    step_size: float | None = None,
    tokens: int | None = None,
    dimension: int | None = None,
    *,
    rtol: float = 1e-11,
    max_steps: int = 100_000,
) -> xr.Dataset:
    """The alignment at given times.

    Parameters
    ----------
    model : Model
    rho0 : float or array, shape (starts,)
        Alignments at time 0, in [-1, 1].
    times : array_like, shape (times,)
        Not negative and not decreasing; time is the sum of the step sizes.
    step_size, tokens, dimension : optional, all three or none
        Constant step size and sizes of a finite model: then the slope is taken to order 1/L, and the flow contains
        the mean effect of step noise. ``model.kappa`` must be 0 or (dimension - 1)/tokens.
    rtol : float
        Accuracy per step of the integrator, in [1e-13, 0.1].
    max_steps : int
        Largest number of steps.

    Returns
    -------
    xarray.Dataset
        ``rho`` with dimensions (start, time), or (time) for a single start; coordinate ``rho0``.

    Raises
    ------
    TypeError, ValueError
        Alignments outside [-1, 1], negative or unsorted times, sizes that do not fit the model.
    ConvergenceError
        The integrator does not reach the last time.

    Notes
    -----
    Derived in ``signal_recovery.limit`` and, with sizes, ``signal_recovery.stochastic``, from arXiv 2606.22406.
    Without sizes the integrated variable is artanh(rho), which has no singular points. Starts on a fixed point (to
    within its error) stay there. The corrected flow neglects the spread of the alignment about its mean.

    Examples
    --------
    >>> found = trajectory(Model(theta=1.5, fraction=0.1), rho0=0.0, times=[0.0, 1.91174917300568])
    >>> [round(float(rho), 9) for rho in found.rho]
    [0.0, 0.99]
    """
    is_single, starts = checked_rho("rho0", rho0)
    if starts.ndim > 1:
        raise ValueError(f"rho0 must be a number or a one-dimensional array, got the shape {starts.shape}")
    instants = _checked_times(times)
    given = [step_size is not None, tokens is not None, dimension is not None]
    if any(given) and not all(given):
        raise ValueError("step_size, tokens and dimension must be given all three or not at all")
    if all(given):
        states = _corrected(model, starts, instants, step_size, tokens, dimension, rtol, max_steps)
    else:
        states = _limit(model, starts, instants, rtol, max_steps)
    return _dataset(model, states, starts, instants, is_single)


def _checked_times(times: Any) -> np.ndarray:
    import numpy as np

    try:
        found = np.atleast_1d(np.asarray(times, dtype=np.float64))
    except (TypeError, ValueError):
        raise TypeError(f"times must be real numbers, got {times!r}") from None
    if found.ndim != 1 or found.size == 0:
        raise ValueError(
            f"times must be a one-dimensional array with at least one time, got the shape {found.shape}"
        )
    bad = ~(np.isfinite(found) & (found >= 0))
    if bad.any():
        raise ValueError(f"times must be finite and not negative, got {float(found[bad][0])!r}")
    falls = np.flatnonzero(np.diff(found) < 0)
    if falls.size:
        k = int(falls[0])
        raise ValueError(f"times must not decrease, got {float(found[k])!r} before {float(found[k + 1])!r}")
    return found


def _limit(model: Model, starts: np.ndarray, times: np.ndarray, rtol: float, max_steps: int) -> np.ndarray:
    """States of shape (..., times); starts on a fixed point stay."""
    import numpy as np

    resting = np.zeros(starts.shape, dtype=bool)
    for point in fixed_points(model):
        resting |= np.abs(starts - point.rho) <= point.rho.error
    states = np.empty((*starts.shape, times.size))
    states[resting] = starts[resting][..., None]
    moving = ~resting
    if not moving.any():
        return states
    limits: dict[str, Any] = {"rtol": rtol, "atol": 1e-2 * rtol, "max_steps": max_steps}
    if not model.is_exponential:
        from theorykit.signal_recovery.kernels import kernel_states

        states[moving] = kernel_states(model, starts[moving], times, **limits)
        return states
    compiled = flow("limit", ("rapidity",), ("rapidity_rate",), **scaling(model))
    found = compiled(times, {"rapidity": np.arctanh(starts[moving])}, parameters(model), **limits)
    states[moving] = np.tanh(found.states[..., 0])
    return states


def _corrected(
    model: Model, starts: np.ndarray, times: np.ndarray, step_size: Any, tokens: Any, dimension: Any, rtol: float,
    max_steps: int,
) -> np.ndarray:  # fmt: skip
    from theorykit.signal_recovery.finite_size import finite_parameters

    step = require_real("step_size", step_size, low=0, low_open=True)
    sizes = checked_sizes(model, tokens, dimension)
    given = finite_parameters(model, sizes, "trajectory") | {"step_size": step}
    compiled = flow("stochastic", ("rho",), ("corrected_drift",))
    found = compiled(times, {"rho": starts}, given, rtol=rtol, atol=1e-2 * rtol, max_steps=max_steps)
    states: np.ndarray = found.states[..., 0]
    return states


def _dataset(
    model: Model, states: np.ndarray, starts: np.ndarray, times: np.ndarray, is_single: bool
) -> xr.Dataset:
    import xarray as xr

    dims = ("time",) if is_single else ("start", "time")
    variables = {"rho": (dims, states, {"long_name": "alignment with the hidden direction"})}
    coordinates = {"time": times, "rho0": ((), float(starts)) if is_single else (("start",), starts)}
    return xr.Dataset(variables, coordinates, {"model": repr(model)})
