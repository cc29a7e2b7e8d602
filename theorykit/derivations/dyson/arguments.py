"""What atoms and scalars of an expression may be; no SymPy here."""

from __future__ import annotations

import math
import numbers
from typing import Any

__all__ = ["require_name", "require_scalar"]


def require_scalar(value: Any) -> Any:
    """A real number or a SymPy expression; anything else is refused."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ValueError(f"a scalar of an expression must be finite, got {value!r}")
        return value
    if hasattr(value, "free_symbols") and hasattr(value, "is_commutative"):
        return value
    raise TypeError(
        f"a scalar of an expression must be a real number or a SymPy expression, got {value!r} "
        f"({type(value).__name__})"
    )


def require_name(label: str, value: Any) -> None:
    """Refuse what cannot be the name of a matrix, a vector or a dimension."""
    if not isinstance(value, str) or not value.isidentifier():
        raise TypeError(f"{label} must be a name (letters, digits, underscores), got {value!r}")
