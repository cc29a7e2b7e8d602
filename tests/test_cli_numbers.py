"""The command line: options as they are read, and the verbs that print numbers, against small closed forms."""

from __future__ import annotations

import inspect
import json
import math
import re

import numpy as np
import pytest
import xarray as xr
from cli_stand_ins import run

from theorykit import single_location as slr
from theorykit.cli import foreign, inputs, numbers, output
from theorykit.results import Status


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


class TestOptionsOfAnotherTheory:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("risk", "slr", "--nu", 2, "--length", 3, "--ratio", 1), "--ratio belongs to interpolation"),
            (("risk", "ip", "--m-k", 0, "--noise", 0), "--noise, --m-k belong to single-location"),
            (("curve", "slr", "--nu", 1, "--over", "ridge=1"), "--over belongs to interpolation"),
            (("curve", "ip", "--over", "ridge=1", "--alpha", 2), "--alpha belongs to single-location"),
            (("curve", "slr", "--nu", 1, "--ridge-k", 0.3), "--ridge-k needs --alpha"),
        ],
    )
    def test_they_are_refused(self, arguments, message):
        done = run(*arguments)
        assert done.exit_code == 2
        assert message in done.stderr

    def test_every_option_but_the_common_ones_has_an_owner(self):
        common = {"context", "theory", "formula", "json", "out", "plot", "log"}
        owned = {name for names in foreign._OWN.values() for name in names}
        verbs = {
            name for verb in (numbers.risk, numbers.curve) for name in inspect.signature(verb).parameters
        }
        assert verbs - common == owned


@pytest.mark.parametrize("width", [*range(20, 80, 3), 200])
def test_numbers_are_not_broken_into_lines(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    long = ["0.352423268884167(3)", "0.500116759208481(4)"]
    output.print_table("title", ("a quantity", "one", "another"), [("a text of several words", *long)])
    printed = capsys.readouterr().out
    assert any(all(number in line for number in long) for line in printed.splitlines())
    assert max(map(len, printed.splitlines())) <= max(width, 12 + 20 + 20 + 9)
