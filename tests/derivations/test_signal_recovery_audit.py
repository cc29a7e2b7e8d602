"""Every derivation of signal recovery: its audit, its sign flips, its limits and its LaTeX."""

from __future__ import annotations

from dataclasses import replace

import pytest

from theorykit.derivations.audit import audit, audit_step, sign_flips
from theorykit.signal_recovery.theory import THEORY
from theorykit.theory import latex

ENTRIES = sorted(THEORY.derivations)


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_step_passes(entry):
    found = audit(THEORY.derivations[entry]())
    assert found.ok, [r for r in found.steps if r.status.is_red]
    reached = [r.digits_reached for r in found.steps if r.kind == "verified" and r.digits_reached is not None]
    assert reached
    assert min(reached) >= 10


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_flipped_sign_is_noticed(entry):
    derivation = THEORY.derivations[entry]()
    tried = 0
    for step in derivation.steps:
        if step.check.kind not in ("proved", "verified") or step.check.slow:
            continue
        for flipped in sign_flips(step.rhs):
            assert audit_step(replace(step, rhs=flipped)).status.is_red, (step.name, flipped)
            tried += 1
    assert tried


@pytest.mark.parametrize("entry", ENTRIES)
def test_known_limits(entry):
    record = THEORY.derivations[entry]().equations
    for limit in record.limits:
        part = replace(record, observables={limit.observable: record.observables[limit.observable]})
        value = part.evaluate(limit.values, digits=20)[limit.observable]
        assert abs(value - limit.expected) <= limit.tolerance, limit


@pytest.mark.parametrize("entry", ENTRIES)
def test_latex_is_complete(entry):
    text = latex(THEORY.derivations[entry]())
    assert text.count(r"\begin{") == text.count(r"\end{") > 0
    assert text.count("{") == text.count("}")
