"""The verb that runs the main job of a theory: reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theorykit.cli import flows, inputs, output
from theorykit.cli.failures import NOT_CONVERGED
from theorykit.cli.numbers import JsonOption, TheoryArgument

__all__ = ["register", "reproduce"]

_EVERY = 4  # of more signal strengths than ten, every fourth is in the table


def register(app: typer.Typer) -> None:
    """Add the verbs of this module."""
    app.command()(reproduce)


def reproduce(
    theory: TheoryArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of what is written.")] = Path("out"),
    json: JsonOption = False,
) -> None:
    """Run the main job.

    single-location: curves of the Bayes risk and of minimal risks: tables, figures, files, and the equations behind
    them. signal-recovery: the phase portrait of a model with a trap.
    """
    if inputs.theory_name(theory, "single_location", "signal_recovery") == "signal_recovery":
        _draw_portrait(out, json)
        return
    from theorykit import reproduce as jobs

    found = jobs.single_location(out, progress=True)
    if json:
        from theorykit.saving import dataset_plain

        output.print_json({key: dataset_plain(data) for key, data in found.items()})
    else:
        for key, data in found.items():
            shown = data if data.sizes["nu"] <= 10 else data.isel(nu=slice(None, None, _EVERY))
            output.print_risks(f"{key}: {data['risk'].attrs['long_name']} (all points in {key}.nc)", shown)
    for path in sorted(p for p in out.iterdir() if p.suffix in (".nc", ".png", ".tex")):
        typer.echo(f"wrote {path}", err=True)
    if any(str(s).startswith("failed") for data in found.values() for s in data["status"].values.ravel()):
        raise typer.Exit(NOT_CONVERGED)


def _draw_portrait(out: Path, json: bool) -> None:
    """The phase portrait of a model that has a trap."""
    from theorykit import signal_recovery as sr

    out.mkdir(parents=True, exist_ok=True)
    target = out / "signal_recovery.nc"
    flows.show(
        sr.Model(theta=3, fraction=0.3), target, target.with_suffix(".png"), json, with_thresholds=False
    )
