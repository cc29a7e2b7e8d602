"""Where the risk of a key along k* is smallest, on a coarse scale: a bracket, or no end to its fall.

The scan is logarithmic, on both sides of 0. It goes on towards 0 while the risk falls there, and outwards until the
risk rises or approaches a limit like 1/m_k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from theorykit.errors import ConvergenceError
from theorykit.single_location.minimum import lowest

if TYPE_CHECKING:
    from theorykit.single_location.moments import Grids

__all__ = ["FLAT", "Bracket", "mirrored", "scan", "union"]

_FIRST = (0.1, 0.3, 1.0, 3.0)
_OPPOSITE = (0.1, 1.0)  # where the other sign of m_k is tried at first
_NEAR = (0.03, 0.01, 0.003, 0.001)  # probed, on both sides, while the risk still falls towards 0
_FACTOR = 2.0  # from one probe to the next outwards
_LEAST_FACTOR = 1.05  # between the last key whose moments exist and the first whose do not
_FARTHEST = 1e12
_LEVELLING = 0.67  # of one fall over the one before, where the risk approaches a limit
_LEVEL_FROM = 30.0
FLAT = 2e-14  # risks closer than this are equal


class Probed(Protocol):
    """What is scanned."""

    @property
    def scale(self) -> float: ...

    def quick(self, m_k: float, grids: Grids) -> float: ...

    def needs_finer(self, risk: float) -> bool:
        """Whether grids must be finer than so far to tell keys of such risks apart; they are from then on."""
        ...

    def search_grids(self, m_k: float, near: Grids | None = None) -> Grids: ...


@dataclass(frozen=True)
class Bracket:
    """Keys around the lowest probed risk; ``is_open`` where it still fell at the last of them.

    All lie on one side of 0, or the middle one is 0, or one of the outer ones is.
    """

    low: float
    best: float
    high: float
    risk: float
    grids: Grids
    is_open: bool = False


def scan(probed: Probed) -> Bracket:
    """The bracket of the smallest risk over all keys along k*.

    Raises
    ------
    ConvergenceError
        The risk falls up to a key beyond which its moments do not exist or cannot be computed.
    """
    run = _Scan(probed)
    run.start()
    if probed.needs_finer(min(run.risks.values())):
        run = _Scan(probed)
        run.start()
    while True:
        found = run.bracket()
        if found.best != 0 and found.best in (found.low, found.high):
            if run.is_levelling(found.best):
                return replace(found, is_open=True)
            run.probe_beyond(found.best)
        elif 0.0 in (found.low, found.best, found.high) and run.near:
            run.probe_near()
        else:
            return found


@dataclass
class _Scan:
    probed: Probed
    risks: dict[float, float] = field(default_factory=dict)
    near: list[float] = field(default_factory=lambda: list(_NEAR))
    factor: float = _FACTOR
    grids: Grids = field(default_factory=dict)
    wide: Grids = field(default_factory=dict)  # of the first keys
    local: dict[float, Grids] = field(default_factory=dict)  # of single keys

    def start(self) -> None:
        """The first keys, up to the largest one whose moments can be computed."""
        keys = list(_FIRST)
        while True:
            try:
                self.grids = self.wide = self._wide_grids(keys[-1])
                break
            except ConvergenceError:
                if len(keys) == 1:
                    raise
                keys.pop()
        self._probe(0.0, *keys, *(-m for m in _OPPOSITE if m <= keys[-1]))
        if lowest(self.risks, FLAT) < 0:
            self.local[-keys[-1]] = self.probed.search_grids(-keys[-1], self.wide)
            self.grids = union(self.grids, self.local[-keys[-1]])
            self._probe(*(-m for m in keys if -m not in self.risks))

    def _wide_grids(self, largest: float) -> Grids:
        self.local[largest] = first = self.probed.search_grids(largest)
        return mirrored(union(first, self.probed.search_grids(-min(largest, _OPPOSITE[-1]), first)))

    def _probe(self, *keys: float) -> None:
        self.risks |= {m: self.probed.quick(m, self.grids) for m in keys}

    def bracket(self) -> Bracket:
        best = lowest(self.risks, FLAT)
        order = sorted(self.risks)
        position = order.index(best)
        low, high = order[max(position - 1, 0)], order[min(position + 1, len(order) - 1)]
        return Bracket(low, best, high, self.risks[best], self._grids_between(low, best, high))

    def _grids_between(self, *keys: float) -> Grids:
        """Grids that hold the integrals of the keys, as fine as the middle one needs: outer ones may be steep."""
        own = [self.local.get(m, self.wide) for m in keys]
        return {
            n: {v: replace(i, step=own[1][n][v].step) for v, i in intervals.items()}
            for n, intervals in union(*own).items()
        }

    def probe_near(self) -> None:
        m = self.near.pop(0)
        self._probe(m, -m)

    def probe_beyond(self, end: float) -> None:
        """A key farther out than the last one, less far where the moments cannot be computed."""
        if abs(end) > _FARTHEST:
            raise ConvergenceError(
                f"the risk falls up to m_k = {end:.3g}", last=end, residual=math.inf, steps=0, start="scan"
            )
        try:
            more = self.probed.search_grids(end * self.factor, self.local.get(end))
        except ConvergenceError as error:
            self.factor = math.sqrt(self.factor)
            if self.factor < _LEAST_FACTOR:
                raise ConvergenceError(
                    f"the risk falls up to m_k = {end:.4g}, and beyond it no moments can be had: {error}",
                    last=end,
                    residual=math.inf,
                    steps=0,
                    start="scan",
                ) from error
            return
        self.local[end * self.factor] = more
        self.grids = union(self.grids, more)
        self._probe(end * self.factor)

    def is_levelling(self, end: float) -> bool:
        """Whether the last falls of the risk shrink as they do on the way to a limit."""
        if abs(end) < _LEVEL_FROM * max(1.0, self.probed.scale / 10):
            return False
        side = sorted((m for m in self.risks if m * end > 0), key=abs)
        last = [self.risks[m] for m in side[-3:]]
        return last[1] - last[2] <= _LEVELLING * (last[0] - last[1])


def mirrored(grids: Grids) -> Grids:
    """Grids that hold the integrals of the opposite key as well: Gaussian fields on both sides alike."""
    return {
        n: {
            v: i if v.startswith("log_") else replace(i, low=-max(-i.low, i.high), high=max(-i.low, i.high))
            for v, i in intervals.items()
        }
        for n, intervals in grids.items()
    }


def union(*choices: Grids) -> Grids:
    """Intervals that hold those of all choices, with the finest steps."""
    first = choices[0]
    return {
        n: {
            v: replace(
                first[n][v],
                low=min(c[n][v].low for c in choices),
                high=max(c[n][v].high for c in choices),
                step=min(c[n][v].step for c in choices),
            )
            for v in first[n]
        }
        for n in first
    }
