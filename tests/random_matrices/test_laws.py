"""Limit laws of the engine against closed forms, cubic equations solved to 30 digits, and simulation."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from theorykit import random_matrices as rm
from theorykit.errors import ConvergenceError

S, W = rm.Wigner("S"), rm.Wigner("W")
X = rm.Gaussian("X", rows="p", columns="n")
G, H = rm.Gaussian("G"), rm.Gaussian("H")
Y = rm.Gaussian("Y", rows="p", columns="n")
ONE = rm.identity("n")
Z = np.array([0.3, 1.5, 2.5, -0.7 + 0.1j, 3j, 20.0 - 0.3j])


def _root(coefficients, z, known):
    """The root of a polynomial, to 30 digits, that is next to a value; the others are far away."""
    with mpmath.workdps(30):
        roots = mpmath.polyroots([mpmath.mpmathify(c) for c in coefficients], maxsteps=500, extraprec=200)
    roots.sort(key=lambda r: abs(complex(r) - known))
    # the right one by the rules of a Stieltjes transform, not by being close
    if z.imag > 0:
        assert complex(roots[0]).imag > 0
    return complex(roots[0])


def _semicircle(z):
    return (-z + np.sqrt(z - 2 + 0j) * np.sqrt(z + 2 + 0j)) / 2


def test_semicircle():
    expected = _semicircle(Z.astype(complex))
    expected[:3] = np.where(expected[:3].imag < 0, expected[:3].conj(), expected[:3])
    assert rm.stieltjes(S, Z) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0])
def test_marchenko_pastur_on_both_sides(ratio):
    """z m^2 + (z + 1 - c) m + 1 = 0 for the n-side; the p-side has the same nonzero spectrum."""
    z = np.array([0.7 + 0.2j, 2.0, -1.0 + 0.01j, 5.0 + 3j])
    m = rm.stieltjes(X.T @ X, z, ratios={"p": ratio})
    expected = [_root([w, w + 1 - ratio, 1], w, v) for w, v in zip(z.astype(complex), m, strict=True)]
    assert m == pytest.approx(np.array(expected), abs=1e-12)
    other = rm.stieltjes(X @ X.T, z, ratios={"p": ratio})
    assert ratio * other == pytest.approx(m + (1 - ratio) / z, abs=1e-12)


def test_atom_at_zero_has_the_missing_rank_and_the_rest_the_other_mass():
    height = 1e-5j
    mass = (-height * rm.stieltjes(X.T @ X, height, ratios={"p": 0.4})).real
    assert mass == pytest.approx(0.6, abs=1e-4)
    low, high = (1 - math.sqrt(0.4)) ** 2, (1 + math.sqrt(0.4)) ** 2
    angle = (np.arange(200) + 0.5) * np.pi / 200
    grid = 0.5 * (low + high) - 0.5 * (high - low) * np.cos(angle)
    weights = 0.5 * (high - low) * np.sin(angle) * np.pi / 200
    density = rm.density(X.T @ X, grid, ratios={"p": 0.4})
    assert density @ weights == pytest.approx(0.4, abs=1e-4)
    assert density == pytest.approx(np.sqrt((grid - low) * (high - grid)) / (2 * np.pi * grid), abs=1e-10)


def test_free_convolution_of_semicircle_and_marchenko_pastur():
    """1/G + G + c/(1 - G) = z for G = -m: the R-transforms add."""
    ratio = 0.6
    m = rm.stieltjes(S + X.T @ X, Z, ratios={"p": ratio})
    # (1 - G)(1 + G^2 - z G) + c G = 0 in powers of G
    expected = [
        -_root([-1, 1 + w, ratio - w - 1, 1], -w, -v) for w, v in zip(Z.astype(complex), m, strict=True)
    ]
    assert m == pytest.approx(np.array(expected), abs=1e-12)
    assert np.all(m[:5].imag > -1e-14)


def test_products_of_wishart_matrices_have_fuss_catalan_moments():
    product = G @ H @ H.T @ G.T
    radius, count = 30.0, 64  # the spectrum ends at 27/4
    angles = 2 * np.pi * (np.arange(count) + 0.5) / count
    z = radius * np.exp(1j * angles)
    m = rm.stieltjes(product, z)
    for k in range(1, 6):
        moment = -np.mean(z ** (k + 1) * m).real
        assert moment == pytest.approx(math.comb(3 * k, k) / (2 * k + 1), rel=1e-11)


def test_information_plus_noise():
    """(a + G)(a + G)^T: m (a^2/(1 + m) - z (1 + m)) = 1, at aspect ratio 1."""
    a = 1.3
    z = np.array([0.5, 2.0 + 0.3j, -1.0 + 0.2j, 9.5])
    m = rm.stieltjes((a * ONE + G) @ (a * ONE + G).T, z)
    # m a^2 - z m (1 + m)^2 = 1 + m
    expected = [
        _root([-w, -2 * w, a * a - w - 1, -1], w, v) for w, v in zip(z.astype(complex), m, strict=True)
    ]
    assert m == pytest.approx(np.array(expected), abs=1e-12)


@pytest.mark.parametrize("strength", [1.5, 3.0, -2.0])
def test_a_spike_has_its_outlier_and_its_overlap(strength):
    """S + t u u^T: eigenvalue t + 1/t, squared overlap of its eigenvector with u 1 - 1/t^2."""
    u = rm.Vector("u", "n")
    spiked = S + strength * rm.outer(u, u)
    outlier = strength + 1 / strength
    assert rm.outliers(spiked) == pytest.approx((outlier,), abs=1e-10)
    around = outlier + 0.05 * np.exp(2j * np.pi * (np.arange(32) + 0.5) / 32)
    form = rm.quadratic_form(spiked, u, u, around)
    assert -np.mean(form * (around - outlier)).real == pytest.approx(1 - strength**-2, abs=1e-10)


def test_no_outlier_below_the_threshold_and_two_at_one_place():
    u, v = rm.Vector("u"), rm.Vector("v")
    assert rm.outliers(S + 0.9 * rm.outer(u, u)) == ()
    both = S + 2 * rm.outer(u, u) + 2 * rm.outer(v, v)
    assert rm.outliers(both) == pytest.approx((2.5, 2.5), abs=1e-6)
    apart = rm.outliers(both, overlaps={("u", "v"): 0.5})  # strengths 2 (1 +- 1/2)
    assert apart == pytest.approx((3 + 1 / 3,), abs=1e-10)


def test_spike_of_a_rectangular_matrix():
    """X + t a b^T: squared singular value (1 + t^2)(c + t^2)/t^2 above t^4 = c."""
    a, b = rm.Vector("a", "p"), rm.Vector("b", "n")
    ratio, t = 0.5, 1.4
    spiked = X + t * rm.outer(a, b)
    found = rm.outliers(spiked.T @ spiked, ratios={"p": ratio})
    assert found == pytest.approx(((1 + t * t) * (ratio + t * t) / t**2,), abs=1e-9)


def test_a_rational_function_of_an_anticommutator_against_simulation():
    """Mass in 12 cells of the spectrum of (0.3 + (SW + WS)^2)^-1, one draw with n = 1000."""
    B = S @ W + W @ S
    expr = rm.inverse(0.3 * ONE + B @ B)
    rng, n = np.random.default_rng(20), 1000
    s, w = ((m + m.T) / math.sqrt(2 * n) for m in rng.standard_normal((2, n, n)))
    values = 1 / (0.3 + np.linalg.eigvalsh(s @ w + w @ s) ** 2)
    edges = np.linspace(0.12, 3.2, 13)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = 0.5 * np.diff(edges)[:, None]
    grid = 0.5 * (edges[1:] + edges[:-1])[:, None] + half * nodes
    mass = (rm.density(expr, grid) * half * weights).sum(axis=1)
    counted = np.histogram(values, edges)[0] / n
    # eigenvalues are rigid: counts fluctuate by a few, not by their square root
    assert counted == pytest.approx(mass, abs=8 / n)


def test_an_inverse_of_a_random_matrix_inside_a_product():
    """X^T (1 + X X^T)^-1 X has the eigenvalues t/(1 + t) of t = X^T X."""
    ratio, z = 0.5, np.array([0.3 + 0.1j, 0.6 + 0.02j])
    m = rm.stieltjes(X.T @ rm.inverse(rm.identity("p") + X @ X.T) @ X, z, ratios={"p": ratio})
    # 1/(t/(1+t) - z) = (1/(1-z)) (1 + 1/((1-z) t - z)); with y = z/(1-z)
    y = z / (1 - z)
    inner = rm.stieltjes(X.T @ X, y, ratios={"p": ratio})
    assert m == pytest.approx((1 + inner / (1 - z)) / (1 - z), abs=1e-11)


def test_shape_lower_half_plane_and_atoms():
    z = np.array([[1j, 2j], [1 - 1j, 3.0]])
    found = rm.stieltjes(S, z)
    assert found.shape == z.shape
    assert found[1, 0] == pytest.approx(np.conj(rm.stieltjes(S, 1 + 1j)), abs=1e-14)
    assert isinstance(rm.stieltjes(S, 1j), complex)
    with pytest.raises(ConvergenceError, match="Dyson equations at z = 0j"):
        rm.stieltjes(X.T @ X, 0.0, ratios={"p": 0.4})


def test_a_point_does_not_depend_on_its_neighbours():
    z = np.linspace(-2.2, 2.2, 23) + 0.01j
    together = rm.stieltjes(S @ S, z)
    assert rm.stieltjes(S @ S, z[7]) == together[7]


def test_squared_wishart_has_the_square_of_the_marchenko_pastur_law():
    """Its pencil holds constants of either sign beside the random entries."""
    grid = np.array([0.1, 1.825, 7.0])
    root = np.sqrt(grid)
    expected = np.sqrt((4 - root) / root) / (4 * np.pi * root)
    density = rm.density(G.T @ G @ G.T @ G, grid)
    assert density == pytest.approx(expected, rel=1e-8)


def test_f_matrix_has_the_law_of_wachter():
    """Its inverse exists for p < n only, which the check of the pencil has to find out by itself."""
    y, z = 0.5, 0.5 + 0.2j
    width = math.sqrt(2 * y - y * y)
    low, high = ((1 - width) / (1 - y)) ** 2, ((1 + width) / (1 - y)) ** 2

    def weight(x):
        return (1 - y) * mpmath.sqrt((high - x) * (x - low)) / (2 * mpmath.pi * x * (y + y * x))

    bulk = complex(mpmath.quad(lambda x: weight(x) / (x - z), [low, 0.5, 2, high]))
    m = rm.stieltjes(X.T @ rm.inverse(Y @ Y.T) @ X, z, ratios={"p": y})
    assert m == pytest.approx(y * bulk - (1 - y) / z, abs=1e-10)


def test_the_inverse_of_a_singular_matrix_is_refused():
    u = rm.Vector("u", "n")
    with pytest.raises(ValueError, match="inverse of a singular matrix"):
        rm.stieltjes(rm.inverse(rm.outer(u, u)), 1.0j)
