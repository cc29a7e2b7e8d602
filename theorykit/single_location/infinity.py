"""Infimum of the risk where it falls as the key grows: its limit, and the v that goes with it.

Softplus weights tend to rectified ones, max(x, 0), wherever a token is positive; where that is certain enough, their
moments are the limit. Elsewhere the risk is extrapolated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from theorykit.errors import ConvergenceError
from theorykit.results import Estimate, Optimum, Status
from theorykit.single_location.activations import Softplus, _Named
from theorykit.single_location.minimum import extrapolated
from theorykit.single_location.moments import KeyMoments
from theorykit.single_location.optimum import SEARCH, squared
from theorykit.single_location.programs import task_name
from theorykit.single_location.scan import union

if TYPE_CHECKING:
    from theorykit.single_location.optimum import Search

__all__ = ["extrapolated_limit", "largest_token", "limit_at_infinity"]

# keys over that up to which the risk was seen to fall, extrapolated to infinity in powers of 1/m_k; the risk there
# is what the polynomial must foretell
_KEYS = (1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4)
_ACCURACY = 1e-7
_KINKED, _SMOOTH = 1e-6, 1e-12  # accuracy of rectified moments below the largest token, and elsewhere
_MANY = 64  # tokens of which one is positive but for a probability below rounding, 2**(1 - L)
_SPREAD = 20.0  # at most so many times the errors of the risks are seen in the limit, beyond what their spread shows


def limit_at_infinity(search: Search, end: float, risk: float) -> Optimum:
    """Limit of the risk and of the best m_v for keys beyond ``end``, where the risk is roughly known."""
    if isinstance(search.activation, Softplus) and _is_some_token_positive(search, end):
        m_v, value = _rectified(search, end)
        if value <= risk + value.error + 10 * search.accuracy(SEARCH) * risk:
            return _at_infinity(search, value, m_v, math.copysign(1.0, end))
    return extrapolated_limit(search, end, risk)


@dataclass(frozen=True, repr=False)
class _Rectified(_Named):
    """The limit of the weights log(1 + exp(m x)) as m grows. Those of wrong tokens are 0 where all tokens are negative,
    which is right where the largest of them is never wrong."""

    kind = "normalized"
    name = "rectified"
    _text = "relu(x)"


def _is_some_token_positive(search: Search, end: float) -> bool:
    """Whether rectified weights are the limit, but for events less likely than rounding."""
    if task_name(search.task) == "max_infinite" and end > 0:
        return True
    return all(length >= _MANY for length, _ in search.task.lengths if length > 1)


def _rectified(search: Search, end: float) -> tuple[Estimate, Estimate]:
    """(m_v, risk) at the best v for rectified weights: the size of the key does not matter. By bounded convergence."""
    rtol = _SMOOTH if task_name(search.task) == "spiked" else _KINKED
    search.evaluations += 1
    moments = KeyMoments(search.task, _Rectified(), aligned=True)
    key = math.copysign(1.0, end)
    return moments.best_of(moments.measured(key, 1.0, search.accuracy(rtol))[1], key, 1.0)


def extrapolated_limit(search: Search, end: float, risk: float) -> Optimum:
    """Risk and m_v extrapolated in powers of 1/m_k, from keys up to ``end``, where the risk is roughly known."""
    keys = [m * end for m in _KEYS]
    inverse = [1 / abs(m) for m in keys]
    m_v, risks = _values_at(search, keys)
    best = risks.index(min(risks))
    depth = min(risks[0], risks[-1]) - risks[best]
    if 0 < best < len(keys) - 1 and depth > _SPREAD * search.accuracy(
        _ACCURACY
    ):  # a shallow minimum after all
        low, high = sorted((keys[best - 1], keys[best + 1]))
        grids = union(*map(search.search_grids, (low, high)))
        return search.described(search.between(low, high, grids), grids)
    value, error = extrapolated(inverse, risks)
    error += _SPREAD * search.accuracy(_ACCURACY) * max(risks)
    gap = abs(extrapolated(inverse, risks, 1 / abs(end))[0] - risk)
    error += 2 * gap if gap > error + 10 * SEARCH * risk else 0.0
    floor = _bayes(search)
    if abs(value - floor) <= error or value < floor:
        error, value = error + abs(value - floor), floor  # no estimator is better than Bayes
    if not error <= 1e-2 * max(abs(value), 1e-3):
        raise ConvergenceError(
            f"the risk of {search.activation!r} for {search.task!r} falls up to m_k = {end:g} and does not "
            f"extrapolate: {value:.6g} +- {error:.1g}",
            last=risks,
            residual=error,
            steps=search.evaluations,
            start="limit",
        )
    best_v = Estimate(*extrapolated(inverse, m_v))
    return _at_infinity(search, Estimate(value, error), best_v, math.copysign(1.0, end))


def largest_token(search: Search) -> Optimum:
    """Softmax attention where the hidden token is the largest: at a long key it is the argmax, which is Bayes."""
    return _at_infinity(search, Estimate(_bayes(search), 0.0), Estimate(1.0, 0.0), 1.0)


def _values_at(search: Search, keys: list[float]) -> tuple[list[float], list[float]]:
    """The best m_v and the risk at keys of growing size, each on grids at least as fine as the one before."""
    values, risks, grids = [], [], None
    rtol = search.accuracy(_ACCURACY)
    for m_k in keys:
        search.evaluations += 1
        grids, moments = search.aligned.measured(m_k, m_k * m_k, rtol, steps=grids)
        m_v, risk = search.aligned.best_of(moments, m_k, m_k * m_k)
        values.append(float(m_v))
        risks.append(float(risk))
    return values, risks


def _at_infinity(search: Search, risk: Estimate, m_v: Estimate, sign: float) -> Optimum:
    return Optimum(
        risk,
        sign * math.inf,
        math.inf,
        m_v,
        squared(m_v),
        shift=search.shift,
        attained=False,
        status=Status.LIMIT,
        evaluations=search.evaluations,
    )


def _bayes(search: Search) -> float:
    from theorykit.single_location.population import bayes_risk

    return float(bayes_risk(search.task, excess=True))
