"""Flows of overlaps against gradient flow of explicit vectors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp

from theorykit.derivations.overlaps import Gram, overlap_flow
from theorykit.errors import DerivationError

M_K, Q_K, M_V, Q_V = sp.symbols("m_k q_k m_v q_v", real=True)
M_KV, M_VK, Q_KV = sp.symbols("m_kv m_vk q_kv", real=True)
RHO, SIGMA = sp.symbols("rho sigma", real=True)

FOUR = {M_K: ("k", "k*"), Q_K: ("k", "k"), M_V: ("v", "v*"), Q_V: ("v", "v")}
SEVEN = {**FOUR, M_KV: ("k", "v*"), M_VK: ("v", "k*"), Q_KV: ("k", "v")}
ZERO = {("k", "v*"): sp.Integer(0), ("v", "k*"): sp.Integer(0), ("k", "v"): sp.Integer(0)}

CASES = {
    "four overlaps": (
        1 - 2 * M_V * sp.tanh(M_K) / (1 + Q_K) + Q_V * (1 + M_K**2 + Q_K**2 / 3),
        Gram(("k", "v"), ("k*", "v*"), FOUR, ZERO),
        (),
    ),
    "seven overlaps": (
        1 - 2 * M_V * M_K + Q_V * (1 + Q_K) + M_KV * M_VK + sp.exp(-Q_KV) * M_KV**2 + sp.sin(M_VK) * Q_KV,
        Gram(("k", "v"), ("k*", "v*"), SEVEN),
        (),
    ),
    "seven overlaps, one vector on its sphere": (
        1 - 2 * M_V * M_K + Q_V * (1 + Q_K**2) + M_KV * M_VK + Q_KV**2,
        Gram(("k", "v"), ("k*", "v*"), SEVEN),
        ("k",),
    ),
    "one vector on a sphere": (
        -RHO * sp.exp(RHO) - RHO**3,
        Gram(("q",), ("xi",), {RHO: ("q", "xi")}, {("q", "q"): sp.Integer(1)}),
        ("q",),
    ),
    "fixed vectors that are not orthogonal": (
        (RHO - 1) ** 2 + RHO * SIGMA + SIGMA**2 * Q_K,
        Gram(
            ("k",), ("a", "b"), {RHO: ("k", "a"), SIGMA: ("k", "b"), Q_K: ("k", "k")},
            {("a", "b"): sp.Rational(3, 5), ("b", "b"): sp.Integer(2)},
        ),
        (),
    ),
}  # fmt: skip


def start_vectors(gram: Gram, known: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Random trainable vectors whose known overlaps are what they have to be."""
    draw = np.random.default_rng(4)
    found: dict[str, np.ndarray] = {}
    for name in gram.trainable:
        vector = draw.standard_normal(9) * 0.5
        banned = [b for pair, v in gram.known.items() if v == 0 and name in pair for b in pair if b != name]
        for other in banned:
            away = known.get(other, found.get(other))
            if away is not None:
                vector = vector - away * (vector @ away) / (away @ away)
        if gram.known.get((name, name)) == 1:
            vector /= np.linalg.norm(vector)
        found[name] = vector
    return found


def fixed_vectors(gram: Gram) -> dict[str, np.ndarray]:
    matrix = np.array([[float(gram.value(a, b)) for b in gram.fixed] for a in gram.fixed])
    rows = np.linalg.cholesky(matrix)
    return {
        name: np.concatenate([row, np.zeros(9 - row.size)])
        for name, row in zip(gram.fixed, rows, strict=True)
    }


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("ascent", [False, True])
def test_against_explicit_vectors(case, ascent):
    objective, gram, spheres = CASES[case]
    rates = {gram.trainable[0]: sp.Rational(7, 10)}
    flow = overlap_flow(objective, gram, spheres, rates, ascent)
    symbols = list(gram.overlaps)
    function = sp.lambdify(symbols, objective, "numpy")
    right = sp.lambdify(symbols, [flow[s] for s in symbols], "numpy")
    fixed = fixed_vectors(gram)
    start = start_vectors(gram, fixed)
    sign = 1.0 if ascent else -1.0

    def overlaps(vectors):
        every = {**fixed, **vectors}
        return [every[a] @ every[b] for a, b in gram.overlaps.values()]

    def velocity(_, flat):
        """The gradient by complex steps, exact to rounding."""
        vectors = dict(zip(gram.trainable, flat.reshape(len(gram.trainable), 9), strict=True))
        out = []
        for name in gram.trainable:
            gradient = np.empty(9)
            for i in range(9):
                moved = vectors[name].astype(complex)
                moved[i] += 1e-30j
                gradient[i] = function(*overlaps({**vectors, name: moved})).imag / 1e-30
            if name in spheres:
                gradient -= vectors[name] * (gradient @ vectors[name]) / (vectors[name] @ vectors[name])
            out.append(sign * float(rates.get(name, 1)) * gradient)
        return np.concatenate(out)

    times = [0.005, 0.02] if ascent else [0.05, 0.2]  # free vectors that climb run away
    options = {"rtol": 1e-10, "atol": 1e-12, "t_eval": times}
    flat = np.concatenate([start[n] for n in gram.trainable])
    explicit = solve_ivp(velocity, (0, times[1]), flat, **options)
    reduced = solve_ivp(lambda _, y: right(*y), (0, times[1]), overlaps(start), **options)
    assert explicit.success
    assert reduced.success
    for k in range(2):
        vectors = dict(zip(gram.trainable, explicit.y[:, k].reshape(-1, 9), strict=True))
        assert np.abs(np.array(overlaps(vectors)) - reduced.y[:, k]).max() < 1e-8
    assert np.abs(reduced.y[:, 1] - overlaps(start)).max() > 1e-4


def test_a_vector_on_its_sphere_keeps_its_length():
    objective, gram, spheres = CASES["seven overlaps, one vector on its sphere"]
    flow = overlap_flow(objective, gram, spheres)
    assert sp.simplify(flow[Q_K]) == 0
    assert sp.simplify(overlap_flow(objective, gram)[Q_K]) != 0


def test_the_flow_on_the_sphere_is_the_projected_slope():
    slope = sp.Function("J")(RHO)
    gram = CASES["one vector on a sphere"][1]
    found = overlap_flow(slope, gram, ["q"], ascent=True)[RHO]
    assert sp.simplify(found - (1 - RHO**2) * sp.diff(slope, RHO)) == 0


def test_a_manifold_that_is_not_invariant_is_refused():
    gram = Gram(
        ("k", "v"), ("k*", "v*"), {**FOUR, M_KV: ("k", "v*")}, dict(itertools.islice(ZERO.items(), 1, 3))
    )
    with pytest.raises(DerivationError, match=r"overlap \('k', 'v'\) does not stay 0"):
        overlap_flow(M_KV * M_V, gram)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((("k",), ("a",), {RHO: ("k", "c")}), "which are no vectors"),
        ((("k",), ("a",), {RHO: ("k", "a")}), r"overlaps of k with \['k'\] are neither variables nor known"),
        ((("k",), ("a",), {RHO: ("k", "a"), SIGMA: ("a", "k"), Q_K: ("k", "k")}), "given twice"),
        ((("k", "k"), ("a",), {}), "distinct names"),
    ],
)
def test_incomplete_declarations(arguments, message):
    with pytest.raises(DerivationError, match=message):
        Gram(*arguments)


def test_spheres_and_rates_are_of_trainable_vectors():
    gram = CASES["one vector on a sphere"][1]
    with pytest.raises(DerivationError, match=r"\['xi'\] are no trainable vectors"):
        overlap_flow(RHO, gram, ["xi"])
