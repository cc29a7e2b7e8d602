"""Verbs about the function and the spectrum of the interpolation theory: hermite, spectrum."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from theorykit.cli import inputs, output
from theorykit.cli.attention import (
    AlignedOption,
    CenteringOption,
    DiagonalOption,
    LabelMeanOption,
    OverlapsOption,
    RatioOption,
    SignalOption,
    SquareVarianceOption,
    read_model,
)

__all__ = ["hermite", "register", "spectrum"]

TheoryArgument = Annotated[str, typer.Argument(metavar="THEORY", help="interpolation, or ip.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add the verbs of this module."""
    app.command()(hermite)
    app.command()(spectrum)


def hermite(
    theory: TheoryArgument,
    text: Annotated[str | None, typer.Argument(metavar="[FORMULA]", help="The same as --formula.")] = None,
    formula: Annotated[str | None, typer.Option("--formula", help="A function of x.")] = None,
    degree: Annotated[int, typer.Option("--degree", min=1, max=40, help="Highest coefficient.")] = 6,
    json: JsonOption = False,
) -> None:
    """Hermite coefficients of a formula.

    Normalized coefficients a_k, the second moment of the centred function, and the share of its linear part.
    """
    from theorykit import interpolation as ip

    inputs.theory_name(theory, "interpolation")
    if (text is None) == (formula is None):
        raise ValueError("hermite needs one formula: as an argument after THEORY, or with --formula")
    found = ip.hermite(str(formula if text is None else text), degree)
    if json:
        output.print_json(
            {
                "formula": found.formula.text,
                "coefficients": list(found.coefficients),
                "second_moment": found.second_moment,
                "remainder": found.remainder,
                "linearity": found.linearity,
            }
        )
        return
    rows = [(f"a_{k}", str(value)) for k, value in enumerate(found.coefficients)]
    rows += [
        ("second moment nu", str(found.second_moment)),
        ("nu - a_1^2", str(found.remainder)),
        ("linearity a_1^2/nu", str(found.linearity)),
    ]
    output.print_table(f"Hermite coefficients of {found.formula.text}", ("quantity", "value"), rows)


def spectrum(
    theory: TheoryArgument,
    formula: Annotated[str, typer.Option("--formula", help="f of the attention, in x.")],
    ratio: RatioOption = None,
    signal: SignalOption = 0.0,
    aligned: AlignedOption = 0.0,
    overlaps: OverlapsOption = None,
    label_mean: LabelMeanOption = 0.0,
    square_variance: SquareVarianceOption = 2.0,
    diagonal: DiagonalOption = "zero",
    centering: CenteringOption = "entry",
    points: Annotated[int, typer.Option("--points", min=2, max=100_000, help="Of the density.")] = 400,
    low: Annotated[float | None, typer.Option("--low", help="First point; default: near 0.")] = None,
    high: Annotated[
        float | None, typer.Option("--high", help="Last point; default: beyond the bulk.")
    ] = None,
    simulate: Annotated[
        int | None, typer.Option("--simulate", min=4, help="Also draw the model with this many tokens.")
    ] = None,
    trials: Annotated[int, typer.Option("--trials", min=1, help="Draws of --simulate.")] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File: .nc, .csv or .json.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Figure: .png, .pdf or .svg.")] = None,
    json: JsonOption = False,
) -> None:
    """Spectrum of the features.

    Limiting density of the eigenvalues of K^T X^T X K/n, the atom at zero, and the eigenvalues outside the bulk.
    """
    from theorykit import interpolation as ip
    from theorykit.saving import SUFFIXES, require_suffix

    inputs.theory_name(theory, "interpolation")
    if out is not None:
        require_suffix("--out", out, SUFFIXES)
    if plot is not None:
        require_suffix("--plot", plot, (".png", ".pdf", ".svg"))
    model = read_model(
        formula, ratio, 1.0, signal, aligned, overlaps, label_mean, square_variance, diagonal, centering
    )
    grid = ip.spectral_grid(model, points, low, high)
    data = ip.density(model, grid)
    found = ip.outliers(model)
    drawn = None if simulate is None else ip.simulate_spectrum(model, simulate, trials, seed)
    if out is not None:
        from theorykit.saving import save

        save(data, out)
    if plot is not None:
        ip.plot_spectrum(data, found, drawn).savefig(plot, dpi=150)
    _print(model, data, found, drawn, json)
    for path in (out, plot):
        if path is not None:
            typer.echo(f"wrote {path}", err=True)


def _print(model: Any, data: Any, found: Any, drawn: Any, json: bool) -> None:
    """Bulk, atom and outliers, beside the largest simulated eigenvalues."""
    points, values = data["eigenvalue"].values, data["density"].values
    visible = points[values > 0]
    about: dict[str, Any] = {
        "atom_mass": float(data["atom_mass"]),
        "bulk_end": float(visible[-1]) if visible.size else 0.0,
        "outliers": [float(value) for value in found],
    }
    if drawn is not None:
        about["simulated_largest"] = sorted(drawn[:, -max(1, len(found)) :].mean(axis=0).tolist())
    if json:
        columns = {"eigenvalue": points.tolist(), "density": values.tolist()}
        output.print_json({"model": repr(model), **about, **columns})
        return
    rows = [
        ("atom at 0", f"{about['atom_mass']:.6g}"),
        ("last point with a density", f"{about['bulk_end']:.6g}"),
        ("outliers", ", ".join(f"{value:.8g}" for value in found) or "none"),
    ]
    if drawn is not None:
        largest = ", ".join(f"{value:.6g}" for value in about["simulated_largest"])
        rows.append(("largest eigenvalues, simulated", largest))
    output.print_table(f"spectrum of K^T X^T X K/n\n{model!r}", ("quantity", "value"), rows)
    stride = max(1, points.size // 20)
    table = [(f"{x:.6g}", f"{y:.8g}") for x, y in zip(points[::stride], values[::stride], strict=True)]
    output.print_table("density", ("eigenvalue", "density"), table, left=0)
