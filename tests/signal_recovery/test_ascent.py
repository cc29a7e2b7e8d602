"""The finite model through the public function: what a model becomes, and what its sizes must satisfy."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from theorykit import signal_recovery as sr
from theorykit.validation.simulate.signal_recovery import ascent

SIZES = {"tokens": 20, "dimension": 6, "steps": 12, "step_size": 0.05, "trials": 3, "seed": 5}


def test_a_model_becomes_its_sequences():
    model = sr.Model(theta=1.5, fraction=0.3, beta=0.7)
    found = sr.simulate(model, **SIZES, start=0.2)
    same = ascent(1.5, 6, 20, 6, 12, 0.05, 0.2, trials=3, seed=5, beta=0.7)
    assert (found["rho"].to_numpy() == same["rho"].to_numpy()).all()
    assert found.attrs["model"] == repr(model)
    assert (found["rho"][:, 0] == 0.2).all()
    assert pickle.loads(pickle.dumps(found)).identical(found)


def test_kappa_is_what_the_sizes_make():
    agreeing = sr.simulate(sr.Model(1.0, 0.5, kappa=5 / 20), **SIZES)
    assert (agreeing["rho"].to_numpy() == sr.simulate(sr.Model(1.0, 0.5), **SIZES)["rho"].to_numpy()).all()
    with pytest.raises(ValueError, match="kappa must be 0 or"):
        sr.simulate(sr.Model(1.0, 0.5, kappa=0.3), **SIZES)
    with pytest.raises(ValueError, match=r"fraction \* tokens must be an integer"):
        sr.simulate(sr.Model(1.0, 0.33), **SIZES)
    with pytest.raises(ValueError, match="dimension must be an integer in"):
        sr.simulate(sr.Model(1.0, 0.5), **{**SIZES, "dimension": 2})
    with pytest.raises(TypeError, match="model must be a Model"):
        sr.simulate("model", **SIZES)


def test_engines_and_updates_are_passed_on():
    model = sr.Model(1.0, 0.5)
    paths = [
        sr.simulate(model, **SIZES, start=0.1, engine=engine, update=update)["rho"].to_numpy()
        for engine in ("chain", "vectors")
        for update in ("tangential", "ambient")
    ]
    assert len({p.tobytes() for p in paths}) == 4


def test_a_kernel_of_your_own_climbs():
    """A kernel that rises with the score breaks the sign symmetry: from the equator all trials go up."""
    found = sr.simulate(
        sr.Model(2.0, 0.5, kernel="log(1 + exp(t))"),
        tokens=40, dimension=5, steps=150, step_size=0.1, start=0.0, trials=4, seed=1,
    )  # fmt: skip
    assert (found["rho"][:, -1] > 0.8).all()


def test_opposed_and_aligned_attention():
    """At +xi the mass is above the fraction, at -xi below it; at the limit values within the finite-size error."""
    model = sr.Model(theta=1.5, fraction=0.3)
    for pole, limit in ((1.0, sr.attention_mass(model, 1.0)), (-1.0, sr.attention_mass(model, -1.0))):
        found = sr.simulate(
            model, tokens=2000, dimension=4, steps=1, step_size=0.0, start=pole, trials=4, seed=2
        )
        mass = found["attention_mass"].to_numpy()
        # 256 sequences of 2000 tokens: a relative spread of some exp(beta**2/2)/sqrt(L) each, bias of order 1/L
        assert abs(mass.mean() - limit) < 4 * mass.std(ddof=1) / 2 + 2e-3
        np.testing.assert_allclose(found["noise_mass"], 1 - mass, rtol=0, atol=1e-15)
