"""What all tests share: a cache folder of this run, the choice of one theory, and records declared on the spot."""

from __future__ import annotations

import os
import re
import shutil
import tempfile

import pytest

_folder = pytest.StashKey[str]()

#: Theory -> what names it in the path or the parameters of a test; a test that none of them names concerns all.
THEORIES = {
    "trained": r"[._-]erm|trained|ridge_search|_training|test_replica|replica_solution",
    "signal_recovery": r"signal_recovery|simulation_recovery|dormand_prince",
    "interpolation": r"interpolation/|interpolation[.-]|\[interpolation\]",
    "random_matrices": r"random_matrices",
    "population": r"single_location",
}


def theory_of(test: str) -> str | None:
    """The theory that a test concerns, by its path and its parameters; None if it concerns all."""
    path, _, function = test.partition("::")
    place = path + function[function.find("[") :] if "[" in function else path
    return next((theory for theory, words in THEORIES.items() if re.search(words, place)), None)


@pytest.fixture(name="theory_of")
def theory_of_a_test():
    """``theory_of(test)``: what ``--theory`` goes by."""
    return theory_of


def pytest_addoption(parser):
    parser.addoption(
        "--theory", choices=tuple(THEORIES), help="leave out the tests that concern other theories alone"
    )


def concern(item: pytest.Item) -> str | None:
    """The theory that a test says it concerns (``pytest.mark.theory``), or that its place tells."""
    said = item.get_closest_marker("theory")
    return theory_of(item.nodeid) if said is None else said.args[0]


def pytest_collection_modifyitems(config, items):
    wanted = config.getoption("--theory")
    if wanted is not None:
        kept: list[pytest.Item] = []
        others: list[pytest.Item] = []
        for item in items:
            (kept if concern(item) in (wanted, None) else others).append(item)
        config.hook.pytest_deselected(items=others)
        items[:] = kept


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


@pytest.fixture
def closed_forms(monkeypatch):
    """The solvers of single-location regression are the closed forms of ``cli_stand_ins``."""
    from cli_stand_ins import replace_solvers

    replace_solvers(monkeypatch)


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
