"""Two weights of one field, one of them as the variable: against sums over the fields."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

from theorykit import single_location as slr
from theorykit.derivations.joint_weights import over_joint_weights
from theorykit.derivations.nodes import HalfLine
from theorykit.errors import DerivationError


def brute_moments(nu: float, m_k: float) -> tuple[float, float]:
    """(A, B) of softmax weights of two tokens, by a trapezoid sum over the difference of the fields, of variance 2."""
    step = 1e-5
    d = step * np.arange(-1_300_000, 1_300_001)
    density = np.exp(-(d**2) / 4) / np.sqrt(4 * np.pi) * step
    location, weight = (0.5 * (1 + np.tanh(c * d / 2)) for c in (nu, m_k))
    a = location * weight + (1 - location) * (1 - weight)
    return float(density @ a), float(density @ (weight**2 + (1 - weight) ** 2))


@pytest.mark.parametrize(
    ("nu", "m_k"),
    [
        (13, 13),
        (20, 60),
        (60, 20),
        (30, 4),
        (4, 30),
        (100, 300),
        (300, 40),
        (4, 40),
        (1.3, 40),
        (0.5, 20),
        (8, 100),
    ],
)
def test_two_tokens(nu, m_k):
    expected = brute_moments(nu, m_k)
    found = slr.attention_moments(slr.Max(nu, length=2), slr.Softmax(), m_k=m_k, q_k=m_k**2)
    for value, truth in zip(found, expected, strict=True):
        assert value.error < 1e-12
        assert abs(value - truth) < value.error + 1e-13


@pytest.mark.parametrize("length", [3, 1000, 10**6])
def test_where_the_other_weight_becomes_the_variable(length):
    """The moments are smooth in the key; on both sides of m_k = nu they come from different integrals."""
    task = slr.Max(40, length=length)
    keys = 40 * (1 + 1e-3 * np.array([-3.0, -1.0, 1.0, 3.0]))
    values = [float(slr.attention_moments(task, slr.Softmax(), m_k=k, q_k=k * k)[0]) for k in keys]
    assert abs(np.diff(values, 3)[0]) < 1e-8 * values[0]


@pytest.mark.parametrize("length", [2, 5])
@pytest.mark.parametrize("m_k", [11.9, 6.0])
def test_against_the_integral_over_the_field(length, m_k):
    """A signal just above and just below 12: joint weights against the field as the variable, smooth in nu."""
    moments = [
        float(slr.attention_moments(slr.Max(nu, length=length), slr.Softmax(), m_k=m_k, q_k=m_k**2)[0])
        for nu in (11.997, 11.999, 12.001, 12.003)
    ]
    assert abs(np.diff(moments, 3)[0]) < 1e-10


@pytest.mark.parametrize("length", [3, 1000])
def test_long_keys_at_a_weak_signal(length):
    """The same border crossed by the key, far longer than the signal is strong."""
    task = slr.Max(1.0, length=length)
    found = [slr.attention_moments(task, slr.Softmax(), k, k * k) for k in (11.997, 11.999, 12.001, 12.003)]
    for moments in np.array(found).T:
        assert abs(np.diff(moments, 3)[0]) < 1e-10
    without_signal = slr.attention_moments(task.replace(nu=0), slr.Softmax(), 40, 1600)
    assert abs(without_signal.A - 1 / length) < without_signal.A.error + 1e-13


@pytest.mark.parametrize("nu", [12.5, 16, 17])
def test_the_key_of_the_posterior_is_bayes_at_the_longest_sequence(nu):
    task = slr.Max(nu, length=10**6)
    bayes, found = slr.bayes_risk(task), slr.risk(task, slr.Softmax(), nu, nu * nu, 1, 1)
    assert abs(found - bayes) <= found.error + bayes.error
    assert found.error < 1e-10


def test_only_integrals_over_both_laplace_variables():
    s, t = sp.symbols("s t", positive=True)
    x = sp.Symbol("x", real=True)
    with pytest.raises(DerivationError, match="not an integral over s and t"):
        over_joint_weights(HalfLine(sp.exp(-s), s), {s: 3, t: 2}, s, x)
    with pytest.raises(DerivationError, match="not one hidden token"):
        over_joint_weights(HalfLine(HalfLine(sp.exp(-s - t), s), t), {s: 3, t: 2}, s, x)
