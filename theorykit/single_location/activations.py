"""Activations of single-location regression: what turns attention scores chi_l into weights of the tokens.

Normalized ones weigh the tokens by b(chi_l)/sum_m b(chi_m) with a positive kernel b; elementwise ones weigh
each token by sigma(chi_l) alone.  A record is a name for a :class:`~theorykit.formula.Formula`; nothing else
distinguishes the activations we ship from one that a user writes down.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from theorykit.errors import require_real
from theorykit.formula import Formula, parse
from theorykit.records import Record

if TYPE_CHECKING:
    from fractions import Fraction

    import sympy

    FormulaSource: TypeAlias = Formula | str | float | Fraction | sympy.Expr

__all__ = ["Activation", "Elementwise", "Erf", "Linear", "NormalizedKernel", "Softmax", "Softplus"]

_REACH, _STEPS = 12.0, 960  # scores on which a user's formula is tested


class Activation(Record):
    """Base of the activations.

    Attributes
    ----------
    kind : str
        "normalized" or "elementwise".
    name : str
        Name of the activation; users' own share one name per kind.
    formula : Formula
        The kernel b of a normalized activation, the function sigma of an elementwise one, in x.
    """

    kind: ClassVar[Literal["normalized", "elementwise"]]
    name: ClassVar[str]
    formula: Formula

    @property
    def label(self) -> str:
        """What stands in legends and table headings."""
        return self.name


class _Named(Activation):
    """An activation that is known by its name."""

    _text: ClassVar[str]

    @property
    def formula(self) -> Formula:  # type: ignore[override]
        return _parsed(self._text)


@functools.cache
def _parsed(text: str) -> Formula:
    return parse(text)


@dataclass(frozen=True, repr=False)
class Softmax(_Named):
    """Softmax attention, weights exp(chi_l)/sum_m exp(chi_m)."""

    kind = "normalized"
    name = "softmax"
    _text = "exp(x)"


@dataclass(frozen=True, repr=False)
class Softplus(_Named):
    """Normalized softplus attention, kernel log(1 + exp(x))."""

    kind = "normalized"
    name = "softplus"
    _text = "softplus(x)"


@dataclass(frozen=True, repr=False)
class Linear(_Named):
    """Linear attention, weight 1 + chi_l of each token."""

    kind = "elementwise"
    name = "linear"
    _text = "1 + x"


@dataclass(frozen=True, repr=False)
class Erf(_Named):
    """Sigmoidal attention, weight 1 + erf(shift + chi_l) of each token; ``formula`` is the one at shift 0.

    Parameters
    ----------
    shift : float or None
        Finite; None: optimized together with the overlaps, which only ``optimal_risk`` does.
    """

    shift: float | None = 0.0

    kind = "elementwise"
    name = "erf"
    _text = "1 + erf(x)"

    def __post_init__(self) -> None:
        if self.shift is not None:
            object.__setattr__(self, "shift", require_real("shift", self.shift) + 0.0)  # no -0.0

    @property
    def label(self) -> str:
        if self.shift is None:
            return "erf, best shift"
        return "erf" if self.shift == 0 else f"erf, shift {self.shift:g}"


class _Custom(Activation):
    """An activation given by a formula in x."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.formula.text!r})"

    @property
    def label(self) -> str:
        return self.formula.text


@dataclass(frozen=True, repr=False)
class Elementwise(_Custom):
    """Attention with a function of your own applied token by token.

    Parameters
    ----------
    formula : str, number, SymPy expression or Formula
        The function sigma(x), real and finite for all scores in [-12, 12].

    Examples
    --------
    >>> Elementwise("1+tanh(x)")
    Elementwise('1 + tanh(x)')
    """

    formula: Formula

    kind = "elementwise"
    name = "elementwise"

    if TYPE_CHECKING:  # the constructor takes every source of a formula, the field holds the formula

        def __init__(self, formula: FormulaSource) -> None: ...

    def __post_init__(self) -> None:
        formula = parse(self.formula)
        _require_values(formula, "Elementwise", positive=False)
        object.__setattr__(self, "formula", formula)


@dataclass(frozen=True, repr=False)
class NormalizedKernel(_Custom):
    """Normalized attention with a kernel of your own, weights b(chi_l)/sum_m b(chi_m).

    Parameters
    ----------
    formula : str, number, SymPy expression or Formula
        The kernel b(x), finite and positive for all scores in [-12, 12]: where it vanishes on an interval,
        all tokens of a sequence can lie there and their weights are 0/0.

    Examples
    --------
    >>> NormalizedKernel("1 + x**2")
    NormalizedKernel('1 + x**2')
    """

    formula: Formula

    kind = "normalized"
    name = "normalized_kernel"

    if TYPE_CHECKING:

        def __init__(self, formula: FormulaSource) -> None: ...

    def __post_init__(self) -> None:
        formula = parse(self.formula)
        _require_values(formula, "NormalizedKernel", positive=True)
        object.__setattr__(self, "formula", formula)


def _require_values(formula: Formula, owner: str, positive: bool) -> None:
    """Refuse a formula that is not finite (and positive, for a kernel) on the grid of scores."""
    import numpy as np

    grid = _REACH * (np.arange(_STEPS + 1) - _STEPS // 2) / (_STEPS // 2)
    values = formula.evaluate(grid)
    bad: Any = ~np.isfinite(values)
    if positive:
        bad |= values <= 0
    if not bad.any():
        return
    first = int(np.argmin(np.where(bad, np.abs(grid), np.inf)))  # the offence nearest to 0 tells most
    wanted = "finite and positive" if positive else "finite"
    vanishes = "; where a kernel vanishes or underflows its weights are 0/0, add a positive constant"
    reason = vanishes if positive and values[first] == 0 else ""
    raise ValueError(
        f"formula of {owner} must be {wanted} for scores in [{-_REACH:g}, {_REACH:g}], "
        f"got {float(values[first])!r} from {formula.text!r} at x = {float(grid[first])!r}{reason}"
    )
