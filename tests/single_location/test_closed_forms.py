"""Derivations in closed form: every number known by other means.

Values in tables are those of the theory (digits shown are converged); the rest is computed here by quadrature or
minimization of formulas that are written down independently.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import sympy as sp
from scipy import integrate, optimize, special

from theorykit.codegen import compile_record
from theorykit.derivations.ledger import Derivation
from theorykit.derivations.single_location.best_elementwise import derive_best_elementwise
from theorykit.derivations.single_location.erf import derive_erf
from theorykit.derivations.single_location.hidden_field import derive_hidden_field
from theorykit.derivations.single_location.linear import derive_linear
from theorykit.derivations.single_location.moments import derive_elementwise_moments

DERIVATIONS = {
    "hidden field, max": lambda: derive_hidden_field("max"),
    "hidden field, max infinite": lambda: derive_hidden_field("max_infinite"),
    "linear, spiked": lambda: derive_linear("spiked"),
    "linear, max": lambda: derive_linear("max"),
    "erf, spiked": lambda: derive_erf("spiked"),
    "best elementwise, spiked": lambda: derive_best_elementwise("spiked"),
    "best elementwise, max": lambda: derive_best_elementwise("max"),
    "best elementwise, max infinite": lambda: derive_best_elementwise("max_infinite"),
}


@cache
def derived(name: str) -> Derivation:
    return DERIVATIONS[name]()


@cache
def program(name: str):
    return compile_record(derived(name).equations)


@pytest.mark.parametrize(
    "call",
    [
        lambda: derive_hidden_field("spiked"),
        lambda: derive_linear("max_infinite"),
        lambda: derive_erf("max"),
        lambda: derive_best_elementwise("maximum"),
    ],
)
def test_unknown_task_is_refused(call):
    with pytest.raises(ValueError, match="task must be"):
        call()


# ----------------------------------------------------------------- mean field of the hidden token


@pytest.mark.parametrize("length", [2, 3, 10, 10**6])
def test_largest_field_against_the_mean_of_its_density(length):
    """The mean of the maximum by parts of its distribution function, at 40 digits."""
    with mpmath.workdps(40):
        above = mpmath.quad(lambda x: 1 - mpmath.ncdf(x) ** length, [0, 1, 2, 3, 4, 5, 6, 7, 9, 14])
        below = mpmath.quad(lambda x: mpmath.ncdf(-x) ** length, [0, 1, 2, 4, 8, 14])
        exact = above - below
    found = program("hidden field, max infinite").values({"L": length})["mu"]
    assert abs(found - exact) <= found.error + 1e-16 * float(exact)
    assert found.error < 1e-13


@pytest.mark.parametrize("nu", [0.0, 0.3, 2.0, 15.0])
def test_mean_field_of_two_tokens(nu):
    """At L = 2 it is E[d tanh(nu d)] for the half difference d of the fields, of variance 1/2."""
    with mpmath.workdps(30):
        knots = [0, 0.01, 0.1, 1, 2, 4, 12]
        law = lambda d: mpmath.exp(-d * d) / mpmath.sqrt(mpmath.pi)  # noqa: E731
        exact = 2 * mpmath.quad(lambda d: law(d) * d * mpmath.tanh(nu * d), knots)
    found = program("hidden field, max").values({"nu": nu, "L": 2})["mu"]
    assert abs(found - exact) <= found.error + 1e-16


def test_mean_field_is_nu_times_the_bayes_risk():
    values = program("hidden field, max").values
    assert values({"nu": 2, "L": 2})["mu"] == pytest.approx(2 * 0.240012127168, abs=1e-12)
    assert values({"nu": 4, "L": 3})["mu"] == pytest.approx(4 * 0.201056739779, abs=4e-12)
    assert values({"nu": 2, "L": 10**6})["mu"] == pytest.approx(2 * 0.999945685077, abs=2e-12)


# ----------------------------------------------------------------- linear attention


def linear_excess(overlaps: np.ndarray, nu: float | None, length: float, mu: float = 0.0) -> float:
    """1 - 2 m_v A + q_v B with A, B of linear attention, written down anew; nu None: the max task."""
    m_k, r_k, m_v, r_v = overlaps
    q_k, q_v = m_k**2 + r_k**2, m_v**2 + r_v**2
    if nu is None:
        return 1 - 2 * m_v * (1 + mu * m_k) + q_v * length * (1 + q_k)
    shift = math.sqrt(nu) * m_k
    return 1 - 2 * m_v * (1 + shift) + q_v * (length * (1 + q_k) + shift**2 + 2 * shift)


@pytest.mark.parametrize(("nu", "length"), [(0.5, 2), (4, 3), (9, 2.4), (100, 50)])
def test_spiked_linear_minimum_by_brute_force(nu, length):
    found = program("linear, spiked").values({"nu": nu, "L": length, "m_k": 0, "q_k": 0, "m_v": 0})
    at = [found["best_m_k"], 0.0, found["best_m_v"], 0.0]
    assert linear_excess(at, nu, length) == pytest.approx(found["best_excess"], rel=1e-12)
    assert found["best_q_k"] == pytest.approx(found["best_m_k"] ** 2, rel=1e-14)
    starts = np.random.default_rng(7).normal(size=(6, 4))
    least = min(optimize.minimize(linear_excess, s, (nu, length), tol=1e-14).fun for s in starts)
    assert least == pytest.approx(found["best_excess"], abs=1e-9)


@pytest.mark.parametrize(("mu", "length"), [(0.0, 4), (0.8, 3), (1.9, 7.5)])
def test_max_linear_minimum_by_brute_force(mu, length):
    found = program("linear, max").values({"mu": mu, "L": length, "m_k": 0, "q_k": 0})
    at = [found["best_m_k"], 0.0, found["best_m_v"], 0.0]
    assert linear_excess(at, None, length, mu) == pytest.approx(found["best_excess"], rel=1e-12)
    starts = np.random.default_rng(8).normal(size=(6, 4))
    least = min(optimize.minimize(linear_excess, s, (None, length, mu), tol=1e-14).fun for s in starts)
    assert least == pytest.approx(found["best_excess"], abs=1e-9)


def test_coefficients_of_the_squares_are_positive():
    """What makes the stationary point the minimum: every coefficient of a square is positive."""
    derivation = derived("linear, spiked")
    (step,) = [s for s in derivation.steps if s.name == "sum of squares (best excess)"]
    objective = step.rhs.objective
    names = sorted(s.name for s in objective.free_symbols)
    symbols = sorted(objective.free_symbols, key=lambda s: s.name)
    terms = sp.lambdify(symbols, list(objective.args), "numpy")
    draw = np.random.default_rng(3)
    values = {n: np.abs(draw.normal(size=500)) * 3 if n in ("nu", "r_k", "r_v") else draw.normal(size=500)
              for n in names}  # fmt: skip
    values["L"] = draw.integers(2, 50, size=500).astype(float)
    assert len(objective.args) == 5
    assert all(np.all(np.asarray(t) >= 0) for t in terms(*[values[n] for n in names]))


def test_linear_reference_values():
    spiked = program("linear, spiked").values({"nu": 4, "L": 3, "m_k": 0, "q_k": 0, "m_v": 0})
    assert spiked["best_excess"] == pytest.approx(6 / 17, rel=1e-15)
    mu = program("hidden field, max infinite").values({"L": 3})["mu"]
    maximal = program("linear, max").values({"mu": mu, "L": 3, "m_k": 0, "q_k": 0})
    assert maximal["best_excess"] == pytest.approx(0.427934252029, abs=1e-12)
    mu = program("hidden field, max").values({"nu": 4, "L": 3})["mu"]
    maximal = program("linear, max").values({"mu": mu, "L": 3, "m_k": 0, "q_k": 0})
    assert maximal["best_excess"] == pytest.approx(0.451072999410, abs=1e-12)


def test_linear_moments_against_the_general_activation():
    point = {"nu": 2.5, "L": 4, "m_k": 0.7, "q_k": 1.3, "m_v": 0.2}
    general = compile_record(derive_elementwise_moments("spiked", "1 + x").equations).values(point)
    closed = program("linear, spiked").values(point)
    for name in ("A", "power", "leak", "residual"):
        assert closed[name] == pytest.approx(general[name], rel=1e-12)
    assert closed["B"] == pytest.approx(closed["power"] + closed["leak"], rel=1e-14)


# ----------------------------------------------------------------- sigmoidal attention

ERF_POINTS = [
    {"nu": 4.0, "L": 3, "m_k": 0.9, "q_k": 1.4, "m_v": 0.4, "shift": -0.8},
    {"nu": 1.0, "L": 2.5, "m_k": -0.5, "q_k": 0.3, "m_v": 0.7, "shift": 0.4},
    {"nu": 25.0, "L": 100, "m_k": 3.0, "q_k": 9.5, "m_v": 0.5, "shift": -7.0},
]


@pytest.mark.parametrize("point", ERF_POINTS)
def test_erf_moments_against_quadrature(point):
    found = program("erf, spiked").values(point)

    def average(function, offset):
        width = math.sqrt(point["q_k"])
        front = -(point["shift"] + offset) / width

        def density(x):
            sigma = special.erfc(-(point["shift"] + offset + width * x))
            return function(sigma) * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

        knots = sorted({-12.0, min(max(front, -11.0), 11.0), 0.0, 12.0})
        parts = [integrate.quad(density, a, b, epsabs=0, epsrel=1e-13, limit=400)[0]
                 for a, b in pairwise(knots)]  # fmt: skip
        return math.fsum(parts)

    signal = math.sqrt(point["nu"]) * point["m_k"]
    expected = {
        "A": average(lambda s: s, signal),
        "power": average(lambda s: s * s, signal),
        "leak": (point["L"] - 1) * average(lambda s: s * s, 0.0),
        "residual": average(lambda s: (1 - point["m_v"] * s) ** 2, signal),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-11), name


@pytest.mark.parametrize("point", ERF_POINTS)
def test_erf_and_general_activation_are_interchangeable(point):
    record = derive_elementwise_moments("spiked", "1 + erf(x)", shifted=True).equations
    general = compile_record(record)
    closed = program("erf, spiked")
    assert closed.parameters == general.parameters
    assert set(closed.layout["observables"]) == set(general.layout["observables"])
    one, other = closed.values(point), general.values(point)
    for name in one:
        assert one[name] == pytest.approx(other[name], rel=1e-11), name


def test_erf_residual_keeps_its_digits_where_it_is_tiny():
    point = {"nu": 400.0, "L": 3, "m_k": 8.0, "q_k": 64.0, "m_v": 0.5, "shift": -80.0}
    exact = derived("erf, spiked").equations.evaluate(point, 40)
    found = program("erf, spiked").values(point)
    assert 1e-24 < found["residual"] < 1e-23
    for name in ("residual", "leak"):
        assert abs(found[name] / exact[name] - 1) < 1e-12


def test_erf_reference_minima():
    def excess(m_k, shift, length):
        v = program("erf, spiked").values(
            {"nu": 4, "L": length, "m_k": m_k, "q_k": m_k**2, "m_v": 0, "shift": shift}
        )
        return 1 - v["A"] ** 2 / (v["power"] + v["leak"])

    assert excess(0.655310769, 0.0, 2) == pytest.approx(0.291823186783, abs=1e-12)
    assert excess(0.844068088, -1.128735717, 3) == pytest.approx(0.310356747563, abs=1e-12)


# ----------------------------------------------------------------- best elementwise activation


@pytest.mark.parametrize(("nu", "length"), [(0.0, 4), (1.0, 2), (4.0, 3), (4.0, 2.5), (30.0, 10**6)])
def test_spiked_best_activation_by_least_squares_on_a_grid(nu, length):
    """Cauchy-Schwarz on a fine grid: 1 - sum of p1^2/((L - 1) p0 + p1)."""
    root = math.sqrt(nu)
    x, step = np.linspace(-12.0, 12.0 + root, 60001, retstep=True)
    p0, p1 = (np.exp(-((x - c) ** 2) / 2) / math.sqrt(2 * math.pi) for c in (0.0, root))
    missed = (length - 1) * p0 * p1 / ((length - 1) * p0 + p1)
    found = program("best elementwise, spiked").values({"nu": nu, "L": length})["best_excess"]
    assert found == pytest.approx(np.sum(missed) * step, rel=1e-12)


def test_spiked_best_activation_reference_and_corners():
    values = program("best elementwise, spiked").values
    assert values({"nu": 4, "L": 3})["best_excess"] == pytest.approx(0.310232212489, abs=1e-12)
    assert values({"nu": 4, "L": 1})["best_excess"] == 0.0
    assert values({"nu": 0, "L": 1})["best_excess"] == 0.0


def test_spiked_best_activation_beats_erf_and_linear():
    best = program("best elementwise, spiked").values({"nu": 4, "L": 3})["best_excess"]
    assert best < 0.310356747563
    assert 0.310356747563 - best < 2e-4


def density_ratio(x: np.ndarray, nu: float, length: int) -> np.ndarray:
    """h(x) = L P(token with field x is the hidden one), by Gauss-Hermite over the other fields."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / math.sqrt(2 * math.pi)
    if length == 1:
        return np.ones_like(x)
    if length == 2:
        return 2 * special.expit(nu * (x[:, None] - nodes)) @ weights
    both = np.exp(nu * nodes)[:, None] + np.exp(nu * nodes)
    share = np.exp(nu * x)[:, None, None] / (np.exp(nu * x)[:, None, None] + both)
    return 3 * (share @ weights @ weights)


@pytest.mark.parametrize("nu", [0.4, 1.0])
@pytest.mark.parametrize(("length", "other"), [(1, 3), (2, 2), (2, 3), (3, 3)])
def test_overlap_of_two_lengths_by_brute_force(nu, length, other):
    x, step = np.linspace(-10, 10, 801, retstep=True)
    law = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * step
    exact = np.sum(law * density_ratio(x, nu, length) * density_ratio(x, nu, other))
    found = program("best elementwise, max").values({"nu": nu, "L": length, "L_other": other})["overlap"]
    assert found == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("nu", [0.5, 3.0, 12.0])
def test_overlap_is_symmetric_and_between_no_and_full_signal(nu):
    values = program("best elementwise, max").values
    one, other = (values({"nu": nu, "L": a, "L_other": b})["overlap"] for a, b in ((2, 50), (50, 2)))
    assert one == pytest.approx(other, rel=1e-12)
    assert 1 < one < 2 * 50 / 51


@pytest.mark.parametrize(("length", "other"), [(1, 1), (2, 5), (3, 3), (40, 1)])
def test_overlap_tends_to_the_closed_form_of_the_argmax(length, other):
    limit = program("best elementwise, max infinite").values({"L": length, "L_other": other})["overlap"]
    assert limit == pytest.approx(length * other / (length + other - 1), rel=1e-15)
    near = [
        limit - program("best elementwise, max").values({"nu": nu, "L": length, "L_other": other})["overlap"]
        for nu in (10.0, 20.0)
    ]
    assert all(abs(gap) < 1e-13 for gap in near) if 1 in (length, other) else near[0] > near[1] > 0


def test_random_length_by_least_squares_over_functions():
    """Unif{1, 2, 3}: the best S on a grid against the sum over pairs of lengths, both tasks of the max kind."""
    share = {1: 1 / 3, 2: 1 / 3, 3: 1 / 3}
    x, step = np.linspace(-10, 10, 801, retstep=True)
    law = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * step
    basis = np.array([special.eval_hermitenorm(k, x) / math.sqrt(math.factorial(k)) for k in range(45)])
    cases = {
        "best elementwise, max": lambda n: density_ratio(x, 0.8, n),
        "best elementwise, max infinite": lambda n: n * special.ndtr(x) ** (n - 1),
    }
    found = {}
    for name, ratio in cases.items():
        mixed = sum(p * ratio(n) for n, p in share.items())
        # E[1 - 2 h S + (E L) S^2] as a quadratic form in the Hermite coefficients of S
        form, slope = 2 * (basis * law) @ basis.T, (basis * law) @ mixed
        least = 1 - slope @ np.linalg.solve(form, slope)
        pairs = sum(
            p * q * program(name).values({"nu": 0.8, "L": a, "L_other": b})["overlap"]
            for a, p in share.items()
            for b, q in share.items()
        )
        found[name] = 1 - pairs / 2
        assert found[name] == pytest.approx(least, abs=1e-9)
    assert found["best elementwise, max infinite"] == pytest.approx(0.381481481481, abs=1e-12)


def test_long_sequences_at_finite_signal():
    """As L grows the hidden field becomes N(nu, 1), so that the overlap tends to exp(nu^2)."""
    values = program("best elementwise, max").values
    gaps = [math.e - values({"nu": 1.0, "L": n, "L_other": n})["overlap"] for n in (10**4, 10**5, 10**6)]
    assert gaps[0] > gaps[1] > gaps[2] > 0
    assert gaps[2] < 1e-4
    assert gaps[0] / gaps[1] == pytest.approx(10, rel=0.05)
