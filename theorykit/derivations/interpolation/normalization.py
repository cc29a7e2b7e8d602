r"""Normalization: the training error of a ridge probe as a derivative of the quadratic form of the labels.

Setting: features Phi (columns are tokens), labels y, probe :math:`w=(\Phi\Phi^\top+\gamma)^{-1}\Phi y`, resolvent
:math:`Q=(\Phi^\top\Phi+\gamma)^{-1}`, :math:`F=y^\top Qy/n`. Exact at every size: :math:`E=|y-\Phi^\top w|^2/n
=\gamma^2y^\top Q^2y/n=-\gamma^2F'(\gamma)`. All matrices are functions of :math:`\Phi^\top\Phi`, so the steps are
written along one of its eigenvectors, with eigenvalue lambda and weight 1; sums over eigenvectors are linear.

A formula seen elsewhere, -(gamma/2) dF/dgamma, has another power of gamma and a factor 1/2; (gamma/2) F is the
penalized objective at its minimum, not the error.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.interpolation.symbols import GAMMA, PAPER, quantities
from theorykit.derivations.ledger import Definition, Derivation, Equations, Limit, Quantity, Step, proved

__all__ = ["derive_normalization"]

_EIGENVALUE = sp.Symbol("lambda_k", nonnegative=True)


def derive_normalization() -> Derivation:
    """E = -gamma^2 F'(gamma), and the penalized objective, along one eigenvector of the Gram matrix."""
    lam = _EIGENVALUE
    form, error, objective = sp.symbols("F_k E_k objective_k", real=True)
    resolvent = 1 / (lam + GAMMA)
    fitted = lam / (lam + GAMMA)
    weight = sp.sqrt(lam) / (lam + GAMMA)
    derivative = -(GAMMA**2) * sp.diff(resolvent, GAMMA)
    definitions = (
        Definition(form, resolvent, "part of y^T Q y/n"),
        Definition(error, (1 - fitted) ** 2, "part of |y - Phi^T w|^2/n"),
        Definition(
            objective, (1 - fitted) ** 2 / 2 + GAMMA * weight**2 / 2, "part of the penalized objective"
        ),
    )
    steps = (
        Step("derivative in the ridge", (1 - fitted) ** 2, derivative, ("E_k", "F_k"),
             "the residual is y - Phi^T w = gamma Q y, and dQ/dgamma = -Q^2", proved()),
        Step("penalized objective", definitions[2].expression, GAMMA * resolvent / 2, ("objective_k", "F_k"),
             "|w|^2 = y^T Q Phi^T Phi Q y", proved()),
        Step("quadratic form", resolvent, (1 - fitted) / GAMMA, ("F_k",), "1 - lambda/(lambda + gamma)", proved()),
    )  # fmt: skip
    record = Equations(
        "interpolation.normalization",
        quantities(
            {GAMMA},
            Quantity(lam, r"\lambda_k", "eigenvalue of the Gram matrix", "nonnegative"),
            Quantity(form, "F_k", "part of y^T Q y/n"),
            Quantity(error, "E_k", "part of the training error"),
            Quantity(objective, r"\mathcal L_k", "part of the penalized objective"),
        ),
        {},
        {"F_k": (1 - fitted) / GAMMA, "E_k": derivative, "objective_k": GAMMA * resolvent / 2},
        limits=(Limit("E_k", {"lambda_k": 1, "gamma": 1}, sp.Rational(1, 4), "half of the label is fitted"),),
    )
    title = "Training error of a ridge probe"
    return Derivation("interpolation.normalization", title, PAPER, definitions, steps, record)
