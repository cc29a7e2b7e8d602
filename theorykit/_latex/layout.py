"""Long formulas on several lines, broken at top-level terms first, then inside the widest part.

A line is (depth of indentation, text). A bracket that opens on one line and closes on another has a fixed
size, ``\\Bigl`` or, around fractions, sums and integrals, ``\\biggl``: ``\\left`` and ``\\right`` must stand
on the same line.
"""

from __future__ import annotations

import re

import sympy as sp
from sympy.core.function import AppliedUndef

from theorykit._latex.printer import HOLE, Hole, MathPrinter, is_denominator
from theorykit._latex.width import visual_width
from theorykit.derivations.matrices import Determinant, Entry
from theorykit.derivations.nodes import Node
from theorykit.derivations.proximal import AtProximal

__all__ = ["Line", "aligned_rows", "broken"]

Line = tuple[int, str]

ROOM = 66.0
_INDENT = 3.0
_LEAST = (
    20.0  # however deep the brackets: a line that sticks out a little is better than one that is not broken
)
_FENCES = re.compile(r"\\left(?![A-Za-z])|\\right(?![A-Za-z])")


def aligned_rows(left: str, right: sp.Expr, printer: MathPrinter) -> list[str]:
    """Rows of an ``align`` environment that state ``left = right``."""
    right, matrices = _named_matrices(right)
    wide_left = visual_width(left) > ROOM / 2
    room = ROOM if wide_left else ROOM - visual_width(left) - 2
    first, *others = broken(right, printer, room)
    rows = [f"{left} &= {first[1]}"] if not wide_left else [f"&{left}", rf"&\quad = {first[1]}"]
    rows += ["&" + r"\quad" * (depth + 1) + f" {text}" for depth, text in others]
    return [*rows, *[rf"&\quad {name.name} = {printer.print(matrix)}" for name, matrix in matrices.items()]]


def _named_matrices(expression: sp.Expr) -> tuple[sp.Expr, dict[sp.MatrixSymbol, sp.MatrixBase]]:
    """The expression with its explicit matrices called by names, and the matrices, each written once."""
    if not expression.has(Entry, Determinant):
        return expression, {}
    known: dict[sp.MatrixBase, sp.MatrixSymbol] = {}

    def named(part: sp.Basic) -> sp.Basic:
        if isinstance(part, sp.MatrixBase):
            if part not in known:
                known[part] = sp.MatrixSymbol(rf"\mathsf{{M}}_{{{len(known) + 1}}}", *part.shape)
            return known[part]
        if not part.args or not part.has(Entry, Determinant, sp.ImmutableDenseMatrix):
            return part
        return part.func(*[named(a) for a in part.args])

    return named(expression), {name: matrix for matrix, name in known.items()}


def broken(expression: sp.Expr, printer: MathPrinter, room: float = ROOM, depth: int = 0) -> list[Line]:
    """Lines of an expression, none wider than ``room`` where it can be helped."""
    tex, room = printer.print(expression), max(room, _LEAST)
    if visual_width(tex) <= room:
        return [(depth, tex)]
    if isinstance(expression, sp.Add):
        return _broken_sum(expression, printer, room, depth)
    if isinstance(expression, sp.Mul):
        return _broken_product(expression, printer, room, depth)
    if _is_wide_denominator(expression, printer, room):
        return _broken_inverse(expression, printer, room, depth)
    if isinstance(expression, AppliedUndef) and len(expression.args) > 1:
        return _broken_arguments(expression, printer, room, depth)
    return _broken_inside(expression, printer, room, depth) or [(depth, tex)]


def _broken_sum(expression: sp.Add, printer: MathPrinter, room: float, depth: int) -> list[Line]:
    """As many terms to a line as fit."""
    lines: list[Line] = []
    terms = printer.ordered_terms(expression)
    for position, term in enumerate(terms):
        negative = bool(term.could_extract_minus_sign())
        magnitude = -term if negative else term
        sign = "{}- " if negative else "{}+ "
        if position == 0:
            sign = "- " if negative else ""
        parts = broken(magnitude, printer, room - 2, depth)
        if isinstance(magnitude, sp.Add) or (printer.is_open(magnitude) and position < len(terms) - 1):
            parts = _bracketed(parts)
        (_, head), *tail = parts
        fits = lines and not tail and visual_width(lines[-1][1]) + visual_width(head) + 2 <= room
        if fits and lines[-1][0] == depth:
            lines[-1] = (depth, f"{lines[-1][1]} {sign.removeprefix('{}')}{head}")
        else:
            lines += [(depth, sign + head), *tail]
    return lines


def _broken_product(expression: sp.Mul, printer: MathPrinter, room: float, depth: int) -> list[Line]:
    """As many factors to a line as fit; wide factors come last, each broken where it must be."""
    factors = expression.as_ordered_factors()
    wide = [
        f
        for f in factors
        if _is_wide_denominator(f, printer, room)
        or (visual_width(printer.print(f)) > room / 3 and not is_denominator(f))
    ]
    narrow = _packed([f for f in factors if f not in wide], printer, room, depth)
    lines = narrow or [(depth, "")]
    for position, factor in enumerate(wide):
        taken = visual_width(lines[-1][1]) if position == 0 else 0.0
        parts = broken(factor, printer, max(room - taken - 1, room / 2), depth)
        if isinstance(factor, sp.Add) or (printer.is_open(factor) and position < len(wide) - 1):
            parts = _bracketed(parts)
        joined = f"{lines[-1][1]} {parts[0][1]}".strip()
        fits = visual_width(joined) <= room and (position == 0 or len(parts) == 1)
        if fits or lines[-1][1] in ("", "-"):
            lines[-1] = (lines[-1][0], joined)
        else:
            lines.append((depth, rf"\times {parts[0][1]}"))
        lines += parts[1:]
    return lines


def _is_wide_denominator(factor: sp.Expr, printer: MathPrinter, room: float) -> bool:
    """Whether a fraction with this denominator would be wider than a line."""
    return is_denominator(factor) and visual_width(printer.print(1 / factor)) > room


def _broken_inverse(expression: sp.Expr, printer: MathPrinter, room: float, depth: int) -> list[Line]:
    """A denominator on lines of its own, as a negative power."""
    base, exponent = expression.as_base_exp()
    lines = _bracketed(broken(base, printer, room - _INDENT, depth + 1))
    lines[0] = (depth, lines[0][1])
    return [*lines[:-1], (lines[-1][0], rf"{lines[-1][1]}^{{{printer.print(exponent)}}}")]


def _broken_arguments(expression: AppliedUndef, printer: MathPrinter, room: float, depth: int) -> list[Line]:
    """A function, as many of its arguments to a line as fit."""
    lines: list[Line] = []
    for position, argument in enumerate(expression.args):
        (_, head), *tail = broken(argument, printer, room - _INDENT, depth + 1)
        if lines and not tail and visual_width(lines[-1][1]) + visual_width(head) + 2 <= room:
            lines[-1] = (lines[-1][0], f"{lines[-1][1]} {head}")
        else:
            lines += [(depth + 1, head), *tail]
        if position < len(expression.args) - 1:
            lines[-1] = (lines[-1][0], lines[-1][1] + ",")
    size = _size_around(lines)
    name = printer.function_name(expression)
    return [(depth, rf"{name}\{size}l("), *lines[:-1], (lines[-1][0], rf"{lines[-1][1]}\{size}r)")]


def _packed(factors: list[sp.Expr], printer: MathPrinter, room: float, depth: int) -> list[Line]:
    """Narrow factors on as few lines as they need; denominators stand with the first of them."""
    groups: list[list[sp.Expr]] = [[f for f in factors if is_denominator(f)]]
    for factor in (f for f in factors if not is_denominator(f)):
        if visual_width(printer.print(sp.Mul(*groups[-1], factor))) <= room:
            groups[-1].append(factor)
        else:
            groups.append([factor])
    lines: list[Line] = []
    for product in (sp.Mul(*group) for group in groups if group):
        line = [(depth, "-" if product == -1 else printer.print(product))]
        if isinstance(product, sp.Add) or printer.is_open(product):
            line = _bracketed(line)
        lines.append((depth, rf"\times {line[0][1]}") if lines else line[0])
    return lines


def _broken_inside(expression: sp.Expr, printer: MathPrinter, room: float, depth: int) -> list[Line]:
    """The widest argument of a node, a power or a function on lines of its own; none where that cannot be."""
    if isinstance(expression, Entry | Determinant):
        return []  # matrices are not broken
    if isinstance(expression, AtProximal):
        hole = Hole(*expression.bound_symbols)
        place = expression.func(expression.quantity, hole, sp.Integer(0), expression.variables)
        head, tail = printer.print(place).split(HOLE)
        return _around(head, tail, expression.objective, printer, room, depth)
    arguments = [a for a in expression.args if isinstance(a, sp.Expr)]
    for inner in sorted(arguments, key=lambda a: visual_width(printer.print(a)), reverse=True):
        hole = Hole(*(expression.bound_symbols if isinstance(expression, Node) else ()))
        tex = printer.print(expression.func(*[hole if a == inner else a for a in expression.args]))
        head, *tails = tex.split(HOLE)
        if len(tails) == 1 and not _depth_of_braces(head):
            return _around(head, tails[0], inner, printer, room, depth)
    return []  # all inside fractions, roots or exponents: no place to break a line


def _around(
    head: str, tail: str, inner: sp.Expr, printer: MathPrinter, room: float, depth: int
) -> list[Line]:
    """Lines of ``inner`` with what is printed before and after it."""
    lines = broken(inner, printer, room - _INDENT, depth + 1)
    size = _size_around(lines)
    head, tail = _stretched(head, rf"\{size}l"), _stretched(tail, rf"\{size}r")
    if not re.search(r"\\[Bb]igg?l(?:[(\[]|\\\{)\s*$", head) and (
        isinstance(inner, sp.Add) or tail.startswith("^")
    ):
        lines = _bracketed(lines)
    if visual_width(head) + visual_width(lines[0][1]) <= room:
        lines[0] = (depth, head + lines[0][1])
    else:
        lines.insert(0, (depth, head))
    lines[-1] = (lines[-1][0], lines[-1][1] + tail)
    return lines


def _bracketed(lines: list[Line]) -> list[Line]:
    if len(lines) == 1:
        return [(lines[0][0], rf"\left({lines[0][1]}\right)")]
    first, last, size = lines[0], lines[-1], _size_around(lines)
    return [(first[0], rf"\{size}l({first[1]}"), *lines[1:-1], (last[0], rf"{last[1]}\{size}r)")]


def _size_around(lines: list[Line]) -> str:
    return "bigg" if any(re.search(r"\\(frac|sum|int)\b", text) for _, text in lines) else "Big"


def _depth_of_braces(tex: str) -> int:
    plain = re.sub(r"\\[{}]", "", tex)
    return plain.count("{") - plain.count("}")


def _stretched(tex: str, fence: str) -> str:
    """Brackets whose partner is on another line, of a fixed size: ``fence`` opens or closes them."""
    opening = fence.endswith("l")
    old = r"\left" if opening else r"\right"
    unmatched: list[int] = []
    found = list(_FENCES.finditer(tex))
    for match in found if opening else reversed(found):
        if match[0] == old:
            unmatched.append(match.start())
        elif unmatched:
            unmatched.pop()
    for start in sorted(unmatched, reverse=True):
        tex = tex[:start] + fence + tex[start + len(old) :]
    return tex
