"""Figures of curves: Datasets in, matplotlib Figures out; no backend and no global setting is touched."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["notation", "plot_curve", "plot_risks"]

#: How the field writes what the code spells.
_NOTATION = {
    "nu": r"$\nu$",
    "length": "$L$",
    "noise": r"$\Delta$",
    "alpha": r"$\alpha$",
    "shift": "$c$",
    "m_k": "$m_k$",
    "q_k": "$q_k$",
    "m_v": "$m_v$",
    "q_v": "$q_v$",
    "m_kv": "$m_{kv^*}$",
    "m_vk": "$m_{vk^*}$",
    "q_kv": "$q_{kv}$",
    "attention_moments_0": "$A$",
    "attention_moments_1": "$B$",
    "bayes_risk": "Bayes risk",
    "optimal_risk": "risk",
    "best_elementwise_risk": "risk of the best elementwise activation",
}
#: Distinct to colour-blind eyes too.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1)), (0, (6, 2, 1, 2)))
_DECADES = 100.0  # a positive quantity with a larger ratio of extremes is drawn on a logarithmic axis
_MANY_DECADES = 1e4
_ENTRIES = 12  # longest legend; of more lines, which then shade into one another, every few are named
_MARGIN = 0.12  # distance of the point at infinity from the last finite one, as a fraction of the axis


def notation(name: str) -> str:
    """The name as it stands on an axis: ``nu`` as a Greek letter, unknown names in words."""
    return _NOTATION.get(name, name.replace("_", " "))


def plot_curve(
    dataset: xr.Dataset,
    x: str | None = None,
    log_y: bool = False,
    title: str | None = None,
    y: str | None = None,
) -> Figure:
    """One panel: a line with its error band for every combination of the other coordinates.

    Parameters
    ----------
    dataset : xarray.Dataset
        What :func:`theorykit.curve` returns.
    x : str, optional
        The dimension along the axis; default: the longest numeric one.  Infinite values stand at the right,
        behind a dotted line.
    log_y : bool
        Logarithmic vertical axis.
    title : str, optional
    y : str, optional
        The variable; default: ``risk`` where there is one, else the first with an error.

    Raises
    ------
    ValueError
        If ``x`` is no dimension or ``y`` no numeric variable of the dataset.
    """
    from matplotlib.figure import Figure

    along = _chosen("x", x, [str(d) for d in dataset.dims], _default_x(dataset))
    name = _chosen("y", y, _numeric_variables(dataset), _default_y(dataset))
    others = [str(d) for d in dataset[name].dims if d != along]
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    axis = _Axis.of(dataset[along].values)
    lines = list(itertools.product(*(dataset[d].values for d in others)))
    stride = -(-len(lines) // _ENTRIES)
    _prepare(axes, axis, along, _variable_label(dataset, name), log_y)
    for index, (style, values) in enumerate(zip(_styles(lines), lines, strict=True)):
        chosen = dict(zip(others, values, strict=True))
        label = ", ".join(_line_label(d, v) for d, v in chosen.items()) if index % stride == 0 else ""
        _draw(axes, axis, dataset.sel(chosen), name, label, style)
    _mark_infinity(axes, axis)
    _thin_ticks(axes)
    if others:
        axes.legend(frameon=False, fontsize="small")
    if title:
        axes.set_title(title)
    return figure


def plot_risks(
    dataset: xr.Dataset,
    x: str = "nu",
    panel: str = "length",
    line: str = "estimator",
    y: str = "risk",
    log_y: bool | None = None,
    title: str | None = None,
) -> Figure:
    """One panel per value of ``panel``, one labelled curve per value of ``line``; rows of panels share axes.

    Parameters
    ----------
    dataset : xarray.Dataset
        With the dimensions ``x``, ``panel``, ``line`` and the variables ``y`` and, optionally, its error.
        The first curve is drawn broad and pale: it is the reference that others may coincide with. Between the
        points, curves are interpolated monotonically; where the points are few, they are marked.
    log_y : bool, optional
        Default: logarithmic in rows where the values are positive and span more than two decades.
    title : str, optional

    Raises
    ------
    ValueError
        If a name is no dimension or variable of the dataset.
    """
    from matplotlib.figure import Figure

    for argument, name in {"x": x, "panel": panel, "line": line}.items():
        _chosen(argument, name, [str(d) for d in dataset.dims], None)
    _chosen("y", y, _numeric_variables(dataset), None)
    panels, lines = dataset[panel].values, dataset[line].values
    columns = min(len(panels), 2) if len(panels) != 3 else 3
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.7 * columns + 0.6, 3.0 * rows + 0.8), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey="row", squeeze=False)
    axis = _Axis.of(dataset[x].values)
    for index, (axes, value) in enumerate(zip(grid.flat, panels, strict=False)):
        row = panels[index - index % columns :][:columns]
        wide = _spans_decades(dataset[y].sel({panel: row}).values)
        _prepare(axes, axis, x, _variable_label(dataset, y), wide if log_y is None else log_y)
        for style, label in zip(_styles(lines, reference=True), lines, strict=True):
            chosen = dataset.sel({panel: value, line: label})
            _draw(axes, axis, chosen, y, str(label), style, is_smooth=True)
        _mark_infinity(axes, axis)
        _thin_ticks(axes)
        axes.label_outer()
        axes.set_title(_line_label(panel, value), fontsize="medium")
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(lines), 3), frameon=False)
    if title:
        figure.suptitle(title)
    return figure


@dataclass(frozen=True)
class _Axis:
    """Where the values of a coordinate stand: numbers, a possible one at infinity, or names side by side."""

    positions: np.ndarray
    finite: np.ndarray
    logarithmic: bool = False
    names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, values: np.ndarray) -> _Axis:
        import numpy as np

        if values.dtype.kind not in "iuf":
            everywhere = np.ones(len(values), dtype=bool)
            return cls(np.arange(len(values), dtype=float), everywhere, names=tuple(map(str, values)))
        finite = np.isfinite(values)
        logarithmic = _spans_decades(values[finite])
        positions = values.astype(float)
        if not finite.all():
            positions[~finite] = cls._beyond(positions[finite], logarithmic)
        return cls(positions, finite, logarithmic)

    @staticmethod
    def _beyond(finite: np.ndarray, logarithmic: bool) -> float:
        """The place of infinity, a margin behind the last finite point."""
        if not finite.size:
            return 0.0
        low, high = float(finite.min()), float(finite.max())
        if logarithmic:
            return high * (high / low) ** _MARGIN
        return high + _MARGIN * ((high - low) or 1.0)

    @property
    def infinity(self) -> float | None:
        return None if self.finite.all() else float(self.positions[~self.finite][0])


@dataclass(frozen=True)
class _Style:
    color: Any
    dashes: Any = "-"
    width: float = 1.6
    alpha: float = 1.0

    @property
    def layer(self) -> float:
        """Broken lines above solid ones: where curves coincide, both are seen."""
        return 2.0 if self.is_solid else 2.5

    @property
    def is_solid(self) -> bool:
        return bool(self.dashes == "-")


def _styles(lines: Sequence[Any] | np.ndarray, reference: bool = False) -> list[_Style]:
    first = [_Style("black", width=5.0, alpha=0.25)] if reference else []
    rest = len(lines) - len(first)
    if rest <= len(_COLORS):
        if not reference:
            return [_Style(color) for color in _COLORS[:rest]]
        dashes = itertools.cycle(_DASHES)
        return first + [
            _Style(color, dash, width=2.4 if dash == "-" else 1.5)
            for color, dash in zip(_COLORS[:rest], dashes, strict=False)
        ]
    from matplotlib import colormaps

    scale = colormaps["viridis"]
    return first + [_Style(scale(0.9 * index / (rest - 1))) for index in range(rest)]


def _draw(
    axes: Axes, axis: _Axis, data: xr.Dataset, name: str, label: str, style: _Style, is_smooth: bool = False
) -> None:
    """One curve with its band of errors; a smooth one is drawn through its points without corners."""
    import numpy as np

    values = np.asarray(data[name].values, dtype=float)
    order = np.argsort(axis.positions, kind="stable")
    order = order[axis.finite[order]]
    at, shown = axis.positions[order], values[order]
    sparse = len(at) <= 8 or axis.names is not None
    look: dict[str, Any] = {
        "color": style.color,
        "alpha": style.alpha,
        "linewidth": style.width,
        "zorder": style.layer,
    }
    marks: dict[str, Any] = {"marker": "o", "markersize": 2.0 + style.width} if sparse else {}
    if is_smooth and not axis.names and len(at) >= _ENOUGH and np.isfinite(shown).all():
        between = _interpolated(at, shown, axes.get_xscale() == "log", axes.get_yscale() == "log")
        axes.plot(*between, label=label, linestyle=style.dashes, **look)
        if marks:
            axes.plot(at, shown, linestyle="none", **look, **marks)
    else:
        axes.plot(at, shown, label=label, linestyle="none" if axis.names else style.dashes, **look, **marks)
    error = f"{name}_error"
    if error in data:
        spread = np.asarray(data[error].values, dtype=float)[order]
        low = shown - spread
        if axes.get_yscale() == "log" and (shown > 0).any():
            low = np.maximum(low, shown[shown > 0].min() / 10)  # a band that reaches zero ends at the edge
        axes.fill_between(at, low, shown + spread, color=style.color, alpha=0.25, linewidth=0)
    if axis.infinity is not None:
        limit = values[~axis.finite]
        look |= {"linestyle": "none", "marker": "o", "markersize": 3.0 + style.width}
        axes.plot([axis.infinity] * len(limit), limit, **look)


_ENOUGH = 4  # points for a smooth curve


def _interpolated(x: np.ndarray, y: np.ndarray, log_x: bool, log_y: bool) -> tuple[np.ndarray, np.ndarray]:
    """A curve through the points that rises and falls only where they do, smooth on the scales of the axes."""
    import numpy as np
    from scipy.interpolate import PchipInterpolator

    log_x, log_y = log_x and bool((x > 0).all()), log_y and bool((y > 0).all())
    u, v = np.log(x) if log_x else x, np.log(y) if log_y else y
    if (np.diff(u) <= 0).any():
        return x, y
    fine = np.linspace(u[0], u[-1], 24 * len(u))
    curve = PchipInterpolator(u, v)(fine)
    return (np.exp(fine) if log_x else fine), (np.exp(curve) if log_y else curve)


def _prepare(axes: Axes, axis: _Axis, x: str, y_label: str, log_y: bool) -> None:
    """Scales and labels, with as little ink as possible."""
    if axis.logarithmic:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log", nonpositive="mask")
    if axis.names is not None:
        axes.set_xticks(axis.positions, axis.names)
    axes.set_xlabel(notation(x))
    axes.set_ylabel(y_label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)


def _mark_infinity(axes: Axes, axis: _Axis) -> None:
    """A dotted fence before the point at infinity, and its tick; nothing where all points are finite."""
    import numpy as np
    from matplotlib.ticker import FixedLocator, FuncFormatter

    infinity = axis.infinity
    if infinity is None:
        return
    finite = axis.positions[axis.finite]
    last = float(finite.max()) if finite.size else 0.0
    ticks = axes.get_xticks()
    inside = [t for t in ticks if finite.size and finite.min() <= t <= last]
    fence = np.sqrt(last * infinity) if axis.logarithmic else (last + infinity) / 2
    axes.axvline(fence, color="0.6", linestyle=":", linewidth=0.9)
    axes.xaxis.set_major_locator(FixedLocator([*inside, infinity]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda t, _: "∞" if t == infinity else f"{t:g}"))


def _thin_ticks(axes: Axes) -> None:
    """No ticks inside the decades of a logarithmic axis that has many of them."""
    from matplotlib.ticker import NullLocator

    low, high = axes.get_ylim()
    if axes.get_yscale() == "log" and high > _MANY_DECADES * low:
        axes.yaxis.set_minor_locator(NullLocator())


def _spans_decades(values: Any) -> bool:
    import numpy as np

    numbers = np.asarray(values, dtype=float)
    numbers = numbers[np.isfinite(numbers)]
    return bool(numbers.size and numbers.min() > 0 and numbers.max() > _DECADES * numbers.min())


def _numeric_variables(dataset: xr.Dataset) -> list[str]:
    return [str(name) for name, data in dataset.data_vars.items() if data.dtype.kind in "iuf"]


def _default_x(dataset: xr.Dataset) -> str | None:
    """The longest numeric dimension; of equally long ones, one of floats."""
    numeric = [str(d) for d in dataset.dims if dataset[d].dtype.kind in "iuf"]
    candidates = numeric or [str(d) for d in dataset.dims]
    return max(candidates, key=lambda d: (dataset.sizes[d], dataset[d].dtype.kind == "f"), default=None)


def _default_y(dataset: xr.Dataset) -> str | None:
    names = _numeric_variables(dataset)
    with_error = [name for name in names if f"{name}_error" in names]
    return "risk" if "risk" in names else next(iter(with_error or names), None)


def _chosen(argument: str, given: str | None, known: list[str], default: str | None) -> str:
    name = default if given is None else given
    if name is None or name not in known:
        raise ValueError(f"{argument} must be one of {', '.join(known) or '(nothing to plot)'}, got {name!r}")
    return name


def _variable_label(dataset: xr.Dataset, name: str) -> str:
    return str(dataset[name].attrs.get("long_name", notation(name)))


def _line_label(dimension: str, value: Any) -> str:
    """``L = 10``; a name stands for itself."""
    if isinstance(value, str) and value[:1] not in "{0123456789":
        return re.sub(r"10\^(\d+)", r"$10^{\1}$", value)
    return f"{notation(dimension)} = {value if isinstance(value, str) else _number(value)}"


def _number(value: Any) -> str:
    number = float(value)
    if number == float("inf"):
        return r"$\infty$"
    power = len(str(int(number))) - 1 if number >= 1e4 and number == int(number) else 0
    if power and number == 10**power:
        return f"$10^{{{power}}}$"
    return f"{number:g}"
