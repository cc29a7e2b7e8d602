"""What a grid tells by itself: rough integrands are seen, analytic ones are not suspected."""

from __future__ import annotations

import numpy as np
import pytest

from theorykit.numerics.grids import Interval, gaussian_grid, half_line_grid
from theorykit.numerics.smoothness import lattice_roughness, panel_roughness

ROUGH = {
    "kink": lambda x, k: np.maximum(x - k, 0.0),
    "jump": lambda x, k: 1.0 * (x > k),
    "kink of the second derivative": lambda x, k: np.maximum(x - k, 0.0) ** 2,
    "kink under a steep function": lambda x, k: np.cosh(3 * x) * (1 + 1e-4 * np.abs(x - k)),
}
SMOOTH = {
    "constant": lambda x: np.ones_like(x),
    "exponential": lambda x: np.exp(2 * x),
    "front": lambda x: 1 / (1 + np.exp(-3 * x)),
    "oscillation": lambda x: np.cos(8 * x),
    "zero": lambda x: np.zeros_like(x),
}


def _truth(function, *arguments):
    """A grid with the kink on an edge, eight times finer."""
    grid = gaussian_grid(Interval(-14.0, 14.0, 0.125), arguments)
    return np.sum(grid.weights * function(grid.nodes, *arguments))


@pytest.mark.parametrize("name", ROUGH)
@pytest.mark.parametrize("step", [1.0, 0.25])
def test_rough_integrands_are_estimated_on_panels(name, step):
    """Wherever the kink is, unless so close to an edge that only a moved grid shows it."""
    grid = gaussian_grid(Interval(-14.0, 14.0, step))
    ratios = []
    for k in np.random.default_rng(11).uniform(-3, 3, size=100):
        if abs(k / step - round(k / step)) > 0.06:
            weighted = grid.weights * ROUGH[name](grid.nodes, k)
            error = abs(np.sum(weighted) - _truth(ROUGH[name], k))
            ratios.append(error / panel_roughness(weighted[None], 16)[0])
    assert len(ratios) > 60
    assert max(ratios) <= 1.0
    assert np.median(ratios) >= 0.01


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_integrands_are_not_suspected_on_panels(name):
    grid = gaussian_grid(Interval(-10.0, 10.0, 1.0))
    weighted = grid.weights * SMOOTH[name](grid.nodes)
    assert panel_roughness(weighted[None], 16)[0] <= 1e-15 * np.sum(np.abs(weighted))


def test_rows_are_independent():
    grid = gaussian_grid(Interval(-10.0, 10.0, 1.0))
    rows = np.array(
        [grid.weights * np.abs(grid.nodes - 0.3), grid.weights, grid.weights * (grid.nodes > 0.7)]
    )
    found = panel_roughness(rows, 16)
    assert [panel_roughness(r[None], 16)[0] for r in rows] == found.tolist()
    assert found[1] < 1e-15 < found[0] < found[2]


@pytest.mark.parametrize("k", [-1.3, 0.1, 0.77])
def test_rough_integrands_are_estimated_on_a_lattice(k):
    """int max(e^s - e^k, 0) e^-s^2/2 ds by the trapezoid rule, against one 64 times finer."""

    def weighted(step):
        grid = half_line_grid(Interval(-12.0, 12.0, step))
        return grid.weights * np.maximum(np.exp(grid.nodes) - np.exp(k), 0.0) * np.exp(-(grid.nodes**2) / 2)

    coarse = weighted(0.25)
    error = abs(np.sum(coarse) - np.sum(weighted(0.25 / 64)))
    assert error <= lattice_roughness(coarse[None])[0] <= 100 * error


@pytest.mark.parametrize("length", [95, 96, 97, 98])
def test_smooth_integrands_are_not_suspected_on_a_lattice(length):
    """Whatever the number of nodes modulo four."""
    grid = half_line_grid(Interval(-24.0, 0.25 * (length - 97), 0.25))
    assert grid.nodes.size == length
    t = np.exp(grid.nodes + 8)
    weighted = grid.weights * t * np.exp(-t)
    assert lattice_roughness(weighted[None])[0] <= 1e-15
