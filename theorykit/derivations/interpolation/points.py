"""Points at which exact identities of the finite systems are checked: block traces of no meaning but consistent.

An identity that uses the conservation law and the explicit blocks of the dimensions' side, and no more of the Dyson
equations, holds at such points; a derivation need not solve anything to check it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import sympy as sp

from theorykit.derivations.evaluate import evaluate_all
from theorykit.derivations.fixed_point import implicit_rates
from theorykit.derivations.interpolation.features import system
from theorykit.derivations.interpolation.symbols import Z

__all__ = ["POINTS", "blocks_at", "names_of_rates"]

#: Parameters, and numbers in the place of matrices and vectors.
POINTS: tuple[dict[str, Any], ...] = (
    {
        "a_1": 0.7, "c": 0.6, "d": 0.2, "gamma": 0.3, "remainder": 0.4, "a_2": 0.3, "square_variance": 2,
        "label_mean": 0.4, "z": -1.1, "Z": 0.8, "S": 0.5, "y": 0.9, "mu": 0.7, "w_K": 0.6, "w_Q": -0.3, "e": 0.4,
        "g": 0.2,
    },
    {
        "a_1": -0.4, "c": 1.7, "d": 0.2, "gamma": 1.1, "remainder": 0.4, "a_2": 0.3, "square_variance": 2,
        "label_mean": 0.4, "z": -0.8, "Z": -1.3, "S": 0.9, "y": 0.9, "mu": -0.5, "w_K": 0.6, "w_Q": -0.3, "e": 0.4,
        "g": 0.2,
    },
)  # fmt: skip
_OVERLAPS = (
    {"signal2": 1.3, "key2": 1.1, "query2": 2.3, "signal_key": 0.5, "signal_query": -0.3, "key_query": 0.2},
    {"signal2": 0.4, "key2": 0.7, "query2": 0.9, "signal_key": -0.2, "signal_query": 0.1, "key_query": -0.4},
)
_BLOCKS = (
    {"m_uu": 0.6, "m_uv": -0.25, "m_uw": 0.1, "m_vv": 0.55, "m_ww": -0.4,
     "r_uu": 0.5, "r_uv": -0.2, "r_uw": 0.03, "r_vv": 0.45, "r_ww": 0.3},
    {"m_uu": 0.8, "m_uv": 0.15, "m_uw": -0.2, "m_vv": 0.3, "m_ww": -0.7,
     "r_uu": 0.65, "r_uv": 0.1, "r_uw": -0.07, "r_vv": 0.2, "r_ww": 0.15},
)  # fmt: skip
_DIGITS = 45


@cache
def names_of_rates() -> dict[sp.Symbol, sp.Symbol]:
    """Symbol of the derivative in z of every block trace."""
    found = system()
    return {m: sp.Symbol(f"r_{m.name.removeprefix('m_')}") for m in (*found.unknowns, *found.explicit)}


@cache
def _explicit() -> tuple[dict[str, sp.Expr], dict[str, sp.Expr]]:
    """The blocks of the dimensions' side, and their derivatives."""
    found, names = system(), names_of_rates()
    blocks = {m.name: e.xreplace({Z: sp.Integer(-1)}) for m, e in found.explicit.items()}
    rates = implicit_rates(found.explicit, Z, names)
    return blocks, {r.name: e.xreplace({Z: sp.Integer(-1)}) for r, e in rates.items()}


def blocks_at(values: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """The points, some values changed, with consistent block traces and their derivatives at z = -1."""
    blocks, rates = _explicit()
    for point, overlaps, own in zip(POINTS, _OVERLAPS, _BLOCKS, strict=True):
        known = point | overlaps | own | {"z": -1} | dict(values or {})
        known["m_vw"] = -known["m_uu"]
        known["r_vw"] = known["m_uu"] - known["r_uu"]
        known |= evaluate_all(blocks, known, _DIGITS)
        yield known | evaluate_all(rates, known, _DIGITS)
