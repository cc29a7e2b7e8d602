r"""Declared empirical risk minimizations: trainable vectors, priors, and the replica-symmetric action of a problem.

A :class:`Problem` says which :class:`Vector` a loss sees through its fields, how hidden directions tilt the law of the
data, and which :class:`Prior` acts on components. :meth:`Problem.action` is the replica-symmetric action; what follows
from it is derived in :mod:`theorykit.derivations.replica`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import sympy as sp

from theorykit.derivations.laplace import INDICES
from theorykit.derivations.ledger import Quantity
from theorykit.derivations.nodes import DistinctSum, Expectation, TokenExpectation
from theorykit.derivations.proximal import AtProximal, Moreau

__all__ = ["ALPHA", "FIELD_NOISE", "TRUTH", "Prior", "Problem", "Vector", "over_tokens", "ridge"]

ALPHA = sp.Symbol("alpha", positive=True)
TRUTH, FIELD_NOISE = sp.Symbol("w_star", real=True), sp.Symbol("zeta", real=True)


@dataclass(frozen=True)
class Vector:
    """A trainable vector: its order parameters, their conjugates, and the fields it makes on the tokens."""

    name: str

    def _symbol(self, stem: str, **assumptions: bool) -> sp.Symbol:
        return sp.Symbol(f"{stem}_{self.name}", **assumptions)

    @property
    def m(self) -> sp.Symbol:
        """Overlap with the hidden direction."""
        return self._symbol("m", real=True)

    @property
    def q(self) -> sp.Symbol:
        """Self-overlap."""
        return self._symbol("q", nonnegative=True)

    @property
    def V(self) -> sp.Symbol:
        """Variance of a field over the minima's soft directions (inverse curvature)."""
        return self._symbol("V", positive=True)

    @property
    def m_hat(self) -> sp.Symbol:
        return self._symbol("m_hat", real=True)

    @property
    def q_hat(self) -> sp.Symbol:
        return self._symbol("q_hat", positive=True)

    @property
    def V_hat(self) -> sp.Symbol:
        return self._symbol("V_hat", positive=True)

    @property
    def ridge(self) -> sp.Symbol:
        return self._symbol("ridge", positive=True)

    @property
    def weight(self) -> sp.Symbol:
        """One component of the vector."""
        return self._symbol("w", real=True)

    @property
    def field(self) -> sp.IndexedBase:
        """Fields x[i] that the loss sees."""
        return sp.IndexedBase(f"x_{self.name}")

    @property
    def truth(self) -> sp.IndexedBase:
        """Fields z[i] of the hidden direction."""
        return sp.IndexedBase(f"z_{self.name}")

    @property
    def noise(self) -> sp.IndexedBase:
        """The rest eta[i] of the fields, independent of the hidden ones."""
        return sp.IndexedBase(f"eta_{self.name}")

    @property
    def spread(self) -> sp.Expr:
        return sp.sqrt(self.q - self.m**2)

    def omega(self, i: sp.Basic) -> sp.Expr:
        """Field of token l without the sample itself."""
        return self.m * self.truth[i] + self.spread * self.noise[i]

    def penalty(self, i: sp.Basic, omega: sp.Expr | None = None) -> sp.Expr:
        """Distance of a field from where it is without the sample, in units of the variance."""
        return (self.field[i] - (self.omega(i) if omega is None else omega)) ** 2 / (2 * self.V)

    def response(self, i: sp.Basic) -> sp.Expr:
        """How far the sample moves the field, over the variance."""
        return (self.field[i] - self.omega(i)) / self.V

    def rows(self) -> tuple[Quantity, ...]:
        a = self.name
        return (
            Quantity(self.m, f"m_{{{a}}}", f"overlap of {a} with its hidden direction"),
            Quantity(self.q, f"q_{{{a}}}", f"self-overlap of {a}", "[m^2, inf)"),
            Quantity(self.V, f"V_{{{a}}}", f"variance of the fields of {a}", "(0, inf)"),
            Quantity(self.m_hat, rf"\hat m_{{{a}}}", f"conjugate of m_{a}"),
            Quantity(self.q_hat, rf"\hat q_{{{a}}}", f"conjugate of q_{a}", "[0, inf)"),
            Quantity(self.V_hat, rf"\hat V_{{{a}}}", f"conjugate of V_{a}"),
            Quantity(self.ridge, rf"\lambda_{{{a}}}", f"penalty on {a}", "(0, inf)"),
        )


@dataclass(frozen=True)
class Prior:
    """What acts on single components: the regularizer, in the component, and the law of the hidden ones.

    ``truth``: pairs (probability, component as an expression in the standard Gaussian ``TRUTH``), of mean square 1.
    """

    regularizer: sp.Expr
    truth: tuple[tuple[sp.Expr, sp.Expr], ...] = ((sp.Integer(1), TRUTH),)


def ridge(vector: Vector) -> Prior:
    """lambda |w|^2/2 on every component, Gaussian hidden direction."""
    return Prior(vector.ridge * vector.weight**2 / 2)


@dataclass(frozen=True)
class Problem:
    """An empirical risk minimization.

    Parameters
    ----------
    loss : expression in the fields ``x_a[l]``, the hidden ones ``z_a[l]`` and the ``shared`` Gaussians
    tilt : density of the data relative to standard Gaussian hidden fields, in ``z_a[l]``
    priors : by name of the vector; a ridge where absent
    parameters : rows of the symbol table for the other symbols of loss, tilt and priors
    """

    name: str
    title: str
    source: str
    vectors: tuple[Vector, ...]
    loss: sp.Expr
    tilt: sp.Expr = sp.S.One
    length: sp.Expr = sp.S.One
    shared: tuple[sp.Symbol, ...] = ()
    priors: Mapping[str, Prior] = field(default_factory=dict, hash=False)
    parameters: tuple[Quantity, ...] = ()

    def prior(self, vector: Vector) -> Prior:
        return self.priors.get(vector.name, ridge(vector))

    def penalty(self) -> sp.Expr:
        """Distance of the fields from omega, in units of the variances."""
        return sp.Add(*[over_tokens(a.penalty, self.length) for a in self.vectors])

    def average(self, integrand: sp.Expr) -> sp.Expr:
        """Average over the data: tilt times standard Gaussians."""
        families = [f for a in self.vectors for f in (a.truth, a.noise)]
        return TokenExpectation(self.tilt * integrand, families, self.length, self.shared)

    def at_minimum(self, quantity: sp.Expr) -> sp.Expr:
        return AtProximal(quantity, self.loss, self.penalty(), [a.field for a in self.vectors])

    def channel(self) -> sp.Expr:
        """alpha times the mean of the Moreau envelope of the loss."""
        envelope = Moreau(self.loss, self.penalty(), [a.field for a in self.vectors])
        return ALPHA * self.average(envelope)

    def prior_average(self, vector: Vector, of_truth: Callable[[sp.Expr], sp.Expr]) -> sp.Expr:
        """Average over hidden components and the Gaussian noise of the field that acts on them."""
        return sp.Add(
            *[
                p * Expectation(of_truth(w), [s for s in (TRUTH, FIELD_NOISE) if s != TRUTH or w.has(TRUTH)])
                for p, w in self.prior(vector).truth
            ]
        )

    def prior_penalty(self, vector: Vector, truth: sp.Expr) -> sp.Expr:
        pull = vector.m_hat * truth + sp.sqrt(vector.q_hat) * FIELD_NOISE
        return vector.V_hat * vector.weight**2 / 2 - pull * vector.weight

    def at_component(self, vector: Vector, of_truth: Callable[[sp.Expr], sp.Expr]) -> sp.Expr:
        """Average of a quantity of the minimizing component."""
        regularizer = self.prior(vector).regularizer
        return self.prior_average(
            vector,
            lambda w: AtProximal(of_truth(w), regularizer, self.prior_penalty(vector, w), [vector.weight]),
        )

    def action(self) -> sp.Expr:
        """The replica-symmetric action, whose extremum is the least objective per dimension."""
        products, priors = sp.Integer(0), sp.Integer(0)
        for a in self.vectors:
            products += a.m * a.m_hat - a.q * a.V_hat / 2 + a.V * a.q_hat / 2
            regularizer = self.prior(a).regularizer
            priors += self.prior_average(
                a, lambda w, a=a, r=regularizer: Moreau(r, self.prior_penalty(a, w), [a.weight])
            )
        return products + self.channel() + priors


def over_tokens(summand: Callable[[sp.Basic], sp.Expr], length: sp.Expr) -> sp.Expr:
    """Sum over tokens: the hidden one, number 1, and the others."""
    first = summand(sp.Integer(1))
    if length == 1:
        return first
    return first + DistinctSum(summand(INDICES[0]), (INDICES[0],), 2, length)
