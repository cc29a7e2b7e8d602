"""Near-degenerate parameters, bad input, records, curves, and what a warm process imports."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys

import mpmath
import numpy as np
import pytest

import theorykit as tk
from theorykit import signal_recovery as sr
from theorykit.theory import resolve

CORNERS = [
    sr.Model(theta=50, fraction=1e-12, beta=20),
    sr.Model(theta=50, fraction=1 - 1e-12, beta=20),
    sr.Model(theta=50, fraction=0.5, beta=20, kappa=1),
    sr.Model(theta=50, fraction=0.8, beta=20, kappa=1e-3),
    sr.Model(theta=0.5, fraction=1 - 1e-12),
    sr.Model(theta=3, fraction=1e-12, kappa=2),
    sr.Model(theta=1e-6, fraction=0.5, beta=1e-6),
]


def exact_root(model: sr.Model) -> mpmath.mpf:
    """rho_c by bisection of h in 400 digits, where exp(1000) is nothing special."""
    b, t, p, k = (mpmath.mpf(v) for v in (model.beta, model.theta, model.fraction, model.kappa))

    def balance(x):
        u = mpmath.exp(x)
        n = p * u + 1 - p
        w = p * u / n
        return 1 + t * (1 - w) * (x / t + t * w) + k * mpmath.exp(b * b) * (1 - w) * (u - 1) / n

    low, high = -(t * t * p + 1 / (1 - p)) - 1, mpmath.mpf(0)
    for _ in range(1300):
        middle = (low + high) / 2
        low, high = (low, middle) if balance(middle) > 0 else (middle, high)
    return low / (b * t)


@pytest.mark.parametrize("model", CORNERS, ids=str)
def test_fixed_points_in_the_corners(model):
    with mpmath.workdps(400):
        exact = exact_root(model)
        found = sr.fixed_points(model)
        if exact > -1:
            assert len(found) == 3
            assert abs(found[1].rho - exact) <= found[1].rho.error
            assert found[1].rho.error <= 1e-9 * abs(exact)
            assert [p.stable for p in found] == [True, False, True]
        else:
            assert len(found) == 2
            assert [p.stable for p in found] == [False, True]
    assert found[0].rho == -1
    assert found[-1].rho == 1
    assert all(math.isfinite(p.eigenvalue) for p in found)


@pytest.mark.parametrize("model", CORNERS, ids=str)
def test_thresholds_in_the_corners(model):
    found = sr.thresholds(model)
    for name in ("beta_c", "theta_c", "kappa_c", "fraction_c"):
        value = getattr(found, name)
        if value is None:
            continue
        key = {"fraction_c": "fraction"}.get(name, name.split("_")[0])
        sides = []
        for factor in (1 - 1e-6, 1 + 1e-6):
            moved = float(value) * factor
            if key == "fraction" and moved >= 1:
                continue
            sides.append(sr.separatrix(model.replace(**{key: moved})) is not None)
        expected = [True, False] if key == "fraction" else [False, True]
        assert sides == expected[: len(sides)], name


@pytest.mark.parametrize("model", CORNERS, ids=str)
def test_numbers_are_finite_in_the_corners(model):
    rho = np.array([-1, -0.5, -1e-12, 0, 1e-12, 0.5, 1])
    for function in (sr.objective, sr.slope, sr.drift, sr.attention_mass):
        values = function(model, rho)
        assert np.isfinite(values).all()
    chances = sr.basin(model, 20)
    assert chances.aligned + chances.opposed == pytest.approx(1, abs=1e-12)


def test_masses_close_to_one_keep_their_complement():
    model = sr.Model(theta=1, fraction=1 - 1e-12)
    with mpmath.workdps(40):
        p = mpmath.mpf(model.fraction)
        u = mpmath.exp(-1)
        assert abs(sr.attention_mass(model, -1) - p * u / (p * u + 1 - p)) < 1e-15


def test_at_the_bifurcation():
    theta = float(sr.thresholds(sr.Model(theta=1, fraction=0.1)).theta_c)
    model = sr.Model(theta=theta, fraction=0.1)
    below = sr.fixed_points(model)[0]
    assert abs(below.eigenvalue) < 1e-12
    assert sr.separatrix(model.replace(theta=theta * (1 - 1e-9))) is None
    edge = sr.separatrix(model.replace(theta=theta * (1 + 1e-9)))
    assert -1 < edge < -1 + 1e-7
    # escape from -1 is algebraic there: 1/(2 J''(-1)) (1/(1 + rho_0)) to leading order
    times = [float(sr.time_to(model, -1 + gap, 0.0)) for gap in (1e-5, 1e-6)]
    assert times[1] / times[0] == pytest.approx(10, rel=1e-2)


def test_tiny_basins_do_not_cancel():
    found = sr.basin(sr.Model(theta=3, fraction=0.3), 2000)
    assert 0 < found.opposed < 1e-150
    assert found.opposed.error < 1e-10 * found.opposed
    dense = sr.basin(sr.Model(theta=3, fraction=0.3), 10)
    assert dense.aligned + dense.opposed == pytest.approx(1, abs=1e-14)


def test_basin_of_the_circle():
    edge = float(sr.separatrix(sr.Model(theta=3, fraction=0.3)))
    found = sr.basin(sr.Model(theta=3, fraction=0.3), 2)
    assert found.opposed == pytest.approx(1 - math.acos(edge) / math.pi, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"theta": 0}, ValueError, r"theta must be a real number in \(0, inf\)"),
        ({"theta": -1}, ValueError, "theta"),
        ({"theta": math.nan}, ValueError, "theta"),
        ({"theta": "strong"}, TypeError, "theta"),
        ({"fraction": 0}, ValueError, r"fraction must be a real number in \(0, 1\)"),
        ({"fraction": 1}, ValueError, "fraction"),
        ({"beta": 0}, ValueError, "beta"),
        ({"kappa": -0.1}, ValueError, "kappa"),
        ({"kappa": math.inf}, ValueError, "kappa"),
        ({"beta": 30, "kappa": 1}, ValueError, "beta must be at most"),
    ],
)
def test_bad_models(arguments, error, message):
    with pytest.raises(error, match=message):
        sr.Model(**{"theta": 1, "fraction": 0.1, **arguments})


@pytest.mark.parametrize("rho", [1.0000001, -2, math.nan, math.inf, [0.0, 1.5], [0.1, math.nan]])
def test_alignments_outside_of_the_interval(rho):
    for function in (sr.objective, sr.slope, sr.drift, sr.attention_mass, sr.gradient_noise):
        with pytest.raises(ValueError, match="rho must be"):
            function(sr.Model(theta=1, fraction=0.1), rho)


@pytest.mark.parametrize("rho", ["0.1", None, True, [True], 1j, ["a"]])
def test_alignments_that_are_no_numbers(rho):
    with pytest.raises(TypeError, match="rho must be"):
        sr.slope(sr.Model(theta=1, fraction=0.1), rho)


@pytest.mark.parametrize("dimension", [1, 0, 2.5])
def test_dimensions_that_have_no_sphere(dimension):
    with pytest.raises(ValueError, match="dimension must be an integer"):
        sr.basin(sr.Model(theta=3, fraction=0.3), dimension)


def test_records():
    model = sr.Model(theta=2, fraction=0.25, kernel="1+ t**2")
    assert eval(repr(model), {"Model": sr.Model}) == model
    assert pickle.loads(pickle.dumps(model)) == model
    assert hash(model) == hash(model.replace())
    assert model.replace(theta=3).theta == 3
    assert model.kernel == "1 + t**2"


def test_curves():
    found = tk.curve(
        sr.slope, sr.Model(theta=1, fraction=0.1), over={"theta": [0.5, 3.0], "rho": [-0.5, 0.0]}
    )
    assert found.slope.dims == ("theta", "rho")
    assert float(found.slope[1, 0]) == float(sr.slope(sr.Model(theta=3, fraction=0.1), -0.5))
    assert (found.slope_error > 0).all()
    kinds = tk.curve(sr.thresholds, sr.Model(theta=1, fraction=0.1), over={"fraction": [0.1, 0.8]})
    assert np.isnan(kinds.kappa_global[0])
    assert kinds.kappa_global[1] == pytest.approx(7.25183629212415)


def test_the_theory_is_found_by_its_names():
    for name in ("signal_recovery", "signal-recovery", "sr"):
        assert resolve(name) is sr.THEORY


WARM = """
import sys
from theorykit import signal_recovery as sr
model = sr.Model(theta=3, fraction=0.3)
print(float(sr.slope(model, 0.2)), float(sr.separatrix(model)), float(sr.time_to(model, 0.0, 0.5)))
print(float(sr.trajectory(model, 0.0, [1.0]).rho[0]))
print("sympy" in sys.modules)
"""


def test_a_warm_process_does_not_import_sympy():
    outputs = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", WARM], capture_output=True, text=True, check=True, env=os.environ
        )
        outputs.append(done.stdout.splitlines())
    assert outputs[0][:2] == outputs[1][:2]
    assert outputs[1][2] == "False"


def test_the_package_itself_is_light():
    code = "import sys; import theorykit.signal_recovery as sr; sr.Model(theta=1, fraction=0.1); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    heavy = {"sympy", "scipy", "numba", "matplotlib", "xarray"} & set(done.stdout.split())
    assert not heavy
