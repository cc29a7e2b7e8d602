"""The verbs of the interpolation theory on the command line."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from theorykit import interpolation as ip
from theorykit.cli import app


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.mark.parametrize("arguments", [["ip", "relu(x)"], ["interpolation", "--formula", "relu(x)"]])
def test_hermite(arguments):
    data = json.loads(run("hermite", *arguments, "--degree", 2, "--json").stdout)
    assert data["formula"] == "relu(x)"
    assert data["coefficients"][1]["value"] == pytest.approx(0.5)
    assert data["second_moment"]["value"] == pytest.approx(0.5 - 1 / (2 * math.pi))
    table = run("hermite", *arguments, "--degree", 2)
    assert table.exit_code == 0
    assert "a_2" in table.stdout
    assert "linearity" in table.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["hermite", "ip"],
        ["hermite", "ip", "x", "--formula", "x"],
        ["hermite", "slr", "x"],
        ["hermite", "ip", "exp(x**2)"],
        ["hermite", "ip", "1/x"],
        ["risk", "ip", "--formula", "tanh(x)", "--ratio", 0.5],
        ["risk", "ip", "--formula", "tanh(x)", "--ridge", 0.5],
        ["risk", "ip", "--ratio", 1, "--ridge", 0.5],
        ["risk", "ip", "--formula", "exp(x)", "--ratio", 1, "--ridge", 1, "--diagonal", "kept"],
        ["risk", "ip", "--formula", "x", "--ratio", 1, "--ridge", 1, "--overlaps", "key=1"],
        ["risk", "ip", "--formula", "x", "--ratio", -1, "--ridge", 1],
        ["risk", "slr"],
        ["curve", "slr"],
        ["curve", "ip", "--formula", "x", "--ratio", 1, "--ridge", 1],
        ["curve", "ip", "--formula", "x", "--ratio", 1, "--over", "ridge=log:0:1:3"],
        ["spectrum", "ip", "--formula", "x"],
        ["spectrum", "slr", "--formula", "x", "--ratio", 1],
    ],
)
def test_refusals(arguments):
    found = run(*arguments)
    assert found.exit_code == 2
    assert "Traceback" not in found.output


def test_risk():
    point = ["risk", "interpolation", "--formula", "tanh(x)", "--ratio", 0.5, "--ridge", 0.1, "--signal", 1]
    data = json.loads(run(*point, "--aligned", 1, "--df", 0.2, "--json").stdout)
    assert data["interpolation_error"]["value"] == pytest.approx(0.32808507043581854, abs=1e-11)
    assert data["linear_regression_error"]["value"] == pytest.approx(0.260290284671631895, abs=1e-10)
    equal = data["at_equal_degrees_of_freedom"]
    assert equal["error_attention"]["value"] == pytest.approx(0.381039425908499326, abs=1e-9)
    assert equal["ridge_regression"]["value"] == pytest.approx(1.2, abs=1e-9)
    overlaps = "key2=1,query2=2,signal_key=0.5,signal_query=-0.3,key_query=0.2"
    general = json.loads(run(*point, "--overlaps", overlaps, "--json").stdout)
    assert general["interpolation_error"]["value"] == pytest.approx(0.358951859435690929, abs=1e-11)
    table = run(*point)
    assert table.exit_code == 0
    assert "linear regression error" in table.stdout


def test_curve(tmp_path):
    arguments = [
        "curve",
        "ip",
        "--formula",
        "tanh(x)",
        "--ratio",
        0.5,
        "--signal",
        1,
        "--over",
        "ridge=log:0.01:1:5",
    ]
    files = [tmp_path / "c.nc", tmp_path / "c.png"]
    done = run(*arguments, "--out", files[0], "--plot", files[1], "--json")
    assert done.exit_code == 0
    assert all(file.stat().st_size > 1000 for file in files)
    data = json.loads(done.stdout[: done.stdout.rindex("}") + 1])
    text = json.dumps(data)
    assert "interpolation_error" in text
    table = run(*arguments)
    model = ip.Attention("tanh(x)", ratio=0.5, ridge=0.1, signal=1)
    assert f"{float(ip.interpolation_error(model)):.10g}"[:9] in table.stdout


def test_spectrum(tmp_path):
    arguments = [
        "spectrum",
        "ip",
        "--formula",
        "tanh(x)",
        "--ratio",
        0.5,
        "--signal",
        math.sqrt(2),
        "--aligned",
        1,
    ]
    done = run(*arguments, "--simulate", 200, "--trials", 2, "--plot", tmp_path / "s.png", "--json")
    assert done.exit_code == 0
    assert (tmp_path / "s.png").stat().st_size > 1000
    data = json.loads(done.stdout[: done.stdout.rindex("}") + 1])
    assert data["atom_mass"] == 0.5
    assert data["outliers"][-1] == pytest.approx(200.229285426, rel=1e-8)
    x, y = np.array(data["eigenvalue"]), np.array(data["density"])
    assert np.sum((y[1:] + y[:-1]) / 2 * np.diff(x)) == pytest.approx(0.5, abs=0.02)
    assert run(*arguments).exit_code == 0


def test_spectrum_figure_holds_the_density():
    model = ip.Attention("tanh(x)", ratio=0.5, ridge=1.0)
    grid = ip.spectral_grid(model, 60)
    data = ip.density(model, grid)
    values = ip.simulate_spectrum(model, 100, 2, seed=0)
    figure = ip.plot_spectrum(data, ip.outliers(model), values)
    (axes,) = figure.axes
    line = axes.lines[0]
    assert np.allclose(line.get_ydata(), 2 * np.sqrt(grid) * data["density"].values)
    bars = sum(patch.get_height() * patch.get_width() for patch in axes.patches)
    assert bars == pytest.approx(np.mean((values > 0) & (values <= grid[-1])), abs=1e-12)
    assert bars == pytest.approx(0.5, abs=0.02)


def test_the_theory_is_known_to_the_verbs_about_mathematics(tmp_path):
    listed = run("derive", "ip")
    assert listed.exit_code == 0
    assert "interpolation.hermite" in listed.stdout
    assert "interpolation.attention" in listed.stdout
    file = tmp_path / "ip.tex"
    assert run("latex", "interpolation", "--out", file).exit_code == 0
    text = file.read_text(encoding="utf-8")
    assert text.count(r"\begin{document}") == text.count(r"\end{document}") == 1
    assert "Hermite coefficients" in text
