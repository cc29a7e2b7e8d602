"""Verbs about the mathematics: audit, latex, derive, validate."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from theorykit.cli import inputs, output
from theorykit.cli.failures import FAILED
from theorykit.cli.numbers import JsonOption, TheoryArgument

__all__ = ["audit", "derive", "latex", "register", "validate"]


def register(app: typer.Typer) -> None:
    """Add the verbs of this module."""
    for verb in (audit, validate, latex, derive):
        app.command()(verb)


def audit(
    theory: TheoryArgument,
    slow: Annotated[bool, typer.Option("--slow", help="Run the slow checks too.")] = False,
    json: JsonOption = False,
) -> None:
    """Check the derivations.

    Every step is checked and every claim judged; exit code 1 if a check fails.
    """
    from theorykit.progress import progress_bar
    from theorykit.theory import audit as run

    with progress_bar(f"audit of {theory}") as bar:
        report = run(inputs.theory_name(theory), slow=slow, on_step=bar.stand)
    _print_report(report, json)


def validate(
    theory: TheoryArgument,
    trials: Annotated[int | None, typer.Option("--trials", min=1, help="Samples per comparison.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the simulations.")] = 0,
    study: Annotated[
        str | None, typer.Option("--study", help="A longer list of points, e.g. training (slr).")
    ] = None,
    points: Annotated[
        str | None, typer.Option("--points", help="Only these of the list, from 0: 3 or 0:10 or 0,5,7.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Report: .md or .html.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Figure: .png, .pdf or .svg.")] = None,
    json: JsonOption = False,
) -> None:
    """Compare with simulations.

    The model itself is sampled; exit code 1 if theory and simulation disagree.
    """
    from theorykit.progress import progress_bar
    from theorykit.validation.run import validate as run

    for option, path, suffixes in (
        ("--out", out, (".md", ".html")),
        ("--plot", plot, (".png", ".pdf", ".svg")),
    ):
        if path is not None:
            from theorykit.saving import require_suffix

            require_suffix(option, path, suffixes)
    chosen = None if points is None else inputs.positions("--points", points)
    with progress_bar(f"simulations of {theory}") as bar:
        name = inputs.theory_name(theory)
        stand = partial(bar.stand, f"simulations of {theory}")
        report = run(name, trials=trials, seed=seed, on_point=stand, study=study, points=chosen)
    if out is not None:
        from theorykit.validation.report import write_report

        write_report(report, out)
        typer.echo(f"wrote {out}", err=True)
    if plot is not None:
        from theorykit.validation.report import figure

        figure(report).savefig(plot, dpi=150)
        typer.echo(f"wrote {plot}", err=True)
    _print_report(report, json)


def _print_report(report: Any, json: bool) -> None:
    if json:
        output.print_json(report.to_dict())
    else:
        output.print_rich(report)
    if not report.ok:
        raise typer.Exit(FAILED)


def latex(
    theory: Annotated[str, typer.Argument(metavar="THEORY", help="A theory, or the name of one derivation.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File; default: standard output.")] = None,
    fragment: Annotated[bool, typer.Option("--fragment", help="Without preamble, for \\input.")] = False,
) -> None:
    """Print equations as LaTeX."""
    from theorykit.theory import latex as export

    if out is not None:
        from theorykit.saving import require_suffix

        require_suffix("--out", out, (".tex",))
    text = export(_subject(theory), fragment=fragment)
    if out is None:
        print(text, end="" if text.endswith("\n") else "\n")
    else:
        out.write_text(text, encoding="utf-8")
        typer.echo(f"wrote {out}", err=True)


def derive(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A derivation, or a theory to list those of.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="NAME=VALUE", help="What is derived, as task=max; repeatable."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show a derivation.

    Every step with its reason and its check; without a name, the names there are.
    """
    from theorykit import derivations

    subject = "" if name is None else _subject(name)
    if subject not in derivations.CATALOGUE and "." not in subject:
        prefix = f"{subject}." if subject else ""
        listed = [entry for entry in derivations.names() if entry.startswith(prefix)]
        if json:
            output.print_json(listed)
        else:
            output.print_rich(*listed)
        return
    found = derivations.get(subject, **inputs.read_options("--option", option or []))
    if json:
        output.print_json(_as_data(found))
        return
    output.print_rich(*_as_lines(found))


def _subject(name: str) -> str:
    """The name of a theory or derivation with its abbreviation spelled out: slr.bayes_risk."""
    theory, dot, rest = name.partition(".")
    try:
        return f"{inputs.theory_name(theory)}{dot}{rest}"
    except ValueError:
        from theorykit.derivations import names

        near = [entry for entry in names() if f"_{theory}_" in f"_{entry.partition('.')[2]}_"]
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        allowed = "a theory (slr, sr, ip) or one of the derivations that `theorykit derive` lists"
        raise ValueError(f"NAME must be {allowed}, got {name!r}{hint}") from None


def _as_data(derivation: Any) -> dict[str, Any]:
    record = derivation.equations
    return {
        "name": derivation.name,
        "title": derivation.title,
        "source": derivation.source,
        "definitions": {str(d.symbol): [str(d.expression), d.meaning] for d in derivation.definitions},
        "steps": [
            {
                "name": step.name,
                "left": str(step.lhs),
                "right": str(step.rhs),
                "premises": list(step.premises),
                "reason": step.reason,
                "check": step.check.kind,
                "assumptions": list(step.assumptions),
            }
            for step in derivation.steps
        ],
        "equations": {str(symbol): str(expression) for symbol, expression in record.equations.items()},
        "observables": {name: str(expression) for name, expression in record.observables.items()},
    }


def _as_lines(derivation: Any) -> list[str]:
    """The derivation as text, a line of a proof at a time."""
    lines = [derivation.name, derivation.title, f"source: {derivation.source}", "", "definitions"]
    for definition in derivation.definitions:
        lines.append(f"  {definition.symbol} := {definition.expression}")
        lines.append(f"      {definition.meaning}")
    for number, step in enumerate(derivation.steps, start=1):
        lines += ["", f"{number}. {step.name} ({step.check.kind})"]
        lines.append(f"    {step.lhs}")
        lines.append(f"  = {step.rhs}")
        lines.append(f"  because {step.reason}")
        lines += [f"  assuming {condition}" for condition in step.assumptions]
        lines.append(f"  from {', '.join(step.premises)}")
    record = derivation.equations
    lines += ["", "result"]
    lines += [f"  {symbol} = {expression}" for symbol, expression in record.equations.items()]
    lines += [f"  {name} = {expression}" for name, expression in record.observables.items()]
    return lines
