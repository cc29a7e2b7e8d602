"""The verb weights: attention weights of a local checkpoint beside "identity plus low rank"."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from theorykit.cli import inputs, output

__all__ = ["register", "weights"]


def register(app: typer.Typer) -> None:
    """Add the verb of this module."""
    app.command()(weights)


def weights(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A .safetensors file, or the folder of a checkpoint.")
    ],
    heads: Annotated[
        int | None, typer.Option("--heads", min=1, help="Heads per layer; default: from config.json.")
    ] = None,
    layers: Annotated[str | None, typer.Option("--layers", help="Some layers: 0,3,5.")] = None,
    gains: Annotated[
        bool, typer.Option("--gains", help="Fold the gains of the layer normalizations into the weights.")
    ] = False,
    draws: Annotated[int, typer.Option("--draws", min=0, help="Random rotations per null law.")] = 32,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    errors: Annotated[
        bool, typer.Option("--errors", help="Also simulate the interpolation error with these weights.")
    ] = False,
    formula: Annotated[str, typer.Option("--formula", help="f of the attention, in x.")] = "tanh(x)",
    ratio: Annotated[float, typer.Option("--ratio", help="c = p/n.")] = 0.5,
    ridge: Annotated[float, typer.Option("--ridge", help="Penalty gamma.")] = 0.1,
    signal: Annotated[float, typer.Option("--signal", help="|mu|.")] = 1.0,
    trials: Annotated[int, typer.Option("--trials", min=2, help="Draws of tokens per layer.")] = 8,
    plot: Annotated[Path | None, typer.Option("--plot", help="Figure of the spectra.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure real attention weights.

    How far W = W_K^T W_Q of every layer and head is from a multiple of the identity plus a matrix of low rank; the
    file is never unpickled.
    """
    from theorykit import interpolation as ip
    from theorykit.progress import progress_bar

    if plot is not None:
        from theorykit.saving import require_suffix

        require_suffix("--plot", plot, (".png", ".pdf", ".svg"))
    chosen = None if layers is None else [int(v) for v in inputs.length_grid("--layers", layers)]
    with progress_bar("weights") as bar:
        report = ip.weights(
            path, heads, chosen, gains, draws, seed, on_layer=lambda i, n: bar.stand("weights", i, n)
        )
        rows: tuple[Any, ...] = ()
        if errors:
            rows = ip.weights_error(
                path, formula, ratio, ridge, signal, chosen, gains, trials, seed,
                on_layer=lambda i, n: bar.stand("simulations", i, n),
            )  # fmt: skip
    if plot is not None:
        ip.plot_weights(report).savefig(plot, dpi=150)
        typer.echo(f"wrote {plot}", err=True)
    if json:
        data = report.to_dict()
        if errors:
            data["interpolation_error"] = [row.to_dict() for row in rows]
        output.print_json(data)
        return
    _print_report(report)
    if errors:
        _print_errors(rows)


def _print_report(report: Any) -> None:
    head = (
        "layer", "p", "identity", "share of |W|²", "with gains", "z mismatched", "z rotated", "rank", "left beyond",
        "without identity", "symmetric", "tau", "heads that fit",
    )  # fmt: skip
    rows = []
    for layer in report.layers:
        w = layer.whole
        fit = (
            f"{sum(h.supported for h in layer.heads)} of {len(layer.heads)}"
            if layer.heads
            else "heads unknown"
        )
        rows.append(
            (
                str(layer.index), str(w.dimension), f"{w.identity:.3g}", f"{100 * w.identity_share:.3g} %",
                "-" if layer.folded_share is None else f"{100 * layer.folded_share:.3g} %",
                _z(w.mismatched.z), _z(w.rotated.z), str(w.rank), f"{w.remainder:.3f}",
                f"{w.remainder_without:.3f}", f"{w.symmetric:.3f}", f"{w.tau:.3f}", fit,
            )
        )  # fmt: skip
    output.print_table(f"attention weights of {report.path}", head, rows)
    output.print_rich(report.verdict, report.criterion)


def _z(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _print_errors(rows: tuple[Any, ...]) -> None:
    cells = [
        (
            str(row.layer),
            str(row.tokens),
            f"{row.theory:.5f}",
            str(row.simulated),
            f"{row.z:.1f}",
            str(row.linear_regression),
        )
        for row in rows
    ]
    title = "interpolation error: theory with the best fit, simulation with the weights themselves"
    output.print_table(title, ("layer", "tokens", "theory", "simulated", "z", "linear regression"), cells)
