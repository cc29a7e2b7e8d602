"""The verb about flows: fixed points, thresholds, and the phase portrait."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from theorykit.cli import inputs, output
from theorykit.cli.numbers import JsonOption

__all__ = ["flow", "register", "show", "summary"]


def register(app: typer.Typer) -> None:
    """Add the verbs of this module."""
    app.command()(flow)


def flow(
    theory: Annotated[str, typer.Argument(metavar="THEORY", help="signal-recovery, or sr.")],
    theta: Annotated[str, typer.Option("--theta", help="Signal strength.")],
    fraction: Annotated[
        str, typer.Option("--fraction", help="Fraction of informative tokens: 0.3, or 500/10500.")
    ],
    beta: Annotated[str, typer.Option("--beta", help="Inverse temperature.")] = "1",
    kappa: Annotated[str, typer.Option("--kappa", help="Dimensions per token.")] = "0",
    kernel: Annotated[str, typer.Option("--kernel", help="exp, or a formula in t.")] = "exp",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Portrait: .nc or .json; .csv holds the landscape alone."),
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Phase portrait: .png, .pdf or .svg.")] = None,
    json: JsonOption = False,
) -> None:
    """Fixed points of a flow.

    Where the training of a query ends: fixed points with their stability, the separatrix between them, and the
    thresholds at which the opposed direction becomes a trap.
    """
    from theorykit import signal_recovery as sr
    from theorykit.saving import SUFFIXES, require_suffix

    inputs.theory_name(theory, "signal_recovery")
    if out is not None:
        require_suffix("--out", out, SUFFIXES)
    if plot is not None:
        require_suffix("--plot", plot, (".png", ".pdf", ".svg"))
    numbers = {"theta": theta, "fraction": fraction, "beta": beta, "kappa": kappa}
    model = sr.Model(**{n: inputs.number(f"--{n}", text) for n, text in numbers.items()}, kernel=kernel)
    show(model, out, plot, json)


def show(model: Any, out: Path | None, plot: Path | None, json: bool, with_thresholds: bool = True) -> None:
    """Print fixed points, separatrix and thresholds of a model, and write its portrait where a path is given."""
    found = summary(model, with_thresholds)
    if out is not None or plot is not None:
        _write(model, out, plot)
    if json:
        output.print_json(found)
    else:
        _print(model, found)
    for path in (out, plot):
        if path is not None:
            typer.echo(f"wrote {path}", err=True)


def summary(model: Any, with_thresholds: bool = True) -> dict[str, Any]:
    """The model, its fixed points, separatrix and (for the exponential kernel) thresholds, as plain data."""
    from dataclasses import fields

    from theorykit import signal_recovery as sr

    points = [
        {
            "rho": p.rho,
            "eigenvalue": p.eigenvalue,
            "stable": p.stable,
            "attention_mass": sr.attention_mass(model, float(p.rho)),
            "objective": sr.objective(model, float(p.rho)),
        }
        for p in sr.fixed_points(model)
    ]
    found: dict[str, Any] = {
        "model": repr(model),
        "fixed_points": points,
        "separatrix": sr.separatrix(model),
    }
    if with_thresholds and model.is_exponential:
        limits = sr.thresholds(model)
        found["thresholds"] = {f.name: getattr(limits, f.name) for f in fields(limits)}
    return found


def _print(model: Any, found: dict[str, Any]) -> None:
    rows = [
        (
            str(p["rho"]),
            str(p["eigenvalue"]),
            "stable" if p["stable"] else "unstable",
            str(p["attention_mass"]),
            str(p["objective"]),
        )
        for p in found["fixed_points"]
    ]
    head = ("rho", "eigenvalue", "stability", "attention mass", "objective")
    output.print_table(f"fixed points\n{model!r}", head, rows, left=0)
    separatrix = found["separatrix"]
    everything = "none: every overlap above -1 flows to +1"
    rest = {"separatrix": everything if separatrix is None else str(separatrix)}
    rest |= {
        name: "none" if value is None else str(value) for name, value in found.get("thresholds", {}).items()
    }
    output.print_table("where the flow changes", ("quantity", "value"), list(rest.items()))


def _write(model: Any, out: Path | None, plot: Path | None) -> None:
    from theorykit.signal_recovery.portrait import phase_portrait, plot_portrait

    portrait = phase_portrait(model)
    if out is not None:
        from theorykit.saving import save

        landscape = ["objective", "slope", "drift", "attention_mass"]
        save(portrait[landscape] if out.suffix == ".csv" else portrait, out)
    if plot is not None:
        plot_portrait(portrait).savefig(plot, dpi=150)
