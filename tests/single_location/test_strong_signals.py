"""Strong signals of the max task with keys off k*, kinks included, against sums over the scores of two tokens."""

import math

import numpy as np
import pytest

from theorykit import derivations
from theorykit import single_location as slr
from theorykit.derivations.audit import audit
from theorykit.results import Estimate
from theorykit.single_location.near_truth import interpolated
from theorykit.single_location.programs import moments_program

INF = math.inf
KERNELS = {
    "softplus(x)": lambda x: np.logaddexp(0, x),
    "0.2 + abs(x)": lambda x: 0.2 + abs(x),
}


def scores(count=12):
    """Standard scores on panels that split at 0, and the law of two of them."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = 9 / count
    g = (np.linspace(-9, 9, count + 1)[:-1, None] + half * (1 + nodes)).ravel()
    law = np.tile(half * weights, count) * np.exp(-g * g / 2) / math.sqrt(2 * math.pi)
    return g, law[:, None] * law


def first_is_hidden(nu, along, g):
    """Probability that the first of two tokens is the hidden one given both scores: a logistic of a Gaussian field."""
    gap, spread = along * (g[:, None] - g), math.sqrt(2 * (1 - along**2))
    if nu > 1e6:  # the larger field
        return np.vectorize(lambda z: math.erfc(-z / math.sqrt(2)) / 2)(gap / spread)
    fields = np.linspace(-9, 9, 481)
    own = np.zeros_like(gap)
    for field, weight in zip(
        fields, np.exp(-(fields**2) / 2) / math.sqrt(2 * math.pi) * (18 / 480), strict=True
    ):
        own += weight / (1 + np.exp(np.clip(-nu * (gap + spread * field), -700, 700)))
    return own


def normalized_of_two(nu, m_k, q_k, kernel):
    """(A, B) of normalized weights."""
    g, both = scores()
    own = first_is_hidden(nu, m_k / math.sqrt(q_k), g)
    values = kernel(math.sqrt(q_k) * g)
    share = values[:, None] / (values[:, None] + values)
    hidden = own * share + (1 - own) * (1 - share)
    return float(np.sum(both * hidden)), float(np.sum(both * (share**2 + (1 - share) ** 2)))


@pytest.mark.parametrize(
    "text, nu",
    [
        ("0.2 + abs(x)", 20.0),
        ("softplus(x)", 1e8),
        pytest.param("softplus(x)", 20.0, marks=pytest.mark.slow),
        pytest.param("0.2 + abs(x)", 1e8, marks=pytest.mark.slow),
    ],
)
def test_kernels_with_any_key(text, nu):
    A, B = slr.attention_moments(slr.Max(nu, 2), slr.NormalizedKernel(text), 1.0, 1.7)
    expected = normalized_of_two(nu, 1.0, 1.7, KERNELS[text])
    assert abs(A - expected[0]) <= A.error + 1e-13
    assert abs(B - expected[1]) <= B.error + 1e-13
    assert max(A.error, B.error) < 1e-12


@pytest.mark.parametrize("text", ["1 + tanh(x)", "max(x, 0)"])
@pytest.mark.parametrize("nu", [20.0, 1e8])
def test_elementwise_weights_with_any_key(text, nu):
    A, B = slr.attention_moments(slr.Max(nu, 2), slr.Elementwise(text), -0.8, 1.3)
    g, both = scores()
    weight = slr.Elementwise(text).formula.evaluate(math.sqrt(1.3) * g)
    own = first_is_hidden(nu, -0.8 / math.sqrt(1.3), g)
    expected = np.sum(both * (own * weight[:, None] + (1 - own) * weight))
    assert abs(A - expected) <= A.error + 1e-13
    assert abs(B - 2 * np.sum(both * weight**2)) <= B.error + 1e-13
    assert max(A.error, B.error) < 1e-12


def test_both_forms_agree():
    """Fields and scores as variables, at a strength where both can be had."""
    point = {"nu": 9.0, "L": 1000, "m_k": 0.8, "q_k": 1.4}
    activation = slr.Elementwise("1 + tanh(x)")
    fields, noisy = (
        moments_program(slr.Max(9.0, 1000), activation, False, False, steep).values(point)
        for steep in (False, True)
    )
    for name, value in fields.items():
        assert abs(value - noisy[name]) <= value.error + noisy[name].error


@pytest.mark.parametrize("q_k", [1.0, pytest.param(1.0005, marks=pytest.mark.slow)])
def test_kinked_weights_of_a_key_along_the_truth(q_k):
    """B does not depend on the location: E max(x, 0)^2 = q_k/2 for each token; A has the limit nu = inf."""
    activation = slr.Elementwise("max(x, 0)")
    A, B = slr.attention_moments(slr.Max(1e7, 3), activation, 1.0, q_k)
    limit = slr.attention_moments(slr.Max(INF, 3), activation, 1.0, q_k)[0]
    assert abs(B - 1.5 * q_k) <= B.error
    assert abs(A - limit) <= A.error + limit.error + 1e-13
    assert max(A.error, B.error) < 1e-8


def test_interpolation_in_the_orthogonal_part_knows_its_error():
    """A function of 1 - m^2/q that is no polynomial."""

    def at(q_k):
        share = 1 - 1 / q_k
        return {"f": Estimate(math.exp(8 * share) / (1 + 5 * share), 1e-15)}

    for has_aligned in (True, False):
        found = interpolated(at, 1.0, 1 / (1 - 0.002), has_aligned)["f"]
        assert abs(found - math.exp(8 * 0.002) / 1.01) <= found.error < 1e-6


@pytest.mark.slow
def test_key_almost_along_the_truth():
    """Interpolated moments against integrals over the fields as they are."""
    task, point = slr.Max(40.0, 3), {"nu": 40.0, "L": 3.0, "m_k": 1.0, "q_k": 1.002}
    activation = slr.Elementwise("1 + tanh(x)")
    A = slr.attention_moments(task, activation, 1.0, 1.002)[0]
    plain = moments_program(task, activation, False, False).values(point)["A"]
    assert abs(A - plain) <= A.error + plain.error < 1e-8


@pytest.mark.slow
def test_the_best_key_at_a_strong_signal_is_along_the_truth():
    task, activation = slr.Max(100.0, 3), slr.Elementwise("1 + tanh(x)")
    best = slr.optimal_risk(task, activation)
    m_k, m_v = float(best.m_k), float(best.m_v)
    risks = [slr.risk(task, activation, m_k, q * m_k**2, m_v, m_v**2) for q in (1.0, 1.1, 1.5)]
    assert abs(risks[0] - best.risk) <= risks[0].error + best.risk.error
    assert best.risk < risks[1] < risks[2]


@pytest.mark.slow
def test_long_keys_of_softplus_attention():
    best = slr.optimal_risk(slr.Max(30.0, 3), slr.Softplus())
    found = slr.risk(slr.Max(30.0, 3), slr.Softplus(), best.m_k, best.q_k, best.m_v, best.q_v)
    assert abs(best.risk - found) <= best.risk.error + found.error
    assert best.risk > slr.bayes_risk(slr.Max(30.0, 3))
    assert best.risk.error < 1e-9


@pytest.mark.parametrize("name, options", [
    ("normalized_moments", {"kernel": "softplus(x)"}),
    pytest.param("elementwise_moments", {"activation": "1 + tanh(x)"}, marks=pytest.mark.slow),
])  # fmt: skip
def test_audit_of_the_noisy_score(name, options):
    report = audit(derivations.get(f"single_location.{name}", task="max", steep=True, **options))
    assert report.ok


@pytest.mark.parametrize("nu", [30.0, 1e4])
def test_without_a_key_the_weights_are_uniform(nu):
    A, B = slr.attention_moments(slr.Max(nu, 5), slr.NormalizedKernel("0.1 + abs(x)"), 0.0, 0.0)
    assert abs(A - 0.2) <= A.error + 1e-15
    assert abs(B - 0.2) <= B.error + 1e-15
    assert max(A.error, B.error) < 1e-13


@pytest.mark.parametrize("length", [2, 10**6, {1: 0.5, 3: 0.5}])
def test_wrong_tokens_that_weigh_less_than_the_smallest_number(length):
    """exp(-1000) and exp(-1e6/8) are 0: the location is known, and so is the risk."""
    task = slr.Spiked(1e6, length=length)
    found = slr.best_elementwise_risk(task)
    assert 0 <= found <= 1e-280 and found.error <= 1e-280
    value = slr.risk(task, slr.Softmax(), m_k=1, q_k=1, m_v=0.5, q_v=0.5)
    assert abs(value - 0.5) < 1e-14 and value.error < 1e-14
