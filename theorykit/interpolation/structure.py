r"""How far a weight matrix is from a multiple of the identity plus a matrix of low rank.

The theory takes W = W_K^T W_Q = I + w_K w_Q^T. For a matrix M (W of a layer; of one head, W compressed to the space of
its keys, because its rank is too small for an identity on all tokens) this module measures

* the identity share tr(M)^2/(p |M|^2), the part of the squared Frobenius norm that the best multiple of the identity
  carries, and t = tr(M)/|M| beside two null laws: keys and queries of mismatched heads, and queries turned by a random
  rotation;
* the residual M - (tr M/p) I: its singular values, the rank r of those above the threshold of Gavish and Donoho
  (noise level from the median), and what is left beyond r, with and without the identity, and for a matrix with the
  same singular values and random singular vectors;
* eigenvalues: the fraction within 20 % of tr M/p, the symmetric part of the energy, and tau = tr M^2/tr M M^T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

__all__ = [
    "LARGEST_RANK",
    "LARGEST_REMAINDER",
    "Null",
    "Structure",
    "compressed",
    "describe",
    "identity_share",
    "rotation_null",
]

#: "Identity plus low rank" needs a remainder of at most this fraction of |M| ...
LARGEST_REMAINDER = 0.5
#: ... beyond a rank of at most this fraction of the dimension, ...
LARGEST_RANK = 0.125
#: ... and an identity that makes the remainder at least this much smaller.
LEAST_GAIN = 2.0
_THRESHOLD = (
    2.858  # Gavish and Donoho: optimal hard threshold of a square matrix over its median singular value
)
_ROUNDING = 1e-12
_CLUSTER = 0.2
_RANDOM_VECTORS = 4


@dataclass(frozen=True)
class Null:
    """A null law of t: its mean and standard deviation, and where the matrix itself stands; None without draws."""

    mean: float | None
    deviation: float | None
    z: float | None
    draws: int

    @classmethod
    def of(cls, values: list[float], observed: float) -> Null:
        """Moments of the draws, and the distance of the observed value in standard deviations."""
        if len(values) < 3:
            return cls(None, None, None, len(values))
        mean = math.fsum(values) / len(values)
        deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
        z = (observed - mean) / deviation if deviation > 0 else None
        return cls(mean, deviation, z, len(values))


@dataclass(frozen=True)
class Structure:
    """What was found about one matrix; see the module.

    Attributes
    ----------
    dimension : int
        p, rows of the matrix.
    identity : float
        tr M/p, the best multiple of the identity; its sign may be negative.
    identity_share : float
        Part of the squared Frobenius norm it carries, in [0, 1].
    statistic : float
        t = tr M/|M|.
    mismatched, rotated : Null
    threshold : float
        Singular values of the residual below it count as noise.
    rank : int
        Singular values above it.
    remainder, remainder_without, remainder_random : float
        |M - identity - rank r|/|M|; the same without the identity; the same for random singular vectors.
    cluster : float
        Fraction of eigenvalues within 20 % of ``identity``.
    symmetric : float
        Part of the energy in the symmetric part.
    tau : float
        tr M^2/tr M M^T; 1 for the identity.
    singular_values, eigenvalues : tuple
        Of the residual, decreasing; of the matrix.
    supported : bool
        Whether the remainder is small, at a small rank, because of the identity.
    """

    dimension: int
    identity: float
    identity_share: float
    statistic: float
    mismatched: Null
    rotated: Null
    threshold: float
    rank: int
    remainder: float
    remainder_without: float
    remainder_random: float
    cluster: float
    symmetric: float
    tau: float
    singular_values: tuple[float, ...]
    eigenvalues: tuple[complex, ...]
    supported: bool


def compressed(key: Matrix, query: Matrix) -> Matrix:
    """K^T Q of one head on the space of its keys, shape (r, r), in an orthonormal basis."""
    import numpy as np

    basis = np.linalg.qr(key.T)[0]
    result: Matrix = (basis.T @ key.T) @ (query @ basis)
    return result


def statistic(matrix: Matrix) -> float:
    """t = tr M/|M|; 0 for a matrix that vanishes."""
    import numpy as np

    norm = float(np.linalg.norm(matrix))
    return float(np.trace(matrix)) / norm if norm > 0 else 0.0


def identity_share(matrix: Matrix) -> float:
    """tr(M)^2/(p |M|^2), in [0, 1]."""
    return statistic(matrix) ** 2 / int(matrix.shape[0])


def rotation_null(key: Matrix, query: Matrix, draws: int, stream: np.random.Generator) -> list[float]:
    """t of K^T O Q for random rotations O, from the r x r matrices that it depends on."""
    import numpy as np

    rows = key.shape[0]
    cross, keys, queries = query @ key.T, key @ key.T, query @ query.T
    found = []
    for _ in range(draws):
        factor, upper = np.linalg.qr(stream.standard_normal((rows, rows)))
        rotation = factor * np.sign(np.diag(upper))  # uniform over rotations and reflections
        square = float(np.sum((rotation @ queries @ rotation.T) * keys))
        found.append(float(np.sum(rotation * cross.T)) / math.sqrt(square) if square > 0 else 0.0)
    return found


def describe(
    matrix: Matrix, mismatched: list[float], rotated: list[float], stream: np.random.Generator
) -> Structure:
    """All measures of one matrix, given the draws of both null laws.

    Raises
    ------
    ValueError
        The matrix vanishes.
    """
    import numpy as np

    norm = float(np.linalg.norm(matrix))
    if norm == 0:
        raise ValueError("a weight matrix vanishes: there is nothing to compare with the identity")
    p = matrix.shape[0]
    identity = float(np.trace(matrix)) / p
    values = np.linalg.svd(matrix, compute_uv=False)
    residual = np.linalg.svd(matrix - identity * np.eye(p), compute_uv=False)
    noise = max(_THRESHOLD * float(np.median(residual)), _ROUNDING * norm)
    rank = int(np.sum(residual > noise))
    remainder = _beyond(residual, rank) / norm
    without = _beyond(values, rank) / norm
    eigenvalues = np.linalg.eigvals(matrix)
    t = float(np.trace(matrix)) / norm
    return Structure(
        dimension=p,
        identity=identity,
        identity_share=min(1.0, identity_share(matrix)),
        statistic=t,
        mismatched=Null.of(mismatched, t),
        rotated=Null.of(rotated, t),
        threshold=noise,
        rank=rank,
        remainder=remainder,
        remainder_without=without,
        remainder_random=_random_remainder(values, rank, stream),
        cluster=float(np.mean(np.abs(eigenvalues - identity) <= _CLUSTER * abs(identity))),
        symmetric=float(np.linalg.norm(matrix + matrix.T)) ** 2 / 4 / norm**2,
        tau=float(np.sum(matrix * matrix.T)) / norm**2,
        singular_values=tuple(float(v) for v in residual),
        eigenvalues=tuple(complex(v) for v in eigenvalues),
        supported=remainder <= LARGEST_REMAINDER
        and rank <= LARGEST_RANK * p
        and LEAST_GAIN * remainder <= without,
    )


def _beyond(values: Any, rank: int) -> float:
    return math.sqrt(math.fsum(float(v) ** 2 for v in values[rank:]))


def _random_remainder(values: Any, rank: int, stream: np.random.Generator) -> float:
    """The remainder of matrices with these singular values and random singular vectors, on average."""
    import numpy as np

    p = values.size
    found = []
    for _ in range(_RANDOM_VECTORS):
        rotation = np.linalg.qr(stream.standard_normal((p, p)))[0]
        matrix = (
            values[:, None] * rotation
        )  # a second rotation would not change what follows but for the basis
        identity = float(np.trace(matrix)) / p
        residual = np.linalg.svd(matrix - identity * np.eye(p), compute_uv=False)
        found.append(_beyond(residual, rank) / float(np.linalg.norm(values)))
    return math.fsum(found) / len(found)
