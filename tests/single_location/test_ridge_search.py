"""Optimal penalties: the Bayes-optimal ridge in the exact cases, and a minimum where they are searched."""

from __future__ import annotations

import math

import pytest

from theorykit import single_location as slr


@pytest.mark.parametrize("noise", [0.5, 1.2])
def test_one_token_has_the_penalty_of_the_gaussian_posterior(noise):
    """Gaussian truth and noise: ridge with penalty noise^2 is the posterior mean, of least risk."""
    task = slr.Max(nu=1, length=1, noise=noise)
    found = slr.optimal_ridge(task, slr.Softmax(), alpha=2)
    assert found.ridge_v == pytest.approx(noise**2, rel=1e-3)
    beside = [slr.erm(task, slr.Softmax(), 2, 1, noise**2 * f).test_risk for f in (0.9, 1.1)]
    assert found.test_risk < min(beside)


@pytest.mark.slow
def test_risk_is_least_at_the_penalties_found():
    """Published for linear attention at this point: penalties (0.205, 2.18), risk 0.924 (search coarse, 0.004)."""
    task = slr.Spiked(nu=4, length=2, noise=0.3)
    found = slr.optimal_ridge(task, slr.Linear(), alpha=0.5)
    assert found.test_risk == pytest.approx(0.924, abs=0.006)
    for factor_k, factor_v in ((3, 1), (1 / 3, 1), (1, 3), (1, 1 / 3)):
        other = slr.erm(task, slr.Linear(), 0.5, found.ridge_k * factor_k, found.ridge_v * factor_v).test_risk
        assert other > found.test_risk - 3 * math.hypot(other.error, found.test_risk.error)


def test_bad_sample_ratio_is_named():
    with pytest.raises(ValueError, match="alpha must be a real number"):
        slr.optimal_ridge(slr.Spiked(nu=1, length=2), slr.Linear(), alpha=-1)
