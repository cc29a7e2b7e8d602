"""Attention moments and risks at given overlaps: true errors are below the stated ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
from population_truth import (
    normalized_spiked,
    normalized_spiked_many,
    plain,
    within,
)

from theorykit import single_location as slr
from theorykit.numerics.quadrature import Options
from theorykit.single_location.moments import KeyMoments

INF = math.inf
KEYS = [(1.6, 3.6), (-0.5, 0.25), (0.0, 1.0), (2.0, 4.0), (0.5, 3.0)]


# ------------------------------------------------------------------------------------- elementwise, spiked: mpmath


def gaussian(a, s):
    """First two moments of relu of N(a, s^2)."""
    if s == 0:
        return max(a, mp.mpf(0)), max(a, mp.mpf(0)) ** 2
    h = a / s
    return a * mp.ncdf(h) + s * mp.npdf(h), (a * a + s * s) * mp.ncdf(h) + a * s * mp.npdf(h)


def absolute(a, s, offset=0):
    """First two moments of offset + |N(a, s^2)|."""
    up, down = gaussian(a, s)[0], gaussian(-a, s)[0]
    return offset + up + down, offset**2 + 2 * offset * (up + down) + a * a + s * s


def step(a, s):
    return mp.ncdf(a / s) if s else (mp.sign(a) + 1) / 2


def bell(a, q, curvature):
    """E exp(curvature x^2 / 2), x ~ N(a, q)."""
    return mp.exp(curvature * a * a / (2 * (1 - curvature * q))) / mp.sqrt(1 - curvature * q)


def steep_erf(a, s, slope):
    """1 + erf(slope x): Owen's T function for the square."""
    wide, tau = mp.sqrt(1 + 2 * (slope * s) ** 2), 1 / mp.sqrt(1 + 4 * (slope * s) ** 2)
    h = mp.sqrt(2) * slope * a / wide
    owen = mp.quad(lambda x: mp.exp(-h * h * (1 + x * x) / 2) / (1 + x * x), [0, tau / 2, tau]) / (2 * mp.pi)
    return 2 * mp.ncdf(h), 4 * (mp.ncdf(h) - 2 * owen)


@dataclass(frozen=True)
class Closed:
    """An activation whose first two moments under N(a, s^2) are closed."""

    formula: str
    moments: Callable
    largest: float = INF  # q_k beyond which the integrand outlasts the representable range


CLOSED = [
    Closed("1 + x", lambda a, s: (1 + a, (1 + a) ** 2 + s * s)),
    Closed("x**3", lambda a, s: (
        a**3 + 3 * a * s**2, a**6 + 15 * a**4 * s**2 + 45 * a**2 * s**4 + 15 * s**6)),
    Closed("exp(x)", lambda a, s: (mp.exp(a + s * s / 2), mp.exp(2 * a + 2 * s * s))),
    Closed("cos(x)", lambda a, s: (
        mp.cos(a) * mp.exp(-s * s / 2), (1 + mp.cos(2 * a) * mp.exp(-2 * s * s)) / 2)),
    Closed("sin(5*x)", lambda a, s: (
        mp.sin(5 * a) * mp.exp(-25 * s * s / 2), (1 - mp.cos(10 * a) * mp.exp(-50 * s * s)) / 2)),
    Closed("exp(-x**2)", lambda a, s: (bell(a, s * s, -2), bell(a, s * s, -4))),
    Closed("exp(x**2/20)", lambda a, s: (bell(a, s * s, mp.mpf("0.1")), bell(a, s * s, mp.mpf("0.2"))), largest=3.8),
    Closed("relu(x)", gaussian),
    Closed("abs(x) + 0.1", lambda a, s: absolute(a, s, mp.mpf("0.1"))),
    Closed("max(x, 1 - x)", lambda a, s: absolute(a - mp.mpf("0.5"), s, mp.mpf("0.5"))),
    Closed("sign(x)", lambda a, s: (2 * step(a, s) - 1, mp.mpf(1))),
    Closed("1 + sign(x - 0.3)", lambda a, s: (
        2 * step(a - mp.mpf("0.3"), s), 4 * step(a - mp.mpf("0.3"), s))),
    Closed("1 + erf(50*x)", lambda a, s: steep_erf(a, s, 50)),
    Closed("Phi(3*x)", lambda a, s: tuple(
        mp.mpf(w) * v for w, v in zip((0.5, 0.25), steep_erf(a, s, 3 / mp.sqrt(2)), strict=True))),
    Closed("7", lambda a, s: (mp.mpf(7), mp.mpf(49))),
    Closed("1e-9*x", lambda a, s: (a * mp.mpf("1e-9"), (a * a + s * s) * mp.mpf("1e-18"))),
]  # fmt: skip


@pytest.mark.parametrize("case", CLOSED, ids=lambda c: c.formula)
def test_elementwise_spiked_in_closed_form(case):
    activation = slr.Elementwise(case.formula)
    for nu in (1.0, 36.0):
        for m, q in [(m, q) for m, q in KEYS if q < case.largest]:
            with mp.workdps(30):
                spread = mp.sqrt(mp.mpf(q))
                first, hidden = case.moments(mp.sqrt(nu) * mp.mpf(m), spread)
                other = case.moments(mp.mpf(0), spread)[1]
                for length in (1, 10**6):
                    a, b = slr.attention_moments(slr.Spiked(nu, length), activation, m, q)
                    second = hidden + (length - 1) * other
                    scale = max(float(abs(first)), math.sqrt(float(hidden)))
                    assert within(a, first), (nu, m, q, length)
                    assert within(b, second), (nu, m, q, length)
                    assert a.error <= 1e-10 * max(1.0, scale)
                    assert b.error <= 1e-10 * max(1.0, float(second))


STEEP = {
    "1/(1 + exp(-30*x))": (lambda x: 1 / (1 + mp.exp(-30 * x)), [0]),
    "1 + tanh(50*(x - 1))": (lambda x: 1 + mp.tanh(50 * (x - 1)), [1]),
    "sigmoid(2*x) + 0.01*relu(x - 2)": (
        lambda x: 1 / (1 + mp.exp(-2 * x)) + mp.mpf("0.01") * max(x - 2, 0),
        [2],
    ),
    "softplus(10*x)": (lambda x: mp.log1p(mp.exp(10 * x)), [0]),
    "gelu(x)": (lambda x: x * mp.ncdf(x), [0]),
}


@pytest.mark.parametrize("formula", STEEP)
def test_elementwise_spiked_with_fronts(formula):
    f, breaks = STEEP[formula]
    for nu, m, q in ((4.0, 1.6, 3.6), (1.0, -0.5, 0.25), (4.0, 0.02, 4e-4)):
        with mp.workdps(20):
            mean, spread = mp.sqrt(nu) * mp.mpf(m), mp.sqrt(mp.mpf(q))
            ends = [mean - 11 * spread, mean + 11 * spread]
            near = [b + d / mp.mpf(10) for b in breaks for d in range(-5, 6)]
            points = sorted([*ends, mean, *(p for p in near if ends[0] < p < ends[1])])
            truth, square = (
                mp.quad(lambda x, k=k, a=mean, s=spread: f(x) ** k * mp.npdf(x, a, s), points) for k in (1, 2)
            )
        a, b = slr.attention_moments(slr.Spiked(nu, 1), slr.Elementwise(formula), m, q)
        assert within(a, truth, slack=1e-19)
        assert within(b, square, slack=1e-19)
        assert max(a.error, b.error / max(1.0, float(b))) < 1e-10


def test_a_root_at_its_branch_point_has_an_honest_error():
    """sqrt|x| is not smooth: the error is larger, and holds."""
    for m, q in ((1.6, 3.6), (0.0, 1.0), (-0.5, 0.25)):
        a, _ = slr.attention_moments(slr.Spiked(4, 2), slr.Elementwise("sqrt(abs(x))"), m, q)
        mean, spread = 2 * m, math.sqrt(q)
        ends = sorted([mean - 12 * spread, 0.0, mean, mean + 12 * spread])
        truth = mp.quad(lambda x: mp.sqrt(abs(x)) * mp.npdf(x, mean, spread), ends)  # noqa: B023
        assert within(a, truth)
        assert a.error < 1e-6


# ------------------------------------------------------------------------------------- normalized kernels, spiked


def kernel(text: str):
    """The attention with a kernel of this text."""
    return {"exp(x)": slr.Softmax(), "softplus(x)": slr.Softplus()}.get(text) or slr.NormalizedKernel(text)


SMOOTH = ["exp(x)", "softplus(x)", "1 + x**2", "1 + tanh(x)", "exp(-x)", "exp(x**2/20)", "2 + sin(3*x)", "3"]
SMOOTH += ["1e-8*exp(x)", "exp(-x**2) + 0.001"]


MORE = ("1 + tanh(x)", "exp(-x)", "exp(x**2/20)", "3")


@pytest.mark.parametrize("text", [pytest.param(k, marks=[pytest.mark.slow] * (k in MORE)) for k in SMOOTH])
def test_two_tokens_with_a_smooth_kernel(text):
    for nu, m, q in ((4.0, 1.6, 3.6), (1.0, -0.5, 0.25), (2.0, 0.0, 0.0)):
        truth = normalized_spiked(plain(text), nu, 2, m, q)
        found = slr.attention_moments(slr.Spiked(nu, 2), kernel(text), m, q)
        for estimate, value in zip(found, truth, strict=True):
            assert within(estimate, value, slack=2e-14)  # of the sum in double precision
            assert estimate.error < 1e-12


@pytest.mark.parametrize("text", ["exp(x)", "softplus(x)", "1 + x**2"])
def test_three_tokens_with_a_smooth_kernel(text):
    for nu, m, q in ((4.0, 1.6, 3.6), (1.0, -0.5, 0.25)):
        truth = normalized_spiked(plain(text), nu, 3, m, q)
        found = slr.attention_moments(slr.Spiked(nu, 3), kernel(text), m, q)
        for estimate, value in zip(found, truth, strict=True):
            assert within(estimate, value, slack=3e-14)
            assert estimate.error < 1e-12


KINKED = [
    "abs(x) + 0.1",
    "max(x, 1 - x)",
    "relu(x) + 0.01",
    "1.001 + erf(50*x)",
    "1/(1 + exp(-30*x)) + 0.001",
]
LAYER = tuple(
    sign * 10.0**-e for sign in (-1, 1) for e in (4, 3.5, 3, 2.5, 2, 1.5, 1, 0.5)
)  # steep in t b(x)
BREAKS = {
    "max(x, 1 - x)": tuple(0.5 + x for x in (0.0, *LAYER)),
    "1.001 + erf(50*x)": tuple(np.linspace(-0.12, 0.12, 13)),
}
BREAKS["1/(1 + exp(-30*x)) + 0.001"] = tuple(np.linspace(-1.2, 1.2, 25))


@pytest.mark.parametrize(
    "text", [pytest.param(k, marks=pytest.mark.slow) if "50" in k or "30" in k else k for k in KINKED]
)
def test_kernels_with_kinks_and_fronts(text):
    for nu, m, q, length in ((4.0, 1.6, 3.6, 2), (1.0, -0.5, 0.25, 5)):
        truth = normalized_spiked_many(plain(text), nu, length, m, q, BREAKS.get(text, (0.0, *LAYER)))
        found = slr.attention_moments(slr.Spiked(nu, length), kernel(text), m, q)
        for estimate, value in zip(found, truth, strict=True):
            assert within(estimate, value, slack=1e-12)
            assert estimate.error < 1e-9


@pytest.mark.parametrize("text", ["exp(x)", "softplus(x)", "1 + x**2", "abs(x) + 0.1"])
@pytest.mark.parametrize("length", [10, 10**6])
def test_long_sequences_with_any_kernel(text, length):
    nu, m, q = 4.0, 1.5, 2.5
    truth = normalized_spiked_many(plain(text), nu, length, m, q, (0.0, *LAYER))
    found = slr.attention_moments(slr.Spiked(nu, length), kernel(text), m, q)
    for estimate, value in zip(found, truth, strict=True):
        assert within(estimate, value, slack=1e-12 * value)
        assert estimate.error < 1e-12


# ------------------------------------------------------------------------------------- the risk is its moments


VALUES = [(0.8, 0.8), (-0.3, 0.2), (0.0, 0.0), (1.0, 1.0)]


@pytest.mark.parametrize(
    ("task", "activation"),
    [
        (slr.Spiked(4, 3, noise=0.3), slr.Erf(0.3)),
        (slr.Spiked(1, {1: 0.5, 4: 0.5}), slr.Softplus()),
        (slr.Max(2, 2, noise=0.5), slr.Softmax()),
    ],
    ids=repr,
)
def test_the_risk_on_the_manifold_is_quadratic_in_v(task, activation):
    """R = noise^2 + 1 - 2 m_v A + q_v B."""
    a, b = slr.attention_moments(task, activation, 1.5, 2.25)
    for m_v, q_v in VALUES:
        value = slr.risk(task, activation, m_k=1.5, q_k=2.25, m_v=m_v, q_v=q_v)
        truth = task.noise**2 + 1 - 2 * m_v * a.value + q_v * b.value
        assert (
            abs(value - truth)
            <= value.error + 2 * abs(m_v) * a.error + q_v * b.error + 4e-15 * q_v * b + 4e-15
        )
        excess = slr.risk(task, activation, 1.5, 2.25, m_v, q_v, excess=True)
        assert abs(value - excess - task.noise**2) <= value.error


def test_elementwise_moments_of_random_lengths_are_averages():
    law = {1: 0.2, 4: 0.5, 10**6: 0.3}
    for activation in (slr.Softplus(), slr.Erf(0.3), slr.Elementwise("1 + tanh(x)")):
        mixed = slr.attention_moments(slr.Spiked(2, law), activation, 0.9, 1.1)
        parts = {n: slr.attention_moments(slr.Spiked(2, n), activation, 0.9, 1.1) for n in law}
        for j in (0, 1):
            truth = mp.fsum(mp.mpf(p) * mp.mpf(parts[n][j].value) for n, p in law.items())
            assert within(mixed[j], truth, slack=1e-15 * float(truth))


def test_integrals_in_three_variables_at_their_own_accuracy_and_at_full_accuracy():
    task = slr.Max(nu=20.0, length=3)
    own, full = (
        KeyMoments(task, slr.Softmax(), aligned=True, options=options).at(1.2, 1.44)
        for options in (None, Options())
    )
    for name, value in own.items():
        assert full[name].error < value.error < 1e-11 * value  # the two are not the same grids
        assert abs(value - full[name]) <= value.error + full[name].error
