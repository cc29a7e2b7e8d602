"""Numbers for expressions by brute force: every bound variable is an axis of one array, in double precision.

Also averages over L tokens at small integer L, field by field. ``evaluate_tensor`` returns value and error,
``tensor_value`` the value alone, at half the cost. Two rules: trapezoid, Gauss-Legendre panels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from theorykit.derivations.nodes import (
    DistinctSum,
    Expectation,
    HalfLine,
    Largest,
    Node,
    TokenExpectation,
    TokenPower,
    TruncatedExpectation,
)
from theorykit.derivations.proximal import AtProximal, Moreau, bisect_slope
from theorykit.derivations.skeleton import environment_of, lookup, skeleton
from theorykit.errors import DerivationError

__all__ = ["evaluate_tensor", "expand_sums", "tensor_value"]


@dataclass(frozen=True)
class _Tensor:
    """One brute-force evaluation: its rule and the number of nodes of a single axis."""

    rule: str
    refinement: float
    reach: float = 1.0
    known: dict[tuple, np.ndarray] = field(default_factory=dict, compare=False)

    def value(self, expression: sp.Expr, environment: Mapping[sp.Symbol, Any], depth: int) -> np.ndarray:
        symbols, nodes, function = skeleton(expression, "numpy")
        arguments = [lookup(s, environment) for s in symbols]
        # all branches of a Piecewise are computed, taken or not; a number that is not finite is refused at the end
        with np.errstate(all="ignore"):
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
            # steep in log t: the law of an exponential variable, and whatever is innermost
            is_innermost = depth > 0 and not node.integrand.has(Node)
            is_steep = is_innermost or node.integrand.has(sp.exp(-node.variable))
            s, w = self._axis(-32.0, 18.0, 400 if is_steep else 180)
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
        integrand = expand_sums(node.integrand, node.length, length)
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


def expand_sums(expression: sp.Expr, symbol: sp.Expr, length: int) -> sp.Expr:
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


def _without_empty_powers(expression: sp.Expr, environment: Mapping[sp.Symbol, float]) -> sp.Expr:
    """Powers of no tokens are 1, of fewer 0: what their bases average over need not be computed."""
    integers = {s: sp.Integer(v) for s, v in environment.items() if float(v).is_integer()}

    def count(part: sp.Basic) -> sp.Expr:
        return part.args[1].xreplace(integers)

    return expression.replace(
        lambda part: isinstance(part, TokenPower) and count(part).is_nonpositive,
        lambda power: TokenPower(power.args[0], count(power)),
    )


def tensor_value(
    expression: sp.Expr, values: Mapping[Any, Any], rule: str = "trapezoid", scale: float = 1.0
) -> float:
    """Brute-force value of an expression in double precision, on one grid; ``scale`` below 1 makes it coarser.

    Averages over tokens need an integer length and at most about five non-polynomial fields.

    Raises
    ------
    DerivationError
        a symbol has no value, or the result is not a finite real number.
    """
    environment = environment_of(
        expression, values, lambda v: float(Fraction(v)) if isinstance(v, str) else float(v)
    )
    grid = _Tensor(rule, 1.0) if scale == 1.0 else _Tensor(rule, scale, 0.4 + 0.6 * scale)
    value = grid.value(_without_empty_powers(sp.sympify(expression), environment), environment, 0)
    if np.iscomplexobj(value):
        raise DerivationError(f"brute-force evaluation is not real at {dict(values)}")
    if not math.isfinite(value):
        raise DerivationError(f"brute-force evaluation is not finite at {dict(values)}")
    return float(value)


def evaluate_tensor(
    expression: sp.Expr, values: Mapping[Any, Any], rule: str = "trapezoid"
) -> tuple[float, float]:
    """The same with an error: the difference to a coarser, shorter grid."""
    fine, coarse = (tensor_value(expression, values, rule, scale) for scale in (1.0, 0.8))
    return fine, abs(fine - coarse)
