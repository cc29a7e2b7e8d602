"""Trajectories and times of passage against other integrators, and starts and times at the edge of what is allowed."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

from theorykit import signal_recovery as sr

TRAP = sr.Model(theta=3, fraction=0.3)
MODELS = [
    TRAP,
    sr.Model(theta=1.5, fraction=0.1),
    sr.Model(theta=1, fraction=0.3, beta=0.5, kappa=4.0),
    sr.Model(theta=2, fraction=0.5, beta=0.7, kappa=0.7),
]


def slope_by_hand(model: sr.Model, rho, lib=np):
    """J' from the mixture itself: u = e^(beta theta rho), in any number type."""
    b, t, p, k = model.beta, model.theta, model.fraction, model.kappa
    u = lib.exp(b * t * rho)
    n = p * u + 1 - p
    w = p * u / n
    h = 1 + t * (1 - w) * (b * rho + t * w) + k * math.exp(b * b) * (1 - w) * (u - 1) / n
    return 2 * b * t * w * h


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_slope_in_forty_digits(model):
    with mpmath.workdps(40):
        for rho in (-1.0, -0.6, -1e-9, 0.0, 0.3, 1.0):
            exact = slope_by_hand(model, mpmath.mpf(rho), mpmath)
            assert abs(sr.slope(model, rho) - exact) <= sr.slope(model, rho).error


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_trajectories_agree_with_dop853(model):
    starts, times = np.array([-0.97, -0.3, 0.0, 0.4]), np.array([0.0, 0.4, 1.5, 4.0])
    found = sr.trajectory(model, starts, times)
    other = solve_ivp(lambda _, r: (1 - r * r) * slope_by_hand(model, r), (0, 4.0), starts, "DOP853", times,
                      rtol=1e-12, atol=1e-14)  # fmt: skip
    assert found.rho.dims == ("start", "time")
    assert np.abs(found.rho.values - other.y).max() < 1e-9


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_trajectories_agree_with_times_of_passage(model):
    start = 0.05
    for end in (0.3, 0.9, 1 - 1e-7):
        time = sr.time_to(model, start, end)
        assert sr.trajectory(model, start, [time]).rho.item() == pytest.approx(end, abs=1e-9)
        assert time.error < 1e-11 * time


def test_time_against_adaptive_quadrature():
    value = sr.time_to(TRAP, -0.6, -0.9)
    other, error = quad(
        lambda r: 1 / ((1 - r * r) * slope_by_hand(TRAP, r)), -0.6, -0.9, epsabs=0, epsrel=1e-12
    )
    assert abs(value - other) <= value.error + error


def test_time_is_additive_and_grows_like_the_logarithm_of_the_distance():
    whole = sr.time_to(TRAP, 0.0, 1 - 1e-10)
    parts = sr.time_to(TRAP, 0.0, 0.7) + sr.time_to(TRAP, 0.7, 1 - 1e-10)
    assert whole == pytest.approx(parts, rel=1e-13)
    step = sr.time_to(TRAP, 0.0, 1 - 1e-12) - whole
    assert step == pytest.approx(math.log(100) / (2 * sr.slope(TRAP, 1)), rel=1e-4)


def test_escape_from_the_equator_is_ballistic():
    rate = sr.slope(TRAP, 0)
    assert sr.trajectory(TRAP, 1e-4, [1e-4]).rho.item() == pytest.approx(1e-4 + 1e-4 * rate, rel=2e-3)


def test_starts_on_fixed_points_stay():
    line = float(sr.separatrix(TRAP))
    found = sr.trajectory(TRAP, [-1.0, line, 1.0], [0.0, 1.0, 1000.0]).rho.values
    assert np.array_equal(found, np.repeat([[-1.0], [line], [1.0]], 3, axis=1))


def test_starts_beside_the_separatrix_part():
    line = float(sr.separatrix(TRAP))
    found = sr.trajectory(TRAP, [line - 1e-9, line + 1e-9], [0.0, 60.0]).rho.values
    assert found[:, -1] == pytest.approx([-1, 1], abs=1e-6)


def test_a_single_start_has_one_axis():
    found = sr.trajectory(TRAP, 0.0, 2.0)
    assert found.rho.dims == ("time",)
    assert found.rho0.item() == 0.0


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (0.0, 1.0, "1.0 is a fixed point"),
        (-1.0, 0.5, "-1.0 is a fixed point"),
        (-0.9, 0.5, "is a fixed point of the flow"),
        (0.5, 0.2, "must be ahead of rho0 = 0.5"),
        (-0.9, -0.7, "the alignment decreases there"),
        (1.5, 0.2, r"rho0 must be a real number in \[-1, 1\], got 1.5"),
        (0.5, math.nan, "rho1 must be a real number"),
    ],
)
def test_times_that_do_not_exist(start, end, message):
    with pytest.raises(ValueError, match=message):
        sr.time_to(TRAP, start, end)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((1.1, [1.0]), ValueError, "rho0 must be a real number in"),
        (([0.0, -2.0], [1.0]), ValueError, r"rho0 must be in \[-1, 1\], got -2.0"),
        ((0.0, [-1.0]), ValueError, "times must be finite and not negative, got -1.0"),
        ((0.0, [2.0, 1.0]), ValueError, "times must not decrease, got 2.0 before 1.0"),
        ((0.0, [math.inf]), ValueError, "times must be finite"),
        ((0.0, []), ValueError, "at least one time"),
        ((0.0, "soon"), TypeError, "times must be real numbers"),
        (("up", [1.0]), TypeError, "rho0 must be a real number"),
        ((np.zeros((2, 2)), [1.0]), ValueError, "one-dimensional"),
        ((0.0, [1.0], 0.1), ValueError, "all three or not at all"),
    ],
)
def test_bad_requests(arguments, error, message):
    with pytest.raises(error, match=message):
        sr.trajectory(TRAP, *arguments)
