"""Records of users' own expressions: what the front of the engine compiles."""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp

from theorykit.derivations.dyson.equations import DysonSystem, dyson_system
from theorykit.derivations.dyson.expression import Expression, Outer, Vector, atoms
from theorykit.derivations.dyson.pencil import make_pencil
from theorykit.derivations.dyson.spikes import spiked_system
from theorykit.derivations.fixed_point import FixedPoint
from theorykit.derivations.ledger import Quantity

__all__ = ["SHIFT", "Z", "law_record", "system_of"]

Z = sp.Symbol("z", complex=True)
SHIFT = sp.Symbol("shift", nonnegative=True)


def system_of(expression: Expression, shifted: bool = False) -> DysonSystem:
    """The Dyson equations of an expression, with or without the shift that finds the branch."""
    return dyson_system(make_pencil(expression, Z), shift=SHIFT if shifted else sp.Integer(0))


def law_record(expression: Expression, left: Vector | None = None, right: Vector | None = None) -> FixedPoint:
    """Record with the observables ``stieltjes``, ``determinant`` and, for two vectors, ``quadratic_form``.

    ``stieltjes`` is the limit of tr (expr - z)^{-1}/dimension, ``determinant`` vanishes at outliers and
    ``quadratic_form`` is the limit of left^T (expr - z)^{-1} right.
    """
    system = system_of(expression, shifted=True)
    vectors = [v for v in (left, right) if v is not None]
    spiked = spiked_system(system, [(v, 0) for v in vectors])
    observables: dict[str, sp.Expr] = {"stieltjes": system.corner}
    if vectors or any(isinstance(atom, Outer) for atom in atoms(expression)):
        observables["determinant"] = spiked.determinant if spiked.directions else sp.Integer(1)
    if left is not None and right is not None:
        observables["quadratic_form"] = spiked.quadratic_form((left, 0), (right, 0))
    known = {*system.unknowns, *system.explicit}
    free: set[sp.Symbol] = set()
    for part in [
        *system.equations.values(),
        *system.explicit.values(),
        *observables.values(),
        *system.start.values(),
    ]:
        free |= part.free_symbols
    rows = [*system.symbols(), *(_row(s) for s in sorted(free - known, key=lambda s: s.name))]
    return FixedPoint(
        f"random_matrices.{expression!r}"[:200],
        tuple(rows),
        {**system.equations, **system.explicit},
        observables,
        start=dict(system.start),
        matrices=system.matrices,
    )


_MEANINGS: Mapping[str, tuple[str, str]] = {
    "z": ("z", "spectral parameter"),
    "shift": (r"\eta", "imaginary shift of all blocks, lowered to zero"),
}


def _row(symbol: sp.Symbol) -> Quantity:
    name = symbol.name
    if name in _MEANINGS:
        return Quantity(symbol, *_MEANINGS[name])
    if name.startswith("ratio_"):
        return Quantity(symbol, rf"c_{{{name[6:]}}}", f"dimension {name[6:]} over n", "positive")
    if name.startswith("dot_"):
        left, right = name[4:].split("_", 1)
        return Quantity(symbol, rf"\langle {left},{right}\rangle", f"scalar product of {left} and {right}")
    return Quantity(symbol, rf"\mathrm{{{name}}}", "scalar of the expression")
