r"""Location probabilities and attention weights that are steep in the same field, as integrals over one of them.

With Laplace variables s and t, the factors of one token are :math:`e^{-w}`, :math:`w=s\,e^{\nu x}`, and
:math:`e^{-u}`, :math:`u=t\,e^{mx}`. Both are steps in x, close to each other wherever they matter. With
:math:`s=e^{-\nu y}`, y a noisy field, and the other weight measured at that field, :math:`v=t\,e^{my}`,

.. math::
    x=y+\frac{\log w}\nu,\qquad u=v\,w^c,\qquad c=\frac m\nu,

and with w as the variable nothing is steep however large nu and m are, as long as c is neither small nor above 1:

.. math::
    E_x[w^au^be^{-w-u}]=\int_0^\infty w^{a-1}(vw^c)^b\,e^{-w-vw^c}\,\frac{\phi(x)}\nu\,dw,\qquad
    E_x[e^{-w-u}]=\int_0^\infty e^{-w}\Big[\Phi(x)-(1-e^{-vw^c})\frac{\phi(x)}{\nu w}\Big]dw

(the part of :math:`e^{-w}` by parts). The same holds with the roles exchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sympy as sp

from theorykit.derivations.nodes import Expectation, HalfLine
from theorykit.derivations.special import gamma_weight, normal_cdf, normal_pdf
from theorykit.derivations.steep import OWN, collected, rewritten
from theorykit.errors import DerivationError

__all__ = ["BESIDE", "over_joint_weights"]

BESIDE = sp.Symbol("v", positive=True)  # the other weight at the noisy field, times its Laplace variable


@dataclass(frozen=True)
class _Steep:
    """A weight t exp(c x) of a field, t its Laplace variable."""

    t: sp.Symbol
    c: sp.Expr


@dataclass(frozen=True)
class _Joint:
    """Averages over a field of two weights, by the first as the variable."""

    first: _Steep
    second: _Steep
    field: sp.Symbol

    def degrees(self, average: Expectation) -> dict[sp.Symbol, int]:
        """{s: a, t: b} of the average of w**a u**b exp(-w - u)."""
        factors = sp.Mul.make_args(average.integrand)
        found = {}
        for weight in (self.first, self.second):
            value = weight.t * sp.exp(weight.c * self.field)
            degree = {sp.exp(-value): 0} | {gamma_weight(value, n): n for n in (1, 2)}
            for factor in set(factors) & set(degree):
                found[weight.t] = degree[factor]
        if len(found) != 2 or len(factors) != 2:
            raise DerivationError(f"{average} is not an average of one Laplace factor of each weight")
        return found

    def over_weight(self, average: Expectation, hidden: sp.Symbol) -> sp.Expr:
        """The average as an integral over w, given the noisy field."""
        w, y, ratio = OWN, self.field, self.second.c / self.first.c
        move, beside = sp.log(w) / self.first.c, BESIDE * w**ratio
        degrees = self.degrees(average)
        a, b = degrees[self.first.t], degrees[self.second.t]
        if (a, b) == (0, 0):
            wrong = sp.exp(-w) * (1 - sp.exp(-beside)) * normal_pdf(y + move) / w / self.first.c
            return HalfLine(sp.exp(-w) * normal_cdf(y + move), w) - HalfLine(wrong, w)
        weight = w ** (a - 1) * sp.exp(-w) * (gamma_weight(beside, b) if b else sp.exp(-beside))
        if not degrees[hidden]:
            return HalfLine(weight * normal_pdf(y + move) / self.first.c, w)
        # ds/s = c dy, and the density of y stands in the measure of the outer average
        return HalfLine(weight * sp.exp(-y * move - move**2 / 2), w)


def over_joint_weights(
    node: HalfLine, exponents: Mapping[sp.Symbol, sp.Expr], hidden: sp.Symbol, field: sp.Symbol
) -> Expectation:
    """An integral over both Laplace variables as one over a noisy field and the other weight there.

    ``exponents`` are those of the weights by Laplace variable, that of the weight that becomes the variable first;
    ``hidden`` is the Laplace variable of which the hidden token, one in every term, has the weight in front;
    ``field`` the name of x, and of y in the result.
    """
    first, second = (_Steep(t, c) for t, c in exponents.items())
    joint, inside = _Joint(first, second, field), node.integrand
    if not isinstance(inside, HalfLine) or {node.variable, inside.variable} != set(exponents):
        raise DerivationError(f"{node} is not an integral over {first.t} and {second.t}")
    moved = []
    for integrand in sp.Add.make_args(inside.integrand):
        term = collected(collected(integrand * first.t, first.t) * second.t, second.t)  # of ds/s dt/t
        if sum(joint.degrees(average)[hidden] for average in term.atoms(Expectation)) != 1:
            raise DerivationError(f"{term} has not one hidden token")
        moved.append(rewritten(term, lambda average: joint.over_weight(average, hidden)) / BESIDE)
    return Expectation(HalfLine(sp.Add(*moved), BESIDE), [field])
