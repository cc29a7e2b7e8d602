"""The Laplace factorization against brute force over explicit tokens."""

from __future__ import annotations

import pytest
import sympy as sp

from theorykit.derivations.laplace import (
    INDICES,
    expand_token_sums,
    factorize_tokens,
    integrate_family,
    laplace_denominators,
)
from theorykit.derivations.nodes import DistinctSum, HalfLine, Largest, TokenExpectation, TokenPower
from theorykit.derivations.tensor import evaluate_tensor
from theorykit.errors import DerivationError

LENGTH = sp.Symbol("L", integer=True, positive=True)
FIELD, BELOW, ETA, XI = sp.symbols("x y eta xi", real=True)
S, T = sp.symbols("s t", positive=True)
A, B = sp.symbols("a b", positive=True)
TOKENS, NOISE, LABELS = sp.IndexedBase("x"), sp.IndexedBase("eta"), sp.IndexedBase("z")
ELL, EM = INDICES[:2]


def total(summand, first: int = 1) -> DistinctSum:
    return DistinctSum(summand(ELL), ELL, first, LENGTH)


def pair(summand, first: int = 1) -> DistinctSum:
    return DistinctSum(summand(ELL, EM), [ELL, EM], first, LENGTH)


WARM, COLD = sp.Function("w", positive=True), sp.Function("c", positive=True)


def warm(i):
    return WARM(TOKENS[i])


def cold(i):
    return COLD(TOKENS[i])


def concrete(expression: sp.Expr) -> sp.Expr:
    """Two exponential weights of different temperature in place of the abstract ones."""
    return expression.replace(WARM, lambda x: sp.exp(A * x)).replace(COLD, lambda x: sp.exp(B * x))


# ----------------------------------------------------------------- products of sums


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "product",
    [
        total(warm) ** 2,
        total(warm) ** 3,
        total(warm) * total(cold),
        pair(lambda i, j: warm(i) * cold(j)) * total(cold),
        pair(lambda i, j: warm(i) * cold(j)) ** 2,
        A * total(warm, 2) ** 2 * TOKENS[1] + total(cold, 2) - 3,
        (TOKENS[1] + total(warm, 2)) ** 2,
        (1 + A * total(warm)) * (1 - total(cold)),
    ],
)
def test_sums_multiplied_out_are_the_same_at_every_length(product, length):
    def explicit(expression: sp.Expr) -> sp.Expr:
        return expression.replace(lambda e: isinstance(e, DistinctSum), lambda e: e.expand_at(length))

    expanded = expand_token_sums(product)
    assert all(len(sp.Add.make_args(s.integrand)) == 1 for s in expanded.atoms(DistinctSum))
    assert sp.expand(explicit(expanded) - explicit(product)) == 0
    for term in sp.Add.make_args(expanded):
        assert sum(isinstance(f.as_base_exp()[0], DistinctSum) for f in sp.Mul.make_args(term)) <= 1


def test_sums_over_different_ranges_are_not_multiplied():
    with pytest.raises(DerivationError, match="different token ranges"):
        expand_token_sums(total(warm) * total(cold, 2))


# ----------------------------------------------------------------- denominators


def test_denominator_becomes_a_half_line():
    average = TokenExpectation(warm(1) / total(warm) ** 2, [TOKENS], LENGTH)
    found = laplace_denominators(average, {total(warm): T})
    assert isinstance(found, HalfLine)
    assert found.integrand.integrand == T * warm(1) * sp.exp(-T * total(warm))


@pytest.mark.parametrize("integrand", [warm(1), warm(1) / total(warm) + 1, warm(1) / sp.sqrt(total(warm))])
def test_denominators_need_one_positive_integer_power(integrand):
    with pytest.raises(DerivationError, match="power"):
        laplace_denominators(TokenExpectation(integrand, [TOKENS], LENGTH), {total(warm): T})


# ----------------------------------------------------------------- factorization

HIDDEN = WARM(TOKENS[1] + 1)  # token 1 carries a signal
SINGLE = {
    "second moment": (total(lambda i: warm(i) ** 2) / total(warm) ** 2, {total(warm): T}),
    "sum of pairs": (pair(lambda i, j: warm(i) * warm(j)) / total(warm) ** 2, {total(warm): T}),
    "square of a sum": (total(lambda i: TOKENS[i] ** 2) ** 2 * total(warm) ** -1, {total(warm): T}),
    "singled-out token": (
        HIDDEN / (HIDDEN + total(warm, 2)),
        {HIDDEN + total(warm, 2): T},
    ),
    "others against the singled-out": (
        total(warm, 2) / (HIDDEN + total(warm, 2)),
        {HIDDEN + total(warm, 2): T},
    ),
    "moments of the others": (
        (HIDDEN**2 + total(lambda i: warm(i) ** 2, 2) + pair(lambda i, j: warm(i) * warm(j), 2))
        / (HIDDEN + total(warm, 2)) ** 2,
        {HIDDEN + total(warm, 2): T},
    ),
}


def both_ways(integrand, denominators, families, names, point, **options):
    """(brute force over tokens, factorized form by another rule)"""
    average = TokenExpectation(integrand, families, LENGTH)
    factorized = factorize_tokens(laplace_denominators(average, denominators), names, **options)
    assert not factorized.atoms(TokenExpectation, DistinctSum)
    direct, _ = evaluate_tensor(concrete(average), point)
    found, _ = evaluate_tensor(concrete(factorized), point, "legendre")
    return direct, found


@pytest.mark.parametrize("length", [2, 3])
@pytest.mark.parametrize("name", SINGLE)
def test_factorized_average_equals_brute_force(name, length):
    integrand, denominators = SINGLE[name]
    direct, found = both_ways(integrand, denominators, [TOKENS], {TOKENS: FIELD}, {"a": 0.8, "L": length})
    assert found == pytest.approx(direct, rel=1e-9)


def test_weights_sum_to_one_at_any_length():
    hidden, others = warm(1), total(warm, 2)
    average = TokenExpectation((hidden / (hidden + others) + others / (hidden + others)), [TOKENS], LENGTH)
    found = factorize_tokens(laplace_denominators(average, {hidden + others: T}), {TOKENS: FIELD})
    for length in (1, 7, 1000):
        value, _ = evaluate_tensor(concrete(found), {"a": 0.5, "L": length})
        assert value == pytest.approx(1, abs=1e-9)


def test_two_temperatures_need_two_laplace_variables():
    """A pair of softmaxes, E sum_l p_l(a) p_l(b), at L = 2."""
    integrand = total(lambda i: warm(i) * cold(i)) / (total(warm) * total(cold))
    direct, found = both_ways(
        integrand, {total(warm): S, total(cold): T}, [TOKENS], {TOKENS: FIELD}, {"a": 0.6, "b": 1.1, "L": 2}
    )
    assert found == pytest.approx(direct, rel=1e-7)


def test_two_fields_per_token():
    """Weights that depend on a field orthogonal to the one that is averaged."""

    def weight(i):
        return WARM(TOKENS[i] + NOISE[i] / 2)

    others = total(weight, 2)
    integrand = weight(1) * sp.tanh(TOKENS[1]) / (weight(1) + others)
    direct, found = both_ways(
        integrand, {weight(1) + others: T}, [TOKENS, NOISE], {TOKENS: FIELD, NOISE: ETA}, {"a": 0.7, "L": 2}
    )
    assert found == pytest.approx(direct, rel=1e-8)


@pytest.mark.parametrize("length", [2, 3])
def test_largest_token_conditions_the_others(length):
    """The softmax weight of the token with the largest field."""
    integrand = Largest(TOKENS, 1) * warm(1) / (warm(1) + total(warm, 2))
    direct, found = both_ways(
        integrand,
        {warm(1) + total(warm, 2): T},
        [TOKENS],
        {TOKENS: FIELD},
        {"a": 0.8, "L": length},
        below=BELOW,
    )
    assert found == pytest.approx(direct, rel=1e-8)


def test_largest_token_without_a_denominator_has_the_density_of_the_maximum():
    average = TokenExpectation(Largest(TOKENS, 1) * warm(1), [TOKENS], LENGTH)
    found = concrete(factorize_tokens(average, {TOKENS: FIELD}, below=BELOW))
    value, _ = evaluate_tensor(found, {"a": 1, "L": 2})
    # E[exp(x) Phi(x)] = exp(1/2) Phi(1/sqrt 2)
    expected = sp.exp(sp.Rational(1, 2)) * (1 + sp.erf(sp.Rational(1, 2))) / 2
    assert value == pytest.approx(float(expected), rel=1e-12)


def test_counts_of_tokens_are_right_for_symbolic_length():
    found = factorize_tokens(
        laplace_denominators(
            TokenExpectation(pair(lambda i, j: warm(i) * warm(j)) / total(warm) ** 2, [TOKENS], LENGTH),
            {total(warm): T},
        ),
        {TOKENS: FIELD},
    )
    assert {p.args[1] for p in found.atoms(TokenPower)} == {LENGTH - 2}
    assert found.free_symbols == {LENGTH}
    assert concrete(found).free_symbols == {A, LENGTH}


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (sp.Integer(1), "an average over tokens is expected"),
        (TokenExpectation(XI * TOKENS[1], [TOKENS], LENGTH, [XI]), "integrate the shared variables"),
        (TokenExpectation(TOKENS[1] * total(warm), [TOKENS], LENGTH), "token 1 is singled out"),
    ],
)
def test_what_does_not_factorize_is_refused(expression, message):
    with pytest.raises(DerivationError, match=message):
        factorize_tokens(expression, {TOKENS: FIELD})


# ----------------------------------------------------------------- label fields


@pytest.mark.parametrize(
    ("length", "weight", "scale"),
    [(2, warm, 1 / (1 + TOKENS[1] ** 2)), (3, lambda i: TOKENS[i], A), (4, lambda i: B, A)],
)
def test_label_fields_are_contracted(length, weight, scale):
    mean = (weight(1) * LABELS[1] + total(lambda i: weight(i) * LABELS[i], 2)) * scale
    average = TokenExpectation((LABELS[1] - mean + XI) ** 2, [TOKENS, LABELS], LENGTH, [XI])
    contracted = integrate_family(average, (LABELS,))
    assert contracted.families == sp.Tuple(TOKENS)
    point = {"a": 0.4, "b": 0.7, "L": length}
    direct, _ = evaluate_tensor(concrete(average), point)
    found, _ = evaluate_tensor(concrete(contracted), point, "legendre")
    assert found == pytest.approx(direct, rel=1e-8)
