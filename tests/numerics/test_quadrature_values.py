"""Known integrals: the stated error holds and is small, for each kind of node and for steep integrands."""

from __future__ import annotations

import functools
import math
import random

import mpmath
import pytest
import sympy as sp

from theorykit.codegen import compile_record
from theorykit.derivations.nodes import Expectation, HalfLine, TokenPower, TruncatedExpectation
from theorykit.derivations.special import gamma_weight, normal_cdf

a, b, x, y = sp.symbols("a b x y", real=True)
n, s, t = sp.symbols("n s t", positive=True)
mp = mpmath.mp


def _gauss(function, *breaks, reach=14):
    """E f(x) by tanh-sinh between whole numbers and the given breaks."""
    grid = sorted({mpmath.mpf(k) for k in range(-reach, reach + 1)} | {mpmath.mpf(k) for k in breaks})
    return mpmath.quad(lambda u: mpmath.npdf(u) * function(u), grid)


def _front(slope, centre):
    """Where to cut the integral of a steep sigmoid."""
    return [mpmath.mpf(centre) + k / mpmath.mpf(slope) for k in (-40, -10, -3, 0, 3, 10, 40)]


def _sigmoid(u):
    return 1 / (1 + mpmath.exp(-u))


def _laplace(power):
    """One token of the weights exp(a x) under the Laplace variable t."""
    return Expectation(gamma_weight(t * sp.exp(a * x), power), x)


OTHERS = TokenPower(_laplace(0), n - 1)
BELOW = TruncatedExpectation(sp.exp(b * y), y, x)
RAMP_BELOW = TruncatedExpectation(sp.Abs(y - a), y, x)

# name -> (expression, breakpoints, truth at the parameters, points, largest relative error stated)
CASES = {
    "exponential": (
        Expectation(sp.exp(a * x), x),
        {},
        lambda a: mpmath.exp(a**2 / 2),
        [{"a": v} for v in (0, 1, -3, 8, 15, 20, 22)],
        1e-12,
    ),
    "oscillation": (
        Expectation(1 + sp.cos(a * x), x),
        {},
        lambda a: 1 + mpmath.exp(-(a**2) / 2),
        [{"a": v} for v in (0.5, 6, 40, 150)],
        1e-13,
    ),
    "steep front": (
        Expectation(1 / (1 + sp.exp(-a * (x - b))), x),
        {},
        lambda a, b: _gauss(lambda u: _sigmoid(a * (u - b)), *_front(a, b)),
        [{"a": v, "b": w} for v, w in ((1, 0.5), (10, -2), (40, 0.3), (40, 2.9), (500, 1.7))],
        1e-12,
    ),
    "double exponential": (
        Expectation(sp.exp(-sp.exp(a * x)), x),
        {},
        lambda a: _gauss(lambda u: mpmath.exp(-mpmath.exp(a * u)), *_front(a, 0)),
        [{"a": v} for v in (1, 7, 40, 200)],
        1e-12,
    ),
    "kink with a breakpoint": (
        Expectation(sp.Max(x - a, 0) + sp.Abs(x + 2 * a), x),
        {x: (a, -2 * a)},
        lambda a: (
            mpmath.npdf(a)
            - a * mpmath.ncdf(-a)
            + 2 * mpmath.npdf(2 * a)
            + 2 * a * (2 * mpmath.ncdf(2 * a) - 1)
        ),
        [{"a": v} for v in (0, 0.3, -1.234, 1.0, 1 / 3, 5.2)],
        1e-13,
    ),
    "jump with a breakpoint": (
        Expectation(sp.Piecewise((sp.exp(x), x > a), (0, True)), x),
        {x: (a,)},
        lambda a: mpmath.exp(mpmath.mpf("0.5")) * mpmath.ncdf(1 - a),
        [{"a": v} for v in (-4, 0.123, 2.5)],
        1e-13,
    ),
    "two Gaussian variables": (
        Expectation(1 / (1 + sp.exp(a * x + b * y)), [x, y])
        + Expectation(sp.exp(-((a * x - y) ** 2)), [x, y]),
        {},
        lambda a, b: mpmath.mpf("0.5") + 1 / mpmath.sqrt(3 + 2 * a**2),
        [{"a": v, "b": w} for v, w in ((0.7, 1.1), (3, -2))],
        1e-12,
    ),
    "half-line": (
        HalfLine(t ** (a - 1) * sp.exp(-t) / (1 + b * t), t),
        {},
        lambda a, b: mpmath.gamma(a) * mpmath.hyperu(a, a, 1 / b) / b**a,
        [{"a": v, "b": w} for v, w in ((1, 1), (0.2, 3), (3.5, 0.01), (1, 50))],
        1e-12,
    ),
    "power tails": (
        HalfLine((1 + t) ** (-1 - a), t),
        {},
        lambda a: 1 / a,
        [{"a": v} for v in (2, 0.5, 0.1, 0.06)],
        1e-12,
    ),
    "Laplace form of a constant": (
        HalfLine(_laplace(1) / t, t),
        {},
        lambda a: mpmath.mpf(1),
        [{"a": v} for v in (0.1, 1, 10, 40)],
        1e-12,
    ),
    "share of one token": (
        HalfLine(_laplace(1) * OTHERS / t, t),
        {},
        lambda a, n: 1 / n,
        [{"a": v, "n": k} for v, k in ((0.5, 2), (3, 3), (1, 1000), (5, 10**6), (0, 7), (2, 1))],
        1e-12,
    ),
    "sum of squared shares": (
        n * HalfLine(_laplace(2) * OTHERS / t, t),
        {},
        lambda a, n: _gauss(lambda u: _sigmoid(mpmath.sqrt(2) * a * u) ** 2 * 2, *_front(a + 1, 0)),
        [{"a": v, "n": 2} for v in (0.3, 2, 12)],
        1e-12,
    ),
    "below the largest": (
        Expectation(BELOW**2 * x**2, x),
        {},
        lambda b: mpmath.exp(b**2) * _gauss(lambda u: u**2 * mpmath.ncdf(u - b) ** 2),
        [{"b": v} for v in (0.0, 0.8, -2.5, 4)],
        1e-12,
    ),
    "kink below the largest": (
        Expectation(RAMP_BELOW, x),
        {y: (a,)},
        lambda a: _gauss(lambda u: abs(u - a) * mpmath.ncdf(-u), a),
        [{"a": v} for v in (0.0, 0.37, -1.9)],
        1e-13,
    ),
    "largest of many": (
        n * Expectation(TokenPower(normal_cdf(x), n - 1), x),
        {},
        lambda n: mpmath.mpf(1),
        [{"n": k} for k in (2, 50, 10**6)],
        1e-12,
    ),
    "two half-lines": (
        HalfLine(
            sp.exp(-s)
            * HalfLine(
                sp.exp(-t) * Expectation(sp.exp((a + b) * x - s * sp.exp(a * x) - t * sp.exp(b * x)), x), t
            ),
            s,
        ),
        {},
        lambda a, b: _gauss(lambda u: _sigmoid(a * u) * _sigmoid(b * u)),
        [{"a": v, "b": w} for v, w in ((1, 1), (0.5, -2))],
        1e-12,
    ),
    "two half-lines and a term of one": (
        HalfLine(
            HalfLine(
                sp.exp(-s - t)
                * Expectation(sp.exp(-s * sp.exp(a * x)) * (1 + sp.exp(-t * sp.exp(b * x))), x),
                t,
            ),
            s,
        ),
        {},
        lambda a, b: _gauss(lambda u: _sigmoid(-a * u) * (1 + _sigmoid(-b * u))),
        [{"a": 0.5, "b": -2}],
        1e-12,
    ),
}


def test_a_variable_that_is_both_outermost_and_inside(record_of):
    """Where t is the outer variable it lives at other values than where it is summed over first."""
    outer = HalfLine(sp.exp(-t * sp.exp(30)) * sp.exp(30), t)
    inside = HalfLine(sp.exp(-s) * HalfLine(sp.exp(-t * (1 + s)), t), s)
    program = compile_record(record_of("both", outer=outer, inside=inside))
    found = program.values({})
    with mpmath.workdps(30):
        assert abs(mpmath.mpf(float(found["outer"])) - 1) <= found["outer"].error < 1e-12
        truth = mpmath.e * mpmath.e1(1)
        assert abs(mpmath.mpf(float(found["inside"])) - truth) <= found["inside"].error < 1e-12


@pytest.mark.parametrize("power", [0.055, 0.05, 0.04, 0.03, 0.025])
def test_what_lies_beyond_the_range_of_doubles_is_part_of_the_error(power, record_of):
    """int (1 + t)**(-1 - a) dt = 1/a, of which exp(-700 a) lies beyond t = e**700."""
    found = _program("power tails", record_of).values({"a": power})["value"]
    beyond = math.exp(-700 * power) / power
    assert abs(float(found) - 1 / power) <= found.error
    assert 0.9 * beyond <= found.error <= 3 * beyond + 1e-13 / power


@pytest.mark.parametrize("slope", [22.3, 22.9, 23.5])
def test_what_lies_beyond_an_overflow_is_part_of_the_error(slope, record_of):
    """exp(a x) overflows at x = 709/a, seven to nine standard deviations above its peak."""
    found = _program("exponential", record_of).values({"a": slope})["value"]
    with mpmath.workdps(30):
        truth = mpmath.exp(mpmath.mpf(slope) ** 2 / 2)
        assert abs(mpmath.mpf(float(found)) - truth) <= found.error <= 1e-9 * truth


def test_intervals_that_coarse_grids_cut_too_short_are_widened(record_of):
    """A spike per coarse node: a steep likelihood over many tokens, where the first look at log t misses the tail."""
    program = _program("share of one token", record_of)
    found = program.values({"a": 80.0, "n": 10**5})["value"]
    assert abs(float(found) * 10**5 - 1) <= found.error * 10**5 <= 1e-12


@functools.cache
def _program(name, record_of):
    expression, breakpoints, *_ = CASES[name]
    return compile_record(record_of(name, breakpoints=breakpoints, value=expression))


@pytest.mark.parametrize("name", CASES)
def test_the_stated_error_holds(name, record_of):
    program = _program(name, record_of)
    *_, truth, points, largest = CASES[name]
    for point in points:
        found = program.values(point)["value"]
        with mpmath.workdps(30):
            expected = truth(**{k: mpmath.mpf(v) for k, v in point.items()})
            assert abs(mpmath.mpf(float(found)) - expected) <= found.error, point
        assert found.error <= largest * abs(found), point


def test_seeded_points(record_of):
    """Nothing special about the points above: more, over the whole range of a front."""
    program = _program("steep front", record_of)
    truth = CASES["steep front"][2]
    generator = random.Random(20)
    for _ in range(8):
        slope, centre = math.exp(generator.uniform(-3, 6)), generator.uniform(-4, 4)
        found = program.values({"a": slope, "b": centre})["value"]
        with mpmath.workdps(25):
            expected = truth(mpmath.mpf(slope), mpmath.mpf(centre))
            assert abs(mpmath.mpf(float(found)) - expected) <= found.error


def test_observables_share_their_integrals_and_errors_propagate(record_of):
    """Closed observables of integrals: the error of each is that of the integral times its slope."""
    integral = Expectation(sp.exp(a * x), x)
    program = compile_record(
        record_of("several", plain=integral, log=sp.log(integral), inverse=b / integral, none=b)
    )
    assert len(program.layout["stages"]) == 1
    found = program.values({"a": 6.0, "b": 2.0})
    with mpmath.workdps(30):
        value = mpmath.exp(18)
        truths = {"plain": value, "log": mpmath.mpf(18), "inverse": 2 / value, "none": mpmath.mpf(2)}
        for name, truth in truths.items():
            assert abs(mpmath.mpf(float(found[name])) - truth) <= found[name].error <= 1e-13 * truth


class TestUndeclaredKinks:
    """Nobody declared the breakpoint: convergence is slow, and the error must say so."""

    CASES = (
        (sp.Max(x - a, 0), lambda a: mpmath.npdf(a) - a * mpmath.ncdf(-a)),
        (sp.Max(x - a, 0) ** 2, lambda a: (1 + a**2) * mpmath.ncdf(-a) - a * mpmath.npdf(a)),
    )

    @pytest.mark.parametrize("case", range(len(CASES)))
    def test_the_stated_error_holds(self, case, record_of):
        integrand, truth = self.CASES[case]
        program = compile_record(record_of("undeclared", value=Expectation(integrand, x)))
        generator = random.Random(4)
        for point in [generator.uniform(-4, 4) for _ in range(20)] + [0.0016, -0.003, 1e-9, 2.001]:
            found = program.values({"a": point})["value"]
            with mpmath.workdps(25):
                assert abs(mpmath.mpf(float(found)) - truth(mpmath.mpf(point))) <= found.error
            assert found.error < 1e-6
