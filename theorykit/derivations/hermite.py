r"""Hermite coefficients and second moment of a function of a standard Gaussian.

Setting: xi is a standard Gaussian, h_k = He_k/sqrt(k!) the normalized Hermite polynomials, f a formula with
E f(xi)^2 finite. Results: a_k = E f(xi) h_k(xi) for k up to a degree; the second moment nu = E(f - a_0)^2 of the
centred function, which is the sum of a_k^2 over k >= 1; its part beyond the linear one,
E(f - a_0 - a_1 xi)^2 = nu - a_1^2, as an average of its own, because the difference cancels for nearly linear f;
the linearity a_1^2/nu. Averages are closed where f is made of polynomials, exponentials, sines, distribution
functions and pieces of them (see ``gaussian_integrals``) and stay integrals otherwise. Source: the expansion is
classical; these are the numbers through which arXiv 2506.18656 depends on f.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.gaussian_integrals import closed_average
from theorykit.derivations.ledger import Definition, Derivation, Equations, Quantity, Step, proved, verified
from theorykit.derivations.nodes import Expectation

__all__ = ["LINEARITY", "REMAINDER", "SECOND_MOMENT", "coefficient", "derive_hermite", "hermite_polynomial"]

FIELD = sp.Symbol("x", real=True)  # argument of f in its moments
INNER = sp.Symbol("xi", real=True)  # the same in the coefficients, which stand inside the moments
FUNCTION = sp.Function("f", real=True)

SECOND_MOMENT = sp.Symbol("nu", positive=True)
REMAINDER = sp.Symbol("remainder", nonnegative=True)
LINEARITY = sp.Symbol("linearity", nonnegative=True)

_PAPER = "arXiv 2506.18656"


def coefficient(k: int) -> sp.Symbol:
    """The symbol a_k."""
    return sp.Symbol(f"a_{k}", real=True)


def hermite_polynomial(k: int, x: sp.Expr) -> sp.Expr:
    r"""Normalized probabilists' Hermite polynomial He_k(x)/sqrt(k!), by the three-term recursion."""
    before, current = sp.Integer(0), sp.Integer(1)
    for order in range(k):
        before, current = current, sp.expand(x * current - order * before)
    return sp.expand(current / sp.sqrt(sp.factorial(k)))


def derive_hermite(formula: str = "tanh(x)", degree: int = 6) -> Derivation:
    """a_0 to a_degree, "nu", "remainder" and "linearity" of a formula in x; no free parameters are left."""
    if not isinstance(degree, int) or degree < 1:
        raise ValueError(f"degree must be an integer of at least 1, got {degree!r}")
    from theorykit.formula import parse

    parsed = parse(formula)
    definitions, steps, equations = [], [], {}

    def insert(expression: sp.Expr) -> sp.Expr:
        return expression.replace(FUNCTION, parsed.to_sympy)

    def chain(symbol: sp.Symbol, definition: sp.Expr, meaning: str) -> None:
        definitions.append(Definition(symbol, definition, meaning))
        steps.extend(_chain(symbol, definition, insert, equations))
        equations[symbol] = steps[-1].rhs

    for k in range(degree + 1):
        integrand = FUNCTION(INNER) * hermite_polynomial(k, INNER)
        chain(coefficient(k), Expectation(integrand, INNER), f"coefficient {k} of f")
    centred = FUNCTION(FIELD) - coefficient(0)
    chain(SECOND_MOMENT, Expectation(centred**2, FIELD), "second moment of the centred f")
    nonlinear = centred - coefficient(1) * FIELD
    chain(REMAINDER, Expectation(nonlinear**2, FIELD), "second moment of f without its linear part")
    _linearity(definitions, steps, equations, centred)
    record = Equations(
        "interpolation.hermite",
        _quantities(degree),
        equations,
        {s.name: e for s, e in equations.items()},
        breakpoints=_breakpoints(parsed),
    )
    title = f"Hermite coefficients of {parsed.text}"
    return Derivation(record.name, title, _PAPER, tuple(definitions), tuple(steps), record)


def _chain(symbol: sp.Symbol, definition: sp.Expr, insert, known: dict[sp.Symbol, sp.Expr]) -> list[Step]:  # type: ignore[no-untyped-def]
    """Definition -> the formula inserted -> closed form, where there is one."""
    label = symbol.name.replace("_", " ")
    inserted = insert(definition)
    found = [
        Step(
            f"formula ({label})",
            definition,
            inserted,
            (symbol.name,),
            "the function inserted",
            proved(insert),
        )
    ]
    if not isinstance(inserted, Expectation):
        return found
    centred = inserted.xreplace({s: e for s, e in known.items() if not e.has(Expectation)})
    closed = closed_average(centred) if isinstance(centred, Expectation) else centred
    if closed is not None and closed != inserted:
        at = {s.name: known[s] for s in inserted.free_symbols}
        concrete = _plus_one if closed == 0 else None
        check = verified(_numbers(at), digits=30, left="mp-trapezoid", right="mp-quad", concrete=concrete)
        premises = (found[0].name, *sorted(at))
        found.append(Step(f"Gaussian average ({label})", inserted, closed, premises, _REASON, check))
    return found


_REASON = (
    "parity, Stein's lemma and completion of squares reduce the average to those of 1, Phi and Phi^2; pieces "
    "between kinks by partial integration"
)


def _plus_one(side: sp.Expr, _length: int = 0) -> sp.Expr:
    """E g beside 0 as E(1 + g) beside 1: digits of a zero cannot be counted."""
    return side.with_integrand(1 + side.integrand) if isinstance(side, Expectation) else 1 + side


def _numbers(values: dict[str, sp.Expr]) -> dict[str, str]:
    """The coefficients that stand in an average, to more digits than are compared."""
    # a point that makes sides concrete must name the number of tokens, though there are none here
    return {name: str(value.evalf(60)) for name, value in values.items()} | {"L": "1"}


def _linearity(
    definitions: list[Definition], steps: list[Step], equations: dict[sp.Symbol, sp.Expr], centred: sp.Expr
) -> None:
    moment = Expectation(centred**2, FIELD)
    definition = coefficient(1) ** 2 / moment
    final = coefficient(1) ** 2 / SECOND_MOMENT
    definitions.append(Definition(LINEARITY, definition, "share of the linear part in the second moment"))
    steps.append(
        Step(
            "in terms of the second moment (linearity)",
            definition,
            final,
            (LINEARITY.name, SECOND_MOMENT.name),
            "nu is the average in the denominator",
            proved(lambda e: e.xreplace({SECOND_MOMENT: moment})),
        )
    )
    equations[LINEARITY] = final
    if equations[coefficient(1)] == 0:
        (first,) = [s.name for s in steps if s.rhs == 0 and s.name.endswith("(a 1)")][-1:]
        steps.append(
            Step(
                "no linear part (linearity)",
                final,
                sp.Integer(0),
                (steps[-1].name, first),
                "a_1 vanishes",
                verified({"a_1": "0", "nu": "0.7"}, digits=30, left="mp-trapezoid", right="mp-quad"),
            )
        )
        equations[LINEARITY] = sp.Integer(0)


def _quantities(degree: int) -> tuple[Quantity, ...]:
    rows = [
        Quantity(coefficient(k), f"a_{{{k}}}", f"normalized Hermite coefficient {k} of f")
        for k in range(degree + 1)
    ]
    return (
        *rows,
        Quantity(SECOND_MOMENT, r"\nu", "second moment of the centred f", "(0, inf)"),
        Quantity(REMAINDER, r"\nu-a_1^2", "the same without the linear part", "[0, inf)"),
        Quantity(LINEARITY, r"\varrho", "share of the linear part", "[0, 1]"),
    )


# ------------------------------------------------------------------------- where integrands are not smooth

_FINEST = 44  # panels next to a kink are no shorter than 2^-44
_NODES = 16
_SMOOTH = 1e-11


def _breakpoints(parsed) -> dict[sp.Symbol, tuple[sp.Expr, ...]]:  # type: ignore[no-untyped-def]
    """Kinks, and around kinks and fronts panels that halve until the formula is smooth on them."""
    kinks, fronts = set(parsed.kinks()), set(parsed.fronts())
    points: set[float] = set(kinks)
    for place in kinks | fronts:
        depth = max(_depth(parsed, place, side) for side in (-1, 1))
        if depth:
            points |= {place} | {place + s * 2.0**-j for j in range(depth + 1) for s in (-1, 1)}
    ordered = tuple(sp.Float(p, 17) for p in sorted(points) if abs(p) < 40)
    return {FIELD: ordered, INNER: ordered} if ordered else {}


def _depth(parsed, place: float, side: int) -> int:  # type: ignore[no-untyped-def]
    """How often the panel on one side of a point must be halved before a polynomial represents the formula."""
    import numpy as np

    chebyshev = np.polynomial.chebyshev
    nodes = np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
    to_series = np.linalg.inv(chebyshev.chebvander(nodes, _NODES - 1))
    # a front may be steeper than the nodes are dense: also ever closer to the point
    closer = np.exp2(-np.arange(1.0, 30.0))
    size = float(np.max(np.abs(np.nan_to_num(parsed.evaluate(place + side * closer)))))
    for depth in range(_FINEST + 1):
        width = 2.0**-depth
        values = parsed.evaluate(place + side * width * (1 + nodes) / 2)
        near = parsed.evaluate(place + side * width * closer)
        if np.isfinite(values).all():
            series = to_series @ values
            missed = np.abs(chebyshev.chebval(2 * closer - 1, series) - near)
            if max(float(np.max(np.abs(series[-3:]))), float(np.max(missed))) <= _SMOOTH * size:
                return depth
    return _FINEST
