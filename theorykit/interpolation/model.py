"""The model of the interpolation error: attention features of a signal-plus-noise sample, and a ridge probe on them.

n tokens X = mu y^T + Z in p dimensions with labels y_i = +-1, weights W = I + w_K w_Q^T, the attention matrix
K_ij = f(x_i . W x_j / sqrt(p)) / sqrt(p), and the ridge regression of y on X K. What is computed of it, in the
limit of large n at p/n = ratio, is the training error E = |y - prediction|^2 / n (arXiv 2506.18656).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from theorykit.errors import require_real
from theorykit.formula import Formula, parse
from theorykit.interpolation.growth import diagonal_limit, require_second_moment
from theorykit.records import Record

if TYPE_CHECKING:
    from fractions import Fraction

    import sympy

    from theorykit.interpolation.coefficients import Hermite

    FormulaSource: TypeAlias = Formula | str | float | Fraction | sympy.Expr

__all__ = ["CENTERINGS", "SOFTMAX_MAP", "Attention", "Overlaps"]

#: The entrywise function that row softmax with a masked diagonal, times n/sqrt(p), corresponds to.
SOFTMAX_MAP = Formula("exp(x - 1/2) - 1")

#: What is done about the mean of the attention matrix.
CENTERINGS = ("entry", "row", "column", "none")
_ROUNDING = 1e-12  # relative size of a Gram defect that is put down to rounding of the given overlaps

Gram = tuple[tuple[float, float, float], tuple[float, float, float], tuple[float, float, float]]


@dataclass(frozen=True, repr=False)
class Overlaps(Record):
    """Scalar products of the signal mu and the vectors w_K, w_Q of the weights W = I + w_K w_Q^T.

    Parameters
    ----------
    key2, query2 : float
        |w_K|^2 and |w_Q|^2, at least 0.
    signal_key, signal_query : float
        mu . w_K and mu . w_Q; not normalized by |mu|.
    key_query : float
        w_K . w_Q.

    Raises
    ------
    TypeError, ValueError
        Not real numbers, or scalar products that no two vectors have.

    Examples
    --------
    >>> Overlaps(key2=1, query2=2, key_query=0.2).replace(query2=1.5)
    Overlaps(key2=1.0, query2=1.5, signal_key=0.0, signal_query=0.0, key_query=0.2)
    """

    key2: float = 0.0
    query2: float = 0.0
    signal_key: float = 0.0
    signal_query: float = 0.0
    key_query: float = 0.0

    def __post_init__(self) -> None:
        for name in ("key2", "query2", "signal_key", "signal_query", "key_query"):
            low = 0 if name.endswith("2") else None
            object.__setattr__(self, name, require_real(name, getattr(self, name), low=low) + 0.0)
        reach = math.sqrt(self.key2) * math.sqrt(self.query2)
        if abs(self.key_query) > reach * (1 + _ROUNDING):
            raise ValueError(
                f"key_query must be in [{-reach!r}, {reach!r}], the product of both lengths, "
                f"got {self.key_query!r}"
            )


@dataclass(frozen=True, repr=False)
class Attention(Record):
    """Ridge probe on nonlinear attention features.

    Parameters
    ----------
    formula : str, number, SymPy expression or Formula
        The function f(x) applied to every entry; it is centred, f - E f(xi), wherever ``centering`` is not
        "none". It must have a finite second moment under the standard normal law.
    ratio : float
        c = p/n, dimensions over tokens; positive.
    ridge : float
        Penalty gamma, positive: the probe minimizes |y - K^T X^T w|^2/n + gamma |w|^2.
    signal : float
        |mu|, at least 0; the signal-to-noise ratio is its square.
    aligned : float
        beta of the weights W = I + beta mu mu^T/|mu|^2; excludes ``overlaps``.
    overlaps : Overlaps, optional
        Scalar products of mu, w_K, w_Q for general weights W = I + w_K w_Q^T.
    label_mean : float
        Mean of the labels, in [-1, 1]; 0: balanced.
    square_variance : float
        Var(z^2) of the entries of the noise: 2 for Gaussian, 0 for +-1, 4/5 for uniform ones.
    diagonal : str or float
        "zero": the diagonal of K is masked. "kept": K_ii is computed like the rest. A number d: the diagonal is
        d (of size sqrt(p) below the usual scale; f(sqrt(p))/sqrt(p) at finite size).
    centering : str
        "entry": f is centred. "row", "column": softmax over rows or columns minus its mean 1/n. "none": the mean
        is kept (raw softmax, or an uncentred f).

    Raises
    ------
    FormulaError, TypeError, ValueError
        For a formula that is refused or has no finite second moment, a number out of range, scalar products that
        no vectors have, a kept diagonal under an f that grows faster than linearly.

    Examples
    --------
    >>> Attention("tanh(x)", ratio=0.5, ridge=0.1, signal=1.0).replace(ridge=1)  # doctest: +ELLIPSIS
    Attention(formula=Formula('tanh(x)'), ratio=0.5, ridge=1.0, signal=1.0, aligned=0.0, overlaps=None, ...)
    """

    formula: Formula
    ratio: float
    ridge: float
    signal: float = 0.0
    aligned: float = 0.0
    overlaps: Overlaps | None = None
    label_mean: float = 0.0
    square_variance: float = 2.0
    diagonal: str | float = "zero"
    centering: str = "entry"

    if TYPE_CHECKING:  # the constructor takes every source of a formula, the field holds the formula

        def __init__(
            self,
            formula: FormulaSource,
            ratio: float,
            ridge: float,
            signal: float = 0.0,
            aligned: float = 0.0,
            overlaps: Overlaps | None = None,
            label_mean: float = 0.0,
            square_variance: float = 2.0,
            diagonal: str | float = "zero",
            centering: str = "entry",
        ) -> None: ...

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            "ratio": require_real("ratio", self.ratio, low=0, low_open=True),
            "ridge": require_real("ridge", self.ridge, low=0, low_open=True),
            "signal": require_real("signal", self.signal, low=0) + 0.0,
            "aligned": require_real("aligned", self.aligned) + 0.0,
            "label_mean": require_real("label_mean", self.label_mean, low=-1, high=1) + 0.0,
            "square_variance": require_real("square_variance", self.square_variance, low=0) + 0.0,
            "diagonal": _checked_diagonal(self.diagonal),
            "formula": parse(self.formula),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        _require_choice("centering", self.centering, CENTERINGS)
        self._require_overlaps()
        require_second_moment(self.formula)
        if self.diagonal == "kept":
            diagonal_limit(self.formula)

    def _require_overlaps(self) -> None:
        if self.overlaps is None:
            return
        if not isinstance(self.overlaps, Overlaps):
            raise TypeError(f"overlaps must be an Overlaps record or None, got {self.overlaps!r}")
        if self.aligned != 0:
            raise ValueError(
                f"aligned and overlaps exclude each other, got aligned = {self.aligned!r} beside {self.overlaps!r}"
            )
        _require_vectors(self.gram)

    @property
    def gram(self) -> Gram:
        """Scalar products of (mu, w_K, w_Q)."""
        given, signal = self.overlaps, self.signal
        if given is None:
            size, sign = abs(self.aligned), math.copysign(1.0, self.aligned)
            root = math.sqrt(size)
            given = Overlaps(size, size, sign * root * signal, root * signal, self.aligned)
        return (
            (signal * signal, given.signal_key, given.signal_query),
            (given.signal_key, given.key2, given.key_query),
            (given.signal_query, given.key_query, given.query2),
        )

    @property
    def hermite(self) -> Hermite:
        """Hermite coefficients and second moment of f."""
        from theorykit.interpolation.coefficients import hermite

        return hermite(self.formula)

    @property
    def diagonal_value(self) -> float:
        """d: limit of the diagonal of K."""
        if isinstance(self.diagonal, float):
            return self.diagonal
        return diagonal_limit(self.formula) if self.diagonal == "kept" else 0.0


def _checked_diagonal(value: Any) -> str | float:
    if isinstance(value, str):
        _require_choice("diagonal", value, ("zero", "kept"), ", or a real number")
        return value
    return require_real("diagonal", value) + 0.0


def _require_choice(name: str, value: Any, allowed: tuple[str, ...], also: str = "") -> None:
    wanted = f"{name} must be one of {', '.join(map(repr, allowed))}{also}"
    if not isinstance(value, str):
        raise TypeError(f"{wanted}, got {value!r} ({type(value).__name__})")
    if value not in allowed:
        raise ValueError(f"{wanted}, got {value!r}")


def _require_vectors(gram: Gram) -> None:
    """Refuse scalar products that no three vectors have: a Gram matrix with a negative eigenvalue."""
    import numpy as np

    matrix = np.array(gram)
    size = np.sqrt(np.diag(matrix))
    for row, column, name in ((0, 1, "signal_key"), (0, 2, "signal_query")):
        reach = float(size[row] * size[column])
        if abs(matrix[row, column]) > reach * (1 + _ROUNDING):
            raise ValueError(
                f"{name} must be in [{-reach!r}, {reach!r}], the product of both lengths, "
                f"got {float(matrix[row, column])!r}"
            )
    unit = np.where(size > 0, size, 1.0)
    lowest = float(np.linalg.eigvalsh(matrix / np.outer(unit, unit))[0])
    if lowest < -10 * _ROUNDING:
        raise ValueError(
            f"overlaps must be scalar products of three vectors mu, w_K, w_Q; their normalized Gram matrix has the "
            f"eigenvalue {lowest:.3g} < 0"
        )
