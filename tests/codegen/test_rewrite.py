"""Each stable rewrite preserves the value, and is stable where the original is not."""

from __future__ import annotations

import random

import mpmath
import pytest
import sympy as sp

from theorykit.codegen import functions
from theorykit.codegen.rewrite import (
    complement,
    nest_averages,
    stabilize,
    stabilize_functions,
    stabilize_powers,
)
from theorykit.derivations.evaluate import evaluate
from theorykit.derivations.nodes import Expectation, HalfLine, TokenPower, TruncatedExpectation
from theorykit.derivations.special import gamma_weight, normal_cdf
from theorykit.derivations.tensor import evaluate_tensor
from theorykit.formula import parse

a, r, x, y, z = sp.symbols("a r x y z", real=True)
n, t = sp.symbols("n t", positive=True)
DIGITS = 25

MEANINGS = {
    functions.one_minus_exp: lambda u: 1 - sp.exp(-u),
    functions.capped: lambda u: u,
    functions.token_power: lambda phi, _, count: phi**count,
    functions.softplus: lambda u: sp.log(1 + sp.exp(u)),
    functions.sigmoid: lambda u: 1 / (1 + sp.exp(-u)),
}


def meaning(expression):
    """The functions of generated code replaced by what they stand for."""
    for function, replacement in MEANINGS.items():
        expression = expression.replace(function, replacement)
    return expression


def meaning_in_doubles(expression):
    """The same for double precision: 1 - exp(-u) as 2 exp(-u/2) sinh(u/2)."""
    return expression.replace(functions.one_minus_exp, lambda u: 2 * sp.exp(-u / 2) * sp.sinh(u / 2))


def value(expression, values):
    return evaluate(meaning(expression), values, DIGITS)


def assert_same(before, after, values):
    expected = value(before, values)
    with mpmath.workdps(DIGITS + 10):
        assert abs(value(after, values) - expected) <= mpmath.mpf(10) ** (3 - DIGITS) * abs(expected)


def assert_same_by_brute_force(before, after, values):
    """For nested averages: both sides on the same tensor grid, so that they agree to rounding."""
    expected, error = evaluate_tensor(before, values)
    found, _ = evaluate_tensor(meaning(after), values)
    assert error <= 1e-7 * abs(expected)
    assert abs(found - expected) <= 1e-12 * abs(expected)


class TestNestAverages:
    CORRELATED = Expectation(sp.exp(a * x - x * y / 5) * sp.cos(y), [x, y], [[1, r], [r, 2]])

    def test_correlated_variables(self):
        after = nest_averages(self.CORRELATED)
        assert all(len(e.variables) == 1 and e.is_standard for e in after.atoms(Expectation))
        assert_same_by_brute_force(self.CORRELATED, after, {"a": 0.7, "r": 0.4})

    def test_factors_of_outer_variables_move_out(self):
        before = Expectation(sp.exp(a * x + y) * sp.sin(x) ** 2 * (1 + y**2 * x), [x, y])
        after = nest_averages(before)
        (inner,) = [e for e in after.atoms(Expectation) if e.variables[0] == y]
        assert inner.integrand == sp.exp(y) * (1 + y**2 * x)
        assert_same_by_brute_force(before, after, {"a": 0.7})

    def test_averages_inside_averages(self):
        before = Expectation(x**2 * Expectation(sp.exp(x * y / 3) * z**2, [y, z]) ** 2, x)
        after = nest_averages(before)
        assert all(len(e.variables) == 1 for e in after.atoms(Expectation))
        assert_same_by_brute_force(before, after, {})

    def test_inside_a_half_line(self):
        before = HalfLine(sp.exp(-t) * Expectation(sp.exp(-t * sp.exp(x / 2 + y / 3) + x - y), [x, y]), t)
        assert_same_by_brute_force(before, nest_averages(before), {})


class TestComplement:
    ONE = Expectation(sp.exp(-t * sp.exp(a * x)), x)
    BELOW = TruncatedExpectation(sp.exp(-t * sp.exp(a * y)), y, z)
    POINT = {"a": 0.8, "t": 0.3, "z": 0.4}  # noqa: RUF012

    @pytest.mark.parametrize(
        "factor",
        [
            ONE,
            BELOW,
            ONE * BELOW,
            ONE * BELOW * normal_cdf(z),
            normal_cdf(z),
            sp.exp(-t),
            Expectation(sp.exp(-t * sp.exp(x)) * normal_cdf(x), x),
            Expectation(sp.cos(x) * Expectation(sp.exp(-t * y**2), y), x),
            sp.cos(z),
            ONE**2,
            BELOW + normal_cdf(z) / 10,
            HalfLine(sp.exp(-t) * normal_cdf(z + sp.log(t)), t),
        ],
        ids=str,
    )
    def test_is_one_minus_the_factor(self, factor):
        found = value(complement(factor), self.POINT)
        with mpmath.workdps(DIGITS + 10):
            assert abs(found + value(factor, self.POINT) - 1) <= mpmath.mpf(10) ** (2 - DIGITS)

    @pytest.mark.parametrize("factor", [ONE, ONE * ONE.xreplace({a: 2 * a}), sp.exp(-t)], ids=str)
    def test_has_no_cancellation(self, factor):
        """Near t = 0 the complement is proportional to t, to full relative accuracy in double precision."""
        small = complement(factor).subs(t, sp.Float("1e-200"))
        with mpmath.workdps(30):
            tilt = mpmath.mpf(8) ** 2 / 200
            slope = {0: 1, 1: mpmath.exp(tilt), 2: mpmath.exp(tilt) + mpmath.exp(4 * tilt)}
            expected = slope[len(factor.atoms(Expectation))] * mpmath.mpf("1e-200")
            assert abs(evaluate_tensor(meaning_in_doubles(small), {"a": 0.8})[0] / expected - 1) < 1e-14


class TestStabilizePowers:
    BASE = Expectation(sp.exp(-t * sp.exp(a * x)), x)

    def test_complement_belongs_to_the_base(self):
        (power,) = stabilize_powers(1 + TokenPower(self.BASE, n)).atoms(functions.token_power)
        base, rest, count = power.args
        assert (base, count) == (self.BASE, n)
        total = value(base, {"a": 1, "t": 2}) + value(rest, {"a": 1, "t": 2})
        assert abs(total - 1) < mpmath.mpf(10) ** (2 - DIGITS)

    @pytest.mark.parametrize("count", [n, 3 * n - 1])
    def test_value(self, count):
        before = HalfLine(gamma_weight(t, 1) * TokenPower(self.BASE, count), t)
        assert_same_by_brute_force(before, stabilize_powers(before), {"a": 0.6, "n": 2.5})

    def test_nested_in_an_average(self):
        inner = TruncatedExpectation(sp.exp(-sp.exp(a * y) / 3), y, x)
        before = Expectation(x**2 * TokenPower(inner, n), x)
        after = stabilize_powers(before)
        assert after.atoms(functions.token_power)
        assert_same_by_brute_force(before, after, {"a": 0.6, "n": 2})


FORMULAS = (
    "Phi(x)",
    "gelu(x)",
    "gelu(2*x - 1) + 3*Phi(x)",
    "softplus(3*x)",
    "log(1 + exp(-x))",
    "sigmoid(x)**2",
    "silu(x)",
    "1/(1 + exp(x))**3",
    "1 + tanh(x)",
    "2 - 2*tanh(x/2)",
    "x*tanh(x) + x",
    "1 + erf(x)",
    "(1 - erf(x - 1))/2",
    "erfc(x)",
    "2 - erfc(x)",
    "1 + erf(x) + tanh(x)",
    "3 + tanh(x) + erf(x)*x",
    "x**2*exp(-x**2)",
)


class TestStabilizeFunctions:
    @pytest.mark.parametrize("formula", FORMULAS)
    def test_value(self, formula):
        before = parse(formula).to_sympy(x)
        generator = random.Random(formula)
        for _ in range(8):
            assert_same(before, stabilize_functions(before), {"x": generator.uniform(-3, 3)})

    @pytest.mark.parametrize("degree", [1, 3])
    def test_gamma_weight(self, degree):
        before = gamma_weight(t * sp.exp(a), degree)
        assert_same(before, stabilize_functions(before), {"t": 0.7, "a": 1.1})

    TAILS = (
        ("Phi(x)", mpmath.ncdf, -30),
        ("gelu(x)", lambda u: u * mpmath.ncdf(u), -30),
        ("1 + erf(x)", lambda u: mpmath.erfc(-u), -20),
        ("1 - erf(x)", mpmath.erfc, 20),
        ("1 + tanh(x)", lambda u: 2 / (1 + mpmath.exp(-2 * u)), -300),
        ("x - x*tanh(x)", lambda u: 2 * u / (1 + mpmath.exp(2 * u)), 300),
        ("softplus(x)", lambda u: mpmath.log1p(mpmath.exp(u)), -600),
        ("sigmoid(x)", lambda u: 1 / (1 + mpmath.exp(-u)), -600),
    )

    @pytest.mark.parametrize(("formula", "truth", "end"), TAILS, ids=[f for f, _, _ in TAILS])
    def test_tails_keep_their_relative_accuracy(self, formula, truth, end, record_of, interpreted):
        call = interpreted(record_of(value=parse(formula).to_sympy(x)))
        for k in range(1, 11):
            point = end * k / 10
            with mpmath.workdps(40):
                expected = truth(mpmath.mpf(point))
                tolerance = (8 + 8 * abs(mpmath.log(abs(expected)))) * 2.0**-52
                assert abs(call(x=point)["value"] / expected - 1) <= tolerance


def test_all_rules_together_on_nested_nodes():
    """A Laplace form with everything in it: nested and truncated averages, powers, gamma weights, functions."""
    kernel = sp.log(1 + sp.exp(x + a * y))
    below = TruncatedExpectation(sp.exp(-t * (1 + sp.tanh(z)) / 4), z, x)
    inner = Expectation(sp.exp(-t * kernel), y)
    before = HalfLine(gamma_weight(t, 2) * Expectation(TokenPower(inner, n) * (1 + below), x), t)
    after = stabilize(before)
    for function in (functions.softplus, functions.sigmoid, functions.token_power, functions.one_minus_exp):
        assert after.atoms(function)
    assert_same_by_brute_force(before, after, {"a": 0.5, "n": 2})
