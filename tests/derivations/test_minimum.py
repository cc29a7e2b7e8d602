"""Minima inside derivations: the inert node, and that the two checks notice what is wrong."""

from __future__ import annotations

import pytest
import sympy as sp

from theorykit.derivations.audit import AuditStatus, audit_step
from theorykit.derivations.ledger import Step, verified
from theorykit.derivations.minimum import AtMinimum, minimum, numerically, pointwise
from theorykit.derivations.nodes import Expectation
from theorykit.errors import DerivationError

A = sp.Symbol("a", positive=True)
U, V = sp.symbols("u v", real=True)
X = sp.Symbol("x", real=True)
S = sp.Function("S", real=True)
POINT = {"a": "1.3", "L": 2}
PRECISE = {"digits": 25, "left": "mp-trapezoid", "right": "mp-quad"}


def status(lhs: sp.Expr, rhs: sp.Expr, check) -> AuditStatus:
    return audit_step(Step("a step", lhs, rhs, (), "reason", check)).status


def test_variables_are_bound_and_parameters_free():
    node = minimum((U - A) ** 2 + V**2, (U, V))
    assert node.free_symbols == {A}
    assert node.subs(U, 3) == node
    assert node.subs(A, 2) == minimum((U - 2) ** 2 + V**2, (U, V))


def test_latex_says_what_is_minimized():
    assert sp.latex(minimum(U**2 + A, (U,))) == r"\min_{u} \left(a + u^{2}\right)"
    assert r"\arg\min_{u}" in sp.latex(AtMinimum(U, U**2 + A, (U,)))


# least at u = v = a/2, where it is a^2/2
HILLY = (U - A / 2) ** 4 + 3 * (U - A / 2) ** 2 + 2 * (V - A / 2) ** 2 * sp.cosh(U) + A**2 / 2


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [(HILLY, A**2 / 2), (U, A / 2), (V, A / 2), (U - 3 * V, -A), (U * V, A**2 / 4)],
)
def test_search_finds_the_minimum_to_25_digits(quantity, expected):
    node = AtMinimum(quantity, HILLY, (U, V))
    check = verified(POINT, concrete=numerically(POINT), **PRECISE)
    assert status(node, expected, check) is AuditStatus.PASSED
    assert status(node, expected * (1 + sp.Rational(1, 10**20)), check) is AuditStatus.FAILED
    assert status(node, -expected, check) is AuditStatus.FAILED


def test_the_lower_of_two_minima_is_taken():
    double_well = (U**2 - 1) ** 2 + A * U / 10
    node = minimum(double_well, (U,))
    low = min(sp.Poly(sp.diff(double_well, U).subs(A, sp.Rational("1.3")), U).nroots(30), key=sp.re)
    check = verified(POINT, concrete=numerically(POINT), **PRECISE)
    assert status(node, double_well.subs(A, sp.Rational("1.3")).subs(U, low), check) is AuditStatus.PASSED


def test_an_objective_without_minimum_fails():
    with pytest.raises((DerivationError, ValueError)):
        numerically(POINT)(minimum(sp.exp(-A * U), (U,)), 2)


def test_rewritten_objectives_are_compared_at_any_point():
    point = {**POINT, "u": "0.4", "v": "-0.7"}
    check = verified(point, concrete=pointwise(), **PRECISE)
    node = AtMinimum(U * V, (U - V) ** 2 + A, (U, V))
    same = AtMinimum(U * V, U**2 - 2 * U * V + V**2 + A, (U, V))
    assert status(node, same, check) is AuditStatus.PASSED
    assert status(node, -same, check) is AuditStatus.FAILED
    for other in (AtMinimum(U * V, U**2 - U * V + V**2 + A, (U, V)), AtMinimum(U, *same.args[1:])):
        assert status(node, other, check) is AuditStatus.FAILED


def test_minimum_over_functions_is_taken_point_by_point():
    """min over S of E[(S - sin x)^2 (2 + cos x) + x^2] is 1, at S = sin x."""
    objective = Expectation((S(X) - sp.sin(X)) ** 2 * (2 + sp.cos(X)) + X**2, X)
    point = {**POINT, "x": "0.8"}
    check = verified(point, concrete=numerically(point))
    assert status(minimum(objective, (S(X),)), sp.Integer(1), check) is AuditStatus.PASSED
    assert status(minimum(objective, (S(X),)), sp.Rational(999, 1000), check) is AuditStatus.FAILED
    there = AtMinimum(S(X) ** 2, objective, (S(X),))
    assert status(there, sp.sin(X) ** 2, check) is AuditStatus.PASSED
    assert status(there, sp.sin(X) ** 3, check) is AuditStatus.FAILED


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (S(X) ** 2, "average over one variable"),
        (Expectation(S(X) ** 2 + S(X + 1), X), "at x only"),
        (Expectation(S(X) - S(X) ** 2, X), "not least"),
        (Expectation((S(X) ** 2 - 1) ** 2 + S(X), X), "not least"),
    ],
)
def test_minimum_over_functions_refuses_what_it_cannot_take(objective, message):
    with pytest.raises(DerivationError, match=message):
        numerically(POINT)(minimum(objective, (S(X),)), 2)
