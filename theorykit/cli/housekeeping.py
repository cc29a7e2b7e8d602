"""Verbs about the installation: cache, doctor, cite."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from theorykit.cli import output
from theorykit.cli.numbers import JsonOption

__all__ = ["cite", "doctor", "register"]

_PACKAGES = ("numpy", "scipy", "sympy", "mpmath", "numba", "llvmlite", "xarray", "h5netcdf", "matplotlib")


def register(app: typer.Typer) -> None:
    """Add the verbs of this module."""
    cache = typer.Typer(help="Folder of generated code.", no_args_is_help=True)
    cache.command("list")(list_cache)
    cache.command("clear")(clear_cache)
    app.add_typer(cache, name="cache")
    app.command()(doctor)
    app.command()(cite)


def list_cache(json: JsonOption = False) -> None:
    """What was generated and compiled so far."""
    from theorykit.codegen import cache

    entries = cache.entries()
    if json:
        output.print_json({"folder": str(cache.folder()), "entries": entries})
        return
    rows = [(_request(e["request"]), str(e["module"]), _size(e["bytes"])) for e in entries]
    total = _size(sum(int(str(e["bytes"])) for e in entries))
    title = f"{cache.folder()}: {len(rows)} entries, {total}"
    output.print_table(title, ("request", "module", "size"), rows, left=2)


def clear_cache() -> None:
    """Delete all generated modules; the next request makes its own anew."""
    from theorykit.codegen import cache

    count = cache.clear()
    print(f"deleted {count} files from {cache.folder()}")


def _request(words: Any) -> str:
    return ", ".join(map(str, words))


def _size(number: Any) -> str:
    return f"{number / 1e6:.1f} MB" if number >= 1e6 else f"{number / 1e3:.1f} kB"


def doctor(
    json: JsonOption = False,
    probe: Annotated[bool, typer.Option(help="Compute one number and say what that took.")] = True,
) -> None:
    """Examine the installation.

    Versions, cache folder, and whether the compiler works: one number is computed on the way.
    """
    found = {"versions": _versions(), **(_probe() if probe else {})}
    found["code"] = _status()
    if json:
        output.print_json(found)
        return
    for title, entries in found.items():
        rows = [(name, str(value)) for name, value in entries.items()]
        output.print_table(title, ("what", "found"), rows, left=2)


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    import theorykit

    found = {"python": platform.python_version(), "theorykit": theorykit.__version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "missing"
    return found


def _probe() -> dict[str, Any]:
    """One Bayes risk with its time: it runs through derivation (or index), compiler and quadrature."""
    import time

    from theorykit import single_location as slr

    task = slr.Spiked(nu=4.0, length=3)
    start = time.perf_counter()
    value = slr.bayes_risk(task)
    seconds = time.perf_counter() - start
    return {"probe": {"bayes_risk": value, "task": repr(task), "seconds": round(seconds, 3)}}


def _status() -> dict[str, Any]:
    from theorykit import codegen

    return codegen.status()


def cite() -> None:
    """Print BibTeX."""
    from theorykit.citation import cite as entries

    print(entries(), end="")
