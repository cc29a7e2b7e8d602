"""What all tests share: a cache folder of this run, and records declared on the spot."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

_folder = pytest.StashKey[str]()


def pytest_configure(config):
    """Generated code of this run stays apart from the user's; processes that tests start share it."""
    if hasattr(config, "workerinput"):
        return  # a worker of a parallel run: it inherits the folder of the run
    config.stash[_folder] = tempfile.mkdtemp(prefix="theorykit-tests-")
    os.environ["THEORYKIT_CACHE"] = os.path.join(config.stash[_folder], "cache")


def pytest_unconfigure(config):
    if _folder in config.stash:
        shutil.rmtree(config.stash[_folder], ignore_errors=True)


@pytest.fixture(scope="session")
def record_of():
    """``record_of(value=E, ...)`` declares a record with these observables and whatever symbols they use."""
    import sympy as sp

    from theorykit.derivations.ledger import Equations, Quantity

    def declare(name="toy", breakpoints=None, **observables):
        observables = {n: sp.sympify(e) for n, e in observables.items()}
        free = {s for e in observables.values() for s in e.free_symbols}
        symbols = [
            Quantity(s, f"p_{{{i}}}", "parameter") for i, s in enumerate(sorted(free, key=lambda s: s.name))
        ]
        return Equations(name, tuple(symbols), {}, observables, breakpoints=breakpoints or {})

    return declare
