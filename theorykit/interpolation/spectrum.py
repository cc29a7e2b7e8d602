"""Spectrum of the Gram matrix of the features, K^T X^T X K/n: bulk density, atom, outliers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from theorykit.errors import ConvergenceError
from theorykit.interpolation.model import Attention
from theorykit.interpolation.programs import centering_of, parameters, program

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["density", "outliers"]

_ROUNDING = 1e-15


def density(model: Attention, grid: Any) -> xr.Dataset:
    """Limiting density of the eigenvalues of K^T X^T X K/n.

    Derived in ``interpolation.spectrum`` from arXiv 2506.18656.

    Parameters
    ----------
    model : Attention
        Its ridge is not used.
    grid : one-dimensional array of float
        Where the density is wanted; it vanishes at negative values.

    Returns
    -------
    xarray.Dataset
        ``density`` over ``eigenvalue``; ``atom_location`` (0) and ``atom_mass`` (1 - p/n below p = n, from the
        rank of X). Density and atom have total mass 1. At 0 itself: the limit from above where p < n.

    Raises
    ------
    TypeError, ValueError
        Not a model; a grid that is no one-dimensional array of finite numbers, or that contains 0 where p >= n (the
        density diverges there, unless K is gapped).
    ConvergenceError
        A point is too close to an edge of the spectrum.
    """
    import xarray as xr

    _require_model(model)
    points = np.asarray(grid)
    if points.dtype.kind not in "fiu" or points.ndim != 1:
        raise TypeError(f"grid must be a one-dimensional array of real numbers, got {grid!r}")
    points = points.astype(float)
    if not np.all(np.isfinite(points)):
        raise ValueError("grid must be finite")
    if model.ratio >= 1 and np.any(points == 0):
        raise ValueError("grid must not contain 0 where ratio >= 1: the density can diverge there")
    values = np.zeros(points.size)
    inside = points > 0
    if np.any(inside):
        found = _solved(model, points[inside])["stieltjes"]
        # outside of the bulk an imaginary part is rounding
        values[inside] = np.where(found.imag > _ROUNDING * np.abs(found), found.imag / np.pi, 0.0)
    return xr.Dataset(
        {
            "density": ("eigenvalue", values),
            "atom_location": 0.0,
            "atom_mass": max(0.0, 1.0 - model.ratio),
        },
        coords={"eigenvalue": points},
        attrs={"model": repr(model)},
    )


def outliers(model: Attention) -> tuple[float, ...]:
    """Eigenvalues of K^T X^T X K/n outside the bulk, in increasing order.

    They come from the signal, the low-rank part of the weights, the mean, and the norms of the tokens (where the
    second Hermite coefficient does not vanish). The ridge of the model is not used. Derived in
    ``interpolation.spectrum`` from arXiv 2506.18656.

    Parameters
    ----------
    model : Attention

    Returns
    -------
    tuple of float
        Each as often as it occurs, to a relative accuracy of about 1e-10.

    Raises
    ------
    TypeError
        ``model`` is no Attention record.
    ConvergenceError
        The equations are not solved outside the bulk.
    """
    from theorykit.numerics.outliers import find_outliers

    _require_model(model)
    bulk, whole = _sizes(model)

    def solve(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = _solved(model, x)
        return found["stieltjes"], found["determinant"]

    far = float(solve(np.array([1e6 * whole]))[1][0].real)
    if centering_of(model) == "entry" and abs(far - 1) > 1e-2:  # far from the spectrum nothing is singular
        raise ConvergenceError(
            f"the determinant of {model!r} tends to {far:.3g}, not to 1, far from the spectrum"
        )
    grid = np.unique(
        np.concatenate([np.geomspace(1e-6 * bulk, whole, 240), np.linspace(1e-3 * bulk, bulk, 160)])
    )
    return find_outliers(solve, grid)


def _require_model(model: Any) -> None:
    if not isinstance(model, Attention):
        raise TypeError(f"model must be an Attention record, got {model!r} ({type(model).__name__})")


def _sizes(model: Attention) -> tuple[float, float]:
    """Bounds on the bulk, and on all eigenvalues, from norms of the parts of the linearized matrix."""
    p = parameters(model)
    sigma = math.sqrt(p["remainder"] / p["c"])
    shift = abs(p["a_1"] - p["d"])

    def square(tokens: float, weights: float, spike: float) -> float:
        return (tokens * (abs(p["a_1"]) / p["c"] * tokens**2 * weights + shift + 2 * sigma + spike)) ** 2

    noise = 1 + math.sqrt(p["c"])
    weights = 1 + math.sqrt(p["key2"] * p["query2"])
    spike = abs(p["a_2"]) / p["c"] * math.sqrt(p["square_variance"] / 2)
    return square(noise, 1.0, 0.0), 1.01 * square(noise + math.sqrt(p["signal2"]), weights, spike)


def _solved(model: Attention, x: np.ndarray) -> dict[str, np.ndarray]:
    """Observables of the spectrum just above real points."""
    from theorykit.numerics.halfplane import descend

    compiled = program("spectrum", centering=centering_of(model))
    values = parameters(model) | {"gamma": 1.0, "shift": 0.0}
    P = compiled.table({**values, "z": x.astype(complex)})
    row = compiled.parameters.index("shift")
    out = descend(compiled, P, row, compiled.positivity, _pencil_size(model))
    if not np.all(out.converged):
        bad = int(np.flatnonzero(~out.converged)[0])
        raise ConvergenceError.not_reached(
            f"spectrum of {model!r} at {float(x[bad])!r}", residual=float(out.residual[bad]), tolerance=1e-12,
            steps=int(out.steps[bad]), start="deterministic part, shift lowered to zero",
            advice="move the point away from the edge of the spectrum", last=out.X[:, bad],
        )  # fmt: skip
    P[row] = 0.0
    return compiled.observables(P, out.X)


def _pencil_size(model: Attention) -> float:
    """Size of the blocks of the pencil."""
    p = parameters(model)
    largest = (
        abs(p["a_1"]) / p["c"],
        abs(p["a_1"] - p["d"]),
        math.sqrt(p["remainder"] / p["c"]),
        math.sqrt(p["c"]),
    )
    return max(1.0, *largest)
