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

import sympy as sp

from theorykit.derivations.joint_weights import over_joint_weights
from theorykit.derivations.laplace import expand_token_sums
from theorykit.derivations.ledger import Definition, Derivation, Equations, Limit, Step, proved, verified
from theorykit.derivations.nodes import HalfLine, TokenExpectation
from theorykit.derivations.noisy_score import over_noisy_field
from theorykit.derivations.single_location.moments_model import (
    KERNEL,
    SIGMA,
    Concrete,
    TokenModel,
    breakpoints,
    checked_with,
    inserted,
    leak,
    model_of,
)
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
    S,
    T,
    others,
    quantities,
)
from theorykit.derivations.steep import over_hidden_field, over_weights, rescaled

__all__ = ["derive_elementwise_moments", "derive_normalized_moments"]

_LONG_KEY = {"nu": 0.9, "L": 2, "m_k": 0.8, "q_k": 1.6}
# where both sides of a step to strong signals have many digits: with and without weights to normalize
_STRONG, _STRONG_PLAIN = {"nu": 4, "q_k": 1.3}, {"nu": 3, "q_k": 1}


def _chain(
    model: TokenModel,
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
    task: str = "spiked",
    kernel: str = "exp(x)",
    aligned: bool = False,
    steep: bool = False,
    joint: str = "",
) -> Derivation:
    """Moments of b(chi_l)/sum_m b(chi_m): "miss", "miss_square", "leak" in nu, L, m_k (and q_k).

    ``steep``: a form for long keys, for the spiked task and the kernel exp(x), which needs q_k > 0, or for strong
    signals of the max task, which needs nu > 0. ``joint``: of the latter, for the kernel exp(x) and long keys along k*,
    which needs m_k > 0; "location" or "attention", the weight that becomes the variable.
    """
    model = model_of(task, aligned, kernel, steep)
    if steep and task != "max" and (task, kernel) != ("spiked", "exp(x)"):
        raise ValueError(f"steep needs the max task, or spiked and exp(x), got {task!r} and {kernel!r}")
    if joint and not (steep and model.is_aligned and kernel == "exp(x)" and joint in _JOINT):
        raise ValueError(f"joint must be one of {tuple(_JOINT)} for steep, aligned, exp(x), got {joint!r}")

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
            leak(model, weight),
            model.hidden_and(1, lambda _, j: b(j) ** 2, total**2),
            "written over tokens",
        ),
    }
    concrete, insert = checked_with(KERNEL, sp.exp), inserted(KERNEL, kernel)
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
            if joint:
                chain, final = _over_joint_weights(joint, chain, symbol)
            else:
                chain, final = (_over_hidden_field if task == "max" else _over_weights)(model, chain, symbol)
        definitions, steps, equations[symbol] = (*definitions, *more), (*steps, *chain), final
    record = _record(
        f"single_location.normalized_moments.{task}",
        equations,
        breakpoints(model, kernel, sp.Integer(0)),
        kernel,
        steep,
    )
    title = f"Moments of normalized weights with kernel {kernel}, {task.replace('_', ' ')} task"
    return Derivation(record.name, title, PAPER, definitions, steps, record)


def _over_hidden_field(
    model: TokenModel, chain: tuple[Step, ...], symbol: sp.Symbol
) -> tuple[tuple[Step, ...], sp.Expr]:
    """The location as the largest of noisy fields: close to nu = inf, and the closer the larger nu is."""
    last, label = chain[-1], symbol.name.replace("_", " ")
    if not isinstance(last.rhs, HalfLine) or not last.rhs.has(S):
        return chain, last.rhs
    if model.score_first:
        given = over_noisy_field(last.rhs, NU, (FIELD, ETA, BELOW))
        step = Step(
            f"noisy field of the hidden token ({label})", last.rhs, given, (last.name,),
            "s = exp(-nu y): the hidden token has the largest chi* + Gumbel noise/nu, called y; given it, the field "
            "orthogonal to the score is integrated",
            verified({**model.point, **(_STRONG if last.rhs.has(T) else _STRONG_PLAIN)},
                     slow=symbol not in (MISS, MEAN)),
        )  # fmt: skip
        return (*chain, step), given
    beside = over_hidden_field(last.rhs, NU, (FIELD, BELOW))
    step = Step(
        f"noisy field of the hidden token ({label})", last.rhs, beside, (last.name,),
        "s = exp(-nu x): the hidden token has the largest chi* + Gumbel noise/nu, the noise is integrated by parts",
        verified({**model.point, "nu": 3}, slow=symbol != MISS),
    )  # fmt: skip
    return (*chain, step), beside


_JOINT = {"location": {S: NU, T: M_K}, "attention": {T: M_K, S: NU}}


def _over_joint_weights(
    first: str, chain: tuple[Step, ...], symbol: sp.Symbol
) -> tuple[tuple[Step, ...], sp.Expr]:
    """Location and attention weights, steep in the same field, by one of them as the variable."""
    last, label = chain[-1], symbol.name.replace("_", " ")
    joint = over_joint_weights(last.rhs, _JOINT[first], S, FIELD)
    signal, key = (3, "3/2") if first == "location" else ("3/2", 3)
    step = Step(
        f"weights as variables ({label})", last.rhs, joint, (last.name,),
        f"Laplace variable of the {first} weight w as a noisy field y, that of the other one by its weight at y",
        verified({"nu": signal, "L": 3, "m_k": key}, slow=symbol != MISS),
    )  # fmt: skip
    return (*chain, step), joint


def _over_weights(
    model: TokenModel, chain: tuple[Step, ...], symbol: sp.Symbol
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
    model = model_of(task, aligned, activation, steep)
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
    concrete, insert = checked_with(SIGMA, lambda u: 1 + sp.tanh(u)), inserted(SIGMA, activation)
    definitions, steps, equations = (), (), {}
    integrands = {s: model.hidden(f) for s, f in of_hidden.items()} | {LEAK: leak(model, weight)}
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
        breakpoints(model, activation, shift),
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
    """Uniform weights 1/L at k = 0, by every kernel that does not vanish at zero."""
    from theorykit.formula import parse

    if MISS not in equations or name.endswith("spiked"):
        at = {"nu": 1, "L": 4, "m_k": 0, "q_k": 0, "m_v": 1, "shift": 0}
    else:
        at = {"nu": 1, "L": 4, "m_k": 0, "q_k": 0}
    if MISS not in equations or parse(formula).to_sympy(sp.Integer(0)) == 0:
        return ()
    return (
        Limit(MISS.name, at, sp.Rational(3, 4), "k = 0: uniform weights 1/L"),
        Limit(LEAK.name, at, sp.Rational(3, 16), "k = 0: uniform weights 1/L"),
    )
