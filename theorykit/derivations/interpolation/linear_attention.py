r"""Linear attention (f without a nonlinear part): averages over the Marchenko-Pastur law solve the Dyson equations.

Without a Wigner part the attention matrix is a function of :math:`X^\top X`, K = a_1 lambda - b with lambda an
eigenvalue of :math:`X^\top X/p` and b = a_1 - d, so every trace of the noise is an average of a rational function over
the law of lambda. Its continuous part is written with lambda = 1 + 1/c + 2 cos(theta)/sqrt(c), density
:math:`(2/\pi)\sin^2\theta/\lambda` on :math:`[0,\pi]`, and the square t of tan(theta/2); for p < n there is an atom of
mass 1 - c at 0. The steps verify that these averages solve the six equations of the engine, which knows nothing of
them.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.interpolation.features import system
from theorykit.derivations.interpolation.symbols import (
    A_1,
    DIAGONAL,
    GAMMA,
    PAPER,
    REMAINDER,
    C,
    Z,
    quantities,
)
from theorykit.derivations.ledger import Derivation, Equations, Limit, Quantity, assumed, verified
from theorykit.derivations.nodes import HalfLine

__all__ = ["derive_linear_attention"]

_T = sp.Symbol("t", positive=True)
_LAMBDA = sp.Symbol("lambda", nonnegative=True)
_LAW = "Marchenko and Pastur 1967: the law of sample covariance matrices"
_POINTS = (  # below c = 1 the law has an atom at zero
    {"a_1": "7/10", "c": "3/5", "d": "1/5", "gamma": "3/10"},
    {"a_1": "-2/5", "c": "17/10", "d": "1/10", "gamma": "11/10"},
)


def _averaged(function: sp.Expr) -> sp.Expr:
    """Average of a function of lambda over the law of the eigenvalues of X^T X/p."""
    value = 1 + 1 / C + 2 * (1 - _T) / (1 + _T) / sp.sqrt(C)
    density = 8 * sp.sqrt(_T) / (sp.pi * (1 + _T) ** 3 * value)
    atom = sp.Max(0, 1 - C) * function.xreplace({_LAMBDA: sp.Integer(0)})
    return HalfLine(density * function.xreplace({_LAMBDA: value}), _T) + atom


def _functions() -> dict[str, sp.Expr]:
    """What the blocks are traces of, in their scaling, at an eigenvalue lambda."""
    kernel, gram = A_1 * _LAMBDA - (A_1 - DIAGONAL), C * _LAMBDA
    resolvent = 1 / (GAMMA + gram * kernel**2)
    return {
        "uu": GAMMA * resolvent,
        "uv": GAMMA * resolvent * kernel,
        "uw": resolvent * kernel * gram,
        "vv": GAMMA * resolvent * kernel**2,
        "vw": -GAMMA * resolvent,
        "ww": -gram * resolvent,
    }


def derive_linear_attention() -> Derivation:
    """Block traces and error of the noise where nu = a_1^2, as averages over the Marchenko-Pastur law."""
    chain, found = Chain(), system()
    functions = _functions()
    averages = {sp.Symbol(f"m_{pair}"): _averaged(f) for pair, f in functions.items()}
    here = {Z: sp.Integer(-1), REMAINDER: sp.Integer(0)}
    rows = []
    for pair, f in functions.items():
        check = verified(*_POINTS, digits=12, left="mp-trapezoid", right="mp-quad")
        right = found.equations[sp.Symbol(f"m_{pair}")].xreplace(dict(found.explicit)).xreplace(here)
        symbol = sp.Symbol(f"linear_{pair}", real=True)
        meaning = f"right side of the equation of m_{pair} at averages over the law, without noise"
        chain.define(symbol, right.xreplace(averages), meaning)
        chain.add(
            symbol,
            "solution",
            _averaged(f),
            "functions of one matrix: traces are averages over its law",
            check,
        )
        rows.append(
            Quantity(symbol, rf"m^{{\mathrm{{linear}}}}_{{{pair}}}", f"block ({pair}) where nu = a_1^2")
        )
    error = sp.Symbol("bulk_error", real=True)
    chain.define(error, functions["uu"] ** 2, "normalized trace of gamma^2 Q^2 (at one eigenvalue)")
    chain.add(error, "average", _averaged(functions["uu"] ** 2), "the law of the eigenvalues", assumed(_LAW))
    rows.append(Quantity(error, r"E_{\mathrm{bulk}}", "trace of gamma^2 Q^2 over n"))
    rows.append(Quantity(_LAMBDA, r"\lambda", "eigenvalue of X^T X/p", "nonnegative"))
    observables = {str(s): e for s, e in chain.results.items()}
    at = {"a_1": 0, "c": 2, "d": 1, "gamma": 1}
    record = Equations(
        "interpolation.linear_attention",
        quantities({A_1, C, DIAGONAL, GAMMA}, *rows),
        {},
        observables,
        limits=(
            # gamma m^2 + (gamma + c - 1) m = 1 at gamma = 1, c = 2: m = sqrt(2) - 1
            Limit("linear_uu", at, sp.sqrt(2) - 1, "K = 1: linear regression at c = 2, gamma = 1"),
        ),
    )
    title = "Linear attention"
    return Derivation(
        "interpolation.linear_attention", title, PAPER, tuple(chain.definitions), tuple(chain.steps), record
    )
