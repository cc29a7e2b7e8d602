"""The claims of the paper: verdicts, conditions, and that they follow the numbers."""

from __future__ import annotations

import pytest

from theorykit.derivations.signal_recovery.claims import CLAIMS
from theorykit.findings import judge
from theorykit.signal_recovery import claims as module

EXPECTED = {
    "one_dimension": ("holds", ""),
    "monotone_field": ("holds if", "not if beta > beta_c"),
    "converges_to_either": ("holds if", "not if the start is on the latitude rho_c"),
    "harmless_sign": ("holds if", "not if the kernel is exponential"),
    "noise_vanishes": ("holds if", "not if theta, beta and pi are fixed or the end is -xi"),
    "dense_signal": ("holds if", "the fraction tends to 1"),
    "both_numbers_grow": ("holds if", "not if R/L -> 0"),
    "high_dimension": ("holds if", "not if d/L > kappa_c"),
    "twenty_noise_tokens": ("holds if", "alignment is meant; not if attention"),
    "tracks_the_flow": ("holds if", "not if the step size is constant"),
}


def test_every_claim_has_an_evaluator():
    assert [claim.name for claim in CLAIMS] == list(module.EVALUATORS) == list(EXPECTED)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_verdicts(claim):
    verdict, condition = EXPECTED[claim.name]
    found = judge(claim, module.EVALUATORS)
    assert found.verdict == verdict
    assert condition in found.condition
    assert found.evidence


def test_verdicts_follow_the_numbers(monkeypatch):
    (claim,) = [c for c in CLAIMS if c.name == "high_dimension"]
    monkeypatch.setattr(module, "_least_slope", lambda model: -1.0)
    assert judge(claim, module.EVALUATORS).verdict == "fails"
    monkeypatch.setattr(module, "_least_slope", lambda model: 1.0)
    assert judge(claim, module.EVALUATORS).verdict == "holds"
