r"""Population risk at any overlaps, also where k.v*, v.k* and k.v do not vanish, at any length.

Setting: scores chi_l = X_l.k/sqrt D, labels z*_l = X_l.v*/sqrt D and values z_l = X_l.v/sqrt D of L tokens, jointly
Gaussian with the overlaps as covariances; the location depends on chi*_l = X_l.k*/sqrt D. Result: the excess risk
E(z*_eps - f)^2 of the output f = sum_l sigma_l z_l. Given what weights and location depend on, label and value of a
token are Gaussian with a linear mean and a fixed covariance S. Wick's theorem for what is left of them gives

E(z*_eps f) = S_12 E sigma_eps + E(E[z*_eps|.] sum_l sigma_l E[z_l|.]),
E f^2 = S_22 E sum_l sigma_l^2 + E(sum_l sigma_l E[z_l|.])^2.

The score alone is enough in the spiked task, and for E f^2 of the max task, where the location does not matter;
E(z*_eps f) of the max task needs chi* as well. A key along k* leaves chi* alone. For normalized weights of the spiked
task the risk is written in what the hidden token misses, so that nothing cancels where it is small. The integrals over
one token follow as in ``moments``. Source: arXiv 2509.21936 for the model; covariances and integrals are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.laplace import expand_token_sums, factorize_tokens, laplace_denominators
from theorykit.derivations.ledger import Derivation, Equations, Limit, proved, verified
from theorykit.derivations.nodes import DistinctSum, Expectation, TokenExpectation, TruncatedExpectation
from theorykit.derivations.single_location.off_manifold_model import (
    EXCESS,
    KERNEL,
    LABEL_SLOPE,
    LIKELIHOOD,
    M_KV,
    M_VK,
    NOTATION,
    PROBABILITY,
    Q_KV,
    REST_SLOPE,
    ROWS,
    S_12,
    S_22,
    SCORE,
    SIGMA,
    SINGLE,
    TOKEN_SCORE,
    VALUE_SLOPE,
    Model,
    Moment,
)
from theorykit.derivations.single_location.risk import MOMENTS
from theorykit.derivations.single_location.symbols import (
    BELOW,
    ETA,
    FIELD,
    LENGTH,
    M_K,
    M_V,
    NU,
    PAPER,
    Q_K,
    Q_V,
    SHIFT,
    TOKEN_ETA,
    TOKEN_FIELD,
    WEIGHT,
    S,
    T,
    aligned_length,
    others,
    quantities,
)

__all__ = ["derive_off_manifold"]

R = sp.Symbol("r", positive=True)  # Laplace variable of the weights where the location does not matter
ETA_BELOW = sp.Symbol("eta_y", real=True)  # orthogonal field of a token below the largest one
_TABLE = {**MOMENTS, **ROWS}
_ALONG = {"nu": 0.7, "L": 2, "m_k": 0.6, "m_v": 0.5, "q_v": 0.9, "m_vk": 0.3}
_GENERAL = {**_ALONG, "q_k": 0.7, "m_kv": 0.35, "q_kv": 0.4}
_GENTLE = {**_ALONG, "q_k": 0.7, "label_slope": 0.6, "value_slope": 0.5, "rest_slope": 0.7, "shift": 0.2}


def derive_off_manifold(
    task: str = "spiked",
    kind: str = "normalized",
    formula: str = "exp(x)",
    aligned: bool = False,
    shifted: bool = False,
) -> Derivation:
    """Observable "excess" at any overlaps; for normalized weights also "single", the excess risk at L = 1.

    Parameters
    ----------
    task : "spiked", "max" or "max_infinite"
    kind : "normalized" or "elementwise"
    formula : str
        The kernel b(x) of normalized weights, the function sigma(x) of elementwise ones.
    aligned : bool
        The key is a multiple of k*: q_k = m_k^2, m_kv = 0, q_kv = m_k m_vk.
    shifted : bool
        Elementwise only: the function is taken at x + shift.
    """
    tasks, kinds = ("spiked", "max", "max_infinite"), ("normalized", "elementwise")
    for name, value, allowed in (("task", task, tasks), ("kind", kind, kinds)):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, got {value!r}")
    model = Model(task, kind, aligned, shifted and kind == "elementwise")
    chain = Chain()
    _conditional_law(model, chain)
    _excess(model, chain)
    for moment in model.moments():
        _one_token(model, chain, moment, formula)
    equations = {s: e for s, e in chain.results.items() if s in _TABLE}
    record = _record(model, equations, formula)
    title = f"Risk at any overlaps, {kind} weights {formula}, {task.replace('_', ' ')} task"
    return chain.conclude(title, PAPER, record)


def _used_in(chain: Chain, *expressions: sp.Expr) -> tuple[sp.Expr, ...]:
    """Symbols defined so far that stand in the expressions."""
    free = set().union(*[e.free_symbols for e in expressions])
    return tuple(s for s in chain.results if s in free)


def _closed(chain: Chain) -> Callable[..., sp.Expr]:
    """Slopes, covariances and lengths as they are known now put into an expression: for numerical checks."""
    known = {s: e for s, e in chain.results.items() if s != EXCESS}

    def concrete(expression: sp.Expr, _length: int = 0) -> sp.Expr:
        for _ in range(3):  # slopes stand in covariances, lengths in slopes
            expression = expression.xreplace(known)
        return expression

    return concrete


# ------------------------------------------------------------------------------------ law of label and value


def _conditional_law(model: Model, chain: Chain) -> None:
    """Slopes and covariances of label and value of a token given its fields."""
    for symbol, (length, meaning) in model.lengths.items():
        chain.define(symbol, length, meaning)
    token, one = replace(model, task="max").components, sp.Integer(1)  # without the shift of the hidden token
    score, label, value = token.score(one), token.label(one), token.value(one)
    point = _ALONG if model.is_aligned else _GENERAL

    def law(symbol: sp.Symbol, product: sp.Expr, rhs: sp.Expr) -> None:
        chain.define(symbol, TokenExpectation(product, token.families, 1), _TABLE[symbol].meaning)
        reason = "Wick's theorem: the components of a token are independent standard Gaussians"
        check = verified(point, digits=12, concrete=_closed(chain))
        chain.add(symbol, "average over a token", rhs, reason, check, _used_in(chain, product, rhs))

    if model.is_aligned:
        law(S_22, (value - M_VK * TOKEN_FIELD[1]) ** 2, Q_V - M_VK**2)
    else:
        unit = score / sp.sqrt(Q_K)
        law(VALUE_SLOPE, value * unit, Q_KV / sp.sqrt(Q_K))
        law(S_22, (value - VALUE_SLOPE * unit) ** 2, Q_V - VALUE_SLOPE**2)
        if model.task == "spiked":
            law(LABEL_SLOPE, label * unit, M_KV / sp.sqrt(Q_K))
            rests = (label - LABEL_SLOPE * unit) * (value - VALUE_SLOPE * unit)
            law(S_12, rests, M_V - LABEL_SLOPE * VALUE_SLOPE)
        else:
            x, length = TOKEN_FIELD[1], aligned_length(False)
            eta = (score - M_K * x) / length
            law(LABEL_SLOPE, label * eta, M_KV / length)
            law(REST_SLOPE, value * eta, (Q_KV - M_K * M_VK) / length)
            rests = (label - LABEL_SLOPE * eta) * (value - M_VK * x - REST_SLOPE * eta)
            law(S_12, rests, M_V - LABEL_SLOPE * REST_SLOPE)
    if model.kind == "normalized":
        shift = sp.sqrt(NU) if model.task == "spiked" else sp.Integer(0)
        single = (1 - M_V) ** 2 + (Q_V - M_V**2) + M_VK**2 * shift**2
        law(SINGLE, (label - value - M_VK * shift) ** 2, single)


# ------------------------------------------------------------------------------------ the risk in its moments


def _excess(model: Model, chain: Chain) -> None:
    """The excess risk, from its definition to its moments."""
    view, one = model.components, sp.Integer(1)
    where, label, value = model.location(PROBABILITY[1]), view.label(one), view.value(one)
    outputs = others(lambda i: WEIGHT[i] * view.value(i))
    output = WEIGHT[1] * value + outputs

    def average(integrand: sp.Expr) -> TokenExpectation:
        return TokenExpectation(integrand, view.families, LENGTH)

    _define_weights(model, chain)
    meaning = "excess risk E(z*_eps - sum_l sigma_l z_l)^2, token 1 the hidden one"
    chain.define(EXCESS, average(where * (label - output) ** 2), meaning)
    for moment in model.moments():
        integrand = moment.integrand(lambda i: WEIGHT[i], where)
        expression = TokenExpectation(integrand, moment.view.families, LENGTH)
        chain.define(moment.symbol, expression, _TABLE[moment.symbol].meaning)
    point = _ALONG if model.is_aligned else _GENERAL
    concrete = _polynomial_weights(model, chain)
    check = verified(point, {**point, "L": 3}, digits=12, concrete=concrete)
    if model.is_missing:
        wrong = value * others(lambda i: WEIGHT[i]) - outputs
        reason = "the weights sum to 1: the output is the value of the hidden token less what the others take"
        chain.add(EXCESS, "weights of the wrong tokens", average((label - value + wrong) ** 2), reason, check)
    else:
        multiplied = 1 - 2 * average(where * label * output) + average(output**2)
        reason = (
            "the label has variance 1 wherever it is; the output does not depend on the location, whose "
            "probabilities sum to 1"
        )
        chain.add(EXCESS, "square multiplied out", multiplied, reason, check)
    reason = (
        "given the fields that weights and location depend on, label and value are Gaussian with linear means "
        "and the covariance S, independent over tokens; Wick's theorem for what is left of them"
    )
    chain.add(EXCESS, "given the scores", model.excess(), reason, check, _used_in(chain, model.excess()))


def _define_weights(model: Model, chain: Chain) -> None:
    """What the abstract weight, and probability of the location, of token 1 stand for."""
    view, one = model.components, sp.Integer(1)
    weight = model.token_weight(view)(one) / model.total(view)
    chain.define(WEIGHT[1], weight, "attention weight of token 1; those of the others are alike")
    if model.task != "spiked":
        numerator, evidence = model.probability()
        chain.define(PROBABILITY[1], numerator / evidence, "probability that the location is token 1")


def _polynomial_weights(model: Model, chain: Chain) -> Callable[..., sp.Expr]:
    """Makes what holds for all weights concrete: polynomials as weights and probabilities, averaged exactly."""
    views = {v.families: v for v in (model.by_score, model.by_location, model.components)}
    above = (LENGTH - 1) * TOKEN_FIELD[1] - others(lambda i: TOKEN_FIELD[i])
    moments = {m.symbol: chain.results[m.symbol] for m in model.moments()}
    closed = _closed(chain)

    def concrete(expression: sp.Expr, _length: int = 0) -> sp.Expr:
        expression = expression.xreplace(moments)
        return closed(expression.replace(lambda e: isinstance(e, TokenExpectation), weighted))

    def weighted(node: TokenExpectation) -> sp.Expr:
        score = views[tuple(node.families)].score

        def weight(index: sp.Basic) -> sp.Expr:
            if model.is_missing and index == 1:
                return 1 - others(weight)
            return sp.Rational(1, 5) + score(index) / 7

        return node.with_integrand(_with_weights(node.integrand, weight, 1 / LENGTH + above / 9))

    return concrete


def _with_weights(integrand: sp.Expr, weight: Callable[[sp.Basic], sp.Expr], probability: sp.Expr) -> sp.Expr:
    """Abstract weights and probabilities replaced."""
    found = integrand.replace(
        lambda e: isinstance(e, sp.Indexed) and e.base == WEIGHT, lambda e: weight(e.indices[0])
    )
    return found.xreplace({PROBABILITY[1]: probability})


# ------------------------------------------------------------------------------------ one-token integrals


def _one_token(model: Model, chain: Chain, moment: Moment, formula: str) -> None:
    """Weights inserted, a Laplace variable for each denominator, independence of the tokens, the formula."""
    view, symbol = moment.view, moment.symbol
    total, weight = model.total(view, moment.first), model.token_weight(view)
    numerator, evidence = model.probability() if moment.is_located else (sp.Integer(1), sp.Integer(1))

    def insert(node: TokenExpectation) -> sp.Expr:
        integrand = _with_weights(node.integrand, lambda i: weight(i) / total, numerator / evidence)
        return expand_token_sums(_constants_in_front(node.with_integrand(integrand)))

    product = moment.integrand(weight, model.location(numerator)) / (total**moment.power * evidence)
    inserted = expand_token_sums(TokenExpectation(product, view.families, LENGTH))
    given = (WEIGHT[1], *([PROBABILITY[1]] if moment.is_located and model.task != "spiked" else []))
    chain.add(symbol, "weights inserted", inserted, _INSERTED, proved(insert), given)

    # every average of the max task has variables of its own: what matters of them differs
    is_apart = model.task != "spiked" and not moment.is_located
    denominators = {d: t for d, t in ((total, R if is_apart else T), (evidence, S)) if d != 1}
    laplace = laplace_denominators(inserted, denominators) if denominators else inserted
    names = {TOKEN_FIELD: SCORE if is_apart else FIELD, TOKEN_ETA: ETA, TOKEN_SCORE: SCORE}
    one_token = _apart_below(factorize_tokens(laplace, {f: names[f] for f in view.families}, BELOW))
    reason = _REASON["max_infinite" if moment.is_located and model.task == "max_infinite" else ""]
    point = {**_GENTLE, "L": 3 if model.task == "spiked" else 2}
    check = verified(point, left="legendre", right="trapezoid", concrete=_gentle)
    chain.add(symbol, "one-token averages", one_token, reason, check)
    closed = _with_formula(formula)
    chain.add(symbol, "formula", closed(one_token), "kernel or activation inserted", proved(closed))


def _apart_below(expression: sp.Expr) -> sp.Expr:
    """The orthogonal field of tokens below the largest one under a name of its own."""

    def renamed(node: Expectation) -> sp.Expr:
        return Expectation(node.integrand.xreplace({ETA: ETA_BELOW}), [ETA_BELOW])

    return expression.replace(
        lambda e: isinstance(e, TruncatedExpectation),
        lambda e: e.replace(lambda inner: isinstance(inner, Expectation), renamed),
    )


_INSERTED = "the definition of the weights, products of sums over tokens multiplied out"
_REASON = {
    "": "A^-p = int t^(p-1) exp(-tA) dt / Gamma(p) for every denominator A, then independence of the tokens",
    "max_infinite": "Laplace variable for the denominator; given the largest field the others are independent, "
    "standard Gaussians below it",
}


def _gentle(expression: sp.Expr, _length: int = 0) -> sp.Expr:
    """Exponential kernel and likelihood, and a smooth activation."""
    expression = expression.replace(LIKELIHOOD, lambda x: sp.exp(NU * x)).replace(KERNEL, sp.exp)
    return expression.replace(SIGMA, lambda u: 1 + sp.tanh(u))


def _with_formula(formula: str) -> Callable[[sp.Expr], sp.Expr]:
    """Inserts a user's formula, given as text in x, and the exponential likelihood."""
    from theorykit.formula import parse

    variable = sp.Symbol("x", real=True)
    expression = parse(formula).to_sympy(variable)

    def insert(node: sp.Expr) -> sp.Expr:
        node = node.replace(LIKELIHOOD, lambda x: sp.exp(NU * x))
        for function in (KERNEL, SIGMA):
            node = node.replace(function, lambda argument: expression.xreplace({variable: argument}))
        return node

    return insert


def _constants_in_front(expression: sp.Expr) -> sp.Expr:
    """Factors of a summand that do not depend on the index of the sum, moved in front of it."""

    def rule(node: DistinctSum) -> sp.Expr:
        inside, outside = sp.Integer(1), sp.Integer(1)
        for factor in sp.Mul.make_args(node.integrand):
            if factor.free_symbols & set(node.indices):
                inside *= factor
            else:
                outside *= factor
        return outside * node.with_integrand(inside)

    return expression.replace(lambda e: isinstance(e, DistinctSum), rule)


# ------------------------------------------------------------------------------------ the record


def _record(model: Model, equations: dict[sp.Symbol, sp.Expr], formula: str) -> Equations:
    observables = {EXCESS.name: equations.pop(EXCESS)}
    if SINGLE in equations:
        observables[SINGLE.name] = equations[SINGLE]
    used = set().union(*[e.free_symbols for e in (*equations.values(), *observables.values())])
    parameters = [s for s in (NU, LENGTH, M_K, Q_K, M_V, Q_V, SHIFT) if s in used]
    cross = [s for s in (M_KV, M_VK, Q_KV) if s in used]
    notation = NOTATION["spiked" if model.task == "spiked" else "max"]
    return Equations(
        f"single_location.off_manifold.{model.task}.{model.kind}",
        quantities(*parameters, extra=(*(_TABLE[s] for s in (*cross, *equations, EXCESS)), *notation)),
        equations,
        observables,
        limits=_limits(model),
        breakpoints=_breakpoints(model, formula),
    )


def _breakpoints(model: Model, formula: str) -> dict[sp.Symbol, tuple[sp.Expr, ...]]:
    """Fields at which a score sits on a kink of the formula."""
    from theorykit.formula import parse

    kinks = [sp.Float(k, 17) - (SHIFT if model.is_shifted else 0) for k in parse(formula).kinks()]
    if not kinks:
        return {}
    scale = M_K if model.is_aligned else sp.sqrt(Q_K)
    shifts = (sp.Integer(0), *([sp.sqrt(NU) * M_K] if model.task == "spiked" else []))
    at = tuple((kink - shift) / scale for kink in kinks for shift in shifts)
    return dict.fromkeys((FIELD, SCORE) if model.is_aligned else (SCORE,), at)


def _limits(model: Model) -> tuple[Limit, ...]:
    key = {"nu": 1, "L": 4, "m_k": sp.Rational(1, 2), "q_k": 1, "m_kv": sp.Rational(1, 3), "shift": 0}
    none = {"m_v": 0, "q_v": 0, "m_vk": 0, "q_kv": 0}
    silent = Limit(
        EXCESS.name, {**key, **none}, sp.Integer(1), "v = 0: the output is 0, the label has variance 1"
    )
    if model.kind == "elementwise" or not model.is_aligned:
        return (silent,)
    at = {"nu": 1, "L": 4, "m_k": 0, "m_v": sp.Rational(1, 4), "q_v": 1, "m_vk": sp.Rational(1, 2)}
    shifted = sp.Rational(1, 64) if model.task == "spiked" else sp.Integer(0)
    uniform = Limit(EXCESS.name, at, sp.Rational(9, 8) + shifted, "k = 0: uniform weights 1/L")
    return (silent, uniform)
