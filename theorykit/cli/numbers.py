"""Verbs that compute: risk (one point) and curve (grids)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from theorykit.cli import attention, inputs, output, trained
from theorykit.cli.failures import NOT_CONVERGED
from theorykit.cli.foreign import refuse_foreign, refuse_without

__all__ = ["curve", "register", "risk"]

TheoryArgument = Annotated[
    str,
    typer.Argument(
        metavar="THEORY", help="single-location (slr), signal-recovery (sr) or interpolation (ip)."
    ),
]
NumbersArgument = Annotated[
    str, typer.Argument(metavar="THEORY", help="single-location (slr) or interpolation (ip).")
]
TaskOption = Annotated[str, typer.Option("--task", help="spiked or max.")]
NoiseOption = Annotated[float, typer.Option("--noise", help="Standard deviation of the label noise.")]
ExcessOption = Annotated[bool, typer.Option("--excess", help="Leave the label noise out of the risk.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_ROWS = 60  # a longer table is thinned


def register(app: typer.Typer) -> None:
    """Add the verbs of this module."""
    app.command()(risk)
    app.command()(curve)


def risk(
    context: typer.Context,
    theory: NumbersArgument,
    nu: Annotated[float | None, typer.Option("--nu", help="Signal strength; inf is legal for max.")] = None,
    length: Annotated[
        str | None, typer.Option("--length", help="Number of tokens: 3, or 1:0.5,2:0.5.")
    ] = None,
    task: TaskOption = "spiked",
    noise: NoiseOption = 0.0,
    activation: Annotated[
        str | None,
        typer.Option("--activation", help="softmax, softplus, linear, erf, erf-best; none: the Bayes risk."),
    ] = None,
    formula: Annotated[
        str | None, typer.Option("--formula", help="An elementwise activation of your own, in x.")
    ] = None,
    kernel: Annotated[
        str | None, typer.Option("--kernel", help="A normalized kernel of your own, in x.")
    ] = None,
    shift: Annotated[float | None, typer.Option("--shift", help="Shift of erf.")] = None,
    m_k: Annotated[
        float | None,
        typer.Option("--m-k", help="Overlap of k with k*; give all four, or none for the best."),
    ] = None,
    q_k: Annotated[float | None, typer.Option("--q-k", help="Self-overlap of k.")] = None,
    m_v: Annotated[float | None, typer.Option("--m-v", help="Overlap of v with v*.")] = None,
    q_v: Annotated[float | None, typer.Option("--q-v", help="Self-overlap of v.")] = None,
    m_kv: Annotated[float, typer.Option("--m-kv", help="Cross overlap of k with v*.")] = 0.0,
    m_vk: Annotated[float, typer.Option("--m-vk", help="Cross overlap of v with k*.")] = 0.0,
    q_kv: Annotated[float, typer.Option("--q-kv", help="Cross overlap of k with v.")] = 0.0,
    bayes: Annotated[bool, typer.Option("--bayes", help="Show the Bayes risk beside it.")] = False,
    ratio: attention.RatioOption = None,
    ridge: attention.RidgeOption = None,
    signal: attention.SignalOption = 0.0,
    aligned: attention.AlignedOption = 0.0,
    overlaps: attention.OverlapsOption = None,
    label_mean: attention.LabelMeanOption = 0.0,
    square_variance: attention.SquareVarianceOption = 2.0,
    diagonal: attention.DiagonalOption = "zero",
    centering: attention.CenteringOption = "entry",
    degrees_of_freedom: Annotated[
        float | None,
        typer.Option(
            "--df", help="Interpolation: compare with linear regression at equal degrees of freedom."
        ),
    ] = None,
    excess: ExcessOption = False,
    json: JsonOption = False,
) -> None:
    """Risk at one point.

    The Bayes risk of a task, the minimal risk of an activation, or its risk at given overlaps.
    """
    subject = inputs.theory_name(theory, "single_location", "interpolation")
    refuse_foreign(context, subject)
    if subject == "interpolation":
        model = attention.read_model(
            formula, ratio, ridge, signal, aligned, overlaps, label_mean, square_variance, diagonal, centering
        )
        attention.print_risk(model, degrees_of_freedom, json)
        return
    if nu is None or length is None:
        raise ValueError("single-location needs --nu and --length")
    record = inputs.read_task(task, nu, inputs.read_length("--length", length), noise)
    chosen = inputs.read_activation(activation, formula, kernel, shift)
    at = _overlaps({"m_k": m_k, "q_k": q_k, "m_v": m_v, "q_v": q_v}, chosen is None)
    cross = {"m_kv": m_kv, "m_vk": m_vk, "q_kv": q_kv}
    if any(cross.values()) and not at:
        raise ValueError("--m-kv, --m-vk and --q-kv need --m-k, --q-k, --m-v and --q-v beside them")
    found = _risks(record, chosen, at, cross, bayes, excess)
    if json:
        about = {"task": repr(record), "activation": chosen and repr(chosen), "excess": excess}
        output.print_json({**about, **found})
        return
    name = "Bayes risk" if chosen is None else f"risk of {chosen.label}"
    title = f"{name}{', label noise left out' if excess else ''}\n{record!r}"
    output.print_table(title, ("quantity", "value"), [(key, _shown(value)) for key, value in found.items()])


def _overlaps(given: dict[str, float | None], without_activation: bool) -> dict[str, float]:
    present = {name: value for name, value in given.items() if value is not None}
    if not present:
        return {}
    if without_activation:
        raise ValueError("--m-k, --q-k, --m-v and --q-v belong to an activation: give --activation")
    missing = [f"--{name.replace('_', '-')}" for name in given if name not in present]
    if missing:
        absent = ", ".join(missing)
        raise ValueError(f"give all of --m-k, --q-k, --m-v, --q-v, or none for the best; missing: {absent}")
    return present


def _risks(
    task: Any, activation: Any, overlaps: dict[str, float], cross: dict[str, float], bayes: bool, excess: bool
) -> dict[str, Any]:
    """What was asked for, by name."""
    from dataclasses import fields

    from theorykit import single_location as slr

    found: dict[str, Any] = {}
    if activation is not None and overlaps:
        found["risk"] = slr.risk(task, activation, **overlaps, **cross, excess=excess)
    elif activation is not None:
        best = slr.optimal_risk(task, activation, excess=excess)
        found |= {f.name: getattr(best, f.name) for f in fields(best) if getattr(best, f.name) is not None}
    if bayes or activation is None:
        found["bayes_risk"] = slr.bayes_risk(task, excess=excess)
    return found


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return getattr(value, "message", str(value))


def curve(
    context: typer.Context,
    theory: NumbersArgument,
    nu: Annotated[
        str | None, typer.Option("--nu", help="Signal strengths: start:stop:count, or a comma list.")
    ] = None,
    alpha: trained.AlphaOption = None,
    ridge_k: trained.RidgeKOption = 0.3,
    ridge_v: trained.RidgeVOption = 0.3,
    length: Annotated[
        str, typer.Option("--length", help="Numbers of tokens: comma list, or one distribution 1:0.5,2:0.5.")
    ] = "3",
    task: TaskOption = "spiked",
    noise: NoiseOption = 0.0,
    activation: Annotated[
        str,
        typer.Option(
            "--activation",
            help="Comma list of bayes, softmax, softplus, linear, erf, erf-best, best-elementwise.",
        ),
    ] = "bayes,softmax,linear",
    formula: Annotated[
        list[str] | None,
        typer.Option("--formula", metavar="TEXT", help="Elementwise activation of your own; repeatable."),
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option("--kernel", metavar="TEXT", help="Normalized kernel of your own; repeatable."),
    ] = None,
    excess: ExcessOption = False,
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over",
            metavar="NAME=GRID",
            help="Interpolation: ridge=log:0.01:1:20, ratio=0.5,1,2; repeatable.",
        ),
    ] = None,
    ratio: attention.RatioOption = None,
    ridge: attention.RidgeOption = None,
    signal: attention.SignalOption = 0.0,
    aligned: attention.AlignedOption = 0.0,
    overlaps: attention.OverlapsOption = None,
    label_mean: attention.LabelMeanOption = 0.0,
    square_variance: attention.SquareVarianceOption = 2.0,
    diagonal: attention.DiagonalOption = "zero",
    centering: attention.CenteringOption = "entry",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File: .nc, .csv or .json.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Figure: .png, .pdf or .svg.")] = None,
    log: Annotated[bool, typer.Option("--log", help="Logarithmic risk axis in the figure.")] = False,
    workers: Annotated[int | None, typer.Option("--workers", help="Number of threads.")] = None,
    json: JsonOption = False,
) -> None:
    """Risks over grids.

    Minimal risks over signal strengths and lengths, or interpolation errors over fields of the model: a table, and
    if wanted a file and a figure.
    """
    from theorykit.saving import SUFFIXES, require_suffix

    name = inputs.theory_name(theory, "single_location", "interpolation")
    refuse_foreign(context, name)
    if alpha is None:
        refuse_without(context, "--alpha", "ridge_k", "ridge_v")
    if out is not None:
        require_suffix("--out", out, SUFFIXES)
    if plot is not None:
        require_suffix("--plot", plot, (".png", ".pdf", ".svg"))
    if name == "interpolation":
        grids: dict[str, list[Any]] = attention.read_grids(over or [])
        fixed = {"ratio": ratio, "ridge": ridge} | {
            n: v[0] for n, v in grids.items() if n in ("ratio", "ridge")
        }
        given = formula[0] if formula and len(formula) == 1 else None
        model = attention.read_model(
            given, fixed["ratio"], fixed["ridge"], signal, aligned, overlaps, label_mean, square_variance, diagonal,
            centering,
        )  # fmt: skip
        data = attention.make_curve(model, grids)
        _write(data, out, plot, next(iter(grids)), "interpolation_error", log, model.formula.text)
        attention.print_curve(data, json)
    else:
        if nu is None:
            raise ValueError("single-location needs --nu")
        if alpha is not None:
            data = trained.make_curve(
                task, nu, length, noise, alpha, ridge_k, ridge_v, activation, formula, kernel, excess
            )
            _write(data, out, plot, "alpha", "risk", log, f"{task} task")
            _finish(data, json, out, plot)
            return
        grids = {"nu": inputs.real_grid("--nu", nu), "length": inputs.length_grid("--length", length)}
        data = _compare(task, grids, noise, _estimators(activation, formula, kernel), excess, workers)
        _write(data, out, plot, "nu", "risk", log, f"{task} task")
        _print_curve(data, json)
    _close(data, out, plot)


def _finish(data: Any, json: bool, out: Path | None, plot: Path | None) -> None:
    _print_curve(data, json)
    _close(data, out, plot)


def _close(data: Any, out: Path | None, plot: Path | None) -> None:
    """Say what was written; a failed point is the exit code."""
    for path in (out, plot):
        if path is not None:
            typer.echo(f"wrote {path}", err=True)
    if any(str(status).startswith("failed") for status in data["status"].values.ravel()):
        raise typer.Exit(NOT_CONVERGED)


def _write(data: Any, out: Path | None, plot: Path | None, x: str, y: str, log: bool, title: str) -> None:
    """The file and the figure that were asked for."""
    if out is not None:
        from theorykit.saving import save

        save(data, out)
    if plot is not None:
        from theorykit.plotting import plot_curve

        plot_curve(data, x=x, y=y, log_y=log, title=title).savefig(plot, dpi=150)


def _estimators(names: str, formulas: list[str] | None, kernels: list[str] | None) -> list[Any]:
    from theorykit import single_location as slr

    chosen: list[Any] = [name.strip() for name in names.split(",") if name.strip()]
    chosen += [slr.Elementwise(text) for text in formulas or ()]
    return chosen + [slr.NormalizedKernel(text) for text in kernels or ()]


def _compare(
    task: str,
    grids: dict[str, list[Any]],
    noise: float,
    estimators: list[Any],
    excess: bool,
    workers: int | None,
) -> Any:
    from theorykit.single_location.comparison import compare_risks

    record = inputs.read_task(task, grids["nu"][0], grids["length"][0], noise)
    data = compare_risks(record, estimators, grids, excess=excess, workers=workers, progress=True)
    return data.squeeze("length") if len(grids["length"]) == 1 else data


def _print_curve(data: Any, json: bool) -> None:
    if json:
        from theorykit.saving import dataset_json

        print(dataset_json(data))
        return
    output.print_risks(f"{data['risk'].attrs['long_name']}, {data.attrs['task']}", data, _ROWS)
