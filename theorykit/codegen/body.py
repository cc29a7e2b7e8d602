"""Bodies of generated functions: assignments sorted into the loop levels where they belong.

Every subexpression is computed once, at the outermost loop that knows its variables; a costly one that depends on
the inner variables but not on all outer ones becomes a table filled before the loops. Exponentials of the innermost
loop get a loop of their own, which the compiler runs for several nodes at once. Nothing inside a Piecewise branch is
moved out of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy as sp

from theorykit.codegen.functions import one_minus_exp
from theorykit.codegen.printer import PRIMITIVES, condition, constant, is_costly, operation
from theorykit.errors import CodegenError

__all__ = ["Body"]

_IN_LANES: dict[type, str] = {sp.exp: "exponential", one_minus_exp: "one_minus_exponential"}


@dataclass
class _Scope:
    """Lines of one loop level and the subexpressions that are known there."""

    lines: list[str] = field(default_factory=list)
    known: dict[sp.Expr, str] = field(default_factory=dict)


@dataclass
class _Row:
    """The innermost loop once more, for functions of one argument: its name, the lines that fill their arrays."""

    argument: str
    lines: list[str]


class Body:
    """Assignments of one function, sorted into the loop levels where they belong.

    ``in_rows``: exponentials of the innermost of several loops are computed in loops of their own.
    """

    def __init__(
        self,
        loops: tuple[sp.Symbol, ...],
        loads: dict[sp.Symbol, tuple[str, frozenset[sp.Symbol]]],
        parameters: tuple[sp.Symbol, ...],
        counter: list[int] | None = None,
        tables: list[str] | None = None,
        table_names: dict[sp.Expr, str] | None = None,
        chunked: sp.Symbol | None = None,
        in_rows: bool = False,
    ) -> None:
        self.loops = loops
        self.in_rows = in_rows
        self.rows: dict[sp.Expr, _Row] = {}
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
        if not self.loops:
            return frozenset()
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
        return self._assign(expression, self._operation(expression, level), level)

    def _operation(self, expression: sp.Expr, level: int) -> str:
        """Source of one operation at a level."""
        if type(expression) in _IN_LANES and level == len(self.loops) > 1:
            return self._in_lanes(expression)
        self._count(expression)
        return operation(expression, self.atom)

    def _in_lanes(self, expression: sp.Expr) -> str:
        """Source of an exponential in the innermost loop: of a table, or of a row that a loop of its own fills."""
        name = _IN_LANES[type(expression)]
        self.used.add(name)
        (argument,) = expression.args
        if not self.in_rows:
            return f"{name}({self.atom(argument)})"
        size = -argument if argument.could_extract_minus_sign() else argument
        variable, row = self.loops[-1].name, self.fresh("row")
        self.tables.append(f"{row} = np.empty(n_{variable})")
        if size not in self.rows:
            inner = self._inside(self.loops)
            inner.scopes = [*self.scopes[:-1], _Scope()]
            inner.in_rows, inner.rows = True, self.rows
            value = inner.atom(size)
            self.used |= inner.used
            self.rows[size] = _Row(value, inner.scopes[-1].lines)
        known = self.rows[size]
        text = known.argument if size == argument else f"-{known.argument}"
        known.lines.append(f"{row}[i_{variable}] = {name}({text})")
        return f"{row}[i_{variable}]"

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

    def _inside(self, loops: tuple[sp.Symbol, ...]) -> Body:
        """A body for tables of this one: other loops, everything else shared."""
        return Body(
            loops,
            self.loads,
            tuple(self.parameters),
            self.counter,
            self.tables,
            self.table_names,
            self.chunked,
        )

    def _table(self, expression: sp.Expr, needed: frozenset[sp.Symbol]) -> str:
        """An array over the variables the expression depends on, filled before the loops."""
        loops = tuple(v for v in self.loops if v in needed)
        if expression not in self.table_names:
            inner = self._inside(loops)
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
            inner = self._inside(loops)
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
        level = len(self.loops)
        return self._assign(expression, self._operation(expression, level), level)

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
            v = variable.name
            bounds = "lo, hi" if variable == self.chunked else f"n_{v}"
            head = [f"for i_{v} in range({bounds}):", f"    x_{v} = nodes_{v}[i_{v}]"]
            if last:
                lines += [indent + b for b in before or []]
                for row in self.rows.values():
                    lines += [indent + h for h in head] + [f"{indent}    {line}" for line in row.lines]
            lines += [indent + h for h in head]
            indent += "    "
            lines += [indent + line for line in self.scopes[depth + 1].lines]
        return lines + [indent + line for line in innermost]


class _Branch:
    """Assignments inside one branch of a Piecewise: what is known outside is used, nothing moves out."""

    def __init__(self, body: Body, level: int) -> None:
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
