"""The interpolation error with real weights, beside the theory with the best fit of identity plus rank one.

The matrix W of a layer is scaled so that a score x_i . W x_j/sqrt(p) of independent tokens has variance one, as f
expects it. The theory sees I + w_K w_Q^T with w_K w_Q^T the leading singular pair of what W leaves beside its best
multiple of the identity; the simulation uses W itself, on Gaussian tokens around a random signal direction.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from theorykit.errors import require_integer, require_real
from theorykit.formula import parse
from theorykit.interpolation.model import Attention, Overlaps
from theorykit.interpolation.simulation import as_request
from theorykit.interpolation.weights_report import layer_matrix, read_layers
from theorykit.results import Estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from theorykit.interpolation.model import FormulaSource

__all__ = ["WeightsError", "best_fit", "normalized", "weights_error"]


@dataclass(frozen=True)
class WeightsError:
    """One layer: the model that fits its weights best, the limit it predicts, and the simulation with the weights.

    ``z`` is (theory - simulated)/standard error; finite size alone makes it a few units at the dimension of one layer.
    """

    layer: int
    model: Attention
    tokens: int
    theory: float
    simulated: Estimate
    linear_regression: Estimate
    z: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "layer": self.layer,
            "model": repr(self.model),
            "tokens": self.tokens,
            "theory": float(self.theory),
            "simulated": self.simulated,
            "linear_regression": self.linear_regression,
            "z": self.z,
        }


def normalized(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The matrix scaled to |W|^2 = p: scores of independent tokens of unit variance have variance one."""
    import numpy as np

    scaled: NDArray[np.float64] = matrix * (math.sqrt(matrix.shape[0]) / float(np.linalg.norm(matrix)))
    return scaled


def best_fit(matrix: NDArray[np.float64]) -> Overlaps:
    """Overlaps of w_K, w_Q from the leading singular pair beside the identity; the signal is orthogonal to both."""
    import numpy as np

    identity = float(np.trace(matrix)) / matrix.shape[0]
    left, values, right = np.linalg.svd(matrix - identity * np.eye(matrix.shape[0]))
    size = float(values[0])
    return Overlaps(key2=size, query2=size, key_query=size * float(left[:, 0] @ right[0]))


def weights_error(
    path: str | os.PathLike[str],
    formula: FormulaSource = "tanh(x)",
    ratio: float = 0.5,
    ridge: float = 0.1,
    signal: float = 1.0,
    layers: Iterable[int] | None = None,
    gains: bool = False,
    trials: int = 8,
    seed: int = 0,
    on_layer: Callable[[int, int], None] | None = None,
) -> tuple[WeightsError, ...]:
    """Interpolation error with the weights of a checkpoint, simulated, beside the theory of their best fit.

    Parameters
    ----------
    path : str or path
        As in :func:`~theorykit.interpolation.weights_report.weights`.
    formula, ratio, ridge, signal
        Of the model; the number of tokens is the integer nearest to p/ratio, and the ratio follows it.
    layers : iterable of int, optional
        Default: all.
    gains : bool
        Fold the gains of the normalizations into the weights.
    trials, seed : int
        Draws of tokens per layer, at least 2.

    Returns
    -------
    tuple of WeightsError
    """
    from theorykit.interpolation import interpolation_error

    trials = require_integer("trials", trials, low=2)
    seed = require_integer("seed", seed, low=0)
    ratio = require_real("ratio", ratio, low=0, low_open=True)
    plain = Attention(parse(formula), ratio, ridge, signal)
    chosen = read_layers(path, layers=layers)
    rows = []
    for position, layer in enumerate(chosen):
        if on_layer is not None:
            on_layer(position, len(chosen))
        matrix = normalized(layer_matrix(layer.folded() if gains else layer))
        tokens = max(4, round(matrix.shape[0] / ratio))
        model = plain.replace(ratio=matrix.shape[0] / tokens, overlaps=best_fit(matrix))
        theory = interpolation_error(model)
        rows.append(_row(layer.index, model, tokens, theory, matrix, trials, seed))
    return tuple(rows)


def _row(
    layer: int,
    model: Attention,
    tokens: int,
    theory: float,
    matrix: NDArray[np.float64],
    trials: int,
    seed: int,
) -> WeightsError:
    from theorykit.validation.simulate import interpolation as simulator

    request = as_request(model.replace(overlaps=None))  # the weights are given, the signal is drawn
    (found,) = simulator.interpolation_error(
        request, tokens, [model.ridge], trials, seed=seed, weights=matrix
    )
    simulated = found.interpolation_error
    z = (float(theory) - float(simulated)) / simulated.error if simulated.error > 0 else 0.0
    return WeightsError(layer, model, tokens, float(theory), simulated, found.linear_regression_error, z)
