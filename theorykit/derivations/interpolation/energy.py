r"""First moment of the features, from the Dyson equations at infinite ridge.

There the block q decouples, and :math:`(L^{-1})_{qq}=-1/\gamma+\Phi\Phi^\top/\gamma^2+\dots`: the normalized trace of
the second term is what the p-side equation says at order :math:`1/\gamma^2`. The n-side traces at infinite ridge are
reached exactly by iterating their equations, because the pencil is nilpotent there.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.dyson.equations import DysonSystem
from theorykit.errors import DerivationError

__all__ = ["first_moment"]

_MOST = 8


def first_moment(system: DysonSystem, ridge: sp.Symbol, z: sp.Symbol) -> sp.Expr:
    """Limit of tr Phi^T Phi/n for a pencil whose block q carries the ridge."""
    kept, _ = system.traces["p"]
    names = [system.pencil.variables[i].name for i in kept]
    inner = sp.ImmutableDenseMatrix(system.sources["p"].arg)
    at = names.index("q")
    rest = [i for i in range(len(names)) if i != at]
    if sp.expand(inner[at, at] + ridge).has(ridge) or inner.extract(rest, rest).has(ridge):
        raise DerivationError("the ridge must stand in the block q alone")
    values = _at_infinity(system, rest, z)
    # the Schur complement of the block q, without the ridge
    below = inner.extract(rest, [at])
    inside = inner.extract(rest, rest).inv() if rest else sp.zeros(0, 0)
    second = -(inner[at, at] + ridge) + ((below.T * inside * below)[0, 0] if rest else 0)
    return sp.factor(sp.cancel(system.ratios["p"] * second.subs(values)))


def _at_infinity(system: DysonSystem, rest: list[int], z: sp.Symbol) -> dict[sp.Symbol, sp.Expr]:
    """Traces of the n-side where the block q is frozen, by iterating their equations to the end."""
    traces = system.traces["p"][1]
    inner = sp.ImmutableDenseMatrix(system.sources["p"].arg)
    size = inner.rows
    table = system.traces["n"][1]
    source = system.sources["n"].arg
    values = {u: _explicit(e, z) for u, e in system.start.items()}
    for _ in range(_MOST):
        frozen = sp.zeros(size, size)
        if rest:
            block = inner.extract(rest, rest).subs(values).inv()
            for a, i in enumerate(rest):
                for b, j in enumerate(rest):
                    frozen[i, j] = block[a, b]
        blocks = {traces[i, j]: frozen[i, j] for i in range(size) for j in range(size) if traces[i, j] != 0}
        image = sp.Matrix(source).subs(blocks).subs(values).subs(z, -1).inv().applyfunc(sp.cancel)
        found = {table[i, j]: image[i, j] for i in range(table.rows) for j in range(i, table.cols)}
        found = {u: found[u] for u in values}
        if found == values:
            return values
        values = found
    raise DerivationError("the equations at infinite ridge do not end")


def _explicit(entry: sp.Expr, z: sp.Symbol) -> sp.Expr:
    """An entry of the inverse of an explicit matrix, written out."""
    if not entry.args:
        return entry
    matrix, i, j = entry.args
    return sp.cancel(sp.Matrix(matrix.arg).subs(z, -1).inv()[int(i), int(j)])
