"""Numbers for expressions and pencils on random matrices of moderate size: what a pencil is checked with.

The identity between an expression and the corner of its pencil is exact at every size, so one draw decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from theorykit.derivations.dyson import expression as ex
from theorykit.derivations.dyson.expression import Expression, Vector
from theorykit.errors import DerivationError

if TYPE_CHECKING:
    from theorykit.derivations.dyson.pencil import Pencil

__all__ = ["Draw", "corner_mismatch", "evaluate", "require_symmetric"]

_SIZE = 12
_TOLERANCE = 1e-8
_WORST_CONDITION = 1e10
#: What dimensions differ by from n: whether a product of rectangular matrices can be inverted depends on it.
_OFFSETS = ((1, 2, 3, 4, 5), (-1, -2, -3, -4, -5), (-4, 3, -2, 5), (3, -4, 5, -2))


class Draw:
    """Random matrices and vectors by name, all of one seed; dimensions of about ``size``.

    Parameters
    ----------
    offsets : tuple of int
        Dimensions other than n are longer than it by one of these numbers.
    """

    def __init__(self, seed: int, size: int = _SIZE, offsets: tuple[int, ...] = _OFFSETS[0]) -> None:
        self._seed, self._size, self._offsets = seed, size, offsets
        self._known: dict[Any, np.ndarray] = {}

    def dimension(self, name: str) -> int:
        """n is ``size``; other dimensions differ from it and, mostly, from one another."""
        if name == "n":
            return self._size
        choice = int(hashlib.sha256(name.encode()).hexdigest(), 16) % len(self._offsets)
        return self._size + self._offsets[choice]

    def __call__(self, atom: ex.Wigner | ex.Gaussian | Vector) -> np.ndarray:
        if atom not in self._known:
            key = int(hashlib.sha256(repr(atom).encode()).hexdigest()[:12], 16)
            generator = np.random.default_rng([self._seed, key])
            self._known[atom] = self._drawn(atom, generator)
        return self._known[atom]

    def _drawn(self, atom: ex.Wigner | ex.Gaussian | Vector, generator: np.random.Generator) -> np.ndarray:
        scale = 1 / np.sqrt(self._size)
        if isinstance(atom, Vector):
            return scale * generator.standard_normal(self.dimension(atom.dimension))
        shape = (self.dimension(atom.rows), self.dimension(atom.columns))
        matrix = scale * generator.standard_normal(shape)
        return (matrix + matrix.T) / np.sqrt(2) if isinstance(atom, ex.Wigner) else matrix


def evaluate(expression: Expression, matrices: Draw, values: Mapping[sp.Symbol, float]) -> np.ndarray:
    """An expression on drawn matrices; ``values`` for the symbols in its scalars."""
    if isinstance(expression, ex.Scaled):
        scalar = complex(sp.sympify(expression.scalar).xreplace(dict(values)))
        return (scalar if scalar.imag else scalar.real) * evaluate(expression.matrix, matrices, values)
    if isinstance(expression, ex.Sum):
        return sum(evaluate(t, matrices, values) for t in expression.terms)  # type: ignore[return-value]
    if isinstance(expression, ex.Product):
        return np.linalg.multi_dot([evaluate(f, matrices, values) for f in expression.factors])
    if isinstance(expression, ex.Inverse):
        inside = evaluate(expression.matrix, matrices, values)
        if np.linalg.cond(inside) > _WORST_CONDITION:
            raise np.linalg.LinAlgError(f"{expression.matrix!r} is singular")
        return np.linalg.inv(inside)
    if isinstance(expression, ex.Identity):
        return np.eye(matrices.dimension(expression.dimension))
    if isinstance(expression, ex.Outer):
        return np.outer(matrices(expression.left), matrices(expression.right))
    if isinstance(expression, ex.Transposed):
        return matrices(expression.matrix).T
    if isinstance(expression, ex.Wigner | ex.Gaussian):
        return matrices(expression)
    raise DerivationError(f"{expression!r} has no value")


def _seeded_values(symbols: set[Any], seed: int) -> dict[Any, float]:
    """Positive numbers near 1 for the symbols of the scalars."""
    ordered = sorted(symbols, key=str)
    numbers = np.random.default_rng([seed, 1]).uniform(0.5, 1.5, len(ordered))
    return {s: sp.Float(float(v)) for s, v in zip(ordered, numbers, strict=True)}


def _symbols(expression: Expression) -> set[Any]:
    own = set(sp.sympify(expression.scalar).free_symbols) if isinstance(expression, ex.Scaled) else set()
    return own.union(*map(_symbols, ex.children(expression)))


def draw_for(expression: Expression, seed: int, values: Mapping[sp.Symbol, float]) -> tuple[Draw, np.ndarray]:
    """A draw on which every inverse of the expression exists, and the value of the expression there.

    Raises
    ------
    ValueError
        An inverse is singular whichever dimensions are longer than n.
    """
    for offsets in _OFFSETS:
        matrices = Draw(seed, offsets=offsets)
        try:
            return matrices, evaluate(expression, matrices, values)
        except np.linalg.LinAlgError:
            continue
    raise ValueError(f"expr holds the inverse of a singular matrix: {expression!r}")


def require_symmetric(expression: Expression) -> None:
    """Raise ValueError unless an expression equals its transpose, on random matrices.

    Also where two atoms of one name have different shapes: they could not be told apart.
    """
    _require_distinct_names(expression)
    if not expression.is_square:
        raise ValueError(
            f"expr must be square, got a {expression.rows}×{expression.columns} matrix: {expression!r}"
        )
    _, value = draw_for(expression, 0, _seeded_values(_symbols(expression), 0))
    if not np.all(np.isfinite(value)):
        raise ValueError(f"expr has no finite value on random matrices: {expression!r}")
    if np.max(np.abs(value - value.T)) > _TOLERANCE * np.max(np.abs(value)):
        raise ValueError(f"expr must be symmetric (equal to its transpose), got {expression!r}")


def _require_distinct_names(expression: Expression) -> None:
    known: dict[str, Any] = {}
    for atom in ex.atoms(expression):
        items = (atom.left, atom.right) if isinstance(atom, ex.Outer) else (atom,)
        for item in items:
            item = item.matrix if isinstance(item, ex.Transposed) else item
            if isinstance(item, ex.Identity):
                continue
            if known.setdefault(item.name, item) != item:
                raise ValueError(f"{item.name!r} names two things: {known[item.name]!r} and {item!r}")


def corner_mismatch(pencil: Pencil, seed: int = 0) -> float:
    """Largest relative difference between (expression - z)^{-1} and the corner of the inverse pencil."""
    free = set(pencil.constant.free_symbols) | set(sp.sympify(pencil.z).free_symbols)
    for coupling in pencil.couplings:
        free |= coupling.pattern.free_symbols
    for spike in pencil.spikes:
        free |= sp.sympify(spike.strength).free_symbols
    values = _seeded_values(free | _symbols(pencil.expression), seed)
    matrices, value = draw_for(pencil.expression, seed, values)
    full, sizes = _assemble(pencil, matrices, values)
    z = float(sp.sympify(pencil.z).xreplace(values))
    direct = np.linalg.inv(value - z * np.eye(sizes[0]))
    corner = np.linalg.inv(full)[: sizes[0], : sizes[0]]
    return float(np.max(np.abs(corner - direct)) / np.max(np.abs(direct)))


def _assemble(pencil: Pencil, matrices: Draw, values: Mapping[Any, Any]) -> tuple[np.ndarray, list[int]]:
    sizes = [matrices.dimension(v.dimension) for v in pencil.variables]
    edges = np.concatenate([[0], np.cumsum(sizes)])
    full = np.zeros((edges[-1], edges[-1]))

    def block(i: int, j: int) -> np.ndarray:
        return full[edges[i] : edges[i + 1], edges[j] : edges[j + 1]]

    count = len(sizes)
    for i in range(count):
        for j in range(count):
            constant = float(pencil.constant[i, j].xreplace(values))
            if constant:
                block(i, j)[...] += constant * np.eye(sizes[i])
            for coupling in pencil.couplings:
                c = float(coupling.pattern[i, j].xreplace(values))
                if c:
                    block(i, j)[...] += c * matrices(coupling.matrix)
                    if isinstance(coupling.matrix, ex.Gaussian):
                        block(j, i)[...] += c * matrices(coupling.matrix).T
    for spike in pencil.spikes:
        term = float(sp.sympify(spike.strength).xreplace(values)) * np.outer(
            matrices(spike.left), matrices(spike.right)
        )
        block(spike.i, spike.j)[...] += term
        if (spike.i, spike.left) != (spike.j, spike.right):
            block(spike.j, spike.i)[...] += term.T
    return full, sizes
