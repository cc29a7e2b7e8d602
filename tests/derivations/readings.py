"""How public numbers follow from the records: what the mutation tests compare.

A ``Reading`` says which public call reads a record, at which point, and what it should return given the record's
observables. A theory without readings is covered through its validation points: there the number has to change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from theorykit import derivations
from theorykit import interpolation as ip
from theorykit import single_location as slr
from theorykit.derivations.ledger import Equations
from theorykit.derivations.tensor import evaluate_tensor

__all__ = ["READINGS", "READ_BY_NOTHING", "Reading", "observed"]

#: (derivation, equation or observable) that no public function reads: intermediate results kept for the LaTeX,
#: and laws that public numbers are compared with. Their compiled numbers are tested instead.
READ_BY_NOTHING = {
    ("single_location.risk", "best_excess"),  # the search reports the excess risk at the best value
    ("single_location.linear", "B"),  # A, power and leak are read
    ("interpolation.linear_regression", "quadratic_form"),  # the error is its derivative
}


@dataclass(frozen=True, eq=False)
class Reading:
    """``call()`` is what ``follows`` makes of the observables of a record at ``point``."""

    derivation: str
    options: Mapping[str, Any]
    point: Callable[[], Mapping[str, float]]
    call: Callable[[], float]
    follows: Callable[[Mapping[str, float]], float] | None
    needs: tuple[str, ...]
    slow: bool = False

    def expected(self, record: Equations) -> float | None:
        """The number that a record, true or mutated, stands for, by brute force; None: it only has to change."""
        if self.follows is None:
            return None
        return self.follows(observed(record, self.point(), self.needs))


def observed(record: Equations, point: Mapping[str, float], names: tuple[str, ...]) -> dict[str, float]:
    """Some observables of a record at a point."""
    return {n: evaluate_tensor(record.closed(record.observables[n]), point)[0] for n in names}


def record_of(name: str, **options: Any) -> Equations:
    return derivations.get(f"single_location.{name}", **options).equations


SPIKED = slr.Spiked(nu=4, length=3, noise=0.5)
MAX = slr.Max(nu=2, length=3)
ARGMAX = slr.Max(nu=math.inf, length=3)
TANH = slr.Elementwise("1 + tanh(x)")
ERF = slr.Erf(0.3)
KEY = {"m_k": 0.9, "q_k": 1.4}
VALUE = {"m_v": 0.7, "q_v": 0.9}
AT = {"nu": 4.0, "L": 3, "noise": 0.5, **KEY, **VALUE}
CROSS = {"m_kv": 0.3, "m_vk": -0.4, "q_kv": 0.1}
SOFTMAX_OPTIONS = {"task": "spiked", "kernel": "exp(x)", "aligned": False}
TANH_OPTIONS = {"task": "spiked", "activation": "1 + tanh(x)", "aligned": False, "shifted": False}


@cache
def softmax_weights() -> dict[str, float]:
    return AT | observed(
        record_of("normalized_moments", **SOFTMAX_OPTIONS), AT, ("miss", "miss_square", "leak")
    )


@cache
def tanh_weights() -> dict[str, float]:
    names = ("A", "power", "leak", "residual")
    return AT | observed(record_of("elementwise_moments", **TANH_OPTIONS), AT, names)


def moment(task: slr.Spiked | slr.Max, activation: Any, index: int) -> Callable[[], float]:
    return lambda: slr.attention_moments(task, activation, **KEY)[index]


def risk(task: Any, activation: Any, excess: bool = False, **cross: float) -> Callable[[], float]:
    return lambda: slr.risk(task, activation, **KEY, **VALUE, **cross, excess=excess)


def reading(
    name: str, options: Any, point: Any, call: Any, needs: str, follows: Any = None, slow: bool = False
) -> Reading:
    """A reading of single-location regression; without ``follows`` the number is the one observable."""
    names = tuple(needs.split())
    first = names[0]
    where = point if callable(point) else lambda: point
    return Reading(
        f"single_location.{name}", options, where, call, follows or (lambda o: o[first]), names, slow
    )


def elementwise(name: str, options: Any, activation: Any, point: Any, weight: float) -> list[Reading]:
    """A, B and the risk from the moments of an elementwise activation.

    Where the hidden weight is all but constant, the residual at its inverse cancels and is an average of its own;
    against v* no term of it cancels, doubled or not.
    """
    opposed = {**KEY, "m_v": -0.7, "q_v": 0.9}
    m_v = 1 / weight
    small = {"m_k": 0.02, "q_k": 0.001, "m_v": m_v, "q_v": m_v**2}
    return [
        reading(name, options, point, moment(SPIKED, activation, 0), "A"),
        reading(name, options, point, moment(SPIKED, activation, 1), "power leak",
                lambda o: o["power"] + o["leak"]),
        reading(name, options, point | opposed, lambda: slr.risk(SPIKED, activation, **opposed, excess=True),
                "leak A power", lambda o: 1 - 2 * opposed["m_v"] * o["A"] + opposed["q_v"] * (o["power"] + o["leak"])),
        reading(name, options, point | small, lambda: slr.risk(SPIKED, activation, **small, excess=True),
                "residual leak", lambda o: o["residual"] + small["q_v"] * o["leak"]),
    ]  # fmt: skip


def optimum(task: Any, name: str) -> Callable[[], float]:
    return lambda: getattr(slr.optimal_risk(task, slr.Linear(), excess=True), name)


def best_erf_value() -> float:
    return slr.optimal_risk(slr.Spiked(4, 2), slr.Erf()).m_v


SPIKED_POINT = {"nu": 4.0, "L": 3}

READINGS: tuple[Reading, ...] = (
    reading("bayes_risk", {"task": "spiked"}, AT, lambda: slr.bayes_risk(SPIKED, excess=True),
            "bayes_excess"),
    reading("bayes_risk", {"task": "spiked"}, AT, lambda: slr.bayes_risk(SPIKED), "bayes_risk"),
    reading("risk", {"activation": "normalized"}, softmax_weights, moment(SPIKED, slr.Softmax(), 0), "A"),
    reading("risk", {"activation": "normalized"}, softmax_weights, moment(SPIKED, slr.Softmax(), 1), "B"),
    reading("risk", {"activation": "normalized"}, softmax_weights, risk(SPIKED, slr.Softmax()), "risk"),
    reading("risk", {"activation": "normalized"}, softmax_weights,
            risk(SPIKED, slr.Softmax(), excess=True), "excess"),
    reading("risk", {"activation": "elementwise"}, tanh_weights, moment(SPIKED, TANH, 1), "B"),
    reading("risk", {"activation": "elementwise"}, tanh_weights, risk(SPIKED, TANH), "risk"),
    reading("risk", {"activation": "elementwise"}, tanh_weights, risk(SPIKED, TANH, excess=True),
            "excess plain_residual",
            lambda o: o["excess"] + o["plain_residual"] - tanh_weights()["residual"]),
    Reading("single_location.risk", {"activation": "elementwise"}, dict, best_erf_value, None, ("best_m_v",)),
    reading("normalized_moments", SOFTMAX_OPTIONS, AT, moment(SPIKED, slr.Softmax(), 0), "miss",
            lambda o: 1 - o["miss"]),
    reading("normalized_moments", SOFTMAX_OPTIONS, AT, moment(SPIKED, slr.Softmax(), 1),
            "miss miss_square leak", lambda o: 1 - 2 * o["miss"] + o["miss_square"] + o["leak"]),
    *elementwise("elementwise_moments", TANH_OPTIONS, TANH, AT, 1.04),
    *elementwise("erf", {"task": "spiked"}, ERF, AT | {"shift": 0.3}, 1.345),
    *elementwise("linear", {"task": "spiked"}, slr.Linear(), AT, 1.04),
    *(
        reading("linear", {"task": "spiked"}, SPIKED_POINT | {"m_k": 0.0, "q_k": 0.0, "m_v": 0.0},
                optimum(SPIKED, name), observable)
        for name, observable in (("risk", "best_excess"), ("m_k", "best_m_k"), ("q_k", "best_q_k"),
                                 ("m_v", "best_m_v"))
    ),
    reading("hidden_field", {"task": "max_infinite"}, {"L": 3}, optimum(ARGMAX, "m_k"), "mu"),
    reading("hidden_field", {"task": "max"}, {"nu": 2.0, "L": 3}, optimum(MAX, "m_k"), "mu"),
    reading("best_elementwise", {"task": "spiked"}, SPIKED_POINT,
            lambda: slr.best_elementwise_risk(SPIKED, excess=True), "best_excess"),
    reading("best_elementwise", {"task": "max_infinite"}, {"L": 3, "L_other": 3},
            lambda: slr.best_elementwise_risk(ARGMAX), "overlap", lambda o: 1 - o["overlap"] / 3),
    reading("off_manifold",
            {"task": "spiked", "kind": "elementwise", "formula": "1 + x", "aligned": False, "shifted": False},
            AT | CROSS, risk(SPIKED, slr.Linear(), excess=True, **CROSS), "excess"),
    reading("off_manifold",
            {"task": "spiked", "kind": "normalized", "formula": "exp(x)", "aligned": False,
             "shifted": False},
            AT | CROSS, risk(SPIKED, slr.Softmax(), excess=True, **CROSS), "excess", slow=True),
    reading("off_manifold",
            {"task": "spiked", "kind": "normalized", "formula": "exp(x)", "aligned": False,
             "shifted": False},
            AT | CROSS | {"L": 1}, risk(SPIKED.replace(length=1), slr.Softmax(), excess=True, **CROSS),
            "single"),
)  # fmt: skip


# --------------------------------------------------------------------------- interpolation error

ATTENTION = ip.Attention("tanh(x) + 0.2*x**2", ratio=0.5, ridge=0.1, signal=1, aligned=0.7, label_mean=0.3)
_PAIRS = ("uu", "uv", "uw", "vv", "vw", "ww", "qq", "qv", "qk", "hh", "hk", "kk", "qh")
_TRACES = tuple(f"m_{pair}" for pair in _PAIRS)
_RATES = tuple(f"r_{pair}" for pair in _PAIRS)


def _solved(name: str, *needs: str) -> Reading:
    def call() -> float:
        found = ip.solve(ATTENTION)
        return found.blocks[name.replace("trace", "m")] if name.startswith("trace") else found.values[name]

    return Reading("interpolation.attention", {"centering": "entry"}, dict, call, None, (name, *needs))


def _linear() -> float:
    return ip.linear_regression_error(ratio=0.5, ridge=0.1, signal=1.0)


READINGS += (
    _solved("interpolation_error", *_TRACES, *_RATES),
    *(_solved(name) for name in ("quadratic_form", "degrees_of_freedom", "feature_energy", "bulk_error")),
    *(_solved(f"trace_{pair}") for pair in _PAIRS[:6]),
    Reading("interpolation.spectrum", {"centering": "entry"}, dict,
            lambda: float(ip.density(ATTENTION, [1.0]).density[0]), None, ("stieltjes", *_TRACES)),
    Reading("interpolation.spectrum", {"centering": "entry"}, dict,
            lambda: ip.outliers(ATTENTION)[-1], None, ("determinant",)),
    Reading("interpolation.linear_regression", {}, dict, _linear, None, ("interpolation_error", "m_uu", "r_uu")),
    Reading("interpolation.linear_regression", {}, dict,
            lambda: ip.compare(ATTENTION, 0.2).ridge_regression, None, ("degrees_of_freedom",)),
)  # fmt: skip
