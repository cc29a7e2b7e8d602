"""Formulas of one variable, read from text by walking a syntax tree; never evaluated as Python.

The language: numbers (integer ratios exact), ``+ - * / **``, parentheses, ``pi``, and ``exp log sqrt sin cos
tan sinh cosh tanh erf erfc abs sign min max relu softplus sigmoid gelu silu Phi``.  Here ``Phi`` is the
distribution function of the standard normal law, gelu(x) = x Phi(x), silu(x) = x sigmoid(x), and
softplus(x) = log(1 + exp(x)).
"""

from __future__ import annotations

import functools
import numbers
import reprlib
import sys
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from theorykit._formula import syntax
from theorykit._formula.tree import Node, Variable, walk
from theorykit.errors import FormulaError

if TYPE_CHECKING:
    import numpy as np
    import sympy
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Formula", "parse"]


@dataclass(frozen=True, repr=False)
class Formula:
    """A function of one real variable, given by text.

    Parameters
    ----------
    text : str
        The formula; stored in canonical form, so that spacing and redundant parentheses do not matter.
    variable : str
        Name of the variable.

    Raises
    ------
    FormulaError
        For anything outside the language, naming what was found, the column, and what is allowed.

    Examples
    --------
    >>> Formula("1+tanh( x )")
    Formula('1 + tanh(x)')
    >>> Formula("2/6*x").text
    '1/3*x'
    """

    text: str
    variable: str = "x"
    _tree: Node = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise FormulaError(f"a Formula is made from text, got {self.text!r}; use parse for other sources")
        variable = syntax.require_variable(self.variable)
        tree = syntax.read(str(self.text), variable)
        object.__setattr__(self, "_tree", tree)
        object.__setattr__(self, "text", syntax.write(tree, variable))

    @property
    def is_constant(self) -> bool:
        """Whether the variable does not occur."""
        return not any(isinstance(node, Variable) for node in walk(self._tree))

    def to_sympy(self, symbol: sympy.Expr | None = None) -> sympy.Expr:
        """The formula as a SymPy expression.

        Parameters
        ----------
        symbol : sympy.Expr, optional
            What stands for the variable; default: a real symbol of its name.

        Notes
        -----
        Integer ratios are exact, decimal literals are the doubles they denote, activations are written out:
        relu(x) = Max(x, 0), softplus(x) = log(1 + exp(x)), sigmoid(x) = 1/(1 + exp(-x)),
        Phi(x) = erfc(-x/sqrt(2))/2, gelu(x) = x Phi(x), silu(x) = x/(1 + exp(-x)).
        """
        import sympy

        from theorykit._formula.symbolic import to_sympy

        return to_sympy(self._tree, sympy.Symbol(self.variable, real=True) if symbol is None else symbol)

    def evaluate(self, points: ArrayLike) -> NDArray[np.float64]:
        """Values at ``points``: float64, of the same shape, independent of SymPy and of overflow.

        Where the formula has no finite real value the result is nan or infinite; callers that need one check.

        Raises
        ------
        TypeError
            If ``points`` are not real numbers.
        """
        import numpy as np

        from theorykit._formula.numeric import evaluate

        array = np.asarray(points)
        if array.dtype.kind not in "iuf":
            raise TypeError(f"points must be real numbers, got an array of {array.dtype}")
        return evaluate(self._tree, array.astype(np.float64))

    def kinks(self) -> tuple[float, ...]:
        """Points of [-60, 60] where abs, sign, max, min or relu switch; empty for an analytic formula."""
        return _roots(self, "switch")

    def fronts(self) -> tuple[float, ...]:
        """Points of [-60, 60] where the argument of a sigmoidal function changes sign.

        The functions are erf, erfc, tanh, sigmoid, softplus, Phi, gelu, silu: where their argument is steep,
        the formula has a front there that a quadrature must resolve.
        """
        return _roots(self, "front")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        other = "" if self.variable == "x" else f", variable={self.variable!r}"
        return f"Formula({self.text!r}{other})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.text, self.variable)


@functools.lru_cache(maxsize=256)
def _roots(formula: Formula, role: str) -> tuple[float, ...]:
    from theorykit._formula.numeric import roots, switching_arguments

    arguments = switching_arguments(formula._tree, role)
    return roots(arguments) if arguments else ()


def parse(source: str | float | Fraction | Formula | sympy.Expr, variable: str = "x") -> Formula:
    """A formula from text, a number, a SymPy expression, or another formula.

    Parameters
    ----------
    source : str, int, float, Fraction, SymPy expression or Formula
        SymPy expressions pass the same whitelist; their one symbol must have the name ``variable``.
    variable : str
        Name of the variable.

    Raises
    ------
    FormulaError
        For anything else, naming what was found and what is allowed.
    """
    if isinstance(source, Formula):
        return source if source.variable == variable else Formula(source.text, variable)
    if isinstance(source, str):
        return Formula(source, variable)
    sympy_module = sys.modules.get("sympy")  # an expression of SymPy cannot exist before SymPy is imported
    if sympy_module is not None and isinstance(source, sympy_module.Basic):
        from theorykit._formula.symbolic import from_sympy

        return Formula(from_sympy(source, syntax.require_variable(variable)), variable)
    return Formula(_number_text(source), variable)


def _number_text(source: Any) -> str:
    if not isinstance(source, bool):
        if isinstance(source, numbers.Rational):
            top, bottom = int(source.numerator), int(source.denominator)
            if max(abs(top), bottom) > syntax.MAX_INTEGER:
                raise FormulaError("an integer of a formula may reach 10**15; write a larger one as a float")
            return str(top) if bottom == 1 else f"{top}/{bottom}"
        if isinstance(source, numbers.Real):
            value = float(source)
            if value - value == 0:
                return repr(value)
    found = f"{reprlib.repr(source)} ({type(source).__name__})"
    raise FormulaError(f"a formula must be text, a finite real number or a SymPy expression, got {found}")
