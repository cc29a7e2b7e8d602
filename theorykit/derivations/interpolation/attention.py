r"""Interpolation error of nonlinear attention: from the pencil of the features to the error.

Setting: the probe on :math:`\Phi=XK/\sqrt n` with ridge :math:`\gamma`; n tokens, p dimensions, p/n -> c. Result: six
fixed-point equations for the block traces of the noise part, a linear system for the finitely many directions of
labels, signal, weights, mean and norms, and the training error as the derivative of the quadratic form of the labels
in z at -1, by implicit differentiation. The equations are those of arXiv 2506.18656 in another form (a 3x3 matrix
equation instead of a 9x9 one); they come out of the engine and are nowhere typed.

Assumed, not proved here: that the traces of the pencil converge to the solution of the Dyson equations, the isotropic
law against deterministic vectors, and that limits in z may be differentiated. Simulations confirm the results.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.interpolation.blocks import FREE, BlockChains, both, record_of
from theorykit.derivations.interpolation.energy import first_moment
from theorykit.derivations.interpolation.features import FORBIDDEN, features_image, label_form
from theorykit.derivations.interpolation.symbols import GAMMA, PAPER, Z
from theorykit.derivations.ledger import Definition, Derivation, Limit, Step, assumed, simulated
from theorykit.derivations.matrices import Entry, product, total_derivative
from theorykit.errors import DerivationError

__all__ = ["CENTERINGS", "derive_attention"]

CENTERINGS = tuple(FORBIDDEN)

_ISOTROPIC = "interpolation error against the finite model, at the validation points"


def derive_attention(centering: str = "entry") -> Derivation:
    """Equations of the interpolation error for one centering of the attention matrix."""
    if centering not in CENTERINGS:
        raise DerivationError(f"centering must be one of {CENTERINGS}, got {centering!r}")
    minus = sp.Integer(-1)
    chains = BlockChains(minus, sp.S.Zero)
    chains.blocks()
    rates = chains.rates()
    form = label_form(centering)
    change = total_derivative(form, {**rates, Z: sp.Integer(1)})
    corner = Entry(sp.Inverse(chains.image), 0, 0)
    phi = features_image()
    check = both(-1)
    error, quadratic, freedom, energy, bulk = sp.symbols(
        "interpolation_error quadratic_form degrees_of_freedom feature_energy bulk_error", real=True
    )
    squared = Entry(
        product(sp.Inverse(chains.image), _corner_unit(chains.image), sp.Inverse(chains.image)), 0, 0
    )
    at = chains.at
    chains.definitions += [
        Definition(error, (GAMMA / (GAMMA + phi**2)) ** 2,
                   "mean squared residual, gamma^2 y^T Q^2 y/n (numbers for matrices)"),
        Definition(quadratic, 1 / (GAMMA + phi**2), "quadratic form of the labels, y^T Q y/n (numbers for matrices)"),
        Definition(freedom, phi**2 / (GAMMA + phi**2), "effective degrees of freedom over n (numbers for matrices)"),
        Definition(energy, phi**2, "normalized trace of the Gram matrix of the features (numbers for matrices)"),
    ]  # fmt: skip
    moment = first_moment(chains.system, GAMMA, Z)
    m_uu = chains.system.corner
    border = "" if not FORBIDDEN[centering] else (
        "; the solution has no component along the mean in the blocks " + ", ".join(FORBIDDEN[centering])
    )  # fmt: skip
    chains.steps += [
        Step("error as a derivative of the pencil", chains.definitions[-4].expression, squared, (error.name,),
             "gamma Q is the corner of the inverse pencil at z = -1, and its square the derivative in z", check),
        Step("isotropic law for the error", squared, at(change),
             ("error as a derivative of the pencil", *(f"derivative of {u.name}" for u in rates)),
             f"spikes couple finitely many directions; the limit is differentiated in z{border}",
             simulated(_ISOTROPIC)),
        Step("quadratic form from the pencil", chains.definitions[-3].expression, corner / GAMMA, (quadratic.name,),
             "stationarity of the pencil over all blocks but the corner", check),
        Step("isotropic law for the quadratic form", corner / GAMMA, at(form) / GAMMA,
             ("quadratic form from the pencil", *(f"Dyson equation of {u.name}" for u in rates)),
             f"(1 + R T)^-1 R between the directions that spikes touch{border}", simulated(_ISOTROPIC)),
        Step("degrees of freedom from the pencil", chains.definitions[-2].expression, 1 - corner, (freedom.name,),
             "the hat matrix is 1 - gamma Q", check),
        Step("trace of the corner", 1 - corner, 1 - m_uu, ("degrees of freedom from the pencil", m_uu.name),
             "the normalized trace of the corner; spikes have no weight in it", assumed(FREE)),
        Step("first moment", phi**2, moment, (energy.name, *(f"Dyson equation of {u.name}" for u in rates)),
             "the Dyson equations at infinite ridge, to the first order in 1/ridge", assumed(FREE)),
    ]  # fmt: skip
    traces = chains.traces()
    chains.definitions.append(
        Definition(
            bulk, (GAMMA / (GAMMA + phi**2)) ** 2, "normalized trace of gamma^2 Q^2 (numbers for matrices)"
        )
    )
    chains.steps += [
        Step("bulk error as a derivative of the pencil", chains.definitions[-1].expression, squared, (bulk.name,),
             "the square of the resolvent is its derivative in z", check),
        Step("trace of the derivative", squared, at(rates[m_uu]),
             ("bulk error as a derivative of the pencil", *(f"derivative of {u.name}" for u in rates)),
             "the derivative of the normalized trace", assumed(FREE)),
    ]  # fmt: skip
    observables = {
        "interpolation_error": at(change),
        "quadratic_form": at(form) / GAMMA,
        "degrees_of_freedom": 1 - m_uu,
        "feature_energy": moment,
        "bulk_error": at(rates[m_uu]),
        **traces,
    }
    return Derivation(
        f"interpolation.attention.{centering}",
        f"Interpolation error of nonlinear attention, centering: {centering}",
        PAPER,
        tuple(chains.definitions),
        tuple(chains.steps),
        record_of(f"interpolation.attention.{centering}", chains, rates, observables, GAMMA, _limits()),
        notes="Blocks are scaled by the ridge: m_uu is gamma tr Q/n, m_uv tr QK^T/n, m_ww stands for m_ww/gamma.",
    )


def _corner_unit(matrix: sp.ImmutableDenseMatrix) -> sp.ImmutableDenseMatrix:
    """The derivative of minus the pencil in z."""
    return sp.ImmutableDenseMatrix(-matrix.diff(Z))


def _limits() -> tuple[Limit, ...]:
    """Linear regression, K = 1: c = 1, no signal, where everything is explicit."""
    at = {
        "a_1": 0, "remainder": 0, "d": 1, "c": 1, "gamma": "1/2", "a_2": 0, "square_variance": 2, "label_mean": 0,
        "signal2": 0, "key2": 0, "query2": 0, "signal_key": 0, "signal_query": 0, "key_query": 0,
    }  # fmt: skip
    # gamma m^2 + gamma m - 1 = 0 at gamma = 1/2: m = 1, df = 1 - gamma m = 1/2, E = -gamma^2 m' = 1/3
    reason = "K = 1 and c = 1: linear regression without signal, m = 1 at gamma = 1/2"
    found = [Limit("degrees_of_freedom", at, sp.Rational(1, 2), reason)]
    return (*found, Limit("interpolation_error", at, sp.Rational(1, 3), reason))
