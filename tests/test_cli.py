"""The command line: mathematics, the main job and the citation; numbers are in ``test_cli_numbers``.

Most tests run the verbs against small closed forms in the place of the solvers, so that they see the command
line and nothing else; ``test_cli_process`` runs the real thing in processes of its own.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
import xarray as xr
from cli_stand_ins import run

import theorykit
from theorykit import processes, reproduce, theory
from theorykit import single_location as slr
from theorykit.citation import cite
from theorykit.cli import inputs, output
from theorykit.results import Estimate, Status
from theorykit.single_location.comparison import compare_risks
from theorykit.validation import run as validation_run

HOME = {"audit": theory, "validate": validation_run}


class Report:
    """What audit and validate return, as far as the command line knows."""

    def __init__(self, ok):
        self.ok = ok

    def to_dict(self):
        return {"ok": self.ok, "z": math.inf}

    def __rich__(self):
        return "a table"


class TestMathematics:
    def test_options_of_a_derivation(self):
        assert inputs.read_options("--option", ["task=max", "aligned=true"]) == {
            "task": "max",
            "aligned": True,
        }
        for wrong in ("task", "=max", "task=", "1=2"):
            with pytest.raises(ValueError, match="--option must be NAME=VALUE"):
                inputs.read_options("--option", [wrong])

    @pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 1)])
    @pytest.mark.parametrize("verb", ["audit", "validate"])
    def test_exit_code_is_the_verdict(self, monkeypatch, verb, ok, code):
        monkeypatch.setattr(HOME[verb], verb, lambda *_, **__: Report(ok))
        done = run(verb, "slr")
        assert (done.exit_code, done.stdout) == (code, "a table\n")
        done = run(verb, "slr", "--json")
        assert (done.exit_code, json.loads(done.stdout)) == (code, {"ok": ok, "z": "inf"})

    def test_options_reach_the_functions(self, monkeypatch):
        seen = []

        def record(*args, on_step=None, on_point=None, **kwargs):
            if on_step is not None:
                on_step("first step", 0, 3)
            if on_point is not None:
                on_point(0, 3)
            seen.append((args, kwargs))
            return Report(True)

        monkeypatch.setattr(theory, "audit", record)
        monkeypatch.setattr(validation_run, "validate", record)
        run("audit", "single-location", "--slow")
        run("validate", "slr", "--trials", "7", "--seed", "3")
        run("validate", "slr", "--study", "training", "--points", "0:3,7")
        plain = {"trials": None, "seed": 0, "study": None, "points": None}
        assert seen == [
            (("single_location",), {"slow": True}),
            (("single_location",), {**plain, "trials": 7, "seed": 3}),
            (("single_location",), {**plain, "study": "training", "points": [0, 1, 2, 7]}),
        ]

    def test_latex(self, monkeypatch, tmp_path):
        monkeypatch.setattr(theory, "latex", lambda name, fragment: f"{name} {fragment}\n")
        assert run("latex", "slr").stdout == "single_location False\n"
        assert run("latex", "slr.bayes_risk", "--fragment").stdout == "single_location.bayes_risk True\n"
        out = tmp_path / "a.tex"
        assert run("latex", "slr", "-o", out).stdout == ""
        assert out.read_text() == "single_location False\n"
        assert run("latex", "slr", "-o", tmp_path / "a.pdf").exit_code == 2

    @pytest.mark.parametrize(
        "arguments",
        [
            ("audit", "xyz"),
            ("latex", "xyz"),
            ("derive", "xyz"),
            ("derive", "slr.xyz"),
            ("derive", "slr.bayes_risk", "--option", "task=foo"),
            ("derive", "slr.bayes_risk", "--option", "tsk=max"),
            ("validate", "slr", "--trials", "0"),
            ("validate", "slr", "--plot", "a.txt"),
            ("validate", "slr", "--study", "none"),
            ("validate", "slr", "--points", "99"),
            ("validate", "slr", "--points", "a"),
            ("validate", "slr", "--points", "1:2:3"),
            ("validate", "slr", "--points", "3:3"),
            ("validate", "slr", "-o", "none/a.md"),
        ],
    )
    def test_bad_input(self, arguments):
        done = run(*arguments)
        assert done.exit_code == 2
        assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("closed_forms")
class TestReproduce:
    @pytest.fixture
    def small(self, monkeypatch):
        """The main job on small grids, without the equations."""
        spiked = reproduce.Comparison(
            "spiked", "Spiked", slr.Spiked(0, 2), (0.0, 2.0), {"L = 2": 2, "L = 1000": 1000}
        )
        maximum = reproduce.Comparison(
            "max", "Max", slr.Max(0, 2), (1.0, math.inf), {"L = 1 or 2": {1: 0.5, 2: 0.5}}
        )
        monkeypatch.setattr(theory, "latex", lambda name: f"equations of {name}")
        defaults = (reproduce.THEORIES, (spiked, maximum), 1, False)
        monkeypatch.setattr(reproduce.reproduce, "__defaults__", defaults)
        monkeypatch.setattr(processes, "processors", lambda: 1)  # the closed forms are those of this process

    @pytest.mark.usefixtures("small")
    def test_files_and_tables(self, tmp_path):
        out = tmp_path / "new" / "folder"
        done = run("reproduce", "single-location", "-o", out)
        assert done.exit_code == 0, done.stderr
        names = ["equations.tex", "max.nc", "max.png", "spiked.nc", "spiked.png"]
        assert sorted(path.name for path in out.iterdir()) == names
        assert done.stderr.splitlines() == [f"wrote {out / name}" for name in names]
        assert (out / "equations.tex").read_text() == "equations of single_location"
        with xr.open_dataset(out / "max.nc", engine="h5netcdf") as data:
            assert data.length.values.tolist() == ["L = 1 or 2"]
            assert data.risk.attrs["long_name"] == "excess risk"
            assert data.risk.sel(estimator="softmax", nu=1.0).item() == 2 * 0.25 / 2
        assert "L = 1000" in done.stdout
        assert "best elementwise" in done.stdout

    @pytest.mark.usefixtures("small")
    def test_json(self, tmp_path):
        found = json.loads(
            run("reproduce", "slr", "-o", tmp_path, "--json").stdout, parse_constant=pytest.fail
        )
        assert found["spiked"]["coords"]["length"]["data"] == ["L = 2", "L = 1000"]

    @pytest.mark.theory("signal_recovery")
    @pytest.mark.usefixtures("small")
    @pytest.mark.slow
    def test_all_theories_are_the_default(self, tmp_path):
        done = run("reproduce", "-o", tmp_path)
        assert done.exit_code == 0, done.stderr
        assert "L = 1000" in done.stdout
        assert "-0.572974508277" in done.stdout
        written = {path.stem for path in tmp_path.iterdir()}
        assert written == {"equations", "max", "signal_recovery", "spiked"}

    def test_other_theories_are_refused(self, tmp_path):
        done = run("reproduce", "slr", "ip", "-o", tmp_path / "out")
        assert done.exit_code == 2
        assert "THEORY must be single-location (slr) or signal-recovery (sr), got 'ip'" in done.stderr
        with pytest.raises(ValueError, match="theories must be among single_location, signal_recovery"):
            reproduce.reproduce(tmp_path / "out", ["interpolation"])
        assert not (tmp_path / "out").exists()

    def test_grids_are_those_of_the_main_job(self):
        assert list(reproduce.SPIKED.lengths.values()) == [2, 10, 1000, 10**6]
        assert (reproduce.SPIKED.nu[0], reproduce.SPIKED.nu[-1]) == (0.0, 40.0)
        assert math.inf in reproduce.MAX.nu
        assert reproduce.MAX.lengths["L = 1, 2 or 3"] == {1: 1 / 3, 2: 1 / 3, 3: 1 / 3}


def test_numbers_of_the_main_job_do_not_depend_on_the_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(theory, "latex", lambda name: f"equations of {name}")
    small = reproduce.Comparison(
        "spiked",
        "Spiked",
        slr.Spiked(0, 2),
        (1.0, 2.0),
        {"L = 2": 2, "L = 3": 3},
        ("bayes", "linear", "softmax"),
    )
    one, two = (
        reproduce.reproduce(tmp_path / str(n), ["single_location"], [small], processes=n) for n in (1, 2)
    )
    assert list(one) == list(two) == ["spiked"]
    assert one["spiked"].identical(two["spiked"])
    assert one["spiked"].sizes == {"estimator": 3, "length": 2, "nu": 2}
    direct = slr.optimal_risk(slr.Spiked(2.0, 3), slr.Softmax(), excess=True).risk
    assert one["spiked"].risk.sel(estimator="softmax", length="L = 3", nu=2.0).item() == direct


@pytest.mark.usefixtures("closed_forms")
class TestCompareRisks:
    def test_own_activation_beside_names(self):
        mine = slr.Elementwise("1 + tanh(x)")
        data = compare_risks(slr.Spiked(1, 2, noise=0.5), ["bayes", mine], {"nu": [0.0, 1.0]}, excess=True)
        assert data.estimator.values.tolist() == ["Bayes", "1 + tanh(x)"]
        assert data.risk.values.tolist() == [[0.5, 0.25], [1.0, 0.5]]
        assert data.attrs["task"] == "Spiked(length=2, noise=0.5) over nu"

    @pytest.mark.parametrize(
        ("estimators", "error"), [([], ValueError), ([3], TypeError), (["x"], ValueError)]
    )
    def test_refusals(self, estimators, error):
        with pytest.raises(error, match="estimator"):
            compare_risks(slr.Spiked(1, 2), estimators, {"nu": [1.0]})

    def test_progress_counts_all_points(self):
        calls = []
        over = {"nu": [0.0, 1.0], "length": [2, 3, 4]}
        compare_risks(slr.Spiked(1, 2), ["bayes", "linear"], over, progress=lambda: calls.append(1))
        assert len(calls) == 12


class TestCite:
    def test_agrees_with_the_citation_file(self):
        cff = (Path(theorykit.__file__).parents[1] / "CITATION.cff").read_text(encoding="utf-8")
        assert f"version: {theorykit.__version__}" in cff
        text = cite().replace("{\\'a}", "á")
        for paper in re.findall(r"title: \"(Statistical[^\"]+)\"", cff):
            assert paper in text
        for number in re.findall(r"arXiv:([0-9.]+)", cff):
            assert f"eprint        = {{{number}}}" in text
        for family in re.findall(r"family-names: \"([^\"]+)\"", cff):
            assert f"{family}, " in text

    def test_is_bibtex(self):
        text = cite()
        assert text.count("{") == text.count("}")
        assert re.findall(r"^@(\w+)\{(\w+),$", text, re.M) == [
            ("software", "theorykit"),
            ("misc", "duranthon2025softmax"),
        ]

    def test_verb(self):
        assert run("cite").stdout == cite()


def test_plain_data():
    assert output.plain({1: (Estimate(1.0, 0.5), math.nan, -math.inf, Status.LIMIT)}) == {
        "1": [{"value": 1.0, "error": 0.5, "kind": "bound"}, None, "-inf", "limit"]
    }
