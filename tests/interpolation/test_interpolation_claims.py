"""Verdicts on the statements of the paper: what the evidence supports."""

from __future__ import annotations

import pytest

from theorykit.findings import judge
from theorykit.interpolation.claims import EVALUATORS, claims

#: name -> (verdict, words of the condition, (part of the name of a number, its value, absolute tolerance), ...)
EXPECTED = {
    "random_inputs_worse": (
        "holds if",
        ("equal degrees of freedom; not if", "the scale of f decides"),
        (("f = x", 0.967, 6e-4), ("ridge 1, tanh", 0.991, 6e-4), ("softmax map", 0.933, 6e-4)),
    ),
    "gap_vanishes_when_aligned": (
        "holds if",
        ("p < n; not if p >= n", "diverges"),
        (("beta = 0", 1.05, 6e-3), ("beta = 1:", 1.011, 6e-4), ("c = 1, ridge", 6, 0.6)),
    ),
    "gap_reversed": (
        "holds if",
        ("regularization is strong", "not if", "there is no ridge"),
        (
            ("c = 0.25, df = 0.1", 0.641, 6e-4),
            ("c = 0.5, df = 0.1", 0.654, 6e-4),
            ("c = 1, df = 0.1", 0.680, 6e-4),
            ("c = 2, df = 0.1", 0.696, 6e-4),
        ),
    ),
    "no_linear_part_no_signal": ("holds", (), (("largest difference", 0.0, 1e-12),)),
    "no_linear_part_no_dimension": (
        "holds if",
        ("many dimensions; not if few", "saturates"),
        (
            ("c = 0.1:", 0.900, 6e-4),
            ("c = 1:", 0.457, 6e-4),
            ("c = 64:", 0.335, 6e-4),
            ("limit", 0.3335, 6e-5),
        ),
    ),
    "orthogonal_weights_worse": (
        "holds if",
        ("the query vector alone is orthogonal", "exactly as without them"),
        (("key along", 0.38619, 6e-6), ("query along", 0.33958, 6e-6), ("no low-rank", 0.34436, 6e-6)),
    ),
    "softmax_is_entrywise": (
        "holds if",
        ("labels are balanced", "four different limits"),
        (("0.6, row", 0.692366915256, 1e-11), ("0.6, none", 0.332366915256, 1e-11)),
    ),
    "universality": (
        "holds if",
        ("balanced or the second Hermite coefficient vanishes; not if neither",),
        (),
    ),
}


def test_every_statement_is_judged_and_expected():
    assert {claim.name for claim, _ in claims()} == set(EVALUATORS) == set(EXPECTED)


@pytest.mark.parametrize("claim", [claim for claim, _ in claims()], ids=lambda claim: claim.name)
def test_verdicts(claim):
    verdict, words, numbers = EXPECTED[claim.name]
    found = judge(claim, EVALUATORS)
    assert found.verdict == verdict
    for part in words:
        assert part in found.condition
    for part, value, tolerance in numbers:
        (number,) = [v for name, v in found.evidence.items() if part in name]
        assert number == pytest.approx(value, abs=tolerance)
