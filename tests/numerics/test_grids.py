"""Quadrature grids: exactness, closed forms, breakpoints and orders of convergence."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from theorykit.numerics.grids import (
    Interval,
    exponential_grid,
    gaussian_grid,
    half_line_grid,
    legendre_coefficients,
    legendre_rule,
    panel_edges,
    truncated_grid,
)

EPS = 2.0**-52


def _double_factorial(k):
    return math.prod(range(k - 1, 0, -2))


class TestGaussian:
    @pytest.mark.parametrize("step", [1.0, 0.7, 0.25])
    @pytest.mark.parametrize("shift", [0.0, 0.25])
    def test_moments(self, step, shift):
        """E x**k = (k-1)!! for even k, 0 for odd k."""
        grid = gaussian_grid(Interval(-16.0, 16.0, step, shift))
        for k in range(0, 24, 2):
            moment = np.sum(grid.weights * grid.nodes**k)
            assert moment == pytest.approx(_double_factorial(k), rel=100 * EPS)
            odd = np.sum(grid.weights * grid.nodes ** (k + 1))
            assert abs(odd) <= 100 * EPS * _double_factorial(k + 2)

    @pytest.mark.parametrize("order", [4, 8, 16])
    def test_a_panel_is_exact_to_twice_its_order(self, order):
        """Without the density, on one panel: polynomials up to degree 2 order - 1, and not beyond."""
        grid = gaussian_grid(Interval(0.0, 1.0, 1.0), order=order)
        plain = grid.weights * np.exp(grid.nodes**2 / 2) * math.sqrt(2 * math.pi)
        for k in range(2 * order):
            assert np.sum(plain * grid.nodes**k) == pytest.approx(1 / (k + 1), rel=20 * EPS)
        beyond = np.sum(plain * grid.nodes ** (2 * order)) * (2 * order + 1) - 1
        assert order == 16 or abs(beyond) > 1e-12

    @pytest.mark.parametrize("order", [2, 4])
    def test_order_of_convergence(self, order):
        """Composite rules of n nodes converge like step**(2n)."""
        # int_0^4 phi(x) e^x dx = e^(1/2) (Phi(3) - Phi(-1)); on the whole line convergence would be geometric
        exact = math.exp(0.5) * (math.erfc(-3 / math.sqrt(2)) - math.erfc(1 / math.sqrt(2))) / 2
        errors = []
        for step in (2.0, 1.0, 0.5):
            grid = gaussian_grid(Interval(0.0, 4.0, step), order=order)
            errors.append(abs(np.sum(grid.weights * np.exp(grid.nodes)) - exact))
        assert math.log2(errors[1] / errors[2]) == pytest.approx(2 * order, abs=0.5)

    def test_nodes_increase_and_edges_bound_them(self):
        grid = gaussian_grid(Interval(-3.2, 4.1, 0.8), (0.3,))
        assert np.all(np.diff(grid.nodes) > 0)
        assert grid.edges[0] <= -3.2
        assert grid.edges[-1] >= 4.1
        per_panel = grid.nodes.reshape(-1, 16)
        assert np.all((per_panel > grid.edges[:-1, None]) & (per_panel < grid.edges[1:, None]))


class TestEdges:
    def test_lattice_of_the_step(self):
        assert panel_edges(Interval(-1.0, 2.0, 0.5), ()).tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0]
        assert panel_edges(Interval(-0.9, 1.1, 1.0), ()).tolist() == [-1.0, 0.0, 1.0, 2.0]
        assert panel_edges(Interval(-0.9, 1.1, 1.0, 0.25), ()).tolist() == [-1.75, -0.75, 0.25, 1.25]

    def test_an_interval_within_one_panel(self):
        assert panel_edges(Interval(0.2, 0.3, 1.0), ()).tolist() == [0.0, 1.0]
        assert panel_edges(Interval(1.0, 1.0, 1.0), ()).tolist() == [1.0, 2.0]

    def test_breakpoints_are_put_in(self):
        edges = panel_edges(Interval(0.0, 2.0, 1.0), (0.3, 1.0, 1.7, -5.0, 9.0, 2.0))
        assert edges.tolist() == [0.0, 0.3, 1.0, 1.7, 2.0]

    def test_slivers_are_left_out(self):
        edges = panel_edges(Interval(0.0, 2.0, 1.0), (1.0 + 1e-14, 0.5, 0.5 + 1e-15))
        assert edges.tolist() == [0.0, 0.5, 1.0, 2.0]

    @pytest.mark.parametrize("kink", [0.0, 0.3, -1.4142135623730951, 3.9])
    def test_a_kink_on_an_edge_costs_nothing(self, kink):
        """E max(x - k, 0) = phi(k) - k (1 - Phi(k))."""
        grid = gaussian_grid(Interval(-16.0, 16.0, 1.0), (kink,))
        value = np.sum(grid.weights * np.maximum(grid.nodes - kink, 0.0))
        with mpmath.workdps(30):
            truth = mpmath.npdf(kink) - kink * mpmath.ncdf(-mpmath.mpf(kink))
        assert abs(value - truth) < 10 * EPS
        without = gaussian_grid(Interval(-16.0, 16.0, 1.0))
        missed = abs(np.sum(without.weights * np.maximum(without.nodes - kink, 0.0)) - truth)
        assert kink == 0.0 or missed > 1e-9


class TestLegendre:
    def test_rule_against_numpy(self):
        nodes, weights = legendre_rule(16)
        expected = np.polynomial.legendre.leggauss(16)
        np.testing.assert_allclose(nodes, expected[0], rtol=0, atol=EPS)
        np.testing.assert_allclose(weights, expected[1], rtol=0, atol=EPS)

    @pytest.mark.parametrize("order", [4, 16])
    def test_coefficients(self, order):
        """Those of a polynomial, from its values at the nodes."""
        coefficients = np.random.default_rng(5).normal(size=order)
        values = np.polynomial.legendre.legval(legendre_rule(order)[0], coefficients)
        np.testing.assert_allclose(legendre_coefficients(order) @ values, coefficients, atol=1e-13)


class TestTruncated:
    @staticmethod
    def _grids(step, breakpoints=(), shift=0.0):
        outer = gaussian_grid(Interval(-10.0, 9.0, step, shift), breakpoints)
        return outer, truncated_grid(Interval(-12.0, 9.5, step, shift), outer, breakpoints)

    @staticmethod
    def _below(grid, values):
        """Integral up to each outer node by its definition: whole panels, and part of the last."""
        order = grid.blocks.shape[1]
        panels = (grid.weights * values).reshape(-1, order).sum(axis=1)
        whole = np.concatenate([[0.0], np.cumsum(panels)])[grid.panels]
        within = values.reshape(-1, order)[grid.panels]
        return whole + np.sum(grid.blocks * within, axis=1)

    @pytest.mark.parametrize("step", [1.0, 2 / 3, 0.5])
    def test_distribution_function(self, step):
        outer, grid = self._grids(step)
        found = self._below(grid, np.ones_like(grid.nodes))
        expected = [0.5 * math.erfc(-x / math.sqrt(2)) for x in outer.nodes]
        np.testing.assert_allclose(found, expected, rtol=0, atol=20 * EPS)

    @pytest.mark.parametrize("shift", [0.0, 0.25])
    def test_exponential_moments(self, shift):
        """int_-inf^u phi(x) e^(a x) dx = e^(a^2/2) Phi(u - a)."""
        outer, grid = self._grids(0.5, shift=shift)
        for a in (-1.5, 0.5, 2.0):
            found = self._below(grid, np.exp(a * grid.nodes))
            expected = [math.exp(a * a / 2) * 0.5 * math.erfc((a - x) / math.sqrt(2)) for x in outer.nodes]
            np.testing.assert_allclose(found, expected, rtol=0, atol=100 * EPS * math.exp(a * a / 2))

    def test_lower_tails_keep_their_digits(self):
        """Running sums start at the low end: relative accuracy also where the integral is 1e-15."""
        outer = gaussian_grid(Interval(-10.0, 0.0, 0.5))
        grid = truncated_grid(Interval(-16.0, 0.0, 0.5), outer, ())
        found = self._below(grid, np.ones_like(grid.nodes))
        low = outer.nodes < -3
        expected = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in outer.nodes[low]])
        np.testing.assert_allclose(found[low], expected, rtol=1e-11)

    def test_polynomials_within_a_panel(self):
        """The part of a panel below a node: exact for polynomials that the nodes determine."""
        order = 16
        outer = gaussian_grid(Interval(0.0, 1.0, 1.0))
        grid = truncated_grid(Interval(0.0, 1.0, 1.0), outer, ())
        density = np.exp(grid.nodes**2 / 2) * math.sqrt(2 * math.pi)  # taken out again
        for k in range(order):
            found = self._below(grid, density * grid.nodes**k)
            np.testing.assert_allclose(found, outer.nodes ** (k + 1) / (k + 1), rtol=0, atol=20 * EPS)

    def test_kinks_on_shared_edges(self):
        """int_-inf^u phi |x - k| dx for u on both sides of the kink."""
        kink = 0.37
        outer, grid = self._grids(1.0, (kink,))
        found = self._below(grid, np.abs(grid.nodes - kink))
        with mpmath.workdps(25):
            for x, value in list(zip(outer.nodes, found, strict=True))[::37]:
                pieces = [-12, *([kink] if x > kink else []), mpmath.mpf(x)]
                truth = mpmath.quad(lambda y: mpmath.npdf(y) * abs(y - kink), pieces)
                assert abs(value - truth) < 50 * EPS


class TestHalfLine:
    def test_nodes_are_multiples_of_the_step(self):
        grid = half_line_grid(Interval(-1.1, 0.9, 0.25))
        assert grid.nodes.tolist() == [-1.25, -1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0]
        assert grid.weights.tolist() == [0.25] * 10

    def test_an_interval_inside_another_has_the_same_nodes(self):
        inner, outer = half_line_grid(Interval(-3.3, 7.1, 0.25)), half_line_grid(Interval(-9.0, 9.0, 0.25))
        assert set(inner.nodes) <= set(outer.nodes)

    @pytest.mark.parametrize("power", [1.0, 2.5])
    def test_gamma_function(self, power):
        """int t**(p-1) e**-t dt = Gamma(p), with t = e**s."""
        grid = half_line_grid(Interval(-60.0, 6.0, 0.25))
        t = np.exp(grid.nodes)
        assert np.sum(grid.weights * t**power * np.exp(-t)) == pytest.approx(math.gamma(power), rel=50 * EPS)

    def test_convergence_is_geometric(self):
        """Halving the step squares the error: int e^(s - e^s) ds = 1 has its singularities at distance pi/2."""
        errors = []
        for step in (2.0, 1.0, 0.5):
            grid = half_line_grid(Interval(-80.0, 6.0, step))
            errors.append(abs(np.sum(grid.weights * np.exp(grid.nodes - np.exp(grid.nodes))) - 1))
        rates = [math.log(errors[k + 1]) / math.log(errors[k]) for k in range(2)]
        assert all(rate > 1.6 for rate in rates)


class TestExponential:
    def test_places_are_multiples_of_the_step(self):
        grid = exponential_grid(Interval(-1.1, 0.9, 0.25))
        assert grid.coordinates.tolist() == [-1.25, -1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0]
        assert grid.nodes == pytest.approx(grid.coordinates - np.exp(-grid.coordinates), abs=1e-15)

    @pytest.mark.parametrize("power", [0.5, 1.0, 2.5])
    def test_gamma_function_on_few_nodes(self, power):
        """int t**(p-1) e**-t dt = Gamma(p), with t = e**s, s = v - e**-v."""
        grid = exponential_grid(Interval(-5.0, 4.4, 0.2))
        t = np.exp(grid.nodes)
        assert grid.nodes.size < 50
        assert np.sum(grid.weights * t**power * np.exp(-t)) == pytest.approx(math.gamma(power), rel=50 * EPS)

    def test_euler_constant(self):
        """int log(t) e**-t dt = -0.5772..., whose integrand is singular at 0."""
        grid = exponential_grid(Interval(-5.0, 4.4, 0.2))
        t = np.exp(grid.nodes)
        assert np.sum(grid.weights * grid.nodes * t * np.exp(-t)) == pytest.approx(
            -np.euler_gamma, rel=50 * EPS
        )


def test_parts_of_a_grid():
    outer = gaussian_grid(Interval(-4.0, 4.0, 1.0))
    grid = truncated_grid(Interval(-4.0, 4.0, 1.0), outer, ())
    part = grid.part(32, 64)
    assert np.array_equal(part.nodes, grid.nodes[32:64])
    assert np.array_equal(part.panels, grid.panels - 2)
    plain = gaussian_grid(Interval(-4.0, 4.0, 1.0)).part(3, 7)
    assert plain.panels is None
    assert plain.weights.size == 4
