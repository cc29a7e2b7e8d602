"""The cache between processes: warm starts, races, settings of Numba."""

from __future__ import annotations

import importlib.util
import os
import py_compile

import mpmath
from answer import POINTS, answer


def test_the_first_process_derives_and_compiles(warm):
    status = warm[1]["status"]
    assert (status["derived"], status["modules"], status["loaded_functions"]) == (1, 1, 0)
    assert status["compiled_functions"] >= 2
    assert status["cache_folder"] == str(warm[0])
    assert warm[1]["warnings"] == []


def test_the_numbers_are_right(warm):
    for point, found in zip(POINTS, warm[1]["values"], strict=True):
        value, error = map(float.fromhex, found)
        assert abs(mpmath.mpf(value) - _second_moment(**point)) <= error < 1e-13


def _second_moment(a, L):
    """The same integral, with 30 digits."""
    with mpmath.workdps(30):
        density = lambda x: mpmath.npdf(x) / (1 + (L - 1) * mpmath.exp(mpmath.mpf(a) * x)) ** 2  # noqa: E731
        return mpmath.quad(density, range(-12, 13, 2))


def test_a_second_process_derives_and_compiles_nothing(warm, start, finish):
    again = finish(start(warm[0]))
    assert not again["sympy"]
    assert again["status"]["derived"] == 0
    assert again["status"]["compiled_functions"] == 0
    assert 2 <= again["status"]["loaded_functions"] <= warm[1]["status"]["compiled_functions"]
    assert again["values"] == warm[1]["values"]


def test_six_processes_race_on_an_empty_cache(tmp_path, warm, start, finish):
    """And leave one module, one entry, nothing half written."""
    folder = tmp_path / "theorykit"
    found = [finish(process) for process in [start(folder) for _ in range(6)]]
    assert all(f["values"] == warm[1]["values"] for f in found)
    assert all(f["warnings"] == [] for f in found)
    assert len(list((folder / "modules").glob("*.py"))) == 1
    assert len(list((folder / "index").glob("*.json"))) == 1
    assert not [p for p in folder.rglob("*") if p.name.startswith(".new-") or ".tmp" in p.name]


def test_a_valid_module_is_never_rewritten(copy_of_warm, fresh_codegen):
    from theorykit.codegen import status

    fresh_codegen(copy_of_warm)
    (module,) = (copy_of_warm / "modules").glob("*.py")
    old = module.stat().st_mtime_ns - 10**12
    os.utime(module, ns=(old, old))
    for index in (copy_of_warm / "index").iterdir():
        index.unlink()  # so that the request is derived and stored again
    answer()
    assert status()["derived"] == 1
    assert module.stat().st_mtime_ns == old


def test_settings_of_numba_do_not_lead_elsewhere(tmp_path, copy_of_warm, warm, start, finish):
    """Numba unpickles what it finds: a folder of its own, which others may write, must not be looked into."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    again = finish(
        start(copy_of_warm, NUMBA_CACHE_DIR=str(shared), NUMBA_CACHE_LOCATOR_CLASSES="UserWideCacheLocator")
    )
    assert list(shared.iterdir()) == []
    assert again["status"]["compiled_functions"] == 0
    assert again["values"] == warm[1]["values"]


def test_bytecode_beside_a_module_is_not_executed(copy_of_warm, warm, fresh_codegen):
    """The hash of the source is checked, so it is the source that must run."""
    (module,) = (copy_of_warm / "modules").glob("*.py")
    evil = copy_of_warm.parent / module.name
    evil.write_text("raise SystemExit('stale bytecode was executed')\n")
    compiled = importlib.util.cache_from_source(str(module))
    py_compile.compile(
        str(evil), cfile=compiled, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    fresh_codegen(copy_of_warm)
    assert [list(pair) for pair in answer()] == warm[1]["values"]
