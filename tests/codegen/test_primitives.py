"""The scalar functions of generated code, as plain Python and compiled, against 50 digits and against NumPy."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
import sympy as sp

from theorykit.codegen import compile_record, functions, primitives
from theorykit.derivations import special

EPS = 2.0**-52


def _owens_t(h, a):
    h, a = mpmath.mpf(h), mpmath.mpf(a)
    scale = 1 / (1 + abs(h))
    steps = [0, *[k * scale for k in (0.5, 1, 2, 4, 8, 16, 32, 64) if k * scale < abs(a)], abs(a)]
    integral = mpmath.quad(lambda x: mpmath.exp(-h * h * x * x / 2) / (1 + x * x), steps)
    return mpmath.sign(a) * mpmath.exp(-h * h / 2) * integral / (2 * mpmath.pi)


def _token_power(phi, complement, count):
    if count <= 0:
        return mpmath.mpf(1 if count == 0 else 0)
    accurate = 1 - mpmath.mpf(complement) if complement < 0.5 else mpmath.mpf(phi)
    return accurate**count


def _exponent(phi, complement, count):
    return abs(count * (math.log1p(-complement) if complement < 1 else 0.0))


# name -> (truth, arguments, relative tolerance at the arguments in units of the rounding error)
GRID = (0.0, 1e-300, 1e-8, 0.3, 1.0, 4.0, 36.0, 40.0, 300.0, 700.0)
SIGNED = (*GRID, *[-x for x in GRID])
COMPLEMENTS = (0.0, 1e-300, 1e-17, 1e-9, 0.1, 0.49999, 0.5, 0.7, 1 - 1e-10, 1.0)
TRUTHS = {
    "normal_cdf": (
        mpmath.ncdf,
        [(x,) for x in (-37.0, -20.5, -8.3, -1.0, -1e-10, 0.0, 1e-300, 0.5, 3.0, 8.0, 40.0)],
        lambda x: 4 + 2 * min(x, 0) ** 2,
    ),
    "one_minus_exp": (lambda u: -mpmath.expm1(-u), [(u,) for u in (*GRID, -1e-9, -5.0)], lambda _: 4),
    "capped": (lambda u: min(u, 1000), [(u,) for u in (0.0, 999.9, 1000.0, 1001.0, 1e308)], lambda _: 0),
    "token_power": (
        _token_power,
        [(1 - c, c, n) for c in COMPLEMENTS for n in (-2.0, -1.0, 0.0, 1.0, 2.5, 999_999.0)],
        lambda *a: 4 + _exponent(*a),
    ),
    "softplus": (lambda x: mpmath.log1p(mpmath.exp(x)), [(x,) for x in SIGNED], lambda _: 4),
    "sigmoid": (lambda x: 1 / (1 + mpmath.exp(-x)), [(x,) for x in SIGNED], lambda _: 4),
    "sign": (mpmath.sign, [(x,) for x in SIGNED], lambda _: 0),
    "owens_t": (
        _owens_t,
        [
            (h, sign * a)
            for h in (0.0, 1e-5, 0.3, 1.0, 5.0, 12.0, 26.0)
            for a in (0.0, 1e-5, 0.5, 1.0, 1 + 1e-12, 3.0, 1e3)
            for sign in (1, -1)
        ],
        lambda h, a: 30 + 3 * h * h,
    ),
}
CASES = [(name, arguments) for name, (_, points, _) in TRUTHS.items() for arguments in points]


def _assert_true(name, arguments, found):
    truth, _, tolerance = TRUTHS[name]
    with mpmath.workdps(50):
        expected = truth(*map(mpmath.mpf, arguments))
        assert math.isfinite(found)
        assert abs(found - expected) <= tolerance(*arguments) * EPS * abs(expected) + 1e-307


@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_plain_python(name, arguments):
    _assert_true(name, arguments, getattr(primitives, name)(*arguments))


@pytest.fixture(scope="module")
def compiled(record_of):
    """All of them as observables of one record, called through the generated function."""
    a, b, c = sp.symbols("a b c", real=True)
    calls = {
        "normal_cdf": special.normal_cdf(a),
        "one_minus_exp": functions.one_minus_exp(a),
        "capped": functions.capped(a),
        "token_power": functions.token_power(a, b, c),
        "softplus": functions.softplus(a),
        "sigmoid": functions.sigmoid(a),
        "sign": sp.sign(a),
        "owens_t": special.owens_t(a, b),
        "larger": sp.Max(a, b, c),
        "smaller": sp.Min(a, b, c),
    }
    program = compile_record(record_of("primitives", **calls))

    def call(name, *arguments):
        values = dict(zip("abc", (*arguments, 0.0, 0.0), strict=False))
        found = program.observables(program.vector(values), np.zeros(0))
        return float(found[program.layout["observables"].index(name)])

    return call


def test_compiled(compiled):
    for name, arguments in CASES:
        _assert_true(name, arguments, compiled(name, *arguments))


class TestEdges:
    def test_tails_are_reached_without_overflow(self):
        assert primitives.softplus(1e4) == 1e4
        assert primitives.softplus(-1e4) == 0.0
        assert (primitives.sigmoid(1e4), primitives.sigmoid(-1e4)) == (1.0, 0.0)
        assert primitives.one_minus_exp(math.inf) == 1.0
        assert primitives.capped(math.inf) == 1000.0
        assert primitives.token_power(0.0, 1.0, 3.0) == 0.0

    def test_many_tokens_keep_the_complement(self):
        """(1 - 1e-12)**(10**12): the base alone, rounded, would be wrong in the fifth digit."""
        found = primitives.token_power(1 - 1e-12, 1e-12, 1e12)
        with mpmath.workdps(50):
            assert abs(found - (1 - mpmath.mpf(1e-12)) ** 10**12) < 4 * EPS

    @pytest.mark.parametrize("h", [0.0, 0.7, 30.0])
    def test_owens_t_of_an_infinite_slope(self, h):
        """T(h, inf) = (1 - Phi(|h|))/2."""
        for sign in (1, -1):
            found = primitives.owens_t(sign * h, math.inf)
            assert found == pytest.approx(float(mpmath.ncdf(-h)) / 2, rel=1e-12)
            assert primitives.owens_t(h, -math.inf) == -found

    def test_owens_t_far_out(self):
        assert 0.0 <= primitives.owens_t(40.0, 0.5) < 1e-300
        assert primitives.owens_t(-1.3, 0.4) == primitives.owens_t(1.3, 0.4)

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            *[
                (n, (math.nan,))
                for n in ("normal_cdf", "one_minus_exp", "capped", "softplus", "sigmoid", "sign")
            ],
            *[(n, a) for n in ("owens_t", "larger", "smaller") for a in ((math.nan, 0.4), (0.4, math.nan))],
            *[("token_power", a) for a in ((math.nan, 0.9, 2.0), (0.6, math.nan, 2.0), (0.6, 0.4, math.nan))],
        ],
    )
    def test_nan_is_never_swallowed(self, name, arguments, compiled):
        assert math.isnan(getattr(primitives, name)(*arguments))
        if name not in ("larger", "smaller"):
            assert math.isnan(compiled(name, *arguments))

    def test_the_larger_of_many(self, compiled):
        for point in itertools.permutations((-1.5, 0.0, 2.0)):
            assert (compiled("larger", *point), compiled("smaller", *point)) == (2.0, -1.5)
        for point in itertools.permutations((math.nan, 0.0, 2.0)):
            assert math.isnan(compiled("larger", *point))
            assert math.isnan(compiled("smaller", *point))


class TestArrays:
    @pytest.fixture
    def arrays(self):
        generator = np.random.default_rng(7)
        return generator.normal(size=(11, 6)), generator.normal(size=(6, 5)), generator.uniform(size=6)

    @pytest.mark.parametrize(("lo", "hi"), [(0, 11), (0, 4), (3, 10), (5, 5), (9, 11)])
    def test_add_product(self, arrays, lo, hi):
        left, right, weights = arrays
        out = np.full((11, 5), 0.25)
        primitives.add_product(left, right, weights, out, lo, hi)
        expected = np.full((11, 5), 0.25)
        expected[lo:hi] += (left[lo:hi] * weights) @ right
        np.testing.assert_allclose(out, expected, rtol=0, atol=20 * EPS)

    def test_a_row_does_not_depend_on_its_block(self, arrays):
        """Rows are shared out over threads: whichever rows are computed together, the bits are the same."""
        left, right, weights = arrays
        whole, single = np.zeros((11, 5)), np.zeros((11, 5))
        primitives.add_product(left, right, weights, whole, 0, 11)
        for row in range(11):
            primitives.add_product(left, right, weights, single, row, row + 1)
        assert np.array_equal(whole, single)

    def test_add_row_sums(self, arrays):
        left, _, weights = arrays
        out = np.full((11, 3), 0.25)
        primitives.add_row_sums(left, weights, out, 2, 9)
        expected = np.full((11, 3), 0.25)
        expected[2:9] += (left[2:9] @ weights)[:, None]
        np.testing.assert_allclose(out, expected, rtol=0, atol=20 * EPS)

    def test_integrate_below(self):
        """1 and x on two panels of two nodes, up to the middle of each, to the far left and to the far right."""
        nodes_, weights = np.polynomial.legendre.leggauss(2)
        edges = np.array([0.0, 1.0, 3.0])
        half = np.diff(edges) / 2
        x = (edges[:-1] + half)[:, None] + half[:, None] * nodes_
        plain = (half[:, None] * weights).ravel()
        to_middle = np.array([_line_rule(nodes_, half[p]) for p in (0, 1, 0, 0)])
        panels = np.array([0, 1, -1, 2])  # the last two: below the first panel, above the last
        out = np.empty(4)
        for power in (0, 1):
            primitives.integrate_below(x.ravel() ** power, plain, to_middle, panels, out)
            expected = [end ** (power + 1) / (power + 1) for end in (0.5, 2.0, 0.0, 3.0)]
            np.testing.assert_allclose(out, expected, rtol=4 * EPS)


def _line_rule(nodes_, half):
    """Weights at two nodes that integrate any line over [-half, 0] of a panel centred at 0."""
    system = np.array([[1.0, 1.0], half * nodes_])
    return np.linalg.solve(system, [half, -(half**2) / 2])
