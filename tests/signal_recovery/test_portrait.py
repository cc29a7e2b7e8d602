"""The phase portrait: data against closed forms, the figure, and the verb that draws it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

from theorykit import signal_recovery as sr
from theorykit.cli import app
from theorykit.signal_recovery.portrait import phase_portrait, plot_portrait

RUN = CliRunner()
TRAP = sr.Model(theta=3.0, fraction=0.3)
FREE = sr.Model(theta=1.0, fraction=0.1)


def drift_by_hand(model, rho):
    """(1 - rho**2) J'(rho) at kappa = 0, written out."""
    u = np.exp(model.beta * model.theta * rho)
    w = model.fraction * u / (model.fraction * u + 1 - model.fraction)
    bracket = 1 + model.theta * (1 - w) * (model.beta * rho + model.theta * w)
    return (1 - rho**2) * 2 * model.beta * model.theta * w * bracket


@pytest.fixture(scope="module")
def trap():
    return phase_portrait(TRAP)


def test_the_landscape_is_the_flow(trap):
    np.testing.assert_allclose(
        trap["drift"], drift_by_hand(TRAP, trap["rho"].to_numpy()), rtol=1e-11, atol=1e-14
    )
    change = np.gradient(trap["objective"].to_numpy(), trap["rho"].to_numpy())
    np.testing.assert_allclose(change[1:-1], trap["slope"][1:-1], rtol=0, atol=2e-3)


def test_trajectories_end_at_the_stable_points(trap):
    border = -0.572974508277072
    ends = trap["path"].isel(time=-1)
    above = trap["start"] > border
    assert int(above.sum()) > 3 and int((~above).sum()) > 1
    assert (ends.where(above, drop=True) > 0.999).all()
    assert (ends.where(~above, drop=True) < -0.95).all()


def test_trajectories_obey_the_flow(trap):
    """Differences of the path between times, against Simpson's rule on the rate along it."""
    path, time = trap["path"].to_numpy(), trap["time"].to_numpy()
    fine = phase_portrait(TRAP, times=401, until=float(time[-1]))
    rates = drift_by_hand(TRAP, fine["path"].to_numpy())
    clock = fine["time"].to_numpy()
    from scipy.integrate import simpson

    np.testing.assert_allclose(simpson(rates, x=clock, axis=1), path[:, -1] - path[:, 0], rtol=0, atol=1e-3)


def test_the_time_lasts_until_the_slowest_arrival(trap):
    slowest = float(sr.time_to(TRAP, -0.59, -0.98))
    assert slowest < float(trap["time"][-1]) < 3 * slowest
    assert (np.diff(trap["time"]) > 0).all()


def test_starts_and_times_of_your_own():
    found = phase_portrait(FREE, points=11, times=5, until=3.0, starts=[-0.2, 0.4])
    assert dict(found.sizes) == {"rho": 11, "point": 2, "start": 2, "time": 5}
    assert float(found["time"][-1]) == 3.0
    assert found.attrs["model"] == repr(FREE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"starts": [1.0]}, "starts must be a real number in"),
        ({"points": 2}, "points must be an integer"),
        ({"times": 1}, "times must be an integer"),
        ({"until": 0.0}, "until must be a real number"),
    ],
)
def test_bad_arguments_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        phase_portrait(FREE, **change)


def test_the_figure_marks_the_fixed_points(trap):
    flow, paths = plot_portrait(trap).axes
    marks = {
        float(line.get_xdata()[0]): line.get_markerfacecolor()
        for line in flow.lines
        if line.get_marker() == "o"
    }
    assert sorted(marks) == pytest.approx([-1.0, -0.572974508277072, 1.0])
    assert [marks[place] for place in sorted(marks)] == ["black", "white", "black"]
    curves = [line for line in flow.lines if len(line.get_xdata()) == trap.sizes["rho"]]
    assert len(curves) == 2
    drawn = [line for line in paths.lines if len(line.get_xdata()) == trap.sizes["time"]]
    assert len(drawn) == trap.sizes["start"]
    assert flow.get_yscale() == "asinh"  # the trap is a hundred times weaker


def test_a_model_without_a_trap_is_drawn_on_even_axes():
    flow, paths = plot_portrait(phase_portrait(FREE), title="free").axes
    assert (flow.get_yscale(), paths.get_xscale()) == ("linear", "linear")


# ------------------------------------------------------------------------------------------------ the verb


def run(*arguments):
    return RUN.invoke(app, [str(a) for a in arguments])


def test_the_verb_prints_the_fixed_points():
    done = run("flow", "signal-recovery", "--theta", 3, "--fraction", 0.3)
    assert done.exit_code == 0, done.output
    for text in ("-0.572974508277", "unstable", "-23.13041495357", "beta_c", "0.572974508277"):
        assert text in done.stdout


def test_the_verb_as_json():
    done = run("flow", "sr", "--theta", 2, "--fraction", "1/10", "--json")
    found = json.loads(done.stdout)
    assert found["thresholds"]["fraction_c"]["value"] == pytest.approx(0.635610944911265, abs=1e-12)
    assert found["thresholds"]["theta_c"]["value"] == pytest.approx(1.08014410929207, abs=1e-12)
    assert [p["stable"] for p in found["fixed_points"]] == [True, False, True]
    assert found["separatrix"]["value"] == found["fixed_points"][1]["rho"]["value"]


def test_the_verb_without_separatrix():
    done = run("flow", "sr", "--theta", 1, "--fraction", 0.1)
    assert "none: every overlap above -1 flows to +1" in done.stdout
    assert (
        json.loads(run("flow", "sr", "--theta", 1, "--fraction", 0.1, "--json").stdout)["separatrix"] is None
    )


def test_the_verb_writes_files(tmp_path):
    names = [tmp_path / f"portrait.{suffix}" for suffix in ("nc", "csv", "json", "png")]
    for out in names[:3]:
        done = run("flow", "sr", "--theta", 3, "--fraction", 0.3, "-o", out, "--plot", names[3])
        assert done.exit_code == 0, done.output
    with xr.open_dataset(names[0], engine="h5netcdf") as found:
        assert {"path", "drift", "fixed_rho"} <= set(found)
    head, first = names[1].read_text().splitlines()[:2]
    assert head == "rho,objective,slope,drift,attention_mass"
    assert float(first.split(",")[0]) == -1.0
    assert json.loads(names[2].read_text())["dims"]["rho"] == 401
    assert names[3].read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("slr", "--theta", 1, "--fraction", 0.1), "THEORY must be signal-recovery (sr), got 'slr'"),
        (("sr", "--theta", "one", "--fraction", 0.1), "--theta must be a number, got 'one'"),
        (("sr", "--theta", 1, "--fraction", 1), "fraction must be a real number in (0, 1)"),
        (("sr", "--theta", 1, "--fraction", 0.1, "--plot", "x.gif"), "--plot must end in .png, .pdf or .svg"),
        (("sr", "--theta", 1, "--fraction", 0.1, "-o", "x.txt"), "--out must end in .nc, .csv or .json"),
        (("sr", "--theta", 1, "--fraction", 0.1, "--kernel", "t"), "kernel must be finite and not negative"),
    ],
)
def test_the_verb_refuses(arguments, message):
    done = run("flow", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_the_main_job_draws_the_portrait(tmp_path):
    done = run("reproduce", "signal-recovery", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "-0.572974508277" in done.stdout
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "signal_recovery.nc",
        "signal_recovery.png",
    ]


def test_risks_are_of_the_other_theories():
    done = run("risk", "sr", "--nu", 1, "--length", 3)
    assert done.exit_code == 2
    assert "THEORY must be single-location (slr)" in done.stderr
    assert "got 'sr'" in done.stderr
