"""The audit runner: what passes, what turns red, and that nothing red looks green."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
import sympy as sp
from toy_theory import FIELD, THEORY, A, C, make_growth, make_weights

from theorykit.derivations.audit import (
    AuditReport,
    AuditStatus,
    ClaimVerdict,
    audit,
    audit_all,
    audit_step,
    sign_flips,
)
from theorykit.derivations.ledger import Claim, Derivation, Step, assumed, proved, simulated, verified
from theorykit.derivations.nodes import Expectation, HalfLine, TokenPower
from theorykit.errors import DerivationError
from theorykit.theory import audit as audit_theory

X = sp.Symbol("x", real=True)
B = sp.Symbol("b", positive=True)


@pytest.fixture(scope="module")
def derivation() -> Derivation:
    return make_growth()


@pytest.fixture(scope="module")
def report() -> AuditReport:
    return audit_theory(THEORY)


def step(left: sp.Expr, right: sp.Expr, check=None, name: str = "a step") -> Step:
    return Step(name, left, right, (), "reason", proved() if check is None else check)


# ----------------------------------------------------------------- a whole theory


def test_toy_theory_is_ok_and_complete(report):
    assert report.ok
    assert report.complete
    assert {s.name: s.status for s in report.steps} == {
        "integration by parts": AuditStatus.PASSED,
        "tilt": AuditStatus.PASSED,
        "Wick": AuditStatus.PASSED,
        "concentration": AuditStatus.ASSUMED,
        "sampling": AuditStatus.SIMULATED,
        "Laplace representation": AuditStatus.PASSED,
        "independence of the tokens": AuditStatus.PASSED,
        "exponential weight": AuditStatus.PASSED,
    }
    assert report.unprotected == (("toy.growth", "concentration"),)
    assert report.simulated == (("toy.growth", "sampling"),)


def test_verified_steps_report_the_digits_they_reached(report):
    digits = {s.name: s.digits_reached for s in report.steps}
    assert digits["integration by parts"] >= 30
    assert 10 <= digits["Laplace representation"] < 16
    assert "10 asked for" in next(s.detail for s in report.steps if s.name == "Laplace representation")


def test_statuses_hold_derivation_step_kind_status(report):
    assert ("toy.growth", "Wick", "proved", AuditStatus.PASSED) in report.statuses
    assert len(report.statuses) == 8


def test_claims_are_judged_and_a_false_one_is_a_finding(report):
    assert [(c.name, c.verdict) for c in report.claims] == [
        ("growth increases", "holds"),
        ("growth is linear", "fails"),
    ]
    assert report.claims[1].evidence["gap"] == pytest.approx(2.718281828459045**0.5 - 1, rel=1e-12)
    assert report.ok


def test_report_is_plain_data_for_json(report):
    data = json.loads(json.dumps(report.to_dict()))
    assert data["ok"] is True
    assert data["complete"] is True
    assert data["derivations"][0]["steps"][0]["status"] == "passed"
    assert data["claims"][1]["verdict"] == "fails"
    assert data["unprotected"] == [["toy.growth", "concentration"]]


def test_report_prints_every_step_and_the_verdict(report):
    text = str(report)
    assert all(s.name in text for s in report.steps)
    assert text.splitlines()[-1].startswith("ok: 6 passed, 1 assumed, 1 simulated")
    assert "assumed, so unprotected: concentration (toy.growth)" in text


def test_rich_table_shows_the_same(report):
    from rich.console import Console

    console = Console(width=200, file=io.StringIO())
    console.print(report)
    text = console.file.getvalue()
    assert "integration by parts" in text
    assert "ok: 6 passed" in text


def test_progress_is_told_before_each_step():
    calls = []
    twice = {"one": make_growth, "two": make_growth}
    audit_all("toy", twice, THEORY.claim_pairs(), on_step=lambda *call: calls.append(call))
    assert [index for _, index, _ in calls] == list(range(12))
    assert {total for *_, total in calls} == {12}
    assert calls[0][0] == "toy.growth: integration by parts"
    assert calls[-1][0] == "claim growth is linear"


def test_derivations_made_with_options_are_reported_under_their_keys():
    found = audit_all("toy", {"growth[quick]": make_growth, "growth[slow]": lambda: make_growth(slow=True)})
    assert [d.name for d in found.derivations] == ["growth[quick]", "growth[slow]"]
    assert [d.complete for d in found.derivations] == [True, False]
    assert found.unprotected == (("growth[quick]", "concentration"), ("growth[slow]", "concentration"))


def test_slow_checks_read_not_run_unless_asked_for():
    quick = audit(make_growth(slow=True))
    assert {s.name: s.status for s in quick.steps}["tilt"] is AuditStatus.NOT_RUN
    assert quick.ok
    assert not quick.complete
    assert AuditReport("x", (quick,)).verdict.startswith("ok, not complete")
    thorough = audit(make_growth(slow=True), slow=True)
    assert thorough.ok
    assert thorough.complete


def test_audit_refuses_what_is_no_derivation():
    with pytest.raises(TypeError, match="must be a Derivation"):
        audit("toy.weights")


# ----------------------------------------------------------------- mutations


def checked_steps() -> list[tuple[str, int]]:
    steps = [*make_growth().steps, *make_weights().steps]
    checked = [s for s in steps if s.check.kind in ("proved", "verified")]
    return [(s.name, i) for s in checked for i in range(len(sp.Add.make_args(s.rhs)))]


@pytest.mark.parametrize(("name", "term"), checked_steps())
def test_flipping_the_sign_of_a_term_turns_that_step_red(name, term):
    derivation = next(d for d in (make_growth(), make_weights()) if name in {s.name for s in d.steps})
    original = next(s for s in derivation.steps if s.name == name)
    flipped = list(sign_flips(original.rhs))[term]
    mutated = derivation.with_step(name, flipped)
    assert audit_step(next(s for s in mutated.steps if s.name == name)).status is AuditStatus.FAILED


def test_a_mutated_step_breaks_the_chain_after_it(derivation):
    by_parts = next(s for s in derivation.steps if s.name == "integration by parts")
    found = audit(derivation.with_step(by_parts.name, -by_parts.rhs))
    status = {s.name: s.status for s in found.steps}
    assert status["integration by parts"] is AuditStatus.FAILED
    assert status["tilt"] is AuditStatus.BROKEN_CHAIN
    assert status["Wick"] is AuditStatus.PASSED
    assert not found.ok


def test_a_last_step_that_is_mutated_leaves_its_observable_underived(derivation):
    found = audit(derivation.with_step("tilt", 2 * A))
    assert found.loose_ends.keys() == {"growth"}
    assert ("toy.growth", "growth", "chain", AuditStatus.BROKEN_CHAIN) in found.statuses
    assert not found.ok
    assert "no chain of steps" in str(AuditReport("toy", (found,)))


def test_sign_flips_change_one_term_each():
    expression = A**2 + 3 * C - 1
    assert set(sign_flips(expression)) == {-(A**2) + 3 * C - 1, A**2 - 3 * C - 1, A**2 + 3 * C + 1}
    assert list(sign_flips(A * C)) == [-A * C]


# ----------------------------------------------------------------- proved steps


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((A + C) ** 3, A**3 + 3 * A**2 * C + 3 * A * C**2 + C**3),
        (1 / (A + 1) + 1 / (A + 2), (2 * A + 3) / ((A + 1) * (A + 2))),
        (sp.sinh(C) ** 2 + 1, sp.cosh(C) ** 2),
        (sp.log(A * B**2), sp.log(A) + 2 * sp.log(B)),
        (Expectation((X + C) ** 4, [X]), C**4 + 6 * C**2 + 3),
        (Expectation(X**2 * sp.exp(A) + X, [X], [[B]]), B * sp.exp(A)),
        (
            HalfLine(sp.exp(-A * B) * (A + 1), B),
            HalfLine(A * sp.exp(-A * B), B) + HalfLine(sp.exp(-A * B), B),
        ),
        (A * TokenPower(B, C) + TokenPower(B, C), (A + 1) * TokenPower(B, C)),
    ],
)
def test_identities_are_proved_and_their_mutations_are_not(left, right):
    result = audit_step(step(left, right))
    assert result.status is AuditStatus.PASSED, result.detail
    for flipped in sign_flips(right):
        assert audit_step(step(left, flipped)).status is AuditStatus.FAILED


def test_proof_is_confirmed_by_numbers():
    result = audit_step(step((A + C) ** 2, A**2 + 2 * A * C + C**2))
    assert "agree to" in result.detail
    assert result.digits_reached >= 25


def test_a_normal_form_that_forgets_everything_is_refuted_by_numbers():
    result = audit_step(step(A**2, A**3, proved(lambda e: sp.Integer(0))))
    assert result.status is AuditStatus.FAILED
    assert "differ at a=" in result.detail


def test_normal_form_is_applied_to_both_sides():
    double = sp.Function("D")

    def unfold(expression: sp.Expr) -> sp.Expr:
        return expression.replace(double, lambda u: 2 * u)

    assert audit_step(step(double(A) + A, 3 * A, proved(unfold))).status is AuditStatus.PASSED
    assert audit_step(step(double(A) + A, 3 * A)).status is AuditStatus.FAILED


def test_an_abstract_function_is_named_where_numbers_cannot_confirm():
    b = sp.Function("b")
    result = audit_step(step((b(A) + 1) ** 2, b(A) ** 2 + 2 * b(A) + 1))
    assert result.status is AuditStatus.PASSED
    assert "the function b is abstract" in result.detail


def test_what_is_true_but_beyond_the_rewritings_is_not_called_proved():
    result = audit_step(step(Expectation(sp.exp(A * X), [X]), sp.exp(A**2 / 2)))
    assert result.status is AuditStatus.FAILED
    assert "not reduced to zero by the bounded rewritings; both sides agree to" in result.detail


# ----------------------------------------------------------------- verified steps

PRECISE = {"left": "mp-trapezoid", "right": "mp-quad"}


def test_digits_reached_are_measured():
    close = A * (1 + sp.Rational(1, 10**12))
    passed = audit_step(step(A, close, verified({"a": 2}, digits=11, **PRECISE)))
    failed = audit_step(step(A, close, verified({"a": 2}, digits=13, **PRECISE)))
    assert passed.status is AuditStatus.PASSED
    assert passed.digits_reached == pytest.approx(12, abs=1e-3)
    assert failed.status is AuditStatus.FAILED
    assert "only 12.0 of 13 digits" in failed.detail
    assert "a=2" in failed.detail


def test_the_worst_point_counts():
    right = A + (A - 1) * sp.Rational(1, 10**6)
    result = audit_step(step(A, right, verified({"a": 1}, {"a": 3}, digits=8, **PRECISE)))
    assert result.status is AuditStatus.FAILED
    assert "a=3" in result.detail


def test_numbers_below_1e_minus_300_are_compared_absolutely():
    tiny = sp.Float("1e-320", 30)
    assert audit_step(step(tiny * A, 3 * tiny * A, verified({"a": 1}, digits=30, **PRECISE))).status is (
        AuditStatus.PASSED
    )


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (verified({"b": 1}, **PRECISE), "no value for a"),
        (verified({"a": 1}, concrete=lambda e, n: e), "gives no length L"),
        (verified({"a": 1, "L": 2}, concrete=lambda e, n: 1 / 0), "ZeroDivisionError"),
        (verified({"a": 1}, left="simpson"), "there is no rule 'simpson'"),
        (replace(verified({"a": 1}), kind="guessed"), "unknown kind of check 'guessed'"),
    ],
)
def test_a_check_that_cannot_be_carried_out_has_failed(check, message):
    result = audit_step(step(A, A + 0, check))
    assert result.status is AuditStatus.FAILED
    assert message in result.detail


def test_infinite_values_fail():
    result = audit_step(step(1 / (A - 1), 2 / (A - 1), verified({"a": 1}, **PRECISE)))
    assert result.status is AuditStatus.FAILED


def test_points_may_be_ratios_as_text_in_every_rule():
    left, right = Expectation(sp.exp(A * FIELD), [FIELD]), sp.exp(A**2 / 2)
    assert audit_step(step(left, right, verified({"a": "1/3"}, digits=13))).status is AuditStatus.PASSED


def test_assumed_and_simulated_say_where_to_look():
    assert audit_step(step(A, C, assumed("a book"))).detail == "a book"
    result = audit_step(step(A, C, simulated("the risk table")))
    assert result.status is AuditStatus.SIMULATED
    assert "the risk table" in result.detail


# ----------------------------------------------------------------- derivations and claims that break


def test_a_derivation_that_cannot_be_made_is_red():
    def broken() -> Derivation:
        raise DerivationError("the left side of step 'x' is not the right side of anything")

    found = audit_all("t", {"t.broken": broken})
    assert not found.ok
    assert "left side of step 'x'" in str(found)


def test_a_claim_that_cannot_be_judged_is_red():
    claim = Claim("c", "something", "somewhere")

    def crash() -> ClaimVerdict:
        raise ArithmeticError("no number")

    def other() -> ClaimVerdict:
        return ClaimVerdict("c", "something else", "somewhere", "holds", "", {"x": 1})

    for judge, message in ((crash, "ArithmeticError: no number"), (other, "judged another claim")):
        found = audit_all("t", {}, ((claim, judge),))
        assert not found.ok
        assert message in found.claim_faults["c"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("probably", "", {"x": 1}), "must be one of"),
        (("holds if", "", {"x": 1}), "condition"),
        (("holds", "", {}), "evidence"),
        (("holds", "", {"x": float("nan")}), "evidence 'x'"),
    ],
)
def test_verdicts_need_evidence_and_conditions(arguments, message):
    with pytest.raises(ValueError, match=message):
        ClaimVerdict("c", "s", "p", *arguments)


def test_infinite_evidence_survives_json():
    verdict = ClaimVerdict("c", "s", "p", "holds", "", {"x": float("inf")})
    assert json.loads(json.dumps(verdict.to_dict()))["evidence"] == {"x": "inf"}
