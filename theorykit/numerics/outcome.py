"""How a compiled loop ended: an integer that machine code returns, and what it means in words."""

from __future__ import annotations

import enum

__all__ = ["Outcome"]


class Outcome(enum.IntEnum):
    """Base of such integers: a member is declared as ``NAME = value, "message"``."""

    message: str

    def __new__(cls, value: int, message: str) -> Outcome:
        member = int.__new__(cls, value)
        member._value_ = value
        member.message = message
        return member
