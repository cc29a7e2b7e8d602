r"""Reductions of the Dyson equations, where few of their unknowns are left: all in the degrees of freedom.

With :math:`\varphi=1-m_{uu}` the degrees of freedom over n, the ridge and the training error without signal (bulk) are
explicit functions of :math:`\varphi`, since :math:`E=-\gamma^2\partial_\gamma(m_{uu}/\gamma)=1-\varphi+\gamma/\gamma'`:

================  ==============================  ===============================================================
name              where                           ridge
================  ==============================  ===============================================================
regression        K = 1 (a_1 = 0, no noise)       :math:`(1-\varphi)(c-\varphi)/\varphi`
nonlinear         no linear part, diagonal zero   :math:`\nu(1-\varphi)^2(c-\varphi)/(c\varphi)`
saturated         p/n to infinity, any a_1, d = 0 :math:`\nu(1-\varphi)^2/\varphi`: regression at c = 1, ridge/nu
================  ==============================  ===============================================================

Each is solved from the equations of the engine in turn; the steps prove that all six equations hold there. That this
solution is the one on the branch is its range: phi in (0, min(1, c)), where the ridge falls from infinity to 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.fixed_point import FixedPoint
from theorykit.derivations.interpolation.features import system
from theorykit.derivations.interpolation.symbols import (
    A_1,
    DIAGONAL,
    GAMMA,
    PAPER,
    PHI,
    REMAINDER,
    C,
    Z,
    quantities,
)
from theorykit.derivations.ledger import Derivation, Limit, Quantity, proved
from theorykit.derivations.matrices import Entry, leading, written_out

__all__ = ["derive_reductions"]

_NU = sp.Symbol("nu", positive=True)
_PAIRS = ("uu", "uv", "uw", "vv", "vw", "ww")
_M = {pair: sp.Symbol(f"m_{pair}") for pair in _PAIRS}
_REGRESSION = {A_1: sp.Integer(0), REMAINDER: sp.Integer(0), DIAGONAL: sp.Integer(1)}
_NONLINEAR = {A_1: sp.Integer(0), REMAINDER: _NU, DIAGONAL: sp.Integer(0)}
#: Powers of c by which the blocks grow at many dimensions, where X^T X/n is close to c and K to a Wigner matrix.
_GROWTH = {"uu": 0, "uv": -1, "uw": 0, "vv": -1, "vw": 0, "ww": 1}


@cache
def _rights() -> dict[str, sp.Expr]:
    """Right sides of the six equations at z = -1, in the blocks of the tokens' side alone."""
    found = system()
    return {
        pair: found.equations[m].xreplace(dict(found.explicit)).xreplace({Z: sp.Integer(-1)})
        for pair, m in _M.items()
    }


@cache
def _inner() -> sp.ImmutableDenseMatrix:
    """What the blocks (u, v, w) are the inverse of."""
    found = system()
    source = sp.ImmutableDenseMatrix(found.sources["n"].arg)
    return sp.ImmutableDenseMatrix(source.xreplace(dict(found.explicit)).xreplace({Z: sp.Integer(-1)}))


def _root(equation: sp.Expr, unknown: sp.Symbol) -> sp.Expr:
    """The root of an equation whose numerator is linear in the unknown, as it comes."""
    above = sp.Poly(sp.fraction(sp.together(written_out(equation)))[0], unknown)
    if above.degree() > 1:
        factors = [f for f, _ in above.factor_list()[1] if f.degree() == 1]
        above = factors[-1]
    slope, rest = above.all_coeffs()
    return -rest / slope


def _solved(
    rights: Mapping[str, sp.Expr],
    given: Mapping[sp.Symbol, sp.Expr],
    order: Sequence[tuple[str, sp.Symbol]],
) -> dict[sp.Symbol, sp.Expr]:
    """Blocks and ridge in terms of the degrees of freedom: each equation in turn gives one of them."""
    known = {_M["uu"]: 1 - PHI, _M["vw"]: PHI - 1, **given}
    for pair, unknown in order:
        root = sp.factor(_root((rights[pair] - _M[pair]).xreplace(known), unknown))
        known = {s: sp.factor(sp.sympify(e).xreplace({unknown: root})) for s, e in known.items()}
        known[unknown] = root
    for pair, block in _M.items():
        if block not in known:
            known[block] = sp.factor(written_out(rights[pair].xreplace(known)))
    return known


def _error(ridge: sp.Expr) -> sp.Expr:
    """E = 1 - phi + ridge/(d ridge/d phi)."""
    return 1 - PHI + ridge / sp.diff(ridge, PHI)


def derive_reductions() -> Derivation:
    """Ridge and error in terms of the degrees of freedom: linear regression, no linear part, many dimensions."""
    chain = Chain()
    rows: list[Quantity] = []
    regression = _case(
        chain, rows, "regression", "K = 1", _rights(), _REGRESSION, {}, (("uu", _M["vv"]), ("vv", GAMMA))
    )
    nonlinear = _case(
        chain, rows, "nonlinear", "a_1 = d = 0", _rights(), _NONLINEAR,
        {_M["uv"]: sp.Integer(0), _M["uw"]: sp.Integer(0)},
        (("uu", _M["ww"]), ("vw", _M["vv"]), ("vv", GAMMA)),
    )  # fmt: skip
    limits = _many_dimensions(chain, rows)
    _case(
        chain, rows, "saturated", "p/n to infinity, d = 0", limits, {A_1: A_1, REMAINDER: _NU - A_1**2},
        {_M["uv"]: sp.Integer(0), _M["uw"]: sp.Integer(0)},
        (("uu", _M["ww"]), ("vw", GAMMA)),
    )  # fmt: skip
    _small_ridge(chain, rows, regression, nonlinear)
    observables = {str(s): e for s, e in chain.results.items()}
    used: set[sp.Symbol] = set()
    for step in chain.steps:
        used |= step.lhs.free_symbols | step.rhs.free_symbols
    blocks = tuple(row for row in system().symbols() if row.symbol in used)
    record = FixedPoint(
        "interpolation.reductions",
        quantities(used, Quantity(_NU, r"\nu", "second moment of the centred f", "positive"), *blocks, *rows),
        {},
        observables,
        limits=(
            Limit("regression_ridge", {"phi": "1/2", "c": 1}, sp.Rational(1, 2), "m = 1 at gamma = 1/2"),
            Limit("regression_error", {"phi": "1/2", "c": 1}, sp.Rational(1, 3), "-gamma^2 m' there"),
            Limit("nonlinear_ridge", {"phi": "1/2", "c": 1, "nu": 4}, sp.Rational(1), "4 (1/2)^2"),
        ),
    )
    title = "Reductions of the Dyson equations"
    return Derivation(
        "interpolation.reductions", title, PAPER, tuple(chain.definitions), tuple(chain.steps), record
    )


def _case(
    chain: Chain,
    rows: list[Quantity],
    name: str,
    where: str,
    rights: Mapping[str, sp.Expr],
    parameters: Mapping[sp.Symbol, sp.Expr],
    given: Mapping[sp.Symbol, sp.Expr],
    order: Sequence[tuple[str, sp.Symbol]],
) -> dict[str, sp.Expr]:
    """The six equations at a solution, then the ridge and the error along it."""
    here = {pair: right.xreplace(dict(parameters)) for pair, right in rights.items()}
    solution = _solved(here, given, order)
    at = dict(solution)
    for pair, block in _M.items():
        symbol = sp.Symbol(f"{name}_{pair}", real=True)
        chain.define(symbol, here[pair].xreplace(at), f"right side of the equation of m_{pair} where {where}")
        chain.add(
            symbol, "solution", solution[block], "the equations solved one after the other, in 1 - m_uu",
            proved(written_out),
        )  # fmt: skip
        rows.append(Quantity(symbol, rf"m^{{\mathrm{{{name}}}}}_{{{pair}}}", f"block ({pair}) where {where}"))
    ridge, error = sp.symbols(f"{name}_ridge {name}_error", real=True)
    last_pair, _ = order[-1]
    before = _before(here, given, order)
    chain.define(
        ridge, _root(before, GAMMA), f"root in the ridge of the equation of m_{last_pair}, where {where}"
    )
    chain.add(ridge, "ridge", solution[GAMMA], "factored", proved())
    chain.define(error, _error(solution[GAMMA]), f"-gamma^2 d(m_uu/gamma)/dgamma, where {where}")
    poles = _logarithmic(solution[GAMMA])
    chain.add(error, "error", 1 - PHI - 1 / poles, "logarithmic derivative of the ridge", proved())
    rows.append(
        Quantity(ridge, rf"\gamma_{{\mathrm{{{name}}}}}", f"ridge at given df, where {where}", "positive")
    )
    rows.append(
        Quantity(error, rf"E_{{\mathrm{{{name}}}}}", f"error without signal at given df, where {where}")
    )
    return {"ridge": chain.results[ridge], "error": chain.results[error]}


def _before(
    rights: Mapping[str, sp.Expr], given: Mapping[sp.Symbol, sp.Expr], order: Sequence[tuple[str, sp.Symbol]]
) -> sp.Expr:
    """The last equation of the order, with what the ones before it gave."""
    known = {_M["uu"]: 1 - PHI, _M["vw"]: PHI - 1, **given}
    for pair, unknown in order[:-1]:
        root = sp.factor(_root((rights[pair] - _M[pair]).xreplace(known), unknown))
        known = {s: sp.sympify(e).xreplace({unknown: root}) for s, e in known.items()} | {unknown: root}
    last, _ = order[-1]
    return (rights[last] - _M[last]).xreplace(known)


def _logarithmic(ridge: sp.Expr) -> sp.Expr:
    """Minus the logarithmic derivative of a product of linear factors, as a sum over them."""
    total = sp.Integer(0)
    for base, power in sp.factor(ridge).as_powers_dict().items():
        if base.has(PHI):
            # -(d/d phi) log(a + b phi) = -1/(phi + a/b)
            total += -power / (PHI + sp.cancel((base - sp.diff(base, PHI) * PHI) / sp.diff(base, PHI)))
    return total


def _many_dimensions(chain: Chain, rows: list[Quantity]) -> dict[str, sp.Expr]:
    """Limits of the equations as p/n grows; the blocks stand for themselves over their powers of c."""
    grown = {_M[pair]: _M[pair] * C**power for pair, power in _GROWTH.items()}
    half = {"u": sp.Rational(0), "v": sp.Rational(-1, 2), "w": sp.Rational(1, 2)}
    limits: dict[tuple[int, int], sp.Expr] = {}
    inner = _inner().xreplace({DIAGONAL: sp.Integer(0)})
    for pair in _PAIRS:
        i, j = ("uvw".index(letter) for letter in pair)
        entry = C ** (half[pair[0]] + half[pair[1]]) * inner[i, j].xreplace(grown)
        symbol = sp.Symbol(f"many_{pair}", real=True)
        unevaluated = sp.Limit(entry, C, sp.oo)
        chain.define(symbol, unevaluated, f"entry ({pair}) of the inverse of the blocks at many dimensions")
        limit = sp.factor(leading(unevaluated))
        chain.add(symbol, "many dimensions", limit, "the highest power of c", proved(leading))
        rows.append(Quantity(symbol, rf"N_{{{pair}}}", f"entry ({pair}) at p/n to infinity"))
        limits[i, j] = limits[j, i] = limit
    matrix = sp.ImmutableDenseMatrix(3, 3, lambda i, j: limits[i, j])
    return {pair: Entry(sp.Inverse(matrix), *("uvw".index(letter) for letter in pair)) for pair in _PAIRS}


def _small_ridge(
    chain: Chain, rows: list[Quantity], regression: Mapping[str, sp.Expr], nonlinear: Mapping[str, sp.Expr]
) -> None:
    """How the error vanishes with the ridge where p >= n, and what is left of it where p < n."""
    one = {C: sp.Integer(1)}
    cases = (
        ("regression_few", sp.Limit(regression["error"], PHI, C), "regression, p < n: error without ridge"),
        ("nonlinear_few", sp.Limit(nonlinear["error"], PHI, C), "no linear part, p < n: error without ridge"),
        ("regression_many", sp.Limit(regression["error"] / regression["ridge"] ** 2, PHI, 1),
         "regression, p > n: error over the squared ridge"),
        ("nonlinear_many", sp.Limit(nonlinear["error"] ** 2 / nonlinear["ridge"], PHI, 1),
         "no linear part, p > n: squared error over the ridge"),
        ("regression_equal", sp.Limit((regression["error"] ** 2 / regression["ridge"]).xreplace(one), PHI, 1),
         "regression, p = n: squared error over the ridge"),
        ("nonlinear_equal", sp.Limit((nonlinear["error"] ** 3 / nonlinear["ridge"]).xreplace(one), PHI, 1),
         "no linear part, p = n: cubed error over the ridge"),
    )  # fmt: skip
    for name, limit, meaning in cases:
        symbol = sp.Symbol(name, real=True)
        chain.define(symbol, limit, meaning)
        value = sp.factor(leading(limit))
        chain.add(symbol, "small ridge", value, "the ridge vanishes where df is min(1, c)", proved(leading))
        label = name.replace("_", r"\_")
        rows.append(Quantity(symbol, rf"\mathtt{{{label}}}", meaning))
