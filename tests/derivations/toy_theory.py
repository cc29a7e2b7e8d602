"""A small theory declared outside the package, as a user would: the tests of this folder work on it.

L tokens carry standard Gaussian fields x_l and weights p_l = b(x_l)/sum_m b(x_m), b = exp(a x). Derived are
E sum_l p_l^2, E[x exp(a x)], and E(x + c)^2. Run as a script, it prints its LaTeX.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import sympy as sp

from theorykit.derivations.audit import ClaimVerdict
from theorykit.derivations.gaussian import stein, tilt
from theorykit.derivations.laplace import INDICES, factorize_tokens, laplace_denominators
from theorykit.derivations.ledger import (
    Claim,
    Definition,
    Derivation,
    Equations,
    Limit,
    Quantity,
    Step,
    assumed,
    proved,
    simulated,
    verified,
)
from theorykit.derivations.nodes import DistinctSum, Expectation, TokenExpectation
from theorykit.results import Estimate
from theorykit.theory import Theory, ValidationPoint

A, C = sp.Symbol("a", positive=True), sp.Symbol("c", real=True)
LENGTH = sp.Symbol("L", integer=True, positive=True)
FIELD, T = sp.Symbol("x", real=True), sp.Symbol("t", positive=True)
TOKENS = sp.IndexedBase("x")
WEIGHT = sp.Function("b", positive=True)
SECOND, GROWTH, SQUARE = sp.symbols("second_moment growth square")
ENERGY = sp.Symbol("energy")

TABLE = (
    Quantity(A, "a", "inverse temperature of the weights", "(0, inf)"),
    Quantity(C, "c", "shift & offset, in % of the standard deviation", "real"),
    Quantity(LENGTH, "L", "number of tokens", "1, 2, ...", "O(1)"),
    Quantity(SQUARE, r"\mathcal{Q}", "second moment of the shifted field", "[1, inf)"),
    Quantity(SECOND, r"\mathcal{B}", "second moment of the weights", "[1/L, 1]"),
    Quantity(GROWTH, r"\mathcal{G}", "growth", "(0, inf)"),
)


def exponential(expression: sp.Expr, length: int) -> sp.Expr:
    """The weight b made concrete."""
    assert length in (2, 3)
    return expression.replace(WEIGHT, lambda x: sp.exp(A * x))


def make_weights() -> Derivation:
    """Second moment of the weights, from its definition to a half-line integral."""
    index = INDICES[0]
    total = DistinctSum(WEIGHT(TOKENS[index]), index, 1, LENGTH)
    squares = DistinctSum(WEIGHT(TOKENS[index]) ** 2, index, 1, LENGTH)
    average = TokenExpectation(squares / total**2, [TOKENS], LENGTH)
    laplace = laplace_denominators(average, {total: T})
    one_token = factorize_tokens(laplace, {TOKENS: FIELD})
    closed = exponential(one_token, 2)
    point = {"a": 0.7, "L": 2}
    steps = (
        Step("Laplace representation", average, laplace, (SECOND.name,), "1/S^2 = int t exp(-t S) dt",
             verified(point, digits=10, concrete=exponential), ("the weights are positive",)),
        Step("independence of the tokens", laplace, one_token, ("Laplace representation",),
             "the tokens are independent and exchangeable", verified(point, digits=10, concrete=exponential)),
        Step("exponential weight", one_token, closed, ("independence of the tokens",),
             "definition of the weight", verified(point, digits=10, concrete=exponential)),
    )  # fmt: skip
    limits = (Limit(SECOND.name, {"a": 0, "L": 4}, sp.Rational(1, 4), "uniform weights"),)
    record = Equations("toy_weights", TABLE, {}, {SECOND.name: closed}, limits)
    definition = Definition(SECOND, average, "second moment of the weights p_l, summed over tokens")
    return Derivation("toy.weights", "Weights of a toy model", "these tests", (definition,), steps, record)


def make_growth(slow: bool = False) -> Derivation:
    """E[x exp(a x)] and E(x + c)^2, with one step of every kind; ``slow`` marks one of the checks as slow."""
    raw = Expectation(FIELD * sp.exp(A * FIELD), [FIELD])
    by_parts = stein(raw, FIELD)
    tilted = A * tilt(Expectation(sp.exp(A * FIELD), [FIELD]))
    shifted = Expectation((FIELD + C) ** 2, [FIELD])
    coupled = sp.Function("F")(C)
    precise = verified({"a": "1/3"}, {"a": "1.7"}, digits=30, left="mp-trapezoid", right="mp-quad")
    steps = (
        Step("integration by parts", raw, by_parts, (GROWTH.name,), "Stein's lemma", precise),
        Step("tilt", by_parts, tilted, ("integration by parts",), "exponential tilt",
             replace(precise, slow=slow)),
        Step("Wick", shifted, C**2 + 1, (SQUARE.name,), "Wick's theorem", proved()),
        Step("concentration", coupled, C + 1, (ENERGY.name,), "self-averaging", assumed("standard lore")),
        Step("sampling", C + 1, C + 1, ("concentration",), "compared", simulated("growth in validate")),
    )  # fmt: skip
    definitions = (
        Definition(GROWTH, raw, "mean of x against exp(a x)"),
        Definition(SQUARE, shifted, "second moment of x + c"),
        Definition(ENERGY, coupled, "an energy that is not computed"),
    )
    record = Equations("toy_growth", TABLE, {SQUARE: C**2 + 1}, {GROWTH.name: tilted})
    return Derivation("toy.growth", "Growth in a toy model", "these tests", definitions, steps, record)


def growth_number(a: float) -> float:
    """The solver of the toy: the record, evaluated."""
    return float(make_growth().equations.evaluate({"a": a}, digits=15)[GROWTH.name])


def predict(a: float) -> dict[str, float]:
    """What the theory says at one point of its validation."""
    return {"growth": growth_number(a)}


def sample_growth(a: float, trials: int, seed: np.random.SeedSequence) -> dict[str, Estimate]:
    """The simulator of the toy."""
    x = np.random.default_rng(seed).standard_normal(trials)
    values = x * np.exp(a * x)
    return {"growth": Estimate(values.mean(), values.std(ddof=1) / math.sqrt(trials), "standard error")}


POINTS = tuple(
    ValidationPoint({"a": a}, partial(predict, a), partial(sample_growth, a), trials=20_000)
    for a in (0.2, 0.5)
)

CLAIM = Claim("growth increases", "E[x exp(a x)] increases with a", "these tests")
WRONG_CLAIM = Claim("growth is linear", "E[x exp(a x)] = a", "nowhere")


def judge_increase() -> ClaimVerdict:
    values = [growth_number(a) for a in (0.1, 0.4, 0.9)]
    verdict = "holds" if values == sorted(values) else "fails"
    return ClaimVerdict(CLAIM.name, CLAIM.statement, CLAIM.source, verdict, "", {"at 0.1": values[0]})


def judge_linear() -> ClaimVerdict:
    gap = abs(growth_number(1.0) - 1.0)
    verdict = "holds" if gap < 1e-9 else "fails"
    return ClaimVerdict(
        WRONG_CLAIM.name, WRONG_CLAIM.statement, WRONG_CLAIM.source, verdict, "", {"gap": gap}
    )


THEORY = Theory(
    name="toy",
    title="A toy theory",
    derivations={"toy.growth": make_growth, "toy.weights": make_weights},
    claims=((CLAIM, judge_increase), (WRONG_CLAIM, judge_linear)),
    solver={"growth": growth_number},
    simulate={"growth": sample_growth},
    validation_points=POINTS,
)

if __name__ == "__main__":
    from theorykit.theory import latex

    sys.stdout.write(latex(THEORY))
