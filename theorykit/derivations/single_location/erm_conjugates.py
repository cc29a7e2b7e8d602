"""Conjugates of the order parameters of trained attention, in averages over samples that can be computed.

Gaussian integration by parts leads to two forms with equal averages where the minimizer is a smooth function of the
fields. Part of :mod:`theorykit.derivations.single_location.erm`; responses are abstract here, the steps are checked
with polynomial ones.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from theorykit.derivations.ledger import Definition, Step, verified
from theorykit.derivations.nodes import TokenExpectation
from theorykit.derivations.problem import ALPHA, Problem, over_tokens
from theorykit.derivations.single_location.erm_symbols import (
    KEY,
    MEANS,
    POINT,
    TILT,
    VALUE,
    attention_problem,
)
from theorykit.derivations.single_location.symbols import DELTA, LENGTH, XI
from theorykit.derivations.tensor import expand_sums

__all__ = ["derive_conjugates"]

F_K, F_V = sp.IndexedBase("f_k"), sp.IndexedBase("f_v")  # responses
D_K, D_V = sp.IndexedBase("d_k"), sp.IndexedBase("d_v")  # their derivatives in the field of the same token
SLOPE = sp.IndexedBase("g_prime")  # derivative of log g in z_k[l]


def derive_conjugates(definitions: list[Definition], steps: list[Step]) -> dict[str, sp.Expr]:
    """Conjugates of the order parameters in averages of responses that can be sampled."""
    problem = attention_problem()
    check = verified({**POINT, "L": 2}, digits=8, concrete=_polynomial_responses)

    def average(summand: Callable[[sp.Basic], sp.Expr]) -> sp.Expr:
        return problem.average(over_tokens(summand, LENGTH))

    label = VALUE.truth[1] + DELTA * XI
    variance = 1 - VALUE.m**2 / VALUE.q + DELTA**2
    rest = label - VALUE.m / VALUE.q * VALUE.omega(sp.Integer(1))
    means = {
        "kk": average(lambda i: F_K[i] ** 2),
        "vv": average(lambda i: F_V[i] ** 2),
        "k_noise": average(lambda i: F_K[i] * KEY.noise[i]),
        "k_truth": average(lambda i: F_K[i] * KEY.truth[i]),
        "k_slope": average(lambda i: F_K[i] * SLOPE[i]),
        "v_label": problem.average(F_V[1] * rest),
        "v_field": average(lambda i: F_V[i] * VALUE.omega(i)),
        "k_div": average(lambda i: D_K[i]),
        "v_div": average(lambda i: D_V[i]),
    }
    for name, mean in means.items():
        definitions.append(Definition(MEANS[name], mean, "average over the fields of a sample"))
    E = MEANS
    v_label = ALPHA * E["v_label"] / variance
    pull_k = average(lambda i: F_K[i] * (KEY.truth[i] - KEY.m * KEY.noise[i] / KEY.spread))
    pull_v = average(lambda i: F_V[i] * (VALUE.truth[i] - VALUE.m * VALUE.noise[i] / VALUE.spread))
    push_v = average(lambda i: F_V[i] * VALUE.noise[i])
    named = "responses are named f = (x - omega)/V; replica saddle point"
    parts = "Gaussian integration by parts in the noise of the fields"
    entries: tuple[tuple[str, sp.Expr, sp.Expr, str], ...] = (
        ("q_hat_k", ALPHA * means["kk"], ALPHA * E["kk"], named),
        ("q_hat_v", ALPHA * means["vv"], ALPHA * E["vv"], named),
        ("V_hat_k", -ALPHA * means["k_noise"] / KEY.spread, -ALPHA * E["k_noise"] / KEY.spread, named),
        ("V_hat_k_pointwise", -ALPHA * means["k_noise"] / KEY.spread, -ALPHA * E["k_div"], parts),
        ("V_hat_v", -ALPHA * push_v / VALUE.spread, (VALUE.m * v_label - ALPHA * E["v_field"]) / VALUE.q,
         "integration by parts in z_v and its noise: E[f.omega] is a combination of both"),
        ("V_hat_v_pointwise", -ALPHA * push_v / VALUE.spread, -ALPHA * E["v_div"], parts),
        ("m_hat_k", ALPHA * pull_k, ALPHA * E["k_slope"],
         "integration by parts in z_k, on which the tilt depends, and in the noise"),
        ("m_hat_k_infinite", ALPHA * pull_k, ALPHA * E["k_truth"] - ALPHA * KEY.m * E["k_div"],
         "integration by parts in the noise only: no derivative of the tilt"),
        ("m_hat_v", ALPHA * pull_v, v_label, "z_v given label and omega_v of the hidden token is Gaussian"),
        ("m_hat_v_smooth", ALPHA * pull_v,
         ALPHA * (VALUE.m / VALUE.q * E["v_field"] + (1 - VALUE.m**2 / VALUE.q) / variance * E["v_label"])
         - ALPHA * VALUE.m * E["v_div"],
         "z_v given label and omega_v is Gaussian; integration by parts in its noise only"),
    )  # fmt: skip
    found = {}
    for name, definition, result, reason in entries:
        definitions.append(Definition(sp.Symbol(name, real=True), definition, "stationarity of the action"))
        used = tuple(str(s) for s in MEANS.values() if s in result.free_symbols)
        steps.append(Step(f"sampled average ({name})", definition, result, (name, *used), reason, check))
        found[name] = result
    return found


def _polynomial_responses(expression: sp.Expr, length: int) -> sp.Expr:
    """Abstract responses and tilt by polynomials of the fields, so that averages are exact on few nodes."""
    tokens = range(1, length + 1)
    omega_k, omega_v = KEY.omega, VALUE.omega
    y = VALUE.truth[1] + DELTA * XI
    half, third = sp.Rational(1, 2), sp.Rational(1, 3)
    density, slope = sp.symbols("_density _slope", positive=True)  # 1 + z_k[1]/2 and its derivative
    places: dict[sp.Expr, sp.Expr] = {}
    for i in tokens:
        places[F_K[i]] = omega_k(i) + third * y * omega_v(i) + third * omega_k(i) ** 2
        places[D_K[i]] = 1 + 2 * third * omega_k(i)
        places[F_V[i]] = third * omega_v(i) * omega_k(i) + y
        places[D_V[i]] = third * omega_k(i)
        places[SLOPE[i]] = slope / density if i == 1 else sp.Integer(0)

    def averaged(node: TokenExpectation) -> sp.Expr:
        integrand = node.integrand.replace(TILT, lambda _: density).xreplace(places)
        plain = sp.expand(integrand).xreplace({density: 1 + half * KEY.truth[1], slope: half})
        return TokenExpectation(plain, node.families, node.length, node.shared)

    means = {s: e for s, e in _mean_definitions(attention_problem()).items() if s in expression.free_symbols}
    opened = expand_sums(expression.xreplace(means), LENGTH, length)
    return opened.replace(lambda n: isinstance(n, TokenExpectation), averaged)


def _mean_definitions(problem: Problem) -> dict[sp.Symbol, sp.Expr]:
    """The sampled averages written out, for checks."""
    definitions: list[Definition] = []
    if not _KNOWN:
        derive_conjugates(definitions, [])
        _KNOWN.update({d.symbol: d.expression for d in definitions if d.symbol in MEANS.values()})
    return _KNOWN


_KNOWN: dict[sp.Symbol, sp.Expr] = {}
