"""The expression language: the nodes that SymPy does not have.

==================== ==========================================================================
node                 meaning
==================== ==========================================================================
Expectation          average over jointly Gaussian, zero-mean variables with symbolic covariance
TruncatedExpectation the standard Gaussian integral of one variable up to an upper limit
HalfLine             integral over t in (0, infinity)
TokenExpectation     average over L tokens whose fields are independent standard Gaussians
DistinctSum          sum over pairwise distinct token indices; the length L may be symbolic
TokenPower           base**n for n tokens, 0 where n < 0 (there are no such tokens)
==================== ==========================================================================

Every node binds its own variables: they are not free symbols of the node and a substitution never
reaches them. Everything else of the language (numbers, symbols with assumptions, functions, Piecewise,
small dense matrices) is SymPy's own.
"""

from __future__ import annotations

from collections.abc import Iterable

import sympy as sp
from sympy.core.containers import Tuple
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE

from theorykit.derivations.special import normal_cdf
from theorykit.errors import DerivationError

__all__ = [
    "DistinctSum",
    "Expectation",
    "HalfLine",
    "Largest",
    "Node",
    "TokenExpectation",
    "TokenPower",
    "TruncatedExpectation",
]


class Node(sp.Expr):
    """Base of the binding nodes: subclasses say which of their arguments are bound."""

    is_commutative = True

    @property
    def bound_symbols(self) -> list[sp.Basic]:
        raise NotImplementedError

    @property
    def free_symbols(self) -> set[sp.Basic]:
        inner: set[sp.Basic] = set()
        for argument in self.args:
            inner |= argument.free_symbols
        return {s for s in inner if s not in self.bound_symbols and not _belongs(s, self.bound_symbols)}

    def _eval_subs(self, old: sp.Basic, new: sp.Basic) -> sp.Expr | None:
        if old in self.bound_symbols or old.free_symbols & set(self.bound_symbols):
            return self
        captured = getattr(new, "free_symbols", set()) & set(self.bound_symbols)
        if captured and old in self.free_symbols:
            raise DerivationError(f"{old} -> {new} would be captured by the bound {captured} of {self}")
        return None

    def _xreplace(self, rule: dict[sp.Basic, sp.Basic]) -> tuple[sp.Basic, bool]:
        """Replacement that leaves the bound variables alone (a node as a whole may be replaced)."""
        if self in rule:
            return rule[self], True
        bound = set(self.bound_symbols)
        kept = {k: v for k, v in rule.items() if k not in bound and not k.free_symbols & bound}
        return super()._xreplace(kept)

    def with_integrand(self, integrand: sp.Expr) -> Node:
        """The same node around another integrand."""
        return self.func(integrand, *self.args[1:])

    @property
    def integrand(self) -> sp.Expr:
        return self.args[0]

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        if any(symbol in a.free_symbols for a in self.args[1:]):
            raise NotImplementedError(f"{type(self).__name__} depends on {symbol} outside its integrand")
        return self.with_integrand(sp.diff(self.integrand, symbol))


def _belongs(symbol: sp.Basic, bound: Iterable[sp.Basic]) -> bool:
    """Whether an indexed symbol, or the label of a family, belongs to a bound family."""
    families = [b for b in bound if isinstance(b, sp.IndexedBase)]
    if isinstance(symbol, sp.Indexed):
        return symbol.base in families
    return any(symbol == f.label for f in families)


class Expectation(Node):
    r"""Average of ``integrand`` over zero-mean Gaussians ``variables`` with matrix ``covariance``.

    Without a covariance the variables are independent and standard.
    """

    def __new__(cls, integrand: object, variables: object, covariance: object = None) -> sp.Expr:
        names = Tuple(variables) if isinstance(variables, sp.Symbol) else Tuple(*variables)
        matrix = sp.eye(len(names)) if covariance is None else covariance
        matrix = sp.ImmutableDenseMatrix(matrix)
        if matrix.shape != (len(names), len(names)):
            raise ValueError(f"covariance of {names} must be {len(names)}x{len(names)}, got {matrix.shape}")
        integrand = sp.sympify(integrand)
        if not integrand.free_symbols & set(names):
            return integrand
        return sp.Expr.__new__(cls, integrand, names, matrix)

    @property
    def variables(self) -> Tuple:
        return self.args[1]

    @property
    def covariance(self) -> sp.ImmutableDenseMatrix:
        return self.args[2]

    @property
    def bound_symbols(self) -> list[sp.Basic]:
        return list(self.variables)

    @property
    def is_standard(self) -> bool:
        """Whether the variables are independent and standard."""
        return self.covariance == sp.eye(len(self.variables))

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        names = ",".join(printer._print(v) for v in self.variables)
        if not self.is_standard:
            names = rf"{names if len(self.variables) == 1 else f'({names})'}\sim{self._latex_law(printer)}"
        body = rf"\mathbb{{E}}_{{{names}}}\left[{printer._print(self.integrand)}\right]"
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"

    def _latex_law(self, printer: LatexPrinter) -> str:
        """The Gaussian law, with its covariance in small print."""
        entries = self.covariance.tolist()
        if len(entries) == 1:
            return rf"\mathcal{{N}}(0,{printer._print(entries[0][0])})"
        rows = r"\\".join("&".join(printer._print(e) for e in row) for row in entries)
        matrix = rf"\left(\begin{{smallmatrix}}{rows}\end{{smallmatrix}}\right)"
        return rf"\mathcal{{N}}\left(0,{matrix}\right)"


class TruncatedExpectation(Node):
    r""":math:`\int_{-\infty}^{u}\phi(x)f(x)\,dx` with the standard normal density :math:`\phi`."""

    precedence = PRECEDENCE["Mul"]  # printers bracket an integral like a product

    def __new__(cls, integrand: object, variable: sp.Symbol, upper: object) -> sp.Expr:
        integrand, upper = sp.sympify(integrand), sp.sympify(upper)
        if variable not in integrand.free_symbols:
            return integrand * normal_cdf(upper)
        return sp.Expr.__new__(cls, integrand, variable, upper)

    @property
    def variable(self) -> sp.Symbol:
        return self.args[1]

    @property
    def upper(self) -> sp.Expr:
        return self.args[2]

    @property
    def bound_symbols(self) -> list[sp.Basic]:
        return [self.variable]

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        x = printer._print(self.variable)
        body = (
            rf"\int_{{-\infty}}^{{{printer._print(self.upper)}}}\!\phi({x})\,"
            rf"{printer.parenthesize(self.integrand, PRECEDENCE['Mul'], strict=True)}\,d{x}"
        )
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"


class HalfLine(Node):
    r""":math:`\int_0^\infty f(t)\,dt`."""

    precedence = PRECEDENCE["Mul"]  # printers bracket an integral like a product

    def __new__(cls, integrand: object, variable: sp.Symbol) -> HalfLine:
        return sp.Expr.__new__(cls, sp.sympify(integrand), variable)

    @property
    def variable(self) -> sp.Symbol:
        return self.args[1]

    @property
    def bound_symbols(self) -> list[sp.Basic]:
        return [self.variable]

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        t = printer._print(self.variable)
        inner = printer.parenthesize(self.integrand, PRECEDENCE["Mul"], strict=True)
        body = rf"\int_0^\infty {inner}\,d{t}"
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"


class TokenExpectation(Node):
    r"""Average over ``length`` tokens; every token carries one independent standard Gaussian per family.

    The integrand uses ``family[1]`` for the hidden token, ``family[l]`` under a :class:`DistinctSum`,
    and plain symbols of ``shared`` for Gaussians that do not belong to a token (label noise).
    """

    def __new__(cls, integrand: object, families: object, length: object, shared: object = ()) -> sp.Expr:
        return sp.Expr.__new__(
            cls, sp.sympify(integrand), Tuple(*families), sp.sympify(length), Tuple(*shared)
        )

    @property
    def families(self) -> Tuple:
        return self.args[1]

    @property
    def length(self) -> sp.Expr:
        return self.args[2]

    @property
    def shared(self) -> Tuple:
        return self.args[3]

    @property
    def bound_symbols(self) -> list[sp.Basic]:
        return [*self.families, *self.shared]

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        body = rf"\mathbb{{E}}\left[{printer._print(self.integrand)}\right]"
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"


class DistinctSum(Node):
    r"""Sum over pairwise distinct token indices from ``first`` to ``length``, avoiding ``excluded``."""

    def __new__(
        cls, summand: object, indices: object, first: object, length: object, excluded: object = ()
    ) -> sp.Expr:
        names = Tuple(indices) if isinstance(indices, sp.Symbol) else Tuple(*indices)
        return sp.Expr.__new__(
            cls, sp.sympify(summand), names, sp.sympify(first), sp.sympify(length), Tuple(*excluded)
        )

    @property
    def indices(self) -> Tuple:
        return self.args[1]

    @property
    def first(self) -> sp.Expr:
        return self.args[2]

    @property
    def length(self) -> sp.Expr:
        return self.args[3]

    @property
    def excluded(self) -> Tuple:
        return self.args[4]

    @property
    def bound_symbols(self) -> list[sp.Basic]:
        return list(self.indices)

    @property
    def multiplicity(self) -> sp.Expr:
        """Number of terms: a falling factorial of the number of admissible tokens."""
        available = self.length - self.first + 1 - len(self.excluded)
        return sp.prod([available - i for i in range(len(self.indices))])

    def expand_at(self, length: int) -> sp.Expr:
        """The explicit sum at an integer length."""
        from itertools import permutations

        taken = {int(e) for e in self.excluded}
        pool = [i for i in range(int(self.first), length + 1) if i not in taken]
        body = self.integrand
        return sp.Add(
            *[
                _replace_free(body, dict(zip(self.indices, map(sp.Integer, choice), strict=True)))
                for choice in permutations(pool, len(self.indices))
            ]
        )

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        head = rf"\sum{self._latex_range(printer)}"
        body = rf"{head} {printer.parenthesize(self.integrand, PRECEDENCE['Mul'], strict=True)}"
        return rf"\left({body}\right)" + ("" if exp is None else rf"^{{{exp}}}")

    def _latex_range(self, printer: LatexPrinter) -> str:
        """Which indices are summed over: distinct ones, within the range, none of the excluded."""
        names = [printer._print(i) for i in self.indices]
        low, high = printer._print(self.first), printer._print(self.length)
        avoid = "".join(rf"\ne {printer._print(e)}" for e in self.excluded)
        if len(names) > 2 or (len(names) == 2 and avoid):
            listed = ",".join(names)
            rest = rf",\ {listed}{avoid}" if avoid else ""
            return rf"_{{\substack{{{low}\le {listed}\le {high}\\\text{{distinct}}{rest}}}}}"
        if len(names) == 2:
            return rf"_{{{low}\le {names[0]}\ne {names[1]}\le {high}}}"
        distinct = rf",\,{names[0]}{avoid}" if avoid else ""
        return rf"_{{{names[0]}={low}{distinct}}}^{{{high}}}"


def _replace_free(expression: sp.Basic, mapping: dict[sp.Basic, sp.Basic]) -> sp.Basic:
    """Replace indices, but not inside a sum that binds an index of the same name."""
    if expression in mapping:
        return mapping[expression]
    if not expression.args:
        return expression
    if isinstance(expression, DistinctSum):
        mapping = {k: v for k, v in mapping.items() if k not in expression.indices}
    arguments = [_replace_free(a, mapping) for a in expression.args]
    return expression if tuple(arguments) == expression.args else expression.func(*arguments)


class TokenPower(sp.Function):
    r"""``base**count`` for a number of tokens, 0 where ``count < 0`` (its multiplicity vanishes there)."""

    nargs = 2

    @classmethod
    def eval(cls, base: sp.Expr, count: sp.Expr) -> sp.Expr | None:
        if count.is_Integer:
            return base**count if count >= 0 else sp.Integer(0)
        return None

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        base, count = self.args
        if symbol in count.free_symbols:
            raise NotImplementedError(f"derivative of a token power in its count {count}")
        return count * TokenPower(base, count - 1) * sp.diff(base, symbol)

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        base, count = self.args
        body = rf"{printer.parenthesize(base, PRECEDENCE['Pow'])}^{{{printer._print(count)}}}"
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"


class Largest(sp.Function):
    r"""Indicator that token ``index`` carries the largest value of a family: ``Largest(family, index)``."""

    nargs = 2

    @classmethod
    def eval(cls, family: sp.Basic, index: sp.Basic) -> None:
        return None

    @property
    def family(self) -> sp.Basic:
        return self.args[0]

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        del exp
        family, index = self.args
        label = printer._print(family)
        return rf"\mathbf{{1}}\{{{label}_{{{printer._print(index)}}}=\max_m {label}_m\}}"
