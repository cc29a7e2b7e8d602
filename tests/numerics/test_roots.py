"""Bracketed roots: proofs of sign change, counts, and refusals."""

from __future__ import annotations

import math
import pickle

import mpmath
import numpy as np
import pytest
import sympy as sp

from theorykit import codegen
from theorykit.errors import CodegenError, ConvergenceError
from theorykit.numerics.roots import RootStatus

X, A, B, C = (sp.Symbol(n, real=True) for n in ("x", "a", "b", "c"))


@pytest.fixture(scope="module")
def roots(record_of):
    """a x**9 + exp(b x) - c: flat, steep or smooth, as the parameters say."""
    return codegen.load_roots(
        "toy", ("steep",), lambda: record_of("steep", f=A * X**9 + sp.exp(B * X) - C), "x", "f"
    )


@pytest.fixture(scope="module")
def logarithm(record_of):
    return codegen.load_roots("toy", ("log",), lambda: record_of("log", f=sp.log(X) - C), "x", "f")


def test_enclosures_are_proofs(roots):
    """The residual, evaluated again at both ends, has opposite signs; and the true root is inside."""
    parameters = {"a": np.array([0.0, 1.0, 1e3])[:, None], "b": np.array([0.3, 1.0, 4.0]), "c": 2.5}
    found = roots(-2.0, 5.0, parameters)
    low, high = roots.residual(found.low, parameters), roots.residual(found.high, parameters)
    assert ((low < 0) & (high > 0) | (low == 0) & (found.low == found.high)).all()
    assert (found.error <= 2.0**-52 * np.abs(found.root)).all()
    with mpmath.workdps(30):
        for i, a in enumerate((0.0, 1.0, 1e3)):
            for j, b in enumerate((0.3, 1.0, 4.0)):
                exact = mpmath.findroot(
                    lambda x, a=a, b=b: a * x**9 + mpmath.exp(b * x) - 2.5, found.root[i, j]
                )
                # a residual of rounded terms changes sign within some ulps of the exact root
                assert abs(exact - mpmath.mpf(float(found.root[i, j]))) < 1e-15 * max(1.0, abs(exact))


def test_smooth_residuals_need_few_evaluations(logarithm):
    found = logarithm(1e-3, 1e3, {"c": np.linspace(-3, 3, 25)})
    assert np.abs(found.root / np.exp(np.linspace(-3, 3, 25)) - 1).max() < 4e-16
    assert found.evaluations.max() <= 20


def test_a_flat_root_of_order_nine_costs_at_most_four_bisections(roots):
    found = roots(-1.0, 1.7, {"a": 1e300, "b": 0.0, "c": 1.0}, xtol=1e-12)
    assert abs(found.root) <= 1e-12 + found.error
    assert found.evaluations <= 4 * math.ceil(math.log2(2.7 / 2e-12)) + 2


def test_a_looser_tolerance_is_respected_and_still_a_proof(roots):
    parameters = {"a": 0.0, "b": 1.0, "c": 2.0}
    found = roots(0.0, 1.0, parameters, xtol=1e-3)
    assert found.low <= math.log(2.0) <= found.high
    assert 0 < found.error <= 1e-3
    assert roots.residual(found.low, parameters) < 0 < roots.residual(found.high, parameters)


def test_a_root_at_an_end(roots):
    found = roots(0.0, 1.0, {"a": 0.0, "b": 1.0, "c": 1.0})
    assert (found.low, found.high, found.evaluations) == (0.0, 0.0, 2)


def test_each_reason_of_failure(roots, logarithm):
    same = roots(1.0, 2.0, {"a": 0.0, "b": 1.0, "c": [1.0, 3.0]}, on_failure="return")
    assert [RootStatus(s) for s in same.status] == [RootStatus.NO_SIGN_CHANGE, RootStatus.BRACKETED]
    outside = logarithm(-1.0, 2.0, {"c": 0.0}, on_failure="return")
    assert RootStatus(int(outside.status)) is RootStatus.NON_FINITE
    with pytest.raises(
        ConvergenceError, match=r"1 of 2 roots not enclosed; number 0 in \[1.0, 2.0\]: .*same sign"
    ):
        roots(1.0, 2.0, {"a": 0.0, "b": 1.0, "c": [1.0, 3.0]})


def test_an_infinite_end_is_bisected(logarithm):
    """log 0 = -inf has a sign."""
    found = logarithm(0.0, 4.0, {"c": 1.0})
    assert abs(found.root - math.e) < 1e-15


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2.0, 1.0), "low < high"),
        ((0.0, math.inf), "finite"),
        ((1.0, 1.0), "low < high"),
    ],
)
def test_bad_intervals_are_named(logarithm, arguments, message):
    with pytest.raises(ValueError, match=message):
        logarithm(*arguments, {"c": 0.0})


def test_bad_parameters_are_named(logarithm):
    with pytest.raises(ValueError, match=r"needs values for \['c'\]"):
        logarithm(1.0, 2.0)
    with pytest.raises(ValueError, match="rtol must be"):
        logarithm(1.0, 2.0, {"c": 0.5}, rtol=-1.0)


def test_a_module_without_a_residual_is_refused(logarithm, record_of):
    from theorykit.codegen.roots import Roots

    assert pickle.loads(pickle.dumps(logarithm)).program is logarithm.program
    program = codegen.load("toy", ("closed",), lambda: record_of("closed", f=A), ("f",))
    with pytest.raises(CodegenError, match="holds no residual"):
        Roots(program)
