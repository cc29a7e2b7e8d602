r"""Derivations, records of equations and theories as LaTeX.

==================  ==============================================================================
function            result
==================  ==============================================================================
document            a document that compiles alone (amsmath, amssymb, geometry)
fragment_of         its body, for ``\input``
derivation_latex    the body for one derivation
equations_latex     the equations and observables of a record, for a notebook
==================  ==============================================================================

The text depends on nothing but the objects: the same in every process. Symbols are printed as the record's
table says, and every equation has one label, made of the names of the derivation and of the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sympy as sp

from theorykit._latex.layout import aligned_rows
from theorykit._latex.printer import MathPrinter
from theorykit._latex.text import escaped, slug
from theorykit.derivations.ledger import Check, Derivation, Equations, Limit, Step

__all__ = ["derivation_latex", "document", "equations_latex", "fragment_of"]

_PREAMBLE = r"""\documentclass[11pt]{article}
\usepackage{amsmath}
\usepackage{amssymb}
\usepackage[margin=2.3cm]{geometry}
\allowdisplaybreaks
\setlength{\parindent}{0pt}
\setlength{\parskip}{0.5ex}
\sloppy
"""
_ROWS_OF_A_TABLE = 30


def document(subject: Any) -> str:
    """A derivation, a record of equations or a theory as a LaTeX document that compiles alone."""
    title = _title(subject)
    head = rf"\title{{{escaped(title)}}}" + "\n" + r"\author{}" + "\n" + r"\date{}"
    body = fragment_of(subject)
    return f"{_PREAMBLE}{head}\n\\begin{{document}}\n\\maketitle\n\n{body}\\end{{document}}\n"


def fragment_of(subject: Any) -> str:
    """A derivation, a record of equations or a theory as the body of a LaTeX document."""
    if isinstance(subject, Derivation):
        return derivation_latex(subject)
    if isinstance(subject, Equations):
        writer = _Writer(subject, slug(subject.name))
        return "\n\n".join([*writer.symbols(), *writer.results({}), *writer.limits({})]) + "\n"
    if isinstance(getattr(subject, "derivations", None), Mapping):
        return "\n".join(derivation_latex(make(), name) for name, make in subject.derivations.items())
    raise TypeError(f"a Derivation, Equations or Theory is expected, got {type(subject).__name__}")


def derivation_latex(derivation: Derivation, name: str | None = None) -> str:
    """A derivation as the body of a LaTeX document: symbols, definitions, steps, equations, known values.

    ``name`` is what it is called where derivations of one name differ by options; labels begin with it.
    """
    name = derivation.name if name is None else name
    writer = _Writer(derivation.equations, slug(name))
    names = {str(d.symbol): d.symbol for d in derivation.definitions}
    parts = [rf"\section{{{escaped(derivation.title)}}}"]
    remarks = (f"Name: {name}", f"Source: {derivation.source}", derivation.notes)
    parts += [escaped(text) for text in remarks if text.strip()]
    parts += writer.symbols()
    parts += writer.definitions(derivation)
    parts += writer.steps(derivation)
    parts += writer.results(names)
    parts += writer.limits(names)
    return "\n\n".join(parts) + "\n"


def equations_latex(equations: Equations) -> str:
    """The equations and observables of a record as displayed mathematics, for a notebook."""
    printer = MathPrinter(equations.symbols)
    rows: list[str] = []
    for _, left, right in _equations_of(equations, printer, {}):
        rows += aligned_rows(left, right, printer)
    body = " \\\\\n".join(rows)
    return f"$$\n\\begin{{aligned}}\n{body}\n\\end{{aligned}}\n$$"


def _title(subject: Any) -> str:
    return str(subject.name if isinstance(subject, Equations) else getattr(subject, "title", type(subject)))


def _equations_of(
    equations: Equations, printer: MathPrinter, symbols: Mapping[str, sp.Expr]
) -> Iterator[tuple[str, str, sp.Expr]]:
    """Name, left and right side of every equation and observable; ``symbols``: observable -> its symbol."""
    for symbol, expression in equations.equations.items():
        yield str(symbol), printer.print(symbol), expression
    for name, expression in equations.observables.items():
        if any(str(s) == name and e == expression for s, e in equations.equations.items()):
            continue  # an equation that is an observable too
        yield name, printer.print(symbols[name]) if name in symbols else printer.named(name), expression


class _Writer:
    """Writes the parts of one derivation; keeps the labels it has given, so that each is given once."""

    def __init__(self, equations: Equations, prefix: str) -> None:
        self._record = equations
        self._printer = MathPrinter(equations.symbols)
        self._prefix = prefix
        self._labels: dict[str, str] = {}
        self._taken: set[str] = set()

    def symbols(self) -> list[str]:
        """The symbol table, in pieces that fit on a page."""
        rows = [
            " & ".join([f"${q.latex}$", *(_cell(text) for text in (q.meaning, q.domain, q.scaling))])
            for q in self._record.symbols
        ]
        if not rows:
            return []
        tables = []
        for start in range(0, len(rows), _ROWS_OF_A_TABLE):
            body = "".join(f"{row} \\tabularnewline\n" for row in rows[start : start + _ROWS_OF_A_TABLE])
            columns = r"@{}p{0.15\linewidth}p{0.41\linewidth}p{0.2\linewidth}p{0.13\linewidth}@{}"
            tables.append(
                f"\\begin{{tabular}}{{{columns}}}\n\\hline\nsymbol & meaning & domain & scaling \\\\\n"
                f"\\hline\n{body}\\hline\n\\end{{tabular}}"
            )
        return [r"\subsection*{Symbols}", *tables]

    def definitions(self, derivation: Derivation) -> list[str]:
        """What the symbols of the model stand for."""
        parts = [r"\subsection*{Definitions}"] if derivation.definitions else []
        for definition in derivation.definitions:
            name = str(definition.symbol)
            left = self._printer.print(definition.symbol)
            equation = self._equation(left, definition.expression, name, f"def-{name}")
            parts.append(f"{escaped(definition.meaning)}\n{equation}")
        return parts

    def steps(self, derivation: Derivation) -> list[str]:
        """The steps, each with its reason, premises, assumptions and the status of its check."""
        parts = [r"\subsection*{Derivation}"] if derivation.steps else []
        for number, step in enumerate(derivation.steps, start=1):
            sentences = [
                rf"\textbf{{Step {number}: {escaped(step.name)}.}} {escaped(_sentence(step.reason))}"
            ]
            premises = [rf"\eqref{{{self._labels[p]}}}" for p in step.premises if p in self._labels]
            if premises:
                sentences.append(rf"\emph{{From}} {', '.join(premises)}.")
            if step.assumptions:
                listed = "; ".join(escaped(a) for a in step.assumptions)
                sentences.append(rf"\emph{{Assuming}} {listed}.")
            sentences.append(rf"\emph{{Check:}} {escaped(_sentence(_status(step.check)))}")
            equation = self._equation(
                self._left_of(step, derivation), step.rhs, step.name, f"step-{step.name}"
            )
            parts.append("\n".join([*sentences, equation]))
        return parts

    def results(self, symbols: Mapping[str, sp.Expr]) -> list[str]:
        """The equations and observables of the record."""
        found = [
            self._equation(left, right, None, f"result-{name}")
            for name, left, right in _equations_of(self._record, self._printer, symbols)
        ]
        return [r"\subsection*{Equations}", *found] if found else []

    def limits(self, symbols: Mapping[str, sp.Expr]) -> list[str]:
        """Known values of observables, as a list."""
        items = [self._limit(limit, symbols) for limit in self._record.limits]
        if not items:
            return []
        body = "\n".join(items)
        return [r"\subsection*{Known values}", f"\\begin{{itemize}}\n{body}\n\\end{{itemize}}"]

    def _limit(self, limit: Limit, symbols: Mapping[str, sp.Expr]) -> str:
        name = limit.observable
        left = self._printer.print(symbols[name]) if name in symbols else self._printer.named(name)
        point = ", ".join(
            f"${self._printer.named(str(k))} = {self._number(v)}$" for k, v in limit.values.items()
        )
        value = self._printer.print(sp.sympify(limit.expected))
        where = f" at {point}" if point else ""
        return rf"\item[$\bullet$] ${left} = {value}${where}: {escaped(_sentence(limit.reason))}"

    def _number(self, value: Any) -> str:
        if isinstance(value, str):
            return rf"\mathrm{{{escaped(value)}}}" if not value.replace("/", "").isdecimal() else value
        return self._printer.print(sp.sympify(value))

    def _left_of(self, step: Step, derivation: Derivation) -> str:
        """The symbol from whose definition the chain of the step starts; without one, the left side."""
        root = derivation.root(step.name)
        for definition in derivation.definitions:
            if str(definition.symbol) == root:
                return self._printer.print(definition.symbol)
        return self._printer.print(step.lhs)

    def _equation(self, left: str, right: sp.Expr, name: str | None, label: str) -> str:
        """One labelled equation; ``name`` is what premises call it."""
        full = f"eq:{self._prefix}:{slug(label)}"
        unique, count = full, 1
        while unique in self._taken:
            count += 1
            unique = f"{full}-{count}"
        self._taken.add(unique)
        if name is not None:
            self._labels.setdefault(name, unique)
        rows = aligned_rows(left, right, self._printer)
        body = " \\notag \\\\\n".join(rows)
        return f"\\begin{{align}}\n{body} \\label{{{unique}}}\n\\end{{align}}"


def _cell(text: str) -> str:
    return rf"\raggedright {escaped(text)}"


def _sentence(text: str) -> str:
    return text if text.rstrip().endswith((".", "!", "?")) else f"{text.rstrip()}."


def _status(check: Check) -> str:
    """How a step is checked, in words."""
    if check.kind == "proved":
        return "proved: the difference of both sides reduces to zero"
    if check.kind == "verified":
        count = f"{len(check.points)} point{'' if len(check.points) == 1 else 's'}"
        means = f"{check.left_rule} against {check.right_rule}"
        return f"verified: both sides agree to {check.digits} digits or more at {count} ({means})"
    if check.kind == "simulated":
        return f"simulated: {check.reference}"
    return f"assumed, not proved here: {check.reference}"
