"""Off the manifold: the simulator against quadrature of the definition over all components of two tokens.

With L = 2 the fields of both tokens are linear in eight standard normal numbers: four sums and four
differences over the tokens. Directions in which the squared error is a polynomial of degree four need three
Gauss-Hermite nodes and are exact; the others get as many as an accuracy of 1e-5 takes, far below the sampling
error. Nothing is conditioned on and no formula of the theory is used.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import erf, softmax

from theorykit.validation.compare import Comparison
from theorykit.validation.simulate.single_location import population_risk

GENERIC = {"m_k": 0.8, "q_k": 1.3, "m_v": 0.6, "q_v": 0.9, "m_kv": 0.3, "m_vk": -0.25, "q_kv": 0.2}
OTHER = {"m_k": -0.5, "q_k": 0.7, "m_v": 0.9, "q_v": 1.5, "m_kv": -0.4, "m_vk": 0.35, "q_kv": -0.3}
TRUE_SCORE, TRUE_VALUE, SCORE, VALUE = range(4)


def gram(o):
    return np.array(
        [
            [1.0, 0.0, o["m_k"], o["m_vk"]],
            [0.0, 1.0, o["m_kv"], o["m_v"]],
            [o["m_k"], o["m_kv"], o["q_k"], o["q_kv"]],
            [o["m_vk"], o["m_v"], o["q_kv"], o["q_v"]],
        ]
    )


def components(overlaps, order):
    """Rows k*, v*, k, v with the given overlaps; row order[j] lies in the first j + 1 directions."""
    rows = np.zeros((4, 4))
    rows[list(order)] = np.linalg.cholesky(gram(overlaps)[np.ix_(order, order)])
    return rows


def quadrature_risk(task, weights, rows, sum_nodes, difference_nodes):
    """E (y - f)**2 for L = 2, by nodes for the sums and differences of the tokens along four directions."""
    rules = [np.polynomial.hermite_e.hermegauss(n) for n in (*sum_nodes, *difference_nodes)]
    points = np.array(list(itertools.product(*(rule[0] for rule in rules)))).T
    mass = math.prod(np.ix_(*(rule[1] / math.sqrt(2 * math.pi) for rule in rules))).ravel()
    total, difference = points[:4], points[4:]
    first = rows @ ((total + difference) / math.sqrt(2.0))
    second = rows @ ((total - difference) / math.sqrt(2.0))
    if task["kind"] == "spiked":
        first = first + math.sqrt(task["nu"]) * (rows @ rows[TRUE_SCORE])[:, None]
        probability = np.ones_like(mass)  # the two locations are equivalent
    else:
        probability = 2.0 / (1.0 + np.exp(task["nu"] * (second[TRUE_SCORE] - first[TRUE_SCORE])))
    sigma = weights(np.stack([first[SCORE], second[SCORE]]))
    prediction = sigma[0] * first[VALUE] + sigma[1] * second[VALUE]
    return task["noise"] ** 2 + float(mass @ (probability * (first[TRUE_VALUE] - prediction) ** 2))


def shifted_erf(x):
    return 1.0 + erf(0.3 + x)


SPIKED = {"kind": "spiked", "nu": 2.0, "length": 2, "noise": 0.3}
MAX = {"kind": "max", "nu": 1.5, "length": 2, "noise": 0.3}
CASES = {
    "linear spiked": (SPIKED, {"kind": "linear"}, lambda x: 1 + x, (0, 1, 2, 3), (3, 3, 3, 3), (3, 3, 3, 3)),
    "linear max": (MAX, {"kind": "linear"}, lambda x: 1 + x, (0, 1, 2, 3), (3, 3, 3, 3), (40, 3, 3, 3)),
    "softmax spiked": (
        SPIKED, {"kind": "softmax"}, lambda x: softmax(x, axis=0), (2, 0, 1, 3), (3, 3, 3, 3), (40, 3, 3, 3),
    ),
    "softmax max": (
        MAX, {"kind": "softmax"}, lambda x: softmax(x, axis=0), (0, 2, 1, 3), (2, 2, 3, 3), (24, 24, 3, 3),
    ),
    "erf spiked": (
        SPIKED, {"kind": "erf", "shift": 0.3}, shifted_erf, (2, 0, 1, 3), (20, 3, 3, 3), (20, 2, 3, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("overlaps", [GENERIC, OTHER], ids=["generic", "other"])
def test_off_manifold_risk(name, overlaps):
    task, activation, weights, order, *nodes = CASES[name]
    exact = quadrature_risk(task, weights, components(overlaps, order), *nodes)
    seed = 4100 + list(CASES).index(name)
    found = population_risk(task, activation, overlaps, 200_000, seed=seed, dimension=8)
    row = Comparison.of("risk", overlaps, exact, found["risk"])
    assert row.ok, f"{exact} against {found['risk']}, z = {row.z:.2f}"


@pytest.mark.parametrize("name", ["m_kv", "m_vk", "q_kv"])
def test_each_cross_overlap_matters(name):
    """The sign of each cross overlap alone is visible: the right one passes, the flipped one fails."""
    task, activation, weights, order, *nodes = CASES["linear spiked"]
    overlaps = {"m_k": 0.8, "q_k": 2.0, "m_v": 0.6, "q_v": 1.2, "m_kv": 0.3, "m_vk": -0.3, "q_kv": 0.4}
    flipped = overlaps | {name: -overlaps[name]}
    found = population_risk(task, activation, overlaps, 200_000, seed=4200, dimension=8)["risk"]
    right = quadrature_risk(task, weights, components(overlaps, order), *nodes)
    wrong = quadrature_risk(task, weights, components(flipped, order), *nodes)
    assert Comparison.of("risk", overlaps, right, found).ok
    assert not Comparison.of("risk", overlaps, wrong, found).ok


def test_the_quadrature_itself():
    """On the manifold linear attention has a closed form (1e-12); the nodes of softmax suffice (1e-8)."""
    task, _, weights, order, *nodes = CASES["linear spiked"]
    o = {"m_k": 0.8, "q_k": 1.3, "m_v": 0.6, "q_v": 0.9, "m_kv": 0.0, "m_vk": 0.0, "q_kv": 0.0}
    root = math.sqrt(task["nu"])
    mean, square = 1 + root * 0.8, 2 * (1 + 1.3) + 2.0 * 0.64 + 2 * root * 0.8
    closed = 0.09 + 1 - 2 * 0.6 * mean + 0.9 * square
    assert quadrature_risk(task, weights, components(o, order), *nodes) == pytest.approx(closed, abs=1e-12)
    task, _, weights, order, sums, _ = CASES["softmax spiked"]
    rows = components(GENERIC, order)
    coarse, fine = (quadrature_risk(task, weights, rows, sums, (n, 3, 3, 3)) for n in (40, 60))
    assert coarse == pytest.approx(fine, abs=1e-8)


def test_best_value_off_the_manifold():
    """The risk of linear attention is quadratic in v: its least value follows from ten quadratures."""
    task, activation, weights, order, *nodes = CASES["linear spiked"]
    overlaps = {"m_k": 0.8, "q_k": 2.0, "m_v": 0.6, "q_v": 1.2, "m_kv": 0.7, "m_vk": -0.3, "q_kv": 0.4}
    rows = components(overlaps, order)

    def risk(value):
        return quadrature_risk(task, weights, np.vstack([rows[:3], [*value, 0.0]]), *nodes)

    axes = np.eye(3)
    zero = risk(np.zeros(3))
    plus, minus = np.array([risk(a) for a in axes]), np.array([risk(-a) for a in axes])
    slope = (plus - minus) / 2
    bend = np.diag((plus + minus) / 2 - zero)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        bend[i, j] = bend[j, i] = (risk(axes[i] + axes[j]) - plus[i] - plus[j] + zero) / 2
    least = zero - slope @ np.linalg.solve(bend, slope) / 4
    along_truth = zero - slope[1] ** 2 / bend[1, 1] / 4
    found = population_risk(task, activation, overlaps, 200_000, seed=4300, dimension=8, best_value=True)
    assert Comparison.of("best_value_risk", overlaps, least, found["best_value_risk"]).ok
    assert not Comparison.of("best_value_risk", overlaps, along_truth, found["best_value_risk"]).ok
