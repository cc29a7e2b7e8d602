"""What an audit found, as records: of a step, of a claim, of a derivation, of everything together.

=============  =========================================================================================
status         meaning
=============  =========================================================================================
passed         the check of the step was run and holds
failed         it was run and does not hold, or could not be carried out; the detail says which
assumed        there is nothing to run: the step is taken from the literature
simulated      confirmed by Monte Carlo, which ``theorykit.validation`` runs; not run here
not run        a slow check that was not asked for
broken chain   the step does not start from what its premises provide; its check is beside the point
=============  =========================================================================================

A claim that fails is a finding about a paper, not a failure of the audit.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from theorykit.errors import require_real

__all__ = ["AuditReport", "AuditStatus", "ClaimVerdict", "DerivationAudit", "StepResult"]

_VERDICTS = ("holds", "holds if", "fails")


class AuditStatus(enum.StrEnum):
    """Outcome of one step; the docstring of the module says what each means."""

    PASSED = "passed"
    FAILED = "failed"
    ASSUMED = "assumed"
    SIMULATED = "simulated"
    NOT_RUN = "not run"
    BROKEN_CHAIN = "broken chain"

    @property
    def is_red(self) -> bool:
        """Whether the audit is not ok because of it."""
        return self in (AuditStatus.FAILED, AuditStatus.BROKEN_CHAIN)


@dataclass(frozen=True)
class StepResult:
    """Outcome of one step: name, kind of check, status, what was found, digits to which both sides agree."""

    name: str
    kind: str
    status: AuditStatus
    detail: str
    digits_reached: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON holds."""
        digits = None if self.digits_reached is None else round(self.digits_reached, 1)
        return {
            "step": self.name,
            "kind": self.kind,
            "status": self.status.value,
            "detail": self.detail,
            "digits_reached": digits,
        }


@dataclass(frozen=True)
class ClaimVerdict:
    """A statement of a paper and what a computation says about it.

    Attributes
    ----------
    name, statement, source : str
        As in the :class:`~theorykit.derivations.ledger.Claim`.
    verdict : str
        "holds", "holds if" or "fails".
    condition : str
        Where it holds ("holds if") or fails ("fails"); required for "holds if".
    evidence : mapping
        The computed numbers the verdict rests on; at least one.
    """

    name: str
    statement: str
    source: str
    verdict: str
    condition: str = ""
    evidence: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.verdict not in _VERDICTS:
            raise ValueError(f"verdict of {self.name} must be one of {_VERDICTS}, got {self.verdict!r}")
        if self.verdict == "holds if" and not self.condition:
            raise ValueError(f"claim {self.name} holds under a condition, which must be given")
        if not self.evidence:
            raise ValueError(f"verdict of {self.name} must rest on evidence: computed numbers, by name")
        numbers = {k: require_real(f"evidence {k!r}", v, allow_inf=True) for k, v in self.evidence.items()}
        object.__setattr__(self, "evidence", numbers)

    def __str__(self) -> str:
        condition = f" {self.condition}" if self.condition else ""
        numbers = ", ".join(f"{k} = {v:.6g}" for k, v in self.evidence.items())
        return f"{self.verdict}{condition}: {self.statement} ({self.source}); {numbers}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON holds; infinite numbers become text."""
        evidence = {k: v if math.isfinite(v) else str(v) for k, v in self.evidence.items()}
        return {
            "name": self.name,
            "statement": self.statement,
            "source": self.source,
            "verdict": self.verdict,
            "condition": self.condition,
            "evidence": evidence,
        }


@dataclass(frozen=True)
class DerivationAudit:
    """Outcome of all steps of a derivation; ``faults``: step or equation -> how its chain is broken."""

    name: str
    title: str
    steps: tuple[StepResult, ...]
    faults: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def ok(self) -> bool:
        """No check failed and the chain holds."""
        return not self.faults and not any(step.status.is_red for step in self.steps)

    @property
    def complete(self) -> bool:
        """No check was left out."""
        return not any(step.status is AuditStatus.NOT_RUN for step in self.steps)

    @property
    def loose_ends(self) -> dict[str, str]:
        """Breaks of the chain at equations and observables, which are no steps."""
        steps = {step.name for step in self.steps}
        return {where: what for where, what in self.faults.items() if where not in steps}

    @property
    def statuses(self) -> tuple[tuple[str, str, str, AuditStatus], ...]:
        """(derivation, step, kind, status) of every step, then of every loose end of the chain."""
        steps = [(self.name, s.name, s.kind, s.status) for s in self.steps]
        ends = [(self.name, where, "chain", AuditStatus.BROKEN_CHAIN) for where in self.loose_ends]
        return (*steps, *ends)

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON holds."""
        return {
            "name": self.name,
            "title": self.title,
            "ok": self.ok,
            "complete": self.complete,
            "steps": [step.to_dict() for step in self.steps],
            "faults": dict(self.faults),
        }


@dataclass(frozen=True)
class AuditReport:
    """Everything an audit found.

    Attributes
    ----------
    name : str
        What was audited.
    derivations : tuple of DerivationAudit
    claims : tuple of ClaimVerdict
    claim_faults : mapping
        Name of a claim whose verdict could not be computed -> why.
    """

    name: str
    derivations: tuple[DerivationAudit, ...]
    claims: tuple[ClaimVerdict, ...] = ()
    claim_faults: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def ok(self) -> bool:
        """Nothing failed. A claim that does not hold is a finding, one that cannot be judged a failure."""
        return not self.claim_faults and all(d.ok for d in self.derivations)

    @property
    def complete(self) -> bool:
        """No check was left out because it is slow. Simulated steps are the matter of ``validate``."""
        return all(d.complete for d in self.derivations)

    @property
    def steps(self) -> tuple[StepResult, ...]:
        """Outcomes of all steps, derivation after derivation."""
        return tuple(step for d in self.derivations for step in d.steps)

    @property
    def statuses(self) -> tuple[tuple[str, str, str, AuditStatus], ...]:
        """(derivation, step, kind, status) of everything that was audited."""
        return tuple(entry for d in self.derivations for entry in d.statuses)

    @property
    def unprotected(self) -> tuple[tuple[str, str], ...]:
        """(derivation, step) of the assumed steps: a mistake in them would not be found."""
        return self._with_status(AuditStatus.ASSUMED)

    @property
    def simulated(self) -> tuple[tuple[str, str], ...]:
        """(derivation, step) of the steps that only ``validate`` protects."""
        return self._with_status(AuditStatus.SIMULATED)

    def _with_status(self, wanted: AuditStatus) -> tuple[tuple[str, str], ...]:
        return tuple((d, step) for d, step, _, status in self.statuses if status is wanted)

    @property
    def verdict(self) -> str:
        """One sentence: whether all is well, how many steps have which status."""
        statuses = [status for *_, status in self.statuses]
        counts = [f"{statuses.count(s)} {s.value}" for s in AuditStatus if s in statuses]
        parts = [", ".join(counts) if counts else "no steps"]
        if self.claims:
            parts.append(f"{len(self.claims)} claims judged")
        if self.claim_faults:
            parts.append(f"{len(self.claim_faults)} claims could not be judged")
        outcome = "ok" if self.ok else "FAILED"
        return f"{outcome}{'' if self.complete else ', not complete'}: {'; '.join(parts)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON holds."""
        return {
            "name": self.name,
            "ok": self.ok,
            "complete": self.complete,
            "verdict": self.verdict,
            "derivations": [d.to_dict() for d in self.derivations],
            "claims": [claim.to_dict() for claim in self.claims],
            "claim_faults": dict(self.claim_faults),
            "unprotected": [list(entry) for entry in self.unprotected],
            "simulated": [list(entry) for entry in self.simulated],
        }

    def table(self) -> list[tuple[str, str, str, str, str]]:
        """Rows as text: derivation, step, kind, status, detail."""
        rows = []
        for audit in self.derivations:
            rows += [(audit.name, s.name, s.kind, s.status.value, s.detail) for s in audit.steps]
            broken = AuditStatus.BROKEN_CHAIN.value
            rows += [(audit.name, where, "chain", broken, what) for where, what in audit.loose_ends.items()]
        return rows

    def _findings(self) -> list[str]:
        lines = [f"claim {claim.name} {claim}" for claim in self.claims]
        lines += [f"claim {name} could not be judged: {why}" for name, why in self.claim_faults.items()]
        lines += [f"assumed, so unprotected: {step} ({derivation})" for derivation, step in self.unprotected]
        return lines

    def __str__(self) -> str:
        lines = [f"audit of {self.name}"]
        current = None
        for derivation, step, kind, status, detail in self.table():
            if derivation != current:
                lines.append(derivation)
                current = derivation
            lines.append(f"  {status:<12}  {kind:<9}  {step}: {detail}")
        return "\n".join([*lines, *self._findings(), self.verdict])

    def __rich__(self) -> Any:
        """Table for a terminal; imports rich."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(f"audit of {self.name}"))
        for column in ("derivation", "step", "check", "status", "found"):
            table.add_column(column, overflow="fold")
        previous = None
        for derivation, *cells in self.table():
            shown = "" if derivation == previous else derivation
            status = Text(cells[2], style=_STYLES[AuditStatus(cells[2])])
            table.add_row(Text(shown), Text(cells[0]), Text(cells[1]), status, Text(cells[3]))
            previous = derivation
        verdict = Text(self.verdict, style="green" if self.ok else "bold red")
        return Group(table, *(Text(line) for line in self._findings()), verdict)


_STYLES = {
    AuditStatus.PASSED: "green",
    AuditStatus.FAILED: "bold red",
    AuditStatus.ASSUMED: "yellow",
    AuditStatus.SIMULATED: "cyan",
    AuditStatus.NOT_RUN: "yellow",
    AuditStatus.BROKEN_CHAIN: "bold red",
}
