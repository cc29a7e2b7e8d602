"""Statements about the interpolation error of attention beside linear regression; their verdicts are computed."""

from __future__ import annotations

from theorykit.derivations.ledger import Claim

__all__ = ["CLAIMS"]

_SOURCE = "arXiv 2506.18656 and its public summaries"

CLAIMS = tuple(
    Claim(name, statement, _SOURCE)
    for name, statement in {
        "random_inputs_worse": "On random inputs (no signal) the interpolation error of attention exceeds that of "
        "linear regression.",
        "gap_vanishes_when_aligned": "The gap to linear regression vanishes when the weights align with the signal "
        "(small ridge).",
        "gap_reversed": "With aligned weights attention has the smaller interpolation error, in particular with more "
        "tokens than dimensions and weak signal.",
        "no_linear_part_no_signal": "Without a linear part (a_1 = 0) the error does not decrease with the signal.",
        "no_linear_part_no_dimension": "Without a linear part the error does not decrease with the dimension.",
        "orthogonal_weights_worse": "Weights orthogonal to the signal make the error worse than no low-rank weights.",
        "softmax_is_entrywise": "Softmax attention is entrywise attention with a centred exponential.",
        "universality": "The limit depends on the noise through its variance alone.",
    }.items()
)
