"""The verb that runs the main job of a theory: reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theorykit.cli import flows, inputs, output
from theorykit.cli.failures import NOT_CONVERGED
from theorykit.cli.numbers import JsonOption

__all__ = ["register", "reproduce"]

_EVERY = 4  # of more signal strengths than ten, every fourth is in the table


def register(app: typer.Typer) -> None:
    """Add the verbs of this module."""
    app.command()(reproduce)


def reproduce(
    theories: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[THEORY]...", help="single-location (slr), signal-recovery (sr); default: both."
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of what is written.")] = Path("out"),
    json: JsonOption = False,
) -> None:
    """Run the main job.

    single-location: curves of the Bayes risk and of minimal risks: tables, figures, files, and the equations behind
    them. signal-recovery: the phase portrait of a model with a trap.
    """
    from theorykit import reproduce as job
    from theorykit.processes import processors

    chosen = [inputs.theory_name(name, *job.THEORIES) for name in theories or job.THEORIES]
    found = job.reproduce(out, chosen, processes=processors(), progress=True)
    portrait = found.pop("signal_recovery", None)
    if json:
        from theorykit.saving import dataset_plain

        plain = {key: dataset_plain(data) for key, data in found.items()}
        output.print_json(
            plain if portrait is None else {**plain, **flows.summary(job.TRAPPED, with_thresholds=False)}
        )
    else:
        for key, data in found.items():
            shown = data if data.sizes["nu"] <= 10 else data.isel(nu=slice(None, None, _EVERY))
            output.print_risks(f"{key}: {data['risk'].attrs['long_name']} (all points in {key}.nc)", shown)
        if portrait is not None:
            flows.show(job.TRAPPED, None, None, json=False, with_thresholds=False)
    for path in sorted(p for p in out.iterdir() if p.suffix in (".nc", ".png", ".tex")):
        typer.echo(f"wrote {path}", err=True)
    if any(str(s).startswith("failed") for data in found.values() for s in data["status"].values.ravel()):
        raise typer.Exit(NOT_CONVERGED)
