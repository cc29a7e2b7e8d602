r"""The mean of the attention matrix: what each centering forbids the solution.

Softmax times :math:`n/\sqrt p` has a mean component :math:`ee^\top` of strength :math:`\sqrt{n/c}`, and so has any f
that is not centred. What it, or its removal from rows or columns, does to the quadratic form of the labels is exact
linear algebra: multipliers that forbid the solution (u, v, w) of the pencil a component along e in some of its blocks.
The steps verify it with two tokens and explicit matrices; the last one puts the isotropic limits of the engine in
their place:

=========  ==================================  ===============  ======================
centering  matrix                              forbidden        extra term of the form
=========  ==================================  ===============  ======================
row        K (1 - e e^T), softmax over rows    u                (mean of labels)^2
column     (1 - e e^T) K, softmax over columns v and w
none       K + t e e^T, t to infinity          u and w
=========  ==================================  ===============  ======================

For balanced labels the three coincide with the entrywise centred matrix; with a mean of the labels all differ.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.chain import Chain
from theorykit.derivations.fixed_point import FixedPoint
from theorykit.derivations.interpolation.features import FORBIDDEN, label_form, spiked, system
from theorykit.derivations.interpolation.points import blocks_at
from theorykit.derivations.interpolation.symbols import (
    GAMMA,
    KAPPA,
    LABEL,
    MEAN,
    PAPER,
    Z,
    quantities,
)
from theorykit.derivations.ledger import Derivation, Quantity, simulated, verified
from theorykit.derivations.matrices import Entry, product

__all__ = ["derive_centering"]

_EPSILON = sp.Symbol("epsilon", positive=True)
_KERNEL = sp.ImmutableDenseMatrix(2, 2, sp.symbols("k_11 k_12 k_21 k_22", real=True))
_TOKENS = sp.ImmutableDenseMatrix(2, 2, sp.symbols("x_11 x_12 x_21 x_22", real=True))
_LABELS = sp.ImmutableDenseMatrix(2, 1, sp.symbols("y_1 y_2", real=True))
_MEAN_VECTOR = sp.ImmutableDenseMatrix(2, 1, [1 / sp.sqrt(2)] * 2)
_NUMBERS = {
    "k_11": 0.3, "k_12": -0.7, "k_21": 0.9, "k_22": 0.4, "x_11": 1.1, "x_12": -0.6, "x_21": 0.2, "x_22": 0.8,
    "y_1": 0.5, "y_2": 0.9, "gamma": 0.3, "epsilon": 0.4,
}  # fmt: skip
_OTHERS = _NUMBERS | {"k_12": 1.3, "x_22": -0.5, "y_2": -0.7, "gamma": 1.2, "epsilon": 0.7}
_SIMULATED = "interpolation error against the finite model at labels with a mean, at the validation points"


def _exact(*points: dict[str, object]):
    return verified(*points, digits=25, left="mp-trapezoid", right="mp-quad")


def _form(kernel: sp.ImmutableDenseMatrix) -> sp.Expr:
    """gamma y^T (K^T X^T X K + gamma)^{-1} y."""
    gram = kernel.T * _TOKENS.T * _TOKENS * kernel + GAMMA * sp.eye(2)
    column = product(sp.Inverse(sp.ImmutableDenseMatrix(gram)), _LABELS)
    return GAMMA * Entry(product(_LABELS.T, column), 0, 0)


def _bordered(blocks: tuple[str, ...], corner: sp.Expr = sp.S.Zero) -> sp.Expr:
    """The same from the pencil in (u, v, w), with a multiplier for the mean vector in each of some blocks.

    ``corner`` couples two multipliers: minus the inverse strength of a mean component.
    """
    zero, one = sp.zeros(2, 2), sp.eye(2)
    gram = _TOKENS.T * _TOKENS
    pencil = sp.Matrix(sp.BlockMatrix([
        [GAMMA * one, zero, _KERNEL.T], [zero, gram, -one], [_KERNEL, -one, zero],
    ]).as_explicit())  # fmt: skip
    size = len(blocks)
    border = sp.zeros(6, size)
    for column, block in enumerate(blocks):
        start = 2 * "uvw".index(block)
        border[start : start + 2, column] = _MEAN_VECTOR
    square = sp.zeros(size, size)
    if corner != 0:
        square[0, 1] = square[1, 0] = corner
    matrix = pencil.row_join(border).col_join(border.T.row_join(square))
    source = sp.ImmutableDenseMatrix([*_LABELS, *[0] * (4 + size)])
    solved = product(source.T, sp.Inverse(sp.ImmutableDenseMatrix(matrix)), source)
    return GAMMA * Entry(solved, 0, 0)


def derive_centering() -> Derivation:
    """Quadratic form of the labels for each centering of the attention matrix."""
    chain, rows = Chain(), []
    _forms(chain, rows)
    _coincidences(chain, rows)
    used: set[sp.Symbol] = set()
    for step in chain.steps:
        used |= step.lhs.free_symbols | step.rhs.free_symbols
    blocks = tuple(row for row in system().symbols() if row.symbol in used)
    plain = (Quantity(_EPSILON, r"\epsilon", "inverse strength of the mean component", "positive"),)
    images = tuple(
        Quantity(s, sp.latex(s), f"entry of the {what}, two tokens")
        for what, matrix in (("attention matrix", _KERNEL), ("tokens", _TOKENS), ("labels", _LABELS))
        for s in matrix
    )
    record = FixedPoint(
        "interpolation.centering",
        quantities(used, *blocks, *plain, *images, *rows),
        {},
        {str(s): e for s, e in chain.results.items()},
    )
    title = "Mean of the attention matrix"
    return Derivation(
        "interpolation.centering", title, PAPER, tuple(chain.definitions), tuple(chain.steps), record
    )


def _forms(chain: Chain, rows: list[Quantity]) -> None:
    """The quadratic form of each centering: with two tokens, with multipliers, in the limit."""
    mean = _MEAN_VECTOR * _MEAN_VECTOR.T
    rest = sp.eye(2) - mean
    extra = (_LABELS.T * _MEAN_VECTOR)[0, 0] ** 2
    cases = (
        ("row", _form(_KERNEL * rest), _bordered(FORBIDDEN["row"]) + extra,
         "features that are blind to e leave (e . y)^2; u has no other component along e"),
        ("column", _form(rest * _KERNEL), _bordered(FORBIDDEN["column"]),
         "v = K u without its mean; w without a mean in return"),
        ("none", _form(_KERNEL + mean / _EPSILON), _bordered(FORBIDDEN["none"], -_EPSILON),
         "t (e . w)(e . u) is what two multipliers coupled by -1/t leave"),
    )  # fmt: skip
    points = ({**_NUMBERS}, {**_OTHERS})
    for centering, definition, exact, reason in cases:
        symbol = sp.Symbol(f"form_{centering}", real=True)
        chain.define(symbol, definition, f"gamma y^T Q y/n, centering {centering} (two tokens)")
        chain.add(symbol, "multipliers", exact, reason, _exact(*points))
        if centering == "none":
            weak = tuple(p | {"epsilon": "1e-40"} for p in points)
            chain.add(symbol, "strong mean", _bordered(FORBIDDEN["none"]),
                      "the strength sqrt(n/c) of the mean grows; checked at 1e40", _exact(*weak))  # fmt: skip
        limit = label_form(centering).xreplace({Z: sp.Integer(-1)})
        chain.add(symbol, "isotropic law", limit, "limits of the engine in the place of the matrices",
                  simulated(_SIMULATED))  # fmt: skip
        rows.append(
            Quantity(symbol, rf"F_{{\mathrm{{{centering}}}}}", f"ridge times F, centering {centering}")
        )


def _coincidences(chain: Chain, rows: list[Quantity]) -> None:
    """Balanced labels do not see how K is centred; the raw matrix does not see the norms of the tokens."""
    balanced, at = {MEAN: sp.Integer(0)}, {Z: sp.Integer(-1)}
    entry = spiked().component((LABEL, 0), balanced).quadratic_form((LABEL, 0), (LABEL, 0)).xreplace(at)
    zero = tuple(p | {"label_mean": 0} for p in blocks_at())
    for centering in ("row", "column", "none"):
        symbol = sp.Symbol(f"balanced_{centering}", real=True)
        form = label_form(centering).xreplace({**at, **balanced})
        chain.define(symbol, form, f"the form of centering {centering} at balanced labels")
        chain.add(symbol, "balanced labels", entry, "the mean vector is not connected with the labels", _exact(*zero),
                  (sp.Symbol(f"form_{centering}", real=True),))  # fmt: skip
        rows.append(
            Quantity(symbol, rf"F^{{\bar y=0}}_{{\mathrm{{{centering}}}}}", "the same, balanced labels")
        )
    symbol = sp.Symbol("universal_none", real=True)
    form = label_form("none").xreplace(at)
    chain.define(symbol, form, "the form of the raw matrix")
    chain.add(symbol, "universality", form.xreplace({KAPPA: sp.Integer(0)}),
              "the spike of the norms touches only what is forbidden", _exact(*blocks_at()),
              (sp.Symbol("form_none", real=True),))  # fmt: skip
    rows.append(
        Quantity(symbol, r"F^{\kappa}_{\mathrm{none}}", "the form of the raw matrix, any law of the noise")
    )
