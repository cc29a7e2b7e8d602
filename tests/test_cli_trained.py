"""Curves of trained attention from the command line, where they are exact."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from theorykit.cli import app
from theorykit.single_location import Softmax, Spiked, erm

COMMON = [
    "curve",
    "slr",
    "--nu",
    "4",
    "--length",
    "2",
    "--noise",
    "0.3",
    "--ridge-k",
    "inf",
    "--ridge-v",
    "0.5",
]


def run(*arguments):
    return CliRunner().invoke(app, [*COMMON, *arguments])


def test_curve_over_the_sample_ratio():
    result = run("--alpha", "1:3:3", "--activation", "softmax", "--json")
    assert result.exit_code == 0, result.output
    text = result.stdout
    data = json.loads(text[text.index("{") :])
    task = Spiked(nu=4, length=2, noise=0.3)
    expected = [float(erm(task, Softmax(), a, float("inf"), 0.5).test_risk) for a in (1, 2, 3)]
    risks = data["data_vars"]["risk"]["data"]
    flat = [value for row in risks for value in (row if isinstance(row, list) else [row])]
    assert flat == pytest.approx(expected, rel=1e-12)


def test_published_value_is_in_the_table():
    result = run("--alpha", "2", "--activation", "softmax")
    assert result.exit_code == 0, result.output
    assert "0.81574639149" in result.stdout


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--alpha", "2", "--nu", "1,2"], "--nu must be one number"),
        (["--alpha", "2:3"], "--alpha must be start:stop:count"),
        (["--alpha", "2", "--activation", "best"], "--activation must be a known name"),
        (["--alpha", "0"], "alpha must be a real number"),
    ],
)
def test_refusals_name_the_option(arguments, message):
    result = run(*arguments)
    assert result.exit_code != 0
    assert message in f"{result.output}{result.exception}"
