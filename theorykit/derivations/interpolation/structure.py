r"""Structure of the interpolation error: labels as signal and noise, and what follows from it.

For balanced labels :math:`y=\frac{|\mu|}{1+|\mu|^2}X^\top\hat\mu+r`, where r acts as a vector independent of X of
variance :math:`1/(1+|\mu|^2)`. Hence, with :math:`E_x` the error at the unit vector along :math:`X^\top\hat\mu`,

.. math:: E=\frac{E_{\mathrm{bulk}}+|\mu|^2E_x}{1+|\mu|^2}.

So E is at least :math:`E_{\mathrm{bulk}}/(1+|\mu|^2)`, which strong alignment of either sign reaches; without ridge and
for c < 1 attention never has a smaller error than linear regression (a matrix of rank p leaves
:math:`E_{\mathrm{bulk}}\ge1-c`, and E_x is a square). The steps verify the split on the finite system of the engine, in
which it holds for any block traces that obey the conservation law :math:`m_{vw}=-m_{uu}`; the argument with r is not
used there. Further: weights orthogonal to the signal drop out, f enters through :math:`a_1^2` where d = 0, and without
linear part the error is that of the bulk.
"""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp

from theorykit import derivations
from theorykit.derivations.chain import Chain
from theorykit.derivations.dyson.spikes import SpikedSystem, spiked_system
from theorykit.derivations.fixed_point import FixedPoint
from theorykit.derivations.interpolation.features import attention_pencil, features_image, system
from theorykit.derivations.interpolation.points import POINTS, blocks_at, names_of_rates
from theorykit.derivations.interpolation.symbols import (
    A_1,
    DIAGONAL,
    GAMMA,
    KEY2,
    KEY_QUERY,
    LABEL,
    MEAN,
    MU,
    OVERLAPS,
    PAPER,
    PHI,
    QUERY2,
    SIGNAL2,
    SIGNAL_KEY,
    SIGNAL_QUERY,
    C,
    Z,
    quantities,
)
from theorykit.derivations.ledger import Check, Derivation, Limit, Quantity, proved, simulated, verified
from theorykit.derivations.matrices import Entry, leading, opaque, product, total_derivative
from theorykit.derivations.nodes import Expectation

__all__ = ["derive_structure"]

_SIMULATED = "interpolation error against the finite model, at the validation points"
_ALIGNMENT = sp.Symbol("beta", real=True)
_LIMIT = sp.Symbol("signal_limit", nonnegative=True)
_STRONG = 10**32
_BALANCED = {MEAN: sp.Integer(0)}
_NO_OVERLAP = {SIGNAL_KEY: sp.Integer(0), SIGNAL_QUERY: sp.Integer(0)}


def _exact(*points: Mapping[str, object], digits: int = 25) -> Check:
    return verified(*points, digits=digits, left="mp-trapezoid", right="mp-quad")


class _Chains:
    """The chains of the derivation, with the expressions that several of them share."""

    def __init__(self) -> None:
        self.chain = Chain()
        self.rows: list[Quantity] = []
        names = [v.name for v in attention_pencil().variables]
        self.sum = names.index("s")  # the block that is X u: its forms are those of X^T mu
        self.directions = ((LABEL, 0), (MU, self.sum))
        self.full = spiked_system(system(), list(self.directions), OVERLAPS)
        self.rates = names_of_rates()
        self.image = attention_pencil().image()
        unit = sp.ImmutableDenseMatrix(-self.image.diff(Z))
        self.squared = product(sp.Inverse(self.image), unit, sp.Inverse(self.image))

    def change(self, spiked: SpikedSystem, which: int = 0) -> sp.Expr:
        """Derivative in z, at -1, of the quadratic form of the labels (0) or of X^T mu (1)."""
        direction = self.directions[which]
        form = spiked.quadratic_form(direction, direction)
        return total_derivative(form, {**self.rates, Z: sp.Integer(1)}).xreplace({Z: sp.Integer(-1)})

    def connected(self, values: Mapping[sp.Symbol, sp.Expr]) -> SpikedSystem:
        return self.full.component(self.directions[0], values)

    def result(self, name: str, latex: str, meaning: str, definition: sp.Expr) -> sp.Symbol:
        """Begin the chain of an observable."""
        symbol = sp.Symbol(name, real=True)
        self.chain.define(symbol, definition, meaning)
        self.rows.append(Quantity(symbol, latex, meaning))
        return symbol


def derive_structure() -> Derivation:
    """Signal and noise of the labels, least error, no reversal without ridge, what weights and f matter through."""
    chains = _Chains()
    _labels(chains)
    bulk = chains.rates[sp.Symbol("m_uu")]
    signal = _signal_error(chains)
    _split(chains, bulk, signal)
    _weights(chains, bulk)
    _ridgeless(chains)
    _linear_part(chains, bulk)
    chain = chains.chain
    used: set[sp.Symbol] = set()
    for step in chain.steps:
        used |= step.lhs.free_symbols | step.rhs.free_symbols
    blocks = [row for row in system().symbols() if row.symbol in used]
    blocks += [
        Quantity(r, rf"\partial_z m_{{{m.name[2:]}}}", f"derivative of {m.name} in z")
        for m, r in chains.rates.items()
        if r in used
    ]
    extra = (
        Quantity(_ALIGNMENT, r"\beta", "alignment: W = 1 + beta mu mu^T/|mu|^2"),
        Quantity(_LIMIT, "E_x(0)", "error along the signal without ridge", "nonnegative"),
    )
    record = FixedPoint(
        "interpolation.structure",
        quantities(used, *blocks, *extra, *chains.rows),
        {},
        {str(s): e for s, e in chain.results.items()},
        limits=(
            Limit(
                "least_error",
                {"r_uu": "1/3", "signal2": 1, "c": "1/2", "signal_limit": 0},
                sp.Rational(1, 6),
                "half of the bulk at |mu| = 1",
            ),
            Limit(
                "ridgeless_ratio", {"signal_limit": 0, "c": "1/2", "signal2": 3}, sp.Integer(1), "rows of X K"
            ),
        ),
    )
    return Derivation(
        "interpolation.structure", "Structure of the interpolation error", PAPER,
        tuple(chain.definitions), tuple(chain.steps), record,
    )  # fmt: skip


def _labels(chains: _Chains) -> None:
    """The conservation law, and the regression of labels on X^T mu."""
    y, g, k, x = sp.symbols("y zeta K x", real=True)
    chain, mu = chains.chain, sp.sqrt(SIGNAL2)
    resolvent = 1 / (GAMMA + (x * k) ** 2)
    law = chains.result("conserved", r"\tau_{vw}", "tr K Q K^T H/n - 1, with H = X^T X/n (numbers for matrices)",
                        k * resolvent * k * x**2 - 1)  # fmt: skip
    chain.add(law, "conservation law", -GAMMA * resolvent, "tr Q Phi^T Phi/n = 1 - gamma tr Q/n", proved())
    seen = mu * y + g
    share = chains.result("label_share", r"\kappa_x", "regression of labels on X^T mu/|mu|, labels Gaussian",
                          Expectation(y * seen, (y, g)) / Expectation(seen**2, (y, g)))  # fmt: skip
    slope = mu / (1 + SIGNAL2)
    chain.add(share, "regression", slope, "Gaussian moments", proved())
    rest = chains.result("label_rest", r"\kappa_r", "variance of labels beyond it, independent of X",
                         Expectation((y - slope * seen) ** 2, (y, g)))  # fmt: skip
    chain.add(rest, "remainder", 1 / (1 + SIGNAL2), "Gaussian moments; uncorrelated Gaussians are independent",
              proved(), (share,))  # fmt: skip
    chains.rows += [
        Quantity(g, r"\zeta", "component of the noise of a token along the signal (Gaussian)"),
        Quantity(k, "K", "attention matrix (a number in its place)"),
        Quantity(x, "x", "tokens over sqrt(n) (a number in their place)"),
    ]


def _signal_error(chains: _Chains) -> sp.Expr:
    """E_x, the error at the unit vector along X^T mu, from the block of the pencil that is X u."""
    token = sp.Symbol("Z", real=True) + sp.Symbol("mu", real=True) * sp.Symbol("y", real=True)
    phi, chain = features_image(), chains.chain
    error = chains.result("signal_error", "E_x", "gamma^2 x^T Q^2 x/|x|^2 at x = X^T mu (numbers for matrices)",
                          (GAMMA / (GAMMA + phi**2)) ** 2)  # fmt: skip
    chain.add(error, "from the pencil", Entry(chains.squared, chains.sum, chains.sum) / token**2,
              "the block s of the solution is X u, so its corner is X gamma Q X^T",
              _exact(*({**p, "z": -1} for p in POINTS)))  # fmt: skip
    limit = chains.change(chains.connected(_BALANCED), 1) / (SIGNAL2 * (1 + SIGNAL2))
    chain.add(
        error, "isotropic law", limit, "|X^T mu|^2/n tends to |mu|^2 (1 + |mu|^2)", simulated(_SIMULATED)
    )
    return limit


def _split(chains: _Chains, bulk: sp.Symbol, signal: sp.Expr) -> None:
    """E = (bulk + |mu|^2 E_x)/(1 + |mu|^2)."""
    phi, chain = features_image(), chains.chain
    error = chains.result("interpolation_error", "E", "mean squared residual at balanced labels (numbers for matrices)",
                          (GAMMA / (GAMMA + phi**2)) ** 2)  # fmt: skip
    chain.add(error, "from the pencil", Entry(chains.squared, 0, 0), "gamma Q is the corner of the inverse pencil",
              _exact(*({**p, "z": -1} for p in POINTS)))  # fmt: skip
    chain.add(error, "isotropic law", chains.change(chains.connected(_BALANCED)),
              "balanced labels are connected with signal and weights alone", simulated(_SIMULATED))  # fmt: skip
    chain.add(error, "signal and noise", (bulk + SIGNAL2 * signal) / (1 + SIGNAL2),
              "an identity of the finite system, given the conservation law m_vw = -m_uu",
              _exact(*blocks_at()), tuple(sp.Symbol(n, real=True) for n in ("conserved", "signal_error")))  # fmt: skip
    excess = chains.result("excess_error", r"E_{\mathrm{excess}}", "error above that of the noise of the labels",
                           chain.results[error] - bulk / (1 + SIGNAL2))  # fmt: skip
    chain.add(
        excess,
        "square",
        SIGNAL2 * signal / (1 + SIGNAL2),
        "E_x is a square, not negative",
        proved(opaque),
    )


def _weights(chains: _Chains, bulk: sp.Symbol) -> None:
    """Strong alignment, and weights orthogonal to the signal."""
    chain, size = chains.chain, sp.sqrt(sp.Abs(_ALIGNMENT))
    sign = sp.sign(_ALIGNMENT)
    aligned = {
        KEY2: size**2, QUERY2: size**2, KEY_QUERY: _ALIGNMENT,
        SIGNAL_KEY: sign * size * sp.sqrt(SIGNAL2), SIGNAL_QUERY: size * sp.sqrt(SIGNAL2),
    }  # fmt: skip
    connected = chains.connected(_BALANCED)
    least = chains.result("least_error", r"E_{\mathrm{least}}", "error of aligned weights, alignment to infinity",
                          chains.change(connected).xreplace(aligned))  # fmt: skip
    strong = [p | {"beta": s * _STRONG} for p, s in zip(blocks_at(), (1, -1), strict=True)]
    chain.add(least, "strong alignment", bulk / (1 + SIGNAL2),
              "E_x falls like 1/beta^2, for both signs; checked at |beta| = 1e32", _exact(*strong))  # fmt: skip
    orthogonal = {**_BALANCED, **_NO_OVERLAP}
    full = chains.result("orthogonal_error", r"E_{\perp}", "error of weights orthogonal to the signal",
                         chains.change(chains.full).xreplace(orthogonal))  # fmt: skip
    zero = {"label_mean": 0, "signal_key": 0, "signal_query": 0}
    chain.add(full, "orthogonal weights", chains.change(chains.connected(orthogonal)),
              "the directions of the weights are not connected with signal and labels: the error without weights",
              _exact(*(p | zero for p in blocks_at())))  # fmt: skip


def _ridgeless(chains: _Chains) -> None:
    """Without ridge and for c < 1 the error is at least that of linear regression."""
    chain, lam = chains.chain, sp.Symbol("lambda_k", nonnegative=True)
    chains.rows.append(Quantity(lam, r"\lambda_k", "eigenvalue of the Gram matrix", "nonnegative"))
    floor = chains.result("bulk_floor", r"E_{\mathrm{null}}", "part of the bulk error at vanishing eigenvalues",
                          (1 - C) * sp.Limit((GAMMA / (GAMMA + lam)) ** 2, lam, 0))  # fmt: skip
    chain.add(
        floor,
        "rank",
        1 - C,
        "the features have p rows: n - p eigenvalues vanish, at any ridge",
        proved(leading),
    )
    record = derivations.get("interpolation.linear_regression").equations
    reduced = derivations.get("interpolation.reductions").equations.observables
    along = {
        sp.Symbol("m_uu"): 1 - PHI, sp.Symbol("r_uu"): reduced["regression_error"],
        GAMMA: reduced["regression_ridge"],
    }  # fmt: skip
    regression = chains.result("regression_ridgeless", r"E_{\mathrm{LR}}(0)", "linear regression without ridge, c < 1",
                               sp.Limit(record.observables["interpolation_error"].xreplace(along), PHI, C))  # fmt: skip
    baseline = leading(chain.results[regression])
    chain.add(
        regression, "no ridge", sp.factor(baseline), "the ridge vanishes where df is c", proved(leading)
    )
    ratio = chains.result("ridgeless_ratio", "R(0)", "error over that of regression, no ridge, c < 1",
                          (1 - C + SIGNAL2 * _LIMIT) / (1 + SIGNAL2) / chain.results[regression])  # fmt: skip
    chain.add(ratio, "no reversal", 1 + SIGNAL2 * _LIMIT / (1 - C), "at least 1, since E_x is not negative", proved(),
              (floor, regression, sp.Symbol("interpolation_error", real=True)))  # fmt: skip


def _linear_part(chains: _Chains, bulk: sp.Symbol) -> None:
    """Where d = 0 the sign of a_1 does not matter; without a_1 neither signal nor weights do."""
    chain = chains.chain
    odd = [s for s in (*chains.rates, *chains.rates.values()) if s.name[2:] in ("uv", "uw", "qh", "hk")]
    mirror = {A_1: -A_1} | {s: -s for s in odd}
    zero = {DIAGONAL: sp.Integer(0)}
    found = system()
    rights = {
        m: e.xreplace(dict(found.explicit)).xreplace({Z: sp.Integer(-1), **zero})
        for m, e in found.equations.items()
    }
    for m, right in rights.items():
        sign = -1 if m in odd else 1
        result = chains.result(f"mirrored_{m.name[2:]}", rf"m^{{-}}_{{{m.name[2:]}}}",
                               f"equation of {m.name} with a_1 and odd blocks of the other sign, d = 0",
                               sign * right.xreplace(mirror))  # fmt: skip
        chain.add(
            result,
            "mirrored equation",
            right,
            "change of sign of the blocks u, q and k",
            _exact(*blocks_at()),
        )
    connected = chains.connected(_BALANCED)
    flat = {A_1: sp.Integer(0), **zero}
    silent = flat | {
        s: sp.Integer(0) for s in (*chains.rates, *chains.rates.values()) if s.name[2:] in ("uv", "uw")
    }
    result = chains.result("flat_error", r"E_{a_1=0}", "error without linear part, d = 0, any signal and weights",
                           chains.change(connected).xreplace(silent))  # fmt: skip
    points = tuple(blocks_at({"a_1": 0, "d": 0, "m_uv": 0, "m_uw": 0, "r_uv": 0, "r_uw": 0}))
    chain.add(result, "flat", bulk, "labels and signal meet only where a_1 couples them", _exact(*points))
