"""Numbers for expressions at any precision: nested quadrature in mpmath (30 digits in audits, 40 on request).

Shares nothing with the generated code. Integrals over the line are trapezoid sums halved until their digits are there
(:mod:`theorykit.derivations.lines`), split into panels at kinks; inner ones that move with an outer variable come from
tables (:mod:`theorykit.derivations.convolution`). Two rules (trapezoid, tanh-sinh) let the two sides of a verified
step be computed by different means; averages over tokens belong to :mod:`theorykit.derivations.tensor`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import mpmath
import sympy as sp

from theorykit.derivations.convolution import Convolution, Still, Table
from theorykit.derivations.gaussian import standardize
from theorykit.derivations.kinks import KINKED, kinks
from theorykit.derivations.lines import FINEST, Line, integrate_line
from theorykit.derivations.matrices import Determinant, Entry, combined
from theorykit.derivations.nodes import (
    DistinctSum,
    Expectation,
    HalfLine,
    Node,
    TruncatedExpectation,
)
from theorykit.derivations.skeleton import environment_of, lookup, mp_number, skeleton
from theorykit.derivations.translation import PLACE, translation_of
from theorykit.errors import ConvergenceError, DerivationError

__all__ = ["evaluate", "evaluate_all"]


@dataclass
class _Precise:
    """State of one mpmath evaluation: the working precision, the rule and values already known."""

    digits: int
    rule: str
    parameters: Mapping[sp.Symbol, mpmath.mpf] = field(default_factory=dict)
    known: dict[tuple, mpmath.mpf] = field(default_factory=dict)
    tables: dict[tuple, tuple[mpmath.mpf, dict[sp.Symbol, mpmath.mpf]]] = field(default_factory=dict)
    spacing: mpmath.mpf = field(default_factory=lambda: mpmath.mpf("0.5"))
    shift: mpmath.mpf = field(default_factory=mpmath.mpf)
    lines: dict[sp.Symbol, Line] = field(default_factory=dict)
    convolutions: dict[tuple, tuple[sp.Expr, Convolution | Still] | None] = field(default_factory=dict)
    owns: dict[tuple, Table] = field(default_factory=dict)

    def value(self, expression: sp.Expr, environment: Mapping[sp.Symbol, Any]) -> mpmath.mpf:
        symbols, nodes, function = skeleton(expression, "mpmath")
        arguments = [lookup(s, environment) for s in symbols]
        return function(*arguments, *[self._node(n, environment) for n in nodes])

    def _node(self, node: Node, environment: Mapping[sp.Symbol, Any]) -> mpmath.mpf:
        key = (node, *[environment.get(s) for s in _free_symbols(node)])
        if key not in self.known:
            found = self._tabulated(node, environment)
            self.known[key] = self._reduce(node, environment) if found is None else found
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
        key = (matrix, *[environment.get(s) for s in _free_symbols(matrix)])
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
        nested = _one_by_one(node)
        if not isinstance(nested, Expectation) or nested != node:
            return self.value(nested, environment)
        (variable,) = node.variables
        rest, parts = _own_parts(node.integrand, variable, frozenset(self.parameters))
        inner = dict(environment)

        def density_times(x: mpmath.mpf) -> mpmath.mpf:
            weight, own = self._own(parts, variable, x)
            inner[variable] = x
            inner.update(own)
            return weight * self.value(rest, inner)

        edges = kinks(node.integrand, variable, environment)
        if edges or self.rule == "quad":
            reach = mpmath.sqrt(2 * mpmath.log(10) * (self.digits + 8)) + 4
            grid = sorted(
                {-reach, *[mpmath.mpf(k) for k in range(-int(reach), int(reach) + 1)], *edges, reach}
            )
            return self._by_panels(density_times, grid)
        line = Line(self.shift, self.spacing)
        with line.standing_in(self.lines, variable):
            return integrate_line(density_times, line, self.digits)

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
        line = Line(self.shift, 8 * self.spacing, logarithm=True)
        with line.standing_in(self.lines, node.variable):
            return integrate_line(
                lambda s: self.in_log(node, environment, s),
                line,
                self.digits,
                self._peak(node, environment, line.step),
            )

    def _peak(self, node: HalfLine, environment: Mapping[sp.Symbol, Any], step: mpmath.mpf) -> int:
        """Where on the coarse grid of log t the integrand is largest, by a scan to few digits."""
        where = tuple((s, mpmath.nstr(environment[s], 8)) for s in _free_symbols(node) if s in environment)
        return round(_peak_of(node, where, self.rule) / step)

    def in_log(self, node: HalfLine, environment: Mapping[sp.Symbol, Any], s: mpmath.mpf) -> mpmath.mpf:
        """The integrand of a half-line integral over s = log t."""
        t = mpmath.exp(s)
        return t * self.value(node.integrand, {**environment, node.variable: t})

    # ------------------------------------------------------------ integrals that move with an outer variable

    def _tabulated(self, node: Node, environment: Mapping[sp.Symbol, Any]) -> mpmath.mpf | None:
        """An inner integral from tables, where it depends on one variable on a grid and moves with it."""
        outer = [s for s in _free_symbols(node) if s not in self.parameters]
        if len(outer) != 1 or outer[0] not in self.lines or self.rule != "trapezoid":
            return None
        line = self.lines[outer[0]]
        key = (node, outer[0], line.origin, line.step, line.logarithm)
        if key not in self.convolutions:
            self.convolutions[key] = self._convolution(node, outer[0], line)
        found = self.convolutions[key]
        if found is None:
            return None
        factor, convolution = found
        return self.value(factor, environment) * convolution.at(line.index)

    def _convolution(
        self, node: Node, outer: sp.Symbol, line: Line
    ) -> tuple[sp.Expr, Convolution | Still] | None:
        if isinstance(node, Expectation) and len(node.variables) == 1 and node.is_standard:
            inner = node.variables[0]
        elif isinstance(node, HalfLine):
            inner = node.variable
        else:
            return None
        if node.integrand.has(*KINKED):
            return None
        parts = translation_of(node, outer, line.logarithm)
        if parts is None:
            return None
        ratio = self.value(parts.ratio, self.parameters)
        moving = self._function(parts.moving, PLACE)
        if not ratio:
            kept = (
                Expectation(parts.own, [inner])
                if isinstance(node, Expectation)
                else HalfLine(parts.own, inner)
            )
            return parts.outer, Still(self.value(kept, self.parameters), moving, line)
        grid = Convolution.grid(line, ratio, self.spacing, isinstance(node, HalfLine))
        key = (parts.own, inner, grid.step, grid.logarithm)
        if key not in self.owns:
            self.owns[key] = Table(self._own_values(parts.own, inner, grid))
        return parts.outer, Convolution(self.owns[key], moving, line, grid, ratio, self.digits)

    def _own_values(self, own: sp.Expr, inner: sp.Symbol, grid: Line) -> Callable[[int], mpmath.mpf]:
        """The factor of the inner variable, with its density, at positions of its grid."""
        function = self._function(own, inner)

        def value(index: int) -> mpmath.mpf:
            grid.index = index
            y = grid.place(index)
            if grid.logarithm:
                y = mpmath.exp(y)
            with grid.standing_in(self.lines, inner):
                return (y if grid.logarithm else mpmath.npdf(y)) * function(y)

        return value

    def _function(self, expression: sp.Expr, variable: sp.Symbol) -> Callable[[mpmath.mpf], mpmath.mpf]:
        """An expression of one variable and parameters as a function of the variable."""
        symbols, nodes, function = skeleton(expression, "mpmath")
        if nodes or variable not in symbols:
            return lambda x: self.value(expression, {**self.parameters, variable: x})
        fixed = [None if s == variable else lookup(s, self.parameters) for s in symbols]
        before, after = fixed[: symbols.index(variable)], fixed[symbols.index(variable) + 1 :]
        return lambda x: function(*before, x, *after)

    def _truncated(self, node: TruncatedExpectation, environment: Mapping[sp.Symbol, Any]) -> mpmath.mpf:
        upper = self.value(node.upper, environment)
        norm = mpmath.sqrt(2 * mpmath.pi)

        def density_times(x: mpmath.mpf) -> mpmath.mpf:
            inner = {**environment, node.variable: x}
            return mpmath.exp(-x * x / 2) * self.value(node.integrand, inner) / norm

        reach = mpmath.sqrt(2 * mpmath.log(10) * (self.digits + 8)) + 4
        low = min(-reach, upper - 1)
        edges = [e for e in kinks(node.integrand, node.variable, environment) if low < e < upper]
        pieces = max(2, int(upper - low))
        return self._by_panels(density_times, sorted({*mpmath.linspace(low, upper, pieces + 1), *edges}))

    def _by_panels(self, function: Callable, edges: list[mpmath.mpf]) -> mpmath.mpf:
        """Tanh-sinh between edges, refused where its own error estimate does not reach the digits."""
        value, error = mpmath.quad(function, edges, error=True)
        if error > max(abs(value) * mpmath.mpf(10) ** -self.digits, mpmath.mpf(10) ** (5 - mpmath.mp.dps)):
            raise ConvergenceError(
                f"tanh-sinh quadrature did not reach {self.digits} digits: error {mpmath.nstr(error, 3)} of "
                f"{mpmath.nstr(value, 6)}",
                last=value,
                residual=float(error),
            )
        return value


@lru_cache(maxsize=4096)
def _peak_of(node: HalfLine, where: tuple[tuple[sp.Symbol, str], ...], rule: str) -> int:
    """The multiple of 4 at which the integrand of a half-line integral over log t is largest."""
    with mpmath.workdps(8):
        environment = {s: mpmath.mpf(v) for s, v in where}
        rough = _Precise(2, rule, environment)
        line = Line(mpmath.mpf(0), mpmath.mpf(4), logarithm=True)

        def size(k: int) -> mpmath.mpf:
            line.index = k << FINEST
            return abs(rough.in_log(node, environment, line.place(line.index)))

        with line.standing_in(rough.lines, node.variable):
            sizes = {0: size(0)}
            for direction in (1, -1):
                k, quiet = 0, 0
                while abs(k) < 30 and quiet < 4:
                    k += direction
                    try:
                        sizes[k] = size(k)
                    except ConvergenceError:
                        break  # too steep there to be seen; the integral itself is refused if it needs it
                    quiet = quiet + 1 if sizes[k] < 1e-9 * max(sizes.values()) else 0
            return 4 * max(sizes, key=lambda k: sizes[k])


@lru_cache(maxsize=4096)
def _free_symbols(expression: sp.Basic) -> tuple[sp.Symbol, ...]:
    return tuple(sorted(expression.free_symbols, key=str))


@lru_cache(maxsize=1024)
def _one_by_one(node: Expectation) -> sp.Expr:
    """An average over one standard variable around that over the others; each factor is averaged where it varies."""
    node = standardize(node)
    used = [v for v in node.variables if v in node.integrand.free_symbols]
    if len(used) < 2:
        return Expectation(node.integrand, used)
    *first, last = used
    factors = sp.Mul.make_args(sp.expand_power_exp(node.integrand))
    inside = sp.Mul(*[f for f in factors if last in f.free_symbols])
    outside = sp.Mul(*[f for f in factors if last not in f.free_symbols])
    return Expectation(outside * Expectation(inside, [last]), first)


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
        A symbol has no value, or a node has no evaluation at this precision.
    ConvergenceError
        A quadrature does not reach the digits.
    """
    return evaluate_all({"value": sp.sympify(expression)}, values, digits, rule)["value"]


def evaluate_all(
    expressions: Mapping[str, sp.Expr],
    values: Mapping[Any, Any],
    digits: int = 40,
    rule: str = "trapezoid",
    *,
    guard: int = 10,
    spacing: str = "0.5",
    shift: str = "0",
) -> dict[str, mpmath.mpf]:
    """Several expressions at one point; averages that they share are computed once.

    One run, whose quadratures are refined until each reaches the digits: digits that cancel between them, or between
    closed terms, are not seen here but by :func:`theorykit.derivations.certified.evaluate_certified`, which makes two.

    Parameters
    ----------
    expressions, values, digits, rule : as in :func:`evaluate`
    guard : digits carried beyond those asked for
    spacing, shift : first step of the grids of averages, and where their origin is

    Raises
    ------
    DerivationError
        A symbol has no value, or a node has no evaluation at this precision.
    ConvergenceError
        A quadrature does not reach the digits.
    """
    with mpmath.workdps(digits + guard):
        given = {n: environment_of(e, values, mp_number) for n, e in expressions.items()}
        state = _Precise(
            digits,
            rule,
            {s: v for one in given.values() for s, v in one.items()},
            spacing=mpmath.mpf(spacing),
            shift=mpmath.mpf(shift),
        )
        found = {name: state.value(e, given[name]) for name, e in expressions.items()}
    with mpmath.workdps(digits):
        return {name: +mpmath.mpf(value) for name, value in found.items()}
