r"""Linear attention sigma(chi) = 1 + chi: moments and the minimal risk in closed form.

Setting: scores chi_l = m_k chi*_l + r_k eta_l with r_k^2 = q_k - m_k^2. The fields chi* are standard
Gaussians; that of the hidden token is shifted by sqrt(nu) (spiked), or the location is drawn given the
fields (max). Results: A and B, and the minimum of the excess risk 1 - 2 m_v A + q_v B over all overlaps, as
a sum of squares above the minimum. Sources: arXiv 2509.21936 for the model; the closed minima are ours. A
and B are affine in L (and, for max, in mu = E chi*_eps): at random length both stand for their means.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.gaussian import wick
from theorykit.derivations.laplace import factorize_tokens, integrate_family
from theorykit.derivations.ledger import (
    Derivation,
    Equations,
    Limit,
    Quantity,
    proved,
    verified,
)
from theorykit.derivations.minimum import AtMinimum, numerically, pointwise
from theorykit.derivations.nodes import DistinctSum, Expectation, TokenExpectation
from theorykit.derivations.single_location.hidden_field import MU, MU_ROW
from theorykit.derivations.single_location.risk import LEAK, MEAN, MOMENTS, POWER, RESIDUAL, SQUARE
from theorykit.derivations.single_location.symbols import (
    ETA,
    FIELD,
    LENGTH,
    M_K,
    M_V,
    NU,
    PAPER,
    Q_K,
    TOKEN_ETA,
    TOKEN_FIELD,
    others,
    quantities,
)

__all__ = ["derive_linear"]

R_K = sp.Symbol("r_k", nonnegative=True)  # length of the part of k orthogonal to k*
R_V = sp.Symbol("r_v", nonnegative=True)  # length of the part of v orthogonal to v*
Concrete = Callable[[sp.Expr, int], sp.Expr]
LIKELIHOOD = sp.Function("a", positive=True)
BEST_EXCESS, BEST_M_K, BEST_Q_K, BEST_M_V = (
    sp.Symbol(name, real=True) for name in ("best_excess", "best_m_k", "best_q_k", "best_m_v")
)
_ROWS = (
    Quantity(BEST_EXCESS, "E^*", "minimal excess risk of linear attention"),
    Quantity(BEST_M_K, "m_k^*", "overlap m_k at the minimum"),
    Quantity(BEST_Q_K, "q_k^*", "overlap q_k at the minimum"),
    Quantity(BEST_M_V, "m_v^*", "overlap m_v at the minimum"),
)


def derive_linear(task: str = "spiked") -> Derivation:
    """Moments and minimum: "A", "B", "best_excess", "best_m_k", "best_q_k", "best_m_v".

    Task "spiked": in nu, L (m_k, q_k), also "power", "leak" and "residual" (in m_v). Task "max": in mu, L.
    """
    if task not in ("spiked", "max"):
        raise ValueError(f"task must be 'spiked' or 'max', got {task!r}")
    chain = Chain()
    concrete = _spiked_moments(chain) if task == "spiked" else _max_moments(chain)
    _minimum(chain, {"nu": "0.9", "mu": "0.7", "L": 3}, concrete)
    inputs = (NU, LENGTH, M_K, Q_K, M_V) if task == "spiked" else (LENGTH, M_K, Q_K)
    moments = tuple(MOMENTS[s] for s in (MEAN, SQUARE, POWER, LEAK, RESIDUAL) if s in chain.results)
    extra = (*moments, *_ROWS, *(() if task == "spiked" else (MU_ROW,)))
    record = Equations(
        f"single_location.linear.{task}",
        quantities(*inputs, extra=extra),
        dict(chain.results),
        {s.name: e for s, e in chain.results.items()},
        limits=_limits(task),
    )
    title = f"Linear attention, {task} task"
    return chain.conclude(title, PAPER, record)


def _by_wick(average: TokenExpectation) -> sp.Expr:
    """An average over tokens of a polynomial in their fields: one-token averages, then Wick's theorem."""
    one_token = factorize_tokens(average, {TOKEN_FIELD: FIELD, TOKEN_ETA: ETA})
    return one_token.replace(lambda e: isinstance(e, Expectation), lambda e: sp.expand(wick(e)))


# --------------------------------------------------------------------------- moments


def _spiked_moments(chain: Chain) -> None:
    """Moments in nu, L, m_k, q_k; nothing abstract is left to make concrete."""
    orthogonal = sp.sqrt(Q_K - M_K**2)

    def weight(i: sp.Basic) -> sp.Expr:
        shift = sp.sqrt(NU) if i == 1 else 0
        return 1 + M_K * (TOKEN_FIELD[i] + shift) + orthogonal * TOKEN_ETA[i]

    own, rest = weight(sp.Integer(1)), others(lambda i: weight(i) ** 2)
    integrands = {
        MEAN: own,
        SQUARE: own**2 + rest,
        POWER: own**2,
        LEAK: rest,
        RESIDUAL: (1 - M_V * own) ** 2,
    }
    point = {"nu": 1.3, "L": 3, "m_k": 0.6, "q_k": 0.8, "m_v": 0.7}
    for symbol, integrand in integrands.items():
        average = TokenExpectation(integrand, (TOKEN_FIELD, TOKEN_ETA), LENGTH)
        chain.define(symbol, average, MOMENTS[symbol].meaning)
        chain.add(symbol, "Wick's theorem", _by_wick(average),
                  "independent tokens, the wrong ones exchangeable, with standard Gaussian fields",
                  verified(point))  # fmt: skip
    mean, variance = chain.results[MEAN], sp.expand(chain.results[POWER] - chain.results[MEAN] ** 2)
    stable = (1 - M_V * mean) ** 2 + M_V**2 * variance
    chain.add(RESIDUAL, "form without cancellation", stable, "squared mean plus variance", proved(),
              also=(MEAN, POWER))  # fmt: skip


def _max_moments(chain: Chain) -> Concrete:
    """Moments in mu, L, m_k, q_k; returns how the likelihood a(x) is made concrete in checks.

    The location is drawn with probabilities a(x_l)/sum_m a(x_m); only its mean field matters.
    """
    x, eta, a, families = TOKEN_FIELD, TOKEN_ETA, LIKELIHOOD, (TOKEN_FIELD, TOKEN_ETA)
    orthogonal = sp.sqrt(Q_K - M_K**2)
    evidence = others(lambda i: a(x[i]), first=1)

    def weight(i: sp.Basic) -> sp.Expr:
        return 1 + M_K * x[i] + orthogonal * eta[i]

    def posterior(of_token: sp.Expr) -> sp.Expr:
        return others(of_token, first=1) / evidence

    field_mean = TokenExpectation(posterior(lambda i: a(x[i]) * x[i]), (x,), LENGTH)
    mean = TokenExpectation(posterior(lambda i: a(x[i]) * weight(i)), families, LENGTH)
    square = TokenExpectation(others(lambda i: weight(i) ** 2, first=1), families, LENGTH)
    point = {"nu": 0.9, "L": 2, "m_k": 0.6, "q_k": 0.8}

    def concrete(expression: sp.Expr, _length: int) -> sp.Expr:
        return expression.xreplace({MU: field_mean}).replace(a, lambda u: sp.exp(NU * u))

    chain.define(MU, field_mean, MU_ROW.meaning)
    chain.define(MEAN, mean, MOMENTS[MEAN].meaning)
    chain.define(SQUARE, square, MOMENTS[SQUARE].meaning)
    averaged = integrate_family(mean, (eta,)).replace(
        lambda e: isinstance(e, DistinctSum) and e.integrand == 0, lambda _: sp.Integer(0)
    )
    chain.add(MEAN, "average over the orthogonal field", averaged,
              "eta is independent of the location, and the probabilities of the location sum to 1",
              verified(point, concrete=concrete))  # fmt: skip
    chain.add(MEAN, "mean field of the hidden token", 1 + M_K * MU, "linearity, and the definition of mu",
              verified(point, concrete=concrete), also=(MU,))  # fmt: skip
    chain.add(SQUARE, "Wick's theorem", _by_wick(square),
              "all tokens count alike, with standard Gaussian fields once the location is summed over",
              verified(point))  # fmt: skip
    del chain.results[MU]  # an input of the record
    return concrete


# --------------------------------------------------------------------------- minimum


def _minimum(chain: Chain, point: dict[str, object], concrete: Concrete | None) -> None:
    """The minimum over m_k, r_k, m_v, r_v: a sum of squares above the value at the stationary point."""
    in_lengths = {Q_K: M_K**2 + R_K**2}
    mean, square = (sp.expand(chain.results[s].xreplace(in_lengths)) for s in (MEAN, SQUARE))
    defined = {d.symbol: d.expression.xreplace(in_lengths) for d in chain.definitions}
    least, key, value, squares = _sum_of_squares(mean, square)
    there = {
        BEST_EXCESS: (None, least),
        BEST_M_K: (M_K, key),
        BEST_Q_K: (M_K**2 + R_K**2, key**2),
        BEST_M_V: (M_V, value),
    }
    overlaps = {"m_k": "0.6", "r_k": "0.5", "m_v": "0.7", "r_v": "0.4"}
    anywhere, precise = {**point, **overlaps, "L": 2}, {"left": "mp-trapezoid", "right": "mp-quad"}

    def objective(first: sp.Expr, second: sp.Expr) -> sp.Expr:
        return 1 - 2 * M_V * first + (M_V**2 + R_V**2) * second

    for row in _ROWS:
        symbol, (quantity, result) = row.symbol, there[row.symbol]

        def at(risk: sp.Expr, quantity: sp.Expr | None = quantity) -> AtMinimum:
            return AtMinimum(risk if quantity is None else quantity, risk, (M_K, R_K, M_V, R_V))

        chain.define(symbol, at(objective(defined[MEAN], defined[SQUARE])), row.meaning)
        chain.add(
            symbol,
            "moments of the weights",
            at(objective(mean, square)),
            "the moments of linear attention inserted",
            verified(anywhere, concrete=pointwise(concrete)),
            also=(MEAN, SQUARE),
        )
        chain.add(
            symbol,
            "sum of squares",
            at(squares),
            "completed squares: the parts of k and v orthogonal to k* and v* only add to the risk",
            verified(anywhere, digits=30, concrete=pointwise(), **precise),
        )
        chain.add(symbol, "minimum", result, "all squares vanish together, their coefficients are positive",
                  verified(point, digits=25, concrete=numerically(point), **precise))  # fmt: skip


def _sum_of_squares(mean: sp.Expr, square: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr]:
    """(least excess risk, m_k and m_v where it is reached, the excess risk as that plus squares).

    ``mean`` and ``square`` are A and B in m_k and r_k. The key is found from the stationarity of the risk of
    the best value, 1 - A^2/B at r_k = 0; what remains above the minimum is divided by the squared distance.
    """
    root = sp.Symbol("root_nu", positive=True)  # sqrt(nu), so that everything is rational
    mean, square = (e.xreplace({sp.sqrt(NU): root}).subs(NU, root**2) for e in (mean, square))
    aligned = square.subs(R_K, 0)
    excess = sp.factor(1 - mean**2 / aligned)
    stationary = sp.solve(sp.numer(sp.factor(sp.diff(excess, M_K))), M_K)
    # at A = 0 the risk has its maximum 1
    (key,) = [sp.factor(r) for r in stationary if sp.simplify(mean.subs(M_K, r)) != 0]
    least = sp.factor(excess.subs(M_K, key))
    gap = sp.factor((excess - least) / (M_K - key) ** 2)
    value = sp.factor((mean / aligned).subs(M_K, key))
    squares = (
        least
        + gap * (M_K - key) ** 2
        + aligned * (M_V - mean / aligned) ** 2
        + sp.factor(square - aligned) * M_V**2
        + square * R_V**2
    )
    least, key, value, squares = (e.subs(root, sp.sqrt(NU)) for e in (least, key, value, squares))
    return least, key, value, squares


def _limits(task: str) -> tuple[Limit, ...]:
    """Known minima; the overlaps are there because the moments of the record depend on them."""
    key = {"m_k": 0, "q_k": 0}
    if task == "spiked":
        points = {
            (4, 3): (sp.Rational(6, 17), "L (L - 1)/(L^2 + nu (L - 1))"),
            (4, 1): (sp.Integer(0), "a single token"),
            (0, 4): (sp.Rational(3, 4), "no signal: uniform weights"),
        }
        return tuple(
            Limit("best_excess", {"nu": nu, "L": length, **key, "m_v": 0}, expected, reason)
            for (nu, length), (expected, reason) in points.items()
        )
    largest = sp.Rational(3, 2) / sp.sqrt(sp.pi)
    expected = 1 - (1 + largest**2) / 3
    return (
        Limit("best_excess", {"mu": float(largest), "L": 3, **key}, expected, "nu = inf, three tokens"),
        Limit("best_excess", {"mu": 0, "L": 1, **key}, sp.Integer(0), "a single token"),
    )
