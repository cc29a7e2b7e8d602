"""The last bit does not depend on threads, on what was computed before, or on the kind of number given."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sympy as sp

from theorykit.codegen import compile_record
from theorykit.codegen import program as program_module
from theorykit.derivations.nodes import Expectation, HalfLine, TokenPower, TruncatedExpectation
from theorykit.numerics.grids import Interval

a, b, x, y, z = sp.symbols("a b x y z", real=True)
s, t = sp.symbols("s t", positive=True)
POINT = {"a": 1.3, "b": -0.7}


GRIDS = {
    "log_s": Interval(-44.0, 4.0, 1.0),
    "log_t": Interval(-48.0, 8.0, 1.0),
    **{name: Interval(-10.0, 10.0, 2.0) for name in "xyz"},
}


@pytest.fixture(scope="module")
def program(record_of):
    """All kinds of stages: a nested reduction, a matrix product, running integrals, two dims and a reduction."""
    separable = sp.exp(-s - t) * Expectation(sp.exp(-s * sp.exp(a * x) - t * sp.exp(b * x)), x)
    coupled = Expectation(sp.exp(-t * sp.exp(x + a * y)), y)
    below = TruncatedExpectation(sp.exp(b * z), z, x)
    return compile_record(
        record_of(
            "stages",
            product=HalfLine(HalfLine(separable, t), s),
            nested=HalfLine(sp.exp(-t) * Expectation(TokenPower(coupled, 3) * x**2, x), t),
            running=Expectation(below**2, x),
        )
    )


@pytest.fixture(scope="module")
def small(record_of):
    """Cheap enough for whole adaptive runs."""
    below = TruncatedExpectation(sp.exp(b * z), z, x)
    return compile_record(
        record_of(
            "small", value=Expectation(below**2 / (1 + sp.exp(a * x)), x) + HalfLine(sp.exp(-t - t**2), t)
        )
    )


def _bits(program):
    return [(name, value.hex()) for name, value in program.quick(POINT, GRIDS).items()]


def _adaptive_bits(program, point=POINT):
    return [(name, float(e).hex(), e.error.hex()) for name, e in program.values(point).items()]


def test_any_number_of_threads(program, monkeypatch):
    """Every stage is shared out, whatever its size."""
    alone = _bits(program)
    monkeypatch.setattr(program_module, "_WORTH_THREADS", 0)
    for count in (1, 2, 3, 7):
        with ThreadPoolExecutor(count) as pool:
            monkeypatch.setattr(program_module, "_pool", lambda pool=pool, count=count: (pool, count))
            assert _bits(program) == alone


SCRIPT = """
import pickle, sys
program, grids = pickle.load(open(sys.argv[1], "rb"))
from theorykit.codegen import program as module
found = program.quick({"a": 1.3, "b": -0.7}, grids)
print(module._pool()[1], [(name, value.hex()) for name, value in found.items()])
"""


def test_the_environment_sets_the_threads(program, tmp_path):
    """On grids fine enough that stages are shared out by themselves."""
    fine = GRIDS | {"x": Interval(-10.0, 10.0, 0.25)}
    path = tmp_path / "program.pickle"
    path.write_bytes(pickle.dumps((program, fine)))
    found = {}
    for count in ("1", "2", "4"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(path)],
            env={**os.environ, "THEORYKIT_THREADS": count},
            capture_output=True,
            text=True,
            check=True,
        )
        threads, found[count] = done.stdout.strip().split(" ", 1)
        assert threads == count
    assert found["1"] == found["2"] == found["4"]


@pytest.mark.parametrize("wanted", ["many", "0", "-2", "1.5"])
def test_a_number_of_threads_that_makes_no_sense(wanted, monkeypatch):
    monkeypatch.setenv("THEORYKIT_THREADS", wanted)
    program_module._pool.cache_clear()
    with pytest.raises(ValueError, match=f"THEORYKIT_THREADS must be a positive integer, got '{wanted}'"):
        program_module._pool()


def test_inside_a_worker_there_are_no_threads(program, monkeypatch):
    alone = _bits(program)

    def refuse():
        raise AssertionError("a worker asked for threads")

    monkeypatch.setattr(program_module, "_WORTH_THREADS", 0)
    monkeypatch.setattr(program_module, "_pool", refuse)
    with program_module.single_threaded():
        assert _bits(program) == alone
    del program._last.entries  # what is known already takes no threads
    with pytest.raises(AssertionError):
        _bits(program)


def test_history_does_not_matter(small):
    first = _adaptive_bits(small)
    for point in ({"a": 0.1, "b": 2.0}, {"a": 3.0, "b": 0.5}):
        small.values(point)
    small.quick(POINT, small.measured(POINT, 1e-6)[0])
    assert _adaptive_bits(small) == first


@pytest.mark.parametrize("kind", [int, np.float64, np.int32, np.float32, np.array])
def test_kinds_of_numbers(small, kind):
    assert _adaptive_bits(small, {"a": kind(2), "b": kind(1)}) == _adaptive_bits(small, {"a": 2.0, "b": 1.0})


def test_grids_of_quick_values_are_as_good_as_asked(small):
    exact = small.values(POINT)
    for rtol in (1e-3, 1e-8):
        for name, value in small.quick(POINT, small.measured(POINT, rtol)[0]).items():
            assert abs(value - exact[name]) <= 2 * rtol * abs(exact[name])
