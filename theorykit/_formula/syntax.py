"""Text -> tree, and tree -> canonical text.  The only place where text from users is read.

Two locks in series, each a closed list: every token must be a number, a known name or one of ``+ - * / ( )``
and the comma; then every node of Python's syntax tree must be one of the few handled here.  Nothing is ever
evaluated as Python.
"""

from __future__ import annotations

import ast
import difflib
import keyword
import math
import re
from fractions import Fraction

from theorykit._formula.tree import FUNCTIONS, Binary, Call, Negate, Node, Number, Pi, Variable, walk
from theorykit.errors import FormulaError

__all__ = ["MAX_EXPONENT", "MAX_INTEGER", "MAX_LENGTH", "read", "require_variable", "write"]

MAX_LENGTH = 1000  # characters
MAX_NODES = 300
MAX_DEPTH = 60
MAX_INTEGER = 10**15  # below 2**53: every integer literal is a double exactly
MAX_EXPONENT = 64  # of a constant exponent, and of the product of exponents nested in one another
MAX_GROWTH = 4096  # of the size of an exponent that depends on the variable, at |variable| = 1

_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+)"
    r"|(?P<number>(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<operator>[-+*/(),])"
)
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
}
_INSTEAD = {
    "Abs": "abs",
    "E": "exp(1)",
    "Max": "max",
    "Min": "min",
    "cdf": "Phi",
    "e": "exp(1)",
    "ln": "log",
    "logistic": "sigmoid",
    "ndtr": "Phi",
    "swish": "silu",
}
_ALLOWED = "numbers, pi, + - * / **, parentheses, and " + " ".join(FUNCTIONS)


class _Refusal:
    """Makes the errors of one text: what was found, where, what is allowed."""

    def __init__(self, source: str, variable: str) -> None:
        self.source = source
        self.variable = variable

    def __call__(self, found: str, column: int | None = None, hint: str | None = None) -> FormulaError:
        text = self.source if len(self.source) <= 60 else self.source[:57] + "..."
        where = "" if column is None else f" at column {column}"
        tail = hint if hint is not None else f"allowed are the variable {self.variable}, {_ALLOWED}"
        message = f"formula {text!a}: {found}{where}; {tail}"
        return FormulaError(message, source=self.source, column=column)


def require_variable(variable: object) -> str:
    """The name of the variable, checked: an ASCII identifier that is neither ``pi`` nor a function."""
    if not isinstance(variable, str) or not variable.isascii() or not variable.isidentifier():
        raise FormulaError(f"the variable of a formula must be an ASCII identifier, got {variable!r}")
    if variable in FUNCTIONS or variable == "pi" or len(variable) > 40:
        raise FormulaError(f"{variable!r} cannot be the variable of a formula: it is taken or too long")
    return variable


def read(source: str, variable: str) -> Node:
    """The tree of a text.

    Raises
    ------
    FormulaError
        For all that is outside the language or its limits, naming what was found, where, and what is allowed.
    """
    refuse = _Refusal(source, variable)
    if len(source) > MAX_LENGTH:
        raise refuse(f"it has {len(source)} characters", hint=f"the limit is {MAX_LENGTH}")
    if not source.strip(" \t\r\n"):
        raise refuse("it is empty")
    text = _tokenize(source, variable, refuse)
    stripped = text.lstrip()
    offset = len(text) - len(stripped)
    try:
        parsed = ast.parse(stripped.rstrip(), mode="eval")
    except SyntaxError as error:
        column = offset + error.offset if error.offset else None
        raise refuse(f"it is not an expression ({error.msg})", column) from None
    except (MemoryError, RecursionError):
        raise refuse("it is nested too deeply", hint=f"the limit is {MAX_DEPTH} levels") from None
    reader = _Reader(refuse, offset)
    tree = reader.convert(parsed.body, 1)
    _limit_powers(tree, refuse)
    canonical = write(tree, variable)
    if len(canonical) > MAX_LENGTH:
        found = f"it has {len(canonical)} characters when written out"
        raise refuse(found, hint=f"the limit is {MAX_LENGTH}")
    return tree


def _tokenize(source: str, variable: str, refuse: _Refusal) -> str:
    """Check every token; return text of the same columns that Python's parser can read."""
    pieces: list[str] = []
    position, previous = 0, ""
    while position < len(source):
        match = _TOKEN.match(source, position)
        column = position + 1
        if match is None:
            raise _bad_character(source, position, refuse)
        kind, token = str(match.lastgroup), match.group()
        if kind == "name":
            if previous == "number":
                raise refuse(f"{token!r} follows a number", column, hint="write a product with *")
            _check_name(token, variable, column, refuse)
            if token == variable and keyword.iskeyword(token):
                token = "_" * len(token)  # `lambda` may be a variable; Python's parser must not see it
        pieces.append(" " * len(token) if kind == "space" else token)
        position, previous = match.end(), kind
    return "".join(pieces)


def _bad_character(source: str, position: int, refuse: _Refusal) -> FormulaError:
    character, column = source[position], position + 1
    if character == ".":
        return refuse("attribute access '.'", column)
    if character == "^":
        return refuse("character '^'", column, hint="write powers with **")
    if not character.isascii():
        return refuse(f"the non-ASCII character {character!a}", column, hint="only ASCII is read")
    return refuse(f"character {character!r}", column)


def _check_name(name: str, variable: str, column: int, refuse: _Refusal) -> None:
    if name == variable or name == "pi" or name in FUNCTIONS:
        return
    known = [variable, "pi", *FUNCTIONS]
    near = _INSTEAD.get(name)
    if near is None:
        folded = {item.lower(): item for item in known}
        close = difflib.get_close_matches(name.lower(), folded, n=1)
        near = folded[close[0]] if close else None
    hint = f"allowed are the variable {variable}, {_ALLOWED}"
    raise refuse(f"unknown name {name!r}", column, hint=hint + (f"; did you mean {near!r}?" if near else ""))


class _Reader:
    """Walks Python's syntax tree; every node type not named here is refused."""

    def __init__(self, refuse: _Refusal, offset: int) -> None:
        self.refuse = refuse
        self.offset = offset
        self.nodes = 0

    def column(self, node: ast.expr) -> int:
        return node.col_offset + self.offset + 1

    def convert(self, node: ast.expr, depth: int) -> Node:
        self.nodes += 1
        if depth > MAX_DEPTH:
            raise self.refuse(
                "it is nested too deeply", self.column(node), hint=f"the limit is {MAX_DEPTH} levels"
            )
        if self.nodes > MAX_NODES:
            raise self.refuse(
                "it has too many terms", self.column(node), hint=f"the limit is {MAX_NODES} nodes"
            )
        if isinstance(node, ast.Constant):
            return self.number(node)
        if isinstance(node, ast.Name):
            return self.name(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            operand = self.convert(node.operand, depth + 1)
            return operand if isinstance(node.op, ast.UAdd) else _negate(operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return self.binary(node, depth)
        if isinstance(node, ast.Call):
            return self.call(node, depth)
        raise self.refuse(f"a construct of Python ({type(node).__name__})", self.column(node))

    def number(self, node: ast.Constant) -> Number:
        value = node.value
        if type(value) is int:
            if value > MAX_INTEGER:
                raise self.refuse("an integer above 10**15", self.column(node), hint="write it as a decimal")
            return Number(value)
        if type(value) is float:
            if not math.isfinite(value):
                raise self.refuse("a number beyond the range of a double", self.column(node))
            return Number(value)
        raise self.refuse(f"a constant of type {type(value).__name__}", self.column(node))

    def name(self, node: ast.Name) -> Node:
        if node.id == "pi":
            return Pi()
        if node.id in FUNCTIONS:
            hint = f"write {node.id}(...)"
            raise self.refuse(f"function {node.id!r} without arguments", self.column(node), hint=hint)
        return Variable()  # the tokens were checked: no other name can be here

    def binary(self, node: ast.BinOp, depth: int) -> Node:
        operator = _OPERATORS[type(node.op)]
        left = self.convert(node.left, depth + 1)
        right = self.convert(node.right, depth + 1)
        if operator == "/" and right == Number(0):
            raise self.refuse("a division by zero", self.column(node.right))
        if operator == "/" and isinstance(left, Number) and isinstance(right, Number):
            return _ratio(left, right)
        if operator == "**":
            self.check_exponent(left, right, self.column(node.right))
        return Binary(operator, left, right)

    def check_exponent(self, base: Node, exponent: Node, column: int) -> None:
        if any(isinstance(node, Binary) and node.operator == "**" for node in walk(exponent)):
            raise self.refuse(
                "a power inside an exponent", column, hint="exponents may use + - * / and functions"
            )
        if any(isinstance(node, Variable) for node in walk(exponent)):
            if _growth(exponent) > MAX_GROWTH:
                raise self.refuse(
                    "an exponent with large constants", column, hint=f"keep them below {MAX_GROWTH}"
                )
            return
        size = abs(_constant(exponent))
        if not size <= MAX_EXPONENT:  # also refuses nan
            raise self.refuse(
                f"an exponent of size {size:g}", column, hint=f"constant exponents reach {MAX_EXPONENT}"
            )

    def call(self, node: ast.Call, depth: int) -> Call:
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            hint = "only whitelisted functions may be called; write products with *"
            raise self.refuse("a call of something that is no function", self.column(node), hint=hint)
        name = node.func.id
        if node.keywords:  # unreachable while '=' is no token; kept because this is the second lock
            raise self.refuse("a keyword argument", self.column(node))
        table = FUNCTIONS[name]
        if not table.fewest <= len(node.args) <= table.most:
            number = "1 argument" if table.most == 1 else f"{table.fewest} to {table.most} arguments"
            hint = f"{name} takes {number}"
            raise self.refuse(f"{name!r} with {len(node.args)} arguments", self.column(node), hint=hint)
        return Call(name, tuple(self.convert(argument, depth + 1) for argument in node.args))


def _negate(operand: Node) -> Node:
    return Number(-operand.value) if isinstance(operand, Number) else Negate(operand)


def _ratio(left: Number, right: Number) -> Node:
    """An exact number where both are and the result can be written; otherwise the quotient as it stands."""
    if left.is_exact and right.is_exact:
        ratio = Fraction(left.value) / Fraction(right.value)
        if max(abs(ratio.numerator), ratio.denominator) <= MAX_INTEGER:
            return Number(ratio.numerator if ratio.denominator == 1 else ratio)
    return Binary("/", left, right)


def _constant(node: Node) -> float:
    if isinstance(node, Number):
        return float(node.value)
    from theorykit._formula.numeric import evaluate

    return float(evaluate(node, 0.0))


def _growth(node: Node) -> float:
    """A bound of |node| at |variable| <= 1 in which functions count as 1."""
    if isinstance(node, Number):
        return abs(float(node.value))
    if isinstance(node, Negate):
        return _growth(node.operand)
    if isinstance(node, Binary):
        left, right = _growth(node.left), _growth(node.right)
        if node.operator in "+-":
            return left + right
        if node.operator == "*":
            return left * right
        return left / right if isinstance(node.right, Number) and right else left
    return math.pi if isinstance(node, Pi) else 1.0


def _limit_powers(tree: Node, refuse: _Refusal) -> None:
    """Nested powers multiply: ((2**64)**64)**64 would be an integer of 260 000 bits in SymPy."""
    pending: list[tuple[Node, float]] = [(tree, 1.0)]
    while pending:
        node, power = pending.pop()
        if power > MAX_EXPONENT:
            raise refuse("powers of powers", hint=f"the product of nested exponents may reach {MAX_EXPONENT}")
        if isinstance(node, Negate):
            pending.append((node.operand, power))
        elif isinstance(node, Call):
            pending.extend((argument, power) for argument in node.arguments)
        elif isinstance(node, Binary):
            raised = node.operator == "**" and not any(
                isinstance(part, Variable) for part in walk(node.right)
            )
            factor = max(1.0, abs(_constant(node.right))) if raised else 1.0
            pending.append((node.left, power * factor))
            pending.append((node.right, power))


# How tightly each construct binds; an operand that binds less tightly than its place needs gets parentheses.
_SUM, _PRODUCT, _MINUS, _POWER, _ATOM = 1, 2, 3, 4, 5
_PLACES = {  # operator -> (its own binding, what its left side needs, what its right side needs, spelling)
    "+": (_SUM, _SUM, _PRODUCT, " + "),
    "-": (_SUM, _SUM, _PRODUCT, " - "),
    "*": (_PRODUCT, _PRODUCT, _POWER, "*"),
    "/": (_PRODUCT, _PRODUCT, _POWER, "/"),
    "**": (_POWER, _ATOM, _ATOM, "**"),
}


def write(node: Node, variable: str) -> str:
    """Canonical text: one spelling for each tree, which :func:`read` turns into the same tree."""
    return _write(node, variable)[0]


def _write(node: Node, variable: str) -> tuple[str, int]:
    if isinstance(node, Number):
        return _write_number(node)
    if isinstance(node, Pi):
        return "pi", _ATOM
    if isinstance(node, Variable):
        return variable, _ATOM
    if isinstance(node, Negate):
        return "-" + _place(node.operand, _POWER, variable), _MINUS
    if isinstance(node, Call):
        return (
            f"{node.name}({', '.join(_write(argument, variable)[0] for argument in node.arguments)})",
            _ATOM,
        )
    binding, left, right, spelling = _PLACES[node.operator]
    second = _place(node.right, right, variable)
    if binding == _SUM and second.startswith("-"):
        second = f"({second})"  # 1 - (-2) reads better than 1 - -2
    return _place(node.left, left, variable) + spelling + second, binding


def _place(node: Node, needed: int, variable: str) -> str:
    text, binding = _write(node, variable)
    return text if binding >= needed else f"({text})"


def _write_number(node: Number) -> tuple[str, int]:
    value = node.value
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}", _PRODUCT
    return repr(value), _ATOM if math.copysign(1.0, value) > 0 else _MINUS
