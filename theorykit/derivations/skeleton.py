"""What stands between the nodes of an expression, as a function of their values: shared by both evaluations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from theorykit.derivations.nodes import Node, TokenPower
from theorykit.derivations.special import gamma_weight, normal_cdf, owens_t, owens_t_gap
from theorykit.errors import DerivationError

__all__ = ["MP_FUNCTIONS", "environment_of", "lookup", "mp_number", "skeleton"]


@lru_cache(maxsize=4096)
def skeleton(expression: sp.Expr, module: str) -> tuple[tuple[sp.Symbol, ...], tuple[Node, ...], Callable]:
    """Compile what stands between the nodes: (plain symbols, nodes, function of both)."""
    nodes = sorted(_outermost_nodes(expression), key=sp.default_sort_key)
    names = [sp.Symbol(f"_node_{i}") for i in range(len(nodes))]
    plain = expression.xreplace(dict(zip(nodes, names, strict=True)))
    plain = plain.replace(normal_cdf, lambda a: sp.erfc(-a / sp.sqrt(2)) / 2)
    symbols = sorted(plain.free_symbols - set(names), key=lambda s: s.name)
    tables: list[Any] = [MP_FUNCTIONS, "mpmath"] if module == "mpmath" else [NP_FUNCTIONS, "scipy", "numpy"]
    function = sp.lambdify([*symbols, *names], plain, modules=tables)
    return tuple(symbols), tuple(nodes), function


def _outermost_nodes(expression: sp.Basic) -> set[Node]:
    if isinstance(expression, Node):
        return {expression}
    found: set[Node] = set()
    for argument in expression.args:
        found |= _outermost_nodes(argument)
    return found


def _mp_owens_t(h: mpmath.mpf, a: mpmath.mpf) -> mpmath.mpf:
    pieces = mpmath.linspace(0, a, 9)
    return mpmath.quad(lambda x: mpmath.exp(-h * h * (1 + x * x) / 2) / (1 + x * x), pieces) / (2 * mpmath.pi)


def _np_owens_t(h: np.ndarray, a: np.ndarray) -> np.ndarray:
    from scipy.special import owens_t as scipy_owens_t

    return scipy_owens_t(h, a)


def _np_token_power(base: np.ndarray, count: np.ndarray) -> np.ndarray:
    if np.ndim(count) == 0 and count >= 0:
        return base ** float(count)  # squares and the like are products, unlike in np.power
    return np.where(np.asarray(count) < 0, 0.0, np.power(base, np.maximum(count, 0)))


def _np_gamma_weight(u: np.ndarray, n: int) -> np.ndarray:
    capped = np.minimum(u, 1e3)  # both factors are known there: the weight underflows to zero
    weight = np.exp(-capped)
    for _ in range(n):  # on large arrays far quicker than a power
        weight *= capped
    return weight


MP_FUNCTIONS = {
    gamma_weight.__name__: lambda u, n: u**n * mpmath.exp(-u),
    TokenPower.__name__: lambda base, count: base**count if count >= 0 else mpmath.mpf(0),
    owens_t.__name__: _mp_owens_t,
    owens_t_gap.__name__: lambda h, a: _mp_owens_t(h, mpmath.mpf(1)) - _mp_owens_t(h, a),
}
NP_FUNCTIONS = {
    gamma_weight.__name__: _np_gamma_weight,
    TokenPower.__name__: _np_token_power,
    owens_t.__name__: _np_owens_t,
    owens_t_gap.__name__: lambda h, a: _np_owens_t(h, 1.0) - _np_owens_t(h, a),
}


def lookup(symbol: sp.Symbol, environment: Mapping[sp.Symbol, Any]) -> Any:
    try:
        return environment[symbol]
    except KeyError:
        raise DerivationError(f"no value for {symbol}; known: {sorted(map(str, environment))}") from None


def environment_of(
    expression: sp.Expr, values: Mapping[Any, Any], convert: Callable[[Any], Any]
) -> dict[sp.Symbol, Any]:
    by_name = {str(k): v for k, v in values.items()}
    return {
        s: convert(by_name[s.name])
        for s in sp.sympify(expression).free_symbols
        if isinstance(s, sp.Symbol) and s.name in by_name
    }


def mp_number(value: Any) -> mpmath.mpf:
    """A number, a SymPy rational, or text such as "1/3" at the working precision."""
    if hasattr(value, "p") and hasattr(value, "q"):
        return mpmath.mpf(value.p) / value.q
    if isinstance(value, str) and "/" in value:
        numerator, denominator = value.split("/")
        return mpmath.mpf(numerator) / mpmath.mpf(denominator)
    return mpmath.mpf(value)
