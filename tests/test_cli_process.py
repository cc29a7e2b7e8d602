"""The command line with its solvers, and in processes of its own: the real thing."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys

import pytest
import xarray as xr
from cli_stand_ins import run

import theorykit
from theorykit.cli import main


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
    """Environment of processes that share one cache folder, which starts empty; others use the folder of the run."""
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
        assert process("risk", "slr", "--nu", "1", "--length", "2", env=env).returncode == 0
        (entry,) = json.loads(process("cache", "list", "--json", env=env).stdout)["entries"]
        assert "single_location.bayes_risk" in entry["request"]
        assert entry["bytes"] > 1000
        assert "single_location.bayes_risk" in process("cache", "list", env=env).stdout
        assert re.match(r"deleted \d+ files", process("cache", "clear", env=env).stdout)
        assert json.loads(process("cache", "list", "--json", env=env).stdout)["entries"] == []

    def test_derivation(self):
        assert "single_location.bayes_risk" in run("derive", "slr").stdout.split()
        text = process("derive", "slr.bayes_risk").stdout
        assert run("derive", "slr.bayes_risk").stdout == text
        data = json.loads(run("derive", "slr.bayes_risk", "--json").stdout)
        assert data["steps"]
        for number, step in enumerate(data["steps"], start=1):
            assert f"{number}. {step['name']} ({step['check']})" in text
            assert step["reason"] in text
        assert "bayes_excess" in data["observables"]
        assert run("derive", "slr.bayes_risk", "--option", "task=max").stdout != text

    def test_curve(self, tmp_path):
        out = tmp_path / "a.nc"
        options = ("--nu", "0:8:5", "--length", "2,5", "--activation", "bayes,softmax,linear")
        done = process("curve", "slr", *options, "-o", out, "--plot", tmp_path / "a.png")
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

    def test_own_activation(self):
        """1 + erf(x) as a formula is the activation erf."""
        task = ("--nu", 4, "--length", 3)
        overlaps = ("--m-k", 1.5, "--q-k", 2.5, "--m-v", 0.4, "--q-v", 0.2)
        own, named = (
            json.loads(run("risk", "slr", *task, *overlaps, *which, "--json").stdout)["risk"]
            for which in (("--formula", "1 + erf(x)"), ("--activation", "erf"))
        )
        assert abs(own["value"] - named["value"]) <= own["error"] + named["error"]

    @pytest.mark.slow
    def test_audit_and_latex(self, cache, tmp_path):
        done = process("audit", "slr", "--json", env=cache)
        found = json.loads(done.stdout)
        assert (done.returncode, found["ok"]) == (0, True)
        assert {"bayes_risk[spiked]", "bayes_risk[max]"} <= {d["name"] for d in found["derivations"]}
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
