r"""Closed forms of one-dimensional Gaussian averages, by finitely many named reductions.

An integrand is cut at the kinks of abs, max, min, sign and expanded into terms

    coefficient x^j exp(alpha x^2 + beta x) Phi(c x + b)^m,   m <= 2,

where sines are complex exponentials and erf is a distribution function. Reductions of a term on the whole line:
completion of the square removes the exponential, Stein's lemma lowers j, and what is left is E Phi^m. Pieces
between kinks (m = 0, real exponentials) are integrated by parts. Whatever does not fit returns None; nothing here
searches. Before a closed form is returned it is compared with brute-force quadrature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import sympy as sp

from theorykit.derivations.nodes import Expectation
from theorykit.derivations.special import normal_cdf, normal_pdf, owens_t

__all__ = ["closed_average"]

_SWITCHES = (sp.Abs, sp.Max, sp.Min, sp.sign)
_MOST_TERMS = 400
_MOST_PIECES = 16
_AGREEMENT = 1e-9
_REACH, _PANEL = 16.0, 0.5

Piece = tuple[sp.Expr, sp.Expr, sp.Expr]  # (low, high, expression without kinks)


def closed_average(node: Expectation) -> sp.Expr | None:
    """The average in closed form, or None where the reductions do not reach it.

    Parameters
    ----------
    node : Expectation
        Over one standard variable, without other symbols.
    """
    (x,) = node.variables
    integrand = _exact(node.integrand)
    if integrand is None or not node.is_standard or integrand.free_symbols != {x}:
        return None
    if _is_odd(integrand, x):
        return sp.Integer(0)
    pieces = _pieces(integrand, x, sp.S.NegativeInfinity, sp.oo)
    if pieces is None:
        return None
    total = _sum_over_pieces(pieces, x)
    return total if total is not None and _agrees(pieces, x, total) else None


def _exact(expression: sp.Expr) -> sp.Expr | None:
    """Decimal literals as the doubles they denote; None for a number that no double holds."""
    doubles = {f: float(f) for f in expression.atoms(sp.Float)}
    if not all(math.isfinite(d) and (d != 0 or f.is_zero) for f, d in doubles.items()):
        return None
    return expression.xreplace({f: sp.Rational(d) for f, d in doubles.items()})


def _is_odd(integrand: sp.Expr, x: sp.Symbol) -> bool:
    mirrored = integrand.xreplace({x: -x})
    return mirrored + integrand == 0 or sp.expand(mirrored + integrand) == 0


def _sum_over_pieces(pieces: list[Piece], x: sp.Symbol) -> sp.Expr | None:
    total = sp.Integer(0)
    for low, high, expression in pieces:
        terms = _terms(expression, x)
        if terms is None:
            return None
        whole = low is sp.S.NegativeInfinity and high is sp.oo
        for term in terms:
            value = term.whole_line() if whole else term.between(low, high)
            if value is None:
                return None
            total += value
    return _tidied(total)


def _tidied(total: sp.Expr) -> sp.Expr:
    """Sums collected, imaginary parts cancelled, Phi(-a) written as 1 - Phi(a)."""
    mirrored = total.replace(
        lambda e: isinstance(e, normal_cdf) and e.args[0].could_extract_minus_sign(),
        lambda e: 1 - normal_cdf(-e.args[0]),
    )
    total = sp.expand(mirrored)
    if total.has(sp.I):
        total = sp.expand(sp.re(sp.expand(total, complex=True)))
    return sp.Integer(0) if total.is_zero else total


def _agrees(pieces: list[Piece], x: sp.Symbol, closed: sp.Expr) -> bool:
    """The closed form beside panels of Gauss-Legendre in double precision."""
    from theorykit.derivations.evaluate import evaluate

    nodes, weights = np.polynomial.legendre.leggauss(20)
    total, size = 0.0, 0.0
    for low, high, expression in pieces:
        ends = max(float(low), -_REACH), min(float(high), _REACH)
        edges = np.linspace(*ends, max(1, math.ceil((ends[1] - ends[0]) / _PANEL)) + 1)
        half = np.diff(edges)[:, None] / 2
        points = (edges[:-1, None] + half) + half * nodes
        plain = expression.replace(normal_cdf, lambda a: sp.erfc(-a / sp.sqrt(2)) / 2)
        with np.errstate(all="ignore"):
            values = sp.lambdify(x, plain, modules=["scipy", "numpy"])(points)
            density = np.exp(-points * points / 2) / math.sqrt(2 * math.pi)
            weighted = half * weights * density * values
        total, size = total + float(np.sum(weighted)), size + float(np.sum(np.abs(weighted)))
    return math.isfinite(total) and abs(float(evaluate(closed, {}, 25)) - total) <= _AGREEMENT * size


# ------------------------------------------------------------------------------------------------- pieces


def _pieces(expression: sp.Expr, x: sp.Symbol, low: sp.Expr, high: sp.Expr) -> list[Piece] | None:
    """Cut at the kinks, innermost first; None where a kink is not the root of an affine function."""
    atoms = [a for a in expression.atoms(*_SWITCHES) if a.has(x) and not _inner(a, x)]
    if not atoms:
        return [(low, high, expression)]
    atom = min(atoms, key=sp.default_sort_key)
    cuts = _roots(atom, x)
    if cuts is None:
        return None
    edges = [low, *[c for c in cuts if bool(c > low) and bool(c < high)], high]
    found: list[Piece] = []
    for left, right in pairwise(edges):
        chosen = expression.xreplace({atom: _branch(atom, x, _between(left, right))})
        inside = _pieces(chosen, x, left, right)
        if inside is None or len(found) + len(inside) > _MOST_PIECES:
            return None
        found += inside
    return found


def _inner(atom: sp.Expr, x: sp.Symbol) -> bool:
    return any(a.has(x) for argument in atom.args for a in argument.atoms(*_SWITCHES))


def _roots(atom: sp.Expr, x: sp.Symbol) -> list[sp.Expr] | None:
    if isinstance(atom, sp.Max | sp.Min):
        differences = [first - second for first, second in combinations(atom.args, 2)]
    else:
        differences = [atom.args[0]]
    found: set[sp.Expr] = set()
    for difference in differences:
        difference = sp.expand(difference)
        if not difference.has(x):
            continue
        if not difference.is_polynomial(x) or sp.degree(difference, x) != 1:
            return None
        found.add(sp.simplify(-difference.coeff(x, 0) / difference.coeff(x, 1)))
    return sorted(found, key=lambda c: float(c))


def _between(low: sp.Expr, high: sp.Expr) -> sp.Expr:
    if low is sp.S.NegativeInfinity:
        return sp.Integer(0) if high is sp.oo else high - 1
    return low + 1 if high is sp.oo else (low + high) / 2


def _branch(atom: sp.Expr, x: sp.Symbol, at: sp.Expr) -> sp.Expr:
    """What a switching function equals on the interval around a point."""
    values = [float(a.xreplace({x: at})) for a in atom.args]
    if isinstance(atom, sp.Max):
        return atom.args[int(np.argmax(values))]
    if isinstance(atom, sp.Min):
        return atom.args[int(np.argmin(values))]
    sign = sp.Integer(1 if values[0] > 0 else -1)
    return sign if isinstance(atom, sp.sign) else sign * atom.args[0]


# -------------------------------------------------------------------------------------------------- terms


@dataclass(frozen=True)
class _Term:
    """coefficient x^power exp(alpha x^2 + beta x) Phi(slope x + offset)^order."""

    coefficient: sp.Expr
    power: int
    alpha: sp.Expr
    beta: sp.Expr
    slope: sp.Expr
    offset: sp.Expr
    order: int

    def whole_line(self) -> sp.Expr | None:
        """Its average over a standard Gaussian."""
        if self.order and self.beta.has(sp.I):
            return None
        width = 1 - 2 * self.alpha
        if not (width.is_number and width.is_positive):
            return None
        # exp(alpha x^2 + beta x) phi(x) is a Gaussian of variance 1/width around beta/width
        deviation, centre = 1 / sp.sqrt(width), self.beta / width
        weight = self.coefficient * deviation * sp.exp(self.beta**2 / (2 * width))
        slope, offset = self.slope * deviation, self.offset + self.slope * centre
        total = sp.Integer(0)
        for j in range(self.power + 1):
            binomial = sp.binomial(self.power, j) * centre ** (self.power - j) * deviation**j
            if binomial == 0:
                continue
            moment = _moment(j, slope, offset, self.order)
            if moment is None:
                return None
            total += binomial * moment
        return weight * total

    def between(self, low: sp.Expr, high: sp.Expr) -> sp.Expr | None:
        """Its integral against the normal density between two points."""
        if self.order or self.alpha != 0 or self.beta.has(sp.I):
            return None
        left, right = low - self.beta, high - self.beta
        weight = self.coefficient * sp.exp(self.beta**2 / 2)
        return weight * sp.Add(
            *[
                sp.binomial(self.power, j) * self.beta ** (self.power - j) * _partial_moment(j, left, right)
                for j in range(self.power + 1)
            ]
        )


def _moment(power: int, slope: sp.Expr, offset: sp.Expr, order: int) -> sp.Expr | None:
    """E x^power Phi(slope x + offset)^order."""
    if order == 0:
        return sp.Integer(0) if power % 2 else sp.factorial2(power - 1) if power else sp.Integer(1)
    if power == 0:
        h = offset / sp.sqrt(1 + slope**2)
        if order == 1:
            return normal_cdf(h)
        if h == 0:  # Owen's T at h = 0 is an arc tangent
            return sp.Rational(1, 2) - sp.atan(1 / sp.sqrt(1 + 2 * slope**2)) / sp.pi
        return normal_cdf(h) - 2 * owens_t(h, 1 / sp.sqrt(1 + 2 * slope**2))
    # Stein: E x g = E g', with the density of Phi completed to a Gaussian by the caller's means
    lowered = sp.Integer(0)
    if power >= 2:
        before = _moment(power - 2, slope, offset, order)
        if before is None:
            return None
        lowered = (power - 1) * before
    inner = _Term(
        order * slope * sp.exp(-(offset**2) / 2) / sp.sqrt(2 * sp.pi),
        power - 1,
        -(slope**2) / 2,
        -slope * offset,
        slope,
        offset,
        order - 1,
    ).whole_line()
    return None if inner is None else lowered + inner


def _partial_moment(power: int, low: sp.Expr, high: sp.Expr) -> sp.Expr:
    """Integral of x^power times the normal density between two points, by partial integration."""
    if power == 0:
        return normal_cdf(high) - normal_cdf(low)
    boundary = sp.Integer(0)
    if low is not sp.S.NegativeInfinity:
        boundary += low ** (power - 1) * normal_pdf(low)
    if high is not sp.oo:
        boundary -= high ** (power - 1) * normal_pdf(high)
    return boundary if power == 1 else boundary + (power - 1) * _partial_moment(power - 2, low, high)


def _terms(expression: sp.Expr, x: sp.Symbol) -> list[_Term] | None:
    """The expression as a sum of terms, or None if a factor is of another kind."""
    plain = expression.replace(sp.erf, lambda a: 2 * normal_cdf(sp.sqrt(2) * a) - 1)
    plain = plain.replace(sp.erfc, lambda a: 2 * normal_cdf(-sp.sqrt(2) * a))
    plain = plain.rewrite((sp.sin, sp.cos, sp.sinh, sp.cosh), sp.exp)
    found = []
    for term in sp.Add.make_args(sp.expand(plain)):
        read = _read(sp.powsimp(term, combine="exp"), x)
        if read is None or len(found) >= _MOST_TERMS:
            return None
        found.append(read)
    return found


def _read(term: sp.Expr, x: sp.Symbol) -> _Term | None:
    coefficient, power, order = sp.Integer(1), 0, 0
    exponent, argument = sp.Integer(0), sp.Integer(0)
    for factor in sp.Mul.make_args(term):
        base, degree = factor.as_base_exp()
        if not factor.has(x):
            coefficient *= factor
        elif base == x and degree.is_Integer and degree > 0:
            power += int(degree)
        elif isinstance(factor, sp.exp):
            exponent += factor.args[0]
        elif isinstance(base, normal_cdf) and degree.is_Integer and degree > 0:
            if order and base.args[0] != argument:
                return None
            order, argument = order + int(degree), base.args[0]
        else:
            return None
    quadratic, affine = _coefficients(exponent, x, 2), _coefficients(argument, x, 1)
    if quadratic is None or affine is None or order > 2:
        return None
    constant, beta, alpha = quadratic
    return _Term(coefficient * sp.exp(constant), power, alpha, beta, affine[1], affine[0], order)


def _coefficients(expression: sp.Expr, x: sp.Symbol, degree: int) -> tuple[sp.Expr, ...] | None:
    """Coefficients of 1, x, ... of a polynomial of at most the given degree."""
    expanded = sp.expand(expression)
    if not expanded.is_polynomial(x) or (expanded.has(x) and sp.degree(expanded, x) > degree):
        return None
    return tuple(expanded.coeff(x, k) for k in range(degree + 1))
