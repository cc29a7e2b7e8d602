r"""Where the opposed direction -xi becomes stable, and where it becomes the global maximum.

Setting: the limit of many tokens. -xi attracts iff the factor h of the slope is negative at rho = -1. With the masses
w, 1 - w there and pi eliminated by logit pi = logit w + beta theta, h(-1) is a quadratic in w,

    h(-1) = 1 - (1 - w)(a + b w),   a = beta theta + K (1 - e^(-beta theta)),
                                    b = -theta^2 + K (e^(beta theta) - 2 + e^(-beta theta)),   K = kappa e^(beta^2).

If a > 1 it is negative below exactly one mass w*, so that -xi is stable iff pi < pi_c; if a <= 1 it is negative
nowhere, or between two masses (only if kappa > 0). At kappa = 0 the separatrix is at rho_c = -beta_c/beta with
beta_c = theta w_c + 1/(theta (1 - w_c)), where w_c depends on theta and pi only; kappa_c is linear in h(-1).
"""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.ledger import Check, Derivation, Limit, Quantity, verified
from theorykit.derivations.signal_recovery.fixed_points import BALANCE, SEPARATRIX, SHIFT, add_balance
from theorykit.derivations.signal_recovery.limit import OBJECTIVE, SLOPE, take_from_limit
from theorykit.derivations.signal_recovery.symbols import (
    BETA,
    FRACTION,
    KAPPA,
    MASS,
    NOISE_MASS,
    POINTS,
    REST,
    RHO,
    THETA,
    along_rho,
    conclude,
    declare,
    masses,
)

__all__ = ["derive_global_maximum", "derive_thresholds"]

OPPOSED = sp.Symbol("opposed_force", real=True)
QUADRATIC = sp.Symbol("opposed_quadratic", real=True)
A, B = sp.Symbol("a", positive=True), sp.Symbol("b", real=True)
DISCRIMINANT = sp.Symbol("discriminant", real=True)
UPPER_MASS, UPPER_NOISE = sp.Symbol("w_upper", positive=True), sp.Symbol("v_upper", positive=True)
LOWER_MASS, LOWER_NOISE = sp.Symbol("w_lower", positive=True), sp.Symbol("v_lower", positive=True)
LOGIT_UPPER, LOGIT_LOWER = sp.Symbol("logit_upper", real=True), sp.Symbol("logit_lower", real=True)
CRITICAL, CRITICAL_LOWER = sp.Symbol("fraction_c", positive=True), sp.Symbol("fraction_low", positive=True)
BETA_C = sp.Symbol("beta_c", positive=True)
KAPPA_C = sp.Symbol("kappa_c", real=True)
KAPPA_GLOBAL = sp.Symbol("kappa_global", real=True)

_ROWS = declare(
    Quantity(OPPOSED, r"h_{-1}", "factor of the slope at -xi, negative where -xi is stable"),
    Quantity(QUADRATIC, r"h^*_{-1}", "the same factor as a quadratic in the mass"),
    Quantity(A, "a", "constant coefficient of the quadratic in the mass at -xi"),
    Quantity(B, "b", "linear coefficient of the quadratic in the mass at -xi"),
    Quantity(DISCRIMINANT, "D", "discriminant of the quadratic"),
    Quantity(UPPER_MASS, "w^*", "larger critical mass at -xi", "(0, 1)"),
    Quantity(UPPER_NOISE, r"\bar w^*", "its complement", "(0, 1)"),
    Quantity(LOWER_MASS, "w_*", "smaller critical mass at -xi", "(0, 1)"),
    Quantity(LOWER_NOISE, r"\bar w_*", "its complement", "(0, 1)"),
    Quantity(LOGIT_UPPER, r"\ell^*", "logit of the critical fraction"),
    Quantity(LOGIT_LOWER, r"\ell_*", "logit of the smaller critical fraction"),
    Quantity(CRITICAL, r"\pi_c", "fraction below which -xi is stable", "(0, 1)"),
    Quantity(CRITICAL_LOWER, r"\pi_*", "fraction above which -xi is stable, if a <= 1", "(0, 1)"),
    Quantity(BETA_C, r"\beta_c", "inverse temperature above which -xi is stable, fixed dimension"),
    Quantity(KAPPA_C, r"\kappa_c", "dimensions per token above which -xi is stable"),
    Quantity(KAPPA_GLOBAL, r"\kappa_g", "dimensions per token above which -xi is the global maximum"),
)
_POINTS = (
    {**POINTS[0], "beta": "1.4", "kappa": "0.2", "x": "-1.7"},
    {**POINTS[1], "beta": "0.9", "kappa": "0.8", "x": "0.4"},
)
_COEFFICIENTS = (
    {"a": "1.7", "b": "-0.8", "L": 1},
    {"a": "1.2", "b": "2.5", "L": 1},
    {"a": "2", "b": "-5", "L": 1},
)


def derive_thresholds(proportional: bool = True) -> Derivation:
    """Observables: the factor h(-1), the critical fractions through their logits, beta_c and kappa_c."""
    kappa = KAPPA if proportional else sp.Integer(0)
    chain = Chain()
    take_from_limit(chain, proportional, OBJECTIVE, SLOPE)
    _add_opposed(chain, kappa)
    _add_fractions(chain, kappa)
    shown = [OPPOSED, DISCRIMINANT, LOGIT_UPPER, LOGIT_LOWER, CRITICAL, CRITICAL_LOWER]
    if proportional:
        _add_kappa(chain)
        shown.append(KAPPA_C)
    else:
        _add_beta(chain)
        shown.append(BETA_C)
    inner = (A, B, UPPER_MASS, UPPER_NOISE, LOWER_MASS, LOWER_NOISE)
    within = (DISCRIMINANT, *inner, LOGIT_UPPER, LOGIT_LOWER)
    title = "Stability of the opposed direction"
    return conclude(
        chain, "thresholds", title, (*shown, A, B), within, proportional, limits=_limits(proportional)
    )


def _check() -> Check:
    return verified(*_POINTS, digits=30, left="mp-trapezoid", right="mp-quad")


def _add_opposed(chain: Chain, kappa: sp.Expr) -> None:
    """h(-1) in the masses there, as a quadratic in the mass, and the coefficients of the quadratic."""
    at_pole = {s: e.xreplace({RHO: sp.Integer(-1)}) for s, e in masses().items()}
    w, v = at_pole[MASS], at_pole[NOISE_MASS]
    force = along_rho(chain.results[OBJECTIVE]) / (2 * BETA * THETA * MASS)
    force = force.xreplace({RHO: sp.Integer(-1)}).xreplace(at_pole)
    chain.define(OPPOSED, force, "J'/(2 beta theta w) at rho = -1, the masses written out")
    excess = kappa * sp.exp(BETA**2) * v * sp.tanh(BETA * THETA / 2) * (w / FRACTION + v / REST)
    chain.add(
        OPPOSED,
        "in the masses at -xi",
        1 + THETA * v * (THETA * w - BETA) - excess,
        "common factors",
        _check(),
    )
    growth = sp.exp(BETA * THETA)
    a = BETA * THETA + kappa * sp.exp(BETA**2) * (1 - 1 / growth)
    b = -(THETA**2) + kappa * sp.exp(BETA**2) * (growth - 2 + 1 / growth)
    chain.define(QUADRATIC, force, "the same factor")
    chain.add(QUADRATIC, "quadratic in the mass", 1 - v * (a + b * w),
              "pi eliminated by w/pi = w + (1 - w) e^(-beta theta), (1 - w)/(1 - pi) = w e^(beta theta) + 1 - w",
              _check(), also=(SLOPE,))  # fmt: skip
    for symbol, remainder, form in ((A, (1 - force) / v - b * w, a), (B, ((1 - force) / v - a) / w, b)):
        chain.define(symbol, remainder, f"{_ROWS[symbol].meaning}, from (1 - h)/(1 - w) = a + b w")
        chain.add(symbol, "free of the mass", form, "the quadratic inserted", _check(), also=(QUADRATIC,))


def _add_fractions(chain: Chain, kappa: sp.Expr) -> None:
    """Both roots of 1 - (1 - w)(a + b w), each with its complement in forms that do not cancel, and their logits."""
    square = sp.expand((A + B) ** 2 - 4 * B)
    chain.define(DISCRIMINANT, square, "discriminant of b v^2 - (a + b) v + 1, v = 1 - w")
    # at fixed dimension a + b = theta (beta - theta) and D = theta^2 [(beta - theta)^2 + 4]
    chain.add(DISCRIMINANT, "completed square", (A + B) ** 2 - 4 * B, "collected", _coefficients())
    root = sp.sqrt(DISCRIMINANT)
    total, gap = A + B, B - A
    forms = {
        UPPER_NOISE: ((total - root) / (2 * B), 2 / (total + root), total),
        UPPER_MASS: ((gap + root) / (2 * B), 2 * (A - 1) / (root - gap), -gap),
        LOWER_NOISE: ((total + root) / (2 * B), 2 / (total - root), -total),
        LOWER_MASS: ((gap - root) / (2 * B), 2 * (1 - A) / (gap + root), gap),
    }
    for symbol, (plain, rationalized, sign) in forms.items():
        chain.define(symbol, plain, _ROWS[symbol].meaning + ", a root of the quadratic")
        stable = sp.Piecewise((rationalized, sign > 0), (plain, True))
        chain.add(symbol, "without cancellation", stable, "numerator and denominator times the conjugate where both "
                  "terms of the numerator have opposite signs", _coefficients(), also=(DISCRIMINANT,))  # fmt: skip
    _add_logits(chain)


def _add_logits(chain: Chain) -> None:
    """The fractions at which the mass at -xi is critical, and their logits."""
    point = {
        "theta": "1.1",
        "beta": "0.7",
        "w_upper": "0.3",
        "v_upper": "0.7",
        "w_lower": "0.2",
        "v_lower": "0.8",
    }
    for symbol, fraction, mass, noise in (
        (LOGIT_UPPER, CRITICAL, UPPER_MASS, UPPER_NOISE),
        (LOGIT_LOWER, CRITICAL_LOWER, LOWER_MASS, LOWER_NOISE),
    ):
        odds = mass / noise * sp.exp(BETA * THETA)
        chain.define(symbol, sp.log(odds), "logit of the fraction at which the mass at -xi is critical")
        chain.add(symbol, "logit shifted by beta theta", sp.log(mass) - sp.log(noise) + BETA * THETA,
                  "logit w = logit pi - beta theta at -xi", _coefficients(**point), also=(mass, noise))  # fmt: skip
        chain.define(fraction, odds / (1 + odds), "the fraction with these odds")
        chain.add(fraction, "logistic function", 1 / (1 + sp.exp(-symbol)), "of its logit",
                  _coefficients({symbol: sp.log(odds)}, **point), also=(symbol,))  # fmt: skip


def _coefficients(further: Mapping[sp.Expr, sp.Expr] | None = None, **values: object) -> Check:
    def concrete(expression: sp.Expr, _: int) -> sp.Expr:
        return expression.xreplace({DISCRIMINANT: (A + B) ** 2 - 4 * B, **(further or {})})

    points = [{**point, **values} for point in _COEFFICIENTS]
    return verified(*points, digits=30, left="mp-trapezoid", right="mp-quad", concrete=concrete)


def _add_beta(chain: Chain) -> None:
    """-beta rho_c, plus the balance over theta, which vanishes at the root: free of beta."""
    points = Chain()
    take_from_limit(points, False, SLOPE)
    add_balance(points, sp.Integer(0))
    for symbol, meaning in ((SEPARATRIX, "alignment at the shift x"), (BALANCE, "balance at the shift x")):
        chain.define(symbol, points.results[symbol], f"{meaning}, from the derivation of the fixed points")
    distance = -BETA * chain.results[SEPARATRIX] + chain.results[BALANCE] / THETA
    chain.define(BETA_C, distance, "-beta rho_c at the root x of the balance (which is zero there)")
    odds = FRACTION / REST * sp.exp(SHIFT)
    chain.add(BETA_C, "balance inserted", THETA / (1 + 1 / odds) + (1 + odds) / THETA,
              "-x = theta^2 w + 1/(1 - w)", _check(), also=(BALANCE, SEPARATRIX))  # fmt: skip


def _add_kappa(chain: Chain) -> None:
    """h(-1) is linear in kappa."""
    at_pole = {s: e.xreplace({RHO: sp.Integer(-1)}) for s, e in masses().items()}
    quadratic = chain.results[QUADRATIC]
    found = -quadratic.subs(KAPPA, 0) / sp.diff(quadratic, KAPPA)
    chain.define(KAPPA_C, found, "the kappa at which h(-1), which is linear in kappa, vanishes")
    w, v = at_pole[MASS], at_pole[NOISE_MASS]
    bare = 1 + THETA * v * (THETA * w - BETA)
    excess = sp.exp(BETA**2) * v * sp.tanh(BETA * THETA / 2) * (w / FRACTION + v / REST)
    chain.add(KAPPA_C, "in the masses at -xi", bare / excess, "h(-1) at kappa = 0 over minus its slope in kappa",
              _check(), also=(QUADRATIC,))  # fmt: skip


def derive_global_maximum() -> Derivation:
    """Observable "kappa_global": where J(1) = J(-1); meaningful for pi > 1/2 only."""
    chain = Chain()
    take_from_limit(chain, True, OBJECTIVE)
    objective = chain.results[OBJECTIVE]
    poles = {
        sign: objective.xreplace(
            {s: e.xreplace({RHO: sp.Integer(sign)}) for s, e in masses().items()}
        ).xreplace({RHO: sp.Integer(sign)})
        for sign in (1, -1)
    }
    ahead = poles[1] - poles[-1]
    chain.define(KAPPA_GLOBAL, -ahead.subs(KAPPA, 0) / sp.diff(ahead, KAPPA),
                 "the kappa at which J(1) = J(-1), which are linear in kappa")  # fmt: skip
    up, down = (masses()[MASS].xreplace({RHO: sp.Integer(sign)}) for sign in (1, -1))
    gain = THETA * (up + down) * (2 * BETA + THETA * (up - down))
    decay = sp.exp(-BETA * THETA)
    above, below = FRACTION + REST * decay, FRACTION * decay + REST
    spread = FRACTION * REST * (FRACTION - REST) * (1 - decay) ** 3 * (1 + decay) / (above * below) ** 2
    chain.add(KAPPA_GLOBAL, "factorized", gain / (sp.exp(BETA**2) * spread),
              "both differences between the poles written as products", _check(), also=(OBJECTIVE,))  # fmt: skip
    return conclude(
        chain, "global_maximum", "Which of the two directions is the global maximum", (KAPPA_GLOBAL,)
    )


def _limits(proportional: bool) -> tuple[Limit, ...]:
    point = {"theta": 1, "fraction": 0.5, "noise_fraction": 0.5, "beta": 1, "x": 0}
    if proportional:
        return (Limit("b", {**point, "kappa": 0}, sp.Integer(-1), "-theta^2 at kappa = 0"),)
    return (
        Limit("beta_c", {**point, "theta": 2}, sp.Integer(2), "theta/2 + 2/theta at w = 1/2"),
        Limit("discriminant", point, sp.Integer(4), "theta^2 [(beta - theta)^2 + 4]"),
    )
