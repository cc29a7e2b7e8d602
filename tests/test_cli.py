"""The command line: what the verbs print, write and return.

Most tests run the verbs against small closed forms in the place of the solvers, so that they see the command
line and nothing else; the last ones run the real thing in processes of their own.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import theorykit
from theorykit import processes, reproduce, theory
from theorykit import single_location as slr
from theorykit.citation import cite
from theorykit.cli import app, inputs, main, output
from theorykit.errors import ConvergenceError
from theorykit.results import Estimate, Optimum, Status
from theorykit.single_location.comparison import compare_risks
from theorykit.validation import run as validation_run

RUN = CliRunner()
HOME = {"audit": theory, "validate": validation_run}


def run(*arguments: str):
    return RUN.invoke(app, [str(a) for a in arguments])


def fake_bayes(task, excess=False):
    base = 1 - sum(p / size for size, p in task.lengths)
    return Estimate(base / (1 + min(task.nu, 1e9)) + (0.0 if excess else task.noise**2), 2e-10)


def fake_optimum(task, activation, excess=False):
    if activation.label == "softplus" and task.nu == 3.0:
        raise ConvergenceError("search of the best overlaps not finished")
    risk = 2 * fake_bayes(task, excess=True) + (0.0 if excess else task.noise**2)
    limit = activation.label == "softplus"
    return Optimum(
        risk=Estimate(risk, 1e-9),
        m_k=math.inf if limit else 1.5,
        q_k=math.inf if limit else Estimate(2.25, 1e-7),
        m_v=1.0,
        q_v=1.0,
        shift=0.5 if activation.name == "erf" else None,
        attained=not limit,
        status=Status.LIMIT if limit else Status.CONVERGED,
        evaluations=12,
    )


def fake_risk(task, activation, m_k, q_k, m_v, q_v, m_kv=0.0, m_vk=0.0, q_kv=0.0, excess=False):
    if q_k < m_k**2:
        raise ValueError(f"q_k must be at least m_k**2 = {m_k**2}, got {q_k}")
    return Estimate(m_k + 10 * q_k + 100 * m_v + 1000 * q_v + m_kv + m_vk + q_kv, 1e-6)


@pytest.fixture
def closed_forms(monkeypatch):
    """The solvers replaced by the closed forms above."""
    solvers = {
        "bayes_risk": fake_bayes,
        "best_elementwise_risk": fake_bayes,
        "optimal_risk": fake_optimum,
        "risk": fake_risk,
    }
    for name, solver in solvers.items():
        monkeypatch.setattr(solver, "__name__", name)
        monkeypatch.setitem(vars(slr), name, solver)


class TestInputs:
    def test_linear_grid(self):
        grid = inputs.real_grid("--nu", "0:10:41")
        assert len(grid) == 41
        assert (grid[0], grid[1], grid[-1]) == (0.0, 0.25, 10.0)
        assert inputs.real_grid("--nu", "2:9:1") == [2.0]

    def test_lists(self):
        assert inputs.real_grid("--nu", "1, 2.5,inf") == [1.0, 2.5, math.inf]
        assert inputs.length_grid("--length", "2,3,1000000") == [2, 3, 10**6]
        assert inputs.length_grid("--length", "2:10:5") == [2, 4, 6, 8, 10]

    def test_lengths(self):
        assert inputs.read_length("--length", "3") == 3
        assert inputs.read_length("--length", "1:0.25, 2:0.75") == {1: 0.25, 2: 0.75}
        thirds = inputs.read_length("--length", "1:1/3,2:1/3,3:1/3")
        assert slr.Max(1, thirds) == slr.Max(1, {1: 1 / 3, 2: 1 / 3, 3: 1 / 3})
        assert inputs.length_grid("--length", "1:0.5,2:0.5") == [{1: 0.5, 2: 0.5}]

    @pytest.mark.parametrize("name", ["single-location", "single_location", "slr", "SLR"])
    def test_theory(self, name):
        assert inputs.theory_name(name) == "single_location"

    @pytest.mark.parametrize(
        ("function", "text"),
        [
            (inputs.real_grid, "0:10"),
            (inputs.real_grid, "0:10:0"),
            (inputs.real_grid, "0:10:2.5"),
            (inputs.real_grid, "0:inf:3"),
            (inputs.real_grid, "a,b"),
            (inputs.real_grid, "1/0"),
            (inputs.real_grid, ""),
            (inputs.real_grid, "0:1:1000000000"),
            (inputs.length_grid, "2:3:3"),
            (inputs.read_length, "2.5"),
            (inputs.read_length, "inf"),
            (inputs.read_length, "1:0.5,2"),
            (inputs.read_length, "1:0.5,1:0.5"),
        ],
    )
    def test_refusals_name_the_option(self, function, text):
        with pytest.raises(ValueError, match=r"^--option must "):
            function("--option", text)


@pytest.mark.usefixtures("closed_forms")
class TestRisk:
    def test_bayes_risk_is_the_default(self):
        done = run("risk", "single-location", "--task", "spiked", "--nu", "4", "--length", "3")
        assert done.exit_code == 0
        assert "Spiked(nu=4.0, length=3, noise=0.0)" in done.stdout
        assert re.search(r"bayes_risk\s+0\.1333333333\(2\)", done.stdout)

    def test_optimum(self):
        done = run("risk", "slr", "--nu", 4, "--length", 3, "--activation", "softmax", "--bayes")
        assert done.exit_code == 0
        for pattern in (r"risk of softmax", r"m_k\s+1\.5", r"q_k\s+2\.2500000\(1\)", r"attained\s+yes",
                        r"evaluations\s+12", r"bayes_risk\s+0\.1333333333\(2\)"):  # fmt: skip
            assert re.search(pattern, done.stdout), pattern
        assert "shift" not in done.stdout

    def test_limit_is_said_in_words(self):
        done = run("risk", "slr", "--nu", 4, "--length", 3, "--activation", "softplus")
        assert re.search(r"attained\s+no", done.stdout)
        assert Status.LIMIT.message[:40] in done.stdout

    def test_json(self):
        done = run("risk", "slr", "--task", "max", "--nu", "inf", "--length", "1:0.5,2:0.5", "--activation",
                   "softplus", "--json")  # fmt: skip
        found = json.loads(done.stdout, parse_constant=pytest.fail)
        assert found["task"] == "Max(nu=float('inf'), length={1: 0.5, 2: 0.5}, noise=0.0)"
        assert found["risk"] == {"value": 2 * 0.25 / (1 + 1e9), "error": 1e-9, "kind": "bound"}
        assert (found["m_k"], found["attained"], found["status"]) == ("inf", False, "limit")

    def test_overlaps(self):
        done = run("risk", "slr", "--nu", 4, "--length", 3, "--activation", "erf", "--m-k", 1, "--q-k", 2,
                   "--m-v", 3, "--q-v", 4, "--q-kv", 0.5, "--json")  # fmt: skip
        assert json.loads(done.stdout)["risk"]["value"] == 4321.5

    def test_noise_and_excess(self):
        arguments = ("risk", "slr", "--nu", 1, "--length", 2, "--noise", 0.5, "--json")
        assert json.loads(run(*arguments).stdout)["bayes_risk"]["value"] == 0.5
        assert json.loads(run(*arguments, "--excess").stdout)["bayes_risk"]["value"] == 0.25

    @pytest.mark.parametrize(
        ("options", "activation"),
        [
            (("--activation", "erf", "--shift", "-1"), "Erf(shift=-1.0)"),
            (("--activation", "erf"), "Erf(shift=0.0)"),
            (("--activation", "erf-best"), "Erf(shift=None)"),
            (("--activation", "linear"), "Linear()"),
            (("--formula", "1+tanh(x)"), "Elementwise('1 + tanh(x)')"),
            (("--kernel", "exp(x)"), "NormalizedKernel('exp(x)')"),
        ],
    )
    def test_activations(self, options, activation):
        done = run("risk", "slr", "--nu", 4, "--length", 3, "--json", *options)
        assert json.loads(done.stdout)["activation"] == activation

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--nu", "-1"), r"nu must be a real number in \[0, inf\), got -1\.0"),
            (("--nu", "nan"), "nu must be a real number"),
            (("--nu", "inf"), "degenerate"),
            (("--length", "0"), r"length must be an integer in \[1, 1000000\], got 0"),
            (("--length", "1:0.5,2:0.6"), "sum to 1"),
            (("--noise", "-1"), "noise must be"),
            (("--task", "spike"), "--task must be spiked or max, got 'spike'"),
            (
                ("--activation", "softmx"),
                "known name, got 'softmx'; did you mean 'softmax'",
            ),
            (("--kernel", "x"), "NormalizedKernel must be finite and positive"),
            (("--formula", "__import__('os')"), "formula"),
            (("--formula", "x", "--kernel", "exp(x)"), "--formula and --kernel exclude each other"),
            (("--activation", "softmax", "--shift", "1"), "--shift belongs to --activation erf"),
            (("--m-k", "1"), "belong to an activation"),
            (("--activation", "erf", "--m-k", "1"), "missing: --q-k, --m-v, --q-v"),
            (("--activation", "erf", "--m-kv", "1"), "need --m-k, --q-k, --m-v and --q-v"),
            (
                ("--activation", "erf", "--m-k", "2", "--q-k", "1", "--m-v", "1", "--q-v", "1"),
                "q_k must be at least",
            ),
        ],
    )
    def test_bad_input_is_one_line_on_standard_error(self, options, message):
        arguments = {"--nu": "4", "--length": "3"}
        given = [
            part for option, value in arguments.items() if option not in options for part in (option, value)
        ]
        done = run("risk", "slr", *given, *options)
        assert done.exit_code == 2
        assert done.stdout == ""
        assert re.search(message, done.stderr)
        assert len(done.stderr.splitlines()) == 1

    @pytest.mark.parametrize(
        "arguments",
        [
            ("risk", "slr"),
            ("risk", "slr", "--nu", "x", "--length", "3"),
            ("rsk",),
            ("risk", "xyz", "--nu", "1", "--length", "3"),
        ],
    )
    def test_usage_errors(self, arguments):
        done = run(*arguments)
        assert done.exit_code == 2
        assert done.stderr != ""
        assert "Traceback" not in done.stderr

    def test_no_convergence(self):
        done = run("risk", "slr", "--nu", 3, "--length", 3, "--activation", "softplus")
        assert done.exit_code == 3
        assert done.stderr == "theorykit: no convergence: search of the best overlaps not finished\n"

    def test_traceback_on_request(self):
        done = run("--traceback", "risk", "slr", "--nu", -1, "--length", 3)
        assert isinstance(done.exception, ValueError)


@pytest.mark.usefixtures("closed_forms")
class TestCurve:
    def test_table(self):
        done = run("curve", "slr", "--nu", "0:4:5", "--length", "2", "--activation", "bayes,linear")
        assert done.exit_code == 0
        lines = done.stdout.splitlines()
        assert lines[0] == "risk, Spiked(noise=0.0) over nu, length"
        assert lines[2].split() == ["nu", "Bayes", "linear"]
        rows = [line.split() for line in lines[4:] if line.strip()]
        assert [row[0] for row in rows] == ["0", "1", "2", "3", "4"]
        assert rows[4] == ["4", "0.1000000000(2)", "0.200000000(1)"]

    def test_narrow_terminals_show_rounded_numbers(self, monkeypatch):
        monkeypatch.setenv("COLUMNS", "50")
        done = run("curve", "slr", "--nu", "1,2", "--length", "3", "--activation", "bayes,linear,softmax")
        rows = [line.split() for line in done.stdout.splitlines()]
        assert ["nu", "Bayes", "linear", "softmax", "error"] in rows
        assert ["1", "0.333333", "0.666667", "0.666667", "1e-09"] in rows

    def test_long_tables_are_thinned(self):
        done = run("curve", "slr", "--nu", "0:200:201", "--activation", "bayes")
        rows = [line for line in done.stdout.splitlines() if re.match(r"\s*\d+\s+0\.\d+", line)]
        assert 30 <= len(rows) <= 60

    def test_netcdf_and_figure(self, tmp_path):
        out, plot = tmp_path / "a.nc", tmp_path / "a.png"
        done = run("curve", "slr", "--task", "max", "--nu", "0,1,inf", "--length", "2,3", "--activation",
                   "bayes, softplus", "--kernel", "1 + x**2", "-o", out, "--plot", plot)  # fmt: skip
        assert done.exit_code == 0, done.stderr
        assert done.stderr.splitlines() == [f"wrote {out}", f"wrote {plot}"]
        with xr.open_dataset(out, engine="h5netcdf") as data:
            assert data.risk.dims == ("estimator", "nu", "length")
            assert data.estimator.values.tolist() == ["Bayes", "softplus", "1 + x**2"]
            bayes = data.risk.sel(estimator="Bayes", length=3)
            np.testing.assert_allclose(bayes, [2 / 3, 1 / 3, 2 / 3 / (1 + 1e9)], rtol=1e-15)
            assert data.m_k.sel(estimator="softplus").values.tolist() == [[math.inf] * 2] * 3
            assert np.isnan(data.m_k.sel(estimator="Bayes")).all()
            assert data.attained.sel(estimator="Bayes").values.all()
            assert not data.attained.sel(estimator="softplus").values.any()
        assert plot.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"

    def test_csv_and_json(self, tmp_path):
        out = tmp_path / "a.csv"
        done = run(
            "curve",
            "slr",
            "--nu",
            "1,2",
            "--length",
            "1:0.5,2:0.5",
            "--activation",
            "bayes",
            "-o",
            out,
            "--json",
        )
        assert out.read_text().startswith("estimator,nu,")
        found = json.loads(done.stdout, parse_constant=pytest.fail)
        assert found["data_vars"]["risk"]["data"] == [[0.25 / 2, 0.25 / 3]]
        assert found["coords"]["length"]["data"] == "{1: 0.5, 2: 0.5}"

    def test_noise_stays(self):
        done = run(
            "curve", "slr", "--nu", "1", "--length", "2", "--noise", "0.5", "--activation", "bayes", "--json"
        )
        assert json.loads(done.stdout)["data_vars"]["risk"]["data"] == [[0.5]]

    def test_points_without_convergence(self, tmp_path):
        out = tmp_path / "a.csv"
        done = run("curve", "slr", "--nu", "1,3", "--activation", "bayes,softplus", "-o", out)
        assert done.exit_code == 3
        assert "no convergence" in done.stdout
        assert "theorykit: warning: 1 of 2 points of optimal_risk did not converge" in done.stderr
        assert "failed: search of the best overlaps not finished" in out.read_text()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--nu", "0:10"), "--nu must be start:stop:count"),
            (("--nu", "1", "-o", "a.txt"), r"--out must end in \.nc, \.csv or \.json, got 'a\.txt'"),
            (("--nu", "1", "--plot", "a.gif"), r"--plot must end in \.png, \.pdf or \.svg"),
            (("--nu", "1", "-o", "none/a.nc"), "--out must lie in an existing folder"),
            (
                ("--nu", "1", "--activation", "bays"),
                "known name, got 'bays'; did you mean 'bayes'",
            ),
            (("--nu", "1", "--activation", "bayes,bayes"), "all distinct"),
            (("--nu", "-1,1"), "nu must be a real number"),
            (("--nu", "1,inf"), "nu must be a real number"),
        ],
    )
    def test_bad_input(self, options, message):
        done = run("curve", "slr", *options)
        assert done.exit_code == 2
        assert re.search(message, done.stderr)


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

    @pytest.mark.usefixtures("small")
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


def process(*arguments, env=None):
    command = [sys.executable, "-m", "theorykit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})})


class TestProcess:
    def test_help_is_quick_and_names_all_verbs(self, child_seconds):
        best = math.inf
        for _ in range(3):
            start = child_seconds()
            done = process("--help")
            best = min(best, child_seconds() - start)
        assert done.returncode == 0
        for verb in (
            "risk",
            "curve",
            "audit",
            "latex",
            "derive",
            "validate",
            "reproduce",
            "cache",
            "doctor",
            "cite",
        ):
            assert re.search(rf"^  {verb}\s", done.stdout, re.M), verb
        assert best < 0.5

    def test_help_imports_nothing_heavy(self):
        code = (
            "import sys; from theorykit.cli import main; main(['curve', '--help']); "
            "heavy = ('numpy', 'sympy', 'scipy', 'numba', 'matplotlib', 'xarray'); "
            "print([m for m in heavy if m in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]"

    def test_version(self):
        assert process("--version").stdout.strip() == theorykit.__version__

    def test_bad_input_ends_with_code_two_and_no_traceback(self):
        done = process("risk", "slr", "--nu", "-1", "--length", "3")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "theorykit: error: nu must be a real number in [0, inf), got -1.0\n"

    def test_output_without_unicode(self):
        env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
        done = process("risk", "slr", "--nu", "1", "--length", "2", "--formula", "ж", env=env)
        assert done.returncode == 2
        assert "UnicodeEncodeError" not in done.stderr

    def test_reader_that_stops_early(self):
        """As in ``theorykit cite | head -1``: no message about the broken pipe."""
        command = [sys.executable, "-u", "-m", "theorykit", "cite"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            running.stdout.close()
            assert running.stderr.read() == ""

    def test_main_returns_the_code(self, capsys):
        assert main(["cite"]) == 0
        assert main(["risk", "slr", "--nu", "-1", "--length", "3"]) == 2
        assert "@software" in capsys.readouterr().out


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Environment of processes that share one cache folder, which starts empty."""
    return {"THEORYKIT_CACHE": str(tmp_path_factory.mktemp("cache") / "theorykit")}


class TestRealThing:
    def test_bayes_risk_of_the_reference_table(self, cache):
        done = process("risk", "single-location", "--task", "spiked", "--nu", "4", "--length", "3", env=cache)
        assert (done.returncode, done.stderr) == (0, "")
        value, error = re.search(r"bayes_risk\s+(0\.\d+)\((\d)\)", done.stdout).groups()
        assert abs(float(value) - 0.194123973657) < 6e-13
        assert int(error) * 10.0 ** (2 - len(value)) < 1e-12

    def test_second_process_derives_and_compiles_nothing(self, cache):
        assert process("risk", "slr", "--nu", "4", "--length", "3", env=cache).returncode == 0
        done = process("doctor", "--json", env=cache)
        found = json.loads(done.stdout)
        assert (found["code"]["derived"], found["code"]["compiled_functions"]) == (0, 0)
        assert found["code"]["loaded_functions"] > 0
        assert found["code"]["cache_folder"] == cache["THEORYKIT_CACHE"]
        assert found["versions"]["theorykit"] == theorykit.__version__
        assert abs(found["probe"]["bayes_risk"]["value"] - 0.194123973657) < 6e-13

    def test_cache_is_listed_and_cleared(self, tmp_path):
        env = {"THEORYKIT_CACHE": str(tmp_path / "own")}
        assert json.loads(process("cache", "list", "--json", env=env).stdout)["entries"] == []
        assert process("risk", "slr", "--nu", "1", "--length", "2", env=env).returncode == 0
        (entry,) = json.loads(process("cache", "list", "--json", env=env).stdout)["entries"]
        assert "single_location.bayes_risk" in entry["request"]
        assert entry["bytes"] > 1000
        assert "single_location.bayes_risk" in process("cache", "list", env=env).stdout
        assert re.match(r"deleted \d+ files", process("cache", "clear", env=env).stdout)
        assert json.loads(process("cache", "list", "--json", env=env).stdout)["entries"] == []

    def test_derivation(self, cache):
        listed = process("derive", "slr", env=cache).stdout.split()
        assert "single_location.bayes_risk" in listed
        text = process("derive", "slr.bayes_risk", env=cache).stdout
        data = json.loads(process("derive", "slr.bayes_risk", "--json", env=cache).stdout)
        assert data["steps"]
        for number, step in enumerate(data["steps"], start=1):
            assert f"{number}. {step['name']} ({step['check']})" in text
            assert step["reason"] in text
        assert "bayes_excess" in data["observables"]
        assert process("derive", "slr.bayes_risk", "--option", "task=max", env=cache).stdout != text

    def test_curve(self, cache, tmp_path):
        out = tmp_path / "a.nc"
        options = ("--nu", "0:8:5", "--length", "2,5", "--activation", "bayes,softmax,linear")
        done = process("curve", "slr", *options, "-o", out, "--plot", tmp_path / "a.png", env=cache)
        assert done.returncode == 0, done.stderr
        with xr.open_dataset(out, engine="h5netcdf") as data:
            gap = abs(data.risk.sel(estimator="softmax") - data.risk.sel(estimator="Bayes"))
            slack = data.risk_error.sel(estimator="softmax") + data.risk_error.sel(estimator="Bayes")
            assert (gap <= slack).all()
            size, nu = data.length, data.nu
            closed = size * (size - 1) / (size**2 + nu * (size - 1))
            linear = data.sel(estimator="linear")
            assert (abs(linear.risk - closed) <= linear.risk_error + 4e-16).all()
            assert set(data.status.values.ravel()) == {"converged"}

    def test_own_activation(self, cache):
        """1 + erf(x) as a formula is the activation erf."""
        options = (
            "--nu",
            "4",
            "--length",
            "3",
            "--m-k",
            "1.5",
            "--q-k",
            "2.5",
            "--m-v",
            "0.4",
            "--q-v",
            "0.2",
        )
        own, named = (
            json.loads(process("risk", "slr", *options, *which, "--json", env=cache).stdout)["risk"]
            for which in (("--formula", "1 + erf(x)"), ("--activation", "erf"))
        )
        assert abs(own["value"] - named["value"]) <= own["error"] + named["error"]

    @pytest.mark.slow
    def test_audit_and_latex(self, cache, tmp_path):
        done = process("audit", "slr", "--json", env=cache)
        found = json.loads(done.stdout)
        assert (done.returncode, found["ok"]) == (0, True)
        assert {d["name"].split(".")[0] for d in found["derivations"]} == {"single_location"}
        assert process("audit", "slr", env=cache).stdout.splitlines()[-1].startswith("ok")
        out = tmp_path / "a.tex"
        assert process("latex", "slr", "-o", out, env=cache).returncode == 0
        assert "\\end{document}" in out.read_text()
        assert "\\end{document}" not in process("latex", "slr", "--fragment", env=cache).stdout

    @pytest.mark.slow
    def test_validate(self, cache, tmp_path):
        out = tmp_path / "a.md"
        done = process("validate", "slr", "--seed", "1", "-o", out, "--json", env=cache)
        assert (done.returncode, json.loads(done.stdout)["ok"]) == (0, True)
        assert "| quantity |" in out.read_text()

    @pytest.mark.slow
    def test_main_job(self, cache, tmp_path):
        done = process("reproduce", "single-location", "-o", tmp_path, env=cache)
        assert done.returncode == 0, done.stderr
        again = process("reproduce", "single-location", "-o", tmp_path, env=cache)
        assert again.stdout == done.stdout
        names = ["equations.tex", "max.nc", "max.png", "spiked.nc", "spiked.png"]
        assert sorted(path.name for path in tmp_path.iterdir()) == names
        for name in ("spiked", "max"):
            with xr.open_dataset(tmp_path / f"{name}.nc", engine="h5netcdf") as data:
                bayes, softmax = data.sel(estimator="Bayes"), data.sel(estimator="softmax")
                assert (abs(bayes.risk - softmax.risk) <= bayes.risk_error + softmax.risk_error).all()
                assert (data.risk >= bayes.risk - data.risk_error - bayes.risk_error).all()
                assert (data.risk_error <= 1e-6).all()


def test_plain_data():
    assert output.plain({1: (Estimate(1.0, 0.5), math.nan, -math.inf, Status.LIMIT)}) == {
        "1": [{"value": 1.0, "error": 0.5, "kind": "bound"}, None, "-inf", "limit"]
    }
