"""Numbers for expressions at any precision: nested quadrature in mpmath (30 digits in audits, 40 on request).

Shares nothing with the generated code. Two rules (trapezoid, tanh-sinh) let the two sides of a verified step be
computed by different means; averages over tokens belong to :mod:`theorykit.derivations.tensor`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Any

import mpmath
import sympy as sp

from theorykit.derivations.matrices import Determinant, Entry, combined
from theorykit.derivations.nodes import (
    DistinctSum,
    Expectation,
    HalfLine,
    Node,
    TruncatedExpectation,
)
from theorykit.derivations.skeleton import MP_FUNCTIONS, environment_of, lookup, skeleton
from theorykit.errors import DerivationError

__all__ = ["evaluate", "evaluate_all"]

_KINKED = (sp.Abs, sp.Max, sp.Min, sp.sign, sp.Heaviside, sp.Piecewise)


@dataclass
class _Precise:
    """State of one mpmath evaluation: the working precision, the rule and values already known."""

    digits: int
    rule: str
    parameters: Mapping[sp.Symbol, mpmath.mpf] = field(default_factory=dict)
    known: dict[tuple, mpmath.mpf] = field(default_factory=dict)
    tables: dict[tuple, tuple[mpmath.mpf, dict[sp.Symbol, mpmath.mpf]]] = field(default_factory=dict)

    def value(self, expression: sp.Expr, environment: Mapping[sp.Symbol, Any]) -> mpmath.mpf:
        symbols, nodes, function = skeleton(expression, "mpmath")
        arguments = [lookup(s, environment) for s in symbols]
        return function(*arguments, *[self._node(n, environment) for n in nodes])

    def _node(self, node: Node, environment: Mapping[sp.Symbol, Any]) -> mpmath.mpf:
        key = (node, *[environment.get(s) for s in sorted(node.free_symbols, key=str)])
        if key not in self.known:
            self.known[key] = self._reduce(node, environment)
        return self.known[key]

    def _reduce(self, node: Node, environment: Mapping[sp.Symbol, Any]) -> mpmath.mpf:
        if isinstance(node, Expectation):
            return self._expectation(node, environment)
        if isinstance(node, HalfLine):
            return self._half_line(node, environment)
        if isinstance(node, TruncatedExpectation):
            return self._truncated(node, environment)
        if isinstance(node, DistinctSum):
            return self.value(node.expand_at(int(self.value(node.length, environment))), environment)
        if isinstance(node, Entry):
            matrix, i, j = node.args
            return self._matrix(matrix, environment)[int(i), int(j)]
        if isinstance(node, Determinant):
            return mpmath.det(self._matrix(node.args[0], environment))
        raise DerivationError(f"{type(node).__name__} has no arbitrary-precision evaluation")

    def _matrix(self, matrix: sp.Basic, environment: Mapping[sp.Symbol, Any]) -> mpmath.matrix:
        """A small matrix; matrices that several entries share are computed once."""
        key = (matrix, *[environment.get(s) for s in sorted(matrix.free_symbols, key=str)])
        if key not in self.known:
            self.known[key] = self._matrix_value(matrix, environment)
        return self.known[key]

    def _matrix_value(self, matrix: sp.Basic, environment: Mapping[sp.Symbol, Any]) -> mpmath.matrix:
        if isinstance(matrix, sp.MatrixBase):
            rows = [
                [self.value(matrix[i, j], environment) for j in range(matrix.cols)]
                for i in range(matrix.rows)
            ]
            return mpmath.matrix(rows)
        if isinstance(matrix, sp.Inverse):
            return mpmath.inverse(self._matrix(matrix.arg, environment))
        return combined(matrix, [self._matrix(a, environment) for a in matrix.args])

    def _expectation(self, node: Expectation, environment: Mapping[sp.Symbol, Any]) -> mpmath.mpf:
        from theorykit.derivations.gaussian import standardize

        node = standardize(node)
        if len(node.variables) > 1:
            inner = Expectation(node.integrand, [node.variables[-1]])
            node = Expectation(inner, list(node.variables)[:-1])
            return self.value(node, environment)
        (variable,) = node.variables
        rest, parts = _own_parts(node.integrand, variable, frozenset(self.parameters))
        inner = dict(environment)

        def density_times(x: mpmath.mpf) -> mpmath.mpf:
            weight, own = self._own(parts, variable, x)
            inner[variable] = x
            inner.update(own)
            return weight * self.value(rest, inner)

        edges = _kinks(node.integrand, variable, environment)
        if edges or self.rule == "quad":
            reach = mpmath.sqrt(2 * mpmath.log(10) * (self.digits + 8)) + 4
            grid = sorted(
                {-reach, *[mpmath.mpf(k) for k in range(-int(reach), int(reach) + 1)], *edges, reach}
            )
            return mpmath.quad(density_times, grid)
        return self._trapezoid(density_times, mpmath.mpf(0), mpmath.mpf("0.5"))

    def _own(
        self, parts: tuple[tuple[sp.Symbol, sp.Expr], ...], variable: sp.Symbol, x: mpmath.mpf
    ) -> tuple[mpmath.mpf, dict[sp.Symbol, mpmath.mpf]]:
        """Density at ``x`` and what depends on it and on parameters alone: the same at every outer point."""
        key = (parts, x)
        if key not in self.tables:
            own = {name: self.value(part, {**self.parameters, variable: x}) for name, part in parts}
            self.tables[key] = (mpmath.npdf(x), own)
        return self.tables[key]

    def _half_line(self, node: HalfLine, environment: Mapping[sp.Symbol, Any]) -> mpmath.mpf:
        with mpmath.workdps(8):
            rough = _Precise(2, self.rule, self.parameters)
            scan = [(abs(rough.in_log(node, environment, mpmath.mpf(s))), s) for s in range(-120, 121, 5)]
        peak = max(scan, key=lambda pair: pair[0])[1]
        return self._trapezoid(
            lambda s: self.in_log(node, environment, s), mpmath.mpf(peak), mpmath.mpf("0.5")
        )

    def in_log(self, node: HalfLine, environment: Mapping[sp.Symbol, Any], s: mpmath.mpf) -> mpmath.mpf:
        """The integrand of a half-line integral over s = log t."""
        t = mpmath.exp(s)
        return t * self.value(node.integrand, {**environment, node.variable: t})

    def _truncated(self, node: TruncatedExpectation, environment: Mapping[sp.Symbol, Any]) -> mpmath.mpf:
        upper = self.value(node.upper, environment)
        norm = mpmath.sqrt(2 * mpmath.pi)

        def density_times(x: mpmath.mpf) -> mpmath.mpf:
            inner = {**environment, node.variable: x}
            return mpmath.exp(-x * x / 2) * self.value(node.integrand, inner) / norm

        reach = mpmath.sqrt(2 * mpmath.log(10) * (self.digits + 8)) + 4
        low = min(-reach, upper - 1)
        edges = [e for e in _kinks(node.integrand, node.variable, environment) if low < e < upper]
        pieces = max(2, int(upper - low))
        return mpmath.quad(density_times, sorted({*mpmath.linspace(low, upper, pieces + 1), *edges}))

    def _trapezoid(self, f: Callable, centre: mpmath.mpf, step: mpmath.mpf) -> mpmath.mpf:
        """Trapezoid rule on the line, halved until it agrees: digits double with each halving."""
        floor = mpmath.mpf(10) ** (-self.digits - 6)
        total = self._sweep(f, centre, step, floor)
        previous = total * step
        for _ in range(9):
            total += self._sweep(f, centre + step / 2, step, floor)
            step /= 2
            value = total * step
            gap = abs(value - previous)
            if gap <= abs(value) * mpmath.mpf(10) ** (-0.7 * self.digits):
                return value
            previous = value
        raise DerivationError(f"trapezoid rule did not reach {self.digits} digits (last step {step})")

    def _sweep(self, f: Callable, start: mpmath.mpf, step: mpmath.mpf, floor: mpmath.mpf) -> mpmath.mpf:
        total, largest = mpmath.mpf(0), mpmath.mpf(0)
        for direction in (1, -1):
            quiet, index = 0, 0 if direction == 1 else 1
            while quiet < 6 or abs(index * step) < 4:
                term = f(start + direction * index * step)
                total += term
                largest = max(largest, abs(term))
                quiet = quiet + 1 if abs(term) <= floor * largest else 0
                index += 1
        return total


@lru_cache(maxsize=1024)
def _own_parts(
    integrand: sp.Expr, variable: sp.Symbol, parameters: frozenset[sp.Symbol]
) -> tuple[sp.Expr, tuple[tuple[sp.Symbol, sp.Expr], ...]]:
    """The integrand with names for its largest parts that depend on the variable and on parameters alone."""
    fixed = parameters | {variable}
    names: dict[sp.Expr, sp.Symbol] = {}

    def named(part: sp.Expr) -> sp.Expr:
        if not part.args or isinstance(part, Node):
            return part
        free = part.free_symbols
        if variable in free and free <= fixed and not part.has(Node):
            return names.setdefault(part, sp.Symbol(f"_own_{len(names)}"))
        arguments = [named(a) for a in part.args]
        return part.func(*arguments) if tuple(arguments) != part.args else part

    rest = named(integrand)
    return rest, tuple((name, part) for part, name in names.items())


def _kinks(integrand: sp.Expr, variable: sp.Symbol, environment: Mapping[sp.Symbol, Any]) -> list[mpmath.mpf]:
    """Where the integrand is not smooth in the variable: roots of the arguments of abs, max, sign.

    A switch that also depends on an inner variable is smoothed by the inner average and left out.
    """
    found: list[mpmath.mpf] = []
    for atom in integrand.atoms(*_KINKED):
        for switch in _switches(atom):
            if variable in switch.free_symbols and switch.free_symbols <= {variable, *environment}:
                symbols = sorted(switch.free_symbols - {variable}, key=str)
                function = sp.lambdify([variable, *symbols], switch, modules=[MP_FUNCTIONS, "mpmath"])
                found += _roots(lambda x, f=function, s=symbols: f(x, *[environment[k] for k in s]))
    return found


def _roots(function: Callable[[mpmath.mpf], mpmath.mpf]) -> list[mpmath.mpf]:
    """Sign changes on [-20, 20], by a scan and bisection to the working precision."""
    found: list[mpmath.mpf] = []
    grid = [mpmath.mpf(k) / 16 + mpmath.mpf(1) / 971 for k in range(-320, 321)]
    values = [function(x) for x in grid]
    for low, high, before, after in zip(grid, grid[1:], values, values[1:], strict=False):
        if before * after < 0:
            for _ in range(int(3.4 * mpmath.mp.dps) + 8):
                middle = (low + high) / 2
                if before * function(middle) <= 0:
                    high = middle
                else:
                    low = middle
            found.append((low + high) / 2)
    return found


def _switches(atom: sp.Expr) -> list[sp.Expr]:
    if isinstance(atom, sp.Max | sp.Min):
        return [first - second for first, second in combinations(atom.args, 2)]
    if isinstance(atom, sp.Piecewise):
        return [c.lhs - c.rhs for _, c in atom.args if isinstance(c, sp.core.relational.Relational)]
    return [atom.args[0]]


def evaluate(
    expression: sp.Expr, values: Mapping[Any, Any], digits: int = 40, rule: str = "trapezoid"
) -> mpmath.mpf:
    """Value of an expression at given parameter values, to ``digits`` digits.

    Parameters
    ----------
    expression : SymPy expression with nodes (no averages over tokens)
    values : symbol (or its name) -> number; strings such as "1/3" are read by mpmath
    digits : digits of the result
    rule : "trapezoid" or "quad" (tanh-sinh), for the averages

    Raises
    ------
    DerivationError
        a symbol has no value, or the quadrature does not reach the digits.
    """
    return evaluate_all({"value": sp.sympify(expression)}, values, digits, rule)["value"]


def evaluate_all(
    expressions: Mapping[str, sp.Expr], values: Mapping[Any, Any], digits: int = 40, rule: str = "trapezoid"
) -> dict[str, mpmath.mpf]:
    """Several expressions at one point; averages that they share are computed once."""
    with mpmath.workdps(digits + 10):
        given = {n: environment_of(e, values, _mp_number) for n, e in expressions.items()}
        state = _Precise(digits, rule, {s: v for one in given.values() for s, v in one.items()})
        found = {name: state.value(e, given[name]) for name, e in expressions.items()}
    with mpmath.workdps(digits):
        return {name: +mpmath.mpf(value) for name, value in found.items()}


def _mp_number(value: Any) -> mpmath.mpf:
    if hasattr(value, "p") and hasattr(value, "q"):
        return mpmath.mpf(value.p) / value.q
    if isinstance(value, str) and "/" in value:
        numerator, denominator = value.split("/")
        return mpmath.mpf(numerator) / mpmath.mpf(denominator)
    return mpmath.mpf(value)
