"""Overlaps of the weights with the truth and with each other, and which values are possible."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from theorykit.errors import require_real

__all__ = ["Overlaps"]

_ROUNDING = 8 * 2.0**-52


@dataclass(frozen=True)
class Overlaps:
    """The seven overlaps of (k, v) with (k*, v*) and with each other, |k*|^2 = |v*|^2 = D, k*.v* = 0.

    Raises
    ------
    TypeError, ValueError
        An overlap is no finite number, or no vectors have these overlaps; the message names which and why.
    """

    m_k: float
    q_k: float
    m_v: float
    q_v: float
    m_kv: float = 0.0
    m_vk: float = 0.0
    q_kv: float = 0.0

    def __post_init__(self) -> None:
        for entry in fields(self):
            low = 0 if entry.name in ("q_k", "q_v") else None
            value = require_real(entry.name, getattr(self, entry.name), low=low) + 0.0
            object.__setattr__(self, entry.name, value)
        self._require_vectors("k", self.m_k, self.m_kv, self.q_k, "m_k", "m_kv", "q_k")
        self._require_vectors("v", self.m_v, self.m_vk, self.q_v, "m_v", "m_vk", "q_v")
        self._require_pair()

    @property
    def is_on_manifold(self) -> bool:
        """Whether the cross overlaps vanish."""
        return self.m_kv == 0 and self.m_vk == 0 and self.q_kv == 0

    @property
    def rest_k(self) -> float:
        """Squared length of the part of k orthogonal to k* and v*, over D."""
        return max(0.0, math.fsum([self.q_k, -self.m_k * self.m_k, -self.m_kv * self.m_kv]))

    @property
    def rest_v(self) -> float:
        """Squared length of the part of v orthogonal to k* and v*, over D."""
        return max(0.0, math.fsum([self.q_v, -self.m_v * self.m_v, -self.m_vk * self.m_vk]))

    @property
    def rest_kv(self) -> float:
        """Product of the two orthogonal parts."""
        return math.fsum([self.q_kv, -self.m_k * self.m_vk, -self.m_kv * self.m_v])

    @staticmethod
    def _require_vectors(
        name: str, m: float, cross: float, q: float, m_name: str, cross_name: str, q_name: str
    ) -> None:
        least = m * m + cross * cross
        if least > q * (1 + _ROUNDING):
            also = f" + {cross_name}**2" if cross else ""
            raise ValueError(
                f"{q_name} must be at least {m_name}**2{also} = {least!r} (|{name}|^2 is at least the square of its "
                f"projections), got {q_name} = {q!r} with {m_name} = {m!r}"
            )

    def _require_pair(self) -> None:
        largest = self.rest_k * self.rest_v
        slack = _ROUNDING * (self.q_k * self.q_v + 1e-300)
        if self.rest_kv**2 > largest + slack:
            bound = math.sqrt(largest)
            centre = self.m_k * self.m_vk + self.m_kv * self.m_v
            raise ValueError(
                f"q_kv must be in [{centre - bound!r}, {centre + bound!r}] given the other overlaps, got {self.q_kv!r}"
            )
