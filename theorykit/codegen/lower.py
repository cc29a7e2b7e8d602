"""Lowering: a record of equations becomes a plan of array reductions.

Input: :class:`~theorykit.derivations.ledger.Equations`. Output: :class:`Plan`.

Every bound variable becomes a grid, every averaging node a *stage*: a table over the grids of the outer
variables it depends on, reduced over its own. A half-line variable t is integrated over s = log t, where the
trapezoid rule converges geometrically for every positive kernel. Nodes that stand outside all others are
*roots*: their stage returns the integrand on the grid and the sum is taken by the quadrature, which sees from it
where the integral lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import sympy as sp

from theorykit.codegen.rewrite import stabilize
from theorykit.derivations.ledger import Equations
from theorykit.derivations.nodes import Expectation, HalfLine, Node, TruncatedExpectation
from theorykit.errors import CodegenError

__all__ = ["Output", "Plan", "Stage", "Variable", "lower"]


@dataclass(frozen=True)
class Variable:
    """A grid: ``gaussian`` (density included in the weights), ``half_line`` (s = log t), ``exponential`` (the same
    with a factor exp(-t) in the integrand) or ``truncated`` (the Gaussian grid of ``outer`` up to each node)."""

    symbol: sp.Symbol
    measure: str
    outer: sp.Symbol | None = None
    breakpoints: tuple[sp.Expr, ...] = ()

    @property
    def name(self) -> str:
        return self.symbol.name


@dataclass(frozen=True)
class Output:
    """One table of a stage: the symbol that stands for it elsewhere and the integrand that is summed."""

    symbol: sp.Symbol
    integrand: sp.Expr


@dataclass(frozen=True)
class Stage:
    """Tables over ``dims``, summed over ``reduced`` (None: the integrand itself, a root)."""

    name: str
    dims: tuple[sp.Symbol, ...]
    reduced: sp.Symbol | None
    outputs: tuple[Output, ...]


@dataclass(frozen=True)
class Plan:
    """What is emitted: grids, stages in order of dependence, and the observables at the end."""

    name: str
    parameters: tuple[sp.Symbol, ...]
    variables: tuple[Variable, ...]
    stages: tuple[Stage, ...]
    observables: Mapping[str, sp.Expr]


@dataclass
class _Lowering:
    """Nodes met so far. ``tables`` maps a placeholder to its dims, ``entries`` to how it is computed."""

    breakpoints: Mapping[sp.Symbol, tuple[sp.Expr, ...]]
    variables: dict[sp.Symbol, Variable] = field(default_factory=dict)
    tables: dict[sp.Symbol, tuple[sp.Symbol, ...]] = field(default_factory=dict)
    entries: dict[sp.Symbol, tuple[sp.Symbol, bool, sp.Expr, int]] = field(default_factory=dict)
    known: dict[tuple[Node, bool], sp.Symbol] = field(default_factory=dict)

    def replace_nodes(self, expression: sp.Basic, scope: tuple[sp.Symbol, ...]) -> sp.Basic:
        """The expression with every node replaced by the placeholder of its table."""
        if isinstance(expression, Node):
            return self._place(expression, scope)
        if not expression.args or isinstance(expression, sp.Indexed):
            return expression
        arguments = [self.replace_nodes(a, scope) for a in expression.args]
        return expression if tuple(arguments) == expression.args else expression.func(*arguments)

    def _place(self, node: Node, scope: tuple[sp.Symbol, ...]) -> sp.Symbol:
        is_root = not scope
        if (node, is_root) in self.known:
            return self.known[node, is_root]
        variable, integrand = self._declare(node, scope)
        inner = self.replace_nodes(integrand, (*scope, variable))
        dims = self._dims(inner, scope, variable)
        symbol = sp.Symbol(f"T{len(self.tables)}")
        level = 1 + max([self.entries[s][3] for s in inner.free_symbols if s in self.entries], default=0)
        self.tables[symbol] = (variable,) if is_root else dims
        self.entries[symbol] = (variable, is_root, inner, level)
        self.known[node, is_root] = symbol
        return symbol

    def _declare(self, node: Node, scope: tuple[sp.Symbol, ...]) -> tuple[sp.Symbol, sp.Expr]:
        """The grid of a node's bound variable and the integrand over it."""
        if isinstance(node, HalfLine):
            if node.variable in self.breakpoints:
                raise CodegenError(f"a half-line variable has no breakpoints, {node.variable} is given some")
            s = sp.Symbol(f"log_{node.variable.name}", real=True)
            self._add(Variable(s, _half_line_measure(node)), scope)
            t = sp.exp(s)
            integrand = sp.Add(
                *[_combine(term * node.variable, node.variable) for term in sp.Add.make_args(node.integrand)]
            )
            return s, integrand.xreplace({node.variable: t})
        if isinstance(node, Expectation) and len(node.variables) == 1 and node.is_standard:
            (x,) = node.variables
            self._add(Variable(x, "gaussian", breakpoints=tuple(self.breakpoints.get(x, ()))), scope)
            return x, node.integrand
        if isinstance(node, TruncatedExpectation):
            if node.upper not in scope:
                raise CodegenError(
                    f"the upper limit {node.upper} of {node} is not an outer Gaussian variable"
                )
            kinks = tuple(self.breakpoints.get(node.variable, ()))
            self._add(Variable(node.variable, "truncated", node.upper, kinks), scope)
            return node.variable, node.integrand
        raise CodegenError(f"no array form for {type(node).__name__} in {node}")

    def _add(self, variable: Variable, scope: tuple[sp.Symbol, ...]) -> None:
        if variable.symbol in scope:
            raise CodegenError(f"variable {variable.symbol} is bound twice, one node inside the other")
        known = self.variables.setdefault(variable.symbol, variable)
        if {known.measure, variable.measure} == {"exponential", "half_line"}:  # the longer range serves both
            self.variables[variable.symbol] = replace(variable, measure="half_line")
        elif known != variable:
            raise CodegenError(f"variable {variable.symbol} is bound by nodes of different measures")

    def _dims(self, inner: sp.Expr, scope: tuple[sp.Symbol, ...], own: sp.Symbol) -> tuple[sp.Symbol, ...]:
        used = set(inner.free_symbols)
        for symbol in inner.free_symbols:
            used |= set(self.tables.get(symbol, ()))
        if self.variables[own].outer is not None:
            used.add(self.variables[own].outer)
        return tuple(v for v in scope if v in used and v != own)

    def stages(self) -> tuple[Stage, ...]:
        """Tables with the same grids and the same depth are computed in one loop nest."""
        groups: dict[tuple, list[Output]] = {}
        for symbol, (variable, is_root, integrand, level) in self.entries.items():
            key = (level, is_root, variable, self.tables[symbol])
            groups.setdefault(key, []).append(Output(symbol, integrand))
        ordered = sorted(groups.items(), key=lambda item: (item[0][1], item[0][0], str(item[0][2:])))
        return tuple(
            Stage(f"stage_{i}", dims, None if is_root else variable, tuple(outputs))
            for i, ((_, is_root, variable, dims), outputs) in enumerate(ordered)
        )


def _half_line_measure(node: HalfLine) -> str:
    decay = sp.exp(-node.variable)
    terms = sp.Add.make_args(node.integrand)
    return "exponential" if all(decay in sp.Mul.make_args(term) for term in terms) else "half_line"


def _combine(term: sp.Expr, t: sp.Symbol) -> sp.Expr:
    """Powers of t of one term collected: the Jacobian cancels the 1/t of a Laplace representation."""
    powers, rest = sp.Integer(0), sp.Integer(1)
    for factor in sp.Mul.make_args(term):
        base, exponent = factor.as_base_exp()
        if base == t:
            powers += exponent
        else:
            rest *= factor
    return rest * t**powers


def lower(record: Equations, observables: tuple[str, ...] | None = None) -> Plan:
    """Lower the observables of a record (all of them by default) to a plan.

    Raises
    ------
    CodegenError
        a node has no array form; the message names the node and the observable.
    """
    names = tuple(record.observables) if observables is None else observables
    unknown = [n for n in names if n not in record.observables]
    if unknown:
        raise CodegenError(f"{record.name} has no observables {unknown}; it has {list(record.observables)}")
    lowering = _Lowering(record.breakpoints)
    final: dict[str, sp.Expr] = {}
    for name in names:
        stable = stabilize(record.closed(record.observables[name]))
        try:
            final[name] = lowering.replace_nodes(stable, ())
        except CodegenError as error:
            raise CodegenError(f"{record.name}, observable {name}: {error}") from error
    parameters: set[sp.Symbol] = set()
    for name in names:
        parameters |= record.closed(record.observables[name]).free_symbols
    for variable in lowering.variables.values():
        for kink in variable.breakpoints:
            parameters |= kink.free_symbols
    return Plan(
        record.name,
        tuple(sorted(parameters, key=lambda s: s.name)),
        tuple(lowering.variables.values()),
        lowering.stages(),
        final,
    )
