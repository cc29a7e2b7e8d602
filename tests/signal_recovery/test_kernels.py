"""Weights other than the exponential: published values, brute force, fixed points by a search that misses none."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from theorykit import signal_recovery as sr
from theorykit.derivations.evaluate import evaluate
from theorykit.errors import ConvergenceError, FormulaError

RELU = sr.Model(theta=1.5, fraction=0.1, kernel="relu(t)")
EVEN = sr.Model(theta=1.2, fraction=0.2, beta=0.9, kernel="cosh(t)")


def test_published_values():
    assert abs(sr.objective(RELU, 0.3) - 1.70451046670447) < 1e-14
    assert abs(sr.slope(RELU, 0.3) - 0.513210446695497) < 1e-14
    found = sr.objective(sr.Model(theta=1.2, fraction=0.2, kernel="sigmoid(t)"), 0.4)
    assert abs(found - 0.319548406571652) < 1e-14


def test_the_exponential_as_a_formula_is_the_softmax():
    assert sr.Model(theta=1, fraction=0.1, kernel="exp(t)") == sr.Model(theta=1, fraction=0.1)
    assert sr.Model(theta=1, fraction=0.1, kernel=" exp ").kernel == "exp"


@pytest.mark.parametrize("kappa", [0.0, 0.6])
def test_the_general_record_agrees_with_the_closed_form(kappa):
    model = sr.Model(theta=1.3, fraction=0.3, beta=0.8, kappa=kappa)
    twice = model.replace(kernel="2*exp(t)")
    for rho in (-0.9, 0.0, 0.4):
        assert sr.objective(twice, rho) == pytest.approx(float(sr.objective(model, rho)), rel=1e-12)
        assert sr.slope(twice, rho) == pytest.approx(float(sr.slope(model, rho)), rel=1e-12)
        assert sr.attention_mass(twice, rho) == pytest.approx(float(sr.attention_mass(model, rho)), rel=1e-12)
    found = sr.fixed_points(twice)
    assert [float(p.rho) for p in found] == pytest.approx(
        [float(p.rho) for p in sr.fixed_points(model)], abs=1e-11
    )


def test_brute_force_for_softplus():
    model = sr.Model(theta=1.1, fraction=0.25, beta=1.3, kappa=0.4, kernel="softplus(t)")

    def weight(t):
        return mpmath.log(1 + mpmath.exp(model.beta * t))

    def mean(f):
        return mpmath.quad(lambda g: mpmath.npdf(g) * f(g), [-12, -4, 0, 4, 12])

    with mpmath.workdps(25):
        shift = mpmath.mpf(model.theta) * mpmath.mpf("0.35")
        p = mpmath.mpf(model.fraction)
        total = p * mean(lambda g: weight(shift + g)) + (1 - p) * mean(weight)
        mass = p * mean(lambda g: weight(shift + g)) / total
        score = p * mean(lambda g: (shift + g) * weight(shift + g)) + (1 - p) * mean(lambda g: g * weight(g))
        square = p * mean(lambda g: weight(shift + g) ** 2) + (1 - p) * mean(lambda g: weight(g) ** 2)
        value = (score / total) ** 2 + (mpmath.mpf(model.theta) * mass) ** 2 * (1 - mpmath.mpf("0.35") ** 2)
        value += mpmath.mpf(model.kappa) * square / total**2
    found = sr.objective(model, 0.35)
    assert abs(found - value) <= found.error + 1e-13
    assert abs(sr.attention_mass(model, 0.35) - mass) < 1e-13


def test_even_weights_leave_the_equator_a_fixed_point():
    t, p, b = EVEN.theta, EVEN.fraction, EVEN.beta
    below, middle, above = sr.fixed_points(EVEN)
    assert abs(middle.rho) <= middle.rho.error < 1e-10
    assert middle.eigenvalue == pytest.approx(
        2 * p * p * b * b * t * t * ((1 - p) * t * t + b * b + 2), rel=1e-9
    )
    assert (below.stable, middle.stable, above.stable) == (True, False, True)
    found = sr.basin(EVEN, 7)
    assert found.aligned == pytest.approx(0.5, abs=1e-9)
    assert found.opposed == pytest.approx(0.5, abs=1e-9)
    assert abs(sr.slope(EVEN, 0)) < 1e-14


def test_even_weights_by_hand():
    t, p, b = EVEN.theta, EVEN.fraction, EVEN.beta
    for rho in (-0.8, 0.3, 1.0):
        c = math.cosh(b * t * rho)
        w, tanh = p * c / (p * c + 1 - p), math.tanh(b * t * rho)
        value = w * w * ((b * tanh) ** 2 + 2 * t * rho * b * tanh + t * t)
        assert sr.objective(EVEN, rho) == pytest.approx(value, rel=1e-13)


def test_a_small_change_of_the_kernel_moves_the_separatrix_a_little():
    model = sr.Model(theta=3, fraction=0.3)
    found = sr.separatrix(model.replace(kernel="exp(t)*(1 + 1/100000*t**2)"))
    assert found == pytest.approx(float(sr.separatrix(model)), abs=1e-5)
    assert found != pytest.approx(float(sr.separatrix(model)), abs=1e-9)


def test_times_and_trajectories():
    time = sr.time_to(EVEN, 0.2, 0.9)
    found = sr.trajectory(EVEN, [0.0, 0.2, -0.2, 1.0], [0.0, time]).rho.values
    assert found[:, 1] == pytest.approx([0.0, 0.9, -0.9, 1.0], abs=1e-9)


def test_arrays_are_accurate():
    rho = np.linspace(-1, 1, 101)
    found = sr.slope(RELU, rho)
    for k in (0, 17, 64, 100):
        assert abs(found[k] - sr.slope(RELU, rho[k])) < 1e-10
    assert sr.drift(RELU, rho.reshape(101, 1)).shape == (101, 1)


def test_the_derived_record_in_many_digits():
    from theorykit import derivations

    record = derivations.get("signal_recovery.kernel", kernel="sigmoid(t)", proportional=True).equations
    point = {
        "theta": "1.2",
        "fraction": "0.2",
        "noise_fraction": "0.8",
        "beta": "0.7",
        "kappa": "0.3",
        "rho": "0.4",
    }
    exact = evaluate(record.observables["slope"], point, 20)
    model = sr.Model(theta=1.2, fraction=0.2, beta=0.7, kappa=0.3, kernel="sigmoid(t)")
    assert abs(sr.slope(model, 0.4) - exact) < 1e-14


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        ("t", ValueError, "kernel must be finite and not negative .* ill-posed"),
        ("tanh(t)", ValueError, "not negative"),
        ("1", ValueError, "kernel must depend on t"),
        ("0*t", ValueError, "kernel must depend on t"),
        ("log(t)", ValueError, "kernel must be finite"),
        ("exp(x)", FormulaError, "x"),
        ("__import__('os')", FormulaError, "__import__"),
    ],
)
def test_kernels_that_make_no_model(kernel, error, message):
    with pytest.raises(error, match=message):
        sr.Model(theta=1, fraction=0.3, kernel=kernel)


def test_a_kernel_that_grows_too_fast_is_an_error():
    with pytest.raises(ConvergenceError):
        sr.objective(sr.Model(theta=1, fraction=0.3, kernel="exp(t**2)"), 0.1)
