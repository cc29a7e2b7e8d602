"""Reports on disk: Markdown, HTML, and the figure of normalized residuals."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest

from theorykit.results import Estimate
from theorykit.validation.compare import Comparison, ValidationReport
from theorykit.validation.report import figure, to_html, to_markdown, write_report


def report(*scores):
    rows = [
        Comparison.of(
            f"A_{i}", {"kernel": "a|b<c>&*", "nu": float(i)}, z, Estimate(0.0, 1.0, "standard error")
        )
        for i, z in enumerate(scores)
    ]
    return ValidationReport(tuple(rows), title="spiked <softmax> & max")


class Cells(HTMLParser):
    """Texts of the cells of each row, and addresses of anything that is loaded."""

    def __init__(self):
        super().__init__()
        self.rows, self.loaded, self.open = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in ("img", "meta"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self.loaded += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_html_holds_the_table_and_loads_nothing():
    data = report(1.0, -7.0)
    parser = Cells()
    parser.feed(to_html(data))
    assert parser.open == []
    assert [tuple(cells) for cells in parser.rows[1:]] == data.table()
    (source,) = parser.loaded
    kind, payload = source.split(",", 1)
    assert kind == "data:image/png;base64" and base64.b64decode(payload).startswith(b"\x89PNG")
    assert parser.rows[2][-1] == "FAILED"
    without = Cells()
    without.feed(to_html(data, with_figure=False))
    assert without.loaded == [] and without.rows == parser.rows


def test_markdown_table_survives_marks():
    data = report(1.0, -7.0)
    lines = to_markdown(data).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 4
    for line, cells in zip(table[2:], data.table(), strict=True):
        found = re.split(r"(?<!\\)\|", line)[1:-1]
        assert [re.sub(r"\\(.)", r"\1", cell.strip()) for cell in found] == list(cells)
    assert lines[0] == r"# spiked \<softmax> & max"
    assert lines[2].startswith("FAILED: 1 of 2 rows")


def test_written_by_suffix(tmp_path):
    data = report(0.5)
    assert write_report(data, tmp_path / "a.md").read_text(encoding="utf-8") == to_markdown(data)
    assert (
        write_report(data, str(tmp_path / "a.html")).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    )
    with pytest.raises(ValueError, match=r"path must end in \.md or \.html, got '.*a\.pdf'"):
        write_report(data, tmp_path / "a.pdf")


def test_figure_of_many_rows_has_a_bounded_height():
    few, many = figure(report(*np.zeros(10))), figure(report(*np.linspace(-2, 2, 200)))
    assert len(few.axes[0].get_yticklabels()) == 10
    assert many.get_size_inches()[1] <= 8
    assert many.axes[0].get_ylabel() == "comparison"


def test_figure_shows_the_scores_and_touches_no_setting():
    before = dict(
        dict.items(matplotlib.rcParams)
    )  # raw: reading the backend through the mapping would choose one
    data = report(1.5, -0.5, 6.0)
    drawing = figure(data)
    drawing.canvas.draw()
    assert dict(dict.items(matplotlib.rcParams)) == before
    residuals, distribution = drawing.axes
    points = residuals.collections[-1].get_offsets()
    np.testing.assert_allclose(points, [[1.5, 0], [-0.5, 1], [6.0, 2]])
    colors = residuals.collections[-1].get_facecolors()
    assert (colors[0] == colors[1]).all() and (colors[0] != colors[2]).any()
    steps = distribution.lines[0]
    np.testing.assert_allclose(steps.get_xdata(), [-0.5, 1.5, 6.0])
    np.testing.assert_allclose(steps.get_ydata(), [1 / 3, 2 / 3, 1.0])
