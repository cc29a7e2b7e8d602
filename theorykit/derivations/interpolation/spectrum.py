r"""Spectrum of the features: the Stieltjes transform of the bulk, and the determinant that vanishes at outliers.

The eigenvalues of the whole matrix outside its bulk are those at which the finite system of the spikes is singular:
with R = V^T L_0^{-1} V between the directions of the spikes and T their coupling, det L = det L_0 det(1 + R T)
(Sylvester). The identity is exact, and verified with numbers for matrices; then R gets its isotropic limit.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.dyson.spikes import SpikedSystem
from theorykit.derivations.interpolation.attention import CENTERINGS
from theorykit.derivations.interpolation.blocks import FREE, BlockChains, record_of
from theorykit.derivations.interpolation.features import attention_pencil, features_image, spiked
from theorykit.derivations.interpolation.points import POINTS
from theorykit.derivations.interpolation.symbols import GAMMA, PAPER, Z
from theorykit.derivations.ledger import Definition, Derivation, Step, assumed, simulated, verified
from theorykit.derivations.matrices import Determinant, Entry
from theorykit.errors import DerivationError

__all__ = ["derive_spectrum"]


def _number(name: str) -> sp.Symbol:
    """What stands in the place of a vector."""
    return sp.Symbol(name, real=True)


def _bordered(spikes: SpikedSystem) -> sp.Expr:
    """Determinant of the pencil with numbers, multipliers for forbidden directions, over that of its noise."""
    image = attention_pencil().image()
    without = sp.ImmutableDenseMatrix(
        image.xreplace({_number(v.name): sp.Integer(0) for v, _ in spikes.directions})
    )
    border = sp.zeros(image.rows, len(spikes.forbidden))
    for column, which in enumerate(spikes.forbidden):
        vector, block = spikes.directions[which]
        border[block, column] = _number(vector.name)
    corner = sp.zeros(border.cols, border.cols)
    full = sp.Matrix(image).row_join(border).col_join(border.T.row_join(corner))
    return Determinant(sp.ImmutableDenseMatrix(full)) / Determinant(without)


def _finite(spikes: SpikedSystem) -> SpikedSystem:
    """The finite system with the noise part itself, numbers for matrices, in the place of its limits."""
    image = attention_pencil().image()
    noise = sp.Inverse(
        sp.ImmutableDenseMatrix(
            image.xreplace({_number(v.name): sp.Integer(0) for v, _ in spikes.directions})
        )
    )
    size = len(spikes.directions)

    def between(a: int, b: int) -> sp.Expr:
        (v, i), (w, j) = spikes.directions[a], spikes.directions[b]
        return _number(v.name) * _number(w.name) * Entry(noise, i, j)

    matrix = sp.ImmutableDenseMatrix(size, size, between)
    return SpikedSystem(spikes.directions, matrix, spikes.coupling, spikes.forbidden)


def derive_spectrum(centering: str = "entry") -> Derivation:
    """Spectrum of the Gram matrix of the features: Stieltjes transform of the bulk, determinant of the outliers."""
    if centering not in CENTERINGS:
        raise DerivationError(f"centering must be one of {CENTERINGS}, got {centering!r}")
    shift = sp.Symbol("shift", nonnegative=True)
    chains = BlockChains(Z, shift)
    chains.blocks()
    m_uu = chains.system.corner
    spikes = spiked(centering, shift)
    exact = _finite(spikes).determinant
    phi = features_image()
    corner = Entry(sp.Inverse(chains.image), 0, 0)
    trace, zero = sp.symbols("stieltjes determinant")
    chains.definitions += [
        Definition(
            trace, 1 / (phi**2 / GAMMA - Z), "normalized trace of the resolvent (numbers for matrices)"
        ),
        Definition(
            zero, _bordered(spikes), "vanishes at eigenvalues outside the bulk (numbers for matrices)"
        ),
    ]
    points = verified(*POINTS, digits=25, left="mp-trapezoid", right="mp-quad")
    chains.steps += [
        Step("resolvent from the pencil", chains.definitions[-2].expression, corner, (trace.name,),
             "stationarity of the pencil over all blocks but the corner", points),
        Step("trace of the bulk", corner, m_uu, ("resolvent from the pencil", m_uu.name),
             "spikes have no weight in the normalized trace", assumed(FREE)),
        Step("spikes", chains.definitions[-1].expression, exact, (zero.name,),
             "Sylvester's identity for det(L_0 + V T V^T)", points),
        Step("outliers", exact, spikes.determinant, ("spikes",), "isotropic law between the directions of the spikes",
             simulated("largest eigenvalue of the finite model")),
    ]  # fmt: skip
    return Derivation(
        f"interpolation.spectrum.{centering}",
        f"Spectrum of the features of nonlinear attention, centering: {centering}",
        PAPER,
        tuple(chains.definitions),
        tuple(chains.steps),
        record_of(
            f"interpolation.spectrum.{centering}",
            chains,
            {},
            {"stieltjes": m_uu, "determinant": spikes.determinant},
            None,
        ),
    )
