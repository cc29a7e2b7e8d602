r"""Small dense matrices in expressions: entries of inverses and products, determinants, and their derivatives.

A matrix is SymPy's own: an explicit dense matrix, ``MatAdd``, ``MatMul``, ``Inverse``, ``Transpose``; a product that
begins with an inverse is a linear solve. Two nodes make scalars of them, :class:`Entry` and :class:`Determinant`,
and the entries of an explicit matrix may hold such nodes. An inverse is never written out in its entries.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import sympy as sp
from sympy.matrices.expressions.matexpr import MatrixExpr
from sympy.printing.latex import LatexPrinter

from theorykit.derivations.nodes import Node
from theorykit.errors import DerivationError

__all__ = [
    "Determinant",
    "Entry",
    "combined",
    "entries",
    "inverse",
    "leading",
    "opaque",
    "product",
    "total_derivative",
    "written_out",
]

Matrix = sp.ImmutableDenseMatrix | MatrixExpr


class Entry(Node):
    """Entry (i, j) of a matrix, counted from 0."""

    def __new__(cls, matrix: Matrix, i: int, j: int) -> sp.Expr:
        if isinstance(matrix, sp.MatrixBase):
            return matrix[int(i), int(j)]
        return sp.Expr.__new__(cls, matrix, sp.Integer(i), sp.Integer(j))

    @property
    def bound_symbols(self) -> list[sp.Basic]:
        return []

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        return Entry(_derivative(self.args[0], {symbol: sp.Integer(1)}), *self.args[1:])

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        matrix, i, j = self.args
        body = rf"\left[{printer._print(matrix)}\right]_{{{i + 1},{j + 1}}}"
        return body if exp is None else rf"{body}^{{{exp}}}"


class Determinant(Node):
    """Determinant of a square matrix."""

    def __new__(cls, matrix: Matrix) -> sp.Expr:
        return sp.Expr.__new__(cls, matrix)

    @property
    def bound_symbols(self) -> list[sp.Basic]:
        return []

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        (matrix,) = self.args
        rate = _derivative(matrix, {symbol: sp.Integer(1)})
        quotient = sp.MatMul(sp.Inverse(matrix), rate)
        return self * sp.Add(*[Entry(quotient, i, i) for i in range(matrix.shape[0])])

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        body = rf"\det {printer._print(self.args[0])}"
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"


def entries(matrix: Matrix) -> sp.ImmutableDenseMatrix:
    """An explicit matrix whose entries are nodes."""
    rows, columns = (int(s) for s in matrix.shape)
    return sp.ImmutableDenseMatrix(rows, columns, lambda i, j: Entry(matrix, i, j))


def inverse(matrix: Matrix) -> Matrix:
    """The inverse, unevaluated."""
    return sp.Inverse(matrix)


def product(*factors: Matrix) -> Matrix:
    """A product: explicit neighbours are multiplied, the rest is left as it is."""
    merged: list[Matrix] = []
    for factor in factors:
        if merged and isinstance(merged[-1], sp.MatrixBase) and isinstance(factor, sp.MatrixBase):
            merged[-1] = sp.ImmutableDenseMatrix(merged[-1] * factor)
        else:
            merged.append(factor)
    return merged[0] if len(merged) == 1 else sp.MatMul(*merged)


def total_derivative(expression: sp.Expr, rates: Mapping[sp.Symbol, sp.Expr]) -> sp.Expr:
    """Derivative of a scalar along a curve on which each symbol has the given rate, others none.

    Parameters
    ----------
    expression : scalar expression, with :class:`Entry` and :class:`Determinant` nodes
    rates : symbol -> its derivative along the curve
    """
    nodes = sorted(_outermost(expression), key=sp.default_sort_key)
    names = [sp.Dummy(f"node_{i}") for i in range(len(nodes))]
    plain = expression.xreplace(dict(zip(nodes, names, strict=True)))
    total = sp.Add(*[sp.diff(plain, s) * r for s, r in rates.items() if s in plain.free_symbols])
    for node, name in zip(nodes, names, strict=True):
        total += sp.diff(plain, name) * _node_rate(node, rates)
    return total.xreplace(dict(zip(names, nodes, strict=True)))


def _outermost(expression: sp.Basic) -> set[sp.Expr]:
    if isinstance(expression, Entry | Determinant):
        return {expression}
    return set().union(*[_outermost(a) for a in expression.args]) if expression.args else set()


def _node_rate(node: sp.Expr, rates: Mapping[sp.Symbol, sp.Expr]) -> sp.Expr:
    if isinstance(node, Entry):
        return Entry(_derivative(node.args[0], rates), *node.args[1:])
    (matrix,) = node.args
    quotient = product(sp.Inverse(matrix), _derivative(matrix, rates))
    return node * sp.Add(*[Entry(quotient, i, i) for i in range(matrix.shape[0])])


def _derivative(matrix: Matrix, rates: Mapping[sp.Symbol, sp.Expr]) -> Matrix:
    """Derivative of a matrix along the curve, by the rules of products and inverses."""
    if isinstance(matrix, sp.MatrixBase):
        return sp.ImmutableDenseMatrix(matrix.applyfunc(lambda e: total_derivative(e, rates)))
    if not matrix.free_symbols & set(rates):
        return sp.ImmutableDenseMatrix.zeros(*matrix.shape)
    if isinstance(matrix, sp.MatAdd):
        return _plus([_derivative(a, rates) for a in matrix.args])
    if isinstance(matrix, sp.Inverse):
        inner = _derivative(matrix.arg, rates)
        return product(sp.ImmutableDenseMatrix(-sp.eye(matrix.shape[0])), matrix, inner, matrix)
    if isinstance(matrix, sp.Transpose):
        return sp.Transpose(_derivative(matrix.arg, rates))
    if isinstance(matrix, sp.MatMul):
        terms = []
        for position, factor in enumerate(matrix.args):
            if factor.free_symbols & set(rates):
                rate = _derivative(factor, rates)
                terms.append(product(*matrix.args[:position], rate, *matrix.args[position + 1 :]))
        return _plus(terms)
    raise DerivationError(f"no rule differentiates the matrix {type(matrix).__name__}")


def _plus(terms: list[Matrix]) -> Matrix:
    """A sum: explicit terms are added, the rest is left as it is."""
    explicit = [t for t in terms if isinstance(t, sp.MatrixBase)]
    rest = [t for t in terms if not isinstance(t, sp.MatrixBase)]
    if explicit:
        total = explicit[0]
        for term in explicit[1:]:
            total = total + term
        if not rest:
            return sp.ImmutableDenseMatrix(total)
        if not total.is_zero_matrix:
            rest = [sp.ImmutableDenseMatrix(total), *rest]
    return rest[0] if len(rest) == 1 else sp.MatAdd(*rest)


def written_out(expression: sp.Expr) -> sp.Expr:
    """Entries of inverses and products as rational functions of what stands in the matrices: for small ones."""
    return expression.replace(
        lambda e: isinstance(e, Entry), lambda e: _explicit(e.args[0])[int(e.args[1]), int(e.args[2])]
    )


def _explicit(matrix: Matrix) -> sp.Matrix:
    """A matrix expression with explicit entries; inverses by cofactors."""
    if isinstance(matrix, sp.MatrixBase):
        return sp.Matrix(matrix)
    if isinstance(matrix, sp.Inverse):
        inner = _explicit(matrix.arg)
        return inner.adjugate() / inner.det(method="berkowitz")
    return combined(matrix, [_explicit(a) for a in matrix.args])


def combined(matrix: Matrix, parts: Sequence[Any]) -> Any:
    """The transpose, sum or product that a matrix expression is, of values that stand for its arguments."""
    if isinstance(matrix, sp.Transpose):
        return parts[0].T
    if isinstance(matrix, sp.MatAdd):
        return reduce(operator.add, parts)
    if isinstance(matrix, sp.MatMul):
        return reduce(operator.mul, parts)
    raise DerivationError(f"the matrix {type(matrix).__name__} is no inverse, transpose, sum or product")


def opaque(expression: sp.Expr) -> sp.Expr:
    """The expression with a symbol for every outermost entry or determinant: ``entry_0_1_of_5e1f20c93b7a``.

    The name holds a digest of the matrix: equal ones have one name, in whatever expression and process, so that both
    sides of a step can be compared.
    """
    names = {node: sp.Symbol(_name(node)) for node in _outermost(expression)}
    if len(set(names.values())) < len(names):
        raise DerivationError("two different entries or determinants have digests that agree")
    return expression.xreplace(names)


def _name(node: sp.Expr) -> str:
    digest = _digest(node.args[0], {})[:12]
    return (
        f"determinant_of_{digest}"
        if isinstance(node, Determinant)
        else f"entry_{node.args[1]}_{node.args[2]}_of_{digest}"
    )


def _digest(expression: sp.Basic, known: dict[sp.Basic, str]) -> str:
    """A digest of the structure, each part that occurs several times taken once (texts would grow exponentially)."""
    if expression not in known:
        parts = [_digest(a, known) for a in expression.args] or [sp.srepr(expression)]
        text = " ".join([type(expression).__name__, *parts])
        known[expression] = hashlib.sha256(text.encode()).hexdigest()
    return known[expression]


def leading(expression: sp.Expr) -> sp.Expr:
    """Limits of rational functions of a variable or its root, taken: the ratio of the leading coefficients.

    Raises
    ------
    DerivationError
        A limit is infinite, or what it is taken of is no rational function.
    """
    return written_out(expression).replace(lambda e: isinstance(e, sp.Limit), _rational_limit)


def _rational_limit(limit: sp.Limit) -> sp.Expr:
    inside, variable, point = limit.args[:3]
    near = sp.Dummy("near", positive=True)
    moved = near**-2 if point is sp.oo else point + near**2  # a square: roots of the variable may occur
    above, below = sp.fraction(sp.cancel(sp.together(written_out(inside).xreplace({variable: moved}))))
    lowest = [sp.Poly(part, near) for part in (above, below)]
    first = [min((m[0] for m in p.monoms()), default=0) for p in lowest]
    if first[0] < first[1]:
        raise DerivationError(f"{inside} has no finite limit at {variable} = {point}")
    if first[0] > first[1] or lowest[0].is_zero:
        return sp.Integer(0)
    return lowest[0].coeff_monomial(near ** first[0]) / lowest[1].coeff_monomial(near ** first[1])
