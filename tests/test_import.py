"""Importing theorykit is light, its names are lazy, and the doors at the top refuse to be packages."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from pathlib import Path

import pytest

import theorykit as tk

ROOT = Path(__file__).resolve().parent.parent
HEAVY = (
    "dask",
    "joblib",
    "matplotlib",
    "mpmath",
    "numba",
    "numpy",
    "rich",
    "scipy",
    "sympy",
    "typer",
    "xarray",
)
LAZY = ("matplotlib", "numba", "scipy", "sympy", "xarray")


def _python(code, **options):
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, **options)


@pytest.mark.parametrize(
    ("statement", "absent"),
    [("import theorykit", HEAVY), ("from theorykit import single_location", LAZY)],
)
def test_import_loads_nothing_heavy(statement, absent):
    done = _python(f"import sys; {statement}; print(sorted({set(absent)!r} & set(sys.modules)))", check=True)
    assert done.stdout.strip() == "[]"


def test_import_takes_less_than_half_a_second(child_seconds):
    durations = []
    for _ in range(3):
        start = child_seconds()
        _python("import theorykit", check=True)
        durations.append(child_seconds() - start)
    assert min(durations) < 0.5


@pytest.mark.parametrize("door", ["derivations", "validation"])
def test_the_doors_are_not_importable(door):
    done = _python(f"import {door}")
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1] == f"ImportError: import theorykit.{door}"


@pytest.mark.parametrize("name", [name for name in tk.__all__ if name != "__version__"])
def test_every_public_name_resolves(name):
    value = getattr(tk, name)
    if name in tk._FUNCTIONS:
        assert callable(value) and not isinstance(value, types.ModuleType)
        assert value.__doc__
    else:
        assert value is importlib.import_module(f"theorykit.{name}")
    assert name in dir(tk)


def test_unknown_names_are_attribute_errors_that_list_the_public_ones():
    with pytest.raises(AttributeError, match=r"no attribute 'curves'; public names: .*\bcurve\b"):
        _ = tk.curves
    assert not hasattr(tk, "__path_hooks__")


def test_derivations_is_a_package_and_can_be_called():
    import theorykit.derivations

    assert tk.derivations is theorykit.derivations is sys.modules["theorykit.derivations"]
    names = list(tk.derivations())
    assert names and all(isinstance(name, str) for name in names)
    from theorykit.derivations import ledger

    assert tk.derivations.ledger is ledger


def test_functions_keep_their_names_whatever_was_imported_before():
    """`theorykit.curve` is a function and the name of a submodule: the import system must not replace it."""
    module = types.ModuleType("theorykit.curve")
    tk.curve = module
    assert vars(tk).get("curve") is not module
    tk.extra = module  # other modules are bound as usual
    assert tk.extra is module
    del tk.extra


@pytest.mark.parametrize(
    "name", [name for name, (module, _) in tk._FUNCTIONS.items() if module == f"theorykit.{name}"]
)
def test_importing_the_submodule_first_does_not_hide_the_function(name):
    code = (
        f"import types, theorykit.{name}, sys; import theorykit as tk; from theorykit import {name} as f; "
        f"print(tk.{name} is f is sys.modules['theorykit.{name}'].{name}, isinstance(f, types.ModuleType))"
    )
    assert _python(code, check=True).stdout.split() == ["True", "False"]
