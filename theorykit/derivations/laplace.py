r"""Averages of normalized weights factorize over tokens.

A weight :math:`b_l/\sum_m b_m` couples all tokens through its denominator. Writing
:math:`S^{-p}=\Gamma(p)^{-1}\int_0^\infty t^{p-1}e^{-tS}dt` turns the coupling into a product over tokens,
and independence turns the average of the product into a product of averages: what is left has the
dimension of one token and a half-line, at any length.

Three rewritings, each a step of its own in a derivation:

``expand_token_sums``    products of sums over tokens -> sums over pairwise distinct tokens
``laplace_denominators`` 1/S**p -> half-line integral of exp(-t S)
``factorize_tokens``     average over L tokens -> products of averages over one token
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, permutations, product

import sympy as sp

from theorykit.derivations.nodes import (
    DistinctSum,
    Expectation,
    HalfLine,
    Largest,
    TokenExpectation,
    TokenPower,
    TruncatedExpectation,
)
from theorykit.derivations.special import gamma_weight
from theorykit.errors import DerivationError

__all__ = ["INDICES", "expand_token_sums", "factorize_tokens", "integrate_family", "laplace_denominators"]

INDICES = sp.symbols("l m n o i j h g", integer=True, positive=True)


def expand_token_sums(expression: sp.Expr, split: bool = False) -> sp.Expr:
    """Multiply sums over tokens out into sums over pairwise distinct tokens, inside and outside nodes.

    With ``split``, factors without sums and summands are multiplied out too: one product under each sum.
    """
    if isinstance(expression, TokenExpectation):
        return expression.with_integrand(expand_token_sums(expression.integrand, split))
    merged = [_merge_sums(term) for term in _terms(expression, split)]
    return sp.Add(*[_split_sums(m) if split else m for m in merged])


def _split_sums(expression: sp.Expr) -> sp.Expr:
    """Sums of several terms become several sums: one product of factors under each."""
    result = sp.Integer(0)
    for term in sp.Add.make_args(expression):
        rest, bulk = sp.Integer(1), None
        for factor in sp.Mul.make_args(term):
            if isinstance(factor, DistinctSum):
                bulk = factor
            else:
                rest *= factor
        if bulk is None:
            result += term
        else:
            result += sp.Add(*[rest * bulk.with_integrand(t) for t in _terms(bulk.integrand, True)])
    return result


def _terms(expression: sp.Expr, everything: bool) -> list[sp.Expr]:
    """Terms of the expression multiplied out, without entering nodes, functions or denominators.

    Factors that hold no sum over tokens stay as they are unless ``everything`` is asked for.
    """
    if not (everything or expression.has(DistinctSum)):
        return [expression]
    if isinstance(expression, sp.Add):
        return [t for a in expression.args for t in _terms(a, everything)]
    if isinstance(expression, sp.Mul):
        parts = [_terms(a, everything) for a in expression.args]
    elif isinstance(expression, sp.Pow) and expression.exp.is_Integer and expression.exp > 1:
        if not isinstance(expression.base, sp.Add | sp.Mul):
            return [expression]
        parts = [_terms(expression.base, everything)] * int(expression.exp)
    else:
        return [expression]
    if all(len(p) == 1 for p in parts):
        return [expression]
    combined = sp.Add(*[sp.Mul(*choice) for choice in product(*parts)])
    return list(sp.Add.make_args(combined))


def _merge_sums(term: sp.Expr) -> sp.Expr:
    """One product: all its sums become one sum per way of identifying their indices."""
    sums: list[DistinctSum] = []
    rest = sp.Integer(1)
    for factor in sp.Mul.make_args(term):
        base, exponent = factor.as_base_exp()
        if isinstance(base, DistinctSum) and exponent.is_Integer and exponent > 0:
            sums.extend([base] * int(exponent))
        else:
            rest *= factor
    if not sums:
        return rest
    merged = [sums[0]]
    for other in sums[1:]:
        merged = [product for left in merged for product in _product(left, other)]
    return sp.Add(*[rest * m for m in merged])


def _product(left: DistinctSum, right: DistinctSum) -> list[DistinctSum]:
    """left * right, by which indices of the two coincide."""
    if left.args[2:] != right.args[2:]:
        raise DerivationError(f"sums over different token ranges: {left.args[2:]} and {right.args[2:]}")
    names = list(left.indices)
    fresh = [i for i in INDICES if i not in names]
    renamed = dict(zip(right.indices, fresh, strict=False))
    body = right.integrand.xreplace(renamed)
    others = [renamed[i] for i in right.indices]
    found = []
    for count in range(min(len(names), len(others)) + 1):
        for chosen in combinations(others, count):
            for targets in permutations(names, count):
                identified = body.xreplace(dict(zip(chosen, targets, strict=True)))
                indices = names + [i for i in others if i not in chosen]
                found.append(_canonical(left, left.integrand * identified, indices))
    return found


def _canonical(template: DistinctSum, summand: sp.Expr, indices: list[sp.Symbol]) -> DistinctSum:
    """Indices renamed to the first of the alphabet, so that equal sums are structurally equal."""
    renaming = dict(zip(indices, INDICES, strict=False))
    summand = summand.xreplace(renaming)
    return DistinctSum(summand, INDICES[: len(indices)], *template.args[2:])


def laplace_denominators(
    node: TokenExpectation, denominators: dict[sp.Expr, sp.Symbol]
) -> HalfLine | TokenExpectation:
    """Replace each 1/S**p, S a key of ``denominators``, by the half-line integral over its variable t."""
    powers: dict[sp.Expr, set[sp.Expr]] = {s: set() for s in denominators}
    for term in sp.Add.make_args(node.integrand):
        for s in denominators:
            powers[s].add(_power_of(term, s))
    integrand, weight = node.integrand, sp.Integer(1)
    for s, t in denominators.items():
        if len(powers[s]) != 1:
            raise DerivationError(f"every term must carry the same power of {s}, found {sorted(powers[s])}")
        p = next(iter(powers[s]))
        if not (p.is_Integer and p > 0):
            raise DerivationError(
                f"{s} must stand in the denominator with a positive integer power, found {p}"
            )
        integrand = sp.Add(*[term * s**p for term in sp.Add.make_args(integrand)])
        weight *= t ** (p - 1) / sp.gamma(p)
    exponent = sp.Add(*[-t * s for s, t in denominators.items()])
    terms = [weight * term * sp.exp(exponent) for term in sp.Add.make_args(integrand)]
    result: sp.Expr = node.with_integrand(sp.Add(*terms))
    for t in denominators.values():
        result = HalfLine(result, t)
    return result


def _power_of(term: sp.Expr, base: sp.Expr) -> sp.Expr:
    for factor in sp.Mul.make_args(term):
        b, e = factor.as_base_exp()
        if b == base:
            return -e
    return sp.Integer(0)


def factorize_tokens(
    expression: sp.Expr, names: dict[sp.IndexedBase, sp.Symbol], below: sp.Symbol | None = None
) -> sp.Expr:
    """Independence of the tokens: every average over L tokens becomes products of one-token averages.

    ``names`` gives the plain symbol that stands for a family inside a one-token average. Under the indicator
    that token 1 is the largest of a family, the others are averaged conditionally on lying below it, in the
    variable ``below``.
    """
    if isinstance(expression, HalfLine):
        return HalfLine(factorize_tokens(expression.integrand, names, below), expression.variable)
    if not isinstance(expression, TokenExpectation):
        raise DerivationError(f"an average over tokens is expected, got {type(expression).__name__}")
    if expression.shared:
        raise DerivationError(f"integrate the shared variables {expression.shared} out first")
    law = _OneToken(names, expression.families, below)
    return sp.Add(
        *[
            _factorize_term(term, expression, law)
            for term in sp.Add.make_args(expand_token_sums(expression.integrand))
        ]
    )


@dataclass
class _OneToken:
    """How a factor of one token is averaged: over all its fields, or below the largest token."""

    names: dict[sp.IndexedBase, sp.Symbol]
    families: sp.Tuple
    below: sp.Symbol | None
    largest: sp.IndexedBase | None = None

    def plain(self, factor: sp.Expr, token: sp.Basic) -> sp.Expr:
        return factor.xreplace({f[token]: self.names[f] for f in self.families})

    def average(self, factor: sp.Expr, token: sp.Basic) -> sp.Expr:
        """Average over a token that is not the largest one."""
        integrand = self.plain(factor, token)
        if self.largest is None:
            return Expectation(integrand, [self.names[f] for f in self.families])
        top = self.names[self.largest]
        if self.below is None:
            raise DerivationError("a variable for the tokens below the largest one is needed")
        inner = Expectation(integrand, self.others()) if self.others() else integrand
        return TruncatedExpectation(inner.xreplace({top: self.below}), self.below, top)

    def others(self) -> list[sp.Symbol]:
        return [self.names[f] for f in self.families if f != self.largest]


def _factorize_term(term: sp.Expr, node: TokenExpectation, law: _OneToken) -> sp.Expr:
    coefficient, hidden, weight, bulk = _sort_factors(term, node.families)
    indicators = [f for f in sp.Mul.make_args(hidden) if isinstance(f, Largest)]
    law = replace(law, largest=indicators[0].family if indicators else None)
    hidden = sp.Mul(*[f for f in sp.Mul.make_args(hidden) if not isinstance(f, Largest)])
    index, one = INDICES[0], sp.Integer(1)
    typical = weight.get(index, one)
    has_hidden = bool(indicators) or hidden != 1 or one in weight
    is_coupled = has_hidden or bool(weight)  # otherwise token 1 may simply be left out of the sums
    if bulk is not None and is_coupled and bulk.first != (2 if has_hidden else 1):
        raise DerivationError(f"token 1 is singled out: sums must start after it, got {bulk}")

    outside, averages, used = [coefficient], [], 0

    def add(factor: sp.Expr, token: sp.Basic) -> None:
        scaled, absorbed = _gamma_form(factor)
        outside.append(absorbed)
        averages.append(law.average(scaled, token))

    if bulk is not None:
        outside.append(bulk.multiplicity)
        remaining = bulk.integrand
        for token in bulk.indices:
            own, remaining = _own_factors(remaining, token)
            add(own * typical.xreplace({index: token}), token)
            used += 1
        outside.append(remaining)
    idle = law.average(_gamma_form(typical)[0], index)
    if idle != 1:
        averages.append(TokenPower(idle, node.length - used - (1 if has_hidden else 0)))
    if has_hidden:
        own, absorbed = _gamma_form(hidden * weight.get(one, typical.xreplace({index: one})))
        outside.append(absorbed)
        averages = [_hidden_average(own, averages, law)]
    return sp.Mul(*outside, *averages)


def _hidden_average(own: sp.Expr, averages: list[sp.Expr], law: _OneToken) -> sp.Expr:
    """The average over token 1; where it is the largest one, the others are averaged below it."""
    plain = law.plain(own, sp.Integer(1))
    if law.largest is None:
        return Expectation(plain, [law.names[f] for f in law.families]) * sp.Mul(*averages)
    inner = Expectation(plain, law.others()) if law.others() else plain
    return Expectation(inner * sp.Mul(*averages), [law.names[law.largest]])


def _gamma_form(product: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Write b**n exp(-t b) as t**-n times a gamma weight of t b: (new product, product of t**-n)."""
    powers = dict(f.as_base_exp() for f in sp.Mul.make_args(product) if not isinstance(f, sp.exp))
    exponent = sp.Add(*[f.args[0] for f in sp.Mul.make_args(product) if isinstance(f, sp.exp)])
    scaled, absorbed = sp.Integer(1), sp.Integer(1)
    for part in sp.Add.make_args(exponent):
        if part == 0:
            continue
        kernel, t = _kernel_and_variable(-part)
        degree = powers.pop(kernel, sp.Integer(0))
        scaled *= gamma_weight(t * kernel, degree)
        absorbed *= t ** (-degree)
    return scaled * sp.Mul(*[b**e for b, e in powers.items()]), absorbed


def _kernel_and_variable(product: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Split t * b(field) into the kernel, which carries the field, and the Laplace variable."""
    t, kernel = product.as_independent(sp.Indexed, as_Add=False)
    if not t.is_Symbol:
        raise DerivationError(f"{product} is not a Laplace variable times a kernel of one token")
    return kernel, t


def _sort_factors(
    term: sp.Expr, families: sp.Tuple
) -> tuple[sp.Expr, sp.Expr, dict[sp.Basic, sp.Expr], DistinctSum | None]:
    """(free coefficient, factor of token 1, exponential weight per kind of token, sum over the others)."""
    coefficient, hidden = sp.Integer(1), sp.Integer(1)
    exponents: dict[sp.Basic, sp.Expr] = {}
    bulk: DistinctSum | None = None
    for factor in sp.Mul.make_args(sp.powsimp(term, deep=False, combine="exp")):
        if isinstance(factor, DistinctSum):
            if bulk is not None:
                raise DerivationError("multiply the sums out first")
            bulk = factor
        elif isinstance(factor, sp.exp) and factor.has(DistinctSum):
            _collect_exponent(factor.args[0], exponents)
        elif isinstance(factor, Largest) or _tokens_of(factor, families):
            hidden *= factor
        else:
            coefficient *= factor
    weights = {token: sp.exp(e) for token, e in exponents.items()}
    return coefficient, hidden, weights, bulk


def _collect_exponent(exponent: sp.Expr, into: dict[sp.Basic, sp.Expr]) -> None:
    parts = [sp.expand(p, deep=False) for p in sp.Add.make_args(exponent)]  # one for each denominator
    for part in sp.Add.make_args(sp.Add(*parts)):
        scale, total = part.as_independent(DistinctSum)
        if isinstance(total, DistinctSum):
            body = total.integrand.xreplace({total.indices[0]: INDICES[0]})
            into[INDICES[0]] = into.get(INDICES[0], sp.Integer(0)) + scale * body
        elif total == 1:
            into[sp.Integer(1)] = into.get(sp.Integer(1), sp.Integer(0)) + part
        else:
            raise DerivationError(f"exponent {part} is not additive over tokens")


def _tokens_of(expression: sp.Expr, families: sp.Tuple) -> set[sp.Basic]:
    return {i.indices[0] for i in expression.atoms(sp.Indexed) if i.base in families}


def _own_factors(product: sp.Expr, token: sp.Basic) -> tuple[sp.Expr, sp.Expr]:
    """Factors of a product that carry the index ``token``, and the rest."""
    own, rest = sp.Integer(1), sp.Integer(1)
    for factor in sp.Mul.make_args(product):
        if token in factor.free_symbols:
            own *= factor
        else:
            rest *= factor
    return own, rest


def integrate_family(node: TokenExpectation, families: tuple[sp.IndexedBase, ...]) -> TokenExpectation:
    """Wick's theorem for families (and shared variables) in which the integrand is a polynomial.

    Only products of at most two fields occur in a quadratic risk: pairs on one token average to 1, pairs on
    different tokens and single fields to 0.
    """
    total = sp.Integer(0)
    for term in sp.Add.make_args(expand_token_sums(node.integrand, split=True)):
        total += _contract(term, families, node.shared)
    kept = [f for f in node.families if f not in families]
    return TokenExpectation(total, kept, node.length)


def _contract(term: sp.Expr, families: tuple[sp.IndexedBase, ...], shared: sp.Tuple) -> sp.Expr:
    single, rest, bulk = sp.Integer(1), sp.Integer(1), None
    for factor in sp.Mul.make_args(term):
        if isinstance(factor, DistinctSum):
            bulk = factor
        elif _carries(factor, families, shared):
            single *= factor
        else:
            rest *= factor
    own = _pairing(single, families, shared)
    if bulk is None:
        return own * rest
    if single != 1 and bulk.first == 1 and _carries(bulk.integrand, families, shared):
        raise DerivationError(f"token 1 is singled out in {term}: its sums must start after it")
    inside, others = sp.Integer(1), sp.Integer(1)
    for factor in sp.Mul.make_args(bulk.integrand):
        if _carries(factor, families, shared):
            inside *= factor
        else:
            others *= factor
    return own * rest * bulk.with_integrand(_pairing(inside, families, shared) * others)


def _carries(expression: sp.Expr, families: tuple[sp.IndexedBase, ...], shared: sp.Tuple) -> bool:
    fields = any(i.base in families for i in expression.atoms(sp.Indexed))
    return fields or bool(expression.free_symbols & set(shared))


def _pairing(product: sp.Expr, families: tuple[sp.IndexedBase, ...], shared: sp.Tuple) -> sp.Expr:
    """Average of a product of powers of independent standard fields."""
    result = sp.Integer(1)
    for factor in sp.Mul.make_args(product):
        field, power = factor.as_base_exp()
        plain = field in shared or (isinstance(field, sp.Indexed) and field.base in families)
        if not plain and factor == 1:
            continue
        if not (plain and power.is_Integer and power > 0):
            raise DerivationError(f"Wick's theorem needs positive powers of the fields, found {factor}")
        result *= 0 if power % 2 else sp.factorial2(power - 1)
    return result
