"""Generated source, run by Python itself: no compiler, and a domain error of ``math`` is an exception."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def interpreted(monkeypatch):
    """``interpreted(record)`` gives a function: parameters by name -> observables by name."""
    from theorykit.codegen import source_of

    def undecorated(*arguments, **_):
        return arguments[0] if arguments and callable(arguments[0]) else lambda function: function

    def load(record):
        monkeypatch.setattr("theorykit.codegen.shared.compiled_once", undecorated)
        monkeypatch.setattr("numba.njit", undecorated)
        namespace = {}
        exec(compile(source_of(record), "<generated>", "exec"), namespace)
        layout = namespace["LAYOUT"]

        def call(**values):
            out = np.empty(len(layout["observables"]))
            namespace["observables"]([float(values[p]) for p in layout["parameters"]], (), out)
            return dict(zip(layout["observables"], map(float, out), strict=True))

        return call

    return load


@pytest.fixture(scope="session")
def start():
    """``start(folder)`` starts a process that answers one request with this cache folder."""
    import os
    import subprocess
    import sys
    from pathlib import Path

    script = Path(__file__).with_name("answer.py")

    def popen(folder, **environment):
        paths = [str(script.parents[2]), os.environ.get("PYTHONPATH", "")]
        environment |= {"THEORYKIT_CACHE": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        return subprocess.Popen(
            [sys.executable, str(script)],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return popen


@pytest.fixture(scope="session")
def finish():
    """What a started process answers; a crash shows its traceback."""
    import json

    def wait(process):
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        return json.loads(out)

    return wait


@pytest.fixture(scope="session")
def warm(tmp_path_factory, start, finish):
    """A cache folder in which the request has been answered, and the answer."""
    folder = tmp_path_factory.mktemp("warm") / "theorykit"
    return folder, finish(start(folder))


@pytest.fixture
def copy_of_warm(warm, tmp_path):
    """A copy to be damaged, with private modes and the modification times kept."""
    import shutil

    return shutil.copytree(warm[0], tmp_path / "theorykit")


@pytest.fixture
def fresh_codegen(monkeypatch):
    """``fresh_codegen(folder)``: code generation as at the start of a process, with this cache folder."""
    from theorykit import codegen
    from theorykit.codegen import cache

    def restart(folder):
        monkeypatch.setenv("THEORYKIT_CACHE", str(folder))
        monkeypatch.setattr(codegen, "_loaded", {})
        monkeypatch.setattr(codegen, "_answers", {})
        monkeypatch.setattr(codegen, "_counts", {"derived": 0, "modules": 0})
        cache._folder.cache_clear()

    yield restart
    cache._folder.cache_clear()
