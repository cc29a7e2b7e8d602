r"""Symmetric linear pencils of rational expressions, by stationarity.

A quadratic form whose stationary value over auxiliary variables is :math:`\tfrac12x^\top(M-z)x` has a Hessian L in
which every random matrix appears linearly, and :math:`(L^{-1})_{xx}=(M-z)^{-1}`. The rules:

* :math:`x^\top M_1M_2\,y` is the stationary value of :math:`x^\top M_1h+k^\top M_2y-k^\top h`;
* :math:`x^\top N^{-1}y` that of :math:`x^\top h+k^\top y-k^\top Nh`;
* :math:`\tfrac12x^\top B^\top Bx` that of :math:`q^\top Bx-\tfrac12|q|^2`, and with a symmetric C between the
  factors of :math:`k^\top(Bx-h)+\tfrac12h^\top Ch`;
* sums add, and an outer product couples two isotropic vectors.

Variables that meet no random matrix and no vector are eliminated again; nothing is assumed about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import sympy as sp

from theorykit.derivations.dyson import expression as ex
from theorykit.derivations.dyson.expression import Expression, Vector
from theorykit.errors import DerivationError

__all__ = ["Coupling", "Pencil", "Spike", "Variable", "make_pencil"]

_NAMES = "uqhkvwrstabcdefgijlmnop"


@dataclass(frozen=True)
class Variable:
    """One block of the pencil: its name and the name of its dimension."""

    name: str
    dimension: str


@dataclass(frozen=True)
class Coupling:
    """Where a random matrix stands: entry (i, j) of ``pattern`` multiplies it in block (i, j).

    For a :class:`Gaussian` the transpose stands at (j, i); for a :class:`Wigner` matrix the pattern is symmetric.
    """

    matrix: ex.Wigner | ex.Gaussian
    pattern: sp.ImmutableDenseMatrix


@dataclass(frozen=True)
class Spike:
    """Low-rank entry of the Hessian: strength times left (at block i) right^T (at block j), and its transpose."""

    strength: sp.Expr
    left: Vector
    i: int
    right: Vector
    j: int


@dataclass(frozen=True)
class Pencil:
    """A symmetric matrix of blocks, linear in the random matrices; corner (0, 0) of its inverse is wanted.

    Attributes
    ----------
    variables : the blocks; the first is the corner
    constant : deterministic multiples of the identity, between blocks of one dimension
    couplings, spikes : where random matrices and vectors stand
    z : spectral parameter, subtracted in the corner
    """

    expression: Expression
    variables: tuple[Variable, ...]
    constant: sp.ImmutableDenseMatrix
    couplings: tuple[Coupling, ...]
    spikes: tuple[Spike, ...]
    z: sp.Expr

    def indices(self, dimension: str) -> tuple[int, ...]:
        """Blocks of one dimension."""
        return tuple(i for i, v in enumerate(self.variables) if v.dimension == dimension)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Dimensions in the order in which they appear."""
        return tuple(dict.fromkeys(v.dimension for v in self.variables))

    @cached_property
    def eliminable(self) -> tuple[int, ...]:
        """Blocks that meet no random matrix, and on which the constant part is invertible."""
        touched = {0}
        for coupling in self.couplings:
            touched |= {i for i in range(len(self.variables)) if any(coupling.pattern[i, :])}
            touched |= {i for i in range(len(self.variables)) if any(coupling.pattern[:, i])}
        free = [i for i in range(len(self.variables)) if i not in touched]
        return _pivots(self.constant, free)

    def matrix(self) -> sp.ImmutableDenseMatrix:
        """The pencil as a matrix of noncommuting symbols, as it is printed."""
        size = len(self.variables)
        rows = [[self.constant[i, j] for j in range(size)] for i in range(size)]
        for coupling in self.couplings:
            for i in range(size):
                for j in range(size):
                    c = coupling.pattern[i, j]
                    if c == 0:
                        continue
                    name = coupling.matrix.name
                    rows[i][j] += c * sp.Symbol(name, commutative=False)
                    if isinstance(coupling.matrix, ex.Gaussian):
                        rows[j][i] += c * sp.Symbol(f"{name}^T", commutative=False)
        for spike in self.spikes:
            left, right = spike.left.name, spike.right.name
            rows[spike.i][spike.j] += spike.strength * sp.Symbol(f"{left} {right}^T", commutative=False)
            if (spike.i, spike.left) != (spike.j, spike.right):
                rows[spike.j][spike.i] += spike.strength * sp.Symbol(f"{right} {left}^T", commutative=False)
        return sp.ImmutableDenseMatrix(rows)

    def image(self) -> sp.ImmutableDenseMatrix:
        """The pencil with commuting symbols for matrices and vectors: exact for matrices of one row."""
        total = sp.Matrix(self.constant)
        for coupling in self.couplings:
            name = sp.Symbol(coupling.matrix.name, real=True)
            pattern = sp.Matrix(coupling.pattern)
            total += name * (pattern + pattern.T if isinstance(coupling.matrix, ex.Gaussian) else pattern)
        for spike in self.spikes:
            value = spike.strength
            for vector in (spike.left, spike.right):
                value = value * sp.Symbol(vector.name, real=True)
            total[spike.i, spike.j] += value
            if (spike.i, spike.left) != (spike.j, spike.right):
                total[spike.j, spike.i] += value
        return sp.ImmutableDenseMatrix(total)

    def latex(self) -> str:
        """The matrix of the pencil as LaTeX."""
        return str(sp.latex(self.matrix()))

    def _repr_latex_(self) -> str:
        return f"$${self.latex()}$$"


def _pivots(constant: sp.ImmutableDenseMatrix, free: list[int]) -> tuple[int, ...]:
    """A largest set of the free blocks that Gaussian elimination can remove, by pivots of one or two."""
    work, chosen, left = sp.Matrix(constant), [], list(free)
    while True:
        pivot = next(((i,) for i in left if work[i, i] != 0), None)
        pivot = pivot or next(((i, j) for i in left for j in left if i < j and work[i, j] != 0), None)
        if pivot is None:
            return tuple(sorted(chosen))
        index = list(pivot)
        inside = work.extract(index, index).inv()
        columns = work[:, index]
        work = (work - columns * inside * columns.T).applyfunc(sp.cancel)
        chosen += index
        left = [i for i in left if i not in index]


@dataclass
class _Form:
    """The quadratic form while it grows: entries of its Hessian."""

    variables: list[Variable] = field(default_factory=list)
    constant: dict[tuple[int, int], sp.Expr] = field(default_factory=dict)
    random: dict[ex.Wigner | ex.Gaussian, dict[tuple[int, int], sp.Expr]] = field(default_factory=dict)
    spikes: dict[tuple[Vector, int, Vector, int], sp.Expr] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    def variable(self, dimension: str) -> int:
        count = len(self.variables)
        pool = self.names or tuple(_NAMES)
        name = pool[count] if count < len(pool) else f"x{count}"
        self.variables.append(Variable(name, dimension))
        return count

    # every rule adds scalar * x_i^T matrix x_j to the form

    def bilinear(self, i: int, matrix: Expression, j: int, scalar: sp.Expr) -> None:
        """Add ``scalar * x_i^T matrix x_j``."""
        if isinstance(matrix, ex.Scaled):
            if matrix.scalar != 0:
                self.bilinear(i, matrix.matrix, j, scalar * _exact(matrix.scalar))
        elif isinstance(matrix, ex.Sum):
            for term in matrix.terms:
                self.bilinear(i, term, j, scalar)
        elif isinstance(matrix, ex.Product):
            self._chain(i, matrix.factors, j, scalar)
        elif isinstance(matrix, ex.Inverse):
            h, k = self.variable(matrix.rows), self.variable(matrix.rows)
            self._identity(i, h, scalar)
            self._identity(k, j, sp.Integer(1))
            self.bilinear(k, matrix.matrix, h, sp.Integer(-1))
        else:
            self._atom(i, matrix, j, scalar)

    def _chain(self, i: int, factors: tuple[Expression, ...], j: int, scalar: sp.Expr) -> None:
        for factor in factors[:-1]:
            h, k = self.variable(factor.columns), self.variable(factor.columns)
            self.bilinear(i, factor, h, scalar)
            self._identity(k, h, sp.Integer(-1))
            i, scalar = k, sp.Integer(1)
        self.bilinear(i, factors[-1], j, scalar)

    def quadratic(self, i: int, matrix: Expression, scalar: sp.Expr) -> None:
        """Add ``scalar/2 * x_i^T matrix x_i`` for a symmetric matrix."""
        if isinstance(matrix, ex.Scaled):
            if matrix.scalar != 0:
                self.quadratic(i, matrix.matrix, scalar * _exact(matrix.scalar))
        elif isinstance(matrix, ex.Sum):
            for term in matrix.terms:
                self.quadratic(i, term, scalar)
        elif isinstance(matrix, ex.Product) and _is_palindrome(matrix.factors):
            self._sandwich(i, matrix.factors, scalar)
        elif isinstance(matrix, ex.Inverse) and matrix.matrix.T == matrix.matrix:
            h = self.variable(matrix.rows)
            self._identity(i, h, scalar)
            self.quadratic(h, matrix.matrix, -scalar)
        else:
            self.bilinear(i, matrix, i, scalar / 2)

    def _sandwich(self, i: int, factors: tuple[Expression, ...], scalar: sp.Expr) -> None:
        half = len(factors) // 2
        right = factors[half:] if len(factors) % 2 == 0 else factors[half + 1 :]
        outside = right[0] if len(right) == 1 else ex.Product(right)
        if len(factors) % 2 == 0:  # -|q|^2/(2 scalar): the scalar stays out of the random part
            q = self.variable(outside.rows)
            self._entry(self.constant, q, q, -1 / scalar)
            self.bilinear(q, outside, i, sp.Integer(1))
            return
        h, k = self.variable(outside.rows), self.variable(outside.rows)
        self.bilinear(k, outside, i, sp.Integer(1))
        self._identity(k, h, sp.Integer(-1))
        self.quadratic(h, factors[half], scalar)

    def _identity(self, i: int, j: int, scalar: sp.Expr) -> None:
        self._entry(self.constant, i, j, scalar * (2 if i == j else 1))

    def _entry(self, table: dict[tuple[int, int], sp.Expr], i: int, j: int, value: sp.Expr) -> None:
        for key in {(i, j), (j, i)}:
            table[key] = table.get(key, sp.Integer(0)) + value

    def _atom(self, i: int, matrix: Expression, j: int, scalar: sp.Expr) -> None:
        if isinstance(matrix, ex.Identity):
            self._identity(i, j, scalar)
        elif isinstance(matrix, ex.Wigner):
            table = self.random.setdefault(matrix, {})
            self._entry(table, i, j, scalar * (2 if i == j else 1))
        elif isinstance(matrix, ex.Gaussian):
            table = self.random.setdefault(matrix, {})
            table[i, j] = table.get((i, j), sp.Integer(0)) + scalar
        elif isinstance(matrix, ex.Transposed):
            self._atom(j, matrix.matrix, i, scalar)
        elif isinstance(matrix, ex.Outer):
            key = (matrix.left, i, matrix.right, j)
            swapped = (matrix.right, j, matrix.left, i)
            weight = 2 if key == swapped else 1
            key = swapped if swapped in self.spikes else key
            self.spikes[key] = self.spikes.get(key, sp.Integer(0)) + weight * scalar
        else:
            raise DerivationError(f"no rule puts {matrix!r} into a pencil")


def _is_palindrome(factors: tuple[Expression, ...]) -> bool:
    count = len(factors)
    mirrored = all(factors[k].T == factors[count - 1 - k] for k in range(count // 2))
    return mirrored and (count % 2 == 0 or factors[count // 2].T == factors[count // 2])


def _exact(scalar: Any) -> sp.Expr:
    """A number as given: floats stay floats, ratios of integers stay exact."""
    return sp.sympify(scalar)


def make_pencil(expression: Expression, z: sp.Expr | None = None, names: tuple[str, ...] = ()) -> Pencil:
    """The pencil of a square expression: ``(expression - z)^{-1}`` is the corner of its inverse.

    Parameters
    ----------
    expression : Expression
        Symmetric (equal to its transpose as a random matrix).
    z : SymPy expression, optional
        Spectral parameter; default: the symbol ``z``.
    names : tuple of str
        Names of the blocks in the order in which the rules introduce them.

    Raises
    ------
    TypeError, ValueError
        Not an expression; not square; not symmetric (found on random matrices).
    """
    from theorykit.derivations.dyson.check import require_symmetric

    if not isinstance(expression, Expression):
        raise TypeError(f"expr must be a matrix expression, got {expression!r} ({type(expression).__name__})")
    require_symmetric(expression)
    z = sp.Symbol("z", complex=True) if z is None else z
    form = _Form(names=names)
    corner = form.variable(expression.rows)
    form.quadratic(corner, expression, sp.Integer(1))
    form._entry(form.constant, corner, corner, -z)
    size = len(form.variables)

    def dense(table: Mapping[tuple[int, int], sp.Expr]) -> sp.ImmutableDenseMatrix:
        return sp.ImmutableDenseMatrix(size, size, lambda i, j: table.get((i, j), sp.Integer(0)))

    return Pencil(
        expression,
        tuple(form.variables),
        dense(form.constant),
        tuple(Coupling(matrix, dense(table)) for matrix, table in form.random.items()),
        tuple(Spike(s, *key) for key, s in form.spikes.items() if s != 0),
        z,
    )
