"""Limit laws of rational expressions in large random matrices: the engine behind the interpolation theory.

Write an expression in independent Gaussian rectangular and Wigner matrices, identities and low-rank terms; get its
linear pencil, the Dyson equations of the blocks, the limiting Stieltjes transform, density, quadratic forms and
outliers::

    from theorykit import random_matrices as rm

    X = rm.Gaussian("X", rows="p", columns="n")          # entries of variance 1/n
    rm.stieltjes(X.T @ X, 1 + 1j, ratios={"p": 0.5})     # Marchenko-Pastur

Every dimension has a name; ``ratios`` gives each of them over n. Nothing is specific to one law.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from theorykit.derivations.dyson.expression import (
    Expression,
    Gaussian,
    Outer,
    Vector,
    Wigner,
    atoms,
    identity,
    inverse,
    outer,
)
from theorykit.errors import ConvergenceError, require_real

if TYPE_CHECKING:
    import numpy as np

    from theorykit.derivations.dyson.equations import DysonSystem
    from theorykit.derivations.dyson.pencil import Pencil

__all__ = [
    "Gaussian",
    "Vector",
    "Wigner",
    "density",
    "dyson_equations",
    "identity",
    "inverse",
    "outer",
    "outliers",
    "pencil",
    "quadratic_form",
    "stieltjes",
]


def pencil(expr: Expression) -> Pencil:
    """The symmetric linear pencil L of an expression: the corner of its inverse is (expr - z)^{-1}.

    Parameters
    ----------
    expr : expression
        Symmetric.

    Returns
    -------
    Pencil
        ``.variables`` ``.constant`` ``.couplings`` ``.spikes`` ``.latex()``. The corner is checked on random
        matrices before it is returned.

    Raises
    ------
    TypeError, ValueError
        Not an expression; not symmetric; names that stand for two things.
    """
    from theorykit.derivations.dyson.check import corner_mismatch
    from theorykit.derivations.dyson.pencil import make_pencil
    from theorykit.errors import DerivationError

    found = make_pencil(_require_expression(expr))
    mismatch = corner_mismatch(found)
    if not mismatch < 1e-7:
        raise DerivationError(f"the pencil of {expr!r} misses its corner by {mismatch:.1e}")
    return found


def dyson_equations(expr: Expression) -> DysonSystem:
    """Dyson equations of the blocks of the pencil of an expression, in few unknowns.

    Parameters
    ----------
    expr : expression
        Square.

    Returns
    -------
    DysonSystem
        ``.unknowns``, ``.equations`` (unknown -> right side), ``.corner`` (the Stieltjes transform), ``.latex()``.

    Raises
    ------
    TypeError, ValueError
        ``expr`` is no matrix expression, or none that has a pencil.
    """
    from theorykit.derivations.dyson.records import system_of

    return system_of(_require_expression(expr))


def stieltjes(expr: Expression, z: Any, ratios: Mapping[str, float] | None = None) -> Any:
    """Limit of tr (expr - z)^{-1}/dimension.

    Parameters
    ----------
    expr : expression
        Symmetric.
    z : complex or array of complex
        Real z: the limit from the upper half plane.
    ratios : mapping, optional
        Each dimension over n.

    Returns
    -------
    complex or array of the shape of z

    Raises
    ------
    ConvergenceError
        A point was not solved: at an eigenvalue of positive mass, or too close to an edge of the spectrum.

    Examples
    --------
    >>> from theorykit import random_matrices as rm
    >>> round(rm.stieltjes(rm.Wigner("S"), 2j).imag, 12)
    0.414213562373
    """
    return _solved(expr, z, ratios, "stieltjes")


def quadratic_form(
    expr: Expression,
    left: Vector,
    right: Vector,
    z: Any,
    ratios: Mapping[str, float] | None = None,
    overlaps: Mapping[Any, float] | None = None,
) -> Any:
    """Limit of left^T (expr - z)^{-1} right for deterministic vectors.

    Parameters
    ----------
    expr : expression
        Symmetric; its outer products may contain the same vectors.
    left, right : Vector
    z, ratios
        As for :func:`stieltjes`.
    overlaps : mapping, optional
        ``{("u", "v"): value}``: scalar products of vectors. Squares not given are 1, other products 0.

    Returns
    -------
    complex number or array of the shape of ``z``

    Raises
    ------
    TypeError, ValueError
        An argument is of the wrong kind, or a ratio is missing.
    ConvergenceError
        The Dyson equations are not solved at some point.
    """
    for label, vector in (("left", left), ("right", right)):
        if not isinstance(vector, Vector):
            raise TypeError(f"{label} must be a Vector, got {vector!r} ({type(vector).__name__})")
        if vector.dimension != _require_expression(expr).rows:
            raise ValueError(
                f"{label} must be a vector of dimension {expr.rows!r}, got {vector!r}, for {expr!r}"
            )
    return _solved(expr, z, ratios, "quadratic_form", overlaps, left, right)


def density(expr: Expression, grid: Any, ratios: Mapping[str, float] | None = None) -> np.ndarray:
    """Density of the limiting spectrum on a grid of real points.

    Atoms are no part of it: at the place of one ConvergenceError is raised.

    Parameters
    ----------
    expr : expression
        Symmetric.
    grid : array of real numbers
    ratios : mapping, optional
        As for :func:`stieltjes`.

    Returns
    -------
    array of the shape of ``grid``

    Raises
    ------
    TypeError, ValueError
        An argument is of the wrong kind, or a ratio is missing.
    ConvergenceError
        The Dyson equations are not solved at some point, or there is an atom.
    """
    import numpy as np

    points = np.asarray(grid)
    if points.dtype.kind not in "fiu":
        raise TypeError(f"grid must be real numbers, got an array of {points.dtype}")
    values = np.asarray(_solved(expr, points.astype(float), ratios, "stieltjes"))
    return np.maximum(values.imag, 0.0) / np.pi if np.all(values.imag > -1e-8) else _negative(values)


def _negative(values: Any) -> Any:
    raise ConvergenceError(f"the density is negative: {float(values.imag.min()):.1e}", last=values)


def outliers(
    expr: Expression,
    ratios: Mapping[str, float] | None = None,
    overlaps: Mapping[Any, float] | None = None,
) -> tuple[float, ...]:
    """Eigenvalues outside the limiting spectrum, in increasing order, each as often as it occurs.

    Parameters
    ----------
    expr, ratios, overlaps
        As for :func:`quadratic_form`.

    Returns
    -------
    tuple of float

    Raises
    ------
    TypeError, ValueError
        An argument is of the wrong kind, or a ratio is missing.
    ConvergenceError
        The Dyson equations are not solved outside the spectrum.
    """
    import numpy as np

    from theorykit.numerics.outliers import find_outliers

    program, values, scale = _prepared(expr, ratios, overlaps)
    if "determinant" not in program.layout["observables"]:
        return ()

    def solve(x: Any) -> tuple[Any, Any]:
        found = _solve(program, values, x, scale)
        return found["stieltjes"], found["determinant"]

    # an even number of points: none of them is zero, where the spectrum may have an atom
    return find_outliers(solve, np.linspace(-1.01 * scale, 1.01 * scale, 402))


# ------------------------------------------------------------------------------------------ at work


def _require_expression(expr: Any) -> Expression:
    if not isinstance(expr, Expression):
        raise TypeError(f"expr must be a matrix expression, got {expr!r} ({type(expr).__name__})")
    if not expr.is_square:
        raise ValueError(f"expr must be square, got a {expr.rows}×{expr.columns} matrix: {expr!r}")
    return expr


def _ratios(expr: Expression, ratios: Mapping[str, float] | None) -> dict[str, float]:
    """Ratios of all dimensions but n, checked."""
    given = dict(ratios or {})
    names = {d for atom in atoms(expr) for d in (atom.rows, atom.columns)} - {"n"}
    if given.pop("n", 1) != 1:
        raise ValueError("ratios are dimensions over n: that of n itself is 1")
    unknown = sorted(set(given) - names)
    if unknown:
        raise ValueError(f"ratios names {unknown}, which are no dimensions of {expr!r}")
    missing = sorted(names - set(given))
    if missing:
        raise ValueError(
            f"ratios must give {', '.join(missing)} over n, as in ratios={{{missing[0]!r}: 0.5}}"
        )
    return {f"ratio_{d}": require_real(f"ratios[{d!r}]", v, low=0, low_open=True) for d, v in given.items()}


def _overlaps(
    expr: Expression, overlaps: Mapping[Any, float] | None, *vectors: Vector | None
) -> dict[str, float]:
    """Scalar products by the names of their symbols."""
    from theorykit.derivations.dyson.names import overlap_names

    pairs = overlap_names(expr, *vectors)
    found = {name: 1.0 if a == b else 0.0 for name, (a, b) in pairs.items()}
    by_names = {frozenset((a.name, b.name)): name for name, (a, b) in pairs.items()}
    for key, value in dict(overlaps or {}).items():
        pair = key if isinstance(key, tuple) else (key, key)
        names = frozenset(v.name if isinstance(v, Vector) else v for v in pair)
        if names not in by_names:
            known = ", ".join(str(tuple(sorted(k))) for k in by_names) or "none"
            raise ValueError(f"overlaps names {key!r}; the pairs of vectors of {expr!r} are {known}")
        found[by_names[names]] = require_real(f"overlaps[{key!r}]", value)
    return found


def _prepared(
    expr: Expression,
    ratios: Mapping[str, float] | None,
    overlaps: Mapping[Any, float] | None = None,
    left: Vector | None = None,
    right: Vector | None = None,
) -> tuple[Any, dict[str, float], float]:
    """The program of an expression, values of its parameters, and the size of its matrices."""
    from theorykit.codegen import load
    from theorykit.derivations.dyson.names import require_numbers, size_of

    values = _ratios(_require_expression(expr), ratios)
    values |= _overlaps(expr, overlaps, left, right)
    require_numbers(expr)

    def derive() -> Any:
        from theorykit.derivations.dyson.records import law_record

        return law_record(expr, left, right)

    observables = ["stieltjes"]
    if left is not None or any(isinstance(atom, Outer) for atom in atoms(expr)):
        observables.append("determinant")
    if left is not None:
        observables.append("quadratic_form")
    request = (repr(expr), repr(left), repr(right))
    program: Any = load("random_matrices", request, derive, tuple(observables))
    return program, values, size_of(expr, values)


def _solved(
    expr: Expression,
    z: Any,
    ratios: Mapping[str, float] | None,
    wanted: str,
    overlaps: Mapping[Any, float] | None = None,
    left: Vector | None = None,
    right: Vector | None = None,
) -> Any:
    import numpy as np

    points = np.asarray(z)
    if points.dtype.kind not in "cfiu":
        raise TypeError(f"z must be numbers, got an array of {points.dtype}")
    flat = points.astype(complex).ravel()
    if not np.all(np.isfinite(flat)):
        raise ValueError("z must be finite")
    program, values, scale = _prepared(expr, ratios, overlaps, left, right)
    below = flat.imag < 0  # the lower half plane is the mirror image
    found = _solve(program, values, np.where(below, flat.conj(), flat), scale)[wanted]
    found = np.where(below, found.conj(), found).reshape(points.shape)
    return complex(found) if points.shape == () else found


def _solve(program: Any, values: Mapping[str, float], z: Any, scale: float) -> dict[str, Any]:
    """Observables at points of the closed upper half plane."""
    import numpy as np

    from theorykit.numerics.halfplane import descend

    P = program.table({**values, "z": z, "shift": 0.0}).astype(complex)
    out = descend(program, P, program.parameters.index("shift"), program.positivity, scale)
    if not np.all(out.converged):
        bad = int(np.flatnonzero(~out.converged)[0])
        raise ConvergenceError.not_reached(
            f"solution of the Dyson equations at z = {complex(z[bad])}",
            residual=float(out.residual[bad]),
            tolerance=1e-12,
            steps=int(out.steps[bad]),
            start="deterministic part, shift lowered to zero",
            advice="move z away from the edge or atom of the spectrum, or into the upper half plane",
            last=out.X[:, bad],
        )
    P[program.parameters.index("shift")] = 0.0
    return program.observables(P, out.X)
