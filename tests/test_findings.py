"""A verdict and its condition are put together from outcomes."""

from __future__ import annotations

import pytest

from theorykit.derivations.ledger import Claim
from theorykit.findings import Finding, judge, pairs

CLAIM = Claim("growth", "the number grows", "a paper")


def test_the_outcomes_decide():
    both = Finding({"a": True, "b": True}, {"n": 1.0})
    neither = Finding({"a": False, "b": False}, {"n": 1.0})
    mixed = Finding({"a": True, "b": False, "c": True, "d": False}, {"n": 1.0}, {"b": "why", "c": "unused"})
    assert (both.verdict, both.condition) == ("holds", "")
    assert (neither.verdict, neither.condition) == ("fails", "")
    assert (mixed.verdict, mixed.condition) == ("holds if", "a or c; not if b (why) or d")


def test_a_claim_is_judged_by_the_evaluator_of_its_name():
    evaluators = {
        "growth": lambda: Finding({"large": True, "small": False}, {"n": 2.0}),
        "other": lambda: 1 / 0,
    }
    found = judge(CLAIM, evaluators)
    assert (found.name, found.statement, found.source) == ("growth", "the number grows", "a paper")
    assert (found.verdict, found.condition, dict(found.evidence)) == (
        "holds if",
        "large; not if small",
        {"n": 2.0},
    )
    ((claim, decide),) = pairs((CLAIM,), evaluators)
    assert claim is CLAIM
    assert decide() == found


def test_a_claim_without_an_evaluator_is_an_error():
    with pytest.raises(KeyError, match="growth"):
        judge(CLAIM, {})


def test_a_verdict_rests_on_numbers():
    with pytest.raises(ValueError, match="must rest on evidence"):
        judge(CLAIM, {"growth": lambda: Finding({"always": True}, {})})
