r"""Moments of attention weights as low-dimensional integrals, at any length.

Setting: scores chi_l of the tokens at overlaps m_k, q_k: spiked chi_l = sqrt(q_k) x_l, the hidden one shifted by
sqrt(nu) m_k; max chi_l = m_k x_l + sqrt(q_k - m_k^2) eta_l with the location drawn from p = softmax(nu x), or the
argmax of x at nu = inf. Results: E(1 - sigma_eps), E(1 - sigma_eps)^2 and E sum_{l != eps} sigma_l^2 for normalized
weights b(chi_l)/sum b; A, E sigma_eps^2, E(1 - m_v sigma_eps)^2 and the last for elementwise ones sigma(chi_l).
One Laplace variable per denominator makes the tokens independent; the ranking of the tokens at nu = inf is handled
by conditioning on the largest. Sources: arXiv 2509.21936 for the moments, the integrals are ours.

The rewritings do not depend on the kernel: they are checked with exponential (or tanh) weights, and the kernel is
inserted in the last step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

from theorykit.derivations.laplace import expand_token_sums, factorize_tokens, laplace_denominators
from theorykit.derivations.ledger import Definition, Derivation, Equations, Limit, Step, proved, verified
from theorykit.derivations.nodes import HalfLine, Largest, TokenExpectation
from theorykit.derivations.single_location.risk import (
    LEAK,
    MEAN,
    MISS,
    MISS_SQUARE,
    MOMENTS,
    POWER,
    RESIDUAL,
)
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
    SHIFT,
    TOKEN_ETA,
    TOKEN_FIELD,
    S,
    T,
    aligned_length,
    others,
    pairs,
    quantities,
)
from theorykit.derivations.steep import over_hidden_field, over_weights, rescaled

__all__ = ["derive_elementwise_moments", "derive_normalized_moments"]

KERNEL = sp.Function("b", positive=True)
SIGMA = sp.Function("sigma", real=True)
LIKELIHOOD = sp.Function("a", positive=True)
TASKS = ("spiked", "max", "max_infinite")

Concrete = Callable[..., sp.Expr]

_LONG_KEY = {"nu": 0.9, "L": 2, "m_k": 0.8, "q_k": 1.6}


@dataclass(frozen=True)
class _Model:
    """Scores and law of the tokens of one task; ``is_aligned`` for a key along k*.

    With ``score_first`` the field x is that along k instead of k*, so that a kink of the kernel stays where it is
    in x whatever the other field; only for the max task at finite nu.
    """

    task: str
    is_aligned: bool
    score_first: bool = False

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ValueError(f"task must be one of {TASKS}, got {self.task!r}")

    def score(self, index: sp.Basic) -> sp.Expr:
        if self.task == "spiked":
            return sp.sqrt(Q_K) * TOKEN_FIELD[index] + (sp.sqrt(NU) * M_K if index == 1 else 0)
        if self.score_first:
            return sp.sqrt(Q_K) * TOKEN_FIELD[index]
        return M_K * TOKEN_FIELD[index] + aligned_length(self.is_aligned) * TOKEN_ETA[index]

    @property
    def families(self) -> tuple[sp.IndexedBase, ...]:
        one_field = self.task == "spiked" or self.is_aligned
        return (TOKEN_FIELD,) if one_field else (TOKEN_FIELD, TOKEN_ETA)

    def average(self, integrand: sp.Expr) -> TokenExpectation:
        return TokenExpectation(integrand, self.families, LENGTH)

    def likelihood(self, index: sp.Basic) -> sp.Expr:
        if self.score_first:
            along, across = M_K / sp.sqrt(Q_K), sp.sqrt(1 - M_K**2 / Q_K)
            return LIKELIHOOD(along * TOKEN_FIELD[index] + across * TOKEN_ETA[index])
        return LIKELIHOOD(TOKEN_FIELD[index])

    @property
    def evidence(self) -> sp.Expr:
        """Denominator of the location probabilities of the max task."""
        return others(self.likelihood, first=1)

    def hidden(self, of_token: Callable[[sp.Basic], sp.Expr]) -> sp.Expr:
        """Integrand whose average over the tokens is the average of a function of the hidden token."""
        one = sp.Integer(1)
        if self.task == "spiked":
            return of_token(one)
        if self.task == "max_infinite":
            return LENGTH * Largest(TOKEN_FIELD, 1) * of_token(one)
        return others(lambda i: self.likelihood(i) * of_token(i), first=1) / self.evidence

    def hidden_and(self, count: int, product: Callable[..., sp.Expr], over: sp.Expr) -> sp.Expr:
        """The same for the sum of product(eps, l, ...) over ``count`` further distinct tokens, over a power."""
        one = sp.Integer(1)
        if self.task == "max":
            total = pairs(lambda i, *rest: self.likelihood(i) * product(i, *rest), count + 1)
            return total / (self.evidence * over)
        summed = pairs(lambda *rest: product(one, *rest), count, first=2) if count else product(one)
        return self.hidden(lambda _: summed / over) if count else self.hidden(lambda _: product(one) / over)

    def names(self) -> dict[sp.IndexedBase, sp.Symbol]:
        return {f: {TOKEN_FIELD: FIELD, TOKEN_ETA: ETA}[f] for f in self.families}

    def factorized(self, average: TokenExpectation, denominators: dict[sp.Expr, sp.Symbol]) -> sp.Expr:
        laplace = laplace_denominators(average, denominators) if denominators else average
        return factorize_tokens(laplace, self.names(), BELOW)

    @property
    def point(self) -> dict[str, object]:
        """Where the rewritings are checked: two tokens, a gentle kernel."""
        general = {"nu": 0.9, "L": 2, "m_k": 0.8, "m_v": 0.6, "shift": 0.2}
        return general if self.is_aligned else {**general, "q_k": 1.1}


def _checked_with(function: sp.Function, concrete: Callable[[sp.Expr], sp.Expr]) -> Concrete:
    """Make the kernel and the likelihood of the max task concrete, for numerical checks."""

    def replace(expression: sp.Expr, _length: int = 0) -> sp.Expr:
        likely = expression.replace(LIKELIHOOD, lambda x: sp.exp(NU * x))
        return likely.replace(function, concrete)

    return replace


def _inserted(function: sp.Function, formula: str) -> Concrete:
    """Insert a user's kernel, given as text in x, and the exponential likelihood."""
    from theorykit.formula import parse

    variable = sp.Symbol("x", real=True)
    expression = parse(formula).to_sympy(variable)
    return _checked_with(function, lambda argument: expression.xreplace({variable: argument}))


def _model(task: str, aligned: bool, formula: str) -> _Model:
    from theorykit.formula import parse

    is_aligned = aligned and task != "spiked"
    return _Model(task, is_aligned, task == "max" and not is_aligned and bool(parse(formula).kinks()))


def _breakpoints(model: _Model, formula: str, shift: sp.Expr) -> dict[sp.Symbol, tuple[sp.Expr, ...]]:
    """Fields at which a score sits on a kink of the formula."""
    from theorykit.formula import parse

    kinks = [sp.Float(k, 17) for k in parse(formula).kinks()]
    if not kinks or not (model.task == "spiked" or model.is_aligned or model.score_first):
        return {}
    if model.task == "spiked":
        at = [(k - shift) / sp.sqrt(Q_K) for k in kinks]
        at += [(k - shift - sp.sqrt(NU) * M_K) / sp.sqrt(Q_K) for k in kinks]
    elif model.score_first:
        at = [(k - shift) / sp.sqrt(Q_K) for k in kinks]
    else:
        at = [(k - shift) / M_K for k in kinks]
    return {FIELD: tuple(at)}


def _chain(
    model: _Model,
    symbol: sp.Symbol,
    definition: TokenExpectation,
    form: tuple[TokenExpectation, str] | None,
    denominators: dict[sp.Expr, sp.Symbol],
    concrete: Concrete,
    insert: Concrete,
) -> tuple[tuple[Definition, ...], tuple[Step, ...], sp.Expr]:
    """Definition -> form without cancellation -> one-token averages -> the kernel inserted."""
    steps: list[Step] = []
    current, premise = definition, symbol.name
    label = symbol.name.replace("_", " ")

    def add(name: str, rhs: sp.Expr, reason: str, check: object) -> None:
        nonlocal current, premise
        steps.append(Step(f"{name} ({label})", current, rhs, (premise,), reason, check))  # type: ignore[arg-type]
        current, premise = rhs, steps[-1].name

    check = verified(model.point, concrete=concrete)
    if form is not None:
        add("form without cancellation", form[0], form[1], check)
    expanded = expand_token_sums(current)
    if expanded != current:
        add("sums over distinct tokens", expanded, "products of sums over tokens multiplied out", check)
    add("one-token averages", model.factorized(current, denominators), _REASON[model.task], check)
    add("kernel", insert(current), "the activation inserted", proved(insert))
    return (Definition(symbol, definition, MOMENTS[symbol].meaning),), tuple(steps), current


_REASON = {
    "spiked": "A^-p = int t^(p-1) exp(-tA) dt / Gamma(p), then independence of the tokens",
    "max": "one Laplace variable for each denominator, then independence of the tokens",
    "max_infinite": "Laplace variable for the denominator; given the largest field the others are independent, "
    "standard Gaussians below it",
}


def derive_normalized_moments(
    task: str = "spiked", kernel: str = "exp(x)", aligned: bool = False, steep: bool = False
) -> Derivation:
    """Moments of b(chi_l)/sum_m b(chi_m): "miss", "miss_square", "leak" in nu, L, m_k (and q_k).

    ``steep``: a form for long keys, for the spiked task and the kernel exp(x), which needs q_k > 0, or for strong
    signals of the max task, which needs nu > 0.
    """
    model = _model(task, aligned, kernel)
    if steep and task != "max" and (task, kernel) != ("spiked", "exp(x)"):
        raise ValueError(f"steep needs the max task, or spiked and exp(x), got {task!r} and {kernel!r}")

    def b(i: sp.Basic) -> sp.Expr:
        return KERNEL(model.score(i))

    if task == "max":
        total = others(b, first=1)
    else:
        total = b(sp.Integer(1)) + others(b)
    weight = lambda i: b(i) / total  # noqa: E731
    denominators = {total: T} | ({model.evidence: S} if task == "max" else {})
    moments = {
        MISS: (
            model.hidden(lambda i: 1 - weight(i)),
            model.hidden_and(1, lambda _, j: b(j), total),
            "the weights sum to 1: what the hidden token misses lies on the others",
        ),
        MISS_SQUARE: (
            model.hidden(lambda i: (1 - weight(i)) ** 2),
            model.hidden_and(1, lambda _, j: b(j) ** 2, total**2)
            + model.hidden_and(2, lambda _, j, k: b(j) * b(k), total**2),
            "the square of the sum over the other tokens",
        ),
        LEAK: (
            _leak(model, weight),
            model.hidden_and(1, lambda _, j: b(j) ** 2, total**2),
            "written over tokens",
        ),
    }
    concrete, insert = _checked_with(KERNEL, sp.exp), _inserted(KERNEL, kernel)
    definitions, steps, equations = (), (), {}
    for symbol, (definition, form, reason) in moments.items():
        more, chain, final = _chain(
            model,
            symbol,
            model.average(definition),
            (model.average(form), reason),
            denominators,
            concrete,
            insert,
        )
        if steep:
            chain, final = (_over_hidden_field if task == "max" else _over_weights)(model, chain, symbol)
        definitions, steps, equations[symbol] = (*definitions, *more), (*steps, *chain), final
    record = _record(
        f"single_location.normalized_moments.{task}",
        equations,
        _breakpoints(model, kernel, sp.Integer(0)),
        kernel,
        steep,
    )
    title = f"Moments of normalized weights with kernel {kernel}, {task.replace('_', ' ')} task"
    return Derivation(record.name, title, PAPER, definitions, steps, record)


def _over_hidden_field(
    model: _Model, chain: tuple[Step, ...], symbol: sp.Symbol
) -> tuple[tuple[Step, ...], sp.Expr]:
    """The location as the largest of noisy fields: close to nu = inf, and the closer the larger nu is."""
    last, label = chain[-1], symbol.name.replace("_", " ")
    if not isinstance(last.rhs, HalfLine) or not last.rhs.has(S):
        return chain, last.rhs
    beside = over_hidden_field(last.rhs, NU, (FIELD, BELOW))
    step = Step(
        f"noisy field of the hidden token ({label})", last.rhs, beside, (last.name,),
        "s = exp(-nu x): the hidden token has the largest chi* + Gumbel noise/nu, the noise is integrated by parts",
        verified({**model.point, "nu": 3}, slow=symbol != MISS),
    )  # fmt: skip
    return (*chain, step), beside


def _over_weights(
    model: _Model, chain: tuple[Step, ...], symbol: sp.Symbol
) -> tuple[tuple[Step, ...], sp.Expr]:
    """The weight of a token as the variable, and a Laplace variable whose range does not grow with the key."""
    del model
    last, label = chain[-1], symbol.name.replace("_", " ")
    weights = over_weights(last.rhs, T)
    scaled = rescaled(weights, sp.sqrt(Q_K))
    check = verified(_LONG_KEY, {**_LONG_KEY, "L": 3})
    names = [f"{name} ({label})" for name in ("weights as variables", "scaled Laplace variable")]
    more = (
        Step(names[0], last.rhs, weights, (last.name,),
             "the weight u = t b(chi) of a token instead of its field; E e^-u by parts", check),
        Step(names[1], weights, scaled, (names[0],),
             "t = r^sqrt(q_k): r spans what the fields span, however long the key is", check),
    )  # fmt: skip
    return (*chain, *more), scaled


def _leak(model: _Model, weight: Callable[[sp.Basic], sp.Expr]) -> sp.Expr:
    """E sum of sigma_l^2 over the tokens other than the hidden one, as the model defines it."""
    if model.task != "max":
        summed = others(lambda i: weight(i) ** 2)
        return summed if model.task == "spiked" else LENGTH * Largest(TOKEN_FIELD, 1) * summed
    return pairs(lambda i, j: model.likelihood(i) * weight(j) ** 2, 2) / model.evidence


def derive_elementwise_moments(
    task: str = "spiked",
    activation: str = "1 + tanh(x)",
    aligned: bool = False,
    shifted: bool = False,
    steep: bool = False,
) -> Derivation:
    """Moments of sigma(chi_l): "A", "power", "leak", "residual" in nu, L, m_k, m_v (and q_k, shift).

    ``steep``: a form for strong signals of the max task, which needs nu > 0.
    """
    model = _model(task, aligned, activation)
    if steep and task != "max":
        raise ValueError(f"steep needs the max task, got {task!r}")
    shift = SHIFT if shifted else sp.Integer(0)

    def weight(i: sp.Basic) -> sp.Expr:
        return SIGMA(model.score(i) + shift)

    of_hidden = {
        MEAN: weight,
        POWER: lambda i: weight(i) ** 2,
        RESIDUAL: lambda i: (1 - M_V * weight(i)) ** 2,
    }
    denominators = {model.evidence: S} if task == "max" else {}
    concrete, insert = _checked_with(SIGMA, lambda u: 1 + sp.tanh(u)), _inserted(SIGMA, activation)
    definitions, steps, equations = (), (), {}
    integrands = {s: model.hidden(f) for s, f in of_hidden.items()} | {LEAK: _leak(model, weight)}
    for symbol, integrand in integrands.items():
        more, chain, final = _chain(
            model, symbol, model.average(integrand), None, denominators, concrete, insert
        )
        if steep:
            chain, final = _over_hidden_field(model, chain, symbol)
        definitions, steps, equations[symbol] = (*definitions, *more), (*steps, *chain), final
    record = _record(
        f"single_location.elementwise_moments.{task}",
        equations,
        _breakpoints(model, activation, shift),
        activation,
    )
    title = f"Moments of the elementwise activation {activation}, {task.replace('_', ' ')} task"
    return Derivation(record.name, title, PAPER, definitions, steps, record)


def _record(
    name: str,
    equations: dict[sp.Symbol, sp.Expr],
    breakpoints: dict[sp.Symbol, tuple[sp.Expr, ...]],
    formula: str,
    steep: bool = False,
) -> Equations:
    used = set().union(*[e.free_symbols for e in equations.values()])
    parameters = [s for s in (NU, LENGTH, M_K, Q_K, M_V, SHIFT) if s in used]
    return Equations(
        name,
        quantities(*parameters, extra=tuple(MOMENTS[s] for s in equations)),
        equations,
        {s.name: e for s, e in equations.items()},
        limits=() if steep else _limits(name, equations, formula),
        breakpoints=breakpoints,
    )


def _limits(name: str, equations: dict[sp.Symbol, sp.Expr], formula: str) -> tuple[Limit, ...]:
    """Uniform weights at k = 0, where every kernel gives 1/L."""
    if MISS not in equations or name.endswith("spiked"):
        at = {"nu": 1, "L": 4, "m_k": 0, "q_k": 0, "m_v": 1, "shift": 0}
    else:
        at = {"nu": 1, "L": 4, "m_k": 0, "q_k": 0}
    if MISS not in equations:
        return ()
    del formula
    return (
        Limit(MISS.name, at, sp.Rational(3, 4), "k = 0: uniform weights 1/L"),
        Limit(LEAK.name, at, sp.Rational(3, 16), "k = 0: uniform weights 1/L"),
    )
