"""Figures: what is drawn is the data, labels are the field's, nothing global is touched."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from theorykit.plotting import notation, plot_curve, plot_risks


def dataset(nu, lengths=(2, 3), name="bayes_risk", error=0.01):
    values = np.array([[1 / (length + x) for x in np.minimum(nu, 1e6)] for length in lengths])
    dims = ("length", "nu")
    return xr.Dataset(
        {name: (dims, values), f"{name}_error": (dims, np.full_like(values, error))},
        {"nu": np.asarray(nu, dtype=float), "length": np.asarray(lengths)},
    )


def risks(nu=(0.0, 1.0, 4.0), estimators=("Bayes", "softmax", "linear"), lengths=(2, 10, 1000), scale=1.0):
    base = np.array([[[(i + 1) / (length + x) ** scale for x in np.minimum(nu, 1e6)] for length in lengths]
                     for i, _ in enumerate(estimators)])  # fmt: skip
    dims = ("estimator", "length", "nu")
    coordinates = {"nu": list(nu), "length": list(lengths), "estimator": list(estimators)}
    return xr.Dataset({"risk": (dims, base, {"long_name": "excess risk"})}, coordinates)


def lines(axes):
    """The drawn curves by label."""
    return {line.get_label(): line.get_xydata() for line in axes.get_lines() if line.get_label()[0] != "_"}


class TestCurve:
    def test_lines_are_the_data(self):
        data = dataset([0.0, 2.0, 4.0])
        (axes,) = plot_curve(data).axes
        drawn = lines(axes)
        assert list(drawn) == ["$L$ = 2", "$L$ = 3"]
        expected = np.column_stack([data.nu, data.bayes_risk.sel(length=3)])
        np.testing.assert_array_equal(drawn["$L$ = 3"], expected)

    def test_band_is_the_error(self):
        (axes,) = plot_curve(dataset([0.0, 2.0], lengths=(2,), error=0.125)).axes
        (band,) = axes.collections
        heights = band.get_paths()[0].vertices[:, 1]
        assert (heights.min(), heights.max()) == (0.25 - 0.125, 0.5 + 0.125)

    def test_labels(self):
        (axes,) = plot_curve(dataset([0.0, 1.0]), title="A title").axes
        assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == (r"$\nu$", "Bayes risk", "A title")
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["$L$ = 2", "$L$ = 3"]
        assert notation("m_k") == "$m_k$"
        assert notation("free_entropy") == "free entropy"

    def test_one_line_needs_no_legend(self):
        (axes,) = plot_curve(dataset([0.0, 1.0], lengths=(2,)).squeeze("length", drop=True)).axes
        assert axes.get_legend() is None

    def test_points_are_joined_in_order(self):
        (axes,) = plot_curve(dataset([4.0, 0.0, 2.0], lengths=(2,))).axes
        assert lines(axes)["$L$ = 2"][:, 0].tolist() == [0.0, 2.0, 4.0]

    def test_infinity_stands_apart(self):
        data = dataset([1.0, 2.0, math.inf], lengths=(2,))
        (axes,) = plot_curve(data).axes
        assert lines(axes)["$L$ = 2"][:, 0].tolist() == [1.0, 2.0]
        marked = [line.get_xydata() for line in axes.get_lines() if line.get_marker() == "o"]
        ((place, value),) = marked[-1]
        assert place > 2.0
        assert value == data.bayes_risk.sel(nu=math.inf).item()
        assert place in axes.get_xticks()
        assert axes.xaxis.get_major_formatter()(place, None) == "∞"

    def test_x_and_y_may_be_chosen(self):
        (axes,) = plot_curve(dataset([0.0, 1.0, 2.0]), x="length", y="bayes_risk_error").axes
        assert axes.get_xlabel() == "$L$"
        assert len(lines(axes)) == 3

    def test_names_along_the_axis(self):
        data = xr.Dataset({"m_k": ("activation", [1.0, 3.0])}, {"activation": ["softmax", "linear"]})
        (axes,) = plot_curve(data).axes
        assert [label.get_text() for label in axes.get_xticklabels()] == ["softmax", "linear"]

    @pytest.mark.parametrize(
        ("grid", "scale"), [([2, 10, 10**6], "log"), ([2, 3, 10], "linear"), ([0, 10**6], "linear")]
    )
    def test_wide_positive_grids_are_logarithmic(self, grid, scale):
        (axes,) = plot_curve(dataset(grid, lengths=(2,))).axes
        assert axes.get_xscale() == scale

    def test_logarithmic_risk(self):
        assert plot_curve(dataset([0.0, 1.0]), log_y=True).axes[0].get_yscale() == "log"
        assert plot_curve(dataset([0.0, 1.0])).axes[0].get_yscale() == "linear"

    def test_long_legends_are_thinned(self):
        (axes,) = plot_curve(dataset(np.arange(41.0), lengths=range(2, 32))).axes
        assert len(axes.get_legend().get_texts()) == 10
        assert len(axes.get_lines()) == 30

    @pytest.mark.parametrize(("arguments", "message"), [
        ({"x": "mu"}, "x must be one of length, nu, got 'mu'"),
        ({"y": "status"}, "y must be one of bayes_risk, bayes_risk_error, got 'status'"),
    ])  # fmt: skip
    def test_unknown_names(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            plot_curve(dataset([0.0, 1.0]), **arguments)


class TestRisks:
    def test_a_panel_per_length_and_a_line_per_estimator(self):
        data = risks()
        figure = plot_risks(data, title="Spiked")
        assert [axes.get_title() for axes in figure.axes] == ["$L$ = 2", "$L$ = 10", "$L$ = 1000"]
        for axes, length in zip(figure.axes, [2, 10, 1000], strict=True):
            drawn = lines(axes)
            assert list(drawn) == ["Bayes", "softmax", "linear"]
            for name, points in drawn.items():
                np.testing.assert_array_equal(points[:, 1], data.risk.sel(estimator=name, length=length))
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Bayes", "softmax", "linear"]
        assert figure.axes[0].get_ylabel() == "excess risk"

    def test_scale_follows_the_data(self):
        assert {axes.get_yscale() for axes in plot_risks(risks()).axes} == {"log"}
        assert {axes.get_yscale() for axes in plot_risks(risks(lengths=(2, 3))).axes} == {"linear"}
        assert {axes.get_yscale() for axes in plot_risks(risks(), log_y=False).axes} == {"linear"}
        rows = plot_risks(risks(lengths=(2, 3, 10, 10**4))).axes
        assert [axes.get_yscale() for axes in rows] == ["linear", "linear", "log", "log"]
        assert rows[0].get_ylim() == rows[1].get_ylim()

    def test_names_as_panels_and_powers_of_ten(self):
        titles = [axes.get_title() for axes in plot_risks(risks(lengths=(2, 10**6))).axes]
        assert titles == ["$L$ = 2", "$L$ = $10^{6}$"]
        data = risks(lengths=(2, 3)).assign_coords(length=["L = 10^6", "random L"])
        assert [axes.get_title() for axes in plot_risks(data).axes] == ["L = $10^{6}$", "random L"]

    def test_broken_lines_lie_above_solid_ones(self):
        names = ["Bayes", "softmax", "softplus", "erf", "linear", "best"]
        drawn = {line.get_label(): line for line in plot_risks(risks(estimators=names)).axes[0].get_lines()}
        assert drawn["erf"].get_zorder() > drawn["best"].get_zorder()

    def test_unknown_names(self):
        with pytest.raises(ValueError, match="panel must be one of estimator, length, nu, got 'size'"):
            plot_risks(risks(), panel="size")


def test_nothing_global_is_touched():
    code = """
import sys, matplotlib
import numpy as np, xarray as xr
before = list(dict.items(matplotlib.rcParams))  # reading rcParams['backend'] would choose one
from theorykit.plotting import plot_curve, plot_risks
nu = [1.0, 2.0, float("inf")]
plot_curve(xr.Dataset({"r": ("nu", [1.0, 2.0, 3.0])}, {"nu": nu}), title="t").canvas.draw()
risk = (("estimator", "length", "nu"), np.ones((1, 1, 3)))
plot_risks(xr.Dataset({"risk": risk}, {"nu": nu, "length": [2], "estimator": ["a"]})).canvas.draw()
print("matplotlib.pyplot" in sys.modules, list(dict.items(matplotlib.rcParams)) == before)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False True\n", "")
