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
