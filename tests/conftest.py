"""What all tests share: a cache folder of this run, and records declared on the spot."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

_folder = pytest.StashKey[str]()


def pytest_configure(config):
    """Generated code of this run stays apart from the user's; processes that tests start share it."""
    os.environ["COLUMNS"] = "160"  # tables do not depend on the terminal that the tests are started from
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        os.environ.pop(name, None)
    if hasattr(config, "workerinput"):
        return  # a worker of a parallel run: it inherits the folder of the run
    config.stash[_folder] = tempfile.mkdtemp(prefix="theorykit-tests-")
    os.environ["THEORYKIT_CACHE"] = os.path.join(config.stash[_folder], "cache")


def pytest_unconfigure(config):
    if _folder in config.stash:
        shutil.rmtree(config.stash[_folder], ignore_errors=True)


@pytest.fixture
def child_seconds():
    """``child_seconds()``: processor time of all processes that this one has waited for.

    What a process costs does not depend on how busy the machine is; the clock on the wall does.
    """

    def total() -> float:
        times = os.times()
        return times.children_user + times.children_system

    return total


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
