"""A validation report as Markdown, as a self-contained HTML page, and as a figure."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import TYPE_CHECKING

from theorykit.validation.compare import COLUMNS, ValidationReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["figure", "to_html", "to_markdown", "write_report"]

_MOST_NAMES = 60
_STYLE = (
    "body{font-family:sans-serif;margin:2em auto;max-width:70em;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}"
    "th,td{border-bottom:1px solid #ccc;padding:.3em .8em;text-align:left}"
    "td:nth-child(5){text-align:right;font-variant-numeric:tabular-nums}"
    ".failed{color:#b00020;font-weight:bold}img{max-width:100%}"
)


def to_markdown(report: ValidationReport) -> str:
    """The report as a Markdown table with its verdict above."""
    lines = [f"# {_markdown(report.title)}", "", _markdown(report.verdict), ""]
    lines.append(f"| {' | '.join(COLUMNS)} |")
    lines.append("|---|---|---|---|---:|---|")
    lines += [f"| {' | '.join(_markdown(cell) for cell in line)} |" for line in report.table()]
    return "\n".join(lines) + "\n"


def to_html(report: ValidationReport, with_figure: bool = True) -> str:
    """The report as one HTML page that needs no other file; the figure is embedded."""
    head = "".join(f"<th>{html.escape(column)}</th>" for column in COLUMNS)
    body = "\n".join(_html_row(line) for line in report.table())
    picture = (
        f'<img alt="normalized residuals" src="data:image/png;base64,{_png(report)}">' if with_figure else ""
    )
    title, verdict = html.escape(report.title), html.escape(report.verdict)
    mark = "" if report.ok else ' class="failed"'
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n<p{mark}>{verdict}</p>\n{picture}\n"
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</body>\n</html>\n"
    )


def write_report(report: ValidationReport, path: str | Path) -> Path:
    """Write the report to `path`: Markdown for the suffix .md, HTML for .html.

    Raises
    ------
    ValueError
        For any other suffix.
    """
    target = Path(path)
    writers = {".md": to_markdown, ".html": to_html}
    if target.suffix not in writers:
        raise ValueError(f"path must end in {' or '.join(writers)}, got {str(path)!r}")
    target.write_text(writers[target.suffix](report), encoding="utf-8")
    return target


def figure(report: ValidationReport) -> Figure:
    """Normalized residuals: z of every row, and their distribution function beside the normal one.

    Rows are named where there is room for it. The grey band is the threshold and the bars are one standard
    error. The figure belongs to no backend and no global setting of matplotlib is touched.
    """
    from matplotlib.figure import Figure

    rows = report.rows
    height = 1.2 + 0.25 * len(rows) if len(rows) <= _MOST_NAMES else 6.0
    drawing = Figure(figsize=(10.0, max(3.0, height)), layout="constrained")
    residuals, distribution = drawing.subplots(1, 2, width_ratios=[2, 1])
    _draw_residuals(residuals, report)
    _draw_distribution(distribution, report)
    drawing.suptitle(report.title)
    return drawing


def _draw_residuals(axes, report: ValidationReport) -> None:
    heights = range(len(report.rows))
    colors = ["0.7" if row.doubt else "tab:blue" if report.passes(row) else "tab:red" for row in report.rows]
    axes.axvspan(-report.threshold, report.threshold, color="0.93")
    axes.axvline(0.0, color="0.5", linewidth=0.8)
    axes.errorbar([row.z for row in report.rows], heights, xerr=1.0, fmt="none", ecolor="0.6", elinewidth=0.8)
    axes.scatter([row.z for row in report.rows], heights, c=colors, zorder=3)
    if len(report.rows) <= _MOST_NAMES:
        names = [f"{line[0]}  {line[1]}" for line in report.table()]
        axes.set_yticks(list(heights), names, fontsize="x-small")
    else:
        axes.set_ylabel("comparison")
    axes.invert_yaxis()
    axes.set_xlabel("(theory − simulation) / error")


def _draw_distribution(axes, report: ValidationReport) -> None:
    import numpy as np
    from scipy.special import ndtr

    scores = np.sort([row.z for row in report.judged or report.rows])
    grid = np.linspace(-report.threshold, report.threshold, 201)
    axes.step(scores, np.arange(1, scores.size + 1) / scores.size, where="post", label="rows")
    axes.plot(grid, ndtr(grid), color="0.4", linestyle="--", label="normal")
    axes.set_xlabel("z")
    axes.set_ylabel("fraction below z")
    axes.set_title(f"rms z = {report.rms_z:.2f}, p = {report.p_value:.2g}", fontsize="small")
    axes.legend(fontsize="small")


def _png(report: ValidationReport) -> str:
    buffer = io.BytesIO()
    figure(report).savefig(buffer, format="png", dpi=120)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _html_row(line: tuple[str, ...]) -> str:
    mark = ' class="failed"' if line[-1] == "FAILED" else ""
    return f"<tr{mark}>{''.join(f'<td>{html.escape(cell)}</td>' for cell in line)}</tr>"


def _markdown(text: str) -> str:
    """Escape what would end a table cell, start a tag or be read as markup."""
    for mark in ("\\", "|", "*", "_", "`", "<"):
        text = text.replace(mark, "\\" + mark)
    return text.replace("\n", " ")
