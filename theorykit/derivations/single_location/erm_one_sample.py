"""One sample of trained attention: its energy in sums over tokens, and the law of its fields.

The value field is minimized in closed form, because the loss is quadratic in it; the weights enter the rest through
sums of three statistics of single tokens. Part of :mod:`theorykit.derivations.single_location.erm`.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.ledger import Check, Definition, Step, verified
from theorykit.derivations.nodes import Expectation
from theorykit.derivations.problem import over_tokens
from theorykit.derivations.proximal import AtProximal, Moreau, solve_quadratic
from theorykit.derivations.single_location.erm_symbols import (
    CHI,
    FIELD_K,
    FIELD_V,
    GAUSS_V,
    KEY,
    LABEL,
    LABEL_MEAN,
    LABEL_SPREAD,
    NOISE_K,
    OMEGA_K,
    OMEGA_V,
    PENALTY,
    SCORE,
    STATISTICS,
    TRUTH_K,
    VALUE,
    WEIGHT,
)  # fmt: skip
from theorykit.derivations.single_location.symbols import DELTA, LENGTH, XI
from theorykit.derivations.tensor import expand_sums
from theorykit.formula import parse

__all__ = ["derive_law_of_fields", "derive_sample_problem"]

ENERGY, RESIDUAL, SAMPLE_LOSS, RESPONSE = sp.symbols("energy residual sample_loss response_v", real=True)
ATTENTION, SQUARES = sp.symbols("weight weight_square", real=True)


def derive_sample_problem(
    kind: str, formula: str, shifted: bool, definitions: list[Definition], steps: list[Step]
) -> dict[str, sp.Expr]:
    """The value field minimized: energy of the key fields, residual, response of the value fields."""
    weight = parse(formula).to_sympy(CHI + SCORE if shifted else CHI)
    first = weight if kind == "normalized" else sp.Integer(1)
    summands = (first, weight * OMEGA_V, weight**2)
    S0, S1, S2 = STATISTICS if kind == "normalized" else (sp.Integer(1), *STATISTICS[1:])
    fields, values = sp.IndexedBase("chi"), sp.IndexedBase("omega_v")

    def at_token(summand: sp.Expr, i: sp.Basic) -> sp.Expr:
        return summand.xreplace({CHI: fields[i], OMEGA_V: values[i]})

    sums = {
        s: over_tokens(lambda i, e=e: at_token(e, i), LENGTH)
        for s, e in zip(STATISTICS, summands, strict=True)
    }
    output = over_tokens(lambda i: WEIGHT[i] * VALUE.field[i], LENGTH)
    loss = (LABEL - output) ** 2 / 2
    penalty = over_tokens(lambda i: (VALUE.field[i] - values[i]) ** 2 / (2 * VALUE.V), LENGTH)
    attended = over_tokens(lambda i: WEIGHT[i] * values[i], LENGTH)
    squares = over_tokens(lambda i: WEIGHT[i] ** 2, LENGTH)
    error = (LABEL - attended) / (1 + VALUE.V * squares)
    in_sums = (LABEL - S1 / S0) / (1 + VALUE.V * S2 / S0**2)
    energy = in_sums * (LABEL - S1 / S0) / 2
    own = {s: sp.diff(e, OMEGA_V) for s, e in zip(STATISTICS, summands, strict=True)}
    response = -sp.Add(*[sp.diff(energy, s) * slope for s, slope in own.items() if slope != 0])
    check = _sample_check(sums, weight, kind)
    lines = {
        ENERGY: (Moreau(loss, penalty, [VALUE.field]), error * (LABEL - attended) / 2, energy),
        RESIDUAL: (AtProximal(LABEL - output, loss, penalty, [VALUE.field]), error, in_sums),
        SAMPLE_LOSS: (AtProximal(loss, loss, penalty, [VALUE.field]), error**2 / 2, in_sums**2 / 2),
        RESPONSE: (
            AtProximal((VALUE.field[1] - values[1]) / VALUE.V, loss, penalty, [VALUE.field]),
            WEIGHT[1] * error,
            response,
        ),
        ATTENTION: (AtProximal(WEIGHT[1], loss, penalty, [VALUE.field]), WEIGHT[1], weight / S0),
        SQUARES: (AtProximal(squares, loss, penalty, [VALUE.field]), squares, S2 / S0**2),
    }
    for symbol, (meaning, closed, final) in lines.items():
        definitions.append(Definition(symbol, meaning, _MEANING[symbol]))
        steps.append(
            Step(f"value field minimized ({symbol})", meaning, closed, (symbol.name,),
                 "the loss is quadratic in the value field, along the weights", check)
        )  # fmt: skip
        steps.append(
            Step(f"sums over tokens ({symbol})", closed, final, (f"value field minimized ({symbol})",),
                 "the weights enter through sums of statistics of single tokens"
                 + ("; envelope theorem" if symbol == RESPONSE else ""), check)
        )  # fmt: skip
    found = {s.name: final for s, (_, _, final) in lines.items()}
    return found | _statistics(sums, summands, definitions, steps, fields, values)


_MEANING = {
    ENERGY: "least loss of a sample over the value field, at given key fields",
    RESIDUAL: "what is left of the label at the minimum",
    SAMPLE_LOSS: "half its square",
    ATTENTION: "weight of a token",
    SQUARES: "sum of the squared weights",
    RESPONSE: "how far the sample moves the value field of a token, over the variance",
}


def _statistics(
    sums: dict[sp.Symbol, sp.Expr],
    summands: tuple[sp.Expr, ...],
    definitions: list[Definition],
    steps: list[Step],
    fields: sp.IndexedBase,
    values: sp.IndexedBase,
) -> dict[str, sp.Expr]:
    """What one token adds to each sum: the last term of the sum over one token more than given."""
    found = {}
    for position, (symbol, summand) in enumerate(zip(sums, summands, strict=True)):
        name = sp.Symbol(f"statistic_{position}", real=True)
        one = sums[symbol]
        lone = expand_sums(one, LENGTH, 1)
        definitions.append(Definition(name, one, f"sum {symbol} over the tokens"))
        to_token = {fields[1]: CHI, values[1]: OMEGA_V}

        def concrete(expression: sp.Expr, length: int, to_token=to_token) -> sp.Expr:
            return expand_sums(expression, LENGTH, length).xreplace(to_token)

        point = {"L": 1, "chi": "0.4", "omega_v": "0.7", "shift": "0.2"}
        steps.append(
            Step(f"one token ({symbol})", one, summand, (name.name,), "the sum at L = 1 is what a token adds",
                 verified(point, digits=25, left="mp-trapezoid", right="mp-quad", concrete=concrete))
        )  # fmt: skip
        found[name.name] = summand
        assert lone.xreplace(to_token) == summand
    return found


def _sample_check(sums: dict[sp.Symbol, sp.Expr], weight: sp.Expr, kind: str) -> Check:
    """At two tokens with numbers for their fields: the minimum by linear equations, sums written out."""
    numbers = {1: ("0.3", "0.8"), 2: ("-0.5", "0.6")}
    fields, values = sp.IndexedBase("chi"), sp.IndexedBase("omega_v")

    def concrete(expression: sp.Expr, length: int) -> sp.Expr:
        opened = expand_sums(expression, LENGTH, length)
        opened = opened.replace(lambda e: isinstance(e, Moreau | AtProximal), solve_quadratic)
        opened = opened.xreplace({s: expand_sums(e, LENGTH, length) for s, e in sums.items()})
        total = sp.Add(*[weight.xreplace({CHI: fields[i]}) for i in range(1, length + 1)])
        scale = total if kind == "normalized" else sp.Integer(1)
        places: dict[sp.Expr, sp.Expr] = {
            WEIGHT[i]: weight.xreplace({CHI: fields[i]}) / scale for i in range(1, length + 1)
        }
        opened = opened.xreplace(places).xreplace({CHI: fields[1], OMEGA_V: values[1]})
        known = {fields[i]: sp.Rational(numbers[i][0]) for i in numbers}
        known |= {values[i]: sp.Rational(numbers[i][1]) for i in numbers}
        return opened.xreplace(known)

    point = {"L": 2, "label": "0.9", "V_v": "0.7", "shift": "0.2"}
    return verified(point, digits=25, left="mp-trapezoid", right="mp-quad", concrete=concrete)


def derive_law_of_fields(definitions: list[Definition], steps: list[Step]) -> dict[str, sp.Expr]:
    """Fields without the sample, and the law of the label given the value field of the hidden token.

    (z_v, omega_v) of the hidden token is Gaussian: the label given omega_v has mean m/q omega_v, variance
    1 - m^2/q + noise^2, and omega_v is sqrt(q) times a standard Gaussian.
    """
    z, eta = sp.symbols("z eta", real=True)
    omega = VALUE.m * z + VALUE.spread * eta
    label = z + DELTA * XI
    gauss = (z, eta, XI)
    covariance, variance, power = (
        Expectation(sp.expand(e), gauss) for e in (omega * label, omega**2, label**2)
    )
    spread_square = power - covariance**2 / variance
    entries = (
        (FIELD_K, KEY.m * TRUTH_K + KEY.spread * NOISE_K, None, "key field of a token"),
        (FIELD_V, sp.sqrt(variance) * GAUSS_V, sp.sqrt(VALUE.q) * GAUSS_V, "value field of a token"),
        (LABEL_MEAN, covariance / variance * OMEGA_V, VALUE.m / VALUE.q * OMEGA_V, "mean of the label given it"),
        (LABEL_SPREAD, sp.sqrt(spread_square), sp.sqrt(1 - VALUE.m**2 / VALUE.q + DELTA**2), "its spread"),
        (PENALTY, KEY.penalty(sp.S.One), KEY.penalty(sp.S.One, OMEGA_K).xreplace({KEY.field[1]: CHI}),
         "penalty of a key field"),
    )  # fmt: skip
    point = {"m_v": 0.7, "q_v": 0.8, "noise": 0.4, "gauss_v": 0.3, "omega_v": 0.6, "m_k": 0.6, "q_k": 0.9,
             "truth_k": 0.2, "noise_k": 0.5, "chi": 0.8, "V_k": 0.7}  # fmt: skip
    found = {}
    for symbol, definition, result, meaning in entries:
        if result is None:
            definition, result = KEY.omega(sp.Integer(1)), definition
        definitions.append(Definition(symbol, definition, meaning))
        replaced = {KEY.truth[1]: TRUTH_K, KEY.noise[1]: NOISE_K, KEY.field[1]: CHI,
                    OMEGA_K: KEY.m * TRUTH_K + KEY.spread * NOISE_K}  # fmt: skip
        steps.append(
            Step(f"Gaussian fields ({symbol})", definition, result, (symbol.name,),
                 "second moments of jointly Gaussian fields determine the conditional law",
                 verified({**point, "L": 1}, concrete=lambda e, _, r=replaced: e.xreplace(r)))
        )  # fmt: skip
        found[symbol.name] = result
    return found
