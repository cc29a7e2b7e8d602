"""Verdicts on statements about the interpolation error, decided from computed numbers.

Comparisons at equal ridges depend on the scale of f (E(ridge; s f) = E(ridge/s^2; f)), so they are made in three
ways: at equal ridges, at equal effective degrees of freedom, and without ridge. Nothing here is about new data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from theorykit.findings import Evaluator, Finding, pairs
from theorykit.interpolation.error import interpolation_error, solve
from theorykit.interpolation.model import SOFTMAX_MAP, Attention, Overlaps
from theorykit.interpolation.programs import program

if TYPE_CHECKING:
    from theorykit.derivations.ledger import Claim
    from theorykit.derivations.verdicts import ClaimVerdict

__all__ = ["EVALUATORS", "claims"]

_SAME = 1e-10
_RIDGELESS = 1e-7


def claims() -> tuple[tuple[Claim, Callable[[], ClaimVerdict]], ...]:
    """The statements, each with the function that computes its verdict."""
    from theorykit.derivations.interpolation.claims import CLAIMS

    return pairs(CLAIMS, EVALUATORS)


# --------------------------------------------------------------------------- numbers


def _error(formula: object, ratio: float, ridge: float, **rest: object) -> float:
    return float(interpolation_error(Attention(formula, ratio, ridge, **rest)))  # type: ignore[arg-type]


def _ratio(formula: object, ratio: float, ridge: float, **rest: object) -> float:
    """Error of attention over that of linear regression at equal ridges."""
    from theorykit.interpolation.error import linear_regression_error

    signal = rest.get("signal", 0.0)
    baseline = linear_regression_error(ratio=ratio, ridge=ridge, signal=signal)  # type: ignore[arg-type]
    return _error(formula, ratio, ridge, **rest) / float(baseline)


def _fair_ratio(formula: object, ratio: float, freedom: float, **rest: object) -> float:
    """The same at equal effective degrees of freedom."""
    from theorykit.interpolation.comparison import compare

    return compare(Attention(formula, ratio, 1.0, **rest), freedom).ratio  # type: ignore[arg-type]


def _derived(record: str, observable: str, **values: float) -> float:
    """A number of a derived law; parameters that it does not depend on are set to 0.3."""
    compiled = program(record)
    return float(compiled.values(dict.fromkeys(compiled.parameters, 0.3) | values)[observable])


# --------------------------------------------------------------------------- evaluators


def _random_inputs_worse() -> Finding:
    """No signal: at equal ridges, after a change of scale, and at equal degrees of freedom."""
    evidence = {
        "c = 0.25, ridge 1, f = x: ratio of errors": _ratio("x", 0.25, 1),
        "c = 0.25, ridge 1, tanh: ratio": _ratio("tanh(x)", 0.25, 1),
        "c = 0.25, ridge 1, softmax map: ratio": _ratio(SOFTMAX_MAP, 0.25, 1),
        "c = 0.5, ridge 0.1, tanh: ratio": _ratio("tanh(x)", 0.5, 0.1),
        "c = 0.5, ridge 0.1, 10 tanh: ratio": _ratio("10*tanh(x)", 0.5, 0.1),
    }
    equal_ridge = all(v > 1 for v in evidence.values())
    fair = {
        f"c = {c}, df = {share} of its maximum, {name}: ratio": _fair_ratio(name, c, share * min(1, c))
        for c in (0.25, 1, 2)
        for share in (0.2, 0.8)
        for name in ("tanh(x)", "relu(x)")
    }
    outcomes = {
        "both have equal degrees of freedom": all(v > 1 for v in fair.values()),
        "both have equal ridges": equal_ridge,
    }
    evidence["smallest ratio at equal degrees of freedom"] = min(fair.values())
    return Finding(outcomes, evidence, {"both have equal ridges": "the scale of f decides"})


def _gap_vanishes_when_aligned() -> Finding:
    """Ratios without ridge, by alignment, on both sides of p = n."""
    evidence, outcomes = {}, {}
    few = [_ratio("tanh(x)", 0.5, _RIDGELESS, signal=1, aligned=b) for b in (0, 1, 30)]
    many = [_ratio("tanh(x)", c, 1e-5, signal=1, aligned=30) for c in (1, 2)]
    for b, value in zip((0, 1, 30), few, strict=True):
        evidence[f"c = 0.5, no ridge, beta = {b}: ratio"] = value
    for c, value in zip((1, 2), many, strict=True):
        evidence[f"c = {c}, ridge 1e-5, beta = 30: ratio"] = value
    # strong alignment leaves the error of the noise of the labels, which without ridge is that of regression
    least = _derived(
        "structure", "least_error", r_uu=_derived("reductions", "nonlinear_few", c=0.5), signal2=1
    )
    limit = least / _derived("structure", "regression_ridgeless", c=0.5, signal2=1)
    evidence["c = 0.5, no ridge, beta to infinity: ratio"] = limit
    outcomes["p < n"] = few[0] > few[1] > few[2] > limit and few[2] - limit < 0.02 * (few[0] - 1) + 1e-3
    outcomes["p >= n"] = max(many) < 2
    return Finding(outcomes, evidence, {"p >= n": "the gap diverges as the ridge vanishes"})


def _gap_reversed() -> Finding:
    """Without ridge it never happens; at equal degrees of freedom for strong regularization."""
    formulas, signals, betas = ("tanh(x)", "relu(x)"), (0.3, 1.0, 2.0), (-3.0, 1.0, 5.0)
    ridgeless = min(
        _ratio(f, c, 1e-6, signal=s, aligned=b)
        for f in formulas
        for c in (0.25, 0.5)
        for s in signals
        for b in betas
    )
    strong = {c: _fair_ratio("tanh(x)", c, 0.1 * min(1, c), signal=1, aligned=1) for c in (0.25, 0.5, 1, 2)}
    weak = {c: _fair_ratio("tanh(x)", c, 0.9 * min(1, c), signal=1, aligned=1) for c in (0.25, 0.5, 1, 2)}
    bound = _derived("structure", "ridgeless_ratio", signal_limit=0.0, c=0.5, signal2=1)
    evidence = {
        "no ridge, p < n: smallest ratio": ridgeless,
        "no ridge, p < n: bound at no error along the signal": bound,
    }
    evidence |= {f"c = {c}, df = 0.1 of its maximum: ratio": v for c, v in strong.items()}
    evidence |= {f"c = {c}, df = 0.9 of its maximum: ratio": v for c, v in weak.items()}
    outcomes = {
        "regularization is strong (few degrees of freedom, the same for both, at any p/n)": max(
            strong.values()
        )
        < 1,
        "regularization is weak": max(weak.values()) < 1,
        "there is no ridge": min(ridgeless, bound) < 1,
    }
    return Finding(outcomes, evidence)


def _no_linear_part_no_signal() -> Finding:
    values = [_error("cos(x)", 0.5, 0.1, signal=s, aligned=b) for s, b in ((0, 0), (1, 0), (3, 1), (10, -1))]
    spread = max(values) - min(values)
    model = Attention("cos(x)", 0.5, 0.1)
    freedom = float(solve(model).degrees_of_freedom)
    law = _derived("reductions", "nonlinear_error", c=0.5, nu=float(model.hermite.second_moment), phi=freedom)
    evidence = {
        "largest difference over signals and weights": spread,
        "distance to the law without linear part at these degrees of freedom": abs(values[0] - law),
    }
    return Finding({"a_1 = 0": max(evidence.values()) < _SAME}, evidence)


def _no_linear_part_no_dimension() -> Finding:
    """It decreases, and saturates; so it does with a linear part."""
    import numpy as np

    from theorykit.interpolation.error import linear_regression

    ratios = (0.1, 0.5, 1, 2, 8, 64)
    values = [_error("cos(x)", c, 0.1) for c in ratios]
    nu = float(Attention("cos(x)", 1, 1).hermite.second_moment)
    freedom = float(linear_regression(1.0, np.array([0.1 / nu]), 0.0)["degrees_of_freedom"][0])
    limit = _derived("reductions", "saturated_error", nu=nu, phi=freedom)
    scale = _derived("reductions", "saturated_ridge", nu=nu, phi=freedom) / 0.1  # 1: the same ridge
    evidence = {f"c = {c}: error": v for c, v in zip(ratios, values, strict=True)}
    evidence["limit at large c: linear regression at c = 1, ridge/nu"] = limit
    falls = all(a > b for a, b in pairwise(values))
    outcomes = {
        "many dimensions": falls and abs(values[-1] - limit) < 0.01 * limit and abs(scale - 1) < _SAME,
        "few dimensions": not falls,
    }
    return Finding(outcomes, evidence, {"few dimensions": "it falls, and saturates"})


def _orthogonal_weights_worse() -> Finding:
    """Both vectors orthogonal to the signal, or one of them."""

    def error(**overlaps: float) -> float:
        given = Overlaps(**({"key2": 1.0, "query2": 1.0} | overlaps))
        return _error("tanh(x)", 0.5, 0.1, signal=1, overlaps=given)

    none = _error("tanh(x)", 0.5, 0.1, signal=1)
    both, key, query = error(), error(signal_key=1), error(signal_query=1)
    evidence = {"no low-rank weights": none, "both orthogonal": both, "key along": key, "query along": query}
    outcomes = {
        "the query vector alone is orthogonal": key > none + _SAME,
        "both vectors are orthogonal": both > none + _SAME,
        "the key vector alone is orthogonal": query > none + _SAME,
    }
    remark = "exactly as without them" if abs(both - none) < _SAME else ""
    return Finding(outcomes, evidence, {"both vectors are orthogonal": remark} if remark else {})


def _softmax_is_entrywise() -> Finding:
    """All centerings of the matrix, for balanced and unbalanced labels; coefficients of the map."""
    kinds = ("entry", "row", "column", "none")
    spread: dict[float, float] = {}
    evidence: dict[str, float] = {}
    for mean in (0.0, 0.6):
        values = {k: _error(SOFTMAX_MAP, 0.5, 0.1, label_mean=mean, centering=k) for k in kinds}
        spread[mean] = max(values.values()) - min(values.values())
        evidence |= {f"label mean {mean:g}, {k}": v for k, v in values.items()}
    found = Attention(SOFTMAX_MAP, 1, 1).hermite
    derived = {"softmax_linear": found.coefficients[1], "softmax_moment": found.second_moment}
    distance = max(abs(float(v) - _derived("softmax", name)) for name, v in derived.items())
    evidence["largest difference of Hermite coefficients to those derived"] = distance
    outcomes = {
        "labels are balanced (and the diagonal is masked)": max(spread[0.0], distance) < _SAME,
        "labels are not balanced": spread[0.6] < _SAME,
    }
    return Finding(outcomes, evidence, {"labels are not balanced": "four different limits"})


def _universality() -> Finding:
    """The fourth moment of the noise, where the mean of the labels meets the second Hermite coefficient."""

    def change(formula: str, mean: float) -> float:
        values = [_error(formula, 0.5, 0.1, label_mean=mean, square_variance=k) for k in (0, 0.8, 2)]
        return max(values) - min(values)

    cases = {
        "labels are balanced": change("relu(x)", 0.0),
        "the second Hermite coefficient vanishes": change("tanh(x)", 0.6),
        "neither": change("relu(x)", 0.6),
    }
    outcomes = {where: value < _SAME for where, value in cases.items()}
    return Finding(outcomes, {f"{w}: change of the error": v for w, v in cases.items()})


EVALUATORS: Mapping[str, Evaluator] = {
    "random_inputs_worse": _random_inputs_worse,
    "gap_vanishes_when_aligned": _gap_vanishes_when_aligned,
    "gap_reversed": _gap_reversed,
    "no_linear_part_no_signal": _no_linear_part_no_signal,
    "no_linear_part_no_dimension": _no_linear_part_no_dimension,
    "orthogonal_weights_worse": _orthogonal_weights_worse,
    "softmax_is_entrywise": _softmax_is_entrywise,
    "universality": _universality,
}
