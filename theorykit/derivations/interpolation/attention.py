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

from collections.abc import Mapping

import sympy as sp

from theorykit.derivations.fixed_point import FixedPoint, implicit_rates
from theorykit.derivations.interpolation.energy import first_moment
from theorykit.derivations.interpolation.features import FORBIDDEN, attention_pencil, spiked, system
from theorykit.derivations.interpolation.symbols import (
    A_1,
    DIAGONAL,
    GAMMA,
    LABEL,
    MEAN,
    PAPER,
    C,
    Z,
    observable_rows,
    quantities,
)
from theorykit.derivations.ledger import (
    Check,
    Definition,
    Derivation,
    Limit,
    Quantity,
    Step,
    assumed,
    simulated,
    verified,
)
from theorykit.derivations.matrices import Entry, product, total_derivative
from theorykit.errors import DerivationError

__all__ = ["CENTERINGS", "derive_attention", "derive_spectrum"]

CENTERINGS = tuple(FORBIDDEN)

_FREE = "asymptotic freeness of the Wigner part from Z and the matrix Dyson equation of Gaussian pencils"
_ISOTROPIC = "interpolation error against the finite model, at the validation points"
_POINT = {
    "a_1": 0.7, "c": 0.6, "d": 0.2, "gamma": 0.3, "remainder": 0.4, "a_2": 0.3, "square_variance": 2,
    "label_mean": 0.4, "z": -1.1, "Z": 0.8, "S": 0.5, "y": 0.9, "mu": 0.7, "w_K": 0.6, "w_Q": -0.3, "e": 0.4,
    "g": 0.2,
}  # fmt: skip
_OTHER = _POINT | {"a_1": -0.4, "c": 1.7, "gamma": 1.1, "Z": -1.3, "S": 0.9, "mu": -0.5, "z": -0.8}


def _both(z: int) -> Check:
    """Both sides at two points with numbers for matrices and vectors, to 25 digits."""
    points = ({**_POINT, "z": z}, {**_OTHER, "z": z})
    return verified(*points, digits=25, left="mp-trapezoid", right="mp-quad")


def _features_image() -> sp.Expr:
    """Phi with numbers in the place of matrices and vectors."""
    from theorykit.derivations.interpolation.features import NOISE_SCALE, SPIKE_SCALE

    z, s, y, mu, key, query, e, g = sp.symbols("Z S y mu w_K w_Q e g", real=True)
    x = z + mu * y
    return x * (
        A_1 / C * x**2 * (1 + key * query) - (A_1 - DIAGONAL) + NOISE_SCALE * s + 2 * SPIKE_SCALE * g * e
    )


def _block_names() -> list[str]:
    return [v.name for v in attention_pencil().variables]


class _Chains:
    """Definitions and steps of the block traces and their derivatives, shared by both derivations."""

    def __init__(self, z: sp.Expr, shift: sp.Expr) -> None:
        self.system = system(shift)
        self.z = z
        self.at = (lambda e: e.xreplace({Z: z})) if z != Z else (lambda e: e)
        self.image = attention_pencil().image()
        self.definitions: list[Definition] = []
        self.steps: list[Step] = []
        self.equations: dict[sp.Symbol, sp.Expr] = {}

    def blocks(self) -> None:
        """One definition and one step per unknown."""
        names = _block_names()
        for unknown, right in (self.system.equations | self.system.explicit).items():
            i, j = (names.index(n) for n in unknown.name.removeprefix("m_"))
            left = Entry(product(sp.Inverse(self.image)), i, j)
            meaning = f"normalized trace of block ({names[i]}, {names[j]}) of the inverse pencil (numbers for matrices)"
            self.definitions.append(Definition(unknown, left, meaning))
            self.equations[unknown] = self.at(right)
            self.steps.append(
                Step(f"Dyson equation of {unknown.name}", left, self.equations[unknown], (unknown.name,),
                     "the average of the inverse pencil solves its matrix Dyson equation", assumed(_FREE),
                     ("n, p to infinity at p/n = c",))
            )  # fmt: skip

    def rates(self) -> dict[sp.Symbol, sp.Symbol]:
        """The derivative of every trace in z: by partial derivatives, and by the rules of products and inverses."""
        rights = self.system.equations | self.system.explicit
        names = {s: sp.Symbol(f"r_{s.name.removeprefix('m_')}") for s in rights}
        found = implicit_rates(rights, Z, names)
        along = {**names, Z: sp.Integer(1)}
        points = [{**p, **self._numbers(names, k)} for k, p in enumerate((_POINT, _OTHER))]
        check = verified(*points, digits=25, left="mp-trapezoid", right="mp-quad")
        for trace, rate in names.items():
            partial = [
                sp.diff(rights[trace], s) * r for s, r in along.items() if s in rights[trace].free_symbols
            ]
            left, right = self.at(sp.Add(*partial)), self.at(found[rate])
            self.definitions.append(Definition(rate, left, f"derivative of {trace.name} in z"))
            self.steps.append(
                Step(f"derivative of {trace.name}", left, right, (rate.name, f"Dyson equation of {trace.name}"),
                     "implicit differentiation: the derivative of an inverse is -(inverse)(derivative)(inverse)", check)
            )  # fmt: skip
            self.equations[rate] = right
        return names

    def traces(self) -> dict[str, sp.Expr]:
        """The block traces in the scaling of the model, by what they are traces of."""
        image, found = _features_image(), {}
        token = sp.Symbol("Z", real=True) + sp.Symbol("mu", real=True) * sp.Symbol("y", real=True)
        kernel, gram, resolvent = image / token, token**2, 1 / (GAMMA + image**2)
        ends = kernel * resolvent * kernel
        meanings = {
            "uu": (resolvent, "tr Q/n"),
            "uv": (resolvent * kernel, "tr Q K^T/n"),
            "uw": (resolvent * kernel * gram, "tr Q K^T H/n, with H = X^T X/n"),
            "vv": (ends, "tr K Q K^T/n"),
            "vw": (ends * gram - 1, "tr K Q K^T H/n - 1"),
            "ww": (gram * (ends * gram - 1), "tr H (K Q K^T H - 1)/n"),
        }
        power = {"u": -1, "v": -1, "w": 1}  # blocks are of order 1 in units of these powers of sqrt(gamma)
        names = _block_names()
        for unknown in self.system.unknowns:
            pair = unknown.name.removeprefix("m_")
            scale = sp.sqrt(GAMMA) ** (power[pair[0]] + power[pair[1]])
            value, meaning = meanings[pair]
            symbol = sp.Symbol(f"trace_{pair}", real=True)
            block = Entry(sp.Inverse(self.image), *(names.index(n) for n in pair))
            self.definitions.append(Definition(symbol, value, f"{meaning} (numbers for matrices)"))
            first = f"{symbol.name} from the pencil"
            self.steps += [
                Step(first, value, scale * block, (symbol.name,), "stationarity of the pencil, blocks unscaled",
                     _both(-1)),
                Step(f"limit of {symbol.name}", scale * block, scale * unknown, (first, unknown.name),
                     "the normalized trace of the block", assumed(_FREE)),
            ]  # fmt: skip
            found[symbol.name] = scale * unknown
        return found

    @staticmethod
    def _numbers(names: Mapping[sp.Symbol, sp.Symbol], which: int) -> dict[str, float]:
        """Values of the traces and their derivatives, of no meaning but distinct."""
        found = {}
        for k, (trace, rate) in enumerate(names.items()):
            found[trace.name] = 0.3 + 0.17 * ((5 * k + 3 * which) % 7) * (-1) ** k
            found[rate.name] = 0.2 - 0.11 * ((3 * k + which) % 5)
        return found


def derive_attention(centering: str = "entry") -> Derivation:
    """Equations of the interpolation error for one centering of the attention matrix."""
    if centering not in CENTERINGS:
        raise DerivationError(f"centering must be one of {CENTERINGS}, got {centering!r}")
    minus = sp.Integer(-1)
    chains = _Chains(minus, sp.S.Zero)
    chains.blocks()
    rates = chains.rates()
    form = spiked(centering).quadratic_form((LABEL, 0), (LABEL, 0))
    if centering == "row":  # the features are blind to the mean of the labels
        form = form - MEAN**2 / Z
    change = total_derivative(form, {**rates, Z: sp.Integer(1)})
    corner = Entry(sp.Inverse(chains.image), 0, 0)
    phi = _features_image()
    both = _both(-1)
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
             "gamma Q is the corner of the inverse pencil at z = -1, and its square the derivative in z", both),
        Step("isotropic law for the error", squared, at(change),
             ("error as a derivative of the pencil", *(f"derivative of {u.name}" for u in rates)),
             f"spikes couple finitely many directions; the limit is differentiated in z{border}",
             simulated(_ISOTROPIC)),
        Step("quadratic form from the pencil", chains.definitions[-3].expression, corner / GAMMA, (quadratic.name,),
             "stationarity of the pencil over all blocks but the corner", both),
        Step("isotropic law for the quadratic form", corner / GAMMA, at(form) / GAMMA,
             ("quadratic form from the pencil", *(f"Dyson equation of {u.name}" for u in rates)),
             f"(1 + R T)^-1 R between the directions that spikes touch{border}", simulated(_ISOTROPIC)),
        Step("degrees of freedom from the pencil", chains.definitions[-2].expression, 1 - corner, (freedom.name,),
             "the hat matrix is 1 - gamma Q", both),
        Step("trace of the corner", 1 - corner, 1 - m_uu, ("degrees of freedom from the pencil", m_uu.name),
             "the normalized trace of the corner; spikes have no weight in it", assumed(_FREE)),
        Step("first moment", phi**2, moment, (energy.name, *(f"Dyson equation of {u.name}" for u in rates)),
             "the Dyson equations at infinite ridge, to the first order in 1/ridge", assumed(_FREE)),
    ]  # fmt: skip
    traces = chains.traces()
    chains.definitions.append(
        Definition(
            bulk, (GAMMA / (GAMMA + phi**2)) ** 2, "normalized trace of gamma^2 Q^2 (numbers for matrices)"
        )
    )
    chains.steps += [
        Step("bulk error as a derivative of the pencil", chains.definitions[-1].expression, squared, (bulk.name,),
             "the square of the resolvent is its derivative in z", both),
        Step("trace of the derivative", squared, at(rates[m_uu]),
             ("bulk error as a derivative of the pencil", *(f"derivative of {u.name}" for u in rates)),
             "the derivative of the normalized trace", assumed(_FREE)),
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
        _record(f"interpolation.attention.{centering}", chains, rates, observables, GAMMA),
        notes="Blocks are scaled by the ridge: m_uu is gamma tr Q/n, m_uv tr QK^T/n, m_ww stands for m_ww/gamma.",
    )


def _corner_unit(matrix: sp.ImmutableDenseMatrix) -> sp.ImmutableDenseMatrix:
    """The derivative of minus the pencil in z."""
    return sp.ImmutableDenseMatrix(-matrix.diff(Z))


def _record(
    name: str,
    chains: _Chains,
    rates: Mapping[sp.Symbol, sp.Symbol],
    observables: Mapping[str, sp.Expr],
    path: sp.Symbol | None,
) -> FixedPoint:
    start = {u: chains.at(e) for u, e in chains.system.start.items()}
    free: set[sp.Symbol] = set()
    sides = [side for step in chains.steps for side in (step.lhs, step.rhs)]
    for expression in [*observables.values(), *chains.equations.values(), *start.values(), *sides]:
        free |= expression.free_symbols
    rows = [*chains.system.symbols()]
    rows += [
        Quantity(r, rf"\partial_z m_{{{u.name[2:]}}}", f"derivative of {u.name} in z")
        for u, r in rates.items()
    ]
    if chains.system.shift in free:
        rows.append(Quantity(chains.system.shift, r"\eta", "imaginary shift, lowered to zero", "nonnegative"))
    return FixedPoint(
        name,
        quantities(free, *rows, *observable_rows(observables)),
        chains.equations,
        observables,
        limits=_limits(observables),
        start=start,
        rates={u: rates[u] for u in chains.system.unknowns if u in rates},
        path=path,
        matrices=chains.system.matrices,
    )


def _limits(observables: Mapping[str, sp.Expr]) -> tuple[Limit, ...]:
    """Linear regression, K = 1: c = 1, no signal, where everything is explicit."""
    if "interpolation_error" not in observables:
        return ()
    at = {
        "a_1": 0, "remainder": 0, "d": 1, "c": 1, "gamma": "1/2", "a_2": 0, "square_variance": 2, "label_mean": 0,
        "signal2": 0, "key2": 0, "query2": 0, "signal_key": 0, "signal_query": 0, "key_query": 0,
    }  # fmt: skip
    # gamma m^2 + gamma m - 1 = 0 at gamma = 1/2: m = 1, df = 1 - gamma m = 1/2, E = -gamma^2 m' = 1/3
    reason = "K = 1 and c = 1: linear regression without signal, m = 1 at gamma = 1/2"
    found = [Limit("degrees_of_freedom", at, sp.Rational(1, 2), reason)]
    return (*found, Limit("interpolation_error", at, sp.Rational(1, 3), reason))


def derive_spectrum(centering: str = "entry") -> Derivation:
    """Spectrum of the Gram matrix of the features: Stieltjes transform of the bulk, determinant of the outliers."""
    if centering not in CENTERINGS:
        raise DerivationError(f"centering must be one of {CENTERINGS}, got {centering!r}")
    shift = sp.Symbol("shift", nonnegative=True)
    chains = _Chains(Z, shift)
    chains.blocks()
    m_uu = chains.system.corner
    determinant = spiked(centering, shift).determinant
    phi = _features_image()
    corner = Entry(sp.Inverse(chains.image), 0, 0)
    trace, zero = sp.symbols("stieltjes determinant")
    chains.definitions += [
        Definition(
            trace, 1 / (phi**2 / GAMMA - Z), "normalized trace of the resolvent (numbers for matrices)"
        ),
        Definition(zero, phi**2 / GAMMA - Z, "vanishes at eigenvalues (numbers for matrices)"),
    ]
    points = verified(_POINT, _OTHER, digits=25, left="mp-trapezoid", right="mp-quad")
    chains.steps += [
        Step("resolvent from the pencil", chains.definitions[-2].expression, corner, (trace.name,),
             "stationarity of the pencil over all blocks but the corner", points),
        Step("trace of the bulk", corner, m_uu, ("resolvent from the pencil", m_uu.name),
             "spikes have no weight in the normalized trace", assumed(_FREE)),
        Step("eigenvalues of the pencil", chains.definitions[-1].expression, 1 / corner, (zero.name,),
             "the pencil is singular where the matrix has the eigenvalue z", points),
        Step("outliers", 1 / corner, determinant, ("eigenvalues of the pencil",),
             "outside the bulk only the finite system of the spikes can be singular (Sylvester's identity)",
             simulated("largest eigenvalue of the finite model")),
    ]  # fmt: skip
    return Derivation(
        f"interpolation.spectrum.{centering}",
        f"Spectrum of the features of nonlinear attention, centering: {centering}",
        PAPER,
        tuple(chains.definitions),
        tuple(chains.steps),
        _record(
            f"interpolation.spectrum.{centering}",
            chains,
            {},
            {"stieltjes": m_uu, "determinant": determinant},
            None,
        ),
    )
