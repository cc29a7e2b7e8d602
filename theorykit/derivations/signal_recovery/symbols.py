"""Symbols of signal recovery, and the small pieces every derivation of it starts from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.gaussian import tilt, wick
from theorykit.derivations.ledger import Check, Derivation, Equations, Quantity, verified
from theorykit.derivations.nodes import Expectation
from theorykit.errors import DerivationError

__all__ = [
    "BETA",
    "DIMENSION",
    "FIELD",
    "FRACTION",
    "INSERTED",
    "KAPPA",
    "MASS",
    "NOISE_MASS",
    "PAPER",
    "POINTS",
    "REST",
    "RHO",
    "STEP_SIZE",
    "THETA",
    "TOKENS",
    "along_rho",
    "conclude",
    "declare",
    "gaussian_moments",
    "in_masses",
    "masses",
    "precise",
    "symbol_table",
]

PAPER = "model of arXiv 2606.22406; derived here"

THETA = sp.Symbol("theta", positive=True)
FRACTION = sp.Symbol("fraction", positive=True)
REST = sp.Symbol("noise_fraction", positive=True)  # 1 - pi, exact where pi is close to 1
BETA = sp.Symbol("beta", positive=True)
KAPPA = sp.Symbol("kappa", nonnegative=True)
RHO = sp.Symbol("rho", real=True)
TOKENS = sp.Symbol("tokens", positive=True, integer=True)
DIMENSION = sp.Symbol("dimension", positive=True, integer=True)
STEP_SIZE = sp.Symbol("step_size", positive=True)
MASS = sp.Symbol("w", positive=True)  # attention mass on informative tokens
NOISE_MASS = sp.Symbol("w_noise", positive=True)  # and on noise tokens: 1 - w without cancellation
FIELD = sp.Symbol("g", real=True)  # projection of one token's noise on the query

_TABLE: dict[sp.Symbol, Quantity] = {}


def declare(*rows: Quantity) -> dict[sp.Symbol, Quantity]:
    """Add rows to the symbol table of the theory; the same rows by their symbols."""
    named = {row.symbol: row for row in rows}
    _TABLE.update(named)
    return named


declare(
    Quantity(THETA, r"\theta", "signal strength of an informative token", "(0, inf)"),
    Quantity(FRACTION, r"\pi", "fraction R/L of informative tokens", "(0, 1)"),
    Quantity(REST, r"\bar\pi", "fraction 1 - R/L of noise tokens", "(0, 1)"),
    Quantity(BETA, r"\beta", "inverse temperature of the attention", "(0, inf)"),
    Quantity(KAPPA, r"\kappa", "dimensions per token, d/L; (d - 1)/L at finite size", "[0, inf)"),
    Quantity(RHO, r"\rho", "alignment of the query, q.xi", "[-1, 1]"),
    Quantity(TOKENS, "L", "number of tokens", "1, 2, ...", "large"),
    Quantity(DIMENSION, "d", "dimension of a token", "2, 3, ...", "O(1), or of order L"),
    Quantity(STEP_SIZE, r"\eta", "step size of the gradient ascent", "(0, inf)", "small"),
    Quantity(MASS, "w", "attention mass on the informative tokens", "(0, 1)"),
    Quantity(NOISE_MASS, r"\bar w", "attention mass on the noise tokens, 1 - w", "(0, 1)"),
)


def symbol_table(chain: Chain) -> tuple[Quantity, ...]:
    """Rows of all symbols that the steps of a chain use or define."""
    used: set[sp.Basic] = set(chain.results)
    for step in chain.steps:
        used |= step.lhs.free_symbols | step.rhs.free_symbols
    unknown = sorted(str(s) for s in used - set(_TABLE) if isinstance(s, sp.Symbol))
    if unknown:
        raise DerivationError(f"symbols without a row in the table of signal recovery: {unknown}")
    return tuple(row for symbol, row in _TABLE.items() if symbol in used)


#: How the dimension grows with the tokens: ending of a record's name, and of its title.
_REGIMES = {
    True: (".proportional", ", dimension proportional to the tokens"),
    False: (".fixed_dimension", ", fixed dimension"),
    None: ("", ""),
}


def conclude(
    chain: Chain,
    name: str,
    title: str,
    shown: Iterable[sp.Symbol],
    within: Iterable[sp.Symbol] = (),
    proportional: bool | None = None,
    **fields: Any,
) -> Derivation:
    """The derivation a chain ends in.

    Parameters
    ----------
    shown, within : symbols
        Its observables, and the equations of the symbols they are written in.
    proportional : bool, optional
        d/L -> kappa (True) or d fixed (False), where there are two such derivations.
    fields
        Further fields of the record: ``limits``, ``breakpoints``.
    """
    ending, regime = _REGIMES[proportional]
    record = Equations(
        f"signal_recovery.{name}{ending}",
        symbol_table(chain),
        {s: chain.results[s] for s in within},
        {s.name: chain.results[s] for s in shown},
        **fields,
    )
    return chain.conclude(title + regime, PAPER, record)


# --------------------------------------------------------------------------- the attention masses


def masses() -> dict[sp.Symbol, sp.Expr]:
    """w and 1 - w as functions of the alignment: a logistic function of logit(pi) + beta theta rho."""
    odds = FRACTION / REST * sp.exp(BETA * THETA * RHO)
    return {MASS: 1 / (1 + 1 / odds), NOISE_MASS: 1 / (1 + odds)}


def along_rho(expression: sp.Expr) -> sp.Expr:
    """d/d rho of an expression in rho and both masses, by the chain rule with w' = beta theta w (1 - w)."""
    rate = BETA * THETA * MASS * NOISE_MASS
    return sp.diff(expression, RHO) + rate * (sp.diff(expression, MASS) - sp.diff(expression, NOISE_MASS))


#: What stands for what when both sides of a step are made concrete.
INSERTED = Mapping[sp.Symbol, sp.Expr]


def in_masses(expression: sp.Expr, further: INSERTED | None = None) -> sp.Expr:
    """The expression with further symbols, then both masses, replaced by what they stand for."""
    table = dict(further or {})
    for _ in range(len(table) + 1):
        inside = expression.free_symbols & set(table)
        if not inside:
            return expression.xreplace(masses())
        expression = expression.xreplace({s: table[s] for s in inside})
    raise DerivationError("symbols stand for each other in a circle")


# --------------------------------------------------------------------------- checks

#: Two models, with the length that makes checks insert what symbols stand for.
POINTS: tuple[dict[str, object], ...] = (
    {
        "theta": "1.3",
        "fraction": "0.2",
        "noise_fraction": "0.8",
        "beta": "0.8",
        "kappa": "0.7",
        "rho": "-0.35",
    },
    {
        "theta": "0.6",
        "fraction": "0.65",
        "noise_fraction": "0.35",
        "beta": "1.1",
        "kappa": "0.3",
        "rho": "0.55",
    },
)
POINTS = tuple({**point, "L": 1} for point in POINTS)


def precise(
    further: INSERTED | Callable[[], INSERTED] | None = None, digits: int = 30, **values: object
) -> Check:
    """Both sides agree to 30 digits at two points, symbols replaced by what they stand for.

    ``values`` are added to both points (sizes, step size).
    """

    def concrete(expression: sp.Expr, _: int) -> sp.Expr:
        return in_masses(expression, further() if callable(further) else further)

    points = [{**point, **values} for point in POINTS]
    return verified(*points, digits=digits, left="mp-trapezoid", right="mp-quad", concrete=concrete)


# --------------------------------------------------------------------------- Gaussian averages


def gaussian_moments(expression: sp.Expr) -> sp.Expr:
    """Every average of a polynomial times an exponential, by the exponential tilt and Wick's theorem."""

    def closed(node: sp.Expr) -> sp.Expr:
        return sp.Add(
            *[_one_moment(node.with_integrand(t)) for t in sp.Add.make_args(sp.expand(node.integrand))]
        )

    return expression.replace(lambda e: isinstance(e, Expectation), closed)


def _one_moment(node: sp.Expr) -> sp.Expr:
    if not isinstance(node, Expectation):
        return node
    tilted = tilt(node) if node.integrand.has(sp.exp) else node
    return tilted.replace(lambda e: isinstance(e, Expectation), wick)
