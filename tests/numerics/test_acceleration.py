"""Fixed points by damping and Anderson acceleration, and scrambled nodes, on problems with known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtri

from theorykit.numerics.acceleration import Acceleration, iterate
from theorykit.numerics.sampling import sobol_points, spread


def test_a_scalar_fixed_point_is_found_to_the_tolerance():
    found = iterate(lambda u, _: np.cos(u), np.array([0.3]), Acceleration(tolerance=1e-12))
    assert found.reached(1e-12)
    assert found.point[0] == pytest.approx(0.7390851332151607, abs=1e-11)
    assert found.steps < 15


def test_a_map_that_diverges_by_plain_iteration_converges():
    """Slope -3 at the fixed point: steps are damped as the residual grows, then accelerated."""
    matrix = np.array([[-3.0, 0.4], [0.2, 0.5]])
    target = np.array([1.0, -2.0])
    found = iterate(
        lambda u, _: target + matrix @ (u - target), np.array([1.5, -1.0]), Acceleration(tolerance=1e-10)
    )
    assert found.reached(1e-10)
    assert found.point == pytest.approx(target, abs=1e-9)


def test_acceleration_needs_fewer_steps_than_damping():
    matrix = np.diag([0.95, 0.6, -0.5])

    def steps(memory):
        return iterate(
            lambda u, _: matrix @ u + 1,
            np.zeros(3),
            Acceleration(tolerance=1e-8, max_steps=2000, memory=memory, near=10),
        ).steps

    assert 4 * steps(5) < steps(1) or 4 * steps(5) < steps(0)


def test_no_component_moves_further_than_allowed():
    path = []

    def far(u, _):
        path.append(u.copy())
        return np.array([100.0, 100.0])

    iterate(far, np.zeros(2), Acceleration(max_steps=3, largest=(0.5, 2.0)))
    moves = np.diff(np.array(path), axis=0)
    assert (moves == [0.5, 2.0]).all()


def test_reaching_the_last_step_and_leaving_the_domain_are_told():
    short = iterate(lambda u, _: u + 1, np.zeros(1), Acceleration(max_steps=4))
    assert (short.steps, short.residual, len(short.history)) == (4, 1.0, 4)
    assert not short.reached(0.5)
    broken = iterate(lambda u, _: u * np.nan, np.ones(1), Acceleration())
    assert broken.residual == math.inf


def test_scramblings_are_unbiased_and_independent():
    """E exp(x + y/2) over Gaussians = exp(5/8); errors are those of a better rule than random sampling."""
    points = sobol_points(2, 10, 8, seed=3)
    means = [float(np.mean(np.exp(ndtri(p) @ [1.0, 0.5]))) for p in points]
    value, error = spread(np.array(means))
    assert abs(value - math.exp(0.625)) < 4 * error
    assert error < 0.25 * math.sqrt(math.exp(2.5) - math.exp(1.25)) / math.sqrt(8 * 1024)
    assert len(set(means)) == 8


def test_more_scramblings_keep_the_earlier_ones():
    few, more = sobol_points(5, 4, 2, seed=1), sobol_points(5, 4, 3, seed=1)
    assert all((a == b).all() for a, b in zip(few, more, strict=False))
    assert all(((p > 0) & (p < 1)).all() for p in more)


def test_too_many_dimensions_are_refused():
    with pytest.raises(ValueError, match="dimensions must be an integer in"):
        sobol_points(30_000, 4, 2, seed=0)


def test_one_scrambling_has_no_error():
    assert spread(np.array([2.0])) == (2.0, math.inf)
