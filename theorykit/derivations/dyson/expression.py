"""Noncommutative rational expressions in independent random matrices, with typed dimensions.

Atoms: symmetric :class:`Wigner` and rectangular :class:`Gaussian` matrices (entries of variance 1/n, where n is
the reference dimension), identities and outer products of deterministic vectors of norm O(1). Expressions are
built with ``@``, ``+``, ``-``, a scalar times, ``.T`` and :func:`inverse`; every dimension has a name, and a
product or sum of matrices that do not fit is refused where it is written. Nothing here imports SymPy: a scalar
may be a number or a SymPy expression.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from theorykit.derivations.dyson.arguments import require_name, require_scalar

__all__ = [
    "Expression",
    "Gaussian",
    "Identity",
    "Inverse",
    "Outer",
    "Product",
    "Scaled",
    "Sum",
    "Transposed",
    "Vector",
    "Wigner",
    "atoms",
    "children",
    "identity",
    "inverse",
    "outer",
]


class Expression:
    """Base of all matrix expressions; ``rows`` and ``columns`` are names of dimensions."""

    rows: str
    columns: str

    # NumPy must not take a scalar on the left as an array of expressions
    __array_ufunc__ = None

    @property
    def T(self) -> Expression:
        """The transpose."""
        raise NotImplementedError

    @property
    def is_square(self) -> bool:
        return self.rows == self.columns

    def __matmul__(self, other: Any) -> Expression:
        if not isinstance(other, Expression):
            raise TypeError(f"@ needs two matrix expressions, got {other!r} ({type(other).__name__})")
        if self.columns != other.rows:
            raise ValueError(
                f"the product of a {_shape(self)} and a {_shape(other)} matrix is not defined: "
                f"{self.columns!r} is not {other.rows!r}, in {self!r} @ {other!r}"
            )
        return _product((*_factors(self), *_factors(other)))

    def __add__(self, other: Any) -> Expression:
        if not isinstance(other, Expression):
            raise TypeError(
                f"a matrix expression plus {other!r} ({type(other).__name__}) is not defined; "
                "a number stands for nothing here, write number * identity(dimension)"
            )
        if (self.rows, self.columns) != (other.rows, other.columns):
            raise ValueError(
                f"the sum of a {_shape(self)} and a {_shape(other)} matrix is not defined, "
                f"in {self!r} + {other!r}"
            )
        return _sum((*_terms(self), *_terms(other)))

    __radd__ = __add__

    def __neg__(self) -> Expression:
        return -1 * self

    def __sub__(self, other: Any) -> Expression:
        return self + (-other if isinstance(other, Expression) else other)

    def __rsub__(self, other: Any) -> Expression:
        return -self + other

    def __mul__(self, scalar: Any) -> Expression:
        if isinstance(scalar, Expression):
            raise TypeError("the product of two matrix expressions is written with @")
        return _scaled(require_scalar(scalar), self)

    __rmul__ = __mul__

    def __truediv__(self, scalar: Any) -> Expression:
        return self * (1 / require_scalar(scalar))


class _Square(Expression):
    """Square, of one named dimension, and equal to its transpose."""

    dimension: str

    @property
    def rows(self) -> str:  # type: ignore[override]
        return self.dimension

    columns = rows  # type: ignore[assignment]

    @property
    def T(self) -> Expression:
        return self


@dataclass(frozen=True)
class Wigner(_Square):
    """Symmetric random matrix, off-diagonal entries of mean 0 and variance 1/n."""

    name: str
    dimension: str = "n"

    def __post_init__(self) -> None:
        require_name("name", self.name)
        require_name("dimension", self.dimension)


@dataclass(frozen=True)
class Gaussian(Expression):
    """Rectangular random matrix with independent entries of mean 0 and variance 1/n."""

    name: str
    rows: str = "n"
    columns: str = "n"

    def __post_init__(self) -> None:
        for label in ("name", "rows", "columns"):
            require_name(label, getattr(self, label))

    @property
    def T(self) -> Transposed:
        return Transposed(self)


@dataclass(frozen=True)
class Transposed(Expression):
    """Transpose of a rectangular random matrix."""

    matrix: Gaussian

    @property
    def rows(self) -> str:  # type: ignore[override]
        return self.matrix.columns

    @property
    def columns(self) -> str:  # type: ignore[override]
        return self.matrix.rows

    @property
    def T(self) -> Gaussian:
        return self.matrix

    def __repr__(self) -> str:
        return f"{self.matrix!r}.T"


@dataclass(frozen=True)
class Identity(_Square):
    """Identity matrix of a dimension."""

    dimension: str

    def __post_init__(self) -> None:
        require_name("dimension", self.dimension)


@dataclass(frozen=True)
class Vector:
    """Deterministic vector of norm O(1); its overlaps with other vectors are given where numbers are asked for."""

    name: str
    dimension: str = "n"

    def __post_init__(self) -> None:
        require_name("name", self.name)
        require_name("dimension", self.dimension)


@dataclass(frozen=True)
class Outer(Expression):
    """Rank-one matrix ``left right^T``."""

    left: Vector
    right: Vector

    def __post_init__(self) -> None:
        for label in ("left", "right"):
            value = getattr(self, label)
            if not isinstance(value, Vector):
                raise TypeError(
                    f"{label} of an outer product must be a Vector, got {value!r} ({type(value).__name__})"
                )

    @property
    def rows(self) -> str:  # type: ignore[override]
        return self.left.dimension

    @property
    def columns(self) -> str:  # type: ignore[override]
        return self.right.dimension

    @property
    def T(self) -> Outer:
        return Outer(self.right, self.left)


class _Compound(Expression):
    """Has the rows of its first part and the columns of its last one."""

    def _parts(self) -> tuple[Expression, ...]:
        raise NotImplementedError

    @property
    def rows(self) -> str:  # type: ignore[override]
        return self._parts()[0].rows

    @property
    def columns(self) -> str:  # type: ignore[override]
        return self._parts()[-1].columns


class _Around(_Compound):
    """Of the shape of another matrix."""

    matrix: Expression

    def _parts(self) -> tuple[Expression, ...]:
        return (self.matrix,)


@dataclass(frozen=True)
class Scaled(_Around):
    """A scalar times a matrix; the matrix is no sum, product of scalars or scaled matrix."""

    scalar: Any
    matrix: Expression

    def __post_init__(self) -> None:
        require_scalar(self.scalar)  # in particular no text: SymPy would evaluate it

    @property
    def T(self) -> Expression:
        return _scaled(self.scalar, self.matrix.T)

    def __repr__(self) -> str:
        return f"{self.scalar!r} * {_bracketed(self.matrix)}"


@dataclass(frozen=True)
class Sum(_Compound):
    """Sum of at least two terms of one shape, in an order of their own: sums compare by value."""

    terms: tuple[Expression, ...]

    def _parts(self) -> tuple[Expression, ...]:
        return self.terms

    @property
    def T(self) -> Expression:
        return _sum(tuple(term.T for term in self.terms))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))


@dataclass(frozen=True)
class Product(_Compound):
    """Product of at least two factors."""

    factors: tuple[Expression, ...]

    def _parts(self) -> tuple[Expression, ...]:
        return self.factors

    @property
    def T(self) -> Expression:
        return _product(tuple(factor.T for factor in reversed(self.factors)))

    def __repr__(self) -> str:
        return " @ ".join(map(_bracketed, self.factors))


@dataclass(frozen=True)
class Inverse(_Around):
    """Inverse of a square expression."""

    matrix: Expression

    @property
    def T(self) -> Inverse:
        return Inverse(self.matrix.T)

    def __repr__(self) -> str:
        return f"inverse({self.matrix!r})"


def identity(dimension: str) -> Identity:
    """Identity matrix of a dimension, which is named by text.

    Raises
    ------
    TypeError
        The name is none: letters, digits and underscores.
    """
    return Identity(dimension)


def outer(left: Vector, right: Vector) -> Outer:
    """Rank-one matrix ``left right^T``, a deterministic term of low rank.

    Raises
    ------
    TypeError
        ``left`` or ``right`` is no Vector.
    """
    return Outer(left, right)


def inverse(matrix: Expression) -> Expression:
    """Inverse of a square expression.

    Raises
    ------
    TypeError, ValueError
        Not a matrix expression, or not square.
    """
    if not isinstance(matrix, Expression):
        raise TypeError(f"inverse needs a matrix expression, got {matrix!r} ({type(matrix).__name__})")
    if not matrix.is_square:
        raise ValueError(f"only a square matrix has an inverse, got a {_shape(matrix)} one: {matrix!r}")
    if isinstance(matrix, Inverse):
        return matrix.matrix
    return matrix if isinstance(matrix, Identity) else Inverse(matrix)


def children(expression: Expression) -> tuple[Expression, ...]:
    """What an expression is made of directly; an atom of nothing."""
    return expression._parts() if isinstance(expression, _Compound) else ()


def atoms(expression: Expression) -> Iterator[Expression]:
    """Every atom of an expression, as often as it occurs."""
    inner = children(expression)
    if not inner:
        yield expression
    for child in inner:
        yield from atoms(child)


# ------------------------------------------------------------------------------------------ normal form


def _sum(terms: tuple[Expression, ...]) -> Expression:
    """Terms that differ by their scalars only are one term; the order does not matter."""
    scalars: dict[Expression, Any] = {}
    for term in terms:
        scalar, matrix = (term.scalar, term.matrix) if isinstance(term, Scaled) else (1, term)
        scalars[matrix] = scalars.get(matrix, 0) + scalar
    kept = [_scaled(s, m) for m, s in scalars.items() if s != 0]
    if not kept:
        return Scaled(0, terms[0].matrix if isinstance(terms[0], Scaled) else terms[0])
    return kept[0] if len(kept) == 1 else Sum(tuple(sorted(kept, key=repr)))


def _product(factors: tuple[Expression, ...]) -> Expression:
    """Scalars stand in front; identities vanish."""
    scalar: Any = 1
    kept: list[Expression] = []
    for factor in factors:
        if isinstance(factor, Scaled):
            scalar = scalar * factor.scalar
            kept += _factors(factor.matrix)
        else:
            kept.append(factor)
    plain = [f for f in kept if not isinstance(f, Identity)] or [kept[0]]
    return _scaled(scalar, plain[0] if len(plain) == 1 else Product(tuple(plain)))


def _scaled(scalar: Any, matrix: Expression) -> Expression:
    if isinstance(matrix, Scaled):
        scalar, matrix = scalar * matrix.scalar, matrix.matrix
    if isinstance(matrix, Sum) and scalar != 1:
        return _sum(tuple(_scaled(scalar, term) for term in matrix.terms))
    return matrix if scalar == 1 else Scaled(scalar, matrix)


def _factors(matrix: Expression) -> tuple[Expression, ...]:
    return matrix.factors if isinstance(matrix, Product) else (matrix,)


def _terms(matrix: Expression) -> tuple[Expression, ...]:
    return matrix.terms if isinstance(matrix, Sum) else (matrix,)


def _shape(matrix: Expression) -> str:
    return f"{matrix.rows}×{matrix.columns}"


def _bracketed(matrix: Expression) -> str:
    return f"({matrix!r})" if isinstance(matrix, Sum | Scaled | Product) else repr(matrix)
