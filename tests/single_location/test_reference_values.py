"""Reference values of the theory (computed independently, digits shown are converged), and what softmax reaches."""

from __future__ import annotations

import math

import numpy as np
import pytest

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
    erf = slr.optimal_risk(slr.Spiked(4, 2), slr.Erf())
    # mpmath root of the derivative of the closed form, at 30 digits
    assert abs(erf.m_k - 0.655310806735044) <= erf.m_k.error < 1e-6
    assert abs(erf.m_v - 0.387829338959122) <= erf.m_v.error < 1e-6
    softplus = slr.optimal_risk(slr.Spiked(4, 3), slr.Softplus())
    assert softplus.m_k == pytest.approx(4.78491, abs=1e-5) and softplus.m_v == pytest.approx(
        1.06968, abs=1e-5
    )
    linear = slr.optimal_risk(slr.Max(INF, 2), slr.Linear())
    assert linear.m_k == pytest.approx(math.pi**-0.5, abs=1e-13)


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


TASKS = [
    *(slr.Spiked(nu, length) for nu in (0.0, 1.0, 4.0, 30.0, 100.0) for length in (1, 2, 3, 10, 1000, 10**6)),
    slr.Spiked(4, {1: 0.2, 4: 0.3, 1000: 0.5}),
]


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_softmax_at_the_posterior_is_bayes(task):
    m = math.sqrt(task.nu)
    found = slr.risk(task, slr.Softmax(), m_k=m, q_k=m * m, m_v=1, q_v=1, excess=True)
    bayes = slr.bayes_risk(task, excess=True)
    assert abs(found - bayes) <= found.error + bayes.error
    assert found.error + bayes.error <= 3e-13 * float(bayes) + 1e-300


@pytest.mark.parametrize("task", [slr.Max(2, 3), slr.Max(1, 1000), slr.Max(4, {1: 0.3, 2: 0.7})], ids=str)
def test_softmax_at_the_posterior_is_bayes_for_max(task):
    found = slr.risk(task, slr.Softmax(), m_k=task.nu, q_k=task.nu**2, m_v=1, q_v=1, excess=True)
    bayes = slr.bayes_risk(task, excess=True)
    assert abs(found - bayes) <= found.error + bayes.error


@pytest.mark.parametrize(
    "task", [slr.Spiked(4, 3), slr.Spiked(48, 2), slr.Spiked(9, 10**6), slr.Max(2, 2)], ids=str
)
def test_the_search_finds_the_posterior(task):
    found = slr.optimal_risk(task, slr.Softmax(), excess=True)
    bayes = slr.bayes_risk(task, excess=True)
    target = math.sqrt(task.nu) if isinstance(task, slr.Spiked) else task.nu
    assert abs(found.risk - bayes) <= found.risk.error + bayes.error
    assert abs(found.m_k - target) <= found.m_k.error
    assert abs(found.m_v - 1) <= found.m_v.error


def test_two_tokens_by_one_dimensional_quadrature():
    """L = 2: E_B = E sigmoid(-T), T ~ N(nu, 2 nu), by a trapezoid rule of its own; the error estimate holds."""
    z = np.linspace(-40, 40, 160_001)
    for nu in (0.3, 1.0, 4.0, 10.0, 30.0, 60.0, 100.0, 110.0):
        t = nu + math.sqrt(2 * nu) * z
        log_density = -z * z / 2 - 0.5 * math.log(2 * math.pi)
        truth = math.fsum(np.exp(log_density - np.logaddexp(0, t))) * (80 / 160_000)
        found = slr.bayes_risk(slr.Spiked(nu, 2))
        assert abs(found - truth) <= found.error + 3e-15 * truth
        assert found.error <= 1e-13 * truth


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
        (slr.Max(0.5, 5), slr.Softplus(), -2.77, 8.94),
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
