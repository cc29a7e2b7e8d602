"""Special functions that SymPy does not have: the normal law, Owen's T, and the weight a Laplace variable leaves."""

from __future__ import annotations

import mpmath
import sympy as sp
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE

__all__ = ["gamma_weight", "normal_cdf", "normal_pdf", "owens_t", "owens_t_gap"]


class normal_cdf(sp.Function):
    r"""Distribution function :math:`\Phi` of the standard normal law."""

    nargs = 1

    @classmethod
    def eval(cls, argument: sp.Expr) -> sp.Expr | None:
        if argument.is_zero:
            return sp.Rational(1, 2)
        if argument is sp.oo:
            return sp.Integer(1)
        if argument is sp.S.NegativeInfinity:
            return sp.Integer(0)
        return None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return normal_pdf(self.args[0])

    def _eval_rewrite_as_erf(self, argument: sp.Expr, **_: object) -> sp.Expr:
        return (1 + sp.erf(argument / sp.sqrt(2))) / 2

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        power = "" if exp is None else rf"^{{{exp}}}"
        return rf"\Phi{power}\left({printer._print(self.args[0])}\right)"

    def _eval_evalf(self, prec: int) -> sp.Expr:
        return (sp.erfc(-self.args[0] / sp.sqrt(2)) / 2)._eval_evalf(prec)


def normal_pdf(argument: sp.Expr) -> sp.Expr:
    """Density of the standard normal law."""
    return sp.exp(-(argument**2) / 2) / sp.sqrt(2 * sp.pi)


class owens_t(sp.Function):
    r"""Owen's :math:`T(h,a)=\frac1{2\pi}\int_0^a\frac{e^{-h^2(1+x^2)/2}}{1+x^2}dx`."""

    nargs = 2

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        power = "" if exp is None else rf"^{{{exp}}}"
        inner = ",".join(printer._print(a) for a in self.args)
        return rf"T{power}\left({inner}\right)"

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        if not all(a.is_number for a in self.args):
            return None
        with mpmath.workprec(prec + 20):
            h, a = (mpmath.mpmathify(argument._to_mpmath(prec + 20)) for argument in self.args)
            pieces = mpmath.linspace(0, a, 9)
            area = mpmath.quad(lambda x: mpmath.exp(-h * h * (1 + x * x) / 2) / (1 + x * x), pieces)
            return sp.Float(area / (2 * mpmath.pi), precision=prec)


class owens_t_gap(sp.Function):
    r""":math:`T(h,1)-T(h,a)` for a in [0, 1], one positive integral: what differences of T cancel to."""

    nargs = 2

    def _eval_rewrite_as_owens_t(self, h: sp.Expr, a: sp.Expr, **_: object) -> sp.Expr:
        return owens_t(h, sp.Integer(1)) - owens_t(h, a)

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        h, a = (printer._print(argument) for argument in self.args)
        body = rf"\left[T\left({h},1\right)-T\left({h},{a}\right)\right]"
        return body if exp is None else rf"{body}^{{{exp}}}"


class gamma_weight(sp.Function):
    r""":math:`u^n e^{-u}`, the factor that a Laplace variable leaves on a token (u = t b, n powers of b)."""

    nargs = 2

    @classmethod
    def eval(cls, u: sp.Expr, n: sp.Expr) -> sp.Expr | None:
        return sp.exp(-u) if n.is_zero else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        if argindex != 1:
            raise NotImplementedError("derivative of a gamma weight in its degree")
        u, n = self.args
        return n * gamma_weight(u, n - 1) - gamma_weight(u, n)

    def _eval_rewrite_as_exp(self, u: sp.Expr, n: sp.Expr, **_: object) -> sp.Expr:
        return u**n * sp.exp(-u)

    def _latex(self, printer: LatexPrinter, exp: str | None = None) -> str:
        u, n = self.args
        if n == 1:
            factor = printer.parenthesize(u, PRECEDENCE["Mul"], strict=True)
        else:
            factor = rf"{printer.parenthesize(u, PRECEDENCE['Pow'])}^{{{printer._print(n)}}}"
        body = rf"{factor} {printer._print(sp.exp(-u))}"
        return body if exp is None else rf"\left[{body}\right]^{{{exp}}}"
