"""Spectrum of the features, and the comparison with linear regression at equal degrees of freedom."""

from __future__ import annotations

import numpy as np
import pytest

from theorykit import interpolation as ip
from theorykit.errors import ConvergenceError


def _model(formula="tanh(x)", ratio=0.5, **rest):
    return ip.Attention(formula, ratio=ratio, ridge=1.0, **rest)


@pytest.mark.parametrize(("ratio", "low"), [(0.5, 1e-4), (2.0, 1e-9)])
def test_density_and_atom_have_total_mass_one_and_the_first_moment_of_the_features(ratio, low):
    model = _model(ratio=ratio)
    edges = np.geomspace(low, 60.0, 141)
    nodes, weights = np.polynomial.legendre.leggauss(5)
    half = 0.5 * np.diff(np.log(edges))[:, None]
    points = np.exp(0.5 * (np.log(edges[1:]) + np.log(edges[:-1]))[:, None] + half * nodes).ravel()
    found = ip.density(model, points)
    measure = (half * weights).ravel() * points
    mass = float(found.density.values @ measure) + float(found.atom_mass)
    assert mass == pytest.approx(1.0, abs=2e-3)
    assert float(found.density.values @ (measure * points)) == pytest.approx(
        float(ip.solve(model).feature_energy), rel=2e-3
    )
    assert float(found.atom_location) == 0.0
    assert float(found.atom_mass) == max(0.0, 1 - ratio)


def test_density_of_k_equal_to_one_is_marchenko_pastur():
    """f = x with the diagonal kept at a large multiple of the identity: K close to d, features close to d X."""
    model = _model("x", diagonal=1e4)
    grid = np.linspace(0.2, 2.6, 7)
    found = ip.density(model, 1e8 * grid).density.values * 1e8
    low, high = (1 - 0.5**0.5) ** 2, (1 + 0.5**0.5) ** 2
    expected = np.sqrt(np.maximum((grid - low) * (high - grid), 0)) / (2 * np.pi * grid)
    assert found == pytest.approx(expected, abs=2e-3)


def test_density_does_not_exist_below_zero_or_at_a_divergence():
    found = ip.density(_model(), np.array([-1.0, 0.0, 1e6]))
    assert found.density.values.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="grid must not contain 0"):
        ip.density(_model(ratio=2.0), [0.0, 1.0])
    with pytest.raises(TypeError, match="grid must be a one-dimensional array"):
        ip.density(_model(), 1.0)
    with pytest.raises(TypeError, match="model must be an Attention"):
        ip.density("tanh(x)", [1.0])


@pytest.mark.parametrize(
    ("model", "expected", "accuracy"),
    [
        (_model(signal=2**0.5, aligned=1), 200.229285426, 1e-9),
        (_model(signal=1), 27.77, 5e-4),
        (_model("sin(x)", ratio=1, signal=1, aligned=1), 25.08, 5e-4),
        (_model("x", signal=2**0.5, aligned=1), 545.1, 5e-4),
    ],
)
def test_outliers(model, expected, accuracy):
    assert ip.outliers(model) == pytest.approx((expected,), rel=accuracy)


def test_no_outlier_without_signal_weights_and_second_coefficient():
    assert ip.outliers(_model()) == ()


def test_equal_degrees_of_freedom():
    found = ip.compare(_model(signal=1, aligned=1), degrees_of_freedom=0.2)
    assert found.ridge_attention == pytest.approx(0.521290597132955334, abs=1e-13)
    assert found.error_attention == pytest.approx(0.381039425908499326, abs=1e-13)
    assert found.ridge_regression == pytest.approx(1.2, abs=1e-13)
    assert found.error_regression == pytest.approx(0.411712511091393079, abs=1e-12)
    assert abs(found.ridge_attention - 0.521290597132955334) < 2 * found.ridge_attention.error + 1e-15
    scaled = ip.compare(_model("5*tanh(x)", signal=1, aligned=1), degrees_of_freedom=0.2)
    assert scaled.error_attention == pytest.approx(float(found.error_attention), abs=1e-12)
    assert scaled.ridge_attention == pytest.approx(25 * float(found.ridge_attention), rel=1e-12)


@pytest.mark.parametrize("freedom", [0.0, 0.5, 0.7, -0.1, float("nan")])
def test_degrees_of_freedom_out_of_range(freedom):
    with pytest.raises(ValueError, match="degrees_of_freedom must be a real number in"):
        ip.compare(_model(), degrees_of_freedom=freedom)


def test_density_of_many_points_does_not_depend_on_their_number():
    grid = np.linspace(0.5, 5, 31)
    many = ip.density(_model(), grid).density.values
    assert ip.density(_model(), grid[5:6]).density.values[0] == many[5]


def test_an_error_names_the_point():
    with pytest.raises(ConvergenceError, match=r"spectrum of Attention.*not reached"):
        from theorykit.interpolation import spectrum

        # the atom at zero: the traces diverge there
        spectrum._solved(_model(), np.array([0.0]))
