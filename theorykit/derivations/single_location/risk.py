r"""Population risk on the manifold m_kv = m_vk = q_kv = 0, in moments of the attention weights.

Setting: y = z*_eps + noise xi, f = sum_l sigma_l z_l with z = m_v z* + sqrt(q_v - m_v^2) zeta; the label fields are
independent of everything the weights depend on. Result: R = noise^2 + 1 - 2 m_v A + q_v B with A = E sigma_eps and
B = E sum_l sigma_l^2 (arXiv 2509.21936), rewritten without cancellation for risks of any size: for normalized
weights in the moments of 1 - sigma_eps, for elementwise ones with E(1 - m_v sigma_eps)^2 kept as one average.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.laplace import integrate_family
from theorykit.derivations.ledger import (
    Definition,
    Derivation,
    Equations,
    Limit,
    Quantity,
    Step,
    proved,
    verified,
)
from theorykit.derivations.nodes import TokenExpectation
from theorykit.derivations.single_location.symbols import (
    DELTA,
    LENGTH,
    M_V,
    PAPER,
    Q_V,
    TOKEN_FIELD,
    TOKEN_LABEL,
    TOKEN_VALUE,
    WEIGHT,
    XI,
    others,
    quantities,
    softmax_weights,
)

__all__ = ["LEAK", "MISS", "MISS_SQUARE", "POWER", "RESIDUAL", "derive_risk"]

MISS = sp.Symbol("miss", nonnegative=True)
MISS_SQUARE = sp.Symbol("miss_square", nonnegative=True)
LEAK = sp.Symbol("leak", nonnegative=True)
POWER = sp.Symbol("power", nonnegative=True)
RESIDUAL = sp.Symbol("residual", nonnegative=True)
PLAIN = sp.Symbol("plain_residual", nonnegative=True)
MEAN = sp.Symbol("A", real=True)
SQUARE = sp.Symbol("B", nonnegative=True)

MOMENTS = {
    MISS: Quantity(MISS, r"\bar A", "weight missed by the hidden token, E(1 - sigma_eps)"),
    MISS_SQUARE: Quantity(MISS_SQUARE, r"\bar A_2", "its second moment, E(1 - sigma_eps)^2"),
    LEAK: Quantity(LEAK, r"\bar B", "weight on the other tokens, E sum of sigma_l^2 over l != eps"),
    POWER: Quantity(POWER, "P", "second moment of the hidden weight, E sigma_eps^2"),
    RESIDUAL: Quantity(RESIDUAL, "Q", "residual of the hidden token, E(1 - m_v sigma_eps)^2"),
    MEAN: Quantity(MEAN, "A", "mean weight of the hidden token, E sigma_eps"),
    SQUARE: Quantity(SQUARE, "B", "total squared weight, E sum_l sigma_l^2"),
}
_POINT = {"L": 2, "m_v": 0.7, "q_v": 0.9, "noise": 0.4}


def _weights_moments() -> dict[sp.Symbol, TokenExpectation]:
    """Every moment as an average over tokens of the abstract weights."""
    first, rest = WEIGHT[1], others(lambda i: WEIGHT[i] ** 2)
    integrands = {
        MISS: 1 - first,
        MISS_SQUARE: (1 - first) ** 2,
        LEAK: rest,
        POWER: first**2,
        RESIDUAL: (1 - M_V * first) ** 2,
        MEAN: first,
        SQUARE: first**2 + rest,
    }
    return {s: TokenExpectation(e, (TOKEN_FIELD,), LENGTH) for s, e in integrands.items()}


def _concrete(expression: sp.Expr, length: int) -> sp.Expr:
    """Abstract moments by their definitions, abstract weights by a softmax of shifted fields."""
    del length
    expression = expression.xreplace(_weights_moments())
    return softmax_weights(expression, lambda i: TOKEN_FIELD[i] + (1 if i == 1 else 0))


def _model(noise: sp.Expr) -> TokenExpectation:
    """E(z*_eps + noise - sum_l sigma_l z_l)^2 over fields and, with noise, over xi."""
    z, zeta = TOKEN_LABEL, TOKEN_VALUE

    def value(i: sp.Basic) -> sp.Expr:
        return WEIGHT[i] * (M_V * z[i] + sp.sqrt(Q_V - M_V**2) * zeta[i])

    output = value(sp.Integer(1)) + others(lambda i: sp.expand(value(i)))
    error = (z[1] + noise - output) ** 2
    return TokenExpectation(error, (TOKEN_FIELD, z, zeta), LENGTH, shared=(XI,) if noise != 0 else ())


def _results(excess: sp.Symbol, risk: sp.Symbol, best: sp.Symbol, best_excess: sp.Symbol) -> list[Quantity]:
    """Rows of what is derived, and of the abstract weights."""
    return [
        Quantity(WEIGHT.label, r"\sigma", "attention weight of a token"),
        Quantity(excess, "E", "excess risk", "[0, inf)"),
        Quantity(risk, "R", "risk, label noise included", "[Delta^2, inf)"),
        Quantity(best, "m_v^*", "overlap m_v of the best value for the key"),
        Quantity(best_excess, "E^*", "excess risk of the best value for the key", "[0, 1]"),
    ]


def derive_risk(activation: str = "normalized") -> Derivation:
    """Risk, excess risk and best value overlap in the moments of "normalized" or "elementwise" weights."""
    if activation not in _INPUTS:
        raise ValueError(f"activation must be one of {tuple(_INPUTS)}, got {activation!r}")
    excess, risk = sp.Symbol("excess", real=True), sp.Symbol("risk", real=True)
    best, best_excess = sp.Symbol("best_m_v", real=True), sp.Symbol("best_excess", real=True)
    model, noisy = _model(sp.Integer(0)), _model(DELTA * XI)
    wicked = integrate_family(model, (TOKEN_LABEL, TOKEN_VALUE))
    in_moments = 1 - 2 * M_V * MEAN + Q_V * SQUARE
    at_best = in_moments.subs({M_V: MEAN / SQUARE, Q_V: (MEAN / SQUARE) ** 2}, simultaneous=True)
    mean, square, stable = _stable(activation)
    moments = _weights_moments()

    definitions = (
        Definition(excess, model, "excess risk E(X_eps.v*/sqrt D - f)^2"),
        Definition(risk, noisy, "risk E(y - f)^2 with y = X_eps.v*/sqrt D + noise * xi"),
        Definition(best, MEAN / SQUARE, "stationary point of the risk at v = m_v v*"),
        Definition(best_excess, at_best, "the excess risk there"),
        Definition(MEAN, moments[MEAN], MOMENTS[MEAN].meaning),
        Definition(SQUARE, moments[SQUARE], MOMENTS[SQUARE].meaning),
    )
    best_stable, value_stable = _best_forms(activation, mean, square)
    plain = 1 - 2 * M_V * MEAN + M_V**2 * POWER
    if activation == "elementwise":
        definitions += (Definition(PLAIN, moments[RESIDUAL], "the residual, where it is not small"),)
    steps = (
        Step("average over the label fields", model, wicked, (excess.name,),
             "Wick's theorem: z* and zeta are standard, independent of each other and of the weights",
             verified(_POINT, concrete=_concrete)),
        Step("moments of the weights", wicked, in_moments, ("average over the label fields", "A", "B"),
             "linearity, with A = E sigma_eps and B = E sum_l sigma_l^2", verified(_POINT, concrete=_concrete)),
        Step("mean weight", moments[MEAN], mean, ("A",), _REASON[activation],
             verified(_POINT, concrete=_concrete)),
        Step("squared weights", moments[SQUARE], square, ("B",), _REASON[activation],
             verified(_POINT, concrete=_concrete)),
        Step("form without cancellation", in_moments, stable,
             ("moments of the weights", "mean weight", "squared weights"), _REASON[activation],
             verified(_POINT, concrete=_concrete)),
        Step("label noise", noisy, DELTA**2 + excess, (risk.name, excess.name),
             "Wick's theorem for the label noise, which is independent of everything else",
             verified(_POINT, concrete=lambda e, n: _concrete(e.xreplace({excess: model}), n))),
        Step("completed square", in_moments, 1 - MEAN**2 / SQUARE + SQUARE * (M_V - MEAN / SQUARE) ** 2
             + (Q_V - M_V**2) * SQUARE, ("moments of the weights",),
             "q_v >= m_v^2 and B > 0: the minimum over v is at v = (A/B) v*", proved()),
        Step("best value overlap", MEAN / SQUARE, best_stable, (best.name, "mean weight", "squared weights"),
             "the stationary point in the moments", verified(_POINT, concrete=_concrete)),
        Step("risk of the best value", at_best, value_stable, (best_excess.name, "mean weight", "squared weights"),
             "inserted and written without cancellation", verified(_POINT, concrete=_concrete)),
    )  # fmt: skip
    inputs = [*_INPUTS[activation], MOMENTS[MEAN], MOMENTS[SQUARE]]
    if activation == "elementwise":
        inputs.append(Quantity(PLAIN, r"\tilde Q", "residual of the hidden token, from the other moments"))
        steps += (Step("square of the residual", moments[RESIDUAL], plain, (PLAIN.name, "A"),
                       "square multiplied out; linearity", verified(_POINT, concrete=_concrete)),)  # fmt: skip
    record = Equations(
        f"single_location.risk.{activation}",
        quantities(LENGTH, M_V, Q_V, DELTA, extra=(*inputs, *_results(excess, risk, best, best_excess))),
        {excess: stable},
        {
            **({MEAN.name: mean} if activation == "normalized" else {PLAIN.name: plain}),
            SQUARE.name: square,
            "excess": stable,
            "risk": DELTA**2 + excess,
            "best_m_v": best_stable,
            "best_excess": value_stable,
        },
        limits=_limits(activation),
    )
    return Derivation(
        f"single_location.risk.{activation}",
        f"Population risk of {activation} attention",
        PAPER,
        definitions,
        steps,
        record,
    )


_REASON = {
    "normalized": "the weights sum to 1: everything follows from what the hidden token misses",
    "elementwise": "the square of the hidden token is kept as one average",
}
_INPUTS = {
    "normalized": tuple(MOMENTS[s] for s in (MISS, MISS_SQUARE, LEAK)),
    "elementwise": tuple(MOMENTS[s] for s in (POWER, LEAK, RESIDUAL)),
}


def _stable(activation: str) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """(A, B, excess risk) in moments that are small where the risk is small."""
    if activation == "elementwise":
        return MEAN, POWER + LEAK, RESIDUAL + (Q_V - M_V**2) * POWER + Q_V * LEAK
    power = 1 - 2 * MISS + MISS_SQUARE
    excess = (
        (1 - M_V) ** 2
        + 2 * M_V * (1 - M_V) * MISS
        + M_V**2 * MISS_SQUARE
        + (Q_V - M_V**2) * power
        + Q_V * LEAK
    )
    return 1 - MISS, power + LEAK, excess


def _best_forms(activation: str, mean: sp.Expr, square: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """(m_v, excess risk) at the best value, in the stable moments."""
    if activation == "elementwise":
        return mean / square, 1 - mean**2 / square
    return mean / square, (MISS_SQUARE - MISS**2 + LEAK) / square


def _limits(activation: str) -> tuple[Limit, ...]:
    third = sp.Rational(1, 3)
    if activation == "elementwise":
        at = {"A": 1, "power": 1, "leak": 2, "residual": 0, "m_v": 1, "q_v": 1, "noise": 0}
        return (Limit("excess", at, sp.Integer(2), "weight 1 on each of three tokens, v = v*"),)
    at = {
        "miss": 2 * third,
        "miss_square": 4 * third**2,
        "leak": 2 * third**2,
        "m_v": 1,
        "q_v": 1,
        "noise": 0,
    }
    return (
        Limit("best_excess", at, 2 * third, "uniform weights on three tokens"),
        Limit("best_m_v", at, sp.Integer(1), "uniform weights on three tokens: A = B = 1/3"),
    )
