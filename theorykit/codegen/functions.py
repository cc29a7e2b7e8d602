"""Numerically stable functions that SymPy does not have, as targets of the rewrites.

Each has one symbolic class here and one scalar implementation of the same name in
:mod:`theorykit.codegen.primitives`. They appear in lowered expressions only, never in a derivation.
"""

from __future__ import annotations

import sympy as sp

__all__ = ["capped", "one_minus_exp", "sigmoid", "softplus", "token_power"]


class one_minus_exp(sp.Function):
    """1 - exp(-u) without cancellation at small u."""

    nargs = 1


class capped(sp.Function):
    """min(u, 1000): keeps u**n exp(-u) at 0, not inf * 0, where u overflows."""

    nargs = 1


class token_power(sp.Function):
    """phi**n from phi and 1 - phi (both accurate), 0 for n < 0."""

    nargs = 3


class softplus(sp.Function):
    """log(1 + exp(x)) without overflow."""

    nargs = 1


class sigmoid(sp.Function):
    """1/(1 + exp(-x)) without overflow."""

    nargs = 1
