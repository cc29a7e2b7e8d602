"""Block traces of the noise resolvent, as a small mapping with attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from theorykit.results import Estimate

__all__ = ["Blocks"]


@dataclass(frozen=True)
class Blocks:
    """Traces over n of Q, QK^T, QK^T H, KQK^T, KQK^T H - 1 and H(KQK^T H - 1), with H = X^T X/n.

    ``blocks.m_uv`` and ``blocks["m_uv"]`` are the same number.
    """

    m_uu: Estimate
    m_uv: Estimate
    m_uw: Estimate
    m_vv: Estimate
    m_vw: Estimate
    m_ww: Estimate

    def keys(self) -> tuple[str, ...]:
        return tuple(f.name for f in fields(self))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __getitem__(self, name: str) -> Estimate:
        if name not in self.keys():
            raise KeyError(f"there is no block {name!r}; the blocks are {', '.join(self.keys())}")
        value: Estimate = getattr(self, name)
        return value

    def items(self) -> tuple[tuple[str, Estimate], ...]:
        return tuple((name, self[name]) for name in self.keys())
