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
    with pytest.raises(ImportError, match="^import theorykit.validation$"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_import_is_light():
    code = (
        "import sys, theorykit.validation.compare, theorykit.validation.report, theorykit.validation.simulate\n"
        "heavy = {'numpy', 'scipy', 'sympy', 'numba', 'matplotlib', 'rich', 'xarray'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_simulator_needs_no_compiler_and_no_theory_to_be_imported():
    code = (
        "import sys, theorykit.validation.simulate.single_location\n"
        "mine = [name for name in sys.modules if name.startswith('theorykit.')]\n"
        "allowed = ('theorykit.errors', 'theorykit.results', 'theorykit.formula', 'theorykit._formula', 'theorykit.validation')\n"
        "print([name for name in mine if not name.startswith(allowed)], 'numba' in sys.modules, 'sympy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False False"
