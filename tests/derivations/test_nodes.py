"""The expression language: bound variables stay bound, derivatives are right, objects survive transport."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import mpmath
import pytest
import sympy as sp

from theorykit.derivations import nodes, special
from theorykit.derivations.evaluate import evaluate
from theorykit.derivations.matrices import Entry, opaque
from theorykit.derivations.nodes import (
    DistinctSum,
    Expectation,
    HalfLine,
    Largest,
    Node,
    TokenExpectation,
    TokenPower,
    TruncatedExpectation,
)
from theorykit.derivations.special import gamma_weight, normal_cdf, normal_pdf, owens_t

X, Y = sp.symbols("x y", real=True)
A, B, T = sp.symbols("a b t", positive=True)
LENGTH = sp.Symbol("L", integer=True, positive=True)
ELL, EM = sp.symbols("l m", integer=True, positive=True)
CHI = sp.IndexedBase("chi")

EXAMPLES = {
    "Expectation": Expectation(sp.exp(A * X) * Y, [X, Y], [[1, B], [B, 2]]),
    "TruncatedExpectation": TruncatedExpectation(A * X**2, X, B),
    "HalfLine": HalfLine(sp.exp(-A * T), T),
    "TokenExpectation": TokenExpectation(
        A * CHI[1] * X + DistinctSum(CHI[ELL], ELL, 2, LENGTH), [CHI], LENGTH, [X]
    ),
    "DistinctSum": DistinctSum(A * CHI[ELL] * CHI[EM], [ELL, EM], 1, LENGTH, [3]),
    "TokenPower": TokenPower(A, LENGTH - 2),
    "Largest": Largest(CHI, ELL),
    "gamma_weight": gamma_weight(A * T, 2),
    "normal_cdf": normal_cdf(A),
    "owens_t": owens_t(A, B),
}
FREE = {
    "Expectation": {A, B},
    "TruncatedExpectation": {A, B},
    "HalfLine": {A},
    "TokenExpectation": {A, LENGTH},
    "TokenPower": {A, LENGTH},
}
ALL = pytest.mark.parametrize("name", EXAMPLES)


# ----------------------------------------------------------------- transport


@ALL
def test_pickle_round_trip(name):
    copy = pickle.loads(pickle.dumps(EXAMPLES[name]))
    assert copy == EXAMPLES[name]
    assert hash(copy) == hash(EXAMPLES[name])


@ALL
def test_srepr_rebuilds_the_node(name):
    names = {**vars(sp), **vars(nodes), **vars(special)}
    assert eval(sp.srepr(EXAMPLES[name]), names) == EXAMPLES[name]


@ALL
def test_func_and_args_rebuild_the_node(name):
    example = EXAMPLES[name]
    assert example.func(*example.args) == example


@ALL
def test_latex_is_balanced(name):
    tex = sp.latex(EXAMPLES[name] ** 2 * A + 1)
    assert tex.count("{") - tex.count(r"\{") == tex.count("}") - tex.count(r"\}")
    assert tex.count(r"\left") == tex.count(r"\right")


# ----------------------------------------------------------------- bound variables


@pytest.mark.parametrize("name", FREE)
def test_free_symbols_leave_out_what_is_bound(name):
    assert EXAMPLES[name].free_symbols == FREE[name]


@pytest.mark.parametrize("name", ["Expectation", "TruncatedExpectation", "HalfLine", "DistinctSum"])
def test_substitution_does_not_reach_bound_variables(name):
    example = EXAMPLES[name]
    assert isinstance(example, Node)
    for bound in example.bound_symbols:
        assert example.subs(bound, 3) == example
        assert sp.diff(example, bound) == 0


def test_substitution_reaches_everything_else():
    assert EXAMPLES["Expectation"].subs({A: 2, B: 0}) == Expectation(
        sp.exp(2 * X) * Y, [X, Y], [[1, 0], [0, 2]]
    )
    assert EXAMPLES["TruncatedExpectation"].subs(B, 5).upper == 5
    assert EXAMPLES["TokenExpectation"].subs(LENGTH, 3).length == 3


def test_a_symbol_that_is_free_beside_a_node_is_substituted_there_only():
    expression = X * Expectation(X**2 * A, [X])
    assert expression.subs(X, 3) == 3 * Expectation(X**2 * A, [X])


def test_indexed_fields_of_a_bound_family_are_bound():
    average = TokenExpectation(sp.exp(CHI[1]) + CHI[2], [CHI], LENGTH)
    assert average.free_symbols == {LENGTH}


def test_averages_of_constants_are_the_constants():
    assert Expectation(A + B, [X]) == A + B
    assert TruncatedExpectation(A, X, B) == A * normal_cdf(B)


def test_covariance_must_fit_the_variables():
    with pytest.raises(ValueError, match=r"covariance of \(x, y\) must be 2x2, got \(1, 1\)"):
        Expectation(X * Y, [X, Y], [[1]])


def test_standard_variables_are_recognised():
    assert Expectation(X * Y, [X, Y]).is_standard
    assert Expectation(X * Y, [X, Y], sp.eye(2)) == Expectation(X * Y, [X, Y])
    assert not EXAMPLES["Expectation"].is_standard


# ----------------------------------------------------------------- derivatives


@pytest.mark.parametrize(
    "expression",
    [
        Expectation(sp.exp(A * X) * sp.tanh(X), [X]),
        HalfLine(T * sp.exp(-A * T), T),
        TruncatedExpectation(sp.exp(A * X), X, sp.Integer(1)),
    ],
)
def test_derivative_in_a_parameter_agrees_with_a_difference_quotient(expression):
    # central difference with step h = 1e-6: error h^2 f'''/6 + rounding 1e-20/h
    step = mpmath.mpf(10) ** -6
    point = mpmath.mpf("0.7")
    with mpmath.workdps(25):
        values = [evaluate(expression, {"a": point + s * step}, 20) for s in (-1, 1)]
        quotient = (values[1] - values[0]) / (2 * step)
        derivative = evaluate(sp.diff(expression, A), {"a": point}, 20)
    assert abs(derivative - quotient) < 1e-10 * max(1, abs(derivative))


def test_derivative_outside_the_integrand_is_refused_by_name():
    with pytest.raises(NotImplementedError, match="Expectation depends on b outside its integrand"):
        sp.diff(EXAMPLES["Expectation"], B)


def test_derivatives_of_the_normal_law():
    assert sp.diff(normal_cdf(A * X), X) == A * normal_pdf(A * X)
    assert sp.simplify(sp.diff(normal_pdf(X), X) + X * normal_pdf(X)) == 0


def test_derivative_of_a_gamma_weight_is_that_of_its_formula():
    for degree in (1, 2, 3):
        difference = sp.diff(gamma_weight(T * A, degree) - (T * A) ** degree * sp.exp(-T * A), T)
        assert sp.simplify(difference.rewrite(sp.exp)) == 0


# ----------------------------------------------------------------- special values


def test_normal_cdf_special_values():
    assert [normal_cdf(u) for u in (0, sp.oo, -sp.oo)] == [sp.Rational(1, 2), 1, 0]
    assert normal_cdf(X).rewrite(sp.erf) == (1 + sp.erf(X / sp.sqrt(2))) / 2


def test_normal_cdf_keeps_its_digits_in_the_tail():
    with mpmath.workdps(40):
        exact = mpmath.ncdf(-20)
    value = normal_cdf(sp.Integer(-20)).evalf(30)
    assert abs(value / sp.Float(exact, 40) - 1) < sp.Float("1e-28", 30)


def test_token_power_is_zero_without_tokens():
    assert [TokenPower(A, n) for n in (-1, 0, 1, 3)] == [0, 1, A, A**3]
    assert TokenPower(sp.Integer(0), sp.Integer(0)) == 1
    assert sp.diff(TokenPower(A, LENGTH - 2), A) == (LENGTH - 2) * TokenPower(A, LENGTH - 3)
    with pytest.raises(NotImplementedError, match="derivative of a token power in its count"):
        sp.diff(TokenPower(A, LENGTH), LENGTH)


# ----------------------------------------------------------------- sums over tokens


@pytest.mark.parametrize("length", [2, 3, 4, 5])
@pytest.mark.parametrize(
    ("count", "first", "excluded"), [(1, 1, ()), (1, 2, ()), (2, 1, ()), (2, 2, ()), (2, 1, (2,))]
)
def test_multiplicity_counts_the_terms(length, count, first, excluded):
    total = DistinctSum(sp.Integer(1), [ELL, EM][:count], first, LENGTH, excluded)
    assert total.expand_at(length) == total.multiplicity.subs(LENGTH, length)


def test_distinct_sum_leaves_out_the_diagonal():
    found = DistinctSum(CHI[ELL] * CHI[EM] ** 2, [ELL, EM], 1, LENGTH).expand_at(3)
    expected = sum(CHI[i] * CHI[j] ** 2 for i in (1, 2, 3) for j in (1, 2, 3) if i != j)
    assert sp.expand(found - expected) == 0


def test_distinct_sum_avoids_excluded_tokens():
    assert DistinctSum(CHI[ELL], ELL, 1, LENGTH, [2]).expand_at(3) == CHI[1] + CHI[3]


def test_entries_are_named_by_what_they_stand_for():
    """Equal ones have one name, which does not depend on the seed of a process's hashes."""
    a, b = sp.symbols("a b", positive=True)
    matrix = sp.Inverse(sp.ImmutableDenseMatrix([[a, 1], [1, b]]))
    first, other = (Entry(matrix, 0, k) for k in range(2))
    named = opaque(first * a + other - first)
    assert sorted(s.name[:13] for s in named.free_symbols) == ["a", "entry_0_0_of_", "entry_0_1_of_"]
    assert opaque(first) * a + opaque(other) - opaque(first) == named
    alike = Entry(matrix.xreplace({a: sp.Symbol("a", negative=True)}), 0, 0)
    assert opaque(first) != opaque(alike)
    text = "import sympy as sp; from theorykit.derivations.matrices import Entry, opaque\n"
    text += "a, b = sp.symbols('a b', positive=True)\n"
    text += "print(opaque(Entry(sp.Inverse(sp.ImmutableDenseMatrix([[a, 1], [1, b]])), 0, 1)))"
    for seed in ("1", "2"):
        run = [sys.executable, "-c", text]
        shown = subprocess.run(
            run, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True
        )
        assert shown.stdout.strip() == opaque(other).name, shown.stderr
