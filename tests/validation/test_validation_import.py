"""The floor `validation`: cheap to import, by one name only."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

import theorykit.validation


def test_second_name_is_refused():
    spec = importlib.util.spec_from_file_location("validation", theorykit.validation.__file__)
    assert spec is not None and spec.loader is not None
    with pytest.raises(ImportError, match=r"^import theorykit\.validation$"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_import_is_light():
    code = (
        "import sys, theorykit.validation.report, theorykit.validation.simulate\n"
        "heavy = {'numpy', 'scipy', 'sympy', 'numba', 'matplotlib', 'rich', 'xarray'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert _run(code) == "[]"


def test_simulator_is_independent():
    """It loads nothing of ours but the ground; the compiler and SymPy wait."""
    code = (
        "import sys, theorykit.validation.simulate.single_location\n"
        "ground = ('errors', 'results', 'formula', '_formula', 'validation')\n"
        "loaded = [name.split('.')[1] for name in sys.modules if name.startswith('theorykit.')]\n"
        "print(sorted(set(loaded) - set(ground)), 'numba' in sys.modules, 'sympy' in sys.modules)"
    )
    assert _run(code) == "[] False False"
