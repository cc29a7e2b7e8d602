"""Emission: a plan becomes the source of one Numba module.

A stage is a loop nest over its dims with the reduced variable innermost. Every subexpression is computed once,
at the outermost loop that knows its variables; a costly one that depends on the inner variables but not on all
outer ones becomes a table filled before the loops. Nothing inside a Piecewise branch is moved out of it.
"""

from __future__ import annotations

import inspect
import pprint
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import sympy as sp

from theorykit.codegen import primitives
from theorykit.codegen.lower import Plan, Stage
from theorykit.codegen.printer import PRIMITIVES, condition, constant, is_costly, operation
from theorykit.errors import CodegenError

__all__ = ["emit"]

_IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_NAN_SAFE = 'nogil=True, cache=True, error_model="numpy", boundscheck=False'


@dataclass
class _Scope:
    """Lines of one loop level and the subexpressions that are known there."""

    lines: list[str] = field(default_factory=list)
    known: dict[sp.Expr, str] = field(default_factory=dict)


class _Body:
    """Assignments of one function, sorted into the loop levels where they belong."""

    def __init__(
        self,
        loops: tuple[sp.Symbol, ...],
        loads: dict[sp.Symbol, tuple[str, frozenset[sp.Symbol]]],
        parameters: tuple[sp.Symbol, ...],
        counter: list[int] | None = None,
        tables: list[str] | None = None,
        table_names: dict[sp.Expr, str] | None = None,
        chunked: sp.Symbol | None = None,
    ) -> None:
        self.loops = loops
        self.loads = loads
        self.chunked = chunked
        self.parameters = {p: f"P[{i}]" for i, p in enumerate(parameters)}
        self.scopes = [_Scope() for _ in range(len(loops) + 1)]
        self.counter = [0] if counter is None else counter
        self.tables = [] if tables is None else tables
        self.table_names = {} if table_names is None else table_names
        self.used: set[str] = set()

    def fresh(self, prefix: str = "v") -> str:
        self.counter[0] += 1
        return f"{prefix}{self.counter[0]}"

    def depends(self, expression: sp.Basic) -> frozenset[sp.Symbol]:
        found: set[sp.Symbol] = set()
        for symbol in expression.free_symbols:
            if symbol in self.loads:
                found |= self.loads[symbol][1]
            elif symbol in self.loops:
                found.add(symbol)
        return frozenset(found)

    def level(self, needed: frozenset[sp.Symbol]) -> int:
        return max((self.loops.index(v) + 1 for v in needed), default=0)

    def atom(self, expression: sp.Expr) -> str:
        """Source of a value: a name, a number or an array element, emitting what it needs."""
        number = constant(expression)
        if number is not None:
            return number if not number.startswith("-") else f"({number})"
        needed = self.depends(expression)
        level = self.level(needed)
        for scope in self.scopes[: level + 1]:
            if expression in scope.known:
                return scope.known[expression]
        if expression.is_Symbol:
            return self._symbol(expression)
        prefix = frozenset(self.loops[:level])
        if needed != prefix and is_costly(expression):
            text = self._table(expression, needed)
            return self._assign(expression, text, level)
        if isinstance(expression, sp.Piecewise):
            return self._piecewise(expression, level)
        self._count(expression)
        return self._assign(expression, operation(expression, self.atom), level)

    def _symbol(self, symbol: sp.Symbol) -> str:
        if symbol in self.loads:
            return self.loads[symbol][0]
        if symbol in self.loops:
            return f"x_{symbol.name}"
        if symbol in self.parameters:
            return self.parameters[symbol]
        raise CodegenError(f"symbol {symbol} is neither a parameter nor bound")

    def _count(self, expression: sp.Expr) -> None:
        name = PRIMITIVES.get(type(expression))
        if name is not None:
            self.used.add(name)

    def _assign(self, expression: sp.Expr, text: str, level: int) -> str:
        name = self.fresh()
        self.scopes[level].lines.append(f"{name} = {text}")
        self.scopes[level].known[expression] = name
        return name

    def _table(self, expression: sp.Expr, needed: frozenset[sp.Symbol]) -> str:
        """An array over the variables the expression depends on, filled before the loops."""
        loops = tuple(v for v in self.loops if v in needed)
        if expression not in self.table_names:
            inner = _Body(
                loops,
                self.loads,
                tuple(self.parameters),
                self.counter,
                self.tables,
                self.table_names,
                self.chunked,
            )
            value = inner._innermost(expression)
            self.used |= inner.used
            name = self.fresh("table")
            shape = ", ".join(f"n_{v.name}" for v in loops)
            index = ", ".join(f"i_{v.name}" for v in loops)
            lines = [f"{name} = np.empty(({shape},))"]
            lines += inner.nest([f"{name}[{index}] = {value}"])
            self.tables.extend(lines)
            self.table_names[expression] = name
        index = ", ".join(f"i_{v.name}" for v in loops)
        return f"{self.table_names[expression]}[{index}]"

    def full_table(self, expression: sp.Expr, loops: tuple[sp.Symbol, ...]) -> str:
        """Name of the array of an expression over given loops, whether or not it depends on all of them."""
        key = sp.Tuple(expression, *loops)
        if key not in self.table_names:
            inner = _Body(
                loops,
                self.loads,
                tuple(self.parameters),
                self.counter,
                self.tables,
                self.table_names,
                self.chunked,
            )
            value = inner.atom(expression)
            self.used |= inner.used
            name = self.fresh("table")
            self.tables.append(f"{name} = np.empty(({', '.join(f'n_{v.name}' for v in loops)},))")
            self.tables.extend(inner.nest([f"{name}[{', '.join(f'i_{v.name}' for v in loops)}] = {value}"]))
            self.table_names[key] = name
        return self.table_names[key]

    def _innermost(self, expression: sp.Expr) -> str:
        """Emit an expression whose variables are exactly the loops, without a table for itself."""
        if isinstance(expression, sp.Piecewise):
            return self._piecewise(expression, len(self.loops))
        self._count(expression)
        return self._assign(expression, operation(expression, self.atom), len(self.loops))

    def _piecewise(self, expression: sp.Piecewise, level: int) -> str:
        name = self.fresh()
        lines: list[str] = []
        for position, (value, test) in enumerate(expression.args):
            head = "if" if position == 0 else "elif"
            if test == sp.true:
                lines.append("else:" if position else "if True:")
            else:
                lines.append(f"{head} {condition(test, self.atom)}:")
            branch = _Branch(self, level)
            result = branch.atom(value)
            lines += [f"    {line}" for line in [*branch.lines, f"{name} = {result}"]]
        if expression.args[-1][1] != sp.true:
            lines += ["else:", f"    {name} = np.nan"]
        self.scopes[level].lines += lines
        self.scopes[level].known[expression] = name
        return name

    def nest(self, innermost: list[str], before: list[str] | None = None) -> list[str]:
        """The loops with their assignments around the innermost lines."""
        lines = list(self.scopes[0].lines)
        indent = ""
        for depth, variable in enumerate(self.loops):
            last = depth == len(self.loops) - 1
            if last and before:
                lines += [indent + b for b in before]
            v = variable.name
            bounds = "lo, hi" if variable == self.chunked else f"n_{v}"
            lines.append(f"{indent}for i_{v} in range({bounds}):")
            indent += "    "
            lines.append(f"{indent}x_{v} = nodes_{v}[i_{v}]")
            lines += [indent + line for line in self.scopes[depth + 1].lines]
        return lines + [indent + line for line in innermost]


class _Branch:
    """Assignments inside one branch of a Piecewise: what is known outside is used, nothing moves out."""

    def __init__(self, body: _Body, level: int) -> None:
        self.body, self.level = body, level
        self.lines: list[str] = []
        self.known: dict[sp.Expr, str] = {}

    def atom(self, expression: sp.Expr) -> str:
        number = constant(expression)
        if number is not None:
            return number if not number.startswith("-") else f"({number})"
        if expression in self.known:
            return self.known[expression]
        for scope in self.body.scopes[: self.level + 1]:
            if expression in scope.known:
                return scope.known[expression]
        if expression.is_Symbol:
            return self.body._symbol(expression)
        name = self.body.fresh()
        if isinstance(expression, sp.Piecewise):
            self._piecewise(expression, name)
        else:
            self.body._count(expression)
            self.lines.append(f"{name} = {operation(expression, self.atom)}")
        self.known[expression] = name
        return name

    def _piecewise(self, expression: sp.Piecewise, name: str) -> None:
        depth = ""
        for value, test in expression.args:
            branch = _Branch(self.body, self.level)
            branch.known = dict(self.known)
            if test != sp.true:
                text = condition(test, self.atom) if not depth else condition(test, branch.atom)
                self.lines += [depth + line for line in branch.lines]
                branch.lines = []
                self.lines.append(f"{depth}if {text}:")
                result = branch.atom(value)
                self.lines += [f"{depth}    {line}" for line in [*branch.lines, f"{name} = {result}"]]
                self.lines.append(f"{depth}else:")
                depth += "    "
            else:
                result = branch.atom(value)
                self.lines += [f"{depth}{line}" for line in [*branch.lines, f"{name} = {result}"]]
                return
        self.lines.append(f"{depth}{name} = np.nan")


def _stage_source(stage: Stage, plan: Plan, home: dict[sp.Symbol, tuple[int, int]]) -> tuple[str, set[str]]:
    """The function of one stage and the primitives it uses."""
    by_symbol = {v.symbol: v for v in plan.variables}
    dims_of = {o.symbol: s.dims for s in plan.stages for o in s.outputs}
    loops = stage.dims if stage.reduced is None else (*stage.dims, stage.reduced)
    inputs = _inputs(stage, home)
    loads = {}
    for symbol, (source, row) in _loaded(stage, home).items():
        index = ", ".join(f"i_{v.name}" for v in dims_of[symbol])
        loads[symbol] = (f"T_{source}[{row}, {index}]", frozenset(dims_of[symbol]))
    chunked = stage.dims[0] if stage.dims else None
    outer = by_symbol[stage.reduced].outer if stage.reduced is not None else None
    body = _Body(loops, loads, plan.parameters, chunked=chunked)
    separated = _separated(stage, body) if stage.reduced is not None and outer is None else None
    if outer is not None:
        body = _Body(tuple(v for v in loops if v != outer), loads, plan.parameters, chunked=chunked)
        nest = _below(body, stage, outer)
    elif separated is not None:
        nest = _products(body, stage, separated)
    elif stage.reduced is None:
        index = "".join(f", i_{v.name}" for v in stage.dims)
        values = [body.atom(o.integrand) for o in stage.outputs]
        nest = body.nest([f"out[{k}{index}] = {v}" for k, v in enumerate(values)])
    else:
        nest = _reduction(body, stage, stage.reduced)
    arguments = ["P", *[f"nodes_{v.name}" for v in loops]]
    if stage.reduced is not None:
        arguments.append(f"weights_{stage.reduced.name}")
    if outer is not None:
        arguments += [f"blocks_{stage.reduced.name}", f"panels_{stage.reduced.name}"]
    arguments += [f"T_{s}" for s in inputs] + ["out", "lo", "hi"]
    sizes = [f"n_{v.name} = nodes_{v.name}.shape[0]" for v in loops]
    lines = [f"def {stage.name}({', '.join(arguments)}):", *[f"    {s}" for s in sizes]]
    lines += [f"    {line}" for line in [*body.tables, *nest]]
    return _decorated(_signature(stage, plan, inputs), lines), body.used


def _below(body: _Body, stage: Stage, outer: sp.Symbol) -> list[str]:
    """Running integrals over a truncated variable: values at its nodes, then one sum for every outer node."""
    if stage.dims[-1] != outer:
        raise CodegenError(f"{stage.name}: the truncated variable must hang on the innermost outer variable")
    for output in stage.outputs:
        if outer in body.depends(output.integrand) or outer in output.integrand.free_symbols:
            raise CodegenError(f"{stage.name}: the truncated integrand {output.integrand} depends on {outer}")
    body.used.add("integrate_below")
    y = stage.reduced.name
    values = [body.atom(o.integrand) for o in stage.outputs]
    innermost = [f"values_{k}[i_{y}] = {v}" for k, v in enumerate(values)]
    before = [f"values_{k} = np.empty(n_{y})" for k in range(len(values))]
    index = "".join(f", i_{v.name}" for v in stage.dims[:-1])
    arguments = f"weights_{y}, blocks_{y}, panels_{y}"
    after = [f"integrate_below(values_{k}, {arguments}, out[{k}{index}])" for k in range(len(values))]
    return body.nest(innermost, before) + ["    " * (len(stage.dims) - 1) + a for a in after]


Separated = list[list[tuple[sp.Expr, sp.Expr]]]


def _separated(stage: Stage, body: _Body) -> Separated | None:
    """Integrands over two outer variables as sums of f(first, own) * g(second, own), or None."""
    if len(stage.dims) != 2:
        return None
    first, second = stage.dims
    found: Separated = []
    for output in stage.outputs:
        pairs = []
        for term in sp.Add.make_args(output.integrand):
            left, right = sp.Integer(1), sp.Integer(1)
            for factor in sp.Mul.make_args(term):
                needed = body.depends(factor)
                if first in needed and second in needed:
                    return None
                if second in needed:
                    right *= factor
                else:
                    left *= factor
            pairs.append((left, right))
        found.append(pairs)
    return found


def _products(body: _Body, stage: Stage, separated: Separated) -> list[str]:
    """The reduction as matrix products of the tables of the separate factors."""
    first, second = stage.dims
    own = stage.reduced
    weights = f"weights_{own.name}"
    lines = ["out[:, lo:hi, :] = 0.0"]
    for k, pairs in enumerate(separated):
        for left, right in pairs:
            a = body.full_table(left, (first, own))
            if right == 1:
                body.used.add("add_row_sums")
                lines.append(f"add_row_sums({a}, {weights}, out[{k}], lo, hi)")
                continue
            b = body.full_table(right, (own, second))
            body.used.add("add_product")
            lines.append(f"add_product({a}, {b}, {weights}, out[{k}], lo, hi)")
    return lines


def _reduction(body: _Body, stage: Stage, reduced: sp.Symbol) -> list[str]:
    """Accumulators around the innermost loop."""
    values = [body.atom(o.integrand) for o in stage.outputs]
    index = "".join(f", i_{v.name}" for v in stage.dims)
    weight = f"weights_{reduced.name}[i_{reduced.name}]"
    innermost = [f"w = {weight}"] + [f"sum_{k} += w * {v}" for k, v in enumerate(values)]
    before = [f"sum_{k} = 0.0" for k in range(len(values))]
    after = [f"out[{k}{index}] = sum_{k}" for k in range(len(values))]
    lines = body.nest(innermost, before)
    return lines + ["    " * len(stage.dims) + a for a in after]


def _loaded(stage: Stage, home: dict[sp.Symbol, tuple[int, int]]) -> dict[sp.Symbol, tuple[int, int]]:
    symbols = set().union(*[o.integrand.free_symbols for o in stage.outputs])
    return {s: home[s] for s in sorted(symbols, key=str) if s in home}


def _inputs(stage: Stage, home: dict[sp.Symbol, tuple[int, int]]) -> list[int]:
    return sorted({source for source, _ in _loaded(stage, home).values()})


def _signature(stage: Stage, plan: Plan, inputs: list[int]) -> str:
    vector = "float64[::1]"
    by_symbol = {v.symbol: v for v in plan.variables}
    types = [vector] * (1 + len(stage.dims))
    if stage.reduced is not None:
        types += [vector, vector]
        if by_symbol[stage.reduced].outer is not None:
            types += ["float64[:, ::1]", "int64[::1]"]
    types += [_array(1 + len(plan.stages[i].dims)) for i in inputs]
    types += [_array(1 + len(stage.dims)), "int64", "int64"]
    return f"void({', '.join(types)})"


def _array(rank: int) -> str:
    return "float64[" + ":, " * (rank - 1) + "::1]"


def _decorated(signature: str, lines: list[str]) -> str:
    return "\n".join([f'@njit("{signature}", {_NAN_SAFE})', *lines])


def _scalar_function(
    name: str, plan: Plan, expressions: dict[str, sp.Expr], integrals: dict[sp.Symbol, str]
) -> tuple[str, set[str]]:
    """A function of the parameters (and integrals) that fills a vector."""
    loads = {s: (text, frozenset()) for s, text in integrals.items()}
    body = _Body((), loads, plan.parameters)
    values = []
    for label, expression in expressions.items():
        with _naming(plan, [label]):
            values.append(body.atom(expression))
    lines = [f"def {name}(P, integrals, out):", *[f"    {s}" for s in body.scopes[0].lines]]
    lines += [f"    out[{k}] = {v}" for k, v in enumerate(values)] or ["    pass"]
    if len(lines) == 1:
        lines.append("    pass")
    return _decorated("void(float64[::1], float64[::1], float64[::1])", lines), body.used


def emit(plan: Plan, header: str) -> str:
    """The module source of a plan: imports, the primitives it uses, stages, observables and the layout.

    Raises
    ------
    CodegenError
        an expression has no code, or two symbols cannot be told apart; the message names the observable.
    """
    _require_names(plan)
    home = {o.symbol: (i, row) for i, s in enumerate(plan.stages) for row, o in enumerate(s.outputs)}
    roots = [o.symbol for s in plan.stages if s.reduced is None for o in s.outputs]
    functions, used = [], set()
    for stage in plan.stages:
        with _naming(plan, _served(plan, stage)):
            source, names = _stage_source(stage, plan, home)
        functions.append(source)
        used |= names
    integrals = {symbol: f"integrals[{i}]" for i, symbol in enumerate(roots)}
    scalar = {"observables": (dict(plan.observables), integrals)}
    for v in plan.variables:
        if v.breakpoints:
            named = {f"breakpoint {i} of {v.name}": b for i, b in enumerate(v.breakpoints)}
            scalar[f"breakpoints_{v.name}"] = (named, {})
    for name, (expressions, loads) in scalar.items():
        source, names = _scalar_function(name, plan, expressions, loads)
        functions.append(source)
        used |= names
    layout = "LAYOUT = " + pprint.pformat(_layout(plan, home), width=100, sort_dicts=True)
    imports = "import math\n\nimport numpy as np\nfrom numba import njit"
    parts = [repr(header), imports, *_primitive_sources(used), *functions, layout]
    text = "\n\n\n".join(parts) + "\n"
    compile(text, "<generated>", "exec")
    return text


def _require_names(plan: Plan) -> None:
    """Variables are called by their names in the code; parameters and tables are not, but must be distinct."""
    for variable in plan.variables:
        if not _IDENTIFIER.fullmatch(variable.name):
            raise CodegenError(
                f"{plan.name}: the bound variable {variable.name!r} cannot be named in generated code; "
                "use ASCII letters, digits and underscores"
            )
    tables = [o.symbol for s in plan.stages for o in s.outputs]
    for what, names in (
        ("bound variables are", [v.name for v in plan.variables]),
        ("parameters are", [p.name for p in plan.parameters]),
        ("symbols of the code are", [*dict.fromkeys([*plan.parameters, *[v.symbol for v in plan.variables]]), *tables]),
    ):
        twice = [str(name) for name, count in Counter(names).items() if count > 1]
        if twice:
            raise CodegenError(f"{plan.name}: two {what} called {twice[0]!r}; rename one")


@contextmanager
def _naming(plan: Plan, observables: list[str]) -> Iterator[None]:
    """Errors while generating say which equation they belong to."""
    try:
        yield
    except CodegenError as error:
        raise CodegenError(f"{plan.name}, {', '.join(observables)}: {error}") from error


def _served(plan: Plan, stage: Stage) -> list[str]:
    """The observables that need the tables of a stage."""
    wanted = {o.symbol for o in stage.outputs}
    for later in plan.stages:
        wanted |= {o.symbol for o in later.outputs if o.integrand.free_symbols & wanted}
    return [name for name, expression in plan.observables.items() if expression.free_symbols & wanted]


def _primitive_sources(used: set[str]) -> list[str]:
    sources, done = [], set()
    for name in sorted(used):
        for item in (*primitives.NAMES[name], name):
            if item in done:
                continue
            done.add(item)
            target = getattr(primitives, item)
            if callable(target):
                sources.append("@njit(nogil=True, error_model=\"numpy\")\n" + inspect.getsource(target).rstrip())
            else:
                sources.append(f"{item} = {target!r}")
    return sources


def _layout(plan: Plan, home: dict[sp.Symbol, tuple[int, int]]) -> dict:
    """What the runtime needs to drive the module, as plain data."""
    return {
        "name": plan.name,
        "parameters": [p.name for p in plan.parameters],
        "observables": list(plan.observables),
        "variables": [
            {
                "name": v.name,
                "measure": v.measure,
                "outer": v.outer.name if v.outer is not None else None,
                "breakpoints": len(v.breakpoints),
            }
            for v in plan.variables
        ],
        "stages": [
            {
                "function": s.name,
                "dims": [d.name for d in s.dims],
                "reduced": s.reduced.name if s.reduced is not None else None,
                "outputs": len(s.outputs),
                "inputs": _inputs(s, home),
            }
            for s in plan.stages
        ],
    }
