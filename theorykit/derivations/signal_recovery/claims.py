"""Statements of arXiv 2606.22406, as its summary makes them; judged by ``theorykit.signal_recovery.claims``."""

from __future__ import annotations

from theorykit.derivations.ledger import Claim

__all__ = ["CLAIMS"]

_SOURCE = "arXiv 2606.22406"

CLAIMS = tuple(
    Claim(name, statement, _SOURCE)
    for name, statement in (
        ("one_dimension", "The landscape depends on the query through its alignment rho alone."),
        ("monotone_field", "The slope of the objective is positive for every alignment: there are no traps."),
        ("converges_to_either", "Gradient ascent ends at xi or at -xi from any start."),
        (
            "harmless_sign",
            "Which of xi and -xi is found is a symmetry of the objective, without consequences.",
        ),
        ("noise_vanishes", "At the end attention on noise tokens vanishes."),
        (
            "dense_signal",
            "At weak signal attention on noise vanishes if the density of informative tokens grows.",
        ),
        ("both_numbers_grow", "The alignment has a limiting field if both numbers of tokens grow."),
        ("high_dimension", "A high dimension is benign."),
        (
            "twenty_noise_tokens",
            "Twenty noise tokens per informative one and theta = 1/4 do not prevent alignment.",
        ),
        ("tracks_the_flow", "Stochastic gradient ascent tracks the deterministic flow of the alignment."),
    )
)
