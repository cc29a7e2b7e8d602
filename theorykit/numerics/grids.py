"""Quadrature grids: Gauss-Legendre panels for Gaussian variables, the trapezoid rule on s = log t.

Where the integrand has a factor exp(-t), it falls like t towards 0 and as fast as that above 1: there the trapezoid
rule runs over v, s = v - exp(-v), in which both ends fall double-exponentially and a quarter of the nodes will do
(Takahashi and Mori, Publ. RIMS 9, 721 (1974)).

Panels are split at breakpoints (kinks and fronts of the integrand) and lie on a fixed lattice, so that the grid,
and with it the last bit of a result, is a function of its arguments only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

__all__ = [
    "Grid",
    "Interval",
    "exponential_grid",
    "gaussian_grid",
    "half_line_grid",
    "hull",
    "legendre_coefficients",
    "legendre_rule",
    "truncated_grid",
]

ORDER = 16
_KEPT = 4096  # panels or nodes of grids that are kept


@dataclass(frozen=True)
class Interval:
    """Range of one variable and the distance of its panels (Gaussian) or nodes (half-line).

    They lie at multiples of the step, moved by ``shift`` steps.
    """

    low: float
    high: float
    step: float
    shift: float = 0.0

    def refined(self, factor: float, shift: float = 0.0) -> Interval:
        return Interval(self.low, self.high, self.step / factor, shift)

    def lattice(self) -> np.ndarray:
        first = math.floor(self.low / self.step - self.shift)
        last = math.ceil(self.high / self.step - self.shift)
        return (np.arange(first, max(last, first + 1) + 1) + self.shift) * self.step


def hull(choices: Sequence[Mapping[str, Interval]]) -> dict[str, Interval]:
    """Intervals of the same variables that hold those of all choices, with the finest steps."""
    return {
        name: replace(
            interval,
            low=min(c[name].low for c in choices),
            high=max(c[name].high for c in choices),
            step=min(c[name].step for c in choices),
        )
        for name, interval in choices[0].items()
    }


@dataclass(frozen=True)
class Grid:
    """Nodes and weights. Panels have ``edges``; a truncated variable has, for each node of the outer one, the
    index of its panel and the weights of the part of that panel below it. ``places`` are the nodes in the variable
    in which they are equidistant, where that is another one."""

    nodes: np.ndarray
    weights: np.ndarray
    edges: np.ndarray | None = None
    blocks: np.ndarray | None = None
    panels: np.ndarray | None = None
    places: np.ndarray | None = None

    @property
    def coordinates(self) -> np.ndarray:
        """The nodes as the interval of the grid counts them."""
        return self.nodes if self.places is None else self.places

    @cached_property
    def spacing(self) -> np.ndarray:
        """Half the distance between the neighbours of each coordinate."""
        return np.gradient(self.coordinates)

    @cached_property
    def density(self) -> np.ndarray:
        """What turns values at the nodes into a density over the coordinates."""
        if self.edges is not None:
            return np.exp(-self.nodes * self.nodes / 2) / np.sqrt(2 * np.pi)
        return np.ones_like(self.nodes) if self.places is None else 1 + np.exp(-self.places)

    def part(self, start: int, stop: int) -> Grid:
        """The nodes from ``start`` to ``stop`` alone (whole panels, for a truncated variable)."""
        nodes, weights = self.nodes[start:stop], self.weights[start:stop]
        if self.panels is None:
            return Grid(nodes, weights)
        return Grid(nodes, weights, None, self.blocks, self.panels - start // self.blocks.shape[1])


@lru_cache(maxsize=8)
def legendre_rule(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the Gauss-Legendre rule on [-1, 1]."""
    return np.polynomial.legendre.leggauss(order)


@lru_cache(maxsize=8)
def legendre_coefficients(order: int) -> np.ndarray:
    """Row k gives the coefficient of P_k of a polynomial from its values at the nodes."""
    nodes, weights = legendre_rule(order)
    vandermonde = np.polynomial.legendre.legvander(nodes, order - 1)
    # c_k = (2k+1)/2 sum_j w_j P_k(x_j) f_j
    return ((2 * np.arange(order) + 1) / 2)[:, None] * (vandermonde * weights[:, None]).T


@lru_cache(maxsize=8)
def _integration_matrix(order: int) -> np.ndarray:
    """Row i integrates a polynomial, given at the nodes, from -1 to node i."""
    nodes, _ = legendre_rule(order)
    # int_{-1}^x P_k = (P_{k+1} - P_{k-1})/(2k+1)
    extended = np.polynomial.legendre.legvander(nodes, order)
    antiderivative = np.empty((order, order))
    antiderivative[:, 0] = nodes + 1
    for k in range(1, order):
        antiderivative[:, k] = (extended[:, k + 1] - extended[:, k - 1]) / (2 * k + 1)
    return antiderivative @ legendre_coefficients(order)


def panel_edges(interval: Interval, breakpoints: tuple[float, ...]) -> np.ndarray:
    """Lattice of the panel width between the ends, with the breakpoints put in."""
    lattice = interval.lattice()
    inside = [b for b in breakpoints if lattice[0] < b < lattice[-1]]
    edges = np.unique(np.concatenate([lattice, np.asarray(inside, dtype=float)]))
    # a sliver of a panel would only waste nodes
    keep = np.concatenate([[True], np.diff(edges) > 1e-12 * max(1.0, interval.step)])
    return edges[keep]


def gaussian_grid(interval: Interval, breakpoints: tuple[float, ...] = (), order: int = ORDER) -> Grid:
    """Panels with the standard normal density in the weights."""
    make = _gaussian_grid if _is_short(interval) else _gaussian_grid.__wrapped__
    return make(interval, breakpoints, order)


@lru_cache(maxsize=64)
def _gaussian_grid(interval: Interval, breakpoints: tuple[float, ...], order: int) -> Grid:
    edges = panel_edges(interval, breakpoints)
    nodes, weights = legendre_rule(order)
    half = np.diff(edges) / 2
    x = (edges[:-1] + half)[:, None] + half[:, None] * nodes
    w = half[:, None] * weights * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return Grid(np.ascontiguousarray(x.ravel()), np.ascontiguousarray(w.ravel()), edges)


def half_line_grid(interval: Interval) -> Grid:
    """Trapezoid rule in s = log t on the lattice of the interval."""
    return (_half_line_grid if _is_short(interval) else _half_line_grid.__wrapped__)(interval)


def _is_short(interval: Interval) -> bool:
    """Whether a grid is small enough to be kept: the same few are asked for again and again."""
    return interval.high - interval.low < _KEPT * interval.step


@lru_cache(maxsize=64)
def _half_line_grid(interval: Interval) -> Grid:
    nodes = interval.lattice()
    return Grid(nodes, np.full(nodes.size, interval.step))


def exponential_grid(interval: Interval) -> Grid:
    """Trapezoid rule in v, s = v - exp(-v), for integrands that are exp(-t) at large t = exp(s)."""
    places = interval.lattice()
    decay = np.exp(-places)
    return Grid(places - decay, interval.step * (1 + decay), places=places)


def truncated_grid(
    interval: Interval, outer: Grid, breakpoints: tuple[float, ...], order: int = ORDER
) -> Grid:
    """The Gaussian grid with what it takes to integrate up to each node of ``outer``.

    Both grids share one lattice; the panel that contains the outer node is integrated by interpolation.
    """
    low = min(interval.low, float(outer.edges[0]))
    grid = gaussian_grid(replace(interval, low=low, high=float(outer.edges[-1])), breakpoints, order)
    panels = np.searchsorted(grid.edges, outer.nodes) - 1
    matrix, (_, plain) = _integration_matrix(order), legendre_rule(order)
    half_density = (grid.weights.reshape(-1, order) / plain)[panels]
    within = np.arange(outer.nodes.size) % order
    blocks = np.ascontiguousarray(matrix[within] * half_density)
    return Grid(grid.nodes, grid.weights, grid.edges, blocks, panels.astype(np.int64))
