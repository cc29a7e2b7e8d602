"""Which points are compared, in which stream, and what a doubt of the theory does; on a coin with known odds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from theorykit.errors import ConvergenceError
from theorykit.results import Estimate
from theorykit.theory import Prediction, Theory, ValidationPoint
from theorykit.validation.run import validate


def toss(chance, trials, seed):
    heads = np.random.default_rng(seed).random(trials) < chance
    return {"chance": Estimate(heads.mean(), heads.std() / trials**0.5, "standard error")}


def point(chance, theory=None, doubt=None):
    values = {"chance": chance if theory is None else theory}
    predicted = values if doubt is None else Prediction(values, doubt)
    return ValidationPoint({"chance": chance}, lambda: predicted, partial(toss, chance), 1000)


COIN = Theory(
    "coin",
    "A coin",
    {},
    validation_points=(point(0.5),),
    studies={
        "odds": lambda: tuple(point(p) for p in (0.1, 0.2, 0.3, 0.4)),
        "wrong": lambda: (point(0.5), point(0.5, 0.9), point(0.4, 0.9, "it is bent"), point(0.3, doubt="")),
    },
)


def test_a_study_is_a_list_of_its_own():
    assert [dict(r.parameters) for r in validate(COIN).rows] == [{"chance": 0.5}]
    report = validate(COIN, study="odds")
    assert [r.parameters["chance"] for r in report.rows] == [0.1, 0.2, 0.3, 0.4]
    assert report.ok and report.title == "A coin: odds"


def test_chosen_points_have_the_numbers_of_the_whole_list():
    everything, seen = validate(COIN, seed=4, study="odds").rows, []
    some = validate(COIN, seed=4, study="odds", points=(3, 1), on_point=lambda *a: seen.append(a))
    assert some.rows == (everything[3], everything[1])
    assert seen == [(0, 2), (1, 2)]


def test_a_doubt_is_not_a_failure_and_an_empty_one_is_none():
    report = validate(COIN, study="wrong")
    assert [r.doubt for r in report.rows] == ["", "", "it is bent", ""]
    assert [report.passes(r) for r in report.rows] == [True, False, True, True]
    assert abs(report.rows[2].z) > 10
    assert not report.ok
    assert validate(COIN, study="wrong", points=[0, 2, 3]).ok


def unsolvable():
    raise ConvergenceError("fixed point not reached")


def test_a_point_without_a_solution_loses_no_other():
    hard = ValidationPoint({"chance": 0.7}, unsolvable, partial(toss, 0.7), 1000)
    theory = replace(COIN, studies={"hard": lambda: (point(0.5), hard)})
    report = validate(theory, study="hard")
    assert len(report.rows) == 1 and report.passes(report.rows[0])
    assert report.unsolved == (({"chance": 0.7}, "fixed point not reached"),)
    assert not report.ok
    assert report.verdict.endswith("; no solution at chance=0.7 (fixed point not reached)")
    assert report.to_dict()["unsolved"][0]["message"] == "fixed point not reached"
    with pytest.raises(ConvergenceError):
        validate(theory, study="hard", points=[1])


@pytest.mark.parametrize(
    "options, message",
    [
        ({"study": "even"}, r"study must be one of those of theory coin \(odds, wrong\), got 'even'"),
        ({"points": [1]}, r"points must be an integer in \[0, 0\], got 1"),
        ({"study": "odds", "points": [-1]}, r"points must be an integer in \[0, 3\], got -1"),
        ({"study": "odds", "points": []}, "points must be different positions, at least one"),
        ({"study": "odds", "points": [1, 1]}, "points must be different positions, at least one"),
    ],
)
def test_bad_choices_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        validate(COIN, **options)


def test_studies_must_be_callables_by_name():
    with pytest.raises(TypeError, match="studies of a theory must map names to callables"):
        Theory("coin", "A coin", {}, studies={"odds": (point(0.5),)})
