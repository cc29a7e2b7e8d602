"""Records of the interpolation error: value semantics, scalar products, growth of the formula, refusals."""

from __future__ import annotations

import dataclasses
import math
import pickle

import numpy as np
import pytest

from theorykit import interpolation as ip
from theorykit.errors import FormulaError
from theorykit.formula import Formula

GENERAL = ip.Overlaps(key2=1, query2=2, signal_key=0.5, signal_query=-0.3, key_query=0.2)
RECORDS = [
    ip.Attention("tanh(x)", ratio=0.5, ridge=0.1, signal=1.0),
    ip.Attention("relu(x)", ratio=2, ridge=1e-9, signal=3, aligned=-1.5, diagonal="kept"),
    ip.Attention(ip.SOFTMAX_MAP, ratio=0.5, ridge=0.1, label_mean=0.6, square_variance=0.8, centering="none"),
    ip.Attention("x**3", ratio=0.5, ridge=0.1, signal=1, overlaps=GENERAL, diagonal=0.25),
    GENERAL,
    ip.Overlaps(),
]


@pytest.mark.parametrize("record", RECORDS, ids=repr)
class TestEveryRecord:
    def test_repr_rebuilds(self, record):
        names = {"Attention": ip.Attention, "Overlaps": ip.Overlaps, "Formula": Formula}
        assert eval(repr(record), names) == record

    def test_pickles_and_hashes_by_value(self, record):
        copy = pickle.loads(pickle.dumps(record))
        assert copy == record
        assert hash(copy) == hash(record)

    def test_is_frozen(self, record):
        with pytest.raises(dataclasses.FrozenInstanceError):
            record.ratio = 1.0

    def test_replace(self, record):
        assert record.replace() == record
        with pytest.raises(TypeError, match="has no parameter 'beta'"):
            record.replace(beta=1)


def test_softmax_map():
    assert ip.SOFTMAX_MAP == Formula("exp(x-1/2)-1")


@pytest.mark.parametrize("beta", [2.0, -0.7, 0.0])
def test_aligned_weights_have_the_scalar_products_of_their_vectors(beta):
    rng = np.random.default_rng(0)
    mu = rng.standard_normal(6)
    unit = mu / np.linalg.norm(mu)
    vectors = np.stack(
        [mu, math.copysign(1, beta) * math.sqrt(abs(beta)) * unit, math.sqrt(abs(beta)) * unit]
    )
    assert np.allclose(np.outer(vectors[1], vectors[2]), beta * np.outer(unit, unit), atol=1e-15)
    model = ip.Attention("x", ratio=1, ridge=1, signal=float(np.linalg.norm(mu)), aligned=beta)
    assert np.allclose(model.gram, vectors @ vectors.T, atol=1e-13)


def test_scalar_products_of_random_vectors_are_accepted_and_beyond_refused():
    rng = np.random.default_rng(1)
    for _ in range(50):
        mu, key, query = rng.standard_normal((3, int(rng.integers(1, 5))))  # dependent ones, too
        given = ip.Overlaps(key @ key, query @ query, mu @ key, mu @ query, key @ query)
        signal = float(np.linalg.norm(mu))
        model = ip.Attention("x", ratio=1, ridge=1, signal=signal, overlaps=given)
        assert np.allclose(model.gram[0], [mu @ mu, mu @ key, mu @ query])
        with pytest.raises(ValueError, match=r"signal_key must be in|three vectors"):
            bad = given.replace(signal_key=1.01 * signal * float(np.linalg.norm(key)))
            ip.Attention("x", ratio=1, ridge=1, signal=signal, overlaps=bad)
    with pytest.raises(ValueError, match="three vectors mu, w_K, w_Q"):
        bad = ip.Overlaps(key2=1, query2=1, signal_key=0.9, signal_query=0.9, key_query=-0.9)
        ip.Attention("x", ratio=1, ridge=1, signal=1, overlaps=bad)
    with pytest.raises(ValueError, match="signal_query must be in"):
        ip.Attention("x", ratio=1, ridge=1, signal=0, overlaps=ip.Overlaps(query2=1, signal_query=0.1))


GOOD = {"formula": "tanh(x)", "ratio": 0.5, "ridge": 0.1, "signal": 1.0}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"ratio": 0}, ValueError, r"ratio must be a real number in \(0, inf\), got 0.0"),
        ({"ratio": -1}, ValueError, "ratio must be"),
        ({"ratio": math.inf}, ValueError, "ratio must be"),
        ({"ridge": 0}, ValueError, "ridge must be"),
        ({"ridge": -0.1}, ValueError, "ridge must be"),
        ({"ridge": "0.1"}, TypeError, "ridge must be"),
        ({"signal": -1}, ValueError, "signal must be"),
        ({"signal": math.nan}, ValueError, "signal must be"),
        ({"aligned": math.inf}, ValueError, "aligned must be"),
        ({"label_mean": 1.1}, ValueError, r"label_mean must be a real number in \[-1, 1\]"),
        ({"square_variance": -0.1}, ValueError, "square_variance must be"),
        ({"diagonal": "none"}, ValueError, "diagonal must be one of 'zero', 'kept', or a real number"),
        ({"diagonal": None}, TypeError, "diagonal must be"),
        ({"centering": "rows"}, ValueError, "centering must be one of 'entry', 'row', 'column', 'none'"),
        ({"centering": 1}, TypeError, "centering must be one of"),
        ({"overlaps": (1, 1)}, TypeError, "overlaps must be an Overlaps record"),
        ({"overlaps": ip.Overlaps(), "aligned": 1}, ValueError, "aligned and overlaps exclude each other"),
        ({"formula": "tanh(y)"}, FormulaError, "y"),
        ({"formula": "exp(x)", "diagonal": "kept"}, ValueError, "linear regression"),
        ({"formula": "x**3", "diagonal": "kept"}, ValueError, "linear regression"),
    ],
)
def test_refusals(change, error, message):
    with pytest.raises(error, match=message):
        ip.Attention(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"key2": -1}, "key2 must be"),
        ({"key2": 1, "query2": 1, "key_query": 1.1}, "key_query must be in"),
        ({"signal_key": math.nan}, "signal_key must be"),
    ],
)
def test_refused_overlaps(bad, message):
    with pytest.raises(ValueError, match=message):
        ip.Overlaps(**bad)


@pytest.mark.parametrize(
    ("formula", "limit"),
    [("x", 1), ("tanh(x)", 0), ("relu(x)", 1), ("gelu(x)", 1), ("silu(x)", 1), ("abs(x)", 1), ("-2*x + cos(x)", -2),
     ("softplus(3*x)", 3), ("log(1 + exp(x))", 1), ("x + sqrt(abs(x))", 1), ("sqrt(abs(x))", 0), ("sin(x)", 0),
     ("relu(-x)", 0), ("exp(-x)", 0)],
)  # fmt: skip
def test_limit_of_a_kept_diagonal(formula, limit):
    model = ip.Attention(formula, ratio=1, ridge=1, diagonal="kept")
    assert model.diagonal_value == pytest.approx(limit, abs=1e-12)
    assert model.replace(diagonal="zero").diagonal_value == 0
    assert model.replace(diagonal=0.125).diagonal_value == 0.125


@pytest.mark.parametrize("formula", ["x*sin(x)", "x/log(2 + x**2)"])
def test_a_limit_that_values_do_not_decide_is_asked_for(formula):
    with pytest.raises(ValueError, match="give diagonal as a number"):
        ip.Attention(formula, ratio=1, ridge=1, diagonal="kept")


def test_public_names_are_not_shadowed_by_modules():
    """Importing a submodule binds its name in the package: no public function may be called like one."""
    import importlib
    import pkgutil
    import types

    for module in pkgutil.iter_modules(ip.__path__):
        importlib.import_module(f"{ip.__name__}.{module.name}")
    for name in filter(str.islower, ip.__all__):
        assert not isinstance(getattr(ip, name), types.ModuleType), name
