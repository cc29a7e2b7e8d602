"""The two tasks of single-location regression: where the informative token is, and how strongly it is marked.

Both draw a sequence of L tokens in D dimensions and a hidden location among them; the label is the projection
of the token there on a hidden direction, y = X_loc v*/sqrt(D) + noise xi.  The tasks differ in the law of the
location given the projections chi* = X k*/sqrt(D) on a second hidden direction (arXiv 2509.21936).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from theorykit.errors import require_integer, require_real
from theorykit.records import Record

__all__ = ["LONGEST", "Max", "Spiked", "Task"]

#: Longest sequence the formulas are tested for; nothing in them grows with it.
LONGEST = 10**6
_ROUNDING = 1e-12  # how far probabilities may be from summing to one

Length = int | tuple[tuple[int, float], ...]


@dataclass(frozen=True, repr=False)
class Task(Record):
    """What both tasks share: signal strength, length of the sequence, label noise."""

    nu: float
    length: Any
    noise: float = 0.0

    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "nu", self._checked_nu(self.nu) + 0.0)  # + 0.0 turns -0.0 into 0.0
        object.__setattr__(self, "length", _checked_length(self.length))
        object.__setattr__(self, "noise", require_real("noise", self.noise, low=0) + 0.0)

    @staticmethod
    def _checked_nu(nu: Any) -> float:
        return require_real("nu", nu, low=0, allow_inf=True)

    @property
    def lengths(self) -> tuple[tuple[int, float], ...]:
        """Pairs (L, probability), by increasing L; one pair where the length is fixed."""
        return self.length if isinstance(self.length, tuple) else ((self.length, 1.0),)

    @property
    def mean_length(self) -> float:
        """E L."""
        return math.fsum(size * probability for size, probability in self.lengths)

    def _written(self, name: str) -> str:
        if name == "length" and isinstance(self.length, tuple):
            return repr(dict(self.length))
        return super()._written(name)


@dataclass(frozen=True, repr=False)
class Spiked(Task):
    """Spiked task: the token at the hidden location is shifted, X_loc = sqrt(nu) k*/sqrt(D) + N(0, I).

    Parameters
    ----------
    nu : float
        Strength of the shift, in [0, inf).
    length : int or mapping from int to float
        Number of tokens, 1 to 10**6, or the probability of each number of tokens.
    noise : float
        Standard deviation of the label noise, at least 0.

    Examples
    --------
    >>> Spiked(nu=4, length={2: 0.5, 1: 0.5}).replace(noise=0.3)
    Spiked(nu=4.0, length={1: 0.5, 2: 0.5}, noise=0.3)
    """

    name: ClassVar[str] = "spiked"

    @staticmethod
    def _checked_nu(nu: Any) -> float:
        try:
            return require_real("nu", nu, low=0)
        except ValueError as refusal:
            if nu != math.inf:
                raise
            raise ValueError(
                f"{refusal}: for Spiked an infinite shift is degenerate, all risks tend to their limits "
                "(the Bayes risk to the label noise); use a large nu"
            ) from None


@dataclass(frozen=True, repr=False)
class Max(Task):
    """Max task: tokens are i.i.d. N(0, I), the location is drawn with probabilities softmax(nu chi*).

    Parameters
    ----------
    nu : float
        Inverse temperature, in [0, inf]; at ``math.inf`` the location is that of the largest chi*.
    length : int or mapping from int to float
        Number of tokens, 1 to 10**6, or the probability of each number of tokens.
    noise : float
        Standard deviation of the label noise, at least 0.

    Examples
    --------
    >>> Max(nu=float("inf"), length=3)
    Max(nu=float('inf'), length=3, noise=0.0)
    """

    name: ClassVar[str] = "max"


def _checked_length(length: Any) -> Length:
    if isinstance(length, Mapping):
        return _checked_distribution(list(length.items()))
    if isinstance(length, (tuple, list)):
        return _checked_distribution(_pairs(length))
    return require_integer("length", length, low=1, high=LONGEST)


def _pairs(entries: Iterable[Any]) -> list[tuple[Any, Any]]:
    pairs = list(entries)
    for pair in pairs:
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise TypeError(
                "length must be an integer, a mapping from length to probability, or pairs of both, "
                f"got {pair!r} in it"
            )
    return [(size, probability) for size, probability in pairs]


def _checked_distribution(pairs: list[tuple[Any, Any]]) -> Length:
    found: dict[int, float] = {}
    for key, value in pairs:
        size = require_integer("length", key, low=1, high=LONGEST)
        if size in found:
            raise ValueError(f"length must give one probability per number of tokens, got {size} twice")
        found[size] = require_real(f"length[{size}], a probability,", value, low=0, high=1)
    total = math.fsum(found.values())
    if abs(total - 1.0) > _ROUNDING:
        allowed = f"length must have probabilities that sum to 1 (within {_ROUNDING:g})"
        raise ValueError(f"{allowed}, got the sum {total!r}")
    kept = tuple(sorted((size, probability) for size, probability in found.items() if probability > 0.0))
    return kept[0][0] if len(kept) == 1 else kept
