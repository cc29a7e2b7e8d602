"""Self-consistent equations at any precision: what ``record.evaluate`` does for a record of fixed points.

The solution is followed down the path of the record in double precision by means of its own (plain iteration and
finite steps in the logarithm of the path parameter, no generated code), and finished by Newton's method in mpmath
with the derivative of the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import mpmath
import numpy as np
import sympy as sp

from theorykit.derivations.certified import certified
from theorykit.derivations.evaluate import evaluate_all
from theorykit.derivations.matrices import Determinant, Entry
from theorykit.derivations.skeleton import mp_number
from theorykit.errors import DerivationError, require_integer

if TYPE_CHECKING:
    from theorykit.derivations.fixed_point import FixedPoint

__all__ = ["evaluate_fixed_point", "solve_fixed_point"]

_TOP = 2.0**40
_WAY = 1e-8


def evaluate_fixed_point(record: FixedPoint, values: Mapping[str, Any], digits: int = 40) -> dict[str, Any]:
    """All observables of a record at a point, to ``digits`` digits that two solutions agree on.

    Raises
    ------
    ConvergenceError
        Fewer digits than asked for can be vouched for.
    DerivationError
        The record has no path, a value is missing, or Newton's method does not converge.
    """
    digits = require_integer("digits", digits, low=1)
    closed = {name: record.closed(e) for name, e in record.observables.items()}
    start = _start(record, values)

    def run(which: int, carried: int) -> dict[str, mpmath.mpf]:
        guard = 10 * (1 + which)
        solution = _finished(record, values, carried + guard, start)
        known = {**{str(k): v for k, v in values.items()}, **{s.name: v for s, v in solution.items()}}
        return evaluate_all(closed, known, carried, guard=guard)

    return {name: found.value for name, found in certified(run, digits).items()}


def solve_fixed_point(
    record: FixedPoint, values: Mapping[str, Any], digits: int
) -> dict[sp.Symbol, mpmath.mpf]:
    """Unknowns and rates of a record at a point, to about ``digits`` digits.

    Raises
    ------
    DerivationError
        The record has no path, or Newton's method does not converge.
    """
    return _finished(record, values, digits, _start(record, values))


def _start(record: FixedPoint, values: Mapping[str, Any]) -> np.ndarray:
    """The unknowns in double precision."""
    if record.path is None:
        raise DerivationError(f"{record.name} has no path: where its solution begins is not known")
    return _along_path(record, {str(k): float(mp_number(v)) for k, v in values.items()})


def _finished(
    record: FixedPoint, values: Mapping[str, Any], digits: int, start: np.ndarray
) -> dict[sp.Symbol, mpmath.mpf]:
    """Unknowns by Newton's method from their double-precision values, and the rates there."""
    point = {str(k): v for k, v in values.items()}
    unknowns = record.unknowns
    along, tangent = record.tangent()
    system = {f"G{i}": record.closed(record.equations[u]) for i, u in enumerate(unknowns)}
    x = [mpmath.mpf(v) for v in start]
    with mpmath.workdps(digits + 10):
        for _ in range(60):
            known = point | {u.name: v for u, v in zip(unknowns, x, strict=True)}
            image = evaluate_all(system, known, digits + 8)
            change = mpmath.matrix([image[f"G{i}"] - v for i, v in enumerate(x)])
            jacobian = _jacobian(unknowns, along, tangent, known, digits)
            step = mpmath.lu_solve(mpmath.eye(len(x)) - jacobian, change)
            x = [v + s for v, s in zip(x, step, strict=True)]
            if (
                mpmath.norm(step, mpmath.inf)
                <= mpmath.norm(mpmath.matrix(x), mpmath.inf) * mpmath.mpf(10) ** -digits
            ):
                break
        else:
            raise DerivationError(f"{record.name}: Newton's method did not reach {digits} digits at {point}")
        found = dict(zip(unknowns, x, strict=True))
        known = point | {u.name: v for u, v in found.items()}
        return found | _rates(record, known, digits)


def _jacobian(
    unknowns: tuple[sp.Symbol, ...],
    along: Mapping[sp.Symbol, sp.Symbol],
    tangent: Mapping[sp.Symbol, sp.Expr],
    known: Mapping[str, Any],
    digits: int,
) -> mpmath.matrix:
    count = len(unknowns)
    found = mpmath.matrix(count, count)
    for j, direction in enumerate(unknowns):
        moved = {along[u].name: int(u == direction) for u in unknowns}
        column = evaluate_all({u.name: tangent[u] for u in unknowns}, {**known, **moved}, digits + 8)
        for i, u in enumerate(unknowns):
            found[i, j] = column[u.name]
    return found


def _rates(record: FixedPoint, known: Mapping[str, Any], digits: int) -> dict[sp.Symbol, mpmath.mpf]:
    """The linear system of the rates."""
    rates = tuple(record.rates.values())
    if not rates:
        return {}
    equations = {r.name: record.closed(record.equations[r]) for r in rates}

    def at(which: int) -> list[mpmath.mpf]:
        moved = {r.name: int(k == which) for k, r in enumerate(rates)}
        values = evaluate_all(equations, {**known, **moved}, digits + 8)
        return [values[r.name] for r in rates]

    constant = at(-1)
    count = len(rates)
    columns = [at(j) for j in range(count)]
    matrix = mpmath.matrix(count, count)
    for i in range(count):
        for j in range(count):
            matrix[i, j] = int(i == j) - (columns[j][i] - constant[i])
    solved = mpmath.lu_solve(matrix, mpmath.matrix(constant))
    return dict(zip(rates, solved, strict=True))


# --------------------------------------------------------------------------- double precision


def _along_path(record: FixedPoint, values: Mapping[str, float]) -> np.ndarray:
    """Unknowns at a point in double precision, followed from large values of the path parameter."""
    assert record.path is not None
    target = values[record.path.name]
    functions = _Doubles(record)
    top = max(_TOP, 4 * target)
    x = functions.start({**values, record.path.name: top})
    for _ in range(60):
        x = functions.image({**values, record.path.name: top}, x)
    position, ratio = top, 0.5
    previous, before = x, top
    while position > target:
        following = max(target, position * ratio)
        slope = (x - previous) / np.log(position / before) if before != position else 0.0
        guess = x + slope * np.log(following / position)
        at = {**values, record.path.name: following}
        found = functions.newton(at, guess)
        if found is None or np.max(np.abs(found - x)) > 0.6 * np.max(np.abs(x)):
            ratio = ratio**0.25
            if ratio > 0.9999:
                raise DerivationError(f"{record.name}: the way down is lost at {record.path} = {position:g}")
            continue
        previous, before = x, position
        x, position = found, following
        ratio = max(0.5, ratio**1.5)
    return x


class _Doubles:
    """Right sides of a record in double precision, compiled by SymPy's own printer where there are no matrices."""

    def __init__(self, record: FixedPoint) -> None:
        self.record = record
        self.right = [record.closed(record.equations[u]) for u in record.unknowns]
        self.names = [u.name for u in record.unknowns]
        self.first = list(record.start.values())

    def start(self, values: Mapping[str, float]) -> np.ndarray:
        known: dict[sp.Basic, Any] = {}
        return np.array([_double(e, values, known) for e in self.first])

    def image(self, values: Mapping[str, float], x: np.ndarray) -> np.ndarray:
        known: dict[sp.Basic, Any] = {}
        point = {**values, **dict(zip(self.names, x, strict=True))}
        return np.array([_double(e, point, known) for e in self.right])

    def newton(self, values: Mapping[str, float], x: np.ndarray) -> np.ndarray | None:
        """Newton's method with differences for the Jacobian: only the way needs it, not the end."""
        for _ in range(12):
            change = self.image(values, x) - x
            size = np.max(np.abs(x))
            if not np.all(np.isfinite(change)):
                return None
            if np.max(np.abs(change)) < _WAY * size:
                return x
            width = 1e-6 * size
            columns = [
                (self.image(values, x + width * e) - self.image(values, x - width * e)) / (2 * width)
                for e in np.eye(x.size)
            ]
            try:
                x = x + np.linalg.solve(np.eye(x.size) - np.array(columns).T, change)
            except np.linalg.LinAlgError:
                return None
        return None


def _double(expression: sp.Basic, values: Mapping[str, float], known: dict[sp.Basic, Any]) -> Any:
    """A scalar or matrix by walking its tree."""
    if expression in known:
        return known[expression]
    if expression.is_Symbol:
        return values[expression.name]
    if isinstance(expression, sp.MatrixBase):
        table = [
            [_double(expression[i, j], values, known) for j in range(expression.cols)]
            for i in range(expression.rows)
        ]
        found: Any = np.array(table, dtype=float)
    elif isinstance(expression, Entry):
        matrix, i, j = expression.args
        found = _double(matrix, values, known)[int(i), int(j)]
    elif isinstance(expression, Determinant):
        found = np.linalg.det(_double(expression.args[0], values, known))
    elif isinstance(expression, sp.Inverse):
        found = np.linalg.inv(_double(expression.arg, values, known))
    elif isinstance(expression, sp.Transpose):
        found = _double(expression.arg, values, known).T
    elif isinstance(expression, sp.MatMul):
        found = np.linalg.multi_dot([_double(a, values, known) for a in expression.args])
    elif isinstance(expression, sp.MatAdd | sp.Add):
        found = sum(_double(a, values, known) for a in expression.args)
    elif isinstance(expression, sp.Mul):
        found = 1.0
        for a in expression.args:
            found = found * _double(a, values, known)
    elif isinstance(expression, sp.Pow):
        found = _double(expression.base, values, known) ** _double(expression.exp, values, known)
    elif expression.is_number:
        found = float(expression)
    else:
        raise DerivationError(f"no value in double precision for {type(expression).__name__}")
    known[expression] = found
    return found
