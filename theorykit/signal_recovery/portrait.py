"""The phase portrait of a model: the flow over the overlap, its fixed points, and trajectories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from theorykit.errors import require_integer, require_real
from theorykit.signal_recovery.landscape import attention_mass, drift, objective, slope
from theorykit.signal_recovery.model import Model
from theorykit.signal_recovery.passage import time_to
from theorykit.signal_recovery.phases import fixed_points
from theorykit.signal_recovery.trajectories import trajectory

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["phase_portrait", "plot_portrait"]

_UNEVEN = 5.0  # ratio of scales above which an axis is logarithmic far from the origin
_UP, _DOWN, _GREY = "#0072B2", "#D55E00", "#7F7F7F"
_OUTERMOST = 0.95  # starts of trajectories: largest distance from the equator
_CLOSEST = 0.02  # and smallest from an unstable point; relative to its width, what is left out of an interval


def phase_portrait(
    model: Model,
    points: int = 401,
    times: int = 201,
    until: float | None = None,
    starts: Sequence[float] | None = None,
) -> xr.Dataset:
    """Landscape, fixed points and trajectories of a model.

    Parameters
    ----------
    model : Model
    points : int
        Number of overlaps in [-1, 1], at least 3.
    times : int
        Number of times in [0, until], at least 2.
    until : float, optional
        Last time; default: when all the trajectories have arrived.
    starts : sequence of float, optional
        Overlaps in (-1, 1) at which trajectories start; default: evenly spaced, and on both sides of each unstable
        point.

    Returns
    -------
    xarray.Dataset
        ``objective``, ``slope``, ``drift``, ``attention_mass`` over ``rho``; ``fixed_rho``, ``eigenvalue``,
        ``stable`` over ``point``; ``path`` over ``start`` and ``time``.
    """
    import numpy as np
    import xarray as xr

    points = require_integer("points", points, low=3)
    times = require_integer("times", times, low=2)
    found = fixed_points(model)
    unstable = [float(p.rho) for p in found if not p.stable and abs(p.rho) < 1]
    if starts is None:
        chosen = _default_starts(unstable)
    else:
        chosen = np.array(
            [require_real("starts", s, low=-1, high=1, low_open=True, high_open=True) for s in starts]
        )
    arrivals = _arrivals(model, [float(p.rho) for p in found], [p.stable for p in found])
    last = 1.2 * max(arrivals) if until is None else require_real("until", until, low=0, low_open=True)
    # even where the fastest trajectories move, ever wider when they have arrived
    unit = min(*arrivals, last)
    clock = unit * np.sinh(np.linspace(0.0, math.asinh(last / unit), times))
    clock[-1] = last
    rho = np.linspace(-1.0, 1.0, points)
    landscape = {
        f.__name__: ("rho", np.asarray(f(model, rho))) for f in (objective, slope, drift, attention_mass)
    }
    fixed = {
        "fixed_rho": ("point", np.array([float(p.rho) for p in found])),
        "eigenvalue": ("point", np.array([float(p.eigenvalue) for p in found])),
        "stable": ("point", np.array([p.stable for p in found])),
    }
    paths = {"path": (("start", "time"), _paths(model, chosen, clock))}
    result = xr.Dataset(
        {**landscape, **fixed, **paths},
        coords={"rho": rho, "start": chosen, "time": clock},
        attrs={"model": repr(model), "time_unit": unit},
    )
    return _described(result)


def _described(result: xr.Dataset) -> xr.Dataset:
    import theorykit

    names = {"rho": "overlap of query and signal", "drift": "rate of the overlap", "slope": "slope of the objective",
             "attention_mass": "attention on informative tokens", "time": "sum of step sizes"}  # fmt: skip
    for name, text in names.items():
        result[name].attrs["long_name"] = text
    return result.assign_attrs(theorykit=theorykit.__version__)


def _default_starts(unstable: list[float]) -> np.ndarray:
    import numpy as np

    even = [
        s
        for s in np.linspace(-_OUTERMOST, _OUTERMOST, 11)
        if all(abs(s - u) > 3 * _CLOSEST for u in unstable)
    ]
    beside = [u + side * _CLOSEST for u in unstable for side in (-1, 1)]
    return np.unique([s for s in [*even, *beside] if -1 < s < 1])


def _arrivals(model: Model, places: list[float], stable: list[bool]) -> list[float]:
    """Between neighbouring fixed points, the time from close to the unstable one to close to the stable one."""
    found = []
    for left, right, left_is_stable in zip(places[:-1], places[1:], stable[:-1], strict=True):
        width = right - left
        near = (left + _CLOSEST * width, right - _CLOSEST * width)
        begin, end = near[::-1] if left_is_stable else near
        found.append(float(time_to(model, begin, end)))
    return found


def _paths(model: Model, starts: np.ndarray, clock: np.ndarray) -> np.ndarray:
    import numpy as np

    return np.asarray(trajectory(model, starts, clock)["rho"])


def plot_portrait(portrait: xr.Dataset, title: str | None = None) -> Figure:
    """The flow over the overlap with its fixed points (filled: stable, open: unstable), trajectories beside it.

    Parameters
    ----------
    portrait : xarray.Dataset
        What :func:`phase_portrait` returns.
    title : str, optional
        Default: the model.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    flow, paths = figure.subplots(1, 2)
    _draw_flow(flow, portrait)
    _draw_paths(paths, portrait)
    figure.suptitle(portrait.attrs["model"] if title is None else title, fontsize="medium")
    return figure


def _draw_flow(axes: Axes, portrait: xr.Dataset) -> None:
    import numpy as np

    rho, rate = portrait["rho"].to_numpy(), portrait["drift"].to_numpy()
    axes.axhline(0.0, color="black", linewidth=0.8)
    for sign, color in ((1, _UP), (-1, _DOWN)):
        axes.plot(rho, np.where(sign * rate >= 0, rate, np.nan), color=color, linewidth=1.8)
    fixed = portrait["fixed_rho"].to_numpy()
    for left, right in pairwise(fixed.tolist()):
        middle, reach = 0.5 * (left + right), 0.12 * (right - left)
        towards = math.copysign(reach, float(np.interp(middle, rho, rate)))
        axes.annotate(
            "", (middle + towards, 0.0), (middle - towards, 0.0),
            arrowprops={"arrowstyle": "-|>", "color": _UP if towards > 0 else _DOWN, "linewidth": 1.6},
        )  # fmt: skip
    for place, stable in zip(fixed, portrait["stable"].to_numpy(), strict=True):
        axes.plot(
            place, 0.0, "o", color="black", markerfacecolor="black" if stable else "white", markersize=8,
            clip_on=False, zorder=5,
        )  # fmt: skip
    heights = [h for h in (rate.max(), -rate.min()) if h > 0.0]
    if len(heights) == 2 and max(heights) > _UNEVEN * min(heights):
        axes.set_yscale("asinh", linear_width=min(heights))  # else one side could not be seen
        axes.set_yticks(_decades(min(heights), -rate.min(), rate.max()), minor=False)
        axes.minorticks_off()
    axes.set_xlim(-1.0, 1.0)
    axes.set_xlabel(r"overlap $\rho$ of query and signal")
    axes.set_ylabel(r"rate $\dot\rho = (1-\rho^2)\,J'(\rho)$")
    axes.set_title("fixed points: filled stable, open unstable", fontsize="small")


def _decades(unit: float, below: float, above: float) -> list[float]:
    """Zero, and powers of ten from half the unit on, on both sides as far as the data go."""
    first = math.ceil(math.log10(0.5 * unit))
    powers = [10.0**k for k in range(first, first + 12)]
    return [-p for p in powers if p <= below] + [0.0] + [p for p in powers if p <= above]


def _draw_paths(axes: Axes, portrait: xr.Dataset) -> None:
    time, rows = portrait["time"].to_numpy(), portrait["path"].transpose("start", "time").to_numpy()
    for row in rows:
        axes.plot(time, row, color=_UP if row[-1] >= row[0] else _DOWN, linewidth=1.2)
    for place, stable in zip(portrait["fixed_rho"].to_numpy(), portrait["stable"].to_numpy(), strict=True):
        axes.axhline(place, color=_GREY, linewidth=1.0, linestyle="-" if stable else (0, (4, 3)), zorder=0)
    if time[-1] > _UNEVEN * portrait.attrs["time_unit"]:
        unit = portrait.attrs["time_unit"]
        axes.set_xscale("asinh", linear_width=unit)
        axes.set_xticks(_decades(unit, 0.0, time[-1]), minor=False)
        axes.minorticks_off()
    axes.set_xlim(0.0, time[-1])
    axes.set_ylim(-1.03, 1.03)
    axes.set_xlabel(r"time $t=\sum_k\eta_k$")
    axes.set_ylabel(r"overlap $\rho$")
    axes.set_title("trajectories; broken: unstable points", fontsize="small")
