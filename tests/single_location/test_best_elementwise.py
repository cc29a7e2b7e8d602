"""Best elementwise activation of the max task at strong signals, against sums over two fields and limits."""

import math

import numpy as np
import pytest

from theorykit import derivations
from theorykit import single_location as slr
from theorykit.single_location.programs import program

INF = math.inf


def best_of_two(nu):
    """1 - E h^2/2 at two tokens: h = 2 E sigmoid(nu (x - x')), the step and what rounds it off, on panels."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = np.linspace(-10, 10, 21)
    x = (edges[:-1, None] + (nodes + 1) / 2).ravel()
    law = np.tile(weights / 2, 20) * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    v = (np.arange(0, 45, 1.5)[:, None] + 0.75 * (nodes + 1)).ravel()
    share = np.tile(0.75 * weights, 30) / (1 + np.exp(v)) / nu
    phi = lambda u: np.exp(-u * u / 2) / math.sqrt(2 * math.pi)  # noqa: E731
    below = np.array([math.erfc(-u / math.sqrt(2)) / 2 for u in x])
    rounded = (phi(x[:, None] + v / nu) - phi(x[:, None] - v / nu)) @ share
    return 1 - 2 * float(np.sum(law * (below + rounded) ** 2))


@pytest.mark.parametrize("nu", [8.5, 30.0, 49.0, 100.0, 1e3, 1e8])
def test_two_tokens(nu):
    found = slr.best_elementwise_risk(slr.Max(nu, 2))
    assert abs(found - best_of_two(nu)) <= found.error + 2e-14
    assert found.error < 5e-14


def test_the_sum_over_two_fields_has_the_known_limit():
    """1/3 + pi/(6 sqrt 3 nu^2): Sommerfeld's expansion of the rounded step."""
    assert best_of_two(1e3) - 1 / 3 == pytest.approx(math.pi / (6 * math.sqrt(3)) * 1e-6, rel=1e-5)


@pytest.mark.parametrize("nu", [9.0, 14.0])
@pytest.mark.parametrize("length", [2, 7, 10**6])
def test_both_forms_agree(nu, length):
    point = {"nu": nu, "L": length, "L_other": length}
    weak, strong = (
        program("best_elementwise", ("overlap",), task="max", **options).values(point)["overlap"]
        for options in ({}, {"steep": True})
    )
    assert abs(weak - strong) <= weak.error + strong.error
    assert strong.error < 1e-12 * strong


@pytest.mark.parametrize("length", [2, 3, 1000, 10**6])
def test_approaches_the_limit_like_the_inverse_square(length):
    limit = (length - 1) / (2 * length - 1)
    gaps = [slr.best_elementwise_risk(slr.Max(nu, length)) - limit for nu in (4e3, 8e3)]
    assert gaps[0] / gaps[1] == pytest.approx(4, abs=3e-3)  # the next order is 1/nu
    assert slr.best_elementwise_risk(slr.Max(1e300, length)) == pytest.approx(limit, abs=1e-14)


@pytest.mark.parametrize("nu", [20.0, INF])
def test_hardly_ever_more_than_one_token(nu):
    """At P(L = 2) = p the risk is p (2 - 1) less p^2 (overlap - 1), over 1 + p: it does not cancel for small p."""
    share, pair = 1e-13, float(slr.best_elementwise_risk(slr.Max(nu, 2)))
    found = slr.best_elementwise_risk(slr.Max(nu, {1: 1 - share, 2: share}))
    overlap = 2 - 2 * pair
    assert found == pytest.approx((share - share**2 * (overlap - 1)) / (1 + share), rel=1e-13)
    assert found.error < 1e-13 * found


def test_random_length_is_between_its_lengths():
    mixed = slr.best_elementwise_risk(slr.Max(100.0, {2: 0.5, 1000: 0.5}))
    assert slr.best_elementwise_risk(slr.Max(100.0, 2)) < mixed
    assert mixed > slr.best_elementwise_risk(slr.Max(100.0, 501))  # it does not know the length


def test_strong_form_is_for_the_max_task():
    with pytest.raises(ValueError, match="steep needs the max task"):
        derivations.get("single_location.best_elementwise", task="spiked", steep=True)
