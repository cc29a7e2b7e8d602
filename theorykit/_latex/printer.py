"""Mathematics as LaTeX: SymPy's printer with the symbol table of a record, and the nodes' own notation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import sympy as sp
from sympy.printing.latex import LatexPrinter, greek_letters_set, tex_greek_dictionary
from sympy.printing.precedence import PRECEDENCE

from theorykit._latex.width import visual_width
from theorykit.derivations.ledger import Quantity
from theorykit.derivations.nodes import DistinctSum, HalfLine, Node, TruncatedExpectation

__all__ = ["HOLE", "Hole", "MathPrinter", "is_denominator"]

HOLE = "\x00"
_LONGEST_EXPONENT = 16


class Hole(sp.Function):
    """Stands for a part of an expression that is printed apart, on lines of its own."""

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        return HOLE if exp is None else rf"{HOLE}^{{{exp}}}"


class MathPrinter(LatexPrinter):
    """Prints declared symbols as their record says, and undeclared words upright.

    A symbol of an expression is looked up as it is, then by name alone: the label of an indexed family has no
    assumptions, whatever the table says.
    """

    def __init__(self, quantities: Iterable[Quantity] = ()) -> None:
        super().__init__()
        quantities = list(quantities)
        self._by_symbol = {q.symbol: q.latex for q in quantities}
        self._by_name = {q.name: q.latex for q in quantities}
        self._known: dict[sp.Expr, str] = {}

    def named(self, name: str) -> str:
        """LaTeX of the symbol called ``name``, declared or not."""
        return self._by_name.get(name) or _spelled(name)

    def _print_Symbol(self, expr: sp.Symbol, style: str = "plain") -> str:
        return self._by_symbol.get(expr) or self.named(expr.name)

    _print_Dummy = _print_Symbol

    def _hprint_Function(self, func: str) -> str:
        return self._by_name.get(func) or str(super()._hprint_Function(func))

    def function_name(self, expression: sp.Function) -> str:
        """LaTeX of the name of a function, without its arguments."""
        return self._hprint_Function(expression.func.__name__)

    def _print_ExpBase(self, expr: sp.Expr, exp: str | None = None) -> str:
        argument = expr.args[0]
        inner = self._print(argument)
        is_long = argument.has(Node, Hole) or visual_width(inner) > _LONGEST_EXPONENT
        tex = rf"\exp\left({inner}\right)" if is_long else rf"e^{{{inner}}}"
        return str(self._do_exponent(tex, exp))

    def _print(self, expr: Any, **kwargs: Any) -> str:
        if isinstance(expr, DistinctSum):  # bare: what surrounds it knows whether brackets are needed
            return expr._latex(self).removeprefix(r"\left(").removesuffix(r"\right)")
        if not isinstance(expr, sp.Expr) or kwargs:
            return str(super()._print(expr, **kwargs))
        if expr not in self._known:  # long formulas are printed again and again while lines are tried out
            self._known[expr] = str(super()._print(expr))
        return self._known[expr]

    def _print_MatMul(self, expr: sp.MatMul) -> str:
        """Factor by factor: SymPy's own printer evaluates the product, and with it every inverse."""
        parts = [self._print(a) for a in expr.args]
        return " ".join(
            rf"\left({p}\right)" if isinstance(a, sp.MatAdd) else p
            for a, p in zip(expr.args, parts, strict=True)
        )

    def _print_MatAdd(self, expr: sp.MatAdd) -> str:
        return " + ".join(self._print(a) for a in expr.args)

    def _needs_mul_brackets(self, expr: sp.Expr, first: bool = False, last: bool = False) -> bool:
        is_open = isinstance(expr, HalfLine | TruncatedExpectation | DistinctSum)
        return (is_open and not last) or bool(super()._needs_mul_brackets(expr, first, last))

    def parenthesize(self, item: Any, level: int, is_neg: bool = False, strict: bool = False) -> str:
        if isinstance(item, DistinctSum) and level > PRECEDENCE["Mul"]:
            return rf"\left({self._print(item)}\right)"
        return str(super().parenthesize(item, level, is_neg, strict))

    def _print_Add(self, expr: sp.Add, order: str | None = None) -> str:
        del order
        terms = self.ordered_terms(expr)
        text = ""
        for position, term in enumerate(terms):
            negative = bool(term.could_extract_minus_sign())
            magnitude = -term if negative else term
            is_last = position == len(terms) - 1
            body = self._print(magnitude)
            if isinstance(magnitude, sp.Add) or (self.is_open(magnitude) and not is_last):
                body = rf"\left({body}\right)"
            sign = "- " if negative else "+ "
            text += (" " if position else "") + (sign if position or negative else "") + body
        return text

    def ordered_terms(self, expression: sp.Add) -> list[sp.Expr]:
        """Terms in the order of printing: those that end in a sum over tokens stand last."""
        terms = self._as_ordered_terms(expression)
        return sorted(terms, key=self.is_open)

    def is_open(self, expression: sp.Expr) -> bool:
        """Whether the printed expression ends in a sum over tokens, which would swallow what follows it."""
        last = next(
            (f for f in reversed(expression.as_ordered_factors()) if isinstance(f, DistinctSum)), None
        )
        return last is not None and self._print(expression).endswith(self._print(last))

    def _print_Mul(self, expr: sp.Expr) -> str:
        """A product. SymPy's own method asks whether exponents are constant, and simplifies to find out."""
        if any(isinstance(a, sp.Mul) for a in expr.args):  # products of products, kept apart by who made them
            return self._print(sp.Mul(*[f for a in expr.args for f in sp.Mul.make_args(a)]))
        upper: list[sp.Expr] = []
        lower: list[sp.Expr] = []
        number = sp.Integer(1)
        for factor in expr.as_ordered_factors():
            if factor.is_Rational:
                number *= factor
            elif is_denominator(factor):
                lower.append(sp.Pow(factor.base, -factor.exp))
            else:
                upper.append(factor)
        if abs(number.p) != 1:
            upper.insert(0, sp.Integer(abs(number.p)))
        if number.q != 1:
            lower.insert(0, sp.Integer(number.q))
        return ("- " if number < 0 else "") + self._quotient(upper, lower)

    def _quotient(self, upper: list[sp.Expr], lower: list[sp.Expr]) -> str:
        """A fraction; what makes it more than twice as wide as its denominator stands behind it."""
        if not lower:
            return self._product(upper)
        below = self._product(lower)
        room = 2 * max(visual_width(below), 2.0)
        if visual_width(self._product(upper)) <= room:
            return rf"\frac{{{self._product(upper)}}}{{{below}}}"
        inside: list[sp.Expr] = []
        outside: list[sp.Expr] = []
        for factor in upper:
            is_short = visual_width(self._product([*inside, factor])) <= room
            (inside if is_short and not outside else outside).append(factor)
        return rf"\frac{{{self._product(inside)}}}{{{below}}} {self._product(outside, first=False)}"

    def _product(self, factors: list[sp.Expr], first: bool = True) -> str:
        """Factors side by side, in brackets where they need them, with a dot between numbers."""
        text = "" if factors or not first else "1"
        for position, factor in enumerate(factors):
            is_first, is_last = first and position == 0, position == len(factors) - 1
            body = self._print(factor)
            alone = is_first and is_last
            if not alone and self._needs_mul_brackets(factor, first=is_first, last=is_last):
                body = rf"\left({body}\right)"
            dot = r"\cdot " if re.search(r"\d[} ]*$", text) and re.match(r"\d|\\frac\{\d", body) else ""
            text += (" " if text else "") + dot + body
        return text

    def print(self, expression: Any) -> str:
        """An expression on one line."""
        return str(self.doprint(expression))


def is_denominator(factor: sp.Expr) -> bool:
    """Whether a factor is printed below the line of a fraction."""
    return isinstance(factor, sp.Pow) and bool(factor.exp.is_Rational and factor.exp.is_negative)


def _spelled(name: str) -> str:
    """An undeclared name: letters and Greek with their scripts as SymPy has them, words upright."""
    stem = re.split(r"[_^]+", name)[0].rstrip("0123456789")
    is_greek = stem in greek_letters_set or stem.lower() in greek_letters_set or stem in tex_greek_dictionary
    if len(stem) <= 1 or is_greek:
        return str(sp.latex(sp.Symbol(name)))
    words = re.sub(r"[^A-Za-z0-9]+", r"\\ ", name.strip("_"))
    return rf"\mathrm{{{words}}}"
