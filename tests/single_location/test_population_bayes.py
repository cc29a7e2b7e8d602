"""The Bayes risk against independent sums, and softmax attention, which attains it."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
from population_truth import (
    bayes_of_many,
    bayes_of_three,
    bayes_of_two,
    extended,
    within,
)

from theorykit import single_location as slr
from theorykit.single_location import optimum
from theorykit.single_location.programs import program

INF = math.inf
UNIFORM = {1: 1 / 3, 2: 1 / 3, 3: 1 / 3}
MIXED = {2: 0.5, 10**6: 0.5}
LENGTHS = [2, 3, 10**6, MIXED]
TASKS = {"spiked": slr.Spiked, "max": slr.Max}


def relative(estimate) -> float:
    return estimate.error / float(estimate)


class TestTwoTokens:
    @pytest.mark.parametrize("nu", [1e-12, 1e-3, 0.5, 4, 16, 49, 100, 200])
    def test_spiked(self, nu):
        value = slr.bayes_risk(slr.Spiked(nu, 2))
        assert within(value, bayes_of_two("spiked", nu))
        assert relative(value) < 1e-13

    @pytest.mark.parametrize("nu", [1e-12, 1e-3, 0.5, 2, 6.5, 16, 25])
    def test_max(self, nu):
        value = slr.bayes_risk(slr.Max(nu, 2))
        assert within(value, bayes_of_two("max", nu))
        assert relative(value) < 1e-13

    @pytest.mark.parametrize(
        "task",
        [slr.Spiked(n, 2) for n in (65, 400, 1000, 1300, 2000, 2800)]
        + [slr.Max(n, 2) for n in (9, 50, 400, 1e4, 1e8)],
        ids=repr,
    )
    def test_strong_signals(self, task):
        value = slr.bayes_risk(task)
        assert within(value, bayes_of_two(task.name, task.nu))
        assert relative(value) < 1e-12

    @pytest.mark.parametrize("nu", [2860, 2990, 3000, 1e4, 1e6])
    def test_numbers_that_underflow(self, nu):
        """Subnormal, or zero: within a few of the smallest numbers."""
        value = slr.bayes_risk(slr.Spiked(nu, 2), excess=True)
        assert within(value, bayes_of_two("spiked", nu))
        assert value.error < 2e-322
        assert slr.bayes_risk(slr.Spiked(nu, 2, noise=0.5)) == 0.25

    @pytest.mark.parametrize("length", [2, 3])
    def test_max_approaches_its_limit_like_the_inverse_square(self, length):
        """nu E_B tends to the mean field of the hidden token at nu = inf, from below by a term 1/nu^2."""
        mean = {2: 1, 3: 1.5}[length] / math.sqrt(math.pi)
        gaps = [mean - nu * slr.bayes_risk(slr.Max(nu, length)) for nu in (100, 200, 400)]
        assert gaps[0] / gaps[1] == pytest.approx(4, rel=2e-3)
        assert gaps[1] / gaps[2] == pytest.approx(4, rel=2e-3)
        assert 1e8 * slr.bayes_risk(slr.Max(1e8, length)) == pytest.approx(mean, rel=1e-13)

    @pytest.mark.parametrize("length", [2, 5, 10**6])
    @pytest.mark.parametrize("name, nu", [("spiked", 36.0), ("max", 6.5)])
    def test_both_forms_agree(self, name, nu, length):
        """The integrals over the fields and over the weights of the tokens."""
        plain, steep = (
            program("bayes_risk", ("bayes_excess",), task=name, **options).values(
                {"nu": nu, "L": length, "noise": 0.0}
            )["bayes_excess"]
            for options in ({}, {"steep": True})
        )
        assert abs(plain - steep) <= plain.error + steep.error
        assert relative(steep) < 1e-13


class TestMoreTokens:
    @extended
    @pytest.mark.parametrize("nu", [0.5, 4, 16])
    def test_three_spiked(self, nu):
        value = slr.bayes_risk(slr.Spiked(nu, 3))
        assert within(value, bayes_of_three("spiked", nu))
        assert relative(value) < 1e-13

    @extended
    @pytest.mark.parametrize("nu", [0.5, 2])
    def test_three_max(self, nu):
        value = slr.bayes_risk(slr.Max(nu, 3))
        assert within(value, bayes_of_three("max", nu))
        assert relative(value) < 1e-13

    @extended
    @pytest.mark.parametrize("length", [10, 10**6])
    @pytest.mark.parametrize(
        ("name", "nu"),
        [("spiked", n) for n in (0.01, 4, 50)] + [("max", n) for n in (0.01, 4)],
    )
    def test_long(self, name, nu, length):
        value = slr.bayes_risk(TASKS[name](nu, length))
        assert within(value, bayes_of_many(name, nu, length))
        assert relative(value) < 1e-13

    def test_truth_of_the_long_sequences_is_that_of_the_short_ones(self):
        """The Laplace form used as truth above, against sums over the fields themselves."""
        for name, nu in (("spiked", 4), ("spiked", 25), ("max", 4)):
            assert abs(float(bayes_of_many(name, nu, 2) / float(bayes_of_two(name, nu))) - 1) < 3e-16
        for name, nu in (("spiked", 4), ("max", 2)):
            assert abs(float(bayes_of_many(name, nu, 3) / bayes_of_three(name, nu)) - 1) < 3e-16


class TestCorners:
    @pytest.mark.parametrize("nu", [0, 0.5, 4, 100])
    @pytest.mark.parametrize("make", [slr.Spiked, slr.Max])
    def test_a_single_token_is_known(self, make, nu):
        value = slr.bayes_risk(make(nu, 1))
        assert (value.value, value.error) == (0.0, 0.0)

    @pytest.mark.parametrize("length", [2, 3, 10**6, UNIFORM])
    def test_the_argmax_is_known(self, length):
        value = slr.bayes_risk(slr.Max(INF, length))
        assert (value.value, value.error) == (0.0, 0.0)

    @pytest.mark.parametrize("length", [2, 3, 10, 1000, 10**6])
    @pytest.mark.parametrize("make", [slr.Spiked, slr.Max])
    def test_without_signal_all_tokens_are_alike(self, make, length):
        assert within(slr.bayes_risk(make(0, length)), 1 - mp.mpf(1) / length)

    @pytest.mark.parametrize("make", [slr.Spiked, slr.Max])
    def test_a_random_length_is_known(self, make):
        for law in (UNIFORM, MIXED):
            value = slr.bayes_risk(make(3, law))
            parts = [(p, slr.bayes_risk(make(3, n))) for n, p in law.items()]
            truth = mp.fsum(mp.mpf(p) * mp.mpf(part.value) for p, part in parts)
            assert within(value, truth, slack=2e-16)
            assert value.error >= sum(p * part.error for p, part in parts) * (1 - 1e-12)

    @pytest.mark.parametrize("noise", [0.3, 1e-9, 1e6])
    def test_noise_is_added(self, noise):
        task = slr.Spiked(4, 2, noise=noise)
        assert within(slr.bayes_risk(task), bayes_of_two("spiked", 4) + mp.mpf(noise) ** 2)
        assert slr.bayes_risk(task, excess=True) == slr.bayes_risk(task.replace(noise=0))

    @pytest.mark.parametrize("name", TASKS)
    def test_more_signal_and_fewer_tokens_help(self, name):
        make = TASKS[name]
        over_nu = [slr.bayes_risk(make(nu, 7)) for nu in (0, 0.1, 0.5, 1, 2, 4, 8)]
        over_length = [slr.bayes_risk(make(3, n)) for n in (1, 2, 3, 5, 10, 100, 10**4, 10**6)]
        assert over_nu == sorted(over_nu, reverse=True)
        assert over_length == sorted(over_length)


# ------------------------------------------------------------------------------------- softmax attains it

SIGNALS = {"spiked": [0, 1e-12, 0.01, 4, 100], "max": [0, 1e-12, 0.01, 4]}
POINTS = [TASKS[name](nu, length) for name in TASKS for length in LENGTHS for nu in SIGNALS[name]]
STEEP = [slr.Max(nu, n) for nu in (10, 30, 1e8) for n in (2, 3, 1000, 10**6)]
STEEP += [slr.Max(20, 10**6), slr.Max(100, {1: 0.5, 4: 0.5}), slr.Spiked(400, 3)]


def matched_key(task) -> float:
    return math.sqrt(task.nu) if isinstance(task, slr.Spiked) else task.nu


def check_softmax(task, relative=1e-13, absolute=1e-300):
    key, bayes = matched_key(task), slr.bayes_risk(task)
    value = slr.risk(task, slr.Softmax(), m_k=key, q_k=key * key, m_v=1, q_v=1)
    assert abs(value - bayes) <= value.error + bayes.error
    assert value.error <= relative * value + absolute
    a, b = slr.attention_moments(task, slr.Softmax(), m_k=key, q_k=key * key)
    assert abs(a - b) <= a.error + b.error
    assert abs(a - (1 - bayes)) <= a.error + bayes.error + 2**-53


@pytest.mark.parametrize("task", POINTS, ids=repr)
def test_softmax_at_the_matched_key_is_bayes(task):
    check_softmax(task)


@pytest.mark.parametrize("task", STEEP, ids=repr)
def test_softmax_at_a_steep_matched_key_is_bayes(task):
    check_softmax(task, relative=1e-11 if task.length == 10**6 else 1e-13)


def check_optimum(task):
    best, bayes, key = slr.optimal_risk(task, slr.Softmax()), slr.bayes_risk(task), matched_key(task)
    assert best.attained
    assert abs(best.risk - bayes) <= best.risk.error + bayes.error
    assert best.risk.error <= 1e-10 * best.risk + 1e-13
    assert best.m_v == pytest.approx(1, abs=1e-5 + best.m_v.error)
    assert within(best.m_v, 1)
    assert within(best.q_v, 1)
    if task.length != 1:  # the key of a single token does not matter
        assert within(best.m_k, mp.mpf(key))
        assert within(best.q_k, mp.mpf(key) ** 2)


FOUND = [
    *(slr.Spiked(nu, n) for nu in (0, 0.01, 4) for n in (2, 10**6)),
    *(slr.Spiked(100, 10**6), slr.Spiked(4, 1), slr.Spiked(48, 3), slr.Spiked(1, UNIFORM)),
    *(slr.Max(0.01, 3), slr.Max(1, UNIFORM), slr.Max(1, 10**6), slr.Max(2, 2)),
]


@pytest.mark.parametrize("task", FOUND, ids=repr)
def test_the_search_finds_the_matched_key(task):
    check_optimum(task)


@pytest.mark.slow
@pytest.mark.parametrize(
    "task",
    [slr.Spiked(400, 10), slr.Max(0, 2), slr.Spiked(25, MIXED)]
    + [slr.Spiked(nu, n) for nu in (1e-12, 1e-3, 1, 25) for n in (2, 10, 1000, 10**6, UNIFORM)]
    + [slr.Max(nu, n) for nu in (1e-12, 1e-4, 0.01, 4) for n in (2, 3, 1000, 10**6, MIXED)],
    ids=repr,
)
def test_the_search_finds_the_matched_key_everywhere(task):
    check_optimum(task)


@pytest.mark.parametrize(
    "task",
    [slr.Spiked(500, 3), slr.Spiked(1e4, 2, noise=0.5), slr.Max(30, UNIFORM), slr.Max(1e4, 3)],
    ids=repr,
)
def test_strong_signals_have_the_matched_key(task):
    check_optimum(task)


# the longest keys that are searched for are 20 (spiked) and 8 (max)
AROUND = [slr.Spiked(key**2, 3) for key in (19.5, 20.5)] + [slr.Max(key, 3) for key in (7.75, 8.25)]


@pytest.mark.parametrize("task", AROUND, ids=repr)
def test_search_and_matched_key_agree_on_both_sides_of_the_longest_key_searched_for(task):
    search = optimum.Search(task, slr.Softmax())
    found, known = search.run(), optimum._matched_optimum(search)
    chosen = slr.optimal_risk(task, slr.Softmax(), excess=True)
    assert chosen == (found if chosen.evaluations > 1 else known)
    for name in ("risk", "m_k", "q_k", "m_v", "q_v"):
        one, other = getattr(found, name), getattr(known, name)
        assert abs(one - other) <= one.error + other.error
    assert found.risk.error <= 1e-11 * found.risk


LONG_KEYS = [slr.Spiked(nu, n) for nu in (70, 1000, 2800, 3000, 1e4) for n in (2, 10**6)]


@pytest.mark.parametrize("task", LONG_KEYS, ids=repr)
def test_softmax_at_a_long_matched_key_is_bayes(task):
    check_softmax(task, 1e-12, 1e-289)


def test_a_long_key_that_is_not_matched():
    """Two tokens: 1 - sigma_eps = 1/(1 + e^T), T ~ N(sqrt(nu) m_k, 2 q_k), summed in 30 digits."""
    nu, m_k, q_k = 900.0, 9.0, 150.0
    A, B = slr.attention_moments(slr.Spiked(nu, 2), slr.Softmax(), m_k, q_k)
    with mp.workdps(30):
        mean, spread = mp.sqrt(nu) * m_k, mp.sqrt(2 * mp.mpf(q_k))
        nodes = [mp.mpf(k) / 16 for k in range(-4000, 4001)]
        density = [mp.npdf((t + mean) / spread) / spread / 16 for t in nodes]
        miss = [1 / (1 + mp.exp(-t)) for t in nodes]
        first = mp.fsum(d * p for d, p in zip(density, miss, strict=True))
        both = mp.fsum(d * p * (1 - p) for d, p in zip(density, miss, strict=True))
        assert within(A, 1 - first)
        assert within(B, 1 - 2 * both)
    wrong = slr.risk(slr.Spiked(nu, 2), slr.Softmax(), m_k, q_k, 1.0, 1.0, excess=True)
    assert within(wrong, 2 * first - 2 * both)  # 1 - 2A + B, without cancellation
    assert wrong < 1e-30
    assert relative(wrong) < 1e-10


def test_the_search_adds_the_noise():
    task = slr.Spiked(4, 3, noise=0.3)
    best, plain = slr.optimal_risk(task, slr.Softmax()), slr.optimal_risk(task, slr.Softmax(), excess=True)
    assert best.risk - plain.risk == pytest.approx(0.09, abs=1e-15)
    assert best.m_k == plain.m_k
