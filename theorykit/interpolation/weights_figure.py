"""Picture of a report on weights: the spectra of every layer, beside what identity plus low rank would look like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from theorykit.interpolation.weights_report import LayerReport, WeightsReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_weights"]

_MOST_LAYERS = 12


def plot_weights(report: WeightsReport) -> Figure:
    """One column per layer: eigenvalues in the plane above, singular values of the residual below.

    The cross marks the best multiple of the identity, where "identity plus low rank" would put all eigenvalues but a
    few; the dashed line is the threshold below which singular values count as noise.
    """
    from matplotlib.figure import Figure

    layers = report.layers
    if len(layers) > _MOST_LAYERS:  # every few, the last one included
        stride = -(-len(layers) // _MOST_LAYERS)
        layers = layers[::-1][::stride][::-1]
    figure = Figure(figsize=(2.2 * len(layers) + 0.8, 4.6), layout="constrained")
    rows = figure.subplots(2, len(layers), squeeze=False)
    for column, layer in enumerate(layers):
        _eigenvalues(rows[0, column], layer)
        _singular_values(rows[1, column], layer)
    rows[0, 0].set_ylabel("eigenvalues of $W$")
    rows[1, 0].set_ylabel("singular values of\nthe residual")
    figure.suptitle(report.verdict, fontsize="medium")
    return figure


def _eigenvalues(axes: Axes, layer: LayerReport) -> None:
    values = layer.whole.eigenvalues
    axes.plot([v.real for v in values], [v.imag for v in values], ".", markersize=2, color="#0072B2")
    axes.plot([layer.whole.identity], [0.0], "x", color="#D55E00", label="identity")
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_title(f"layer {layer.index}", fontsize="medium")


def _singular_values(axes: Axes, layer: LayerReport) -> None:
    values = layer.whole.singular_values
    axes.semilogy(range(1, len(values) + 1), [max(v, 1e-16 * values[0]) for v in values], color="#0072B2")
    axes.axhline(layer.whole.threshold, color="#7F7F7F", linestyle=(0, (5, 2)))
    axes.set_xlabel("rank")
