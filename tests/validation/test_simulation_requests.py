"""Requests to the simulator: every bad entry is named before any work; vectors have their overlaps."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theorykit.validation.simulate.single_location import population_risk
from theorykit.validation.simulate.single_location_request import OVERLAPS, teacher_and_student

TASK = {"kind": "spiked", "nu": 1.0, "length": 3, "noise": 0.1}
SOFTMAX = {"kind": "softmax"}
OVERLAP = {"m_k": 1.0, "q_k": 1.5, "m_v": 0.9, "q_v": 1.0}


def ask(task=None, activation=None, overlaps=None, **options):
    settings = {"samples": 100, "seed": 1} | options
    return population_risk(TASK | (task or {}), activation or SOFTMAX, OVERLAP | (overlaps or {}), **settings)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"kind": "spike"}, ValueError, "task kind must be one of spiked, max, got 'spike'"),
        ({"kind": 3}, TypeError, "task kind must be one of"),
        ({"nu": -1.0}, ValueError, "nu must be a real number in [0"),
        ({"nu": math.inf}, ValueError, "nu must be"),
        ({"nu": math.nan}, ValueError, "nu must be"),
        ({"nu": "1"}, TypeError, "nu must be"),
        ({"length": 0}, ValueError, "length must be an integer"),
        ({"length": 2.5}, ValueError, "length must be an integer"),
        ({"length": True}, TypeError, "length must be an integer"),
        ({"length": {}}, ValueError, "length must be an integer or a non-empty mapping"),
        ({"length": {2: 0.5, 3: 0.4}}, ValueError, "probabilities of length must sum to 1, got 0.9"),
        ({"length": {2: 1.5, 3: -0.5}}, ValueError, "probability of length 2"),
        ({"length": {0: 1.0}}, ValueError, "length must be an integer"),
        ({"noise": -0.1}, ValueError, "noise must be"),
        ({"noise": math.inf}, ValueError, "noise must be"),
        ({"strength": 1.0}, ValueError, "task has the unknown entry 'strength'"),
    ],
)
def test_bad_task(change, error, message):
    with pytest.raises(error, match=re.escape(message)):
        ask(task=change)


@pytest.mark.parametrize(
    ("activation", "error", "message"),
    [
        ({"kind": "relu"}, ValueError, "activation kind must be one of softmax"),
        ({"shift": 1.0}, ValueError, "activation lacks the entry 'kind'"),
        ({"kind": "softmax", "shift": 1.0}, ValueError, "'softmax' takes no shift, got 1.0"),
        ({"kind": "erf", "shift": math.inf}, ValueError, "shift must be"),
        ({"kind": "erf", "formula": "x"}, ValueError, "'erf' takes no formula"),
        ({"kind": "elementwise"}, ValueError, "needs a formula"),
        ({"kind": "elementwise", "formula": "__import__('os')"}, ValueError, "__import__"),
        ({"kind": "elementwise", "formula": "1 + y"}, ValueError, "y"),
        (
            {"kind": "elementwise", "formula": "log(x)"},
            ValueError,
            "must be finite where it is sampled; at x = ",
        ),
        ({"kind": "normalized_kernel", "formula": "x"}, ValueError, "finite and not negative"),
        ({"kind": "normalized_kernel", "formula": "relu(x - 50)"}, ValueError, "vanishes on all tokens"),
        ("softmax", TypeError, "activation must be a mapping"),
    ],
)
def test_bad_activation(activation, error, message):
    with pytest.raises(error, match=re.escape(message)):
        ask(activation=activation)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"q_k": -1.0}, ValueError, "q_k must be a real number in [0"),
        ({"q_k": 0.9}, ValueError, "q_k must be at least m_k**2 + m_kv**2 = 1.0, got 0.9"),
        ({"m_kv": 0.8}, ValueError, "q_k must be at least m_k**2 + m_kv**2 = 1.64"),
        ({"m_vk": 0.5}, ValueError, "q_v must be at least m_v**2 + m_vk**2 = 1.06"),
        ({"q_kv": 0.4}, ValueError, "q_kv must be a real number in [-0.308"),
        ({"q_k": 1.0, "q_kv": 0.1}, ValueError, "q_kv must be a real number in [0.0, 0.0]"),
        ({"m_k": math.nan}, ValueError, "m_k must be"),
        ({"m_k": "1"}, TypeError, "m_k must be"),
        ({"q_vk": 0.0}, ValueError, "overlaps has the unknown entry 'q_vk'"),
    ],
)
def test_bad_overlaps(change, error, message):
    with pytest.raises(error, match=re.escape(message)):
        ask(overlaps=change)


def test_missing_overlap():
    with pytest.raises(ValueError, match="overlaps lacks the entry 'q_v'"):
        population_risk(TASK, SOFTMAX, {"m_k": 1.0, "q_k": 1.0, "m_v": 1.0}, 100, 1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"samples": 1}, ValueError, "samples must be an integer in [2"),
        ({"samples": "many"}, TypeError, "samples must be"),
        ({"dimension": 3}, ValueError, "dimension must be an integer in [4"),
        ({"threads": 0}, ValueError, "threads must be an integer in [1"),
        ({"excess": 1}, TypeError, "excess must be True or False, got 1"),
        ({"best_value": "yes"}, TypeError, "best_value must be True or False"),
        ({"seed": "1"}, TypeError, "seed must be an integer"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        (
            {"best_value": True},
            ValueError,
            "samples must be at least 160 for best_value at dimension 16, got 100",
        ),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        ask(**options)


def _gram(overlaps):
    m_k, q_k, m_v, q_v, m_kv, m_vk, q_kv = (overlaps.get(name, 0.0) for name in OVERLAPS)
    return np.array(
        [[1.0, 0.0, m_k, m_vk], [0.0, 1.0, m_kv, m_v], [m_k, m_kv, q_k, q_kv], [m_vk, m_v, q_kv, q_v]],
    )


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.floats(-3, 3), min_size=8, max_size=8))
def test_vectors_have_their_overlaps(entries):
    """Overlaps of vectors that exist; the ones built have the same Gram matrix (1e-11 of its scale)."""
    k, v = np.array(entries[:4]), np.array(entries[4:])
    given_overlaps = dict(zip(OVERLAPS, (k[0], k @ k, v[1], v @ v, k[1], v[0], k @ v), strict=True))
    rows = teacher_and_student(given_overlaps)
    scale = max(1.0, float(k @ k), float(v @ v))
    np.testing.assert_allclose(rows @ rows.T, _gram(given_overlaps), rtol=0, atol=1e-11 * scale)


@pytest.mark.parametrize("m_k", [0.1, 1 / 3, 1.6, 7.7])
def test_aligned_key_has_nothing_beside_the_truth(m_k):
    rows = teacher_and_student({"m_k": m_k, "q_k": m_k**2, "m_v": m_k, "q_v": m_k * m_k, "q_kv": 0.0})
    assert np.array_equal(rows[2:], [[m_k, 0, 0, 0], [0, m_k, 0, 0]])
