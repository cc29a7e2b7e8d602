r"""The features as an expression in random matrices, and the finite systems that the engine makes of it.

With X/sqrt(n) = Z + mu y^T (entries of Z of variance 1/n, y the labels over sqrt(n)), the features of the probe are
:math:`\Phi=X K/\sqrt n` with the linearized attention matrix

.. math:: K=\frac{a_1}{c}X^\top WX-(a_1-d)+\sigma S+\theta_2(ge^\top+eg^\top),\qquad W=1+w_Kw_Q^\top .

The engine is given :math:`\Phi^\top\Phi/\gamma`: then :math:`\gamma Q=(\Phi^\top\Phi/\gamma-z)^{-1}` at z = -1, all
blocks of the pencil are of order 1 at every ridge, and -- since the square of this matrix is its derivative in z --
the training error is a derivative without cancellation.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from theorykit.derivations.dyson.equations import DysonSystem, dyson_system
from theorykit.derivations.dyson.expression import Expression, Gaussian, Wigner, identity, outer
from theorykit.derivations.dyson.pencil import Pencil, make_pencil
from theorykit.derivations.dyson.spikes import SpikedSystem, spiked_system
from theorykit.derivations.interpolation.symbols import (
    A_1,
    A_2,
    DIAGONAL,
    E_MEAN,
    G_NORMS,
    GAMMA,
    KAPPA,
    KEY,
    LABEL,
    MEAN,
    MU,
    OVERLAPS,
    QUERY,
    REMAINDER,
    C,
    Z,
)

__all__ = [
    "FORBIDDEN",
    "NOISE_SCALE",
    "SPIKE_SCALE",
    "attention_pencil",
    "features_image",
    "spiked",
    "system",
    "tokens",
]

#: Standard deviation of the Wigner part, and strength of the spike of the second Hermite coefficient.
NOISE_SCALE = sp.sqrt(REMAINDER / C)
SPIKE_SCALE = A_2 / C * sp.sqrt(KAPPA / 2)

#: Blocks in which the solution has no component along the constant vector, by the centering of K.
FORBIDDEN = {"entry": (), "row": ("u",), "column": ("v", "w"), "none": ("u", "w")}

# names of the blocks, in the order in which the rules of the pencil introduce them
_NAMES = ("u", "q", "v", "w", "h", "r", "s", "k")


def tokens() -> Expression:
    """X/sqrt(n), signal plus noise."""
    return Gaussian("Z", rows="p", columns="n") + outer(MU, LABEL)


@cache
def attention_pencil() -> Pencil:
    """The pencil of the Gram matrix of the features over the ridge."""
    x = tokens()
    weights = identity("p") + outer(KEY, QUERY)
    kernel = (
        (A_1 / C) * (x.T @ weights @ x)
        - (A_1 - DIAGONAL) * identity("n")
        + NOISE_SCALE * Wigner("S")
        + SPIKE_SCALE * (outer(G_NORMS, E_MEAN) + outer(E_MEAN, G_NORMS))
    )
    features = x @ kernel
    return make_pencil((1 / GAMMA) * (features.T @ features), Z, _NAMES)


@cache
def system(shift: sp.Expr = sp.S.Zero) -> DysonSystem:
    """Dyson equations of the noise part."""
    return dyson_system(attention_pencil(), {"p": C}, shift)


@cache
def spiked(centering: str = "entry", shift: sp.Expr = sp.S.Zero) -> SpikedSystem:
    """The finite system of signal, weights, label mean and norms."""
    names = [v.name for v in attention_pencil().variables]
    forbidden = [(E_MEAN, names.index(block)) for block in FORBIDDEN[centering]]
    return spiked_system(system(shift), [(LABEL, 0)], OVERLAPS, forbidden)


def label_form(centering: str) -> sp.Expr:
    """Quadratic form of the labels; features without mean over rows are blind to the mean of the labels."""
    form = spiked(centering).quadratic_form((LABEL, 0), (LABEL, 0))
    return form - MEAN**2 / Z if centering == "row" else form


def features_image() -> sp.Expr:
    """Phi with numbers in the place of matrices and vectors."""
    z, s, y, mu, key, query, e, g = sp.symbols("Z S y mu w_K w_Q e g", real=True)
    x = z + mu * y
    return x * (
        A_1 / C * x**2 * (1 + key * query) - (A_1 - DIAGONAL) + NOISE_SCALE * s + 2 * SPIKE_SCALE * g * e
    )
