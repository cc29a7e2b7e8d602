r"""Moments of sigmoidal attention sigma(chi) = 1 + erf(shift + chi) in the spiked task, in closed form.

Setting: scores chi_l = sqrt(q_k) x_l, the hidden one shifted by sqrt(nu) m_k, with x_l standard Gaussians.
Results: A = E sigma_eps, E sigma_eps^2, E(1 - m_v sigma_eps)^2 and E sum_{l != eps} sigma_l^2 through the
Gaussian averages of Phi and Phi^2, the latter by Owen's T function. Names and meaning as in the moments of
a general elementwise activation, so that either record can stand for the other. Sources: arXiv 2509.21936
for the moments; averages of Phi as in D. B. Owen's table of normal integrals (1980), checked here to 30
digits.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.laplace import factorize_tokens
from theorykit.derivations.ledger import (
    Check,
    Definition,
    Derivation,
    Equations,
    Limit,
    Step,
    proved,
    verified,
)
from theorykit.derivations.nodes import Expectation, TokenExpectation
from theorykit.derivations.single_location.risk import LEAK, MEAN, MOMENTS, POWER, RESIDUAL
from theorykit.derivations.single_location.symbols import (
    FIELD,
    LENGTH,
    M_K,
    M_V,
    NU,
    PAPER,
    Q_K,
    SHIFT,
    TOKEN_FIELD,
    others,
    quantities,
)
from theorykit.derivations.special import normal_cdf, owens_t, owens_t_gap
from theorykit.errors import DerivationError

__all__ = ["average_of_cdf", "average_of_squared_cdf", "derive_erf"]

_POINT = {"nu": "1.3", "L": 3, "m_k": "0.8", "q_k": "1.1", "m_v": "0.45", "shift": "-0.3"}
_BELOW = {**_POINT, "L": 2, "m_k": "-0.4", "shift": "0.6"}


def average_of_cdf(node: Expectation) -> sp.Expr:
    r"""E Phi(a + b x) = Phi(a/sqrt(1 + b^2)): the sum of x and one more Gaussian is Gaussian."""
    offset, slope = _affine(node, 1)
    return normal_cdf(offset / sp.sqrt(1 + slope**2))


def average_of_squared_cdf(node: Expectation) -> sp.Expr:
    r"""E Phi(a + b x)^2 = Phi(h) - 2 T(h, 1/sqrt(1 + 2 b^2)) with h = a/sqrt(1 + b^2)."""
    offset, slope = _affine(node, 2)
    h = offset / sp.sqrt(1 + slope**2)
    return normal_cdf(h) - 2 * owens_t(h, 1 / sp.sqrt(1 + 2 * slope**2))


def _affine(node: Expectation, power: int) -> tuple[sp.Expr, sp.Expr]:
    """(a, b) of an average of Phi(a + b x)**power over one standard Gaussian x."""
    base, exponent = node.integrand.as_base_exp()
    (x,) = node.variables
    if not (isinstance(base, normal_cdf) and exponent == power and node.is_standard):
        raise DerivationError(f"the average of a power {power} of Phi is expected, got {node}")
    polynomial = sp.Poly(base.args[0], x)
    if polynomial.degree() != 1:
        raise DerivationError(f"the argument of Phi must be affine in {x}, got {base}")
    return polynomial.nth(0), polynomial.nth(1)


def derive_erf(task: str = "spiked") -> Derivation:
    """Moments "A", "power", "leak", "residual" in nu, L, m_k, q_k, m_v and shift; L may be a mean length."""
    if task != "spiked":
        raise ValueError(f"task must be 'spiked': no closed form for any other, got {task!r}")

    def weight(i: sp.Basic) -> sp.Expr:
        score = sp.sqrt(Q_K) * TOKEN_FIELD[i] + (sp.sqrt(NU) * M_K if i == 1 else 0)
        return 1 + sp.erf(SHIFT + score)

    own = weight(sp.Integer(1))
    integrands = {
        MEAN: own,
        POWER: own**2,
        RESIDUAL: (1 - M_V * own) ** 2,
        LEAK: others(lambda i: weight(i) ** 2),
    }
    definitions, steps, results = [], [], {}
    for symbol, integrand in integrands.items():
        average = TokenExpectation(integrand, (TOKEN_FIELD,), LENGTH)
        definitions.append(Definition(symbol, average, MOMENTS[symbol].meaning))
        steps += _chain(symbol, average)
        results[symbol] = steps[-1].rhs
    record = Equations(
        "single_location.erf.spiked",
        quantities(NU, LENGTH, M_K, Q_K, M_V, SHIFT, extra=tuple(MOMENTS[s] for s in results)),
        results,
        {s.name: e for s, e in results.items()},
        limits=_limits(),
    )
    title = "Moments of sigmoidal attention, spiked task"
    return Derivation(record.name, title, PAPER, tuple(definitions), tuple(steps), record)


def _chain(symbol: sp.Symbol, average: TokenExpectation) -> list[Step]:
    """One-token average -> Phi -> (complement) -> closed."""
    steps: list[Step] = []

    def add(name: str, rhs: sp.Expr, reason: str, check: Check) -> None:
        lhs, premise = (steps[-1].rhs, steps[-1].name) if steps else (average, symbol.name)
        steps.append(Step(f"{name} ({symbol.name})", lhs, rhs, (premise,), reason, check))

    one_token = factorize_tokens(average, {TOKEN_FIELD: FIELD})
    add("one-token average", one_token, "the wrong tokens are exchangeable", verified(_POINT, _BELOW))
    in_phi = one_token.replace(sp.erf, _in_phi)
    add("normal distribution function", in_phi, "1 + erf(u) = 2 Phi(sqrt(2) u)", proved())
    separate = in_phi.replace(lambda e: isinstance(e, Expectation), _separate)
    if separate != in_phi:
        reason = "written with what is missing to weight 2 where the residual is small; linearity"
        add("powers of the distribution function", separate, reason, verified(_POINT, _BELOW))
    closed = separate.replace(lambda e: isinstance(e, Expectation), _closed)
    add("Gaussian averages", closed, "E Phi(a + b x) = Phi(h), E Phi(a + b x)^2 = Phi(h) - 2 T(h, tau)",
        verified(_POINT, _BELOW, digits=30, left="mp-trapezoid", right="mp-quad"))  # fmt: skip
    stable = _collected(closed.replace(owens_t, _by_gap))
    if stable != closed:
        add("form without cancellation", stable, "2 T(h, 1) = Phi(h) - Phi(h)^2, so that Phi(h) - 2 T(h, tau) is "
            "Phi(h)^2 + 2 [T(h, 1) - T(h, tau)]",
            verified(_POINT, _BELOW, digits=30, left="mp-trapezoid", right="mp-quad"))  # fmt: skip
    return steps


def _by_gap(h: sp.Expr, a: sp.Expr) -> sp.Expr:
    return (normal_cdf(h) - normal_cdf(h) ** 2) / 2 - owens_t_gap(h, a)


def _collected(expression: sp.Expr) -> sp.Expr:
    """Numbers multiplied into the brackets, where Phi then cancels and Phi^2 stays; other factors stay outside."""
    if isinstance(expression, sp.Mul):
        numbers, rest = expression.as_independent(owens_t_gap, as_Add=False)
        if numbers.is_number and isinstance(rest, sp.Add):
            return sp.Add(*[numbers * t for t in rest.args])
        return sp.Mul(*[_collected(f) for f in expression.args])
    if isinstance(expression, sp.Add):
        return sp.Add(*[_collected(t) for t in expression.args])
    return expression


def _in_phi(argument: sp.Expr) -> sp.Expr:
    return 2 * normal_cdf(sp.expand(sp.sqrt(2) * argument)) - 1


def _separate(node: Expectation) -> sp.Expr:
    """Averages of Phi and Phi^2 alone; 1 - m_v sigma by the complement of Phi, small where sigma is 2."""
    integrand = node.integrand
    (phi,) = integrand.atoms(normal_cdf)
    if integrand.has(M_V):
        missing = normal_cdf(sp.expand(-phi.args[0]))
        polynomial, phi = sp.Poly(integrand.xreplace({phi: 1 - missing}), missing), missing
    else:
        polynomial = sp.Poly(integrand, phi)
    return sp.Add(
        *[
            sp.factor(coefficient) * Expectation(phi**degree, node.variables)
            for (degree,), coefficient in polynomial.terms()
        ]
    )


def _closed(node: Expectation) -> sp.Expr:
    return average_of_cdf(node) if isinstance(node.integrand, normal_cdf) else average_of_squared_cdf(node)


def _limits() -> tuple[Limit, ...]:
    flat = {"nu": 2, "L": 4, "m_k": 0, "q_k": 0, "m_v": sp.Rational(1, 4), "shift": 0}
    return (
        Limit("A", flat, sp.Integer(1), "k = 0 and no shift: weight 1 on every token"),
        Limit("power", flat, sp.Integer(1), "k = 0 and no shift"),
        Limit("leak", flat, sp.Integer(3), "k = 0 and no shift: three wrong tokens of weight 1"),
        Limit("residual", flat, sp.Rational(9, 16), "k = 0 and no shift: (1 - m_v)^2"),
    )
