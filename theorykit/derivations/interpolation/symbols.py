"""Symbols of the interpolation error, and the rows of their table."""

from __future__ import annotations

from collections.abc import Iterable

import sympy as sp

from theorykit.derivations.dyson.expression import Vector
from theorykit.derivations.ledger import Quantity

__all__ = [
    "A_1",
    "A_2",
    "DIAGONAL",
    "E_MEAN",
    "GAMMA",
    "G_NORMS",
    "KAPPA",
    "KEY",
    "KEY2",
    "KEY_QUERY",
    "LABEL",
    "MEAN",
    "MU",
    "OVERLAPS",
    "PAPER",
    "PHI",
    "QUERY",
    "QUERY2",
    "REMAINDER",
    "SIGNAL2",
    "SIGNAL_KEY",
    "SIGNAL_QUERY",
    "C",
    "Z",
    "observable_rows",
    "quantities",
]

PAPER = "arXiv 2506.18656 (re-derived; see the notes)"

C = sp.Symbol("c", positive=True)
GAMMA = sp.Symbol("gamma", positive=True)
A_1 = sp.Symbol("a_1", real=True)
A_2 = sp.Symbol("a_2", real=True)
REMAINDER = sp.Symbol("remainder", nonnegative=True)
DIAGONAL = sp.Symbol("d", real=True)
MEAN = sp.Symbol("label_mean", real=True)
KAPPA = sp.Symbol("square_variance", nonnegative=True)
Z = sp.Symbol("z")
#: Degrees of freedom over n.
PHI = sp.Symbol("phi", positive=True)

#: Vectors: labels y/sqrt(n), constant 1/sqrt(n), direction of the norms of the tokens; signal and weights.
LABEL, E_MEAN, G_NORMS = Vector("y", "n"), Vector("e", "n"), Vector("g", "n")
MU, KEY, QUERY = Vector("mu", "p"), Vector("w_K", "p"), Vector("w_Q", "p")

SIGNAL2 = sp.Symbol("signal2", nonnegative=True)
KEY2 = sp.Symbol("key2", nonnegative=True)
QUERY2 = sp.Symbol("query2", nonnegative=True)
SIGNAL_KEY = sp.Symbol("signal_key", real=True)
SIGNAL_QUERY = sp.Symbol("signal_query", real=True)
KEY_QUERY = sp.Symbol("key_query", real=True)

#: Scalar products of the vectors; a single vector stands for its square.
OVERLAPS = {
    frozenset((LABEL,)): sp.Integer(1),
    frozenset((E_MEAN,)): sp.Integer(1),
    frozenset((G_NORMS,)): sp.Integer(1),
    frozenset((LABEL, E_MEAN)): MEAN,
    frozenset((LABEL, G_NORMS)): sp.Integer(0),
    frozenset((E_MEAN, G_NORMS)): sp.Integer(0),
    frozenset((MU,)): SIGNAL2,
    frozenset((KEY,)): KEY2,
    frozenset((QUERY,)): QUERY2,
    frozenset((MU, KEY)): SIGNAL_KEY,
    frozenset((MU, QUERY)): SIGNAL_QUERY,
    frozenset((KEY, QUERY)): KEY_QUERY,
}

_ROWS = (
    Quantity(C, "c", "dimensions over tokens, p/n", "positive", "fixed as n grows"),
    Quantity(GAMMA, r"\gamma", "ridge", "positive"),
    Quantity(A_1, "a_1", "first Hermite coefficient of f, E f(x) x"),
    Quantity(A_2, "a_2", "second Hermite coefficient of f, E f(x) (x^2 - 1)/sqrt(2)"),
    Quantity(REMAINDER, r"\nu_{>1}", "second moment of the centred f without its linear part", "nonnegative"),
    Quantity(DIAGONAL, "d", "limit of the diagonal of K"),
    Quantity(MEAN, r"\bar y", "mean of the labels", "[-1, 1]"),
    Quantity(KAPPA, r"\kappa", "variance of the squared entries of the noise", "nonnegative"),
    Quantity(Z, "z", "spectral parameter", "complex"),
    Quantity(PHI, r"\varphi", "degrees of freedom over n, 1 - gamma tr Q/n", "(0, min(1, c))"),
    Quantity(SIGNAL2, r"|\mu|^2", "squared length of the signal", "nonnegative"),
    Quantity(KEY2, "|w_K|^2", "squared length of the key vector", "nonnegative"),
    Quantity(QUERY2, "|w_Q|^2", "squared length of the query vector", "nonnegative"),
    Quantity(SIGNAL_KEY, r"\mu\cdot w_K", "scalar product of signal and key vector"),
    Quantity(SIGNAL_QUERY, r"\mu\cdot w_Q", "scalar product of signal and query vector"),
    Quantity(KEY_QUERY, r"w_K\cdot w_Q", "scalar product of key and query vector"),
)


def _image(name: str, latex: str, meaning: str) -> Quantity:
    return Quantity(
        sp.Symbol(name, real=True), latex, f"{meaning} (a number in its place, in exact identities)"
    )


#: Matrices and vectors, for which exact identities are checked with numbers.
IMAGES = (
    _image("Z", "Z", "noise of the tokens over sqrt(n)"),
    _image("S", "S", "Wigner part of the attention matrix"),
    _image("y", "y", "labels over sqrt(n)"),
    _image("mu", r"\mu", "signal"),
    _image("w_K", "w_K", "key vector of the weights"),
    _image("w_Q", "w_Q", "query vector of the weights"),
    _image("e", "e", "constant unit vector"),
    _image("g", "g", "unit vector along the centred squared norms of the tokens"),
)

#: Observables: name -> LaTeX and meaning.
OBSERVABLES = {
    "interpolation_error": ("E", "training error, |residual|^2/n"),
    "quadratic_form": ("F", "y^T Q y/n"),
    "degrees_of_freedom": (r"\mathrm{df}", "trace of the hat matrix over n"),
    "feature_energy": (r"\bar\varphi", "trace of the Gram matrix of the features over n"),
    "bulk_error": (r"E_{\mathrm{bulk}}", "trace of gamma^2 Q^2 over n"),
    "stieltjes": ("s(z)", "trace of the resolvent of the Gram matrix over n"),
    "determinant": (r"\Delta(z)", "determinant of the finite system; vanishes at outliers"),
} | {f"trace_{pair}": (rf"\tau_{{{pair}}}", "normalized trace of a block, in the scaling of the model")
     for pair in ("uu", "uv", "uw", "vv", "vw", "ww")}  # fmt: skip


def observable_rows(names: Iterable[str]) -> tuple[Quantity, ...]:
    """Rows for observables; their symbols are those of the definitions."""
    complex_valued = ("stieltjes", "determinant")
    return tuple(
        Quantity(sp.Symbol(n) if n in complex_valued else sp.Symbol(n, real=True), *OBSERVABLES[n])
        for n in names
    )


def quantities(used: set[sp.Symbol], *extra: Quantity) -> tuple[Quantity, ...]:
    """Rows of the symbol table for the symbols that are used, then the extra ones."""
    return (*(q for q in (*_ROWS, *IMAGES) if q.symbol in used), *extra)
