"""Labelled curves: which argument a key moves, what the Dataset holds, failures."""

from __future__ import annotations

import functools
import math
import threading
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import xarray as xr

import theorykit as tk
from theorykit import single_location as slr
from theorykit.curve import ConvergenceWarning, curve
from theorykit.errors import ConvergenceError
from theorykit.progress import progress_bar
from theorykit.records import Record
from theorykit.results import Estimate, Optimum, Solution, Status


@dataclass(frozen=True, repr=False)
class Wave(Record):
    amplitude: float = 1.0
    phase: float = 0.0


@dataclass(frozen=True, repr=False)
class Filter(Record):
    cutoff: float = 1.0
    phase: float = 0.0

    label = "low pass"


def height(wave, time, offset=0.0):
    return Estimate(wave.amplitude * math.sin(time + wave.phase) + offset, 1e-12 * wave.amplitude)


def filtered(wave, filter, *, gain=1.0):
    return gain * wave.amplitude / filter.cutoff


def size(task):
    return task.mean_length


def fussy(x):
    if x > 2:
        raise ConvergenceError.not_reached(
            "fixed point", residual=1e-3, tolerance=1e-8, steps=7, start=x, advice="try less", last=None
        )
    if x < 0:
        raise ValueError(f"x must be at least 0, got {x}")
    return Estimate(x * x, 0.5)


class TestKeys:
    def test_field_of_a_record_and_argument(self):
        data = curve(height, Wave(), over={"amplitude": [1.0, 2.0], "time": [0.0, 0.5, 1.0]}, offset=3.0)
        expected = np.outer([1.0, 2.0], np.sin([0.0, 0.5, 1.0])) + 3
        assert data.height.dims == ("amplitude", "time")
        np.testing.assert_array_equal(data.height, expected)
        np.testing.assert_array_equal(data.height_error[:, 0], [1e-12, 2e-12])
        np.testing.assert_array_equal(data.time, [0.0, 0.5, 1.0])

    def test_record_given_by_keyword(self):
        data = curve(height, wave=Wave(phase=1.0), time=0.0, over={"amplitude": [1, 2]})
        np.testing.assert_allclose(data.height, np.sin(1.0) * np.array([1, 2]), rtol=1e-15)

    def test_two_fields_of_one_record(self):
        data = curve(height, Wave(), 0.0, over={"phase": [0.0, 1.0], "amplitude": [3.0]})
        np.testing.assert_allclose(data.height[:, 0], [0.0, 3 * math.sin(1.0)], rtol=1e-15)

    def test_keyword_only_argument(self):
        data = curve(filtered, Wave(), Filter(cutoff=4.0), over={"gain": [1, 2]})
        assert data.filtered.values.tolist() == [0.25, 0.5]

    def test_ambiguous_between_two_records(self):
        with pytest.raises(
            ValueError, match=r"'phase'\] is ambiguous: a field of Wave \(wave\) and .* Filter"
        ):
            curve(filtered, Wave(), Filter(), over={"phase": [0.0]})

    def test_ambiguous_between_record_and_argument(self):
        def shifted(wave, amplitude=0):
            return wave.amplitude + amplitude

        with pytest.raises(
            ValueError, match=r"ambiguous: a field of Wave .* and the argument 'amplitude' of shifted"
        ):
            curve(shifted, Wave(), over={"amplitude": [0.0]})

    def test_unknown_with_near_match(self):
        with pytest.raises(
            ValueError, match="no field of the records and no argument of height; did you mean 'phase'"
        ):
            curve(height, Wave(), 0.0, over={"phaes": [0.0]})

    def test_unknown_without_near_match_lists_all(self):
        with pytest.raises(ValueError, match=r"known: amplitude, phase, offset$"):
            curve(height, Wave(), 0.0, over={"zzz": [0.0]})

    @pytest.mark.parametrize(("args", "kwargs"), [((Wave(), 0.0), {}), ((Wave(),), {"time": 0.0})])
    def test_argument_given_twice(self, args, kwargs):
        with pytest.raises(ValueError, match="varies an argument of height that is also given as time"):
            curve(height, *args, over={"time": [0.0]}, **kwargs)

    def test_missing_argument_shows_before_any_call(self):
        with pytest.raises(TypeError, match="missing a required argument: 'time'"):
            curve(height, Wave(), over={"amplitude": [1.0]})

    def test_value_that_a_record_refuses_shows_before_any_call(self):
        calls = []
        with pytest.raises(ValueError, match=r"nu must be a real number in \[0, inf\), got -1.0"):
            curve(lambda task: calls.append(task), slr.Spiked(1, 2), over={"nu": [1.0, -1.0]})
        assert calls == []


class TestGrids:
    def test_records_as_labels(self):
        data = curve(height, over={"wave": [Wave(), Wave(2.0)], "time": [0.5]})
        assert data.wave.values.tolist() == [
            "Wave(amplitude=1.0, phase=0.0)",
            "Wave(amplitude=2.0, phase=0.0)",
        ]
        assert data.height.values.ravel().tolist() == [math.sin(0.5), 2 * math.sin(0.5)]

    def test_label_of_an_activation(self):
        data = curve(lambda activation: activation.formula.evaluate(1.0).item(),
                     over={"activation": [slr.Softmax(), slr.Linear(), slr.Elementwise("x**2")]})  # fmt: skip
        assert data.activation.values.tolist() == ["softmax", "linear", "x**2"]
        np.testing.assert_allclose(data["value"], [math.e, 2.0, 1.0], rtol=1e-15)

    def test_equal_labels_fall_back_to_the_records(self):
        data = curve(filtered, Wave(), over={"filter": [Filter(1.0), Filter(2.0)]})
        assert data["filter"].values[1] == "Filter(cutoff=2.0, phase=0.0)"

    def test_field_of_records_that_vary_themselves(self):
        data = curve(height, time=0.5, over={"wave": [Wave(), Wave(2.0)], "phase": [0.0, 1.0]})
        np.testing.assert_allclose(data.height, np.outer([1, 2], np.sin([0.5, 1.5])), rtol=1e-15)

    def test_strings(self):
        data = curve(lambda word: len(word), over={"word": ["a", "bcd"]})
        assert data["value"].sel(word="bcd").item() == 3

    def test_mappings(self):
        data = curve(size, slr.Max(1, 2), over={"length": [3, {1: 0.5, 2: 0.5}]})
        assert data.length.values.tolist() == ["3", "{1: 0.5, 2: 0.5}"]
        assert data["size"].values.tolist() == [3.0, 1.5]

    def test_infinite_signal(self):
        data = curve(lambda task: 1 / (1 + task.nu), slr.Max(1, 2), over={"nu": [0, 1, math.inf]})
        assert data["value"].values.tolist() == [1.0, 0.5, 0.0]
        assert data["value"].sel(nu=np.inf).item() == 0.0

    def test_whole_numbers_stay_whole(self):
        data = curve(size, slr.Spiked(1, 2), over={"length": np.array([2, 10**6])})
        assert data.length.dtype == np.int64

    @pytest.mark.parametrize("grid", [1.0, "softmax", {1: 2}, None, (x for x in [1.0]), np.float64(1.0)])
    def test_not_a_sequence(self, grid):
        with pytest.raises(TypeError, match=r"over\['time'\] must be a one-dimensional sequence"):
            curve(height, Wave(), over={"time": grid})

    @pytest.mark.parametrize(
        ("grid", "message"),
        [
            (np.zeros((2, 2)), r"one-dimensional, got the shape \(2, 2\)"),
            ([], "at least one value"),
            ([1.0, math.nan], "must hold numbers, got nan"),
            (["a", "a"], "distinct values"),
        ],
    )
    def test_bad_grids(self, grid, message):
        with pytest.raises(ValueError, match=message):
            curve(height, Wave(), over={"time": grid})

    def test_nothing_to_vary(self):
        with pytest.raises(ValueError, match="over must name at least one"):
            curve(height, Wave(), 0.0, over={})


class Pair(NamedTuple):
    first: float
    second: Estimate


class TestResults:
    def test_optimum(self):
        def best(task):
            nu = task.nu
            return Optimum(
                risk=Estimate(1 / (1 + nu), 1e-10), m_k=Estimate(nu, 1e-6), q_k=nu**2 if nu < 3 else math.inf,
                m_v=1.0, q_v=1.0, attained=nu < 3, evaluations=17,
                status=Status.CONVERGED if nu < 3 else Status.LIMIT,
            )  # fmt: skip

        data = curve(best, slr.Spiked(1, 2), over={"nu": [1.0, 3.0]})
        assert data.risk.values.tolist() == [0.5, 0.25]
        assert data.risk_error.values.tolist() == [1e-10, 1e-10]
        assert data.m_k_error.values.tolist() == [1e-6, 1e-6]
        assert data.q_k.values.tolist() == [1.0, math.inf]
        assert data.attained.values.tolist() == [True, False]
        assert data.attained.dtype == bool
        assert data.evaluations.values.tolist() == [17, 17]
        assert data.status.values.tolist() == ["converged", "limit"]
        assert "q_k_error" not in data
        assert "shift" not in data

    def test_solution(self):
        def solve(x):
            values = {"q": Estimate(x, 0.1, "standard error"), "stable": True, "note": "text"}
            return Solution(values, Status.NOISE_FLOOR, residual=1e-3, iterations=5)

        data = curve(solve, over={"x": [0.5]})
        assert data.q.item() == 0.5
        assert data.q_error.attrs == {"kind": "standard error"}
        assert (data.stable.item(), data.iterations.item(), data.residual.item()) == (True, 5, 1e-3)
        assert data.status.item() == "noise_floor"
        assert "note" not in data

    def test_tuples(self):
        named = curve(lambda x: Pair(x, Estimate(2 * x, 0.1)), over={"x": [1.0, 2.0]})
        assert named.second.values.tolist() == [2.0, 4.0]
        assert named.second_error.values.tolist() == [0.1, 0.1]
        assert "first_error" not in named

        def moments(x):
            return x, 2 * x

        assert curve(moments, over={"x": [3]}).moments_1.item() == 6

    def test_field_named_like_a_dimension(self):
        def best(activation):
            return Optimum(risk=Estimate(0.5, 0), m_k=1, q_k=1, m_v=1, q_v=1, shift=activation.shift + 1)

        data = curve(best, slr.Erf(), over={"shift": [0.0, 1.0]})
        assert data["shift"].values.tolist() == [0.0, 1.0]
        assert data.best_shift.values.tolist() == [1.0, 2.0]

    def test_partial(self):
        data = curve(functools.partial(height, offset=1.0), Wave(), over={"time": [0.0]})
        assert data.height.item() == 1.0

    def test_other_results_are_refused(self):
        with pytest.raises(TypeError, match=r"results that are numbers .*, got str from value"):
            curve(lambda x: "text", over={"x": [1.0]})

    def test_provenance(self):
        data = curve(height, Wave(2.0), over={"time": [0.0]}, offset=1.0)
        assert data.attrs["function"] == f"{__name__}.height"
        assert data.attrs["arguments"] == "Wave(amplitude=2.0, phase=0.0), offset=1.0"
        assert data.attrs["theorykit"] == tk.__version__
        assert f"numpy {np.__version__}" in data.attrs["versions"]


class TestFailures:
    def test_reason_is_recorded_and_summarized(self):
        with pytest.warns(
            ConvergenceWarning, match="2 of 4 points of fussy did not converge; the first at x=3.0: f"
        ):
            data = curve(fussy, over={"x": [1.0, 3.0, 2.0, 4.0]})
        np.testing.assert_array_equal(data.fussy, [1.0, math.nan, 4.0, math.nan])
        np.testing.assert_array_equal(data.fussy_error, [0.5, math.nan, 0.5, math.nan])
        assert data.status.values[0] == "converged"
        assert data.status.values[1].startswith("failed: fixed point not reached: residual 0.001 > 1e-08")

    def test_other_errors_propagate(self):
        with pytest.raises(ValueError, match="x must be at least 0, got -1"):
            curve(fussy, over={"x": [1.0, -1.0, 3.0]}, workers=2)

    def test_no_point_at_all(self):
        with pytest.raises(ConvergenceError, match="2 of 2 points of fussy did not converge"):
            curve(fussy, over={"x": [3.0, 4.0]})

    def test_integers_and_booleans_become_floats_where_some_are_missing(self):
        def solve(x):
            fussy(x)
            return Solution({"stable": True}, Status.CONVERGED, 0.0, 3)

        with pytest.warns(ConvergenceWarning):
            data = curve(solve, over={"x": [1.0, 3.0]})
        np.testing.assert_array_equal(data.stable, [1.0, math.nan])
        np.testing.assert_array_equal(data.iterations, [3.0, math.nan])


class TestWorkers:
    @pytest.mark.parametrize("workers", [1, 2, 5])
    def test_results_and_order_do_not_depend_on_them(self, workers):
        over = {"time": np.linspace(0, 1, 7), "amplitude": [1.0, 2.0]}
        xr.testing.assert_identical(
            curve(height, Wave(), over=over, workers=workers), curve(height, Wave(), over=over, workers=1)
        )

    def test_points_run_side_by_side(self):
        barrier = threading.Barrier(2, timeout=20)  # broken, and the test with it, unless two calls meet
        data = curve(lambda x: barrier.wait() * 0 + x, over={"x": [1, 2]}, workers=2)
        assert data["value"].values.tolist() == [1, 2]

    @pytest.mark.parametrize("workers", [0, 1.5, "2"])
    def test_number_of_workers(self, workers):
        with pytest.raises((TypeError, ValueError), match="workers must be an integer"):
            curve(fussy, over={"x": [1.0]}, workers=workers)


class TestProgress:
    def test_nothing_for_quick_work_and_without_a_terminal(self, capfd):
        curve(fussy, over={"x": [1.0, 2.0]}, progress=True)
        with progress_bar("slow work", total=1, delay=0.0) as advance:
            time.sleep(0.2)
            advance()
        assert capfd.readouterr() == ("", "")

    def test_bar_on_a_terminal_after_the_delay(self, monkeypatch, capfd):
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes any stream for a terminal
        with progress_bar("slow work", total=3, delay=0.1) as advance:
            assert capfd.readouterr().err == ""
            advance("ignored")
            time.sleep(0.6)
        out, err = capfd.readouterr()
        assert out == ""
        assert "slow work" in err
        assert "1/3" in err

    def test_position_may_be_set(self, monkeypatch, capfd):
        monkeypatch.setenv("FORCE_COLOR", "1")
        with progress_bar("audit", delay=0.0) as bar:
            bar.stand("step seven", 6, 9)
            time.sleep(0.4)
        err = capfd.readouterr().err
        assert "step seven" in err
        assert "6/9" in err

    @pytest.mark.parametrize("workers", [1, 2])
    def test_own_callback(self, workers):
        calls = []
        curve(fussy, over={"x": [1.0, 2.0, 0.5]}, progress=lambda: calls.append(1), workers=workers)
        assert calls == [1, 1, 1]

    def test_disabled(self, monkeypatch, capfd):
        monkeypatch.setenv("FORCE_COLOR", "1")
        with progress_bar("slow work", enabled=False, delay=0.0) as advance:
            time.sleep(0.1)
            advance()
        assert capfd.readouterr().err == ""


class TestBatch:
    @staticmethod
    def compiled(outcomes: list[Any]):
        def square(x, offset=0):
            raise AssertionError("the batch is there to spare single calls")

        def batch(points, on_done):
            square.points = points
            for _ in points:
                on_done()
            return outcomes

        square.batch = batch
        return square

    def test_batch_receives_all_points(self):
        square = self.compiled([1.0, 4.0])
        data = curve(square, over={"x": [1.0, 2.0]}, offset=3)
        assert square.points == [((), {"x": 1.0, "offset": 3}), ((), {"x": 2.0, "offset": 3})]
        assert data.square.values.tolist() == [1.0, 4.0]

    def test_failure_in_a_batch(self):
        with pytest.warns(ConvergenceWarning, match="x=2.0: too hard"):
            data = curve(self.compiled([1.0, ConvergenceError("too hard")]), over={"x": [1.0, 2.0]})
        assert data.status.values.tolist() == ["converged", "failed: too hard"]

    def test_wrong_number_of_results(self):
        with pytest.raises(RuntimeError, match="returned 1 results for 2 points"):
            curve(self.compiled([1.0]), over={"x": [1.0, 2.0]})


def test_public_name():
    assert tk.curve is curve
