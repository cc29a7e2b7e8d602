"""Attention moments of the max task at given overlaps: true errors are below the stated ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from population_truth import (
    elementwise_max,
    normalized_max_of_two,
    plain,
    within,
)

from theorykit import single_location as slr

INF = math.inf


def kernel(text: str):
    """The attention with a kernel of this text."""
    return {"exp(x)": slr.Softmax(), "softplus(x)": slr.Softplus()}.get(text) or slr.NormalizedKernel(text)


@pytest.mark.parametrize("text", ["exp(x)", "softplus(x)"])
@pytest.mark.parametrize(("nu", "m"), [(0.5, -1.0), (2.0, 1.5), (INF, 2.0)])
def test_two_tokens_of_the_max_task(text, nu, m):
    truth = normalized_max_of_two(plain(text), nu, m, m * m)
    found = slr.attention_moments(slr.Max(nu, 2), kernel(text), m, m * m)
    for estimate, value in zip(found, truth, strict=True):
        assert within(estimate, value, slack=2e-14)
        assert estimate.error < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "nu", "m", "q"),
    [
        ("exp(x)", 2.0, 1.0, 3.0),
        ("exp(x)", 0.01, 0.01, 1.1e-4),
        ("softplus(x)", 0.5, -1.0, 1.5),
        ("1 + x**2", 2.0, 1.0, 3.0),
        ("softplus(x)", INF, 1.0, 2.0),
    ],
)
def test_two_tokens_of_the_max_task_with_any_key(text, nu, m, q):
    truth = normalized_max_of_two(plain(text), nu, m, q, step=0.15)
    found = slr.attention_moments(slr.Max(nu, 2), kernel(text), m, q)
    for estimate, value in zip(found, truth, strict=True):
        assert within(estimate, value, slack=1e-12)
        assert estimate.error < 1e-10


SMOOTH_ELEMENTWISE = {
    "1 + erf(0.3 + x)": (slr.Erf(0.3), lambda x: 1 + np.vectorize(math.erf)(0.3 + x)),
    "1 + x": (slr.Linear(), lambda x: 1 + x),
    "1 + tanh(x)": (slr.Elementwise("1 + tanh(x)"), lambda x: 1 + np.tanh(x)),
}


@pytest.mark.parametrize(
    ("name", "nu", "length", "m", "q"),
    [
        ("1 + erf(0.3 + x)", 4.0, 3, 1.5, 2.5),
        ("1 + erf(0.3 + x)", INF, 3, 0.5, 0.25),
        ("1 + x", 0.5, 2, -1.0, 1.0),
        ("1 + x", INF, 4, -0.6, 1.0),
        ("1 + tanh(x)", 2.0, 10**6, 0.7, 0.49),
        ("1 + tanh(x)", 0.5, 2, -1.0, 1.0),
        ("1 + tanh(x)", INF, 4, -0.6, 1.0),
    ],
)
def test_elementwise_activations_of_the_max_task(name, nu, length, m, q):
    activation, f = SMOOTH_ELEMENTWISE[name]
    truth = elementwise_max(f, nu, length, m, q)
    found = slr.attention_moments(slr.Max(nu, length), activation, m, q)
    for estimate, value in zip(found, truth, strict=True):
        assert within(estimate, value, slack=3e-13 * abs(value))
        assert estimate.error <= 1e-11 * max(1.0, abs(value))


def pairs_of_fields(nu):
    """Two fields, probability of the first one to be hidden, and weights of a sum over both fields."""
    halves, weights = np.polynomial.legendre.leggauss(16)
    edges = np.concatenate([-np.geomspace(9, 1e-3 / nu, 160), np.geomspace(1e-3 / nu, 9, 160)])
    half = np.diff(edges)[:, None] / 2
    d = (edges[:-1, None] + half + half * halves).ravel()
    mean = np.linspace(-9, 9, 721)[:, None]
    law = (half * weights).ravel() * np.exp(-d * d / 2) * np.exp(-mean * mean / 2) * (18 / 720) / (2 * np.pi)
    own = 1 / (1 + np.exp(-np.clip(math.sqrt(2) * nu * d, -700, 700)))
    return (mean + d) / math.sqrt(2), (mean - d) / math.sqrt(2), own, law


def normalized_of_two(nu, m_k, kernel):
    """(A, B) of the max task at two tokens with an aligned key."""
    one, two, own, law = pairs_of_fields(nu)
    share = kernel(m_k * one) / (kernel(m_k * one) + kernel(m_k * two))
    hidden = own * share + (1 - own) * (1 - share)
    return float(np.sum(law * hidden)), float(np.sum(law * (share**2 + (1 - share) ** 2)))


def elementwise_of_two(nu, m_k, weight):
    """The same for weights of single tokens."""
    one, two, own, law = pairs_of_fields(nu)
    first, second = weight(m_k * one), weight(m_k * two)
    return float(np.sum(law * (own * first + (1 - own) * second))), float(
        np.sum(law * (first**2 + second**2))
    )


@pytest.mark.parametrize("nu", [*(pytest.param(nu, marks=pytest.mark.slow) for nu in (20.0, 30.0)), 1e4])
def test_strong_signals_of_the_max_task(nu):
    """Softplus attention where the location is all but the largest field."""
    A, B = slr.attention_moments(slr.Max(nu, 2), slr.Softplus(), 3.0, 9.0)
    expected = normalized_of_two(nu, 3.0, lambda x: np.logaddexp(0, x))
    assert abs(A - expected[0]) <= A.error + 1e-13
    assert abs(B - expected[1]) <= B.error + 1e-13
    assert max(A.error, B.error) < 1e-11


@pytest.mark.parametrize("nu", [20.0, 400.0, 1e4])
def test_elementwise_weights_at_strong_signals(nu):
    A, B = slr.attention_moments(slr.Max(nu, 2), slr.Elementwise("1 + tanh(x)"), 1.5, 2.25)
    expected = elementwise_of_two(nu, 1.5, lambda x: 1 + np.tanh(x))
    assert abs(A - expected[0]) <= A.error + 1e-13
    assert abs(B - expected[1]) <= B.error + 1e-13
    assert max(A.error, B.error) < 1e-12


@pytest.mark.parametrize("length", [3, 10**6])
@pytest.mark.parametrize("nu", [20.0, 1e4])
def test_linear_attention_at_strong_signals(nu, length):
    """A = 1 + m mu, B = L (1 + m^2) and the least risk 1 - (1 + mu^2)/L, with mu = nu E_B."""
    task = slr.Max(nu, length)
    mu = nu * slr.bayes_risk(task)
    A, B = slr.attention_moments(task, slr.Linear(), 0.7, 0.49)
    assert abs(A - 1 - 0.7 * mu) <= A.error + 1e-13
    assert abs(B - 1.49 * length) <= B.error + 1e-13 * length
    assert slr.optimal_risk(task, slr.Linear()).risk == pytest.approx(1 - (1 + mu**2) / length, abs=1e-13)


def kinked_of_two(nu, m_k, q_k, kernel, kink):
    """(A, B) of the max task at two tokens: a sum over both scores, split at the kink, and the rest of the fields."""
    halves, weights = np.polynomial.legendre.leggauss(20)
    edges = np.unique([*np.linspace(-9, 9, 41), kink / math.sqrt(q_k)])
    half = np.diff(edges)[:, None] / 2
    g = (edges[:-1, None] + half + half * halves).ravel()
    law = (half * weights).ravel() * np.exp(-g * g / 2) / math.sqrt(2 * math.pi)
    along = m_k / math.sqrt(q_k)
    rest = np.linspace(-9, 9, 361)[:, None, None] * math.sqrt(2 * (1 - along**2))
    density = np.exp(-(np.linspace(-9, 9, 361) ** 2) / 2) / math.sqrt(2 * math.pi) * (18 / 360)
    own = np.zeros((g.size, g.size))
    for field, weight in zip(rest, density, strict=True):
        own += weight / (1 + np.exp(-nu * (along * (g[:, None] - g) + field)))
    values = kernel(math.sqrt(q_k) * g)
    share = values[:, None] / (values[:, None] + values)
    both = law[:, None] * law
    hidden = own * share + (1 - own) * (1 - share)
    return float(np.sum(both * hidden)), float(np.sum(both * (share**2 + (1 - share) ** 2)))


@pytest.mark.parametrize(
    "nu, m_k, q_k", [(4.0, 0.5, 1.0), pytest.param(2.0, 1.5, 3.0, marks=pytest.mark.slow)]
)
def test_kinked_kernels_of_any_key_of_the_max_task(nu, m_k, q_k):
    A, B = slr.attention_moments(slr.Max(nu, 2), slr.NormalizedKernel("0.2 + abs(x - 0.5)"), m_k, q_k)
    expected = kinked_of_two(nu, m_k, q_k, lambda x: 0.2 + abs(x - 0.5), 0.5)
    assert abs(A - expected[0]) <= A.error + 1e-13
    assert abs(B - expected[1]) <= B.error + 1e-13
    assert max(A.error, B.error) < 1e-12
