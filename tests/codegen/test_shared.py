"""Primitives are compiled once in a process, and only what means the same is one of them."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import sympy as sp

from theorykit.codegen import compile_record, primitives, shared
from theorykit.codegen.emit import join_module, primitive_sources

ALL = sorted({*primitives.NAMES})


@pytest.fixture(scope="module")
def modules():
    """``modules(change)``: what is in a module that holds the text of all primitives, changed."""

    def run(change=lambda text: text):
        namespace = {}
        exec(change(join_module("primitives", primitive_sources(set(ALL)))), namespace)
        return namespace

    return run


@pytest.mark.parametrize("name", ALL)
def test_modules_share_every_primitive(modules, name):
    assert modules()[name] is modules()[name] is vars(shared)[name]


@pytest.mark.parametrize(
    ("old", "new", "changed", "kept"),
    [
        ("return a if a > b", "return a if a >= b", "larger", "smaller"),
        ("math.log1p", "math.log2", "softplus", "sigmoid"),
        (", error_model='numpy'", "", "softplus", ""),
        ("0.09501250983763744", "0.09501250983763745", "owens_t", "normal_cdf"),
    ],
)
def test_what_means_something_else_is_compiled_by_itself(modules, old, new, changed, kept):
    def change(text):
        assert old in text
        return text.replace(old, new)

    found = modules(change)
    assert found[changed] is not vars(shared)[changed]
    assert not kept or found[kept] is vars(shared)[kept]


def softplus_record(record_of, power):
    x = sp.Symbol("x", real=True)
    return record_of(f"power_{power}", value=power * sp.log(1 + sp.exp(x)))


def test_generated_modules_compile_them_once(record_of):
    for power in (1, 2):
        program = compile_record(softplus_record(record_of, power))
        assert program.function("softplus") is shared.softplus
        assert abs(program.values({"x": 0.3})["value"] - power * math.log1p(math.exp(0.3))) <= 1e-15
    assert sum(shared.softplus.stats.cache_misses.values()) == 1


def test_what_is_kept_on_disk_needs_no_other_module(record_of, fresh_codegen, tmp_path, monkeypatch):
    """The second module took the primitive from the first; another process loads it alone, compiling nothing."""
    fresh_codegen(tmp_path / "theorykit")
    _, second = (compile_record(softplus_record(record_of, power)) for power in (3, 4))
    code = (
        "from theorykit.codegen import load_module, status; "
        f"value = load_module({second.key!r}).values({{'x': 0.3}})['value']; "
        "print(float(value).hex(), status()['compiled_functions'], status()['loaded_functions'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = float(second.values({"x": 0.3})["value"]).hex()
    assert done.stdout.split() == [here, "0", "1"]  # the function of the observables
