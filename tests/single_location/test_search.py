"""The search for the best overlaps, where it is hard: flat directions, limits at infinity, keys off k*."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
from scipy import integrate

from theorykit import single_location as slr
from theorykit.codegen import cache
from theorykit.errors import ConvergenceError
from theorykit.results import Estimate
from theorykit.single_location import infinity, optimum
from theorykit.single_location.optimum import Search
from theorykit.single_location.orthogonal import follow


def erf_moments(nu, length, m_k, shift):
    """(A, B) of erf attention for a key along k*, spiked task, by quadrature to 30 digits."""
    with mp.workdps(30):
        m, c = mp.mpf(m_k), mp.mpf(shift)

        def average(mean, power):
            scale = mp.erfc(
                -c
            )  # squares of some 1e-60 would be below the absolute tolerance of the quadrature
            weight = lambda x: (mp.erfc(-(c + m * (mean + x))) / scale) ** power * mp.npdf(x)  # noqa: E731
            return scale**power * mp.quad(weight, list(range(-20, 21, 2)))

        root = mp.sqrt(nu)
        return average(root, 1), average(root, 2) + (length - 1) * average(mp.mpf(0), 2)


@pytest.mark.parametrize(
    ("nu", "length", "accuracy"),
    [(1.0, 1000, 1e-11), (3.0, 1000, 1e-12), (1.0, 10**6, 1e-10), (3.0, 10**6, 1e-9), (10.0, 10**6, 1e-12)],
)
def test_free_shift_of_long_sequences(nu, length, accuracy):
    task = slr.Spiked(nu, length)
    best = slr.optimal_risk(task, slr.Erf(shift=None))
    first, second = erf_moments(nu, length, float(best.m_k), best.shift)
    with mp.workdps(30):
        there = 1 - first**2 / second
        assert abs(there - mp.mpf(float(best.risk))) <= best.risk.error
    assert best.risk.error <= accuracy
    floor = slr.best_elementwise_risk(task)
    assert floor - floor.error <= best.risk + best.risk.error


def test_residual_of_small_weights():
    """m_v is large where all weights are small: the residual comes from the other moments then."""
    nu, length, m_k, shift, m_v = 1.0, 1000, 0.125, -4.0, 39699.5
    got = slr.risk(slr.Spiked(nu, length), slr.Erf(shift), m_k=m_k, q_k=m_k**2, m_v=m_v, q_v=m_v**2)
    first, second = erf_moments(nu, length, m_k, shift)
    with mp.workdps(30):
        truth = 1 - 2 * mp.mpf(m_v) * first + mp.mpf(m_v) ** 2 * second
        assert abs(truth - mp.mpf(float(got))) <= got.error
    assert got.error < 1e-10


@pytest.mark.parametrize("nu", [0.3, 25.0, 48.0, 100.0])
def test_errors_of_the_best_key_hold(nu):
    """Softmax at the posterior; errors of the grids oscillate with the key, faster where the signal is strong."""
    best = slr.optimal_risk(slr.Spiked(nu, 3), slr.Softmax())
    assert abs(best.m_k - math.sqrt(nu)) <= best.m_k.error < 1e-5
    assert abs(best.m_v - 1) <= best.m_v.error


@pytest.mark.parametrize("task", [slr.Spiked(2.0, 3), slr.Max(1.0, {1: 0.5, 4: 0.5})], ids=str)
def test_the_search_finds_the_key_of_the_posterior_without_asking_for_the_bayes_risk(task, monkeypatch):
    monkeypatch.setattr(optimum, "bayes_risk", None)
    best = slr.optimal_risk(task, slr.Softmax())
    key = math.sqrt(task.nu) if isinstance(task, slr.Spiked) else task.nu
    assert best.evaluations > 5
    assert abs(best.m_k - key) <= best.m_k.error < 1e-6
    assert abs(best.risk - slr.bayes_risk(task)) <= best.risk.error + slr.bayes_risk(task).error


def test_limit_at_infinite_overlaps():
    """Softplus for the largest of two tokens: max(x, 0) where one is positive, the largest of two negative ones."""
    best = slr.optimal_risk(slr.Max(math.inf, 2), slr.Softplus())
    hidden = 0.75 + 0.25 * (0.5 + math.log(2) / math.pi)
    assert not best.attained
    assert abs(best.risk - (1 - hidden**2 / (0.75 + 1 / (2 * math.pi)))) <= best.risk.error < 1e-7


def test_rectified_weights_are_the_limit_of_softplus():
    """Keys of growing size, extrapolated, find the same limit."""
    task = slr.Spiked(24.0, 1000)
    best = slr.optimal_risk(task, slr.Softplus())
    search, end = Search(task, slr.Softplus()), 48.0
    other = infinity.extrapolated_limit(search, end, search.quick(end, search.search_grids(end)))
    assert best.risk.error < 1e-3 * other.risk.error
    assert abs(best.risk - other.risk) <= other.risk.error < 1e-4
    assert abs(best.m_v - other.m_v) <= other.m_v.error


def test_limit_for_the_largest_of_three_tokens():
    """Two integrals over the ratios (u, v) of the other tokens to the largest one, where that is positive."""

    def average(weight):
        def density(v, u):
            return 3 / (4 * math.pi) * (1 + u * u + v * v) ** -1.5 * weight(max(u, 0.0), max(v, 0.0))

        sides = ((-math.inf, 0.0), (0.0, 1.0))
        parts = [integrate.dblquad(density, *a, *b, epsabs=1e-10)[0] for a in sides for b in sides]
        return math.fsum(parts) + 1 / 8  # all negative: the largest has all the weight

    first = average(lambda u, v: 1 / (1 + u + v))
    second = average(lambda u, v: (1 + u * u + v * v) / (1 + u + v) ** 2)
    best = slr.optimal_risk(slr.Max(math.inf, 3), slr.Softplus())
    assert abs(best.risk - (1 - first**2 / second)) <= best.risk.error < 1e-7
    assert abs(best.m_v - first / second) <= best.m_v.error


class Valley:
    """Risks with their minimum off k*, at m_k = 1 and q_k = 1 + 0.6; None of a bottom: they fall for ever."""

    def __init__(self, bottom=0.2):
        self.bottom = bottom

    def quick_best(self, m, q, grids):
        rest = math.log(q - m * m)
        if self.bottom is None:
            return 1.0, math.exp(-0.1 * m) + 1e-3 * (rest - m) ** 2
        return 0.7 + 0.1 * (m - 1), self.bottom + (m - 1) ** 2 + 0.3 * (rest - math.log(0.6)) ** 2

    def grids(self, m, q, rtol):
        return {}

    def best_value(self, m, q, grids):
        m_v, risk = self.quick_best(m, q, grids)
        return Estimate(m_v, 1e-14), Estimate(risk, 1e-14)


def search_in(valley):
    search = Search(slr.Spiked(1.0, 2), slr.Softmax())
    search.general = valley
    return search


def test_a_lower_risk_off_the_truth_is_followed():
    best = follow(search_in(Valley()), 0.6, 0.1)
    assert abs(best.m_k - 1) <= best.m_k.error < 1e-5
    assert abs(best.q_k - 1.6) <= best.q_k.error < 1e-5
    assert abs(best.risk - 0.2) <= best.risk.error < 1e-11
    assert abs(best.m_v - 0.7) <= best.m_v.error < 1e-5


def test_a_risk_that_falls_for_ever_is_no_optimum():
    with pytest.raises(ConvergenceError, match="did not settle"):
        follow(search_in(Valley(bottom=None)), 0.6, 0.1)


def test_texts_are_built_once_and_again_where_they_are_damaged():
    name = "a text of this test"
    path = cache._text_path(name)
    path.unlink(missing_ok=True)
    assert cache.known_text(name) is None
    assert cache.text(name, lambda: "first") == "first"
    assert cache.text(name, lambda: "second") == "first" == cache.known_text(name)
    for damage in (b"", b"[1]", b'{"name": "another", "text": "x"}', b'{"name": "a text of this test"}'):
        path.write_bytes(damage)
        assert cache.known_text(name) is None
        assert cache.text(name, lambda: "again") == "again"
    path.unlink()
