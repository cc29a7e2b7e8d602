r"""Linearization of the attention matrix: linear part, Wigner part, and the spike of the second coefficient.

Setting: :math:`K_{ij}=f(x_i^\top Wx_j/\sqrt p)/\sqrt p` off the diagonal, f centred with normalized Hermite
coefficients a_k. In operator norm, up to o(1),

.. math:: K=a_1(X^\top WX/p-1)+S+\theta_2(ge^\top+eg^\top)

with S asymptotically a Wigner matrix of off-diagonal variance :math:`(\nu-a_1^2)/p`, e the constant unit vector and g
the unit vector along :math:`|z_i|^2-p`. The argument of f is not symmetric only through a matrix of rank three and
norm O(1), which enters linearly: S is symmetric. The steps give what the sizes of S and of the spike rest on (degrees
are uncorrelated; the mean of the second degree given the norms); that S is free from Z and that degrees above two
leave no spike is assumed, and simulated.

What is left at finite size is largest where the signal is strong. Without weights it shifts scores by
:math:`b=y_iy_j(\alpha+u_i+u_j)`, with :math:`\alpha=|\mu|^2/\sqrt p` and Gaussian u of variance :math:`|\mu|^2/p`, and

.. math:: \mathbb Ef(\xi+b)=a_1b+a_2b^2/\sqrt2+a_3b^3/\sqrt6.

The cubic term changes the coupling of labels with labels by :math:`a_3(|\mu|^4+6|\mu|^2)/(\sqrt6a_1p)`, relatively,
and that of labels with the noise along the signal by :math:`a_3(3|\mu|^4+6|\mu|^2)/(\sqrt6a_1p)`. Both vanish like 1/p:
the limit has no such term.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.interpolation.features import NOISE_SCALE, SPIKE_SCALE
from theorykit.derivations.interpolation.symbols import (
    A_1,
    A_2,
    KAPPA,
    PAPER,
    REMAINDER,
    SIGNAL2,
    C,
    quantities,
)
from theorykit.derivations.ledger import (
    Definition,
    Derivation,
    Equations,
    Limit,
    Quantity,
    Step,
    assumed,
    proved,
)
from theorykit.derivations.nodes import Expectation

__all__ = ["derive_linearization"]

A_3 = sp.Symbol("a_3", real=True)
X = sp.Symbol("x", real=True)
SHIFT = sp.Symbol("b", real=True)
DIMENSION = sp.Symbol("p", positive=True)
U, V = sp.symbols("u v", real=True)
T_I = sp.Symbol("t_i", positive=True)
T_J = sp.Symbol("t_j", positive=True)


def derive_linearization() -> Derivation:
    """Variance and scale of the Wigner part, conditional mean of the second degree and strength of the spike."""
    variance, mean, noise, spike = sp.symbols(
        "noise_variance conditional_mean noise_scale spike_strength", real=True
    )
    second, third = (X**2 - 1) / sp.sqrt(2), (X**3 - 3 * X) / sp.sqrt(6)
    cubic = A_3 / sp.sqrt(6) / A_1  # of b^3, over the coefficient of b
    mean_shift, width = SIGNAL2 / sp.sqrt(DIMENSION), sp.sqrt(SIGNAL2 / DIMENSION)
    shift = mean_shift + width * (U + V)
    shifted, labels, along = sp.symbols("shifted_mean label_correction signal_correction", real=True)
    given_norms = second.xreplace({X: sp.sqrt(T_I * T_J) * X})
    definitions = (
        Definition(variance, Expectation((A_2 * second + A_3 * third) ** 2, X),
                   "p times the variance of the entries that degrees two and three leave"),
        Definition(mean, Expectation(given_norms, X),
                   "mean of the second Hermite polynomial given t = |z|^2/p of both tokens"),
        Definition(noise, NOISE_SCALE, "sqrt(n) times the standard deviation of the entries of S"),
        Definition(spike, SPIKE_SCALE, "norm of the mean of the second degree given the norms of the tokens"),
        Definition(shifted, Expectation((A_1 * X + A_2 * second + A_3 * third).xreplace({X: X + SHIFT}), X),
                   "mean of f, up to the third degree, at scores shifted by b"),
        Definition(labels, cubic * Expectation(shift**3, (U, V)) / mean_shift,
                   "relative change of the coupling of labels with labels by the cubic term"),
        Definition(along, cubic * Expectation(shift**3 * U, (U, V)) / width,
                   "relative change of the coupling of labels with the noise along the signal"),
    )  # fmt: skip
    powers = A_1 * SHIFT + A_2 * SHIFT**2 / sp.sqrt(2) + A_3 * SHIFT**3 / sp.sqrt(6)
    of_labels = cubic * (SIGNAL2**2 + 6 * SIGNAL2) / DIMENSION
    of_signal = cubic * (3 * SIGNAL2**2 + 6 * SIGNAL2) / DIMENSION
    steps = (
        Step("uncorrelated degrees", definitions[0].expression, A_2**2 + A_3**2, ("noise_variance",),
             "Hermite polynomials are orthonormal; higher degrees add their squares likewise", proved()),
        Step("mean given the norms", definitions[1].expression, (T_I * T_J - 1) / sp.sqrt(2), ("conditional_mean",),
             "given the norms the argument is Gaussian of variance t_i t_j: to first order a matrix of rank two, with "
             "entries t - 1 of variance kappa/p", proved()),
        Step("Wigner law", NOISE_SCALE, NOISE_SCALE, ("noise_scale", "uncorrelated degrees"),
             "entries of variance remainder/p = (remainder/c)/n; degrees above one are asymptotically free from Z",
             assumed("kernel random matrices: El Karoui 2010, Cheng and Singer 2013, Fan and Montanari 2019; "
                     "simulated here through the error")),
        Step("only spike", SPIKE_SCALE, SPIKE_SCALE, ("spike_strength", "mean given the norms"),
             "a_2/sqrt(2 p) times a vector of norm sqrt(n kappa/p) beside the vector of ones, of norm sqrt(n)",
             assumed("the norm of a degree k is O(p^(1 - k/2)); simulated at unbalanced labels")),
        Step("shifted scores", definitions[4].expression, powers, ("shifted_mean",),
             "E h_k(x + b) = b^k/sqrt(k!)", proved()),
        Step("labels with labels", definitions[5].expression, of_labels, ("label_correction", "shifted scores"),
             "the mean of the cube over the mean of the shift", proved()),
        Step("labels with noise", definitions[6].expression, of_signal, ("signal_correction", "shifted scores"),
             "the regression of the cube on one of its Gaussians", proved()),
    )  # fmt: skip
    rows = (
        Quantity(A_3, "a_3", "third Hermite coefficient of f"),
        Quantity(T_I, "t_i", "squared norm of a token over p", "positive"),
        Quantity(T_J, "t_j", "squared norm of another token over p", "positive"),
        Quantity(variance, r"v_{2,3}", "variance that degrees two and three leave, times p", "nonnegative"),
        Quantity(mean, r"\bar h_2", "mean of the second Hermite polynomial given the norms"),
        Quantity(noise, r"\sigma", "standard deviation of the Wigner part, times sqrt(n)", "nonnegative"),
        Quantity(spike, r"\theta_2", "strength of the spike of the second coefficient"),
        Quantity(SHIFT, "b", "shift of a score by the signal"),
        Quantity(DIMENSION, "p", "dimension", "positive"),
        Quantity(shifted, r"\bar f(b)", "mean of f at scores shifted by b"),
        Quantity(labels, r"\delta_{yy}", "relative change of the coupling of labels with labels, order 1/p"),
        Quantity(along, r"\delta_{y\mu}", "relative change of the coupling of labels with noise, order 1/p"),
    )
    record = Equations(
        "interpolation.linearization",
        quantities({A_1, A_2, C, KAPPA, REMAINDER, SIGNAL2}, *rows),
        {},
        {
            "noise_variance": A_2**2 + A_3**2,
            "conditional_mean": (T_I * T_J - 1) / sp.sqrt(2),
            "noise_scale": NOISE_SCALE,
            "spike_strength": SPIKE_SCALE,
            "shifted_mean": powers,
            "label_correction": of_labels,
            "signal_correction": of_signal,
        },
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
    title = "Linearization of the attention matrix"
    return Derivation("interpolation.linearization", title, PAPER, definitions, steps, record)
