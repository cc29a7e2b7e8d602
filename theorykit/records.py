"""Frozen records of parameters: how they print, and how a neighbour is made.

The parameters of every theory are frozen dataclasses that derive from :class:`Record`.  They hash, pickle
and compare by value, their ``repr`` rebuilds them, and ``replace`` checks the names it is given.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import fields
from typing import Any, Self

__all__ = ["Record", "near_matches"]


def near_matches(name: str, known: list[str] | tuple[str, ...]) -> str:
    """``; did you mean 'x'?`` where a known name is close to ``name``, else the list of all of them."""
    near = difflib.get_close_matches(name, known, n=2)
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    return f"; known: {', '.join(known)}" if known else ""


class Record:
    """Base of the parameter records; subclasses are ``@dataclass(frozen=True, repr=False)``."""

    __slots__ = ()

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """Names of the parameters, in the order of the constructor."""
        return tuple(f.name for f in fields(cls) if f.init)  # type: ignore[arg-type]

    def replace(self, **changes: Any) -> Self:
        """A record with some parameters changed; everything is validated again.

        Raises
        ------
        TypeError
            For a name that is no parameter of this record.
        """
        known = self.field_names()
        for name in changes:
            if name not in known:
                raise TypeError(f"{type(self).__name__} has no parameter {name!r}{near_matches(name, known)}")
        return type(self)(**{name: changes.get(name, getattr(self, name)) for name in known})

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={self._written(name)}" for name in self.field_names())
        return f"{type(self).__name__}({arguments})"

    def _written(self, name: str) -> str:
        """The value of one parameter as Python source that needs no import."""
        value = getattr(self, name)
        if isinstance(value, float) and math.isinf(value):
            return f"float('{value}')"
        return repr(value)
