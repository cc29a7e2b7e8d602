"""Corrections for finite sizes and step noise, against published values, closed forms and simulated numbers."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from theorykit import signal_recovery as sr
from theorykit.errors import ConvergenceError
from theorykit.signal_recovery.programs import parameters, program

PLAIN = sr.Model(theta=1, fraction=0.1)
SPARSE = sr.Model(theta=1.5, fraction=0.1)


def near(found, text: str) -> bool:
    unit = 10.0 ** -len(text.split(".")[1])
    return abs(found - float(text)) <= unit + found.error and found.error <= 1e-12 * abs(found)


def test_corrections():
    found = program("finite_size", ("objective_correction", "moment_correction"))
    values = found.values(parameters(PLAIN, rho=0.5))
    assert near(values["objective_correction"], "-0.070702023719742")
    assert near(values["moment_correction"], "-23.8164571533678")
    assert near(sr.finite_size_slope(PLAIN, 0.5, tokens=500, dimension=20), "0.495052903255062")


def test_gradient_noise():
    for rho, text in ((1, "247.778612133644"), (-1, "56.7170970738292")):
        assert near(sr.gradient_noise(SPARSE, rho).parallel, text)
        assert near(sr.gradient_noise(SPARSE, rho).perpendicular, text)
    assert near(sr.gradient_noise(SPARSE.replace(kappa=0.3), 1).perpendicular, "2740.22595589099")
    found = sr.gradient_noise(sr.Model(theta=1, fraction=0.5, beta=0.4, kappa=1), 0.4)
    assert near(found.parallel, "5.5389747242572")
    assert near(found.perpendicular, "3.9688414293493")


def pole_noise(model: sr.Model, sign: int) -> float:
    """The variance at a pole, written out by hand."""
    b, t, p, k = model.beta, model.theta, model.fraction, model.kappa
    u = math.exp(sign * b * t)
    n = p * u + 1 - p
    w = p * u / n
    f = b + t * sign * w
    m2 = math.exp(b * b) * (p * u * u + 1 - p) / n**2
    c0 = 1 - f * f - k * m2
    total = k * m2**2
    for share, c, scale in ((p, 1, u / n), (1 - p, 0, 1 / n)):
        first, second = c * t * sign + 2 * b, c * t * sign + 3 * b
        total += share * scale**2 * math.exp(b * b) * ((c0 + f * first) ** 2 + f * f)
        total += share * 2 * k * scale**3 * math.exp(3 * b * b) * (c0 + f * second)
        total += share * k * k * scale**4 * math.exp(6 * b * b)
    return 4 * b * b * total


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kappa", [0.0, 0.4, 2.0])
def test_noise_at_the_poles_by_hand(sign, kappa):
    model = sr.Model(theta=1.2, fraction=0.3, beta=0.6, kappa=kappa)
    found = sr.gradient_noise(model, sign)
    assert found.parallel == pytest.approx(pole_noise(model, sign), rel=1e-12)
    assert found.perpendicular == pytest.approx(pole_noise(model, sign), rel=1e-12)


def test_noise_of_arrays():
    found = sr.gradient_noise(SPARSE, np.array([[-1.0, 0.2, 1.0]]))
    assert found.parallel.shape == found.perpendicular.shape == (1, 3)
    assert found.parallel[0, 1] == float(sr.gradient_noise(SPARSE, 0.2).parallel)


@pytest.mark.parametrize(
    ("model", "rho", "sizes", "simulated", "error"),
    [
        (sr.Model(theta=1.5, fraction=0.3), -0.5, (1000, 1000), -0.3484, 0.0023),
        (sr.Model(theta=2, fraction=0.5, beta=0.7), 0.8, (400, 400), 5.0926, 0.0021),
    ],
)
def test_slope_of_recorded_simulations(model, rho, sizes, simulated, error):
    found = sr.finite_size_slope(model, rho, *sizes)
    assert abs(found - simulated) < 4 * error


def test_noise_of_a_recorded_simulation():
    model = sr.Model(theta=1, fraction=0.5, beta=0.4, kappa=1.999)
    assert abs(sr.gradient_noise(model, -1).perpendicular - 5.1023) < 4 * 0.0085


def test_slope_tends_to_the_limit():
    rho = 0.3
    limit = sr.slope(PLAIN, rho)
    gaps = [sr.finite_size_slope(PLAIN, rho, tokens, 2) - limit for tokens in (10**4, 10**6)]
    assert gaps[0] == pytest.approx(100 * gaps[1], rel=0.02)
    assert abs(gaps[1]) < 1e-5


@pytest.mark.parametrize(
    ("model", "start", "times", "step", "sizes", "expected"),
    [
        (sr.Model(0.5, 0.3), -0.95, [2, 4, 6, 8], 0.002, (1000, 100), [-0.8937, -0.7995, -0.6318, -0.3092]),
        (
            sr.Model(0.5, 0.3, 0.5),
            -0.2,
            [2.5, 5, 7.5, 10],
            0.01,
            (1000, 1000),
            [0.1881, 0.5551, 0.7781, 0.8699],
        ),
        (sr.Model(3, 0.3), -0.8, [10], 0.005, (4000, 20), [-0.9956]),
        (sr.Model(1, 0.5, 0.5), 0.9, [100], 0.02, (1000, 300), [1 - 0.013235]),
    ],
)
def test_corrected_trajectories(model, start, times, step, sizes, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sr.trajectory(model, start, times, step, *sizes).rho.values
    assert found == pytest.approx(expected, abs=5.1e-5)


def test_corrected_trajectory_without_noise_is_the_limit():
    times = [0.5, 1.0, 2.0]
    limit = sr.trajectory(PLAIN, 0.1, times).rho.values
    found = sr.trajectory(PLAIN, 0.1, times, 1e-9, 10**7, 2).rho.values
    assert np.abs(found - limit).max() < 1e-5


@pytest.mark.parametrize(
    ("model", "sizes", "step", "pole", "gap"),
    [
        (sr.Model(1.5, 0.3, 0.5), (1000, 10), 0.05, 1, 0.000743),
        (sr.Model(3, 0.3), (2000, 10), 0.01, -1, 0.00386),
        (sr.Model(1, 0.5, 0.5), (1000, 300), 0.02, 1, 0.013407),
    ],
)
def test_stationary_law(model, sizes, step, pole, gap):
    # the recorded values use kappa = d/L where these use (d - 1)/L
    assert sr.stationary(model, *sizes, step, pole).gap == pytest.approx(gap, rel=4e-3)


def test_splitting_at_the_separatrix():
    model = sr.Model(3, 0.3)
    found = sr.splitting(model, -0.57, 4000, 20, 0.005)
    assert found.centre == pytest.approx(-0.5709, abs=5.1e-5)
    assert found.width == pytest.approx(0.0055, abs=5.1e-5)
    for steps, probability in ((-2, 0.977), (-1, 0.841), (0, 0.5), (1, 0.159), (2, 0.023)):
        start = found.centre + steps * found.width
        assert sr.splitting(model, start, 4000, 20, 0.005).opposed == pytest.approx(probability, abs=5.1e-4)
    with pytest.raises(ValueError, match="no separatrix"):
        sr.splitting(sr.Model(1, 0.3), 0.0, 1000, 20, 0.005)


def test_limits_that_are_not_to_be_trusted_say_so():
    with pytest.warns(sr.LimitWarning, match="expansion in 1/L is not to be trusted"):
        sr.finite_size_slope(sr.Model(1, 0.1, 2.0), 0.2, 10_000, 100)
    with pytest.warns(sr.LimitWarning, match="the limit itself does not hold"):
        sr.finite_size_slope(sr.Model(1, 0.1, 5.0), 0.2, 1000, 100)
    with pytest.raises(ConvergenceError, match="beyond the range of a double"):
        sr.finite_size_slope(sr.Model(1, 0.5, 20.0), 0.2, 1000, 100)


@pytest.mark.parametrize(
    ("model", "sizes", "message"),
    [
        (PLAIN.replace(fraction=0.123), (500, 20), "fraction [*] tokens must be an integer"),
        (PLAIN.replace(kappa=0.5), (500, 20), "kappa must be 0 or .* 0.038"),
        (PLAIN, (500, 1), "dimension must be an integer"),
        (PLAIN, (500.5, 20), "tokens must be an integer"),
        (PLAIN.replace(kernel="cosh(t)"), (500, 20), "exponential kernel only"),
    ],
)
def test_sizes_that_do_not_fit(model, sizes, message):
    with pytest.raises(ValueError, match=message):
        sr.finite_size_slope(model, 0.2, *sizes)


def test_kappa_of_the_sizes_is_accepted():
    sizes = (500, 21)
    assert sr.finite_size_slope(PLAIN.replace(kappa=0.04), 0.2, *sizes) == sr.finite_size_slope(
        PLAIN, 0.2, *sizes
    )


def test_noise_of_other_kernels_is_refused():
    with pytest.raises(ValueError, match="exponential kernel only"):
        sr.gradient_noise(PLAIN.replace(kernel="relu(t)"), 0.1)
