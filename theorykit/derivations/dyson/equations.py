r"""Dyson equations of a pencil: the limits of the normalized traces of the blocks of its inverse.

For each dimension t with ratio :math:`d_t=\dim_t/n`, and M its matrix of normalized block traces,

.. math:: M_t=\Big(A_t-\sum v\,d_s\,C M_s C^\top\Big)^{-1},

a sum over the random matrices that lead from t to s, with pattern C and entry variance v/n. Traces of different
dimensions vanish, and :math:`a^\top(L^{-1})_{ij}b\to (a\cdot b)M_{ij}` for deterministic vectors (isotropic law).

Few unknowns: M is symmetric, only a feedback set of dimensions is unknown (the others are explicit functions of
them), and entries that vanish by the signs of the random matrices are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import sympy as sp

from theorykit.derivations.dyson.expression import Gaussian
from theorykit.derivations.dyson.pencil import Pencil
from theorykit.derivations.ledger import Quantity
from theorykit.derivations.matrices import Entry, Matrix, inverse
from theorykit.errors import DerivationError

__all__ = ["DysonSystem", "dyson_system", "ratio_symbol"]


def ratio_symbol(dimension: str) -> sp.Expr:
    """Ratio of a dimension to n: 1 for n itself."""
    return sp.Integer(1) if dimension == "n" else sp.Symbol(f"ratio_{dimension}", positive=True)


@dataclass(frozen=True)
class DysonSystem:
    """The equations of the blocks of a pencil.

    Attributes
    ----------
    pencil : Pencil
    ratios : dimension -> its ratio to n
    unknowns : symbols of the unknown entries
    equations : unknown -> right side of its fixed-point equation
    explicit : symbol of another entry -> what it is in terms of the unknowns
    traces : dimension -> (blocks that are kept, matrix of the symbols of their normalized traces)
    start : unknown -> its value without random matrices
    sources : dimension -> right side of its matrix equation
    shift : symbol subtracted, times i, from all kept diagonal blocks (the branch is found with it); 0: none
    """

    pencil: Pencil
    ratios: Mapping[str, sp.Expr]
    unknowns: tuple[sp.Symbol, ...]
    equations: Mapping[sp.Symbol, sp.Expr]
    explicit: Mapping[sp.Symbol, sp.Expr]
    traces: Mapping[str, tuple[tuple[int, ...], sp.ImmutableDenseMatrix]]
    start: Mapping[sp.Symbol, sp.Expr]
    sources: Mapping[str, Matrix]
    shift: sp.Expr

    def block(self, i: int, j: int) -> sp.Expr:
        """Isotropic limit of block (i, j) of the inverse of the pencil without its spikes."""
        variables = self.pencil.variables
        if variables[i].dimension != variables[j].dimension:
            return sp.Integer(0)
        kept, matrix = self.traces[variables[i].dimension]
        gone = [e for e in self.pencil.eliminable if variables[e].dimension == variables[i].dimension]
        constant = self.pencil.constant
        index = [*kept, *gone]
        if i in kept and j in kept:
            return matrix[kept.index(i), kept.index(j)]
        inside = constant.extract(gone, gone).inv()
        lift = -inside * constant.extract(gone, list(kept))
        values = sp.Matrix(matrix)
        full = sp.BlockMatrix([[values, values * lift.T], [lift * values, inside + lift * values * lift.T]])
        return sp.expand(full.as_explicit()[index.index(i), index.index(j)])

    @property
    def corner(self) -> sp.Expr:
        """Limit of tr (expr - z)^{-1}/dimension."""
        return self.block(0, 0)

    @property
    def matrices(self) -> tuple[sp.ImmutableDenseMatrix, ...]:
        """Matrices of the unknown traces: their imaginary part is positive where that of z is."""
        unknown = set(self.unknowns)
        return tuple(m for _, m in self.traces.values() if m.free_symbols <= unknown)

    def symbols(self) -> tuple[Quantity, ...]:
        """Rows of a symbol table for the unknowns."""
        rows = []
        for unknown in (*self.unknowns, *self.explicit):
            pair = unknown.name.removeprefix("m_")
            meaning = f"limit of the normalized trace of block ({', '.join(pair)}) of the inverse pencil"
            rows.append(Quantity(unknown, f"m_{{{pair}}}", meaning, "complex"))
        return tuple(rows)

    def latex(self) -> str:
        """The fixed-point equations, matrix by matrix."""
        lines = []
        for dimension, (kept, matrix) in self.traces.items():
            names = "".join(self.pencil.variables[i].name for i in kept)
            right = sp.latex(self.sources[dimension])
            lines.append(rf"M_{{{names}}} = {sp.latex(matrix)} &= {right}")
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"

    def _repr_latex_(self) -> str:
        return f"$${self.latex()}$$"


def dyson_system(
    pencil: Pencil, ratios: Mapping[str, sp.Expr] | None = None, shift: sp.Expr = sp.S.Zero
) -> DysonSystem:
    """Dyson equations of the blocks of a pencil (its spikes do not matter for them).

    Parameters
    ----------
    pencil : Pencil
    ratios : mapping, optional
        Dimension -> ratio to n, as a symbol or number; default: symbols ``ratio_p``.
    shift : SymPy expression
        ``i * shift`` is subtracted from every kept diagonal block.
    """
    given = dict(ratios or {})
    ratios = {d: sp.sympify(given.get(d, ratio_symbol(d))) for d in pencil.dimensions}
    builder = _Builder(pencil, ratios, shift)
    return builder.system()


class _Builder:
    """Steps from a pencil to its equations."""

    def __init__(self, pencil: Pencil, ratios: Mapping[str, sp.Expr], shift: sp.Expr) -> None:
        self.pencil, self.ratios, self.shift = pencil, ratios, shift
        gone = list(pencil.eliminable)
        kept = [i for i in range(len(pencil.variables)) if i not in gone]
        self.kept = {d: tuple(i for i in pencil.indices(d) if i in kept) for d in pencil.dimensions}
        constant = sp.Matrix(pencil.constant)
        if gone:
            column = constant.extract(list(range(constant.rows)), gone)
            constant = constant - column * constant.extract(gone, gone).inv() * column.T
        self.constant = constant.applyfunc(sp.cancel)

    def deterministic(self, dimension: str) -> sp.ImmutableDenseMatrix:
        index = list(self.kept[dimension])
        inside = self.constant.extract(index, index) - sp.I * self.shift * sp.eye(len(index))
        return sp.ImmutableDenseMatrix(inside)

    def sources(self, dimension: str) -> list[tuple[str, sp.Expr, sp.ImmutableDenseMatrix]]:
        """(other dimension, variance times ratio, pattern from here to there) of every random matrix."""
        found = []
        for coupling in self.pencil.couplings:
            matrix, pattern = coupling.matrix, coupling.pattern
            ways = [(matrix.rows, matrix.columns, pattern)]
            if isinstance(matrix, Gaussian):
                ways.append((matrix.columns, matrix.rows, pattern.T))
            for here, there, table in ways:
                if here == dimension:
                    block = table.extract(list(self.kept[here]), list(self.kept[there]))
                    found.append((there, self.ratios[there], sp.ImmutableDenseMatrix(block)))
        return found

    # ------------------------------------------------------------------------------------ few unknowns

    def feedback(self) -> tuple[str, ...]:
        """Smallest set of dimensions without which the others depend on nothing in a circle."""
        depends = {d: {s for s, _, _ in self.sources(d)} for d in self.kept}

        def size(chosen: tuple[str, ...]) -> int:
            return sum(len(self.kept[d]) * (len(self.kept[d]) + 1) // 2 for d in chosen)

        candidates = [c for k in range(len(self.kept) + 1) for c in combinations(self.kept, k)]
        for chosen in sorted(candidates, key=lambda c: (size(c), "n" not in c)):
            if _is_acyclic(depends, chosen):
                return chosen
        raise DerivationError("no set of dimensions breaks the circles")  # the whole set always does

    def supports(self) -> dict[str, sp.ImmutableDenseMatrix]:
        """Entries of the traces that do not vanish: the closure of those of the deterministic part."""
        support = {d: _closure(self.deterministic(d)) for d in self.kept}
        while True:
            grown = {}
            for d in self.kept:
                # Of what is there or not, never of values: -1 and an indicator of 1 would cancel.
                pattern = self.deterministic(d).applyfunc(_indicator)
                for other, _, table in self.sources(d):
                    pattern = pattern + (table * support[other] * table.T).applyfunc(_indicator)
                grown[d] = _closure(pattern)
            if grown == support:
                return support
            support = grown

    # ------------------------------------------------------------------------------------ the equations

    def system(self) -> DysonSystem:
        unknown = self.feedback()
        support = self.supports()
        traces = {d: self._symbols(d, support[d]) for d in self.kept}
        sources = {d: inverse(self._inner(d, traces)) for d in self.kept}
        equations, explicit, start = {}, {}, {}
        for d in self.kept:
            first = inverse(self.deterministic(d))
            for i in range(len(self.kept[d])):
                for j in range(i, len(self.kept[d])):
                    symbol = traces[d][i, j]
                    if symbol == 0:
                        continue
                    (equations if d in unknown else explicit)[symbol] = Entry(sources[d], i, j)
                    if d in unknown:
                        start[symbol] = Entry(first, i, j)
        table = {d: (self.kept[d], traces[d]) for d in self.kept}
        return DysonSystem(
            self.pencil,
            dict(self.ratios),
            tuple(equations),
            equations,
            explicit,
            table,
            start,
            sources,
            self.shift,
        )

    def _symbols(self, dimension: str, support: sp.ImmutableDenseMatrix) -> sp.ImmutableDenseMatrix:
        names = [self.pencil.variables[i].name for i in self.kept[dimension]]

        def symbol(i: int, j: int) -> sp.Expr:
            i, j = min(i, j), max(i, j)
            return sp.Symbol(f"m_{names[i]}{names[j]}") if support[i, j] else sp.Integer(0)

        return sp.ImmutableDenseMatrix(len(names), len(names), symbol)

    def _inner(
        self, dimension: str, traces: Mapping[str, sp.ImmutableDenseMatrix]
    ) -> sp.ImmutableDenseMatrix:
        """What the traces of a dimension are the inverse of."""
        total = sp.Matrix(self.deterministic(dimension))
        for other, variance, pattern in self.sources(dimension):
            total -= variance * pattern * traces[other] * pattern.T
        return sp.ImmutableDenseMatrix(total)


def _is_acyclic(depends: Mapping[str, set[str]], removed: tuple[str, ...]) -> bool:
    left = {d: {s for s in depends[d] if s not in removed} for d in depends if d not in removed}
    while left:
        ready = [d for d, on in left.items() if not on]
        if not ready:
            return False
        for d in ready:
            del left[d]
        for on in left.values():
            on -= set(ready)
    return True


def _indicator(value: Any) -> sp.Integer:
    return sp.Integer(0) if value == 0 else sp.Integer(1)


def _closure(matrix: sp.ImmutableDenseMatrix) -> sp.ImmutableDenseMatrix:
    """Where the inverse of a symmetric matrix with these entries can be different from zero."""
    size = matrix.rows
    reach = [[i == j or matrix[i, j] != 0 for j in range(size)] for i in range(size)]
    for k in range(size):
        for i in range(size):
            for j in range(size):
                reach[i][j] = reach[i][j] or (reach[i][k] and reach[k][j])
    return sp.ImmutableDenseMatrix(size, size, lambda i, j: int(reach[i][j]))
