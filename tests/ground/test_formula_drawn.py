"""Formulas drawn at random: the canonical text, the precedence of operators, and nothing but refusals elsewhere."""

from __future__ import annotations

import numpy as np
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from theorykit.errors import FormulaError
from theorykit.formula import parse

x = sympy.Symbol("x", real=True)

_ATOMS = st.one_of(
    st.just("x"),
    st.just("pi"),
    st.integers(0, 9).map(str),
    st.tuples(st.integers(1, 9), st.integers(1, 9)).map(lambda pair: f"{pair[0]}/{pair[1]}"),
    st.floats(0, 10, allow_nan=False).map(repr),
)
_EXPRESSIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", " * "]), inner).map("".join),
        inner.map(lambda text: f"-{text}"),
        inner.map(lambda text: f"({text})"),
        st.tuples(inner, st.integers(0, 3)).map(lambda pair: f"({pair[0]})**{pair[1]}"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}) / (2 + abs({pair[1]}))"),
        st.tuples(
            st.sampled_from(["tanh", "erf", "sigmoid", "relu", "Phi", "sin", "sign", "abs"]), inner
        ).map(lambda pair: f"{pair[0]}({pair[1]})"),
        st.tuples(st.sampled_from(["max", "min"]), inner, inner).map(lambda t: f"{t[0]}({t[1]},{t[2]})"),
    ),
    max_leaves=8,
)


@given(_EXPRESSIONS)
@settings(max_examples=300, deadline=None)
def test_canonical_text_is_a_fixed_point_and_keeps_the_values(text):
    try:
        formula = parse(text)
    except FormulaError as error:
        assert "powers of powers" in str(error)  # the only limit these texts can exceed
        return
    again = parse(formula.text)
    assert again == formula and again.text == formula.text and repr(again) == repr(formula)
    points = np.linspace(-2.0, 2.0, 9)
    assert np.array_equal(again.evaluate(points), formula.evaluate(points), equal_nan=True)
    spaced = text.replace("(", " (\t").replace(")", "\n) ").replace(",", " , ").replace("**", " ** ")
    assert parse(spaced) == formula


_PYTHON_NAMES = {
    "abs": np.abs,
    "tanh": np.tanh,
    "sin": np.sin,
    "sign": np.sign,
    "pi": np.pi,
    "max": np.maximum,
}


@given(_EXPRESSIONS)
@settings(max_examples=200, deadline=None)
def test_precedence_is_that_of_python(text):
    """Trusted text of this file's own making, evaluated by Python itself, is the independent reference."""
    if any(name in text for name in ("erf", "sigmoid", "relu", "Phi", "min")):
        return
    try:
        formula = parse(text)
    except FormulaError as error:
        assert "powers of powers" in str(error)
        return
    points = np.linspace(-2.0, 2.0, 9)
    with np.errstate(all="ignore"):
        value = eval(text, {"__builtins__": {}}, {**_PYTHON_NAMES, "x": points})
        reference = np.broadcast_to(value, points.shape)
    np.testing.assert_allclose(formula.evaluate(points), reference, rtol=1e-13, atol=1e-300)


@given(st.text(max_size=40))
@settings(max_examples=300, deadline=None)
def test_arbitrary_text_is_read_or_refused_and_nothing_else(text):
    try:
        formula = parse(text)
    except FormulaError:
        return
    assert parse(formula.text) == formula


@given(st.text(alphabet="x1.0+-*/(), epi_", max_size=30))
@settings(max_examples=500, deadline=None)
def test_text_of_the_right_alphabet_is_read_or_refused_and_nothing_else(text):
    try:
        formula = parse(text)
    except FormulaError:
        return
    assert parse(formula.text) == formula
