"""Hermite coefficients and second moment of a formula, as numbers with errors."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from theorykit import derivations
from theorykit.errors import ConvergenceError, require_integer
from theorykit.formula import Formula, parse
from theorykit.interpolation.growth import require_second_moment
from theorykit.results import Estimate

if TYPE_CHECKING:
    from theorykit.codegen.program import Program
    from theorykit.interpolation.model import FormulaSource

__all__ = ["MOST_DEGREE", "Hermite", "hermite"]

#: Largest degree; beyond, normalized coefficients of the usual functions are below the rounding of their averages.
MOST_DEGREE = 40
_DEFAULT = 6


@dataclass(frozen=True)
class Hermite:
    """How a formula looks to a standard Gaussian.

    Attributes
    ----------
    formula : Formula
    coefficients : tuple of Estimate
        a_0, a_1, ...: averages of f with the normalized Hermite polynomials He_k/sqrt(k!); a_0 is the mean.
    second_moment : Estimate
        nu, the second moment of the centred f - a_0.
    remainder : Estimate
        nu - a_1^2, computed as an average of its own.
    linearity : Estimate
        a_1^2/nu, in [0, 1].
    """

    formula: Formula
    coefficients: tuple[Estimate, ...]
    second_moment: Estimate
    remainder: Estimate
    linearity: Estimate


def hermite(formula: FormulaSource, degree: int = _DEFAULT) -> Hermite:
    """Normalized Hermite coefficients of a formula, and the second moment of what is left without its mean.

    With the normalized polynomials He_k/sqrt(k!), as in arXiv 2506.18656; derived in ``interpolation.hermite``.

    Parameters
    ----------
    formula : str, number, SymPy expression or Formula
        In x, with a finite second moment under the standard normal law.
    degree : int
        Highest coefficient, in [1, 40].

    Returns
    -------
    Hermite

    Raises
    ------
    FormulaError, TypeError, ValueError
        A formula that is refused, constant, not finite, or without a finite second moment.
    ConvergenceError
        The quadrature does not reach an acceptable error.

    Examples
    --------
    >>> found = hermite("relu(x)", degree=2)
    >>> f"{found.coefficients[1]:.12f} {found.second_moment:.12f}"
    '0.500000000000 0.340845056908'
    """
    parsed = parse(formula)
    degree = require_integer("degree", degree, low=1, high=MOST_DEGREE)
    require_second_moment(parsed)
    if derivations.is_substituted("interpolation.hermite"):
        return _computed(parsed, degree)
    return _remembered(parsed, degree)


@functools.lru_cache(maxsize=512)
def _remembered(formula: Formula, degree: int) -> Hermite:
    return _computed(formula, degree)


def _computed(formula: Formula, degree: int) -> Hermite:
    names = [f"a_{k}" for k in range(degree + 1)]
    moments = ("nu", "remainder", "linearity")
    try:
        found = program(formula, degree, (*names, *moments)).values({})
    except ConvergenceError as error:
        error.args = (f"Hermite coefficients of {formula.text!r}: {error}",)
        raise
    nu, remainder, linearity = (found[name] for name in moments)
    return Hermite(formula, tuple(found[name] for name in names), nu, remainder, linearity)


def program(formula: Formula, degree: int, observables: tuple[str, ...]) -> Program:
    """The compiled averages of one formula; a substituted derivation is compiled as it is."""
    from theorykit.codegen import compile_record, load

    name = "interpolation.hermite"
    options: dict[str, Any] = {"degree": degree, "formula": formula.text}

    def derive() -> Any:
        return derivations.get(name, **options).equations

    if derivations.is_substituted(name):
        return compile_record(derive(), observables)
    return load(name, tuple(sorted(options.items())), derive, observables)
