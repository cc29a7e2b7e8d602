"""Gradient flow of vectors as a flow of their overlaps, by the chain rule on the Gram matrix.

An objective that depends on trainable vectors through overlaps with one another and with fixed vectors only has
gradients in the span of all these vectors; the overlaps then obey closed equations of their own. Free vectors move
along the gradient, vectors on a sphere along its part across themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import sympy as sp

from theorykit.errors import DerivationError

__all__ = ["Gram", "overlap_flow"]

Pair = tuple[str, str]


@dataclass(frozen=True)
class Gram:
    """Which overlaps of which vectors there are.

    Parameters
    ----------
    trainable, fixed : tuple of str
        Names of the vectors.
    overlaps : mapping of symbol to pair of names
        The overlaps a.b that are variables; each has a trainable vector in it.
    known : mapping of pair of names to expression
        Overlaps with a fixed value: those among fixed vectors (1 with themselves and 0 otherwise unless given), and
        overlaps of trainable vectors that are constant (the square of a vector on a sphere) or vanish.

    Raises
    ------
    DerivationError
        A name that is no vector, a pair that is given twice, or a pair with a trainable vector that is not given.

    Examples
    --------
    >>> rho = sp.Symbol("rho")
    >>> Gram(("q",), ("xi",), {rho: ("q", "xi")}, {("q", "q"): sp.Integer(1)}).value("xi", "q")
    rho
    """

    trainable: tuple[str, ...]
    fixed: tuple[str, ...]
    overlaps: Mapping[sp.Symbol, Pair] = field(hash=False)
    known: Mapping[Pair, sp.Expr] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        names = [*self.trainable, *self.fixed]
        if len(set(names)) < len(names):
            raise DerivationError(f"vectors need distinct names, got {names}")
        given = [*self.overlaps.values(), *self.known]
        for pair in given:
            unknown = [n for n in pair if n not in names]
            if unknown:
                raise DerivationError(
                    f"overlap {pair} is of {unknown}, which are no vectors; there are {names}"
                )
        kept = [tuple(sorted(pair)) for pair in given]
        twice = sorted({pair for pair in kept if kept.count(pair) > 1})
        if twice:
            raise DerivationError(f"overlaps given twice: {twice}")
        for a in self.trainable:
            missing = [b for b in names if tuple(sorted((a, b))) not in kept]
            if missing:
                raise DerivationError(f"overlaps of {a} with {missing} are neither variables nor known")

    def value(self, a: str, b: str) -> sp.Expr:
        """The overlap of two vectors: a symbol, or what is known."""
        for symbol, pair in self.overlaps.items():
            if pair in ((a, b), (b, a)):
                return symbol
        for pair, value in self.known.items():
            if pair in ((a, b), (b, a)):
                return sp.sympify(value)
        return sp.Integer(1 if a == b else 0)  # fixed vectors, orthonormal unless told otherwise


def overlap_flow(
    objective: sp.Expr,
    gram: Gram,
    spheres: Iterable[str] = (),
    rates: Mapping[str, sp.Expr] | None = None,
    ascent: bool = False,
) -> dict[sp.Symbol, sp.Expr]:
    """Time derivatives of all overlaps under gradient flow of the trainable vectors.

    Parameters
    ----------
    objective : SymPy expression in the overlaps of ``gram``
    gram : Gram
    spheres : names of trainable vectors
        Those that stay on their sphere: a' = +-(I - a a^T/|a|^2) grad_a.
    rates : mapping of trainable names to expressions, optional
        Learning rates, 1 unless given.
    ascent : bool
        True: along the gradient; False: against it.

    Returns
    -------
    dict of symbol to expression

    Raises
    ------
    DerivationError
        An overlap that is declared as known does not stay what it is (the manifold is not invariant), or a sphere
        is of a vector that is not trainable.

    Examples
    --------
    >>> rho = sp.Symbol("rho")
    >>> gram = Gram(("q",), ("xi",), {rho: ("q", "xi")}, {("q", "q"): sp.Integer(1)})
    >>> sp.factor(overlap_flow(rho**2 / 2, gram, spheres=["q"], ascent=True)[rho])
    -rho*(rho - 1)*(rho + 1)
    """
    kept = tuple(spheres)
    strange = sorted({*kept, *(rates or {})} - set(gram.trainable))
    if strange:
        raise DerivationError(f"{strange} are no trainable vectors; there are {list(gram.trainable)}")
    sign = sp.Integer(1 if ascent else -1)
    motions = {}
    for a in gram.trainable:
        motion = (
            _across(_gradient(objective, gram, a), gram, a) if a in kept else _gradient(objective, gram, a)
        )
        motions[a] = {b: sign * (rates or {}).get(a, sp.Integer(1)) * c for b, c in motion.items()}
    for pair in gram.known:
        if set(pair) & set(gram.trainable) and sp.simplify(_change(motions, gram, *pair)) != 0:
            raise DerivationError(
                f"overlap {pair} does not stay {gram.known[pair]}: its derivative is {_change(motions, gram, *pair)}; "
                "make it a variable"
            )
    return {symbol: _change(motions, gram, *pair) for symbol, pair in gram.overlaps.items()}


def _gradient(objective: sp.Expr, gram: Gram, a: str) -> dict[str, sp.Expr]:
    """grad_a as a combination of vectors: the chain rule over the overlaps of a."""
    found: dict[str, sp.Expr] = {}
    for symbol, (first, second) in gram.overlaps.items():
        slope = sp.diff(objective, symbol)
        if slope == 0 or a not in (first, second):
            continue
        other = second if first == a else first
        factor = 2 if first == second else 1
        found[other] = found.get(other, sp.Integer(0)) + factor * slope
    return found


def _across(gradient: dict[str, sp.Expr], gram: Gram, a: str) -> dict[str, sp.Expr]:
    """The part of a combination of vectors that is orthogonal to a."""
    along = sp.Add(*[c * gram.value(b, a) for b, c in gradient.items()]) / gram.value(a, a)
    return {**gradient, a: gradient.get(a, sp.Integer(0)) - along}


def _change(motions: Mapping[str, Mapping[str, sp.Expr]], gram: Gram, a: str, b: str) -> sp.Expr:
    """(a.b)' = a'.b + a.b'."""
    total = sp.Integer(0)
    for moving, other in ((a, b), (b, a)):
        total += sp.Add(*[c * gram.value(e, other) for e, c in motions.get(moving, {}).items()])
    return total
