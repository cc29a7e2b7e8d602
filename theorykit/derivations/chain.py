"""Steps written one after the other: the left side of each is the right side of the previous one."""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy as sp

from theorykit.derivations.ledger import Check, Definition, Derivation, Equations, Step

__all__ = ["Chain"]


@dataclass
class Chain:
    """Definitions and steps of a derivation while it is written.

    ``results`` maps a symbol to the right side at the end of its chain so far. A step is called by what it
    does, followed by the symbol in brackets.
    """

    definitions: list[Definition] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    results: dict[sp.Expr, sp.Expr] = field(default_factory=dict)
    _last: dict[sp.Expr, str] = field(default_factory=dict)

    def define(self, symbol: sp.Expr, expression: sp.Expr, meaning: str) -> None:
        """Begin the chain of a symbol with what it stands for."""
        self.definitions.append(Definition(symbol, expression, meaning))
        self.results[symbol], self._last[symbol] = expression, str(symbol)

    def add(
        self,
        symbol: sp.Expr,
        name: str,
        rhs: sp.Expr,
        reason: str,
        check: Check,
        also: tuple[sp.Expr, ...] = (),
    ) -> None:
        """The next step of the chain of a symbol; ``also`` are further symbols whose last steps it uses."""
        full = f"{name} ({str(symbol).replace('_', ' ')})"
        premises = (self._last[symbol], *(self._last[s] for s in also))
        self.steps.append(Step(full, self.results[symbol], rhs, premises, reason, check))
        self.results[symbol], self._last[symbol] = rhs, full

    def conclude(self, title: str, source: str, record: Equations, notes: str = "") -> Derivation:
        """The finished derivation, called like the record it ends in."""
        return Derivation(
            record.name, title, source, tuple(self.definitions), tuple(self.steps), record, notes
        )
