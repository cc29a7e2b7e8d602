"""Nodes of a formula, and the closed table of functions it may use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["FUNCTIONS", "Binary", "Call", "Function", "Negate", "Node", "Number", "Pi", "Variable", "walk"]


@dataclass(frozen=True, slots=True)
class Number:
    """An integer or integer ratio (exact), or a decimal literal (a double)."""

    value: int | Fraction | float

    @property
    def is_exact(self) -> bool:
        return not isinstance(self.value, float)


@dataclass(frozen=True, slots=True)
class Pi:
    """The constant pi."""


@dataclass(frozen=True, slots=True)
class Variable:
    """The one variable."""


@dataclass(frozen=True, slots=True)
class Negate:
    """Minus the operand."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """Sum, difference, product, quotient or power: ``operator`` is one of ``+ - * / **``."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the table applied to its arguments."""

    name: str
    arguments: tuple[Node, ...]


Node = Number | Pi | Variable | Negate | Binary | Call


@dataclass(frozen=True, slots=True)
class Function:
    """What the reader must know of a function.

    ``role`` is "switch" where the function has a kink or jump at a zero of its argument (of the difference of
    its arguments, for max and min), "front" where it is smooth but changes over a width of order one there.
    """

    fewest: int = 1
    most: int = 1
    role: str | None = None


FUNCTIONS: dict[str, Function] = {
    "exp": Function(),
    "log": Function(),
    "sqrt": Function(),
    "sin": Function(),
    "cos": Function(),
    "tan": Function(),
    "sinh": Function(),
    "cosh": Function(),
    "tanh": Function(role="front"),
    "erf": Function(role="front"),
    "erfc": Function(role="front"),
    "abs": Function(role="switch"),
    "sign": Function(role="switch"),
    "min": Function(fewest=2, most=16, role="switch"),
    "max": Function(fewest=2, most=16, role="switch"),
    "relu": Function(role="switch"),
    "softplus": Function(role="front"),
    "sigmoid": Function(role="front"),
    "gelu": Function(role="front"),
    "silu": Function(role="front"),
    "Phi": Function(role="front"),
}


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first, left to right."""
    yield node
    if isinstance(node, Negate):
        yield from walk(node.operand)
    elif isinstance(node, Binary):
        yield from walk(node.left)
        yield from walk(node.right)
    elif isinstance(node, Call):
        for argument in node.arguments:
            yield from walk(argument)
