r"""Low-rank deterministic terms: quadratic forms and outliers of the whole matrix from its noise part.

By the isotropic law :math:`a^\top(L_0^{-1})_{ij}b\to(a\cdot b)M_{ij}` for the pencil without spikes. The spikes couple
finitely many directions (a vector at a block) by a symmetric matrix T, so with R the limits between the directions

.. math:: V^\top L^{-1}V=(1+RT)^{-1}R,

and the matrix has an eigenvalue outside its bulk where :math:`\det(1+RT)` vanishes. Directions that are forbidden
(a mean component of infinite strength) are bordered: one multiplier for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy as sp

from theorykit.derivations.dyson.equations import DysonSystem
from theorykit.derivations.dyson.expression import Vector
from theorykit.derivations.dyson.names import overlap_name
from theorykit.derivations.matrices import Determinant, Entry, product

__all__ = ["Direction", "SpikedSystem", "overlap_symbol", "spiked_system"]

Direction = tuple[Vector, int]


def overlap_symbol(left: Vector, right: Vector) -> sp.Symbol:
    """The scalar product of two vectors; the order does not matter."""
    return sp.Symbol(overlap_name(left, right), real=True)


@dataclass(frozen=True)
class SpikedSystem:
    """The finite system of the directions that spikes touch.

    Attributes
    ----------
    directions : (vector, number of the block) of every row
    isotropic : R, limits of the noise part between directions
    coupling : T
    forbidden : columns of the multipliers, as numbers of directions
    """

    directions: tuple[Direction, ...]
    isotropic: sp.ImmutableDenseMatrix
    coupling: sp.ImmutableDenseMatrix
    forbidden: tuple[int, ...] = ()

    @property
    def matrix(self) -> sp.ImmutableDenseMatrix:
        """The bordered matrix ((1 + R T, R B), (B^T, 0))."""
        size, extra = len(self.directions), len(self.forbidden)
        top = sp.eye(size) + self.isotropic * self.coupling
        if not extra:
            return sp.ImmutableDenseMatrix(top)
        border = sp.zeros(size, extra)
        for column, row in enumerate(self.forbidden):
            border[row, column] = 1
        top = top.row_join(self.isotropic * border)
        return sp.ImmutableDenseMatrix(top.col_join(border.T.row_join(sp.zeros(extra, extra))))

    def quadratic_form(self, left: Direction, right: Direction) -> sp.Expr:
        """Limit of left^T (L^{-1}) right between two of the directions."""
        column = list(self.isotropic[:, self.directions.index(right)]) + [sp.Integer(0)] * len(self.forbidden)
        solved = product(sp.Inverse(self.matrix), sp.ImmutableDenseMatrix(column))
        return Entry(solved, self.directions.index(left), 0)

    def component(self, direction: Direction, values: Mapping[sp.Symbol, sp.Expr]) -> SpikedSystem:
        """What a direction is connected with where symbols have the given values: the others do not matter for it.

        Forbidden directions stay, with all that they are connected with.
        """
        isotropic, coupling = self.isotropic.xreplace(dict(values)), self.coupling.xreplace(dict(values))
        size = len(self.directions)
        kept = {self.directions.index(direction), *self.forbidden}
        while True:
            near = {
                j for i in kept for j in range(size) if isotropic[i, j] != 0 or coupling[i, j] != 0
            } | kept
            if near == kept:
                break
            kept = near
        rows = sorted(kept)
        return SpikedSystem(
            tuple(self.directions[i] for i in rows),
            sp.ImmutableDenseMatrix(isotropic.extract(rows, rows)),
            sp.ImmutableDenseMatrix(coupling.extract(rows, rows)),
            tuple(rows.index(i) for i in self.forbidden),
        )

    @property
    def determinant(self) -> sp.Expr:
        """Vanishes at the outliers."""
        return Determinant(self.matrix)


def spiked_system(
    system: DysonSystem,
    also: Sequence[Direction] = (),
    overlaps: Mapping[frozenset[Vector], sp.Expr] | None = None,
    forbidden: Sequence[Direction] = (),
) -> SpikedSystem:
    """Directions of the spikes of a pencil, and those asked for.

    Parameters
    ----------
    system : DysonSystem
    also : further directions, to take quadratic forms between
    overlaps : {a, b} -> scalar product ({a}: square); symbols where not given
    forbidden : directions in which the solution must vanish
    """
    given = dict(overlaps or {})
    spikes = system.pencil.spikes
    found = [d for s in spikes for d in ((s.left, s.i), (s.right, s.j))]
    directions = tuple(dict.fromkeys([*also, *found, *forbidden]))
    number = {d: i for i, d in enumerate(directions)}

    def limit(a: int, b: int) -> sp.Expr:
        (v, i), (w, j) = directions[a], directions[b]
        block = system.block(i, j)
        return block and block * given.get(frozenset((v, w)), overlap_symbol(v, w))

    size = len(directions)
    coupling = sp.zeros(size, size)
    for spike in spikes:
        a, b = number[spike.left, spike.i], number[spike.right, spike.j]
        coupling[a, b] += spike.strength
        if a != b:
            coupling[b, a] += spike.strength
    return SpikedSystem(
        directions,
        sp.ImmutableDenseMatrix(size, size, limit),
        sp.ImmutableDenseMatrix(coupling),
        tuple(number[d] for d in forbidden),
    )
