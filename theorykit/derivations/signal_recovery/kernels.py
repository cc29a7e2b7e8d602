r"""Any normalized weight phi(beta t)/sum phi(beta t), as one-dimensional Gaussian averages.

Setting: L -> inf with R/L = pi and d/L = kappa; the weight phi is not negative. With A_c = E phi(beta(mu_c + g)),
B_c = E g phi, P_c = E phi^2 for the classes mu_1 = theta rho, mu_0 = 0 and N = pi A_1 + (1 - pi) A_0,

    w = pi A_1/N,  gamma = [pi B_1 + (1 - pi) B_0]/N,
    J = gamma^2 + 2 theta rho gamma w + theta^2 w^2 + kappa [pi P_1 + (1 - pi) P_0]/N^2.

Derivatives in rho act on A_1, B_1, P_1 only; integrated by parts they are theta E g phi, theta E (g^2 - 1) phi and
theta E g phi^2, which holds for weights that are not smooth too.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.ledger import Check, Derivation, Equations, Quantity, simulated, verified
from theorykit.derivations.nodes import Expectation
from theorykit.derivations.signal_recovery.limit import DRIFT, OBJECTIVE, SLOPE
from theorykit.derivations.signal_recovery.symbols import (
    BETA,
    FRACTION,
    KAPPA,
    MASS,
    PAPER,
    POINTS,
    REST,
    RHO,
    THETA,
    conclude,
)
from theorykit.formula import parse

__all__ = ["derive_interpolated_flow", "derive_kernel"]

ONE, ZERO = sp.Symbol("g_one", real=True), sp.Symbol("g_zero", real=True)  # scores' noise in either class
ANGLE, ANGLE_RATE = sp.Symbol("angle", real=True), sp.Symbol("angle_rate", real=True)
_SEEN = simulated("gradient of the finite model at the validation points")
_LARGE = "law of large numbers for the sums over tokens, class by class"


def derive_kernel(kernel: str = "softplus(t)", proportional: bool = True) -> Derivation:
    """Observables "objective", "slope", "drift" and "w" for the weight phi(beta t) of a formula in t."""
    formula = parse(kernel, "t")

    def phi(score: sp.Expr) -> sp.Expr:
        return formula.to_sympy(BETA * score)

    kappa = KAPPA if proportional else sp.Integer(0)
    chain = Chain()
    _add_objective(chain, phi, kappa)
    _add_slope(chain, phi, kappa)
    shown = (OBJECTIVE, SLOPE, DRIFT, MASS)
    turns = sorted({*formula.kinks(), *formula.fronts()})
    breakpoints = {
        ONE: tuple(sp.Float(x) / BETA - THETA * RHO for x in turns),
        ZERO: tuple(sp.Float(x) / BETA for x in turns),
    }
    title = f"Flow of the alignment for the weight {formula.text}"
    return conclude(
        chain, "kernel", title, shown, proportional=proportional, breakpoints=breakpoints if turns else {}
    )


def _means(
    phi: Callable[[sp.Expr], sp.Expr], power: int, factor: Callable[[sp.Symbol], sp.Expr]
) -> list[sp.Expr]:
    """Averages of factor(g) phi^power in the informative and in the noise class."""
    scores = ((ONE, THETA * RHO + ONE), (ZERO, ZERO))
    return [Expectation(factor(g) * phi(t) ** power, g) for g, t in scores]


def _parts(phi: Callable[[sp.Expr], sp.Expr]) -> dict[str, list[sp.Expr]]:
    return {
        "A": _means(phi, 1, lambda _: sp.Integer(1)),
        "B": _means(phi, 1, lambda g: g),
        "P": _means(phi, 2, lambda _: sp.Integer(1)),
    }


def _mix(pair: list[sp.Expr]) -> sp.Expr:
    return FRACTION * pair[0] + REST * pair[1]


def _add_objective(chain: Chain, phi: Callable[[sp.Expr], sp.Expr], kappa: sp.Expr) -> None:
    parts = _parts(phi)
    total = _mix(parts["A"])
    mass = FRACTION * parts["A"][0] / total
    label = sp.Symbol("L")
    chain.define(
        MASS, sp.Limit(sp.Function("S_L")(RHO), label, sp.oo), "limit of the mass on informative tokens"
    )
    chain.add(MASS, "law of large numbers", mass, _LARGE, _SEEN)
    score = _means(phi, 1, lambda g: THETA * RHO + g if g == ONE else g)
    spread = kappa * _mix(parts["P"]) / total**2
    ratios = (_mix(score) / total) ** 2 + THETA**2 * (1 - RHO) * (1 + RHO) * mass**2 + spread
    chain.define(OBJECTIVE, sp.Limit(sp.Function("J_L")(RHO), label, sp.oo), "limit of E|f|^2")
    chain.add(OBJECTIVE, "law of large numbers", ratios, _LARGE, _SEEN)
    gamma = _mix(parts["B"]) / total
    collected = gamma**2 + 2 * THETA * RHO * gamma * mass + THETA**2 * mass**2 + spread
    chain.add(OBJECTIVE, "in mass and mean score", collected, "the score is theta rho b + g, averages are linear",
              _check(), also=(MASS,))  # fmt: skip


def _add_slope(chain: Chain, phi: Callable[[sp.Expr], sp.Expr], kappa: sp.Expr) -> None:
    objective = chain.results[OBJECTIVE]
    chain.define(SLOPE, sp.diff(objective, RHO), "derivative of the objective under the averages")
    parts = _parts(phi)
    names = {key: sp.Symbol(f"{key}_1") for key in parts}
    values = {key: pair[0] for key, pair in parts.items()}
    rates = {
        "A": THETA * values["B"],
        "B": THETA * _means(phi, 1, lambda g: g**2 - 1)[0],
        "P": THETA * _means(phi, 2, lambda g: g)[0],
    }
    abstract = objective.xreplace({values[key]: names[key] for key in parts})
    total = sp.diff(abstract, RHO) + sum(sp.diff(abstract, names[key]) * rates[key] for key in parts)
    by_parts = total.xreplace({names[key]: values[key] for key in parts})
    chain.add(SLOPE, "Gaussian integration by parts", by_parts,
              "d/d rho E f(theta rho + g) = theta E g f(theta rho + g), and for E g f the same with g^2 - 1",
              _check())  # fmt: skip
    rate = SLOPE - SLOPE * RHO * RHO
    chain.define(
        DRIFT, rate.xreplace({SLOPE: chain.results[SLOPE]}), "xi.q' for the gradient ascent on the sphere"
    )
    flow = (1 - RHO) * (1 + RHO) * SLOPE
    chain.add(
        DRIFT, "projected gradient", flow.xreplace({SLOPE: chain.results[SLOPE]}), "|q| = |xi| = 1", _check()
    )


def _check() -> Check:
    return verified(*POINTS, digits=10, left="trapezoid", right="legendre")


def derive_interpolated_flow(degree: int = 4) -> Derivation:
    """The flow of the angle arccos(rho) where the slope is a sum of Chebyshev polynomials of given coefficients.

    Observable "angle_rate", in the angle and the coefficients c_0 to c_degree.
    """
    coefficients = sp.symbols(f"c_0:{degree + 1}", real=True)
    slope = sp.Add(*[c * sp.cos(k * sp.acos(RHO)) for k, c in enumerate(coefficients)])
    rate = ((1 - RHO) * (1 + RHO) * slope).xreplace({RHO: sp.cos(ANGLE)}) / -sp.sin(ANGLE)
    chain = Chain()
    chain.define(
        ANGLE_RATE, rate, "-F/sin(angle), the derivative of arccos(rho), F = (1 - rho^2) sum c_k T_k(rho)"
    )
    waves = sp.Add(*[c * sp.cos(k * ANGLE) for k, c in enumerate(coefficients)])
    point = {"angle": "0.9", **{c.name: f"{(-1) ** k * (k + 2)}/7" for k, c in enumerate(coefficients)}}
    chain.add(ANGLE_RATE, "Chebyshev polynomials of a cosine", -sp.sin(ANGLE) * waves, "T_k(cos a) = cos(k a)",
              verified(point, digits=25, left="mp-trapezoid", right="mp-quad"))  # fmt: skip
    rows = [Quantity(c, f"c_{{{k}}}", f"coefficient of degree {k}") for k, c in enumerate(coefficients)]
    record = Equations(
        f"signal_recovery.interpolated_flow.{degree}",
        (
            Quantity(ANGLE, r"\alpha", "angle between the query and the hidden direction", "[0, pi]"),
            Quantity(ANGLE_RATE, r"\dot\alpha", "its derivative in time"),
            *rows,
        ),
        {},
        {ANGLE_RATE.name: chain.results[ANGLE_RATE]},
    )
    title = "Flow of the angle for an interpolated slope"
    return chain.conclude(title, PAPER, record)
