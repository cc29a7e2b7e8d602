"""SymPy expression -> text (through the same whitelist), and tree -> SymPy expression."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from theorykit._formula.syntax import MAX_INTEGER, write
from theorykit._formula.tree import Binary, Call, Negate, Node, Number, Pi, Variable
from theorykit.errors import FormulaError

if TYPE_CHECKING:
    import sympy

__all__ = ["from_sympy", "to_sympy"]

_UNARY = ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "erf", "erfc", "sign")


def from_sympy(expression: sympy.Basic, variable: str) -> str:
    """The text of a SymPy expression; what the text then says is checked as any other text.

    Raises
    ------
    FormulaError
        For a node without counterpart in the language of formulas, or another symbol than ``variable``.
    """
    symbols = expression.free_symbols
    if len(symbols) > 1:  # also two of the same name, which differ in their assumptions
        found = ", ".join(sorted(map(str, symbols)))
        raise FormulaError(
            f"the SymPy expression uses the symbols {found}; its one symbol must be {variable!r}"
        )
    try:
        return write(_tree(expression, variable), variable)
    except RecursionError:
        raise FormulaError("the SymPy expression is nested too deeply for a formula") from None


def _tree(expression: Any, variable: str) -> Node:
    import sympy

    if isinstance(expression, sympy.Symbol):
        if expression.name != variable:
            found = f"the SymPy expression uses {expression.name!r}"
            raise FormulaError(f"{found}; its one symbol must be {variable!r}")
        return Variable()
    if isinstance(expression, sympy.Number) and expression.is_finite:
        return _number(expression)
    if expression is sympy.pi:
        return Pi()
    if expression is sympy.E:
        return Call("exp", (Number(1),))
    if isinstance(expression, sympy.Add):
        return _sum(expression, variable)
    if isinstance(expression, sympy.Mul):
        return _product(expression, variable)
    if isinstance(expression, sympy.Pow):
        return _power(expression, variable)
    name = _function_name(expression)
    return Call(name, tuple(_tree(argument, variable) for argument in _ordered(expression)))


def _ordered(expression: Any) -> list[Any]:
    import sympy

    if isinstance(expression, sympy.Max | sympy.Min):  # their arguments are kept as a set
        return sorted(expression.args, key=sympy.default_sort_key)
    return list(expression.args)


def _function_name(expression: Any) -> str:
    import sympy

    names = {getattr(sympy, name): name for name in _UNARY}
    names |= {sympy.Abs: "abs", sympy.Max: "max", sympy.Min: "min"}
    name = names.get(expression.func)
    if name is None:
        allowed = ", ".join(sorted(names.values()))
        found = f"{type(expression).__name__} ({str(expression)[:60]})"
        raise FormulaError(f"the SymPy expression contains {found}; allowed are {allowed}")
    return name


def _number(expression: Any) -> Number:
    import sympy

    if isinstance(expression, sympy.Rational):
        top, bottom = int(expression.p), int(expression.q)
        if max(abs(top), bottom) > MAX_INTEGER:
            raise FormulaError("the SymPy expression contains an integer above 10**15")
        return Number(top if bottom == 1 else Fraction(top, bottom))
    value = float(expression)
    if not math.isfinite(value):
        raise FormulaError("the SymPy expression contains a number beyond the range of a double")
    return Number(value)


def _is_negative(expression: Any) -> bool:
    coefficient, _ = expression.as_coeff_Mul()
    return bool(coefficient.is_negative)


def _sum(expression: Any, variable: str) -> Node:
    first, *others = expression.as_ordered_terms()
    result = _tree(first, variable)
    for term in others:
        if _is_negative(term):
            result = Binary("-", result, _tree(-term, variable))
        else:
            result = Binary("+", result, _tree(term, variable))
    return result


def _product(expression: Any, variable: str) -> Node:
    """Factors with negative exponents become a denominator; a rational coefficient comes first."""
    import sympy

    coefficient, rest = expression.as_coeff_Mul()
    above: list[Node] = []
    below: list[Node] = []
    for factor in sympy.Mul.make_args(rest):
        base, exponent = factor.as_base_exp()
        if isinstance(factor, sympy.Pow) and exponent.is_Rational and exponent.is_negative:
            below.append(_tree(sympy.Pow(base, -exponent), variable))
        else:
            above.append(_tree(factor, variable))
    minus = coefficient == -1
    if coefficient != 1 and not minus:
        above.insert(0, _number(coefficient))
    result = _chain(above or [Number(1)])
    if below:
        result = Binary("/", result, _chain(below))
    return Negate(result) if minus else result


def _chain(factors: list[Node]) -> Node:
    result = factors[0]
    for factor in factors[1:]:
        result = Binary("*", result, factor)
    return result


def _power(expression: Any, variable: str) -> Node:
    import sympy

    base, exponent = expression.args
    if exponent == sympy.Rational(1, 2):
        return Call("sqrt", (_tree(base, variable),))
    if exponent.is_Rational and exponent.is_negative:
        return Binary("/", Number(1), _tree(sympy.Pow(base, -exponent), variable))
    return Binary("**", _tree(base, variable), _tree(exponent, variable))


def to_sympy(tree: Node, symbol: Any) -> Any:
    """The formula as a SymPy expression in ``symbol``; named activations are written out."""
    import sympy

    if isinstance(tree, Number):
        value = tree.value
        if isinstance(value, Fraction):
            return sympy.Rational(value.numerator, value.denominator)
        return sympy.Integer(value) if isinstance(value, int) else sympy.Float(value)
    if isinstance(tree, Pi):
        return sympy.pi
    if isinstance(tree, Variable):
        return symbol
    if isinstance(tree, Negate):
        return -to_sympy(tree.operand, symbol)
    if isinstance(tree, Call):
        return _apply(tree.name, [to_sympy(argument, symbol) for argument in tree.arguments])
    left, right = to_sympy(tree.left, symbol), to_sympy(tree.right, symbol)
    if tree.operator == "+":
        return left + right
    if tree.operator == "-":
        return left - right
    if tree.operator == "*":
        return left * right
    return left / right if tree.operator == "/" else left**right


def _apply(name: str, arguments: list[Any]) -> Any:
    import sympy

    if name == "max":
        return sympy.Max(*arguments)
    if name == "min":
        return sympy.Min(*arguments)
    (x,) = arguments
    if name in _UNARY:
        return getattr(sympy, name)(x)
    if name == "abs":
        return sympy.Abs(x)
    if name == "sqrt":
        return sympy.sqrt(x)
    if name == "relu":
        return sympy.Max(x, 0)
    if name == "softplus":
        return sympy.log(1 + sympy.exp(x))
    if name == "sigmoid":
        return 1 / (1 + sympy.exp(-x))
    if name == "silu":
        return x / (1 + sympy.exp(-x))
    phi = sympy.erfc(-x / sympy.sqrt(2)) / 2
    return x * phi if name == "gelu" else phi
