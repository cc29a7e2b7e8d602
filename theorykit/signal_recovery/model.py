"""The parameters of signal recovery, validated once, and the checks of alignments and sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from theorykit.errors import require_integer, require_real
from theorykit.formula import Formula, parse
from theorykit.records import Record

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Model", "Sizes", "checked_rho", "checked_sizes", "require_exponential"]

_EXPONENTIAL = "exp(t)"
_REACH, _STEPS = 12.0, 4800  # standard deviations around the scores on which a kernel is tested
_LARGEST_SQUARE = 700.0  # exp of more is no double


@dataclass(frozen=True, repr=False)
class Model(Record):
    """A query that weighs L tokens, R of them shifted along a hidden direction, by a function of their scores.

    Tokens are x_i = theta b_i xi + N(0, I_d) with b_i = 1 for R of them; the output is the mean of the tokens with
    weights phi(beta q.x_i) over their sum.

    Parameters
    ----------
    theta : float
        Signal strength of an informative token, positive.
    fraction : float
        Fraction R/L of informative tokens, in (0, 1).
    beta : float
        Inverse temperature, positive.
    kappa : float
        Dimensions per token d/L, at least 0; 0 means that the dimension stays fixed.
    kernel : str
        "exp" (softmax), or a formula phi(t) in t: not negative, not constant.

    Examples
    --------
    >>> Model(theta=1, fraction=0.1).replace(beta=2)
    Model(theta=1.0, fraction=0.1, beta=2.0, kappa=0.0, kernel='exp')
    """

    theta: float
    fraction: float
    beta: float = 1.0
    kappa: float = 0.0
    kernel: str = "exp"

    def __post_init__(self) -> None:
        checked = {
            "theta": require_real("theta", self.theta, low=0, low_open=True),
            "fraction": require_real("fraction", self.fraction, low=0, high=1, low_open=True, high_open=True),
            "beta": require_real("beta", self.beta, low=0, low_open=True),
            "kappa": require_real("kappa", self.kappa, low=0) + 0.0,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "kernel", self._checked_kernel())
        if self.is_exponential and self.kappa > 0 and self.beta**2 > _LARGEST_SQUARE:
            raise ValueError(
                f"beta must be at most {math.sqrt(_LARGEST_SQUARE):.4g} where kappa > 0, got {self.beta!r}: the term "
                "kappa exp(beta^2) is no double (and the limit is not reached by any finite model)"
            )

    @property
    def is_exponential(self) -> bool:
        """Whether the weights are a softmax."""
        return self.kernel == "exp"

    @property
    def formula(self) -> Formula:
        """The kernel as a function of t."""
        return parse(_EXPONENTIAL if self.is_exponential else self.kernel, "t")

    @property
    def is_proportional(self) -> bool:
        """Whether the dimension grows with the number of tokens."""
        return self.kappa > 0

    def _checked_kernel(self) -> str:
        if isinstance(self.kernel, str) and self.kernel.strip() == "exp":
            return "exp"
        formula = parse(self.kernel, "t")
        if formula.text == _EXPONENTIAL:
            return "exp"
        _require_kernel(formula, self.beta * (self.theta + _REACH))
        return formula.text


def _require_kernel(formula: Formula, reach: float) -> None:
    """Refuse weights that are negative, not finite, or zero everywhere, on the scores that matter."""
    import numpy as np

    grid = reach * np.linspace(-1.0, 1.0, 2 * _STEPS + 1)
    values = formula.evaluate(grid)
    bad = ~np.isfinite(values) | (values < 0)
    if bad.any():
        first = int(np.argmin(np.where(bad, np.abs(grid), np.inf)))
        raise ValueError(
            f"kernel must be finite and not negative for scores in [{-reach:g}, {reach:g}] (otherwise the sum of the "
            f"weights can vanish and the model is ill-posed), got {float(values[first])!r} from {formula.text!r} at "
            f"t = {float(grid[first])!r}"
        )
    if np.ptp(values) == 0:
        raise ValueError(f"kernel must depend on t (and not vanish everywhere), got {formula.text!r}")


def require_exponential(model: Model, what: str) -> None:
    """Refuse kernels for which a quantity is not derived."""
    if not model.is_exponential:
        raise ValueError(
            f"{what} is derived for the exponential kernel only, kernel must be 'exp', got {model.kernel!r}"
        )


def checked_rho(name: str, rho: Any) -> tuple[bool, np.ndarray]:
    """(whether it is a single number, the values as float64) of alignments in [-1, 1]."""
    import numpy as np

    if np.ndim(rho) == 0:
        return True, np.asarray(require_real(name, rho, low=-1, high=1))
    try:
        found = np.asarray(rho)
    except ValueError as error:
        raise TypeError(
            f"{name} must be a real number or an array of them in [-1, 1], got {rho!r}"
        ) from error
    if found.dtype.kind not in "iuf":
        raise TypeError(
            f"{name} must be a real number or an array of them in [-1, 1], got {found.dtype} entries"
        )
    found = found.astype(np.float64)
    bad = ~(np.abs(found) <= 1)
    if bad.any():
        raise ValueError(f"{name} must be in [-1, 1], got {float(found[bad].flat[0])!r}")
    return False, found


@dataclass(frozen=True)
class Sizes:
    """Number of tokens, dimension, and the kappa = (d - 1)/L they make."""

    tokens: int
    dimension: int

    @property
    def kappa(self) -> float:
        return (self.dimension - 1) / self.tokens


def checked_sizes(model: Model, tokens: Any, dimension: Any) -> Sizes:
    """The sizes of a finite model; they must agree with the fraction and with kappa.

    Raises
    ------
    TypeError, ValueError
        ``fraction * tokens`` is no integer, or ``model.kappa`` is neither 0 nor (d - 1)/L.
    """
    sizes = Sizes(require_integer("tokens", tokens, low=2), require_integer("dimension", dimension, low=2))
    informative = model.fraction * sizes.tokens
    nearest = round(informative)
    if abs(informative - nearest) > 1e-9 * max(informative, 1.0) or not 0 < nearest < sizes.tokens:
        raise ValueError(
            "fraction * tokens must be an integer between 1 and tokens - 1, the number of informative tokens, got "
            f"{model.fraction!r} * {sizes.tokens} = {informative!r}"
        )
    if model.kappa != 0 and abs(model.kappa - sizes.kappa) > 1e-9 * sizes.kappa:
        raise ValueError(
            f"kappa must be 0 or (dimension - 1)/tokens = {sizes.kappa!r} where sizes are given, got {model.kappa!r}"
        )
    return sizes
