"""Reference values of the theory (computed independently, digits shown are converged), and what softmax reaches."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
from population_truth import erf_excess, within

from theorykit import single_location as slr

INF = math.inf
BAYES = [
    (slr.Spiked(1, 2), "0.324943297662"),
    (slr.Spiked(4, 2), "0.115509110965"),
    (slr.Spiked(4, 3), "0.194123973657"),
    (slr.Spiked(9, 5), "0.0813549837501"),
    (slr.Spiked(25, 10**6), "0.562670657173"),
    (slr.Max(2, 2), "0.240012127168"),
    (slr.Max(4, 3), "0.201056739779"),
    (slr.Max(2, 10**6), "0.999945685077"),
    (slr.Spiked(4, {1: 1 / 3, 2: 1 / 3, 3: 1 / 3}), "0.103211028207"),
    (slr.Spiked(2 * math.log(10**6), 10**6), "0.4523"),  # the predicted transition, still smooth
]
MINIMA = [
    (slr.Spiked(4, 3), slr.Linear(), "0.352941176471"),
    (slr.Max(INF, 3), slr.Linear(), "0.427934252029"),
    (slr.Max(4, 3), slr.Linear(), "0.451072999410"),
    (slr.Spiked(4, 2), slr.Erf(), "0.291823186783"),
    (slr.Spiked(4, 3), slr.Erf(shift=None), "0.310356747563"),
    (slr.Spiked(4, 3), slr.Softplus(), "0.234405124682"),
    (slr.Max(INF, {1: 1 / 3, 2: 1 / 3, 3: 1 / 3}), slr.Linear(), "0.389475734"),
]
MOMENTS = [
    (slr.Spiked(4, 3), slr.Softmax(), 1.6, 3.6, "0.740481305984", "0.754902171113"),
    (slr.Spiked(4, 3), slr.Softplus(), 1.6, 3.6, "0.618063911353", "0.553327782729"),
    (slr.Max(2, 2), slr.Softmax(), 1.5, 2.25, "0.731866701994", "0.707882807342"),
    (slr.Max(2, 2), slr.Softplus(), 1.5, 2.25, "0.689886634938", "0.644258051649"),
    (slr.Max(INF, 4), slr.Softmax(), 2, 4, "0.685869979476", "0.574413955979"),
    (slr.Max(4, 3), slr.Erf(0.3), 1.5, 2.5, "1.702258669509", "5.723624148976"),
]


def digits(text: str) -> float:
    """Half a unit of the last digit shown."""
    return 0.51 * 10.0 ** -len(text.split(".")[1])


@pytest.mark.parametrize(("task", "text"), BAYES, ids=lambda x: str(x))
def test_bayes_risk(task, text):
    found = slr.bayes_risk(task, excess=True)
    assert abs(found - float(text)) <= digits(text)
    assert found.error <= 1e-12 * max(float(found), 1e-12)


@pytest.mark.parametrize(("task", "activation", "text"), MINIMA, ids=lambda x: str(x))
def test_minimal_risk(task, activation, text):
    found = slr.optimal_risk(task, activation, excess=True)
    assert found.attained
    assert abs(found.risk - float(text)) <= digits(text)


@pytest.mark.parametrize(("task", "activation", "m", "q", "first", "second"), MOMENTS, ids=lambda x: str(x))
def test_moments(task, activation, m, q, first, second):
    mean, square = slr.attention_moments(task, activation, m, q)
    assert abs(mean - float(first)) <= digits(first)
    assert abs(square - float(second)) <= digits(second)


def test_overlaps_at_the_minima():
    softplus = slr.optimal_risk(slr.Spiked(4, 3), slr.Softplus())
    assert softplus.m_k == pytest.approx(4.78491, abs=1e-5)
    assert softplus.m_v == pytest.approx(1.06968, abs=1e-5)


def test_optimum_of_erf_is_stationary_to_twelve_digits():
    best = slr.optimal_risk(slr.Spiked(4, 2), slr.Erf(0))
    key = mp.findroot(lambda m: mp.diff(lambda x: erf_excess(4, 2, 0, x), m), 0.6553)
    assert within(best.m_k, key)
    assert within(best.risk, erf_excess(4, 2, 0, key))
    assert best.m_k.error < 1e-8
    assert best.risk.error < 1e-12


def test_optimal_shift_of_erf():
    best = slr.optimal_risk(slr.Spiked(4, 3), slr.Erf(shift=None))
    with mp.workdps(20):
        key, shift = mp.findroot(
            lambda m, c: [
                mp.diff(lambda x: erf_excess(4, 3, c, x), m),
                mp.diff(lambda x: erf_excess(4, 3, x, m), c),
            ],
            (0.84407, -1.12873),
        )
        assert within(best.m_k, key)
        assert abs(best.shift - shift) < 1e-9
        assert within(best.risk, erf_excess(4, 3, shift, key))


def test_linear_attention_in_closed_form():
    for nu, length in ((4, 3), (1, 2), (100, 3), (0, 5), (25, 10**6)):
        best = slr.optimal_risk(slr.Spiked(nu, length), slr.Linear())
        with mp.workdps(30):
            truth = mp.mpf(length) * (length - 1) / (mp.mpf(length) ** 2 + nu * (length - 1))
            key = mp.sqrt(nu) * (length - 1) / length
        assert within(best.risk, truth)
        assert within(best.m_k, key)
    # mean of the largest of two and of three standard Gaussians
    for length, mean in ((2, 1 / mp.sqrt(mp.pi)), (3, 3 / (2 * mp.sqrt(mp.pi)))):
        best = slr.optimal_risk(slr.Max(INF, length), slr.Linear())
        assert within(best.risk, 1 - (1 + mean**2) / length)
        assert within(best.m_k, mean)


@pytest.mark.parametrize(("nu", "length"), [(0.3, 2), (4, 3), (2, 1000), (4, 10**6)])
def test_linear_attention_measures_the_bayes_risk_of_the_max_task(nu, length):
    """mu = nu E_B by Stein's lemma, and the linear risk is 1 - (1 + mu^2)/L."""
    best, bayes = slr.optimal_risk(slr.Max(nu, length), slr.Linear()), slr.bayes_risk(slr.Max(nu, length))
    assert abs(best.m_k - nu * bayes) <= best.m_k.error + nu * bayes.error
    assert within(best.risk, 1 - (1 + (nu * mp.mpf(bayes.value)) ** 2) / length, slack=1e-15)


@pytest.mark.parametrize(
    ("task", "value"),
    [
        (slr.Spiked(4, 3), 0.310232212489),
        (slr.Max(INF, 2), 1 / 3),
        (slr.Max(INF, {1: 1 / 3, 2: 1 / 3, 3: 1 / 3}), 0.381481481481),
        (slr.Max(INF, 7), 6 / 13),
    ],
    ids=str,
)
def test_best_elementwise(task, value):
    assert slr.best_elementwise_risk(task) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("length", [1, 2, 10, 10**6])
def test_best_elementwise_of_the_argmax(length):
    value = slr.best_elementwise_risk(slr.Max(INF, length))
    assert within(value, mp.mpf(length - 1) / (2 * length - 1))


def test_two_tokens_of_the_argmax_are_served_by_erf():
    best = slr.optimal_risk(slr.Max(INF, 2), slr.Erf(0))
    assert within(best.risk, mp.mpf(1) / 3)
    assert within(best.m_k, mp.sqrt(mp.mpf(1) / 2))


@pytest.mark.parametrize("task", [slr.Spiked(25, 3), slr.Spiked(9, 1000), slr.Max(INF, 1000)], ids=str)
def test_erf_with_its_best_shift_is_close_to_the_best_activation(task):
    least, best = slr.best_elementwise_risk(task), slr.optimal_risk(task, slr.Erf(shift=None))
    assert -best.risk.error - least.error < best.risk - least < 1.1e-3


@pytest.mark.parametrize("activation", [slr.Linear(), slr.Erf(-0.7), None], ids=str)
def test_spiked_elementwise_minima_depend_on_the_mean_length_alone(activation):
    def least(task):
        return slr.optimal_risk(task, activation).risk if activation else slr.best_elementwise_risk(task)

    one, other = (least(slr.Spiked(4, n)) for n in (2, {1: 1 / 3, 2: 1 / 3, 3: 1 / 3}))
    assert abs(one - other) <= one.error + other.error
    assert (
        slr.bayes_risk(slr.Spiked(4, {1: 1 / 3, 2: 1 / 3, 3: 1 / 3}))
        < slr.bayes_risk(slr.Spiked(4, 2)) - 0.01
    )


def test_infimum_at_infinite_overlaps():
    logarithm = math.log(2) / math.pi
    value = 1 - (0.75 + 0.25 * (0.5 + logarithm)) ** 2 / (0.75 + 1 / (2 * math.pi))
    found = slr.optimal_risk(slr.Max(INF, 2), slr.Softplus())
    assert not found.attained and math.isinf(found.m_k)
    assert abs(found.risk - value) <= found.risk.error <= 1e-3
    softmax = slr.optimal_risk(slr.Max(INF, 3), slr.Softmax())
    assert not softmax.attained and softmax.risk == 0


@pytest.mark.parametrize(
    ("task", "activation", "m", "q"),
    [
        (slr.Max(INF, 3), slr.Erf(), 0.9, 1.3),
        (slr.Max(0.5, 5), slr.Softmax(), -2.77, 8.94),
        pytest.param(slr.Max(0.5, 5), slr.Softplus(), -2.77, 8.94, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_keys_off_the_hidden_direction(task, activation, m, q):
    """Against direct sampling: keys with a part orthogonal to k*, also against k*."""
    from theorykit.single_location.theory import simulate

    mean, square = slr.attention_moments(task, activation, m, q)
    found = simulate(task, activation, {"m_k": m, "q_k": q, "m_v": 0.5, "q_v": 1.0}, 60_000, 11)
    assert abs(mean - found["A"]) <= 4 * found["A"].error
    assert abs(square - found["B"]) <= 4 * found["B"].error
