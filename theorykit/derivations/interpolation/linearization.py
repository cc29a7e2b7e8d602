r"""Linearization of the attention matrix: linear part, Wigner part, and the spike of the second coefficient.

Setting: :math:`K_{ij}=f(x_i^\top Wx_j/\sqrt p)/\sqrt p` off the diagonal, f centred with normalized Hermite
coefficients a_k. In operator norm, up to o(1),

.. math:: K=a_1(X^\top WX/p-1)+S+\theta_2(ge^\top+eg^\top)

with S asymptotically a Wigner matrix of off-diagonal variance :math:`(\nu-a_1^2)/p`, e the constant unit vector and g
the unit vector along :math:`|z_i|^2-p`. The argument of f is not symmetric only through a matrix of rank three and
norm O(1), which enters linearly: S is symmetric. The steps give the sizes of S and of the spike; that S is free from
Z and that degrees above two leave no spike is assumed, and simulated.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.interpolation.features import NOISE_SCALE, SPIKE_SCALE
from theorykit.derivations.interpolation.symbols import A_2, KAPPA, PAPER, REMAINDER, C, quantities
from theorykit.derivations.ledger import (
    Definition,
    Derivation,
    Equations,
    Limit,
    Step,
    assumed,
    proved,
)

__all__ = ["derive_linearization"]

_N = sp.Symbol("n", positive=True)
_P = sp.Symbol("p", positive=True)


def derive_linearization() -> Derivation:
    """Scale of the Wigner part and strength of the spike."""
    noise, spike = sp.symbols("noise_scale spike_strength", real=True)
    entry = sp.sqrt(REMAINDER) / sp.sqrt(_P)
    # E[h_2 | norms] = (t_i + t_j)/sqrt(2), t_i = |z_i|^2/p - 1 of variance kappa/p; K carries 1/sqrt(p)
    length = sp.sqrt(_N * KAPPA / _P)
    strength = A_2 / sp.sqrt(2) / sp.sqrt(_P) * length * sp.sqrt(_N)
    at = {_P: C * _N}
    definitions = (
        Definition(noise, sp.sqrt(_N) * entry.xreplace(at),
                   "sqrt(n) times the standard deviation of the entries of K that degrees above 1 leave"),
        Definition(spike, strength.xreplace(at),
                   "norm of the conditional mean of the second degree given the norms of the tokens"),
    )  # fmt: skip
    steps = (
        Step("size of the Wigner part", definitions[0].expression, NOISE_SCALE, ("noise_scale",),
             "parts of different degree are uncorrelated, with variances a_k^2/p", proved()),
        Step("Wigner law", NOISE_SCALE, NOISE_SCALE, ("size of the Wigner part",),
             "degrees above one are asymptotically free from the sample",
             assumed("kernel random matrices: El Karoui 2010, Cheng and Singer 2013, Fan and Montanari 2019; "
                     "simulated here through the error")),
        Step("strength of the spike", definitions[1].expression, SPIKE_SCALE, ("spike_strength",),
             "a vector of n entries of variance kappa/p beside the constant vector of n ones", proved()),
        Step("only spike", SPIKE_SCALE, SPIKE_SCALE, ("strength of the spike",),
             "conditional means of higher degrees have vanishing norm",
             assumed("the norm of a degree k is O(p^(1 - k/2)); simulated at unbalanced labels")),
    )  # fmt: skip
    record = Equations(
        "interpolation.linearization",
        quantities({A_2, C, KAPPA, REMAINDER}),
        {},
        {"noise_scale": NOISE_SCALE, "spike_strength": SPIKE_SCALE},
        limits=(
            Limit("noise_scale", {"remainder": 1, "c": 4}, sp.Rational(1, 2), "variance 1/p at p = 4n"),
            Limit(
                "spike_strength",
                {"a_2": 3, "c": "3/2", "square_variance": 2},
                sp.Integer(2),
                "a_2/c at kappa = 2",
            ),
        ),
    )
    return Derivation(
        "interpolation.linearization",
        "Linearization of the attention matrix",
        PAPER,
        definitions,
        steps,
        record,
    )
