"""Simulations of the finite model, asked for by the records of the theory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from theorykit.interpolation.model import Attention

if TYPE_CHECKING:
    import xarray as xr

    from theorykit.validation.simulate.interpolation import Simulation

__all__ = ["as_request", "simulate"]


def as_request(model: Attention) -> dict[str, Any]:
    """The model as the plain data that the simulator takes."""
    if not isinstance(model, Attention):
        raise TypeError(f"model must be an Attention record, got {model!r}")
    return {
        "formula": model.formula.text,
        "ratio": model.ratio,
        "gram": model.gram,
        "label_mean": model.label_mean,
        "square_variance": model.square_variance,
        "diagonal": model.diagonal,
        "centering": model.centering,
    }


def simulate(
    model: Attention,
    tokens: int,
    trials: int = 8,
    seed: Any = None,
    noise: str = "gaussian",
    attention: str = "entrywise",
    ridges: Iterable[float] | None = None,
) -> Simulation | xr.Dataset:
    """Draw the finite model and train the probe: the interpolation error and its companions.

    Parameters
    ----------
    model : Attention
    tokens : int
        n; the dimension is the integer nearest to ratio * n.
    trials : int
        Independent draws, at least 2.
    seed : int, SeedSequence, Generator or None
        Trial t has a stream of its own; None draws entropy and records it.
    noise : str
        Law of the noise entries: "gaussian", "rademacher", "uniform" (on a symmetric interval) or "student5"
        (Student's law with 5 degrees of freedom); scaled to variance 1. It must agree with
        ``model.square_variance``: 2, 0, 4/5 and 8.
    attention : str
        "entrywise", or "softmax": softmax with masked diagonal, for the formula ``SOFTMAX_MAP``; over rows, raw or
        minus its mean, or over columns minus its mean, as ``model.centering`` says.
    ridges : iterable of float, optional
        Several ridges on common draws, in place of the one of the model.

    Returns
    -------
    Simulation, or with ``ridges`` xarray.Dataset
        ``interpolation_error``, ``quadratic_form``, ``trace``, ``degrees_of_freedom``, ``feature_energy``,
        ``largest_eigenvalue``, ``linear_regression_error`` with standard errors (``*_error`` in a Dataset).

    Raises
    ------
    TypeError, ValueError
        For a request that is out of range or contradictory.

    Examples
    --------
    >>> model = Attention("tanh(x)", ratio=0.5, ridge=0.1)
    >>> found = simulate(model, tokens=200, trials=4, seed=1)
    >>> f"{found.interpolation_error:.1f}"
    '0.6'
    """
    from theorykit.validation.simulate.interpolation import interpolation_error

    request = as_request(model)
    wanted = [model.ridge] if ridges is None else list(ridges)
    found = interpolation_error(request, tokens, wanted, trials, seed=seed, noise=noise, attention=attention)
    return found[0] if ridges is None else _dataset(found, model, noise, attention)


def _dataset(found: tuple[Simulation, ...], model: Attention, noise: str, attention: str) -> xr.Dataset:
    import xarray as xr

    from theorykit.validation.simulate.interpolation import QUANTITIES

    columns: dict[str, Any] = {}
    for name in QUANTITIES:
        columns[name] = ("ridge", [float(one[name]) for one in found])
        columns[f"{name}_error"] = ("ridge", [one[name].error for one in found])
    first = found[0]
    about = {
        "model": repr(model),
        "noise": noise,
        "attention": attention,
        "tokens": first.tokens,
        "dimension": first.dimension,
        "trials": first.trials,
        "seed": str(first.seed),
    }
    return xr.Dataset(columns, coords={"ridge": [one.ridge for one in found]}, attrs=about)
