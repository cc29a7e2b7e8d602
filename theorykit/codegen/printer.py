"""Scalar expressions as Python source for Numba: a closed list of nodes and exact floats.

A node that is not on the list raises :class:`~theorykit.errors.CodegenError` while generating, naming it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import sympy as sp

from theorykit.codegen.functions import capped, one_minus_exp, sigmoid, softplus, token_power
from theorykit.derivations.special import normal_cdf, owens_t, owens_t_gap
from theorykit.errors import CodegenError

__all__ = ["FUNCTIONS", "PRIMITIVES", "condition", "constant", "is_costly", "operation", "require_code"]

FUNCTIONS: dict[type, str] = {
    sp.exp: "math.exp",
    sp.log: "math.log",
    sp.sin: "math.sin",
    sp.cos: "math.cos",
    sp.tan: "math.tan",
    sp.sinh: "math.sinh",
    sp.cosh: "math.cosh",
    sp.tanh: "math.tanh",
    sp.erf: "math.erf",
    sp.erfc: "math.erfc",
    sp.Abs: "abs",
}
PRIMITIVES: dict[type, str] = {
    normal_cdf: "normal_cdf",
    owens_t: "owens_t",
    owens_t_gap: "owens_t_gap",
    one_minus_exp: "one_minus_exp",
    capped: "capped",
    token_power: "token_power",
    softplus: "softplus",
    sigmoid: "sigmoid",
    sp.sign: "sign",
    sp.Max: "larger",
    sp.Min: "smaller",
}
_RELATIONS = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "==": "==", "!=": "!="}


def constant(value: sp.Expr) -> str | None:
    """Source of a number that round-trips exactly, or None if the expression is not a number."""
    # is_number stops at the first symbol; free_symbols would walk through a shared expression once per mention
    if not value.is_number or value.free_symbols or value.has(sp.Indexed):
        return None
    try:
        number = float(value.evalf(40))
    except (TypeError, ValueError, OverflowError):  # complex, or nothing that SymPy can evaluate
        number = math.nan
    if not math.isfinite(number) or (number == 0.0 and value.is_zero is False):
        raise CodegenError(f"the number {str(value)[:60]} cannot be written into generated code")
    return repr(number)


def require_code(expression: sp.Expr) -> None:
    """Raise CodegenError if a part of the expression is not on the list."""
    seen: set[sp.Expr] = set()

    def visit(part: sp.Expr) -> str:
        if part in seen or part.is_Symbol or constant(part) is not None:
            return ""
        seen.add(part)
        if not isinstance(part, sp.Piecewise):
            return operation(part, visit)
        return "".join(visit(value) + condition(test, visit) for value, test in part.args)

    visit(expression)


def is_costly(expression: sp.Expr) -> bool:
    """Whether evaluating needs more than sums and products (worth a table)."""
    if isinstance(expression, sp.Function):
        return True
    if isinstance(expression, sp.Pow) and not expression.exp.is_Integer:
        return True
    return any(is_costly(a) for a in expression.args)


def operation(expression: sp.Expr, atom: Callable[[sp.Expr], str]) -> str:
    """Source of one operation; ``atom`` gives the source of an argument."""
    if isinstance(expression, sp.Add):
        return " + ".join(atom(a) for a in expression.args)
    if isinstance(expression, sp.Mul):
        return _product(expression, atom)
    if isinstance(expression, sp.Pow):
        return _power(expression, atom)
    if isinstance(expression, sp.Max | sp.Min):
        return _chain(PRIMITIVES[type(expression)], [atom(a) for a in expression.args])
    for table in (FUNCTIONS, PRIMITIVES):
        if type(expression) in table:
            return f"{table[type(expression)]}({', '.join(atom(a) for a in expression.args)})"
    raise CodegenError(f"no code for {type(expression).__name__} in {str(expression)[:200]}")


def _chain(name: str, arguments: list[str]) -> str:
    """A function of two arguments applied to any number of them."""
    text = arguments[0]
    for argument in arguments[1:]:
        text = f"{name}({text}, {argument})"
    return text


def _product(expression: sp.Mul, atom: Callable[[sp.Expr], str]) -> str:
    above, below = [], []
    for factor in expression.args:
        base, exponent = factor.as_base_exp()
        if isinstance(factor, sp.Pow) and exponent.is_Integer and exponent < 0:
            below.append(atom(base ** (-exponent)))
        else:
            above.append(atom(factor))
    text = " * ".join(above) if above else "1.0"
    return text if not below else f"{text} / ({' * '.join(below)})"


def _power(expression: sp.Pow, atom: Callable[[sp.Expr], str]) -> str:
    base, exponent = expression.args
    if exponent == sp.Rational(1, 2):
        return f"math.sqrt({atom(base)})"
    if exponent == sp.Rational(-1, 2):
        return f"1.0 / math.sqrt({atom(base)})"
    if exponent.is_Integer and 0 < abs(int(exponent)) <= 64:
        inner = atom(base)
        if abs(int(exponent)) <= 4:
            text = " * ".join([inner] * abs(int(exponent)))
            return text if exponent > 0 else f"1.0 / ({text})"
        return f"{inner} ** {int(exponent)}"
    return f"{atom(base)} ** {atom(exponent)}"


def condition(relation: sp.Basic, atom: Callable[[sp.Expr], str]) -> str:
    """Source of a condition of a Piecewise."""
    if relation in (sp.true, sp.false):
        return str(bool(relation))
    if isinstance(relation, sp.core.relational.Relational):
        symbol = _RELATIONS.get(relation.rel_op)
        if symbol is not None:
            return f"{atom(relation.lhs)} {symbol} {atom(relation.rhs)}"
    if isinstance(relation, sp.And | sp.Or):
        word = " and " if isinstance(relation, sp.And) else " or "
        return "(" + word.join(condition(a, atom) for a in relation.args) + ")"
    raise CodegenError(f"no code for the condition {relation}")
