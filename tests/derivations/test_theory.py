"""A theory declared outside the package is audited, solved, validated and exported like ours."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace

import pytest
import toy_theory
from toy_theory import THEORY, make_growth

from theorykit import theory
from theorykit.derivations.ledger import Claim
from theorykit.errors import DerivationError
from theorykit.theory import Theory
from theorykit.validation.run import validate


def test_solver_and_simulator_of_the_toy_agree():
    report = validate(THEORY, trials=4000, seed=7)
    assert report.ok
    assert [dict(row.parameters) for row in report.rows] == [{"a": 0.2}, {"a": 0.5}]


def test_validation_uses_the_number_of_trials_the_theory_chooses():
    assert validate(THEORY).rows == validate(THEORY, trials=20_000).rows
    assert validate(THEORY, trials=4000).rows != validate(THEORY).rows


def test_a_wrong_theory_fails_its_validation(monkeypatch):
    true = toy_theory.growth_number
    monkeypatch.setattr(toy_theory, "growth_number", lambda a: 2 * true(a))
    assert not validate(THEORY, trials=4000, seed=7).ok


def test_validation_needs_points_and_a_positive_number_of_trials():
    with pytest.raises(ValueError, match="toy declares no validation points"):
        validate(replace(THEORY, validation_points=()))
    with pytest.raises(ValueError, match="trials must be an integer"):
        validate(THEORY, trials=0)


def test_equations_are_those_of_the_derivations():
    found = THEORY.equations()
    assert set(found) == {"toy.growth", "toy.weights"}
    assert found["toy.growth"].observables == make_growth().equations.observables


def test_claims_may_be_given_lazily():
    lazy = replace(THEORY, claims=lambda: THEORY.claims)
    assert lazy.claim_pairs() == THEORY.claim_pairs()
    assert all(isinstance(claim, Claim) and callable(judge) for claim, judge in lazy.claim_pairs())


def test_a_derivation_alone_is_audited():
    report = theory.audit(make_growth())
    assert report.ok
    assert report.name == "toy.growth"
    assert len(report.derivations) == 1


def test_names_of_theories_and_derivations():
    assert "single_location" in theory.theories()
    for name in ("qqq", "single_locatoin", ""):
        with pytest.raises(ValueError, match=r"must be one of .*single_location"):
            theory.resolve(name)
    with pytest.raises(TypeError, match="must be a name or a Theory"):
        theory.audit(3)
    with pytest.raises(DerivationError, match=r"no derivation is called 'toy\.unknown'"):
        theory.audit("toy.unknown")


@pytest.mark.parametrize("name", ["single_location", "single-location", "slr", "SLR"])
def test_spellings_of_a_theory_lead_to_one_module(name, monkeypatch):
    monkeypatch.setitem(theory._MODULES, "single_location", "toy_theory")
    assert theory.resolve(name) is THEORY


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"name": ""}, TypeError, "name of a theory"),
        ({"derivations": [make_growth]}, TypeError, "derivations of a theory must be a mapping"),
        ({"solver": {"x": 3}}, TypeError, "solver of a theory must map names to callables"),
        ({"validation_points": (3,)}, TypeError, "validation_points of theory toy must be ValidationPoint"),
    ],
)
def test_a_bad_record_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        replace(THEORY, **changes)


def test_the_record_is_frozen_hashable_and_pickles():
    with pytest.raises(FrozenInstanceError):
        THEORY.name = "other"
    copy = pickle.loads(pickle.dumps(THEORY))
    assert copy.derivations == THEORY.derivations
    assert [p.parameters for p in copy.validation_points] == [{"a": 0.2}, {"a": 0.5}]
    assert hash(THEORY) == hash(THEORY.__class__(**vars(THEORY)))


def test_tables_of_the_record_are_its_own():
    table = dict(THEORY.derivations)
    record = Theory("t", "t", table)
    table.clear()
    assert set(record.derivations) == {"toy.growth", "toy.weights"}


def test_importing_the_module_imports_nothing_heavy():
    code = (
        "import sys, theorykit.theory as t\n"
        "heavy = {'sympy', 'numpy', 'scipy', 'numba', 'matplotlib', 'xarray', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
