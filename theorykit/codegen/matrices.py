"""Records of matrix fixed points as NumPy source: straight-line code over batches of small dense matrices.

The systems are small (3 to 8 rows) and are wanted at many points at once, so every operation acts on a whole
batch: products and linear solves are those of NumPy (LAPACK, one matrix at a time, so that a point does not
depend on its neighbours), an inverse is never expanded, and float64 and complex128 are the same code. There is
nothing to compile, so an expression that a user writes costs milliseconds, not the seconds of a compiler.

Input: :class:`~theorykit.derivations.fixed_point.FixedPoint`. Output: module source with the functions ``start``,
``step``, ``tangent``, ``rate`` and ``observables`` of parameters P, unknowns X and directions D, one row each; A and
B are the batches of points and of directions, T the type of the numbers.
"""

from __future__ import annotations

import pprint
from collections.abc import Mapping

import sympy as sp
from sympy.matrices.expressions.matexpr import MatrixExpr

from theorykit.codegen.printer import condition, constant
from theorykit.derivations.fixed_point import FixedPoint
from theorykit.derivations.matrices import Determinant, Entry
from theorykit.errors import CodegenError

__all__ = ["emit_fixed_point"]


_ROWS = """def rows(values):
    return np.stack(np.broadcast_arrays(*values)) if values else np.empty((0,))"""


class _Writer:
    """Assignments of one function; every subexpression once."""

    def __init__(self, loads: Mapping[sp.Symbol, str], moving: frozenset[sp.Symbol]) -> None:
        self.loads = dict(loads)
        self.moving = moving
        self.lines: list[str] = []
        self.known: dict[sp.Basic, str] = {}

    def name(self, expression: sp.Basic, text: str) -> str:
        found = f"v{len(self.known)}"
        self.lines.append(f"{found} = {text}")
        self.known[expression] = found
        return found

    def scalar(self, expression: sp.Expr) -> str:
        """Source of a scalar: a number, a row, or a name."""
        if expression is sp.I:
            return "1j"
        number = None if expression.has(sp.I) else constant(expression)
        if number is not None:
            return f"({number})" if number.startswith("-") else number
        if expression.is_Symbol:
            if expression not in self.loads:
                raise CodegenError(f"symbol {expression} is neither a parameter nor an unknown")
            return self.loads[expression]
        if expression in self.known:
            return self.known[expression]
        return self.name(expression, self._operation(expression))

    def _operation(self, expression: sp.Expr) -> str:
        if isinstance(expression, sp.Add):
            return " + ".join(self.scalar(a) for a in expression.args)
        if isinstance(expression, sp.Mul):
            return " * ".join(self.scalar(a) for a in expression.args)
        if isinstance(expression, sp.Pow):
            return self._power(*expression.args)
        if isinstance(expression, Entry):
            matrix, i, j = expression.args
            return f"{self.matrix(matrix)}[..., {i}, {j}]"
        if isinstance(expression, Determinant):
            return f"np.linalg.det({self.matrix(expression.args[0])})"
        if isinstance(expression, sp.Piecewise):
            return self._choice(expression)
        raise CodegenError(f"no batched code for {type(expression).__name__} in {str(expression)[:200]}")

    def _choice(self, expression: sp.Piecewise) -> str:
        """All branches are computed, one is taken: they must be finite wherever the others are."""
        *cases, (last, test) = expression.args
        if test != sp.true:
            raise CodegenError(f"the last branch of {str(expression)[:200]} must hold otherwise")
        text = self.scalar(last)
        for value, relation in reversed(cases):
            text = f"np.where({condition(relation, self.scalar)}, {self.scalar(value)}, {text})"
        return text

    def _power(self, base: sp.Expr, exponent: sp.Expr) -> str:
        inner = self.scalar(base)
        if exponent in (sp.Rational(1, 2), sp.Rational(-1, 2)):
            return f"np.sqrt({inner})" if exponent > 0 else f"1.0 / np.sqrt({inner})"
        if exponent.is_Integer and 0 < abs(int(exponent)) <= 8:
            text = " * ".join([inner] * abs(int(exponent)))
            return text if exponent > 0 else f"1.0 / ({text})"
        raise CodegenError(f"no batched code for the power {exponent} of {str(base)[:200]}")

    def matrix(self, expression: sp.MatrixBase | MatrixExpr) -> str:
        """Name of a matrix."""
        if expression in self.known:
            return self.known[expression]
        if isinstance(expression, sp.MatrixBase):
            return self._explicit(expression)
        if isinstance(expression, sp.MatAdd):
            text = " + ".join(self.matrix(a) for a in expression.args)
        elif isinstance(expression, sp.MatMul):
            text = self._product(list(expression.args))
        elif isinstance(expression, sp.Inverse):
            text = f"np.linalg.inv({self.matrix(expression.arg)})"
        elif isinstance(expression, sp.Transpose):
            text = f"np.swapaxes({self.matrix(expression.arg)}, -1, -2)"
        else:
            raise CodegenError(f"no batched code for the matrix {type(expression).__name__}")
        return self.name(expression, text)

    def _explicit(self, matrix: sp.MatrixBase) -> str:
        """Zeros, and the entries that are none; directions have a batch of their own."""
        filled = [(i, j) for i in range(matrix.rows) for j in range(matrix.cols) if matrix[i, j] != 0]
        values = [self.scalar(matrix[i, j]) for i, j in filled]
        batch = "B" if matrix.free_symbols & self.moving else "A"
        name = self.name(matrix, f"np.zeros((*{batch}, {matrix.rows}, {matrix.cols}), T)")
        self.lines += [f"{name}[..., {i}, {j}] = {v}" for (i, j), v in zip(filled, values, strict=True)]
        return name

    def _product(self, factors: list[sp.MatrixBase | MatrixExpr]) -> str:
        """A product; one that begins with an inverse met nowhere else is a linear solve."""
        first = factors[0]
        if isinstance(first, sp.Inverse) and len(factors) > 1 and first not in self.known:
            rest = factors[1] if len(factors) == 2 else sp.MatMul(*factors[1:])
            return f"np.linalg.solve({self.matrix(first.arg)}, {self.matrix(rest)})"
        return " @ ".join(self.matrix(f) for f in factors)


def _function(name: str, arguments: str, loads: Mapping[sp.Symbol, str], values: list[sp.Expr]) -> str:
    moving = frozenset(s for s, text in loads.items() if text.startswith("D["))
    writer = _Writer(loads, moving)
    results = [writer.scalar(v) for v in values]
    batches = ["A = P.shape[1:]", f"T = np.result_type({arguments})"]
    if "D" in arguments:
        batches.insert(1, "B = np.broadcast_shapes(A, D.shape[1:])")
    lines = [f"def {name}({arguments}):", *[f"    {line}" for line in (*batches, *writer.lines)]]
    return "\n".join([*lines, f"    return rows([{', '.join(results)}])"])


def _positions(record: FixedPoint, matrix: sp.MatrixBase) -> list[list[int]]:
    """Number of the unknown at each place of a matrix; -1 for zero."""
    number = {u: i for i, u in enumerate(record.unknowns)}
    return [[number.get(matrix[i, j], -1) for j in range(matrix.cols)] for i in range(matrix.rows)]


def emit_fixed_point(record: FixedPoint, observables: tuple[str, ...] | None, header: str) -> str:
    """The module source of a record.

    Raises
    ------
    CodegenError
        An expression has no code; the message names what was being written.
    """
    names = tuple(record.observables) if observables is None else observables
    unknown = [n for n in names if n not in record.observables]
    if unknown:
        raise CodegenError(f"{record.name} has no observables {unknown}; it has {list(record.observables)}")
    parameters = {p: f"P[{i}]" for i, p in enumerate(record.parameters)}
    state = parameters | {u: f"X[{i}]" for i, u in enumerate(record.unknowns)}
    along, tangent = record.tangent()
    moving = state | {along[u]: f"D[{i}]" for i, u in enumerate(record.unknowns)}
    rated = state | {record.rates[u]: f"D[{i}]" for i, u in enumerate(record.rates)}
    closed = record.closed
    functions = [
        _function("start", "P", parameters, [closed(e) for e in record.start.values()]),
        _function("step", "P, X", state, [closed(record.equations[u]) for u in record.unknowns]),
        _function("tangent", "P, X, D", moving, [tangent[u] for u in record.unknowns]),
        _function("rate", "P, X, D", rated, [closed(record.equations[r]) for r in record.rates.values()]),
        _function("observables", "P, X, D", rated, [closed(record.observables[n]) for n in names]),
    ]
    layout = {
        "kind": "fixed point",
        "name": record.name,
        "parameters": [p.name for p in record.parameters],
        "unknowns": [u.name for u in record.unknowns],
        "rates": [r.name for r in record.rates.values()],
        "matrices": [_positions(record, m) for m in record.matrices],
        "path": record.path.name if record.path is not None else None,
        "observables": list(names),
    }
    text = "\n\n\n".join(
        [repr(header), "import numpy as np", _ROWS, *functions, f"LAYOUT = {pprint.pformat(layout)}"]
    )
    compile(text, "<generated>", "exec")
    return text + "\n"
