"""Numbers for expressions, by means that share nothing with the generated code.

``evaluate``         nested quadrature in mpmath at any precision (30 digits in audits, 40 on request)
``evaluate_tensor``  brute force in double precision: every bound variable is an axis of one array; also
                     averages over L tokens at small integer L, field by field. Returns value and error;
                     ``tensor_value`` the value alone, at half the cost.

Two rules (trapezoid, Gauss-Legendre panels; in mpmath trapezoid and tanh-sinh) let the two sides of a
verified step be computed by different means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from theorykit.derivations.matrices import Determinant, Entry
from theorykit.derivations.nodes import (
    DistinctSum,
    Expectation,
    HalfLine,
    Largest,
    Node,
    TokenExpectation,
    TokenPower,
    TruncatedExpectation,
    gamma_weight,
    normal_cdf,
    owens_t,
    owens_t_gap,
)
from theorykit.derivations.proximal import AtProximal, Moreau, bisect_slope
from theorykit.errors import DerivationError

__all__ = ["evaluate", "evaluate_all", "evaluate_tensor", "tensor_value"]

_KINKED = (sp.Abs, sp.Max, sp.Min, sp.sign, sp.Heaviside, sp.Piecewise)


@lru_cache(maxsize=4096)
def _skeleton(expression: sp.Expr, module: str) -> tuple[tuple[sp.Symbol, ...], tuple[Node, ...], Callable]:
    """Compile what stands between the nodes: (plain symbols, nodes, function of both)."""
    nodes = sorted(_outermost_nodes(expression), key=sp.default_sort_key)
    names = [sp.Symbol(f"_node_{i}") for i in range(len(nodes))]
    plain = expression.xreplace(dict(zip(nodes, names, strict=True)))
    plain = plain.replace(normal_cdf, lambda a: sp.erfc(-a / sp.sqrt(2)) / 2)
    symbols = sorted(plain.free_symbols - set(names), key=lambda s: s.name)
    tables: list[Any] = [_MP_FUNCTIONS, "mpmath"] if module == "mpmath" else [_NP_FUNCTIONS, "scipy", "numpy"]
    function = sp.lambdify([*symbols, *names], plain, modules=tables)
    return tuple(symbols), tuple(nodes), function


def _outermost_nodes(expression: sp.Basic) -> set[Node]:
    if isinstance(expression, Node):
        return {expression}
    found: set[Node] = set()
    for argument in expression.args:
        found |= _outermost_nodes(argument)
    return found


def _mp_owens_t(h: mpmath.mpf, a: mpmath.mpf) -> mpmath.mpf:
    pieces = mpmath.linspace(0, a, 9)
    return mpmath.quad(lambda x: mpmath.exp(-h * h * (1 + x * x) / 2) / (1 + x * x), pieces) / (2 * mpmath.pi)


def _np_owens_t(h: np.ndarray, a: np.ndarray) -> np.ndarray:
    from scipy.special import owens_t as scipy_owens_t

    return scipy_owens_t(h, a)


def _np_token_power(base: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.where(np.asarray(count) < 0, 0.0, np.power(base, np.maximum(count, 0)))


def _np_gamma_weight(u: np.ndarray, n: int) -> np.ndarray:
    capped = np.minimum(u, 1e3)  # both factors are known there: the weight underflows to zero
    return capped**n * np.exp(-capped)


_MP_FUNCTIONS = {
    gamma_weight.__name__: lambda u, n: u**n * mpmath.exp(-u),
    TokenPower.__name__: lambda base, count: base**count if count >= 0 else mpmath.mpf(0),
    owens_t.__name__: _mp_owens_t,
    owens_t_gap.__name__: lambda h, a: _mp_owens_t(h, mpmath.mpf(1)) - _mp_owens_t(h, a),
}
_NP_FUNCTIONS = {
    gamma_weight.__name__: _np_gamma_weight,
    TokenPower.__name__: _np_token_power,
    owens_t.__name__: _np_owens_t,
    owens_t_gap.__name__: lambda h, a: _np_owens_t(h, 1.0) - _np_owens_t(h, a),
}


# --------------------------------------------------------------------------- arbitrary precision


@dataclass
class _Precise:
    """State of one mpmath evaluation: the working precision, the rule and values already known."""

    digits: int
    rule: str
    parameters: Mapping[sp.Symbol, mpmath.mpf] = field(default_factory=dict)
    known: dict[tuple, mpmath.mpf] = field(default_factory=dict)
    tables: dict[tuple, tuple[mpmath.mpf, dict[sp.Symbol, mpmath.mpf]]] = field(default_factory=dict)

    def value(self, expression: sp.Expr, environment: Mapping[sp.Symbol, Any]) -> mpmath.mpf:
        symbols, nodes, function = _skeleton(expression, "mpmath")
        arguments = [_lookup(s, environment) for s in symbols]
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
        parts = [self._matrix(a, environment) for a in matrix.args]
        if isinstance(matrix, sp.Transpose):
            return parts[0].T
        if not isinstance(matrix, sp.MatAdd | sp.MatMul):
            raise DerivationError(f"the matrix {type(matrix).__name__} has no arbitrary-precision evaluation")
        total = parts[0]
        for part in parts[1:]:
            total = total + part if isinstance(matrix, sp.MatAdd) else total * part
        return total

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


def _lookup(symbol: sp.Symbol, environment: Mapping[sp.Symbol, Any]) -> Any:
    try:
        return environment[symbol]
    except KeyError:
        raise DerivationError(f"no value for {symbol}; known: {sorted(map(str, environment))}") from None


def _kinks(integrand: sp.Expr, variable: sp.Symbol, environment: Mapping[sp.Symbol, Any]) -> list[mpmath.mpf]:
    """Where the integrand is not smooth in the variable: roots of the arguments of abs, max, sign.

    A switch that also depends on an inner variable is smoothed by the inner average and left out.
    """
    found: list[mpmath.mpf] = []
    for atom in integrand.atoms(*_KINKED):
        for switch in _switches(atom):
            if variable in switch.free_symbols and switch.free_symbols <= {variable, *environment}:
                symbols = sorted(switch.free_symbols - {variable}, key=str)
                function = sp.lambdify([variable, *symbols], switch, modules=[_MP_FUNCTIONS, "mpmath"])
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
        given = {n: _environment(e, values, _mp_number) for n, e in expressions.items()}
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


def _environment(
    expression: sp.Expr, values: Mapping[Any, Any], convert: Callable[[Any], Any]
) -> dict[sp.Symbol, Any]:
    by_name = {str(k): v for k, v in values.items()}
    return {
        s: convert(by_name[s.name])
        for s in sp.sympify(expression).free_symbols
        if isinstance(s, sp.Symbol) and s.name in by_name
    }


# --------------------------------------------------------------------------- brute force in double precision


@dataclass(frozen=True)
class _Tensor:
    """One brute-force evaluation: its rule and the number of nodes of a single axis."""

    rule: str
    refinement: float
    reach: float = 1.0
    known: dict[tuple, np.ndarray] = field(default_factory=dict, compare=False)

    def value(self, expression: sp.Expr, environment: Mapping[sp.Symbol, Any], depth: int) -> np.ndarray:
        symbols, nodes, function = _skeleton(expression, "numpy")
        arguments = [_lookup(s, environment) for s in symbols]
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(function(*arguments, *[self._remembered(n, environment, depth) for n in nodes]))

    def _remembered(self, node: Node, environment: Mapping[sp.Symbol, Any], depth: int) -> np.ndarray:
        """Value of a node; the grid of a variable is known by its shape, so equal requests are answered once."""
        used = [(s, environment[s]) for s in sorted(node.free_symbols, key=str) if s in environment]
        grids = [(s, np.shape(v) if np.size(v) > 1 else float(np.squeeze(v))) for s, v in used]
        key = (node, depth, *grids)
        if key not in self.known:
            self.known[key] = self._node(node, environment, depth)
        return self.known[key]

    def _node(self, node: Node, environment: Mapping[sp.Symbol, Any], depth: int) -> np.ndarray:
        if isinstance(node, DistinctSum):
            length = int(self.value(node.length, environment, depth))
            return self.value(node.expand_at(length), environment, depth)
        if isinstance(node, TokenExpectation):
            return self._tokens(node, environment)
        if isinstance(node, Expectation):
            return self._expectation(node, environment, depth)
        if isinstance(node, HalfLine):
            s, w = self._axis(-32.0, 18.0, 180)
            t = np.exp(s)
            if depth == 0 and _height(node) > 3:
                return self._one_by_one(node, environment, t, w * t)
            return self._contract(node.integrand, environment, depth, {node.variable: t}, w * t)
        if isinstance(node, TruncatedExpectation):
            upper = self.value(node.upper, environment, depth)
            r, w = (
                self._panels(0.0, 24.0, 240)
                if depth < 2 or not _height(node.integrand)
                else self._panels(0.0, 15.0, 96)
            )
            r, w = (a.reshape((-1,) + (1,) * depth) for a in (r, w))
            x = upper - r
            inner = {**environment, node.variable: x}
            weight = w * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
            return np.sum(weight * self.value(node.integrand, inner, depth + 1), axis=0)
        if isinstance(node, Moreau | AtProximal):
            return self._proximal(node, environment, depth)
        raise DerivationError(f"{type(node).__name__} has no brute-force evaluation")

    def _proximal(
        self, node: Moreau | AtProximal, environment: Mapping[sp.Symbol, Any], depth: int
    ) -> np.ndarray:
        """A quantity at the minimizer of a convex objective of one variable."""
        places = node.places()
        if len(places) != 1:
            raise DerivationError(f"brute force minimizes over one variable, not over {places}")
        x = sp.Symbol("_minimizer", real=True)
        quantity = node.quantity if isinstance(node, AtProximal) else node.objective
        slope, quantity = (e.xreplace({places[0]: x}) for e in (sp.diff(node.objective, places[0]), quantity))
        known = [environment[s] for s in slope.free_symbols if s in environment]
        shape = np.broadcast_shapes(*[np.shape(v) for v in known])
        found = bisect_slope(lambda at: self.value(slope, {**environment, x: at}, depth), shape)
        return self.value(quantity, {**environment, x: found}, depth)

    def _expectation(self, node: Expectation, environment: Mapping[sp.Symbol, Any], depth: int) -> np.ndarray:
        from theorykit.derivations.gaussian import standardize

        node = standardize(node)
        if len(node.variables) > 1:
            node = _factors_outside(node)
        if depth == 1 and _height(node) > 2:
            count, reach = 120, 8.5
        else:
            count, reach = {0: (360, 11.0), 1: (360, 11.0), 2: (72, 8.0)}.get(depth, (36, 7.0))
        x, w = self._gaussian(count, reach)
        return self._contract(node.integrand, environment, depth, {node.variables[0]: x}, w)

    def _one_by_one(
        self, node: HalfLine, environment: Mapping[sp.Symbol, Any], t: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """The outer of two half-line integrals node by node, to bound memory."""
        inner = []
        for value in t[:, None]:
            inner.append(
                float(np.squeeze(self.value(node.integrand, {**environment, node.variable: value}, 1)))
            )
            for key in [k for k in self.known if (node.variable, float(value[0])) in k]:
                del self.known[key]
        return np.asarray(np.dot(weights, np.array(inner)))

    def _contract(
        self,
        integrand: sp.Expr,
        environment: Mapping[sp.Symbol, Any],
        depth: int,
        bound: Mapping[sp.Symbol, np.ndarray],
        weights: np.ndarray,
    ) -> np.ndarray:
        shape = (-1,) + (1,) * depth
        inner = {**environment, **{s: a.reshape(shape) for s, a in bound.items()}}
        values = self.value(integrand, inner, depth + 1)
        values = np.broadcast_to(values, np.broadcast_shapes(values.shape, weights.reshape(shape).shape))
        return np.tensordot(weights, values, axes=(0, 0))

    def _gaussian(self, count: int, reach: float = 11.0) -> tuple[np.ndarray, np.ndarray]:
        reach *= self.reach
        x, w = self._axis(-reach, reach, count)
        return x, w * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    def _axis(self, low: float, high: float, count: int) -> tuple[np.ndarray, np.ndarray]:
        if self.rule == "legendre":
            return self._panels(low, high, count)
        count = int(count * self.refinement)
        step = (high - low) / count
        return low + step * (np.arange(count) + 0.5), np.full(count, step)

    def _panels(self, low: float, high: float, count: int) -> tuple[np.ndarray, np.ndarray]:
        panels = max(1, round(count * self.refinement / 12))
        nodes, weights = np.polynomial.legendre.leggauss(12)
        half = (high - low) / panels / 2
        centres = low + half * (2 * np.arange(panels) + 1)
        return (centres[:, None] + half * nodes).ravel(), np.tile(half * weights, panels)

    def _tokens(self, node: TokenExpectation, environment: Mapping[sp.Symbol, Any]) -> np.ndarray:
        """Average over tokens at an integer length: one axis for every field of every token."""
        swept = [k for k, v in environment.items() if np.ndim(v) > 0 and k in node.free_symbols]
        if swept:
            return self._tokens_at_each(node, environment, swept)
        length = int(self.value(node.length, environment, 0))
        integrand = _expand_sums_at(node.integrand, node.length, length)
        first = _largest_family(integrand)
        integrand = integrand.replace(Largest, lambda *_: sp.Integer(1))
        fields = sorted(
            (i for i in integrand.atoms(sp.Indexed) if i.base in node.families), key=sp.default_sort_key
        )
        if first is not None:
            fields = sorted({*fields, *[first[i] for i in range(1, length + 1)]}, key=sp.default_sort_key)
        axes = [*fields, *[s for s in node.shared if s in integrand.free_symbols]]
        plain = {a: sp.Symbol(f"_field_{i}") for i, a in enumerate(axes)}
        integrand = integrand.xreplace(plain)
        ranked = {first[i] for i in range(1, length + 1)} if first is not None else set()
        rough = [a for a in axes if a in ranked or not integrand.is_polynomial(plain[a])]
        count = {0: 1, 1: 500, 2: 260, 3: 130, 4: 72, 5: 36}.get(len(rough), 22)
        grids, roots = {}, [first[i] for i in range(1, length + 1)] if first is not None else []
        for axis in axes:
            if axis in roots[1:]:
                grids[axis] = self._panels(0.0, 18.0, count)
            elif axis in rough or axis in roots:
                grids[axis] = self._gaussian(count, reach=9.0 if count > 100 else 7.5)
            else:
                nodes, weights = np.polynomial.hermite_e.hermegauss(3)
                grids[axis] = nodes, weights / math.sqrt(2 * math.pi)
        return self._tensor_sum(integrand, axes, plain, grids, roots, environment)

    def _tokens_at_each(
        self, node: TokenExpectation, environment: Mapping[sp.Symbol, Any], swept: list[sp.Symbol]
    ) -> np.ndarray:
        """The same average at every value of the outer variables it depends on."""
        arrays = np.broadcast_arrays(*[environment[k] for k in swept])
        inside = _Tensor(self.rule, 0.5 * self.refinement, self.reach)
        points = zip(*[a.ravel() for a in arrays], strict=True)
        values = [inside._tokens(node, {**environment, **dict(zip(swept, p, strict=True))}) for p in points]
        return np.asarray(values, dtype=float).reshape(arrays[0].shape)

    def _tensor_sum(self, integrand, axes, plain, grids, roots, environment):  # type: ignore[no-untyped-def]
        """Sum over the product grid, one slice of the first axis at a time to bound memory."""
        if not axes:
            return self.value(integrand, environment, 0)
        nodes0, weights0 = grids[axes[0]]
        total = 0.0
        for x0, w0 in zip(nodes0, weights0, strict=True):
            local, weight = {**environment, plain[axes[0]]: x0}, w0
            for position, axis in enumerate(axes[1:]):
                shape = [1] * (len(axes) - 1)
                shape[position] = -1
                nodes, weights = (a.reshape(shape) for a in grids[axis])
                if axis in roots[1:]:
                    nodes = local[plain[roots[0]]] - nodes
                    weights = weights * np.exp(-(nodes**2) / 2) / math.sqrt(2 * math.pi)
                local[plain[axis]] = nodes
                weight = weight * weights
            total += float(np.sum(weight * self.value(integrand, local, len(axes) - 1)))
        return np.asarray(total)


def _height(expression: sp.Basic) -> int:
    """Number of averages and integrals inside one another."""
    inner = max((_height(a) for a in expression.args), default=0)
    if isinstance(expression, Expectation):
        return inner + len(expression.variables)
    return inner + isinstance(expression, HalfLine | TruncatedExpectation)


def _factors_outside(node: Expectation) -> Expectation:
    """Nest an average over independent variables: what depends on the first alone is not averaged again."""
    first, *rest = node.variables
    factors = sp.Mul.make_args(sp.expand_power_exp(node.integrand))
    inside = sp.Mul(*[f for f in factors if f.free_symbols & set(rest)])
    outside = sp.Mul(*[f for f in factors if not f.free_symbols & set(rest)])
    return Expectation(outside * Expectation(inside, rest), [first])


def _expand_sums_at(expression: sp.Expr, symbol: sp.Expr, length: int) -> sp.Expr:
    def expand(node: sp.Expr) -> sp.Expr:
        if isinstance(node, DistinctSum):
            return expand(node.expand_at(length))
        if not node.args or isinstance(node, sp.Indexed):
            return node
        return node.func(*[expand(a) for a in node.args])

    return expand(expression).xreplace({symbol: sp.Integer(length)})


def _largest_family(expression: sp.Expr) -> sp.IndexedBase | None:
    found = {atom.family for atom in expression.atoms(Largest)}
    if len(found) > 1:
        raise DerivationError(f"one family can carry the maximum, found {found}")
    return found.pop() if found else None


def tensor_value(
    expression: sp.Expr, values: Mapping[Any, Any], rule: str = "trapezoid", scale: float = 1.0
) -> float:
    """Brute-force value of an expression in double precision, on one grid; ``scale`` below 1 makes it coarser.

    Averages over tokens need an integer length and at most about five non-polynomial fields.
    """
    environment = _environment(
        expression, values, lambda v: float(Fraction(v)) if isinstance(v, str) else float(v)
    )
    grid = _Tensor(rule, 1.0) if scale == 1.0 else _Tensor(rule, scale, 0.4 + 0.6 * scale)
    return float(grid.value(sp.sympify(expression), environment, 0))


def evaluate_tensor(
    expression: sp.Expr, values: Mapping[Any, Any], rule: str = "trapezoid"
) -> tuple[float, float]:
    """The same with an error: the difference to a coarser, shorter grid."""
    fine, coarse = (tensor_value(expression, values, rule, scale) for scale in (1.0, 0.8))
    if not (math.isfinite(fine) and math.isfinite(coarse)):
        raise DerivationError(f"brute-force evaluation is not finite at {dict(values)}")
    return fine, abs(fine - coarse)
