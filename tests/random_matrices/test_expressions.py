"""Expressions: typed dimensions, normal form, pencils that reproduce them, equations in few unknowns."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sympy as sp

from theorykit import random_matrices as rm
from theorykit.derivations.dyson.check import corner_mismatch
from theorykit.derivations.dyson.expression import Scaled
from theorykit.derivations.dyson.pencil import make_pencil

S, W = rm.Wigner("S"), rm.Wigner("W")
X = rm.Gaussian("X", rows="p", columns="n")
Y = rm.Gaussian("Y", rows="p", columns="q")
G = rm.Gaussian("G")
ONE = rm.identity("n")
u, v = rm.Vector("u", "n"), rm.Vector("v", "p")
B = S @ W + W @ S
c = sp.Symbol("c", positive=True)

EXPRESSIONS = {
    "wigner": S,
    "wishart": X.T @ X,
    "other side": X @ X.T,
    "sum": S + 2 * X.T @ X - 0.5 * ONE,
    "polynomial": B @ B,
    "anticommutator": B,
    "cube": S @ S @ S,
    "inverse": rm.inverse(0.3 * ONE + B @ B),
    "inverse inside": X.T @ rm.inverse(rm.identity("p") + X @ X.T) @ X,
    "inverse of a part": rm.inverse(ONE + S @ S) + W,
    "square": G @ G.T + G + G.T,
    "three shapes": X.T @ Y @ Y.T @ X,
    "spike": S + 3 * rm.outer(u, u),
    "spike inside": (X + rm.outer(v, u)).T @ (X + rm.outer(v, u)),
    "spike in the middle": X.T @ (rm.identity("p") + c * rm.outer(v, v)) @ X,
    "symbolic scalar": c * S @ S + S / c,
    "unequal spikes": S + rm.outer(u, rm.Vector("w")) + rm.outer(rm.Vector("w"), u),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_corner_of_the_inverse_pencil_is_the_resolvent(name):
    pencil = make_pencil(EXPRESSIONS[name])
    assert max(corner_mismatch(pencil, seed) for seed in range(3)) < 1e-10


def test_a_wrong_pencil_is_noticed():
    import dataclasses

    pencil = make_pencil(EXPRESSIONS["polynomial"])
    wrong = sp.Matrix(pencil.constant)
    wrong[1, 1] *= -1
    assert corner_mismatch(dataclasses.replace(pencil, constant=sp.ImmutableDenseMatrix(wrong))) > 1e-3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: S @ X, r"product of a n×n and a p×n matrix is not defined: 'n' is not 'p'"),
        (lambda: X + S, r"sum of a p×n and a n×n matrix is not defined"),
        (lambda: rm.inverse(X), r"only a square matrix has an inverse, got a p×n one"),
        (lambda: rm.pencil(X), r"expr must be square, got a p×n matrix"),
        (lambda: rm.stieltjes(S @ W, 1j), r"expr must be symmetric"),
        (lambda: rm.pencil(S + rm.Gaussian("S") + rm.Gaussian("S").T), r"'S' names two things"),
        (lambda: rm.stieltjes(X.T @ X, 1j), r"ratios must give p over n"),
        (lambda: rm.stieltjes(S, 1j, ratios={"p": 1.0}), r"ratios names \['p'\], which are no dimensions"),
        (
            lambda: rm.stieltjes(X.T @ X, 1j, ratios={"p": -1.0}),
            r"ratios\['p'\] must be a real number in \(0",
        ),
        (lambda: rm.outliers(S + rm.outer(u, u), overlaps={("u", "t"): 1}), r"overlaps names \('u', 't'\)"),
        (lambda: rm.quadratic_form(S, u, v, 1j), r"right must be a vector of dimension 'n'"),
        (lambda: S * float("nan"), r"scalar of an expression must be finite"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: S + 1, r"matrix expression plus 1 \(int\) is not defined"),
        (lambda: S * W, r"written with @"),
        (lambda: S @ 2, r"@ needs two matrix expressions"),
        (lambda: 1j * S, r"real number or a SymPy expression, got 1j"),
        (lambda: rm.stieltjes(c * S, 1j), r"the scalar c of .* is a symbol"),
        (lambda: rm.stieltjes(3, 1j), r"expr must be a matrix expression, got 3"),
        (lambda: rm.density(S, [1j]), r"grid must be real"),
        (lambda: rm.Wigner("a b"), r"name must be a name"),
        (lambda: rm.outer(u, S), r"right of an outer product must be a Vector"),
    ],
)
def test_what_is_no_matrix_is_refused_by_name(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_sums_and_products_have_a_normal_form():
    assert S @ W + W @ S == W @ S + S @ W
    assert (S @ W + W @ S).T == S @ W + W @ S
    assert 2 * (S + W) - S - S == 2 * W
    assert (2 * X.T) @ (X / 2) == X.T @ X
    assert rm.inverse(rm.inverse(S)) == S
    assert ONE @ S @ ONE == S
    assert np.float64(2.0) * S == S * 2


def test_expressions_pickle_and_their_repr_rebuilds_them():
    names = {k: getattr(rm, k) for k in ("Wigner", "Gaussian", "Vector", "inverse")}
    from theorykit.derivations.dyson.expression import Identity, Outer

    for expression in EXPRESSIONS.values():
        assert pickle.loads(pickle.dumps(expression)) == expression
        if "c" not in {str(a) for a in repr(expression).split()}:
            assert eval(repr(expression), {**names, "Identity": Identity, "Outer": Outer}) == expression


@pytest.mark.parametrize(
    ("expression", "count"),
    [(S, 1), (X.T @ X, 1), (X @ X.T, 1), (S + X.T @ X, 1), (G @ G.T, 2), (S @ S @ S, 6), (B @ B, 8)],
)
def test_few_unknowns_remain(expression, count):
    system = rm.dyson_equations(expression)
    assert len(system.unknowns) == count
    assert set(system.equations) == set(system.unknowns)


def test_the_equations_of_marchenko_pastur_are_the_known_one():
    """m = 1/(-z + c/(1 + m)), read off the printed record, not typed into the engine."""
    system = rm.dyson_equations(X.T @ X)
    (m,) = system.unknowns
    z, ratio = sp.Symbol("z", complex=True), sp.Symbol("ratio_p", positive=True)
    inner = {s: e.args[0].doit()[0, 0] for s, e in system.explicit.items()}
    right = system.sources["n"].doit()[0, 0].subs(inner)
    assert sp.simplify(right - 1 / (-z + ratio / (1 + m))) == 0


def test_pencils_and_equations_print():
    assert r"\begin{matrix}" in rm.pencil(B @ B).latex()
    text = rm.dyson_equations(X.T @ X).latex()
    assert text.startswith(r"\begin{aligned}") and "m_{uu}" in text


def test_importing_the_engine_loads_nothing_heavy():
    import subprocess
    import sys

    code = (
        "import sys; from theorykit import random_matrices as rm; X = rm.Gaussian('X', 'p', 'n'); X.T @ X; "
        "print(sorted({'sympy', 'scipy', 'numba', 'matplotlib', 'xarray'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_scalar_is_never_text():
    with pytest.raises(TypeError, match="must be a real number or a SymPy expression"):
        Scaled("__import__('os')", S)
