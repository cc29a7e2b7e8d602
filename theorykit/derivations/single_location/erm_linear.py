r"""The sample problem of linear attention: its dual, concave in one variable, at any number of tokens.

Setting: :mod:`theorykit.derivations.single_location.erm` with weights s_l = 1 + chi_l. The residual r = y - s.z is made
a variable; at given r the fields separate into tokens, each a quadratic problem with curvature 1 - V_k V_v r^2 > 0.
Result: the dual function of r in three sums over tokens, A = |s_0|^2, B = |omega_v|^2, C = s_0.omega_v with
s_0 = 1 + omega_k. It is concave for |r| < (V_k V_v)^(-1/2); a feasible stationary point certifies that the
sample problem is solved globally, so that there are no jumps. arXiv 2509.21936 for the model; the dual is ours.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.ledger import Definition, Derivation, Equations, Quantity, Step, verified
from theorykit.derivations.minimum import minimum, numerically
from theorykit.derivations.replica import over_tokens
from theorykit.derivations.single_location.erm_symbols import KEY, LABEL, VALUE
from theorykit.derivations.single_location.symbols import LENGTH, PAPER
from theorykit.derivations.tensor import expand_sums

__all__ = ["SUMS", "derive_erm_linear"]

#: Sums over tokens: |s_0|^2, |omega_v|^2, s_0.omega_v.
SUMS = sp.symbols("A B C", real=True)
RESIDUAL = sp.Symbol("r", real=True)
DUAL, TOKEN = sp.Symbol("dual", real=True), sp.Symbol("token_dual", real=True)
_S0, _W = sp.symbols("s_0 omega_v", real=True)
_POINT = {"L": 2, "r": "0.4", "V_k": "0.7", "V_v": "0.9", "s_0": "0.8", "omega_v": "-0.6", "label": "0.5"}


def derive_erm_linear() -> Derivation:
    """Observables: ``dual`` in r, label, V_k, V_v and the sums; ``token_dual``, what one token adds to it."""
    s, z = sp.symbols("s z", real=True)
    token = -RESIDUAL * s * z + (s - _S0) ** 2 / (2 * KEY.V) + (z - _W) ** 2 / (2 * VALUE.V)
    closed = _at_stationary_point(token, s, z)
    fields, values = sp.IndexedBase("s_0"), sp.IndexedBase("omega_v")
    total = over_tokens(lambda i: closed.xreplace({_S0: fields[i], _W: values[i]}), LENGTH)
    free = RESIDUAL * LABEL - RESIDUAL**2 / 2
    A, B, C = SUMS
    by_powers = sp.Poly(sp.expand(closed * (1 - KEY.V * VALUE.V * RESIDUAL**2)), _S0, _W)
    powers = {(2, 0): A, (0, 2): B, (1, 1): C}
    in_sums = sp.Add(*[c * powers[p] for p, c in by_powers.terms()]) / (1 - KEY.V * VALUE.V * RESIDUAL**2)
    sums = {
        A: over_tokens(lambda i: fields[i] ** 2, LENGTH),
        B: over_tokens(lambda i: values[i] ** 2, LENGTH),
        C: over_tokens(lambda i: fields[i] * values[i], LENGTH),
    }
    numbers = {fields[1]: "0.8", fields[2]: "-0.3", values[1]: "-0.6", values[2]: "0.5"}

    def concrete(expression: sp.Expr, length: int) -> sp.Expr:
        opened = expand_sums(expression.xreplace(sums), LENGTH, length)
        return opened.xreplace({place: sp.Rational(number) for place, number in numbers.items()})

    precise = {"left": "mp-trapezoid", "right": "mp-quad"}
    steps = (
        Step("least over the fields of a token", minimum(token, (s, z)), closed, (TOKEN.name,),
             "a quadratic function, convex because V_k V_v r^2 < 1",
             verified(_POINT, digits=25, concrete=numerically(_POINT), **precise)),
        Step("sums over tokens", free + total, free + in_sums, (DUAL.name, "least over the fields of a token"),
             "linearity in |s_0|^2, |omega_v|^2 and s_0.omega_v of each token",
             verified(_POINT, digits=25, concrete=concrete, **precise)),
    )  # fmt: skip
    definitions = (
        Definition(TOKEN, minimum(token, (s, z)), "least of the Lagrangian over the fields of one token"),
        Definition(DUAL, free + total, "Lagrange dual of r = y - s.z: r y - r^2/2 plus the tokens"),
    )
    record = Equations(
        "single_location.erm_linear",
        (
            Quantity(RESIDUAL, "r", "residual of the label", "|r| < (V_k V_v)^(-1/2)"),
            Quantity(LABEL, "y", "label"),
            Quantity(A, "A", "sum of s_0^2 over the tokens"),
            Quantity(B, "B", "sum of omega_v^2"),
            Quantity(C, "C", "sum of s_0 omega_v"),
            Quantity(_S0, "s_0", "weight of a token at the field without the sample"),
            Quantity(_W, r"\omega_v", "value field of a token without the sample"),
            Quantity(DUAL, r"\mathcal D", "dual function of the sample problem"),
            Quantity(TOKEN, r"\delta", "what a token adds to it"),
            *[row for a in (KEY, VALUE) for row in a.rows() if row.symbol == a.V],
        ),
        {},
        {DUAL.name: free + in_sums, TOKEN.name: closed},
    )
    return Derivation(
        record.name, "Dual of the sample problem of linear attention", PAPER, definitions, steps, record
    )  # fmt: skip


def _at_stationary_point(objective: sp.Expr, *variables: sp.Symbol) -> sp.Expr:
    """A quadratic function where its slopes vanish."""
    (point,) = sp.linsolve([sp.diff(objective, v) for v in variables], variables)
    return sp.factor(objective.xreplace(dict(zip(variables, point, strict=True))))
