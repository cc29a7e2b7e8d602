"""What can be said of an expression without SymPy: its vectors, its scalars, the size of its matrices."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping

from theorykit.derivations.dyson import expression as ex
from theorykit.derivations.dyson.expression import Expression, Vector

__all__ = ["overlap_name", "overlap_names", "require_numbers", "size_of"]


def overlap_name(left: Vector, right: Vector) -> str:
    """Name of the scalar product of two vectors; the order does not matter."""
    first, second = sorted((left.name, right.name))
    return f"dot_{first}_{second}"


def overlap_names(expression: Expression, *vectors: Vector | None) -> dict[str, tuple[Vector, Vector]]:
    """Names of the scalar products that can occur -> the vectors."""
    found = [v for v in vectors if v is not None]
    for atom in ex.atoms(expression):
        if isinstance(atom, ex.Outer):
            found += [atom.left, atom.right]
    distinct = list(dict.fromkeys(found))
    return {
        overlap_name(a, b): (a, b)
        for i, a in enumerate(distinct)
        for b in distinct[i:]
        if a.dimension == b.dimension
    }


def require_numbers(expression: Expression) -> None:
    """Raise TypeError if a scalar is a symbol: numbers are wanted."""
    if isinstance(expression, ex.Scaled) and not isinstance(expression.scalar, numbers.Real):
        if getattr(expression.scalar, "free_symbols", None):
            raise TypeError(
                f"the scalar {expression.scalar} of {expression!r} is a symbol; numbers need numbers"
            )
    for part in ex.children(expression):
        require_numbers(part)


def size_of(expression: Expression, values: Mapping[str, float]) -> float:
    """Bound on the norm of a rational expression; an inverse counts as 1. At least 1."""
    return max(1.0, _norm(expression, values))


def _norm(expression: Expression, values: Mapping[str, float]) -> float:
    def ratio(dimension: str) -> float:
        return values.get(f"ratio_{dimension}", 1.0)

    if isinstance(expression, ex.Sum):
        return sum(_norm(t, values) for t in expression.terms)
    if isinstance(expression, ex.Product):
        return math.prod(_norm(f, values) for f in expression.factors)
    if isinstance(expression, ex.Scaled):
        return abs(float(expression.scalar)) * _norm(expression.matrix, values)
    if isinstance(expression, ex.Transposed):
        return _norm(expression.matrix, values)
    if isinstance(expression, ex.Wigner):
        return 2 * math.sqrt(ratio(expression.dimension))
    if isinstance(expression, ex.Gaussian):
        return math.sqrt(ratio(expression.rows)) + math.sqrt(ratio(expression.columns))
    if isinstance(expression, ex.Outer):
        squares = [values.get(overlap_name(v, v), 1.0) for v in (expression.left, expression.right)]
        return math.sqrt(abs(squares[0] * squares[1]))
    assert isinstance(expression, ex.Identity | ex.Inverse)
    return 1.0
