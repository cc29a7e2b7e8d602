"""Examples in docstrings and in the README run as printed."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _modules_with_examples():
    for path in sorted((ROOT / "theorykit").rglob("*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("name", list(_modules_with_examples()))
def test_docstring_examples(name):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, attempted = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert attempted > 0 and failed == 0


@pytest.mark.slow
def test_readme_examples(tmp_path, monkeypatch, capsys):
    """All Python blocks of the README, in order, in one namespace; they print numbers with errors."""
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == 4
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    assert re.search(r"\d\(\d\)", capsys.readouterr().out)
    assert (tmp_path / "linear.nc").stat().st_size > 0
    assert namespace["report"].ok


def test_readme_names_every_function_of_the_language_of_formulas():
    from theorykit._formula.tree import FUNCTIONS

    text = " ".join(README.split())
    assert " ".join(FUNCTIONS) in text
