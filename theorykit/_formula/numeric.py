"""Tree -> NumPy values, in forms that do not overflow, and the points where a formula switches or turns.

Independent of SymPy, so that each can be tested against the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from theorykit._formula.tree import FUNCTIONS, Binary, Call, Negate, Node, Number, Pi, walk

__all__ = ["evaluate", "roots", "switching_arguments"]

_REACH = 60.0  # roots are looked for on [-60, 60]: no Gaussian average sees further
_CELLS = 16384
_ZOOMS = 10
_ZOOM_POINTS = 17
_SAME = 1e-9  # roots closer than this are one

Array = NDArray[np.float64]


def _softplus(x: Any) -> Any:
    return np.logaddexp(0.0, x)


def _relu(x: Any) -> Any:
    return np.maximum(x, 0.0)


def _gelu(x: Any) -> Any:
    return x * special.ndtr(x)


def _silu(x: Any) -> Any:
    return x * special.expit(x)


_CALLS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "erf": special.erf,
    "erfc": special.erfc,
    "abs": np.abs,
    "sign": np.sign,
    "min": np.minimum,
    "max": np.maximum,
    "relu": _relu,
    "softplus": _softplus,
    "sigmoid": special.expit,
    "gelu": _gelu,
    "silu": _silu,
    "Phi": special.ndtr,
}
_BINARIES: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "**": np.power,
}


def evaluate(tree: Node, points: Array | float) -> Array:
    """Values at ``points``, of the same shape; nan or inf where there is no finite real value."""
    x = np.asarray(points, dtype=np.float64)
    with np.errstate(all="ignore"):
        return np.array(np.broadcast_to(_value(tree, x), x.shape), dtype=np.float64)


def _value(node: Node, x: Array) -> Any:
    if isinstance(node, Number):
        return np.float64(float(node.value))
    if isinstance(node, Pi):
        return np.float64(np.pi)
    if isinstance(node, Negate):
        return -_value(node.operand, x)
    if isinstance(node, Binary):
        return _BINARIES[node.operator](_value(node.left, x), _value(node.right, x))
    if isinstance(node, Call):
        function = _CALLS[node.name]
        values = [_value(argument, x) for argument in node.arguments]
        if len(values) == 1:
            return function(values[0])
        result = values[0]
        for value in values[1:]:
            result = function(result, value)
        return result
    return x


def switching_arguments(tree: Node, role: str) -> list[Node]:
    """The expressions whose change of sign makes a function of the given role switch (or turn)."""
    found: list[Node] = []
    for node in walk(tree):
        if not isinstance(node, Call) or FUNCTIONS[node.name].role != role:
            continue
        first, *others = node.arguments
        if not others:
            found.append(first)
        # max(a, b, c) is max(max(a, b), c): it switches where b - a or c - max(a, b) changes sign
        for position, other in enumerate(others, start=1):
            before = first if position == 1 else Call(node.name, node.arguments[:position])
            found.append(Binary("-", other, before))
    return list(dict.fromkeys(found))


def roots(trees: list[Node]) -> tuple[float, ...]:
    """Where any of the expressions changes sign on [-60, 60], increasing, each once.

    A scan of 16384 cells, zooming into local minima of the size (two roots inside one cell), then bisection
    on the sign, which also finds jumps through zero.  Touching zero without a change of sign does not count.
    """
    found: list[float] = []
    for tree in trees:
        found.extend(_sign_changes(tree))
    result: list[float] = []
    for root in sorted(found):
        if not result or root - result[-1] > _SAME:
            result.append(root)
    return tuple(result)


def _sign_changes(tree: Node) -> list[float]:
    # The grid is shifted by an irrational amount, so that simple roots do not fall on it.
    step = 2 * _REACH / _CELLS
    grid = -_REACH - step / np.sqrt(7.0) + step * np.arange(_CELLS + 2)
    signs = np.sign(evaluate(tree, grid))
    change = _differ(signs[:-1], signs[1:])
    low, high = grid[:-1][change], grid[1:][change]
    extra_low, extra_high = _close_pairs(tree, grid, signs)
    brackets = np.concatenate([low, extra_low]), np.concatenate([high, extra_high])
    found = (_snap(tree, low, high) for low, high in zip(*_bisect(tree, *brackets), strict=True))
    return [root for root in found if -_REACH <= root <= _REACH]


def _differ(first: Array, second: Array) -> NDArray[np.bool_]:
    return (first != second) & ~np.isnan(first) & ~np.isnan(second)


def _close_pairs(tree: Node, grid: Array, signs: Array) -> tuple[Array, Array]:
    """Brackets of two roots hidden between neighbouring grid points, around local minima of the size."""
    size = np.abs(evaluate(tree, grid))
    inner = (size[1:-1] < size[:-2]) & (size[1:-1] <= size[2:])
    inner &= (signs[1:-1] == signs[:-2]) & (signs[1:-1] == signs[2:]) & (signs[1:-1] != 0)
    low, high, outside = grid[:-2][inner], grid[2:][inner], signs[1:-1][inner]
    lows: list[Array] = []
    highs: list[Array] = []
    for _ in range(_ZOOMS):
        if low.size == 0:
            break
        points = np.linspace(low, high, _ZOOM_POINTS, axis=1)
        values = evaluate(tree, points)
        opposite = np.sign(values) == -outside[:, None]
        hit = opposite.any(axis=1)
        inside = points[np.arange(len(points)), opposite.argmax(axis=1)][hit]
        lows += [low[hit], inside]
        highs += [inside, high[hit]]
        best = np.clip(np.argmin(np.abs(values), axis=1), 1, _ZOOM_POINTS - 2)
        rows = np.arange(len(points))
        low, high = points[rows, best - 1][~hit], points[rows, best + 1][~hit]
        outside = outside[~hit]
    empty: Array = np.empty(0)
    return np.concatenate([empty, *lows]), np.concatenate([empty, *highs])


def _bisect(tree: Node, low: Array, high: Array) -> tuple[Array, Array]:
    """Shrink brackets of a change of sign until they are as narrow as doubles allow."""
    left = np.sign(evaluate(tree, low))
    for _ in range(70):
        middle = 0.5 * (low + high)
        same = np.sign(evaluate(tree, middle)) == left
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return low, high


def _snap(tree: Node, low: float, high: float) -> float:
    """The short decimal (0, 0.3, ...) where the expression vanishes exactly there, else the middle."""
    middle = 0.5 * (low + high)
    short = round(middle, 12) + 0.0
    return float(short if evaluate(tree, short) == 0.0 else middle)
