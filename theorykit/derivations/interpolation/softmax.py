r"""Softmax attention as entrywise attention: the formula that it stands for, and its Hermite coefficients.

With the diagonal masked the row sums of :math:`e^{s_{ij}}` concentrate, so softmax times :math:`n/\sqrt p` is the
entrywise attention of f = exp(x - 1/2) - 1 plus a mean component, which :mod:`.centering` treats. An unmasked diagonal,
of order :math:`e^{\sqrt p}`, outweighs its row: softmax is then the identity, and the limit linear regression.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.interpolation.symbols import PAPER
from theorykit.derivations.ledger import Check, Derivation, Equations, Limit, Quantity, assumed, verified
from theorykit.derivations.nodes import Expectation

__all__ = ["derive_softmax"]

_X = sp.Symbol("x", real=True)
_SUM = sp.Symbol("row_sum", positive=True)
_CONCENTRATION = (
    "law of large numbers for the row sums; simulated with softmax itself at the validation points"
)


def _exact(*points: dict[str, object]) -> Check:
    return verified(*points, digits=25, left="mp-trapezoid", right="mp-quad")


def derive_softmax() -> Derivation:
    """The softmax map and its Hermite coefficients."""
    chain, rows = Chain(), []
    entry = sp.Symbol("softmax_entry", real=True)
    chain.define(entry, sp.exp(_X) / _SUM, "n times an entry of softmax, the diagonal masked")
    average = Expectation(sp.exp(_X), _X)
    chain.add(entry, "row sums", sp.exp(_X) / average, "n masked scores are nearly independent Gaussians",
              assumed(_CONCENTRATION))  # fmt: skip
    weight = sp.exp(_X - sp.Rational(1, 2))
    chain.add(
        entry, "softmax map", weight, "the mean of a lognormal variable", _exact({"x": 0.3}, {"x": -1.2})
    )
    rows.append(Quantity(entry, "nA_{ij}", "n times an entry of softmax"))
    second = (_X**2 - 1) / sp.sqrt(2)
    coefficients = (
        ("softmax_mean", "a_0", weight, sp.Integer(1), "mean: the component that the centerings treat"),
        ("softmax_linear", "a_1", weight * _X, sp.Integer(1), "first Hermite coefficient"),
        ("softmax_second", "a_2", weight * second, 1 / sp.sqrt(2), "second Hermite coefficient"),
        ("softmax_moment", r"\nu", (weight - 1) ** 2, sp.E - 1, "second moment of the centred map"),
    )
    for name, latex, integrand, value, meaning in coefficients:
        symbol = sp.Symbol(name, real=True)
        chain.define(symbol, Expectation(integrand, _X), f"{meaning} of the softmax map")
        chain.add(symbol, "lognormal", value, "moments of a shifted Gaussian", _exact({}), (entry,))
        rows.append(Quantity(symbol, rf"{latex}^{{\mathrm{{softmax}}}}", f"{meaning} of the softmax map"))
    plain = (
        Quantity(_X, "x", "score of a pair of tokens, Gaussian in the limit"),
        Quantity(_SUM, r"\bar r", "row sum of exp(score) over n", "positive"),
    )
    record = Equations(
        "interpolation.softmax",
        (*plain, *rows),
        {},
        {str(s): e for s, e in chain.results.items()},
        limits=(
            Limit("softmax_moment", {}, sp.E - 1, "variance of a lognormal variable of mean 1"),
            Limit("softmax_entry", {"x": "1/2"}, sp.Integer(1), "a score of 1/2 has the mean weight"),
        ),
    )
    title = "Softmax as entrywise attention"
    return Derivation(
        "interpolation.softmax", title, PAPER, tuple(chain.definitions), tuple(chain.steps), record
    )
