r"""From the replica-symmetric action of regularized empirical risk minimization to its saddle-point equations.

Setting: N = alpha D samples, each of one or more tokens in D dimensions; trainable vectors a of R^D act on the tokens
through their fields x_a[l] = X_l.a/sqrt(D), and minimize sum over samples of loss(label, fields) plus a separable
regularizer. Each vector has a hidden direction with fields z_a[l]; the law of the data is a density ``tilt`` times
independent standard Gaussian fields. A :class:`Problem` declares this, :func:`derive_saddle_point` derives

* the action  sum_a [m m^ - q V^/2 + V q^/2] + alpha E min_x[loss + |x - omega|^2/(2V)] + prior terms,
  with omega = m z + sqrt(q - m^2) eta: *assumed* (replica symmetry, limit of zero temperature);
* q^, V^, m^ (channel) and m, q, V (prior) from its stationarity, by the envelope theorem: verified;
* integration by parts to the forms that solvers use, and closed forms where everything is quadratic.

Losses carry whatever factor they are declared with (1/2 is not added); the objective is per dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import sympy as sp

from theorykit.derivations.gaussian import wick
from theorykit.derivations.ledger import (
    Check,
    Definition,
    Derivation,
    Equations,
    Quantity,
    Step,
    assumed,
    verified,
)
from theorykit.derivations.nodes import DistinctSum, Expectation, TokenExpectation
from theorykit.derivations.problem import (
    ALPHA,
    FIELD_NOISE,
    TRUTH,
    Prior,
    Problem,
    Vector,
    over_tokens,
    ridge,
)
from theorykit.derivations.proximal import AtProximal, Moreau, solve_quadratic
from theorykit.derivations.tensor import expand_sums
from theorykit.errors import DerivationError

__all__ = ["ALPHA", "TRUTH", "Prior", "Problem", "Vector", "derive_saddle_point", "over_tokens", "ridge"]

ENERGY, TRAIN = sp.Symbol("objective", real=True), sp.Symbol("train_loss", real=True)
_LEAST, _LEAST_LOSS = sp.symbols("least_objective least_loss", real=True)
REPLICA_SYMMETRY = (
    "replica symmetry and the limit of zero temperature: proved for convex losses by Gaussian comparison "
    "(Thrampoulidis, Abbasi, Hassibi 2018; Loureiro et al. 2021), used as an approximation where the loss is not convex"
)
Form = Callable[[sp.Expr], sp.Expr]


@dataclass(frozen=True)
class _Line:
    """An order parameter: what stationarity of the action says it is, and the same by the envelope theorem."""

    symbol: sp.Symbol
    partner: sp.Symbol
    stationary: Form
    envelope: sp.Expr


def _lines(problem: Problem, a: Vector) -> tuple[_Line, ...]:
    """Stationarity in V, q, m (channel) and in the conjugates q^, m^, V^ (prior)."""

    def tokens(summand: Callable[[sp.Basic], sp.Expr]) -> sp.Expr:
        quantity = over_tokens(summand, problem.length)
        return ALPHA * problem.average(problem.at_minimum(quantity))

    def pulled(i: sp.Basic) -> sp.Expr:
        return a.response(i) * (a.truth[i] - a.m * a.noise[i] / a.spread)

    w, root = a.weight, sp.sqrt(a.q_hat)
    return (
        _Line(a.q_hat, a.V, lambda d: a.q_hat - 2 * d, tokens(lambda i: a.response(i) ** 2)),
        _Line(
            a.V_hat,
            a.q,
            lambda d: a.V_hat + 2 * d,
            tokens(lambda i: -a.response(i) * a.noise[i] / a.spread),
        ),
        _Line(a.m_hat, a.m, lambda d: a.m_hat - d, tokens(pulled)),
        _Line(
            a.V,
            a.q_hat,
            lambda d: a.V - 2 * d,
            problem.at_component(a, lambda _: FIELD_NOISE * w / root),
        ),
        _Line(a.m, a.m_hat, lambda d: a.m - d, problem.at_component(a, lambda t: t * w)),
        _Line(a.q, a.V_hat, lambda d: a.q + 2 * d, problem.at_component(a, lambda _: w**2)),
    )


def derive_saddle_point(problem: Problem) -> Derivation:
    """Saddle-point equations of a problem: m, q, V and conjugates of every vector, ``objective``, ``train_loss``.

    The equations of m, q, V are in closed form where the regularizer is quadratic, those of the conjugates where the
    loss is; otherwise they hold the proximal problem itself.
    """
    if not problem.vectors:
        raise DerivationError(f"problem {problem.name} has no trainable vector")
    action, check = problem.action(), _check(problem)
    definitions = [Definition(ENERGY, _LEAST, "least objective per dimension, D -> inf at N = alpha D")]
    steps = [
        Step("replica-symmetric action", _LEAST, action, (ENERGY.name,),
             "replicas of the minimizer, all overlaps between them equal; beta -> inf", assumed(REPLICA_SYMMETRY)),
    ]  # fmt: skip
    equations: dict[sp.Symbol, sp.Expr] = {}
    for a in problem.vectors:
        for line in _lines(problem, a):
            slope = sp.Derivative(action, line.partner, evaluate=False)
            stationary = line.stationary(slope)
            meaning = f"stationarity of the action in {line.partner}"
            definitions.append(Definition(line.symbol, stationary, meaning))
            name = f"envelope theorem ({line.symbol})"
            premises = (str(line.symbol), "replica-symmetric action")
            reason = "the minimizer does not move to first order: only explicit dependence counts"
            steps.append(Step(name, stationary, line.envelope, premises, reason, check))
            equations[line.symbol] = _close(steps, line.symbol, line.envelope, check.points[0])
    objective = _averages(problem, definitions, steps, check.points[0])
    symbols = [row for a in problem.vectors for row in a.rows()]
    symbols += [Quantity(ALPHA, r"\alpha", "samples per dimension, N/D", "(0, inf)"), *problem.parameters]
    used = set().union(*[e.free_symbols for e in [*equations.values(), *objective.values()]])
    record = Equations(
        problem.name,
        tuple(row for row in symbols if row.symbol in used or row.symbol in equations),
        {},
        {str(s): e for s, e in equations.items()} | objective,
    )
    return Derivation(problem.name, problem.title, problem.source, tuple(definitions), tuple(steps), record)


def _close(steps: list[Step], symbol: sp.Symbol, envelope: sp.Expr, point: Mapping[str, float]) -> sp.Expr:
    """Carry the minimum out where it is that of a parabola, and the averages by Wick's theorem."""
    try:
        closed = envelope.replace(_is_proximal, solve_quadratic)
    except DerivationError:
        return envelope
    averaged = sp.factor(closed.replace(lambda e: isinstance(e, Expectation | TokenExpectation), _averaged))
    name = f"least squares ({symbol})"
    steps.append(
        Step(name, envelope, averaged, (steps[-1].name,),
             "a quadratic objective has a linear minimizer; Wick's theorem",
             verified(point, digits=9, concrete=lambda e, _: e.replace(_is_proximal, solve_quadratic)))
    )  # fmt: skip
    return averaged


def _averaged(node: Expectation | TokenExpectation) -> sp.Expr:
    """An average of a polynomial by Wick's theorem; of anything else, itself."""
    if isinstance(node, TokenExpectation):
        if node.has(DistinctSum) or node.length != 1:
            return node
        members = sorted(
            (i for i in node.integrand.atoms(sp.Indexed) if i.base in node.families), key=sp.default_sort_key
        )
        plain = {i: sp.Symbol(f"_g{n}", real=True) for n, i in enumerate(members)}
        variables = [*plain.values(), *[s for s in node.shared if s in node.integrand.free_symbols]]
        if not variables:
            return node.integrand
        inner = Expectation(node.integrand.xreplace(plain), variables)
        return _averaged(inner) if isinstance(inner, Expectation) and _is_polynomial(inner) else node
    return wick(node) if _is_polynomial(node) else node


def _is_polynomial(node: Expectation) -> bool:
    return bool(sp.expand(node.integrand).is_polynomial(*node.variables))


def _is_proximal(expression: sp.Basic) -> bool:
    return isinstance(expression, Moreau | AtProximal)


def _averages(
    problem: Problem, definitions: list[Definition], steps: list[Step], point: Mapping[str, float]
) -> dict[str, sp.Expr]:
    """Training loss and objective at the minimizer."""
    train = problem.average(problem.at_minimum(problem.loss))
    penalties = sp.Add(
        *[problem.at_component(a, lambda _, a=a: problem.prior(a).regularizer) for a in problem.vectors]
    )
    definitions.append(Definition(TRAIN, _LEAST_LOSS, "mean loss of the training samples at the minimizer"))
    steps.append(
        Step("loss at the proximal point", _LEAST_LOSS, train, (TRAIN.name,),
             "a sample moves the fields from omega to the proximal point", assumed(REPLICA_SYMMETRY))
    )  # fmt: skip
    found = {TRAIN.name: _close(steps, TRAIN, train, point)}
    steps.append(
        Step("value of the action", problem.action(), penalties + ALPHA * train, ("replica-symmetric action",),
             "at the saddle point the products of order parameters cancel (Legendre)",
             assumed("an identity at saddle points only; tests evaluate both sides there"))
    )  # fmt: skip
    return found | {ENERGY.name: _close(steps, ENERGY, penalties + ALPHA * train, point)}


# --------------------------------------------------------------------------- how steps are checked

_VALUES = {"m": 0.6, "q": 0.9, "V": 0.8, "m_hat": 0.7, "q_hat": 0.5, "V_hat": 0.9, "ridge": 0.4}


def _check(problem: Problem) -> Check:
    """At a generic point, with losses replaced by quadratic ones whose minimum is explicit.

    The envelope theorem does not depend on the form of the loss; the tilt is kept.
    """
    point = {f"{stem}_{a.name}": value for a in problem.vectors for stem, value in _VALUES.items()}
    point |= {"alpha": 1.3, "L": 1 if len(problem.vectors) > 1 or problem.length == 1 else 2}
    for row in problem.parameters:
        point.setdefault(row.symbol.name, 2 if row.symbol.is_integer else 0.75)
    target = sp.Add(*[a.truth[1] / (1 + i) for i, a in enumerate(problem.vectors)])

    def concrete(expression: sp.Expr, length: int) -> sp.Expr:
        if problem.length.is_Symbol:
            expression = expand_sums(expression, problem.length, length)
        return expression.replace(_is_proximal, example).doit()

    def example(node: Moreau | AtProximal) -> sp.Expr:
        scale = sp.Rational(4, 5)
        swapped = scale * (target - sp.Add(*node.places())) ** 2 / 2
        if all(isinstance(v, sp.Symbol) for v in node.variables):
            swapped = scale * sp.Add(*[p**2 for p in node.places()]) / 2
        if isinstance(node, Moreau):
            return solve_quadratic(Moreau(swapped, node.penalty, node.variables))
        return solve_quadratic(AtProximal(node.quantity, swapped, node.penalty, node.variables))

    return verified(point, digits=9, concrete=concrete)
