"""How results appear: rich tables on a terminal, the same without colour elsewhere, JSON when asked for."""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from theorykit.results import Estimate, Status

__all__ = ["plain", "print_json", "print_rich", "print_risks", "print_table", "risk_rows"]

_WIDTH = 160  # where nobody says how wide the output is: in a file, lines are better long than broken
_LEAST_TEXT, _GAP = 12, 3  # columns of a text that may be broken into lines; between two columns of a table


def _console(least: int = 0) -> Any:
    """Without a terminal there is neither colour nor a limit of 80 columns; nowhere less than ``least``."""
    from rich.console import Console

    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console(width=None if known else _WIDTH, highlight=False)
    console.width = max(console.width, least)
    return console


def print_rich(*items: Any, least: int = 0) -> None:
    """Print renderables and texts, ``least`` columns wide where the output is narrower."""
    console = _console(least)
    for item in items:
        console.print(item, soft_wrap=isinstance(item, str), markup=False)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> None:
    """A table of texts; the first ``left`` columns are aligned to the left, the others to the right.

    A number is never broken into two lines: a table of long numbers is wider than a narrow terminal.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    cells = [list(row) for row in rows]
    words = [max(map(len, (*name.split(), *column, ""))) for name, column in _columns(columns, cells)]
    natural = [max(map(len, (name, *column))) for name, column in _columns(columns, cells)]
    narrow = sum(natural) + _GAP * len(columns) > _console().width
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(columns):
        if index < left:
            table.add_column(name, overflow="fold")
        else:
            fixed = words[index] if narrow else None
            table.add_column(name, justify="right", overflow="fold", width=fixed)
    least = sum(min(w, _LEAST_TEXT) if i < left else w for i, w in enumerate(words)) + _GAP * len(columns)
    for row in cells:
        table.add_row(*map(Text, row))
    print_rich(title, table, least=least)


def _columns(names: Sequence[str], rows: list[list[str]]) -> Iterator[tuple[str, list[str]]]:
    for index, name in enumerate(names):
        yield name, [row[index] for row in rows]


def print_risks(title: str, data: Any, most: int | None = None) -> None:
    """Minimal risks, one row per point and one column per estimator.

    Of more than ``most`` rows every few are left.  Where the numbers with their errors are wider than the
    terminal, they are rounded and the largest error of the row stands at its end.
    """
    head, rows = risk_rows(data, most, with_errors=True)
    widths = [max(len(cell) for cell in column) + 3 for column in zip(*rows, strict=True)]
    if sum(widths) > _console().width:
        head, rows = risk_rows(data, most, with_errors=False)
    print_table(title, head, rows, left=0)


def risk_rows(data: Any, most: int | None, with_errors: bool) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table that :func:`print_risks` prints."""
    dims = [str(d) for d in data["risk"].dims if d != "estimator"]
    points = list(itertools.product(*(data[d].values.tolist() for d in dims)))
    both = (data[name].transpose(*dims, "estimator").values for name in ("risk", "risk_error"))
    risks, errors = (values.reshape(len(points), -1) for values in both)
    stride = 1 if most is None else -(-len(points) // most)
    rows = []
    for point, values, spread in list(zip(points, risks, errors, strict=True))[::stride]:
        place = [value if isinstance(value, str) else f"{value:g}" for value in point]
        if with_errors:
            rows.append([*place, *map(_risk_cell, values, spread)])
        else:
            worst = max((e for e in spread if math.isfinite(e)), default=0.0)
            rows.append([*place, *(f"{v:.6g}" if math.isfinite(v) else "-" for v in values), f"{worst:.0e}"])
    head = [*dims, *map(str, data["estimator"].values)]
    return head if with_errors else [*head, "error"], rows


def _risk_cell(value: float, error: float) -> str:
    if math.isnan(value):
        return "no convergence"
    return str(Estimate(value, error)) if math.isfinite(error) else f"{value:.12g}"


def print_json(value: Any) -> None:
    """Strict JSON: an Estimate is an object with value, error and kind; infinities are the text "inf"."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """Plain data that JSON holds."""
    if isinstance(value, Estimate):
        return {"value": value.value, "error": value.error, "kind": value.kind}
    if isinstance(value, Status):
        return value.value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
