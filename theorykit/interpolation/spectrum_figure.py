"""The spectrum of the features as a figure: density and outliers of the theory, eigenvalues of a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from theorykit.errors import require_integer, require_real
from theorykit.interpolation.model import Attention
from theorykit.interpolation.simulation import as_request

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["plot_spectrum", "simulate_spectrum", "spectral_grid"]

_SCAN = 160  # points at which the end of the bulk is looked for
_WIDEST = 1e4  # of the scan, in units of the mean eigenvalue
_VISIBLE = 1e-7  # of the largest density
_BINS = 80


def spectral_grid(
    model: Attention, points: int = 400, low: float | None = None, high: float | None = None
) -> NDArray[np.float64]:
    """Points that show the bulk: dense near zero, where densities of products rise, up to a little beyond its end.

    Parameters
    ----------
    model : Attention
    points : int
        At least 2.
    low, high : float, optional
        Ends of the grid; default: close to zero, and beyond the last point where the density is visible.
    """
    import numpy as np

    from theorykit.interpolation import density, solve

    count = require_integer("points", points, low=2)
    if high is None:
        mean = float(solve(model.replace(ridge=1.0)).feature_energy)
        scan = mean * np.geomspace(1e-4, _WIDEST, _SCAN)
        values = density(model, scan)["density"].values
        seen = np.flatnonzero(values > _VISIBLE * values.max())
        high = float(scan[min(int(seen[-1]) + 1, _SCAN - 1)])
    high = require_real("high", high, low=0, low_open=True)
    if low is not None:
        low = require_real("low", low, high=high, high_open=True)
        return np.linspace(low, high, count)
    return high * ((np.arange(count) + 1.0) / count) ** 3


def simulate_spectrum(
    model: Attention, tokens: int, trials: int = 1, seed: Any = None
) -> NDArray[np.float64]:
    """Eigenvalues of K^T X^T X K/n of the finite model, shape (trials, tokens), increasing; Gaussian noise."""
    from theorykit.validation.simulate.interpolation import eigenvalues

    found: NDArray[np.float64] = eigenvalues(as_request(model), tokens, trials, seed=seed)
    return found


def plot_spectrum(
    data: xr.Dataset, outliers: Sequence[float] = (), eigenvalues: NDArray[np.float64] | None = None
) -> Figure:
    """Density over the square root of the eigenvalue, outliers as triangles, simulated eigenvalues as a histogram.

    Parameters
    ----------
    data : xarray.Dataset
        From :func:`~theorykit.interpolation.density`.
    outliers : sequence of float
        From :func:`~theorykit.interpolation.outliers`.
    eigenvalues : array, optional
        From :func:`simulate_spectrum`; those that are zero belong to the atom and are left out of the bars.
    """
    import numpy as np
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    points = data["eigenvalue"].values
    positive = points > 0
    root = np.sqrt(points[positive])
    # the density of the square root: what a histogram over the square root tends to
    axes.plot(root, 2 * root * data["density"].values[positive], color="#0072B2", label="theory")
    if eigenvalues is not None:
        roots = np.sqrt(np.maximum(eigenvalues.ravel(), 0.0))
        _draw_simulated(axes, roots, float(root[-1]))
    if len(outliers):
        axes.plot(
            np.sqrt(outliers), np.zeros(len(outliers)), "v", color="#D55E00", clip_on=False, label="outliers"
        )
    atom = float(data["atom_mass"])
    if atom > 0:
        axes.plot([], [], " ", label=f"atom at 0 of mass {atom:.3g}")
    axes.set_xlabel("square root of the eigenvalue")
    axes.set_ylabel("density")
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


def _draw_simulated(axes: Axes, roots: NDArray[np.float64], end: float) -> None:
    """Bars over the range of the theory, whose area is the part of the eigenvalues there; marks beyond it."""
    import numpy as np

    edges = np.linspace(0.0, end, _BINS + 1)
    inside = roots[(roots > 0) & (roots <= end)]
    weight = np.full(inside.size, 1.0 / (roots.size * (edges[1] - edges[0])))
    axes.hist(inside, bins=edges.tolist(), weights=weight, color="#7F7F7F", alpha=0.4, label="simulated")
    beyond = roots[roots > end]
    axes.plot(beyond, np.zeros(beyond.size), "|", color="#7F7F7F", clip_on=False)
