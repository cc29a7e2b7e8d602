"""What the evaluator of a claim returns, and the verdict it makes.

An evaluator tries a statement under several conditions and reports each outcome; where the statement holds is put
together from them, so that a condition is computed and never typed beside its verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from theorykit.derivations.ledger import Claim
    from theorykit.derivations.verdicts import ClaimVerdict

__all__ = ["Evaluator", "Finding", "judge", "pairs"]


@dataclass(frozen=True)
class Finding:
    """Where a statement holds and where not, and the numbers this rests on.

    Attributes
    ----------
    outcomes : mapping
        Condition, in words that follow "if", to whether the statement holds there.
    evidence : mapping
        The computed numbers, by name.
    remarks : mapping
        What to add in brackets behind a condition under which the statement fails.
    """

    outcomes: Mapping[str, bool]
    evidence: Mapping[str, float]
    remarks: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """ "holds", "holds if" (somewhere) or "fails" (everywhere)."""
        if all(self.outcomes.values()):
            return "holds"
        return "holds if" if any(self.outcomes.values()) else "fails"

    @property
    def condition(self) -> str:
        """Where it holds and where it fails, in words, if not everywhere the same."""
        if self.verdict != "holds if":
            return ""
        good = [where for where, holds in self.outcomes.items() if holds]
        bad = [self._remarked(where) for where, holds in self.outcomes.items() if not holds]
        return f"{' or '.join(good)}; not if {' or '.join(bad)}"

    def _remarked(self, where: str) -> str:
        return f"{where} ({self.remarks[where]})" if where in self.remarks else where


Evaluator = Callable[[], Finding]


def judge(claim: Claim, evaluators: Mapping[str, Evaluator]) -> ClaimVerdict:
    """Compute the verdict on a claim by the evaluator of its name."""
    from theorykit.derivations.verdicts import ClaimVerdict

    found = evaluators[claim.name]()
    return ClaimVerdict(
        claim.name, claim.statement, claim.source, found.verdict, found.condition, dict(found.evidence)
    )


def pairs(
    claims: Iterable[Claim], evaluators: Mapping[str, Evaluator]
) -> tuple[tuple[Claim, Callable[[], ClaimVerdict]], ...]:
    """Each claim with the function that computes its verdict, as a :class:`~theorykit.theory.Theory` wants them."""
    return tuple((claim, partial(judge, claim, evaluators)) for claim in claims)
