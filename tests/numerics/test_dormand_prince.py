"""The generated integrator against exact order conditions, closed forms and SciPy's DOP853."""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp

from theorykit import codegen
from theorykit.codegen.program import single_threaded
from theorykit.errors import CodegenError, ConvergenceError
from theorykit.numerics.dormand_prince import DORMAND_PRINCE, FlowStatus

# ---------------------------------------------------------------------------------------------- the tableau

# Rooted trees by their subtrees: a tree is the sorted tuple of the trees hanging on its root.
_TREES = {1: [()]}
for _order in range(2, 6):
    _found = set()

    def _grow(rest, most, subtrees, found):
        if rest == 0:
            found.add(tuple(sorted(subtrees)))
            return
        for size in range(min(rest, most), 0, -1):
            for tree in _TREES[size]:
                _grow(rest - size, size, [*subtrees, tree], found)

    _grow(_order - 1, _order - 1, [], _found)
    _TREES[_order] = sorted(_found)


def _size(tree):
    return 1 + sum(_size(t) for t in tree)


def _density(tree):
    return _size(tree) * math.prod(_density(t) for t in tree)


def _stage_weights(tree):
    """Elementary weight of each stage."""
    rows = DORMAND_PRINCE.stages
    values = [Fraction(1)] * len(rows)
    for subtree in tree:
        inner = _stage_weights(subtree)
        values = [
            v * sum(a * w for a, w in zip(r, inner, strict=False)) for v, r in zip(values, rows, strict=True)
        ]
    return values


def _trees(order):
    return [tree for k in range(1, order + 1) for tree in _TREES[k]]


def test_there_are_seventeen_trees_up_to_order_five():
    assert [len(_TREES[k]) for k in range(1, 6)] == [1, 1, 2, 4, 9]


@pytest.mark.parametrize("tree", _trees(5), ids=str)
def test_the_step_has_order_five(tree):
    weights = (*DORMAND_PRINCE.stages[-1], Fraction(0))
    assert sum(b * w for b, w in zip(weights, _stage_weights(tree), strict=True)) == Fraction(
        1, _density(tree)
    )


def test_the_error_compares_with_order_four_and_sees_order_five():
    """The weights of the error annihilate all trees to order 4, not all of order 5."""

    def error(tree):
        return sum(e * w for e, w in zip(DORMAND_PRINCE.error, _stage_weights(tree), strict=True))

    assert all(error(tree) == 0 for tree in _trees(4))
    assert any(error(tree) != 0 for tree in _TREES[5])


@pytest.mark.parametrize("tree", _trees(4), ids=str)
def test_the_continuous_extension_has_order_four_everywhere(tree):
    """sum_i b_i(theta) Phi_i = theta**size/density, power by power."""
    weights = _stage_weights(tree)
    for power in range(1, 5):
        total = sum(row[power - 1] * w for row, w in zip(DORMAND_PRINCE.dense, weights, strict=True))
        assert total == (Fraction(1, _density(tree)) if power == _size(tree) else 0)


def test_the_continuous_extension_ends_at_the_step():
    assert tuple(sum(row) for row in DORMAND_PRINCE.dense) == (*DORMAND_PRINCE.stages[-1], 0)


# ---------------------------------------------------------------------------------------------- toy flows

X, V, W, F, T, Y = (sp.Symbol(n, real=True) for n in ("x", "v", "omega", "force", "t", "y"))
P, Q, R = (sp.Symbol(n, real=True) for n in ("p", "q", "r"))


@pytest.fixture(scope="module")
def oscillator(record_of):
    """x'' = -omega**2 x + force sin t, with the events x = 0 and v = 1/2."""

    def derive():
        return record_of(
            "oscillator", dx=V, dv=-(W**2) * X + F * sp.sin(T), zero=X, fast=V - sp.Rational(1, 2)
        )

    return codegen.load_flow("toy", ("oscillator",), derive, ("x", "v"), ("dx", "dv"), ("zero", "fast"), "t")


@pytest.fixture(scope="module")
def scalar(record_of):
    """y' = p y**2 + q log y + r y - 1: blows up, leaves its domain, or is stiff, as the parameters say."""

    def derive():
        return record_of("scalar", slope=P * Y**2 + Q * sp.log(Y) + R * Y - 1)

    return codegen.load_flow("toy", ("scalar",), derive, ("y",), ("slope",))


def _free(times, x, v, omega):
    """Solution without force."""
    phase = omega * times
    return x * np.cos(phase) + v / omega * np.sin(phase), v * np.cos(phase) - x * omega * np.sin(phase)


FREE = {"omega": 1.7, "force": 0.0}


def test_accuracy_follows_the_tolerance_and_steps_its_fifth_root(oscillator):
    """Error per step ~ h**5 ~ rtol: from 1e-5 to 1e-10 ten times the steps, and 1e-5 of the error (each within 2)."""
    times = np.linspace(0.0, 20.0, 41)
    exact = np.stack(_free(times, 1.0, 0.3, 1.7), axis=-1)
    steps, errors = [], []
    for rtol in (1e-5, 1e-10):
        found = oscillator(times, {"x": 1.0, "v": 0.3}, FREE, rtol=rtol, atol=rtol)
        steps.append(int(found.steps))
        errors.append(np.abs(found.states - exact).max())
    assert 8 < steps[1] / steps[0] < 12
    assert 0.5 < (errors[0] / errors[1]) / 1e5 < 2.0


def test_dense_output_is_as_accurate_as_the_steps(oscillator):
    """A thousand times within some thirty steps: no time is worse than a few tolerances per unit of time."""
    times = np.linspace(0.0, 3.0, 1001)
    found = oscillator(times, {"x": 1.0, "v": 0.0}, FREE, rtol=1e-9, atol=1e-9)
    assert found.steps < 100
    exact = np.stack(_free(times, 1.0, 0.0, 1.7), axis=-1)
    assert np.abs(found.states - exact).max() < 1e-8


def test_times_between_do_not_change_the_steps(oscillator):
    start = {"x": 1.0, "v": 0.3}
    few = oscillator([10.0], start, FREE)
    many = oscillator(np.linspace(0.0, 10.0, 501), start, FREE)
    assert few.steps == many.steps
    assert (few.states[-1] == many.states[-1]).all()


def test_forced_and_started_late_against_scipy(oscillator):
    times = np.linspace(2.0, 30.0, 57)
    found = oscillator(
        times, {"x": 0.2, "v": -1.0}, {"omega": 1.7, "force": 0.8}, rtol=1e-11, atol=1e-13, start_time=2.0
    )
    oracle = solve_ivp(
        lambda t, s: (s[1], -(1.7**2) * s[0] + 0.8 * math.sin(t)), (2.0, 30.0), (0.2, -1.0),
        method="DOP853", rtol=1e-12, atol=1e-14, t_eval=times,
    )  # fmt: skip
    assert np.abs(found.states - oracle.y.T).max() < 1e-9


def test_a_nonlinear_flow_against_scipy(scalar):
    """y' = y**2 + log(y) - 3 y - 1 settles from y = 2, over three thousand-fold scales of slopes; rtol 1e-11."""
    times = np.geomspace(1e-6, 3.0, 50)
    found = scalar(times, {"y": 2.0}, {"p": 0.5, "q": -0.7, "r": -1.0}, rtol=1e-11, atol=1e-13)
    oracle = solve_ivp(
        lambda t, y: 0.5 * y**2 - 0.7 * np.log(y) - y - 1, (0.0, 3.0), [2.0],
        method="DOP853", rtol=1e-12, atol=1e-14, t_eval=times,
    )  # fmt: skip
    assert np.abs(found.states[:, 0] - oracle.y[0]).max() < 1e-9


# ---------------------------------------------------------------------------------------------- batches


def test_batches_over_starts_and_parameters(oscillator):
    x = np.linspace(-1.0, 1.0, 5)[:, None]
    omega = np.array([0.5, 1.0, 3.0])
    times = np.array([0.0, 1.0, 4.0])
    found = oscillator(times, {"x": x, "v": 0.4}, {"omega": omega, "force": 0.0}, rtol=1e-11, atol=1e-12)
    assert found.states.shape == (5, 3, 3, 2)
    assert found.status.shape == (5, 3)
    exact = np.stack(_free(times, x[..., None], 0.4, omega[:, None]), axis=-1)
    assert np.abs(found.states - exact).max() < 1e-9


def test_no_bit_depends_on_the_batch_or_on_threads(oscillator):
    times = np.linspace(0.0, 5.0, 7)
    x = np.linspace(-1.0, 1.0, 400)
    whole = oscillator(times, {"x": x, "v": 0.3}, FREE)
    with single_threaded():
        alone = oscillator(times, {"x": x, "v": 0.3}, FREE)
    assert (whole.states == alone.states).all()
    for k in (0, 123, 399):
        one = oscillator(times, {"x": x[k], "v": 0.3}, FREE)
        assert (one.states == whole.states[k]).all()
        assert (one.event_times == whole.event_times[k]).all()


def test_a_pickled_flow_computes_the_same_bits(oscillator):
    copy = pickle.loads(pickle.dumps(oscillator))
    start = {"x": 1.0, "v": 0.3}
    assert (copy([1.0], start, FREE).states == oscillator([1.0], start, FREE).states).all()


# ---------------------------------------------------------------------------------------------- events


def test_first_crossings_at_their_exact_times(oscillator):
    """x = cos(omega t) vanishes first at pi/(2 omega); v reaches 1/2 after that, rising."""
    found = oscillator([10.0], {"x": 1.0, "v": 0.0}, FREE, rtol=1e-11, atol=1e-12)
    zero = math.pi / 3.4
    fast = (math.pi + math.asin(0.5 / 1.7)) / 1.7
    assert np.abs(found.event_times - [zero, fast]).max() < 1e-9
    assert np.abs(found.event_states[0] - [0.0, -1.7]).max() < 1e-9
    assert np.isfinite(found.states).all()


def test_directions_choose_crossings(oscillator):
    start = {"x": 1.0, "v": 0.0}
    rising = oscillator([10.0], start, FREE, directions={"zero": 1}, rtol=1e-11, atol=1e-12)
    assert abs(rising.event_times[0] - 3 * math.pi / 3.4) < 1e-9
    never = oscillator([1.0], start, FREE, directions={"zero": 1})
    assert never.event_times[0] == math.inf
    assert np.isnan(never.event_states[0]).all()


def test_a_terminal_event_ends_the_trajectory(oscillator):
    times = np.array([0.0, 0.5, 0.9, 1.0, 5.0])
    found = oscillator(times, {"x": 1.0, "v": 0.0}, FREE, terminal=["zero"], rtol=1e-11, atol=1e-12)
    end = math.pi / 3.4  # 0.924
    assert found.status == FlowStatus.EVENT
    assert abs(float(found.reached) - end) < 1e-9
    assert np.isfinite(found.states[:3]).all()
    assert np.isnan(found.states[3:]).all()
    assert found.event_times[1] == math.inf


def test_a_start_on_the_event_is_no_crossing(oscillator):
    """From x = 0 the next zero is half a period later."""
    found = oscillator([10.0], {"x": 0.0, "v": 1.7}, FREE, rtol=1e-11, atol=1e-12)
    assert abs(found.event_times[0] - math.pi / 1.7) < 1e-9


# ---------------------------------------------------------------------------------------------- failures


def test_each_reason_of_failure(scalar):
    cases = {
        FlowStatus.STEP_TOO_SMALL: ({"p": 1.0, "q": 0.0, "r": 0.0}, 2.0, 10_000),  # blows up before t = 1
        FlowStatus.NON_FINITE: (
            {"p": 0.0, "q": 0.1, "r": 0.0},
            1.0,
            10_000,
        ),  # reaches y = 0, beyond it no log
        FlowStatus.TOO_MANY_STEPS: ({"p": 0.0, "q": -1e6, "r": 0.0}, 1.5, 1000),  # stiff
        FlowStatus.FINISHED: ({"p": 0.0, "q": -1.0, "r": 0.0}, 1.5, 1000),
    }
    for status, (parameters, start, most) in cases.items():
        found = scalar([0.0, 5.0], {"y": start}, parameters, max_steps=most, on_failure="return")
        assert FlowStatus(int(found.status)) is status
        assert found.ok == status.ok
        assert found.states[0, 0] == start
        assert np.isfinite(found.states[1, 0]) == status.ok


def test_where_a_blow_up_is_noticed(scalar):
    """y' = y**2 - 1 from 2: artanh(1/y) = artanh(1/2) - t ends at t = log(3)/2."""
    found = scalar([5.0], {"y": 2.0}, {"p": 1.0, "q": 0.0, "r": 0.0}, on_failure="return")
    assert abs(float(found.reached) - 0.5 * math.log(3.0)) < 1e-8


def test_a_start_without_slope_is_non_finite(scalar):
    found = scalar([1.0], {"y": -1.0}, {"p": 0.0, "q": 1.0, "r": 0.0}, on_failure="return")
    assert found.status == FlowStatus.NON_FINITE
    assert found.steps == 0


def test_failures_are_raised_with_the_last_iterate(scalar):
    with pytest.raises(
        ConvergenceError, match=r"1 of 2 trajectories not finished; number \(1,\) stopped at t = 0.54"
    ):
        scalar([2.0], {"y": [1.0, 2.0]}, {"p": 1.0, "q": 0.0, "r": 0.0})
    with pytest.raises(ConvergenceError, match="raise max_steps") as caught:
        scalar([1.0], {"y": 1.5}, {"p": 0.0, "q": -1e6, "r": 0.0}, max_steps=50)
    assert 0.0 < caught.value.last.reached < 1.0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"times": [1.0, 0.5]}, ValueError, "times must not decrease, got 1.0 before 0.5"),
        ({"times": [-1.0]}, ValueError, "times must be at least start_time = 0.0, got -1.0"),
        ({"times": [math.nan]}, ValueError, "times must be finite"),
        ({"times": []}, ValueError, "non-empty"),
        ({"times": "soon"}, TypeError, "times must be an array"),
        ({"starts": {"x": 1.0}}, ValueError, r"needs values for \['v'\]"),
        ({"starts": {"x": math.inf, "v": 0.0}}, ValueError, "x must be finite, got inf"),
        ({"starts": {"x": [1, 2], "v": [1, 2, 3]}}, ValueError, "shapes that broadcast"),
        ({"parameters": {"omega": 1.0, "force": 0.0, "mass": 1.0}}, ValueError, r"knows no \['mass'\]"),
        ({"parameters": {"omega": "two", "force": 0.0}}, TypeError, "omega must be a number"),
        ({"rtol": 1e-15}, ValueError, "rtol must be a real number"),
        ({"atol": 0.0}, ValueError, "atol must be"),
        ({"atol": [1e-9]}, ValueError, "atol must be a number or 2 numbers"),
        ({"max_steps": 0}, ValueError, "max_steps must be"),
        ({"terminal": ["nought"]}, ValueError, r"terminal must name events among \['zero', 'fast'\]"),
        ({"directions": {"zero": 2}}, ValueError, "direction of zero must be"),
        ({"on_failure": "ignore"}, ValueError, "on_failure must be"),
    ],
)
def test_bad_arguments_are_named(oscillator, change, error, message):
    arguments = {"times": [1.0], "starts": {"x": 1.0, "v": 0.0}, "parameters": FREE} | change
    times, starts, parameters = (arguments.pop(n) for n in ("times", "starts", "parameters"))
    with pytest.raises(error, match=message):
        oscillator(times, starts, parameters, **arguments)


def test_records_without_a_flow_are_refused(record_of):
    from theorykit.derivations.nodes import Expectation

    record = record_of("odd", slope=P * Y, mean=Expectation(sp.exp(P * X), X))
    with pytest.raises(CodegenError, match="contains an average"):
        codegen.load_flow("toy", ("odd", 1), lambda: record, ("p",), ("mean",))
    with pytest.raises(CodegenError, match="does not depend on 'z'"):
        codegen.load_flow("toy", ("odd", 2), lambda: record, ("z",), ("slope",))
    with pytest.raises(CodegenError, match="one slope per component"):
        codegen.load_flow("toy", ("odd", 3), lambda: record, ("y", "p"), ("slope",))
    with pytest.raises(CodegenError, match="named twice"):
        codegen.load_flow("toy", ("odd", 4), lambda: record, ("y", "y"), ("slope", "slope"))


# ---------------------------------------------------------------------------------------------- the cache

_SCRIPT = """
import json, sys
from theorykit import codegen

def derive():
    import sympy as sp
    from theorykit.derivations.ledger import Equations, Quantity
    y, r = sp.Symbol("y", real=True), sp.Symbol("r", real=True)
    symbols = (Quantity(y, "y", "state"), Quantity(r, "r", "rate"))
    return Equations("growth", symbols, {}, {"slope": r * y * (1 - y), "half": y - sp.Rational(1, 2)})

flow = codegen.load_flow("toy", ("growth",), derive, ("y",), ("slope",), ("half",))
root = codegen.load_roots("toy", ("growth",), derive, "y", "half")
found = flow([1.0, 5.0], {"y": 0.1}, {"r": 2.0}, rtol=1e-11)
bits = [float(v).hex() for v in [*found.states[:, 0], *found.event_times, root(0.0, 2.0).root]]
print(json.dumps({"bits": bits, "sympy": "sympy" in sys.modules, **codegen.status()}))
"""


def test_a_second_process_derives_and_compiles_nothing(tmp_path):
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "THEORYKIT_CACHE": str(tmp_path / "cache"),
    }
    answers = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        answers.append(json.loads(done.stdout))
    first, second = answers
    assert (first["derived"], first["sympy"]) == (2, True)
    assert (second["derived"], second["compiled_functions"], second["sympy"]) == (0, 0, False)
    assert second["bits"] == first["bits"]
    crossing = float.fromhex(second["bits"][2])
    assert abs(crossing - math.log(9.0) / 2.0) < 1e-9
    assert float.fromhex(second["bits"][3]) == 0.5
