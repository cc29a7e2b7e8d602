"""The catalogue of derivations: lazy, cached, replaceable for mutation tests, and one door to it only."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from toy_theory import make_growth

import theorykit
from theorykit import derivations
from theorykit.errors import DerivationError

CALLS: list[dict[str, object]] = []


def derive(**options: object):
    """What the catalogue entry of these tests points to."""
    CALLS.append(options)
    return make_growth()


def derive_nothing() -> None:
    """A deriving function that forgets to return."""


@pytest.fixture(autouse=True)
def toy_entries(monkeypatch):
    monkeypatch.setitem(derivations.CATALOGUE, "toy.growth", f"{__name__}:derive")
    monkeypatch.setitem(derivations.CATALOGUE, "toy.nothing", f"{__name__}:derive_nothing")
    derivations._derive.cache_clear()
    CALLS.clear()
    yield
    derivations._derive.cache_clear()


def test_names_are_listed_by_calling_the_package():
    assert "toy.growth" in derivations.names()
    assert derivations() == derivations.names() == tuple(sorted(derivations.CATALOGUE))
    assert theorykit.derivations() == derivations.names()


def test_every_entry_names_a_module_and_a_function():
    for target in derivations.CATALOGUE.values():
        module, function = target.split(":")
        assert module
        assert function.isidentifier()


def test_a_derivation_is_made_once_per_options():
    first = derivations.get("toy.growth", task="a")
    assert derivations.get("toy.growth", task="a") is first
    assert derivations.get("toy.growth", task="b") is not first
    assert CALLS == [{"task": "a"}, {"task": "b"}]


def test_options_that_are_equal_but_of_other_type_are_kept_apart():
    assert derivations.get("toy.growth", flag=True) is not derivations.get("toy.growth", flag=1)


def test_order_of_options_does_not_matter():
    assert derivations.get("toy.growth", a=1, b=2) is derivations.get("toy.growth", b=2, a=1)


@pytest.mark.parametrize("name", ["toy.grwth", "toy.groth"])
def test_unknown_name_suggests_near_ones(name):
    with pytest.raises(DerivationError, match=r"no derivation is called .*did you mean 'toy\.growth'"):
        derivations.get(name)


def test_unknown_name_without_near_ones_lists_the_known():
    with pytest.raises(DerivationError, match=r"known: .*toy\.growth"):
        derivations.get("qqqqqqqq")


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match="name of a derivation must be a str, got 3"):
        derivations.get(3)
    with pytest.raises(TypeError, match=r"option task of toy\.growth must be hashable"):
        derivations.get("toy.growth", task=[1])
    with pytest.raises(TypeError, match="must return a Derivation, got NoneType"):
        derivations.get("toy.nothing")


def test_unknown_options_are_named():
    with pytest.raises(TypeError, match="bayes_risk has no option 'tsk'; did you mean 'task'"):
        derivations.get("single_location.bayes_risk", tsk="max")
    with pytest.raises(TypeError, match="risk has no option 'law'; options: activation"):
        derivations.get("single_location.risk", law="softmax")
    with pytest.raises(ValueError, match="task must be 'spiked' or 'max', got 'foo'"):
        derivations.get("single_location.bayes_risk", task="foo")
    with pytest.raises(ValueError, match=r"activation must be one of .* got 'foo'"):
        derivations.get("single_location.risk", activation="foo")


# ----------------------------------------------------------------- substitution


def test_substituted_derivation_is_returned_whatever_the_options():
    other = make_growth()
    with derivations.substituted("toy.growth", other):
        assert derivations.is_substituted("toy.growth")
        assert derivations.get("toy.growth") is other
        assert derivations.get("toy.growth", task="b") is other
    assert not derivations.is_substituted("toy.growth")
    assert derivations.get("toy.growth") is not other


def test_substituted_equations_take_the_place_of_the_record():
    doubled = make_growth().equations.scaled("growth")
    with derivations.substituted("toy.growth", doubled):
        found = derivations.get("toy.growth")
        assert found.equations is doubled
        assert found.steps == make_growth().steps
    true = derivations.get("toy.growth").equations.observables["growth"]
    assert doubled.observables["growth"] == 2 * true


def test_substitution_by_a_function_sees_the_true_derivation():
    with derivations.substituted("toy.growth", lambda d: d.equations.scaled("growth", 3)):
        tripled = derivations.get("toy.growth", task="b").equations.observables["growth"]
    assert tripled == 3 * derivations.get("toy.growth").equations.observables["growth"]


def test_substitutions_nest_and_are_undone_after_an_error():
    first, second = make_growth(), make_growth()
    with derivations.substituted("toy.growth", first):
        with pytest.raises(RuntimeError, match="stop"), derivations.substituted("toy.growth", second):
            assert derivations.get("toy.growth") is second
            raise RuntimeError("stop")
        assert derivations.get("toy.growth") is first
    assert not derivations.is_substituted("toy.growth")


def test_substitution_holds_in_other_threads():
    other, seen = make_growth(), []
    with derivations.substituted("toy.growth", other):
        thread = threading.Thread(target=lambda: seen.append(derivations.get("toy.growth")))
        thread.start()
        thread.join()
    assert seen == [other]


def test_substitution_refuses_unknown_names_and_other_objects():
    with pytest.raises(DerivationError, match="no derivation is called"):
        derivations.is_substituted("toy.grwth")
    with pytest.raises(DerivationError, match="no derivation is called"), derivations.substituted("no", 1):
        pass
    with pytest.raises(TypeError, match="must be a Derivation"), derivations.substituted("toy.growth", 1):
        pass
    with derivations.substituted("toy.growth", lambda d: 5), pytest.raises(TypeError, match="got 5"):
        derivations.get("toy.growth")


# ----------------------------------------------------------------- imports


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_door_at_the_top_level_is_no_second_package():
    folder = str(Path(derivations.__file__).resolve().parent.parent)
    found = run(f"import sys; sys.path.insert(0, {folder!r}); import derivations")
    assert found.returncode != 0
    assert "ImportError: import theorykit.derivations" in found.stderr


def test_listing_the_names_imports_no_sympy():
    code = "import sys, theorykit.derivations as d; d(); d.names(); assert 'sympy' not in sys.modules"
    found = run(code)
    assert found.returncode == 0, found.stderr
