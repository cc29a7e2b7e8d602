"""The finite model itself: projected stochastic gradient ascent, a fresh sequence per step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from theorykit.signal_recovery.model import Model, checked_sizes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["simulate"]


def simulate(
    model: Model,
    tokens: int,
    dimension: int,
    steps: int,
    step_size: float | Callable[[int], float] | Sequence[float],
    start: float | str = "uniform",
    trials: int = 1,
    seed: Any = None,
    update: str = "tangential",
    engine: str = "chain",
    every: int = 1,
    threads: int | None = None,
) -> xr.Dataset:
    """Overlaps of independent trials of stochastic gradient ascent on a finite model.

    Parameters
    ----------
    model : Model
        ``fraction * tokens`` must be an integer, and kappa 0 or (dimension - 1)/tokens.
    tokens, dimension : int
        Sizes of the finite model, dimension >= 3.
    steps : int
        Number of steps, each on a fresh sequence.
    step_size : float, function of the step k = 1, 2, ..., or sequence of ``steps`` numbers
    start : float or "uniform"
        The overlap at the start, or a query uniform on the sphere.
    trials : int
    seed : int, SeedSequence, Generator or None
        Each trial has its own stream: more trials keep the earlier ones. None draws entropy and records it.
    update : "tangential" or "ambient"
        Whether a step leaves out the part of the gradient along the query.
    engine : "chain" or "vectors"
        The exact chain of the overlap, O(L) per step, or every token drawn, O(L d); they agree in law.
    every : int
        Every so many steps an overlap is kept; the last one always.
    threads : int, optional

    Returns
    -------
    xarray.Dataset
        ``rho`` (trial, step) with the coordinate ``time``, the sum of the step sizes; and per trial, at the end,
        ``attention_mass`` on informative tokens, ``noise_mass``, and ``mean_token``, the overlap of the normalized
        average of all tokens with the signal (the baseline without attention).

    Raises
    ------
    TypeError, ValueError
        An argument is of the wrong type or out of range.
    """
    from theorykit.validation.simulate.signal_recovery import ascent

    if not isinstance(model, Model):
        raise TypeError(f"model must be a Model, got {model!r}")
    sizes = checked_sizes(model, tokens, dimension)
    return ascent(
        theta=model.theta,
        informative=round(model.fraction * sizes.tokens),
        tokens=sizes.tokens,
        dimension=sizes.dimension,
        steps=steps,
        step_size=step_size,
        start=start,
        trials=trials,
        seed=seed,
        beta=model.beta,
        kernel=model.kernel,
        engine=engine,
        update=update,
        every=every,
        threads=threads,
    ).assign_attrs(model=repr(model))
