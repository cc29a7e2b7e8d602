"""Published reference values of the limit (computed independently, all digits shown are converged)."""

from __future__ import annotations

import numpy as np
import pytest

from theorykit import signal_recovery as sr

TRAP = sr.Model(theta=3, fraction=0.3)
SPARSE = sr.Model(theta=1.5, fraction=0.1)
PLAIN = sr.Model(theta=1, fraction=0.1)
PAPER = sr.Model(theta=1, fraction=1 / 21)


def agrees(found, text: str) -> bool:
    """Within one unit of the last digit shown, and within the stated error of it."""
    unit = 10.0 ** -len(text.split(".")[1])
    return abs(found - float(text)) <= unit + found.error and found.error <= 1e-12 * abs(found) + 1e-15


def test_objective_and_slope():
    assert agrees(sr.objective(PLAIN, 0.5), "1.1787998391879")
    assert agrees(sr.slope(PLAIN, 0.5), "0.481033039171979")
    assert agrees(sr.slope(sr.Model(theta=0.25, fraction=1 / 21), 0), "0.0238770111219091")


def test_attention_masses():
    assert agrees(sr.attention_mass(PAPER, 1), "0.119651734624309")
    assert agrees(sr.attention_mass(PAPER, -1), "0.018061744828861")


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (TRAP, "-0.572974508277072"),
        (SPARSE, "-0.743652041377842"),
        (TRAP.replace(kappa=0.5), "-0.370524406031384"),
    ],
)
def test_separatrix(model, text):
    assert agrees(sr.separatrix(model), text)


def test_eigenvalues():
    below, middle, above = sr.fixed_points(TRAP)
    assert agrees(above.eigenvalue, "-23.130414953576")
    assert agrees(below.eigenvalue, "-0.439532102998967")
    assert agrees(middle.eigenvalue, "1.34025401153219")
    assert [below.stable, middle.stable, above.stable] == [True, False, True]
    assert [below.rho, above.rho] == [-1, 1]


def test_thresholds():
    assert agrees(sr.thresholds(PLAIN).beta_c, "1.07449532440914")
    assert agrees(sr.thresholds(sr.Model(theta=2, fraction=0.1)).fraction_c, "0.635610944911265")
    assert agrees(sr.thresholds(PLAIN).theta_c, "1.08014410929207")
    assert agrees(sr.thresholds(PLAIN.replace(fraction=0.5)).theta_c, "1.63117991869987")
    assert agrees(sr.thresholds(sr.Model(theta=0.8, fraction=0.1)).kappa_c, "0.176981447131236")
    assert agrees(sr.thresholds(sr.Model(theta=1, fraction=0.8)).kappa_global, "7.25183629212415")
    assert sr.thresholds(sr.Model(theta=1, fraction=0.3, beta=0.5)).kappa_c == pytest.approx(
        1.68677, abs=5e-6
    )


@pytest.mark.parametrize(
    ("fraction", "theta_c"), [(0.01, 1.00742), (0.1, 1.08014), (0.5, 1.63118), (0.9, 3.70744)]
)
def test_thresholds_in_theta(fraction, theta_c):
    assert sr.thresholds(PLAIN.replace(fraction=fraction)).theta_c == pytest.approx(theta_c, abs=5.1e-6)


def test_basin_and_time():
    assert agrees(sr.basin(TRAP, dimension=10).opposed, "0.0326999881530534")
    assert agrees(sr.time_to(SPARSE, 0.0, 0.99), "1.91174917300568")


def test_kappa_of_the_recorded_trap():
    # the separatrix of the simulated trap: d = 4000, L = 1000
    model = sr.Model(theta=1, fraction=0.3, beta=0.5, kappa=3.999)
    assert sr.separatrix(model) == pytest.approx(-0.539, abs=5e-4)


def test_basins_of_finite_dimension():
    for dimension, probability in ((3, 0.214), (5, 0.118), (8, 0.055)):
        model = TRAP.replace(kappa=(dimension - 1) / 1000)
        assert sr.basin(model, dimension).opposed == pytest.approx(probability, abs=5.1e-4)


def test_arrays_agree_with_numbers():
    rho = np.linspace(-1, 1, 7)
    for function in (sr.objective, sr.slope, sr.drift, sr.attention_mass):
        found = function(TRAP.replace(kappa=0.3), rho.reshape(1, 7))
        assert found.shape == (1, 7)
        single = [function(TRAP.replace(kappa=0.3), r) for r in rho]
        assert np.array_equal(found[0], [float(v) for v in single])
