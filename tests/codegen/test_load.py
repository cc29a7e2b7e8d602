"""Programs in memory: counters of a sweep, threads, pickles, errors of the loader."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading

import pytest
import sympy as sp
from answer import OBSERVABLES, POINTS, answer, derive, program

from theorykit import codegen
from theorykit.codegen import cache
from theorykit.errors import CacheError, CodegenError


def test_a_sweep_compiles_nothing_again(copy_of_warm, fresh_codegen):
    fresh_codegen(copy_of_warm)
    program().values({"a": 1.0, "L": 2})
    before = codegen.status()
    for k in range(30):
        program().values({"a": 0.2 + 0.05 * k, "L": 2 + k})
    assert codegen.status() == before
    assert before["compiled_functions"] == 0
    assert before["derived"] == 0


def test_threads_that_ask_at_once_derive_once(tmp_path, warm, fresh_codegen):
    fresh_codegen(tmp_path / "theorykit")
    found, calls = [], []
    barrier = threading.Barrier(8)

    def counted():
        calls.append(None)
        return derive()

    def ask():
        barrier.wait()
        found.append(codegen.load("toy", ("threads",), counted, OBSERVABLES))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(calls) == 1
    assert len({id(p) for p in found}) == 1


def test_threads_compute_the_same_bits(copy_of_warm, warm, fresh_codegen):
    fresh_codegen(copy_of_warm)
    program()
    found = []
    threads = [threading.Thread(target=lambda: found.append(answer())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [[list(pair) for pair in one] for one in found] == 4 * [warm[1]["values"]]


def test_requests_that_python_takes_for_equal(tmp_path, fresh_codegen, record_of):
    """1 == True: but a request with 1 is not a request with True."""
    fresh_codegen(tmp_path / "theorykit")
    a = sp.Symbol("a")
    first = codegen.load("toy", (1,), lambda: record_of(value=a), ("value",))
    second = codegen.load("toy", (True,), lambda: record_of(value=2 * a), ("value",))
    assert float(first.values({"a": 3})["value"]) == 3.0
    assert float(second.values({"a": 3})["value"]) == 6.0


class TestRows:
    """Closed observables at many points: their function is compiled at the first request."""

    @pytest.fixture
    def squares(self, tmp_path, fresh_codegen, record_of):
        """``squares()``: the program, as a process that starts now gets it."""
        a = sp.Symbol("a")

        def load():
            fresh_codegen(tmp_path / "theorykit")
            return codegen.load("toy", ("rows",), lambda: record_of(value=a**2), ("value",))

        return load

    def test_compiled_when_wanted_and_kept_for_later_processes(self, squares):
        program = squares()
        before = codegen.status()["compiled_functions"]
        assert program.rows({"a": [1.0, 3.0]})["value"].tolist() == [1.0, 9.0]
        assert codegen.status()["compiled_functions"] == before + 1
        again = squares()
        assert again.rows({"a": [2, 4]})["value"].tolist() == [4.0, 16.0]
        assert codegen.status()["compiled_functions"] == 0

    @pytest.mark.parametrize("suffix", ["nbi", "nbc"])
    def test_damaged_files_are_made_again(self, squares, tmp_path, suffix):
        squares().rows({"a": [1.0]})
        files = list((tmp_path / "theorykit/modules/__pycache__").glob(f"*.rows-*.{suffix}"))
        assert files
        for path in files:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        assert squares().rows({"a": [3.0]})["value"].tolist() == [9.0]
        assert squares().rows({"a": [3.0]})["value"].tolist() == [9.0]
        assert codegen.status()["compiled_functions"] <= 1  # observables may be made anew with them


class TestPickles:
    def test_in_this_process_it_is_the_same_program(self, copy_of_warm, fresh_codegen):
        fresh_codegen(copy_of_warm)
        assert pickle.loads(pickle.dumps(program())) is program()

    def test_in_a_process_with_an_empty_cache(self, copy_of_warm, warm, tmp_path, fresh_codegen):
        """A pickle holds the source: it needs neither this cache, nor SymPy, nor the record."""
        fresh_codegen(copy_of_warm)
        (tmp_path / "program.pickle").write_bytes(pickle.dumps(program()))
        script = (
            "import pickle, sys\n"
            "program = pickle.load(open(sys.argv[1], 'rb'))\n"
            "found = program.values({'a': 1.0, 'L': 50.0})['second_moment']\n"
            "print(float(found).hex(), found.error.hex(), 'sympy' in sys.modules)"
        )
        fresh_codegen(tmp_path / "other")
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "program.pickle")],
            capture_output=True,
            text=True,
            check=True,
        )
        expected = warm[1]["values"][POINTS.index({"a": 1.0, "L": 50.0})]
        assert done.stdout.split() == [*expected, "False"]


class TestErrors:
    def test_a_module_that_cannot_be_loaded_at_all(self, tmp_path, fresh_codegen):
        fresh_codegen(tmp_path / "theorykit")
        with pytest.raises(CacheError, match="cannot be loaded even after a rebuild: no such luck"):
            codegen.load_source("raise ImportError('no such luck')\n")

    def test_an_unknown_module(self, tmp_path, fresh_codegen):
        fresh_codegen(tmp_path / "theorykit")
        with pytest.raises(CacheError, match=r"tk_0{32}\.py is missing or damaged"):
            cache.import_module("0" * 32)

    def test_a_failed_module_is_not_left_behind(self, tmp_path, fresh_codegen):
        fresh_codegen(tmp_path / "theorykit")
        key = cache.store("raise ImportError('no such luck')\n")
        with pytest.raises(ImportError):
            cache.import_module(key)
        assert f"theorykit_generated_{key}" not in sys.modules

    def test_missing_values_are_named(self, copy_of_warm, fresh_codegen):
        fresh_codegen(copy_of_warm)
        with pytest.raises(CodegenError, match=r"toy_weights needs values for \['a'\]"):
            program().values({"L": 3})

    def test_unknown_observables_are_named(self, tmp_path, fresh_codegen):
        fresh_codegen(tmp_path / "theorykit")
        with pytest.raises(
            CodegenError, match=r"no observables \['third_moment'\]; it has \['second_moment'\]"
        ):
            codegen.load("toy", (), derive, ("third_moment",))
