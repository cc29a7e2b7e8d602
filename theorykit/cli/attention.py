"""What risk and curve do for the interpolation theory, and the options that describe its model."""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Any

import typer

from theorykit.cli import inputs, output

__all__ = [
    "AlignedOption",
    "CenteringOption",
    "DiagonalOption",
    "LabelMeanOption",
    "OverlapsOption",
    "RatioOption",
    "RidgeOption",
    "SignalOption",
    "SquareVarianceOption",
    "make_curve",
    "print_curve",
    "print_risk",
    "read_grids",
    "read_model",
]

RatioOption = Annotated[float | None, typer.Option("--ratio", help="Interpolation: c = p/n.")]
RidgeOption = Annotated[float | None, typer.Option("--ridge", help="Interpolation: penalty gamma.")]
SignalOption = Annotated[float, typer.Option("--signal", help="Interpolation: |mu|.")]
AlignedOption = Annotated[
    float, typer.Option("--aligned", help="Interpolation: beta of the weights I + beta mu mu^T/|mu|^2.")
]
OverlapsOption = Annotated[
    str | None,
    typer.Option(
        "--overlaps", help="Interpolation: key2=1,query2=2,signal_key=0.5,... in place of --aligned."
    ),
]
LabelMeanOption = Annotated[float, typer.Option("--label-mean", help="Interpolation: mean of the labels.")]
SquareVarianceOption = Annotated[
    float, typer.Option("--square-variance", help="Interpolation: variance of the squared noise entries.")
]
DiagonalOption = Annotated[str, typer.Option("--diagonal", help="Interpolation: zero, kept, or a number.")]
CenteringOption = Annotated[str, typer.Option("--centering", help="Interpolation: entry, row, column, none.")]

_OVERLAPS = ("key2", "query2", "signal_key", "signal_query", "key_query")
_ROWS = 60
_CURVE = ("interpolation_error", "quadratic_form", "degrees_of_freedom", "feature_energy")


def read_model(
    formula: str | None,
    ratio: float | None,
    ridge: float | None = 1.0,
    signal: float = 0.0,
    aligned: float = 0.0,
    overlaps: str | None = None,
    label_mean: float = 0.0,
    square_variance: float = 2.0,
    diagonal: str = "zero",
    centering: str = "entry",
) -> Any:
    """The record of a model; "--overlaps key2=1,query2=2" for general weights."""
    from theorykit import interpolation as ip

    for option, value in (("--formula", formula), ("--ratio", ratio), ("--ridge", ridge)):
        if value is None:
            raise ValueError(f"interpolation needs {option}")
    given = None if overlaps is None else ip.Overlaps(**_pairs(overlaps))
    edge: Any = diagonal if diagonal in ("zero", "kept") else inputs.number("--diagonal", diagonal)
    return ip.Attention(
        str(formula), float(ratio or 0), float(ridge or 0), signal, aligned, given, label_mean, square_variance,
        edge, centering,
    )  # fmt: skip


def _pairs(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for entry in text.split(","):
        name, separator, value = (part.strip() for part in entry.partition("="))
        if not separator or name not in _OVERLAPS:
            raise ValueError(
                f"--overlaps must be NAME=VALUE,... with names {', '.join(_OVERLAPS)}, got {entry!r}"
            )
        found[name] = inputs.number("--overlaps", value)
    return found


def print_risk(model: Any, degrees_of_freedom: float | None, json: bool) -> None:
    """The interpolation error at one point, with linear regression beside it at the same ridge."""
    from theorykit import interpolation as ip

    solution = ip.solve(model)
    found: dict[str, Any] = {
        "interpolation_error": solution.interpolation_error,
        "linear_regression_error": ip.linear_regression_error(
            ratio=model.ratio, ridge=model.ridge, signal=model.signal
        ),
        "degrees_of_freedom": solution.degrees_of_freedom,
        "feature_energy": solution.feature_energy,
    }
    if degrees_of_freedom is not None:
        equal = ip.compare(model, degrees_of_freedom=degrees_of_freedom)
        found["at_equal_degrees_of_freedom"] = {
            "degrees_of_freedom": degrees_of_freedom,
            "ridge_attention": equal.ridge_attention,
            "error_attention": equal.error_attention,
            "ridge_regression": equal.ridge_regression,
            "error_regression": equal.error_regression,
        }
    if json:
        output.print_json({"model": repr(model), **found})
        return
    rows: list[tuple[str, str]] = []
    for name, value in found.items():
        inner = value if isinstance(value, dict) else {name: value}
        shown = [(label.replace("_", " "), str(entry)) for label, entry in inner.items()]
        rows += [(f"at equal {label}" if label in dict(rows) else label, entry) for label, entry in shown]
    output.print_table(f"training error of a ridge probe\n{model!r}", ("quantity", "value"), rows)


def read_grids(entries: list[str]) -> dict[str, list[float]]:
    """``--over ridge=0.01:1:20``: fields of the model and their values; ridges may be spaced by factors, ``log``."""
    grids: dict[str, list[float]] = {}
    for entry in entries:
        name, separator, text = (part.strip() for part in entry.partition("="))
        if not separator or not text:
            raise ValueError(f"--over must be NAME=start:stop:count or NAME=value,..., got {entry!r}")
        logarithmic = text.startswith("log:")
        values = inputs.real_grid("--over", text.removeprefix("log:"))
        if logarithmic:
            if min(values) <= 0 or len(values) < 2:
                raise ValueError(
                    f"--over {name}=log:... needs positive ends and at least two points, got {text!r}"
                )
            start, stop = math.log(values[0]), math.log(values[-1])
            values = [math.exp(start + (stop - start) * i / (len(values) - 1)) for i in range(len(values))]
        grids[name] = values
    if not grids:
        raise ValueError("interpolation needs --over NAME=GRID, as in --over ridge=log:0.01:1:20")
    return grids


def make_curve(model: Any, grids: dict[str, list[float]]) -> Any:
    """Interpolation error and its companions over fields of the model, ``--over ridge=log:0.01:1:20``."""
    from theorykit import interpolation as ip
    from theorykit.curve import curve

    return curve(ip.solve, model, over=grids)


def print_curve(data: Any, json: bool) -> None:
    """The curve as a table of every few rows."""
    if json:
        from theorykit.saving import dataset_json

        print(dataset_json(data))
        return
    names = [str(d) for d in data["interpolation_error"].dims]
    points = list(itertools.product(*(data[d].values.tolist() for d in names)))
    columns = [data[quantity].values.ravel() for quantity in _CURVE]
    cells = [
        (*(f"{value:g}" for value in point), *(f"{column[index]:.10g}" for column in columns))
        for index, point in enumerate(points)
    ]
    stride = -(-len(cells) // _ROWS)
    head = [name.replace("_", " ") for name in (*names, *_CURVE)]
    output.print_table("training error of a ridge probe on attention features", head, cells[::stride], left=0)
