"""The data model refuses what is no derivation: broken chains, undeclared symbols, typed results."""

from __future__ import annotations

import pickle
from dataclasses import replace

import mpmath
import pytest
import sympy as sp
from toy_theory import GROWTH, SQUARE, TABLE, A, C, make_growth, make_weights

from theorykit.derivations.ledger import (
    Definition,
    Derivation,
    Equations,
    Quantity,
    Step,
    assumed,
    proved,
    verified,
)
from theorykit.errors import DerivationError

X, Y = sp.symbols("x y")
Q, R = sp.symbols("q r")


def step(name: str, left: sp.Expr, right: sp.Expr, *premises: str) -> Step:
    return Step(name, left, right, premises, "reason", proved())


def chain(*steps: Step, observables: dict | None = None, definitions: tuple | None = None) -> Derivation:
    definitions = (
        (Definition(Q, (X + 1) ** 2, "q"), Definition(R, X, "r")) if definitions is None else definitions
    )
    record = Equations("toy", (Quantity(X, "x", "x"), Quantity(Y, "y", "y")), {}, observables or {})
    return Derivation("toy", "toy", "here", definitions, steps, record)


EXPAND = step("expand", (X + 1) ** 2, X**2 + 2 * X + 1, "q")


# ----------------------------------------------------------------- the chain rule


def test_a_chain_from_definition_to_observable_is_accepted():
    made = chain(EXPAND, observables={"q": X**2 + 2 * X + 1})
    assert made.faults() == {}
    assert made.root("expand") == "q"


def test_a_step_may_follow_any_of_its_premises():
    made = chain(EXPAND, step("shift", X**2 + 2 * X + 1, X * (X + 2) + 1, "r", "expand"))
    assert made.root("shift") == "q"


@pytest.mark.parametrize(
    ("steps", "observables", "message"),
    [
        (
            (step("s", (X + 1) ** 3, X, "q"),),
            {},
            r"left side of step 's' is not the right side of any of \('q',\)",
        ),
        ((step("s", (X + 1) ** 2, X),), {}, "left side of step 's'"),
        ((step("s", (X + 1) ** 2, X, "nothing"),), {}, r"step 's' names unknown premises \['nothing'\]"),
        ((step("s", X, Y, "later"), step("later", X, X, "r")), {}, r"unknown premises \['later'\]"),
        ((EXPAND, EXPAND), {}, "two steps or definitions are called 'expand'"),
        ((EXPAND,), {"q": X}, "no chain of steps leads from the definition of q to the observable"),
        ((EXPAND,), {"r": X**2 + 2 * X + 1}, "definition of r to the observable"),
        ((EXPAND,), {"p": X**2 + 2 * X + 1}, "definition of p to the observable"),
        ((EXPAND,), {"q": 2 * (X**2 + 2 * X + 1)}, "definition of q to the observable"),
    ],
)
def test_broken_chains_are_refused(steps, observables, message):
    with pytest.raises(DerivationError, match=message):
        chain(*steps, observables=observables)


def test_true_but_unrelated_identities_are_no_derivation():
    unrelated = step("unrelated", Y + Y, 2 * Y, "q")
    with pytest.raises(DerivationError, match="left side of step 'unrelated'"):
        chain(EXPAND, unrelated)


def test_an_equation_of_the_record_must_be_derived():
    toy = make_growth()
    with pytest.raises(DerivationError, match="definition of square to its equation"):
        replace(toy, equations=replace(toy.equations, equations={SQUARE: C**2 + 2}))


def test_with_step_changes_one_right_side_and_checks_nothing():
    toy = make_growth()
    mutated = toy.with_step("tilt", sp.Integer(0))
    assert [s.rhs for s in mutated.steps if s.name == "tilt"] == [0]
    assert [s for s in mutated.steps if s.name != "tilt"] == [s for s in toy.steps if s.name != "tilt"]
    assert set(mutated.faults()) == {"growth"}
    with pytest.raises(DerivationError, match="has no step 'tlit' to change"):
        toy.with_step("tlit", sp.Integer(0))


def test_statement_is_an_unevaluated_equality():
    assert step("s", X, X).statement.lhs == X
    assert isinstance(step("s", X, X).statement, sp.Eq)


# ----------------------------------------------------------------- checks


def test_verified_needs_points_and_two_means():
    with pytest.raises(DerivationError, match="at least one point"):
        verified()
    with pytest.raises(DerivationError, match="different means, both are 'mp-quad'"):
        verified({"a": 1}, left="mp-quad", right="mp-quad")


def test_kinds_of_checks():
    assert [c.kind for c in (proved(), verified({}), assumed("x"))] == ["proved", "verified", "assumed"]
    assert assumed("a book").reference == "a book"


# ----------------------------------------------------------------- the record


def test_undeclared_symbol_is_named_with_a_suggestion():
    kappa, kapa, q_hat = sp.symbols("kappa kapa q_hat")
    with pytest.raises(
        DerivationError,
        match=r"equation for q_hat uses 'kapa', which is not declared in toy; did you mean 'kappa'\?",
    ):
        Equations("toy", (Quantity(kappa, r"\kappa", "k"),), {q_hat: kapa**2}, {})


def test_undeclared_symbol_without_a_near_one():
    with pytest.raises(DerivationError, match=r"equation for risk uses 'y', which is not declared in toy$"):
        Equations("toy", (Quantity(sp.Symbol("kappa"), r"\kappa", "k"),), {}, {"risk": Y})


def test_two_symbols_must_not_print_alike():
    with pytest.raises(DerivationError, match="two symbols of toy print alike"):
        Equations("toy", (Quantity(X, "x", "x"), Quantity(Y, "x", "y")), {}, {})


def test_parameters_are_what_is_not_solved_for():
    record = Equations("toy", TABLE, {SQUARE: C**2 + 1}, {"risk": A * SQUARE})
    assert record.parameters == (A, C)


def test_closed_puts_equations_into_each_other():
    record = Equations("toy", (Quantity(X, "x", "x"),), {Q: X + 1, R: Q**2}, {"risk": R + Q})
    assert record.closed(R + Q) == (X + 1) ** 2 + X + 1


def test_equations_in_a_circle_are_refused():
    record = Equations("toy", (), {Q: R + 1, R: Q - 1}, {"risk": R})
    with pytest.raises(DerivationError, match="refer to each other in a circle"):
        record.closed(R)


def test_evaluate_reaches_forty_digits():
    value = make_growth().equations.evaluate({"a": "1/3"}, digits=40)[GROWTH.name]
    with mpmath.workdps(60):
        third = mpmath.mpf(1) / 3
        assert abs(value - third * mpmath.exp(third**2 / 2)) < mpmath.mpf(10) ** -39


@pytest.mark.parametrize("target", ["growth", "square"])
def test_scaled_multiplies_one_expression(target):
    record = make_growth().equations
    scaled = record.scaled(target, 5)
    for old, new in ((record.equations, scaled.equations), (record.observables, scaled.observables)):
        for key, expression in old.items():
            assert new[key] == (5 * expression if str(key) == target else expression)


def test_scaled_refuses_unknown_names():
    with pytest.raises(DerivationError, match="has no equation or observable 'risk'"):
        make_growth().equations.scaled("risk")


def test_multiplying_an_observable_multiplies_the_number():
    record = make_growth().equations
    before, after = record.evaluate({"a": 0.5}, 20), record.scaled("growth").evaluate({"a": 0.5}, 20)
    assert abs(after["growth"] / before["growth"] - 2) < 1e-15


def test_derivations_pickle():
    toy = make_growth()
    copy = pickle.loads(pickle.dumps(toy))
    assert copy.steps == toy.steps
    assert copy.equations.observables == toy.equations.observables


def test_latex_of_a_derivation_and_of_its_record_in_a_notebook():
    weights = make_weights()
    assert r"\mathcal{B} &= \int_0^\infty" in weights.latex()
    notebook = weights._repr_latex_()
    assert notebook.startswith("$$")
    assert notebook.endswith("$$")
    assert r"\label" not in notebook


@pytest.mark.parametrize("value", [0, -1, "one", "1/0", float("nan"), None, 1j])
def test_values_outside_the_domain_are_refused(value):
    with pytest.raises(ValueError, match=r"a must be a number in its domain, \(0, inf\), got "):
        make_growth().equations.evaluate({"a": value}, digits=20)


@pytest.mark.parametrize("value", [2.5, 0, "1/2"])
def test_numbers_of_tokens_are_whole(value):
    with pytest.raises(ValueError, match=r"L must be a number in its domain, 1, 2, \.\.\., got "):
        make_weights().equations.evaluate({"a": 1, "L": value}, digits=20)
