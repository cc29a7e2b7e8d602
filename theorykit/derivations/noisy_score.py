r"""A location drawn from softmax(nu x), with the score of a token as the variable instead of the field x.

The drawn location is the place of the largest noisy field x - log(w)/nu, w an exponential variable of each token. The
score of the token is a multiple of u, and the field :math:`x=au+b\eta` with :math:`\eta` independent of u, standard.
Given u and w, the noisy field lies below y where :math:`\eta<z`, :math:`z=(y-au+\log(w)/\nu)/b`. With y in place of
the Laplace variable of the location probabilities, :math:`s=e^{-\nu y}`,

.. math::
    E_{u,\eta}[e^{-se^{\nu x}}g]=E_u\int_0^\infty e^{-w}\int_{-\infty}^z\phi(\eta)g\,d\eta\,dw,\qquad
    E_{u,\eta}[se^{\nu x}e^{-se^{\nu x}}g]\,\frac{ds}s=E_u\int_0^\infty e^{-w}\frac{\phi(z)}b\,g(u,z)\,dw\,dy.

Nothing is steep however large nu is, as long as b is not small, and a kink of a function of the score stays where it
is. In the limit of large nu the noise is gone, w = 1.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.nodes import Expectation, HalfLine
from theorykit.derivations.special import gamma_weight, normal_cdf, normal_pdf
from theorykit.derivations.steep import HIDDEN, collected, rewritten
from theorykit.errors import DerivationError

__all__ = ["over_noisy_field"]

Fields = tuple[sp.Symbol, sp.Symbol, sp.Symbol]


def over_noisy_field(node: HalfLine, steepness: sp.Expr, fields: Fields) -> sp.Expr:
    """The Laplace variable s of the location probabilities as the noisy field of the hidden token.

    ``fields`` names the score u of a token, the field eta orthogonal to it, and the noisy field. A half-line integral
    inside that over s becomes the outer one.
    """
    s, inside = node.variable, node.integrand
    if isinstance(inside, HalfLine):
        return HalfLine(over_noisy_field(HalfLine(inside.integrand, s), steepness, fields), inside.variable)
    terms = [collected(term * s, s) for term in sp.Add.make_args(inside)]
    moved = [rewritten(term, lambda average: _given_noisy(average, s, steepness, fields)) for term in terms]
    return Expectation(sp.Add(*moved), [fields[-1]])


def _given_noisy(node: Expectation, s: sp.Symbol, steepness: sp.Expr, fields: Fields) -> sp.Expr:
    """One-token average with a Laplace factor in s, given the noisy field of the hidden token."""
    u, eta, y = fields
    factors = sp.Mul.make_args(node.integrand)
    found = [f for f in factors if f.has(s)]
    if len(found) != 1 or not isinstance(found[0], sp.exp | gamma_weight):
        raise DerivationError(f"{node} must have one Laplace factor in {s}")
    laplace = found[0]
    is_own = isinstance(laplace, gamma_weight)
    along, across = _field_of(laplace.args[0] if is_own else -laplace.args[0], s, steepness, eta)
    front = sp.Mul(*[f for f in factors if f is not laplace and not f.has(eta)])
    rest = sp.Mul(*[f for f in factors if f is not laplace and f.has(eta)])
    w = HIDDEN
    z = (y - along + sp.log(w) / steepness) / across
    if is_own:
        if laplace.args[1] != 1:
            raise DerivationError(f"{laplace} must carry one power of the likelihood")
        # the density of y stands in the measure of the outer average
        density = sp.exp((y**2 - z**2) / 2) / across
        return Expectation(front * HalfLine(sp.exp(-w) * rest.xreplace({eta: z}) * density, w), [u])
    if front == 1 and rest == 1:  # nothing depends on the score: the field itself is the variable
        _require_standard(along / u, across)
        return HalfLine(sp.exp(-w) * normal_cdf(y + sp.log(w) / steepness), w)
    constant, slope = _affine(rest, eta)
    below = constant * HalfLine(sp.exp(-w) * normal_cdf(z), w)
    if slope != 0:
        below -= slope * HalfLine(sp.exp(-w) * normal_pdf(z), w)
    return Expectation(front * below, [u])


def _field_of(weight: sp.Expr, s: sp.Symbol, steepness: sp.Expr, eta: sp.Symbol) -> tuple[sp.Expr, sp.Expr]:
    """(a u, b) of a likelihood s exp(steepness (a u + b eta))."""
    growth = weight / s
    field = sp.expand(growth.args[0] / steepness) if isinstance(growth, sp.exp) else sp.Integer(0)
    across = field.coeff(eta, 1)
    along = field - across * eta
    if across == 0 or sp.expand(along).has(eta):
        raise DerivationError(f"{weight} is not {s} times an exponential of a field with a part along {eta}")
    return sp.expand(along), across


def _require_standard(along: sp.Expr, across: sp.Expr) -> None:
    if sp.simplify(along**2 + across**2) != 1:
        raise DerivationError(f"a field with parts {along} and {across} is not standard")


def _affine(rest: sp.Expr, eta: sp.Symbol) -> tuple[sp.Expr, sp.Expr]:
    """(c, d) of c + d eta."""
    coefficients = sp.Poly(rest, eta).all_coeffs()
    if len(coefficients) > 2:
        raise DerivationError(f"{rest} is not affine in {eta}")
    *slope, constant = coefficients
    return constant, slope[0] if slope else sp.Integer(0)
