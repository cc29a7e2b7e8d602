"""The command line: ``theorykit VERB THEORY [options]``.

=============  ==========================================================
module         verbs
=============  ==========================================================
numbers        risk, curve
flows          flow
mathematics    audit, latex, derive, validate
spectrum       hermite, spectrum
weights        weights
jobs           reproduce
housekeeping   cache, doctor, cite
=============  ==========================================================

Exit codes: 0 all well; 1 an audit or a validation failed; 2 bad input; 3 no convergence.  Everything heavy is
imported inside the verbs, so that help appears at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from theorykit.cli import flows, housekeeping, jobs, mathematics, numbers, spectrum, weights
from theorykit.cli.failures import Verbs

__all__ = ["app", "main"]

app = typer.Typer(
    name="theorykit",
    cls=Verbs,
    help="Solvable models of attention: audited equations, numbers with errors, simulations, LaTeX.",
    epilog="Theories: single-location (slr), signal-recovery (sr), interpolation (ip). Exit codes: 0 ok, 1 audit or "
    "validation failed, 2 bad input, 3 no convergence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (numbers, flows, spectrum, weights, mathematics, jobs, housekeeping):
    module.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        import theorykit

        typer.echo(theorykit.__version__)
        raise typer.Exit


@app.callback()
def _options(
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error comes from.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Solvable models of attention: audited equations, numbers with errors, simulations, LaTeX."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : list of str, optional
        Default: those of the process.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")  # a terminal without Unicode shows a question mark, not an error
    try:
        app(arguments)
    except SystemExit as finished:
        return finished.code if isinstance(finished.code, int) else 1
    return 0
