r"""Newton's method on the sample problem of trained attention, in time proportional to the number of tokens.

Setting: :mod:`theorykit.derivations.single_location.erm`. After the value field is minimized out, the energy of a
sample sees the L key fields through sums S_j = sum_l s_j(chi_l, omega_v[l]) alone, beside a parabola of each field.
With G the gradient and GG the second derivatives of the energy in the sums, and of a token u = ds/dchi,
c = d^2s/dchi^2, a = ds/domega_v, b = d^2s/dchi domega_v:

* the Hessian is diagonal plus low rank, d_l on the diagonal plus u_l.GG u_m;
* eliminating a token leaves a Hessian of the same form, whose low-rank part M changes by a term of rank one: a
  factorization into pivots p_l and multipliers, O(L) for all tokens, with a negative pivot if and only if the
  Hessian is not positive definite (Sylvester); no inverse of GG or of the diagonal is taken;
* the derivatives of the responses f_k, f_v in the fields follow from the inverse Z of the Hessian (implicit functions).

The statistics are linear in omega_v. Steps are checked on polynomials of generic coefficients.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.ledger import Check, Derivation, Equations, Quantity, verified
from theorykit.derivations.proximal import AtProximal, solve_quadratic
from theorykit.derivations.single_location.erm_symbols import KEY
from theorykit.derivations.single_location.symbols import PAPER

__all__ = ["derive_erm_newton", "low_rank", "per_token"]

ENERGY = sp.Function("energy")
CHI, OTHER_CHI, OMEGA, VALUE, OTHER_VALUE = sp.symbols("chi chi_other omega_k omega_v omega_other", real=True)
DIAGONAL, PIVOT = sp.symbols("d p", real=True)
INVERSE, UNIT, MOVED, INDUCED, BOTH = sp.symbols("z unit moved induced both", real=True)
_LATEX = {
    "u": "u", "c": "c", "a": "a", "b": "b", "u_other": "u'", "a_other": "a'", "w": "w", "w_other": "w'",
    "rest": r"\bar S", "G": "G",
}  # fmt: skip


def per_token(stem: str, count: int) -> tuple[sp.Symbol, ...]:
    """One symbol for each statistic: ``G``; ``u``, ``c``, ``a``, ``b``, ``w`` of a token; ``u_other`` of another."""
    return sp.symbols(f"{stem}_:{count}", real=True)


def low_rank(stem: str, count: int) -> sp.Matrix:
    """A symmetric matrix over the statistics, ``GG`` or ``M``."""
    return sp.Matrix(count, count, lambda i, j: sp.Symbol(f"{stem}_{min(i, j)}{max(i, j)}", real=True))


def derive_erm_newton(count: int = 3) -> Derivation:
    """The Hessian of a sample problem with ``count`` statistics, its factorization, derivatives of the responses.

    Observables, with the symbols of :func:`per_token` and :func:`low_rank`: ``response_k``, ``diagonal``;
    ``projection_j``, ``pivot``, ``multiplier``, ``remainder_ij`` of one elimination; ``mixed_own``, ``mixed_coupling``,
    ``value_coupling``; ``key_slope``, ``cross_slope``, ``value_slope``, the derivatives of the responses.
    """
    if count not in (1, 2, 3):
        raise ValueError(f"count must be 1, 2 or 3, got {count!r}")
    chain = Chain()
    _derivatives(chain, count)
    _elimination(chain, count)
    _implicit(chain)
    observables = {str(s): e for s, e in chain.results.items() if str(s) not in _INTERMEDIATE}
    record = Equations("single_location.erm_newton", _rows(count, observables), {}, observables)
    return Derivation(
        record.name, "Newton's method on sums over tokens", PAPER, tuple(chain.definitions), tuple(chain.steps), record
    )  # fmt: skip


_INTERMEDIATE = ("key_coupling",)


def _dot(first: tuple[sp.Symbol, ...], second: tuple[sp.Symbol, ...]) -> sp.Expr:
    return sp.Add(*[x * y for x, y in zip(first, second, strict=True)])


def _form(left: tuple[sp.Symbol, ...], matrix: sp.Matrix, right: tuple[sp.Symbol, ...]) -> sp.Expr:
    """left.matrix right, written out."""
    pairs = [(i, j) for i in range(len(left)) for j in range(len(right))]
    return sp.Add(*[left[i] * matrix[i, j] * right[j] for i, j in pairs])


# --------------------------------------------------------------------------- derivatives of the energy


def _statistics(count: int) -> list[sp.Function]:
    return [sp.Function(f"s_{j}") for j in range(count)]


def _sums(count: int) -> list[sp.Expr]:
    """The sums over tokens, two of them written out."""
    rest = per_token("rest", count)
    return [
        r + s(CHI, VALUE) + s(OTHER_CHI, OTHER_VALUE) for r, s in zip(rest, _statistics(count), strict=True)
    ]


def _derivatives(chain: Chain, count: int) -> None:
    """Chain rule: the energy sees the fields through the sums, the penalty one field at a time."""
    energy = ENERGY(*_sums(count))
    G, GG = per_token("G", count), low_rank("GG", count)
    u, c, a, b = (per_token(n, count) for n in "ucab")
    u_other, a_other = per_token("u_other", count), per_token("a_other", count)
    check = _chain_rule_check(count)
    penalty = KEY.penalty(sp.S.One, OMEGA).xreplace({KEY.field[1]: CHI})

    def slope(*variables: sp.Symbol) -> sp.Expr:
        return sp.Derivative(energy, *variables, evaluate=False)

    entries = (
        ("response_k", -slope(CHI), -_dot(G, u), "response of the key field: minus the slope of the energy"),
        ("key_coupling", slope(CHI, OTHER_CHI), _form(u, GG, u_other), "entry of the Hessian for two tokens"),
        ("diagonal", sp.Derivative(energy + penalty, CHI, CHI, evaluate=False) - _form(u, GG, u),
         1 / KEY.V + _dot(G, c), "what the Hessian has on its diagonal beside the coupling of a token with itself"),
        ("mixed_coupling", slope(CHI, OTHER_VALUE), _form(u, GG, a_other),
         "second derivative in the key field of a token and the value field of another"),
        ("mixed_own", slope(CHI, VALUE) - _form(u, GG, a), _dot(G, b),
         "the same for one token, beside the coupling of the token with itself"),
        ("value_coupling", slope(VALUE, OTHER_VALUE), _form(a, GG, a_other),
         "second derivative in two value fields; the statistics are linear in them"),
    )  # fmt: skip
    for name, definition, result, meaning in entries:
        symbol = sp.Symbol(name, real=True)
        chain.define(symbol, definition, meaning)
        chain.add(symbol, "chain rule", result, "the energy depends on the fields through the sums", check)


def _chain_rule_check(count: int) -> Check:
    """Energy and statistics are polynomials of generic coefficients, derivatives are taken of the whole."""
    S = per_token("_S", count)
    example = sp.Add(
        *[(S[i] * S[j]) / (2 + i + 3 * j) for i in range(count) for j in range(i, count)],
        *[s**3 / (11 + i) for i, s in enumerate(S)],
    )
    tokens = [
        CHI**2 / 3 + CHI + CHI**2 * VALUE / 4,
        VALUE * (CHI + CHI**3 / 5),
        CHI**3 / 2 + VALUE * CHI / 6 + CHI**2,
    ]
    tokens = tokens[:count]
    rest = dict(zip(per_token("rest", count), sp.Matrix([3, 5, 7]) / 10, strict=False))
    to_other = {CHI: OTHER_CHI, VALUE: OTHER_VALUE}
    at = {s: r + t + t.xreplace(to_other) for s, r, t in zip(S, rest.values(), tokens, strict=True)}
    places: dict[sp.Expr, sp.Expr] = {}
    for j, token in enumerate(tokens):
        places[per_token("G", count)[j]] = sp.diff(example, S[j]).xreplace(at)
        for stem, variables in (("u", [CHI]), ("c", [CHI, CHI]), ("a", [VALUE]), ("b", [CHI, VALUE])):
            places[per_token(stem, count)[j]] = sp.diff(token, *variables)
        for stem, variables in (("u_other", [CHI]), ("a_other", [VALUE])):
            places[per_token(stem, count)[j]] = sp.diff(token, *variables).xreplace(to_other)
        for i in range(count):
            places[low_rank("GG", count)[i, j]] = sp.diff(example, S[i], S[j]).xreplace(at)

    def concrete(expression: sp.Expr, length: int) -> sp.Expr:
        opened = expression.replace(ENERGY, lambda *sums: example.xreplace(dict(zip(S, sums, strict=True))))
        for function, token in zip(_statistics(count), tokens, strict=True):
            opened = opened.replace(function, lambda x, w, t=token: t.xreplace({CHI: x, VALUE: w}))
        return opened.doit().xreplace(places).xreplace(rest)

    point = {"L": 2, "chi": "0.4", "chi_other": "-0.7", "omega_v": "0.8", "omega_other": "0.3", "omega_k": "0.2",
             "V_k": "0.9"}  # fmt: skip
    return verified(point, digits=25, left="mp-trapezoid", right="mp-quad", concrete=concrete)


# --------------------------------------------------------------------------- elimination of one token


def _elimination(chain: Chain, count: int) -> None:
    """Gauss's elimination of a token: pivot, multipliers, and the low-rank part of what is left."""
    M = low_rank("M", count)
    u, left, right = (per_token(n, count) for n in ("u", "u_other", "u_third"))
    w, w_other = per_token("w", count), per_token("w_other", count)
    first = DIAGONAL + _form(u, M, u)
    schur = _form(left, M, right) - _form(left, M, u) * _form(u, M, right) / first
    numbers = {s: sp.Rational(3 + 2 * i + 7 * j, 10 + i) for j, n in enumerate(("u", "u_other", "u_third"))
               for i, s in enumerate(per_token(n, count))}  # fmt: skip
    numbers |= {M[i, j]: sp.Rational(7 - 2 * i - 3 * j, 9) for i in range(count) for j in range(i, count)}
    eliminated = {s: sp.Add(*[M[i, j] * u[j] for j in range(count)]) for i, s in enumerate(w)}
    eliminated |= {s: e for s, e in zip(w_other, eliminated.values(), strict=True)}
    eliminated[PIVOT] = first

    def concrete(expression: sp.Expr, length: int) -> sp.Expr:
        return expression.doit().xreplace(eliminated).xreplace(numbers)

    check = verified({"L": 2, "d": "1.3"}, digits=25, left="mp-trapezoid", right="mp-quad", concrete=concrete)
    projected = []
    for i in range(count):
        projected.append(sp.Symbol(f"projection_{i}", real=True))
        chain.define(projected[i], sp.Derivative(_form(left, M, u), left[i], evaluate=False),
                     "coupling to the token that is eliminated, per slope of a statistic")  # fmt: skip
        chain.add(projected[i], "bilinear form", sp.Add(*[M[i, j] * u[j] for j in range(count)]),
                  "linearity", check)  # fmt: skip
    pivot, multiplier = sp.symbols("pivot multiplier", real=True)
    chain.define(pivot, first, "entry of the token on the diagonal")
    chain.add(pivot, "elimination", DIAGONAL + _dot(u, w), "w = M u", check, also=tuple(projected))
    chain.define(
        multiplier,
        _form(left, M, u) / first,
        "multiple of the row that is subtracted from that of another token",
    )
    chain.add(multiplier, "elimination", _dot(left, w) / PIVOT, "w = M u", check, also=(*projected, pivot))
    for i in range(count):
        for j in range(i, count):
            symbol = sp.Symbol(f"remainder_{i}{j}", real=True)
            chain.define(symbol, sp.Derivative(schur, left[i], right[j], evaluate=False),
                         "low-rank part of what the elimination leaves (Schur complement)")  # fmt: skip
            chain.add(symbol, "elimination", M[i, j] - w[i] * w[j] / PIVOT, "a term of rank one is subtracted",
                      check, also=(*projected, pivot))  # fmt: skip


# --------------------------------------------------------------------------- derivatives of the responses

_X, _V = KEY.field, sp.IndexedBase("omega_v")
_K = sp.IndexedBase("omega_k")
_SAMPLE = sp.Function("sample")


def _implicit(chain: Chain) -> None:
    """The minimizer moves so that the slopes stay zero; two tokens stand for all."""
    energy = _SAMPLE(_X[1], _X[2], _V[1], _V[2])
    penalty = sp.Add(*[KEY.penalty(sp.Integer(i), _K[i]) for i in (1, 2)])

    def at_minimum(quantity: sp.Expr, variable: sp.Expr) -> sp.Expr:
        return sp.Derivative(AtProximal(quantity, energy, penalty, [_X]), variable, evaluate=False)

    key = (_X[1] - _K[1]) / KEY.V
    value = -sp.Derivative(energy, _V[1], evaluate=False)
    entries = (
        ("key_slope", at_minimum(key, _K[1]), (INVERSE / KEY.V - UNIT) / KEY.V,
         "derivative of f_k of a token in the key field of one; unit: 1 for the same token, else 0"),
        ("cross_slope", at_minimum(key, _V[2]), -MOVED / KEY.V,
         "derivative of f_k of a token in a value field; moved: Z times the mixed second derivatives"),
        ("value_slope", at_minimum(value, _V[2]), INDUCED - BOTH,
         "derivative of f_v of a token in a value field; both: value_coupling, induced: the mixed second derivatives,"
         " transposed, times moved"),
    )  # fmt: skip
    check = verified(
        {"L": 2, "V_k": "0.9"}, digits=25, left="mp-trapezoid", right="mp-quad", concrete=_parabola
    )
    for name, definition, result, meaning in entries:
        symbol = sp.Symbol(name, real=True)
        chain.define(symbol, definition, meaning)
        chain.add(
            symbol,
            "implicit functions",
            result,
            "the slopes of the objective stay zero at the minimizer",
            check,
        )


def _parabola(expression: sp.Expr, length: int) -> sp.Expr:
    """A quadratic energy with generic coefficients: its minimizer is explicit, and so is the inverse Hessian."""
    x, w = [_X[1], _X[2]], [_V[1], _V[2]]
    n = sp.Rational
    energy = (
        n(2, 3) * x[0] ** 2 + n(1, 2) * x[0] * x[1] + n(3, 4) * x[1] ** 2 + w[0] * x[0] / 2 - w[0] * x[1] / 3
        + n(2, 5) * w[1] * x[0] + n(1, 7) * w[1] * x[1] + w[0] * w[1] / 4 + w[0] ** 2 / 3 + w[1] ** 2 / 5 + x[0] / 6
    )  # fmt: skip
    hessian = sp.Matrix(2, 2, lambda i, j: sp.diff(energy, x[i], x[j])) + sp.eye(2) / KEY.V
    mixed = sp.Matrix(2, 2, lambda i, j: sp.diff(energy, x[i], w[j]))
    inverse = hessian.inv()
    moved = inverse * mixed
    induced = mixed.T * moved
    places = {INVERSE: inverse[0, 0], UNIT: sp.Integer(1), MOVED: moved[0, 1], INDUCED: induced[0, 1],
              BOTH: sp.diff(energy, w[0], w[1])}  # fmt: skip

    def solved(node: AtProximal) -> sp.Expr:
        return solve_quadratic(AtProximal(node.quantity.doit(), node.loss, node.penalty, node.variables))

    opened = expression.replace(_SAMPLE, lambda *_: energy)
    opened = opened.replace(lambda e: isinstance(e, AtProximal), solved).doit().xreplace(places)
    numbers = {_K[1]: n(1, 5), _K[2]: n(-3, 10), _V[1]: n(7, 10), _V[2]: n(2, 5)}
    return opened.xreplace(numbers)


# --------------------------------------------------------------------------- symbols


def _rows(count: int, observables: dict[str, sp.Expr]) -> tuple[Quantity, ...]:
    meanings = {
        "G": "slope of the energy in a sum", "u": "slope of a statistic of a token in its key field",
        "c": "its second derivative", "a": "slope in the value field", "b": "mixed second derivative",
        "u_other": "the slope for another token", "a_other": "the slope for another token",
        "w": "M u for the token that is eliminated",
    }  # fmt: skip
    rows = [
        Quantity(s, f"{_LATEX[stem]}_{{{j}}}", meaning)
        for stem, meaning in meanings.items()
        for j, s in enumerate(per_token(stem, count))
    ]
    for stem, latex, meaning in (
        ("GG", r"\mathsf{G}", "second derivative of the energy in two sums"),
        ("M", "M", "low-rank part of the Hessian of the tokens that are left"),
    ):
        rows += [
            Quantity(low_rank(stem, count)[i, j], f"{latex}_{{{i}{j}}}", meaning)
            for i in range(count)
            for j in range(i, count)
        ]
    rows += [
        *[r for r in KEY.rows() if r.symbol == KEY.V],
        Quantity(DIAGONAL, "d", "diagonal part of the Hessian for a token"),
        Quantity(PIVOT, "p", "pivot of the token that is eliminated"),
        Quantity(INVERSE, "Z", "entry of the inverse of the Hessian"),
        Quantity(UNIT, r"\delta", "1 for a token with itself, else 0"),
        Quantity(MOVED, "Y", "entry of the inverse times the mixed second derivatives"),
        Quantity(INDUCED, "T", "entry of the mixed second derivatives, transposed, times Y"),
        Quantity(BOTH, "K", "second derivative of the energy in two value fields"),
    ]
    used = set().union(*[e.free_symbols for e in observables.values()])
    results = [_result(name) for name in observables]
    return (*[r for r in rows if r.symbol in used], *results)


#: Results by the name without the positions behind it: how they are written, and what they are.
_RESULTS = {
    "response_k": ("r_k", "response of the key field of a token"),
    "diagonal": (r"\Lambda", "diagonal part of the Hessian"),
    "projection": ("g", "coupling to the token that is eliminated"),
    "pivot": (r"\Pi", "entry of the token on the diagonal"),
    "multiplier": (r"\lambda", "multiple of its row that is subtracted from another"),
    "remainder": ("M'", "low-rank part after the elimination"),
    "mixed_own": ("b", "mixed second derivative of a token beside the coupling"),
    "mixed_coupling": ("B", "mixed second derivative of two tokens"),
    "value_coupling": ("C", "second derivative in two value fields"),
    "key_slope": (r"\partial_{\omega_k}f_k", "derivative of f_k in a key field"),
    "cross_slope": (r"\partial_{\omega_v}f_k", "derivative of f_k in a value field"),
    "value_slope": (r"\partial_{\omega_v}f_v", "derivative of f_v in a value field"),
}


def _result(name: str) -> Quantity:
    stem = name.rstrip("0123456789").rstrip("_")
    latex, meaning = _RESULTS[stem]
    positions = name.removeprefix(stem).lstrip("_")
    return Quantity(sp.Symbol(name, real=True), f"{latex}_{{{positions}}}" if positions else latex, meaning)
