"""Keys with a part orthogonal to k*: whether one has a smaller risk than the best key along k*.

That q_k = m_k**2 is optimal is observed for the activations of the paper, not proved. A few keys around the optimum
are probed on coarse grids; where one is better, the risk is followed down to its minimum over m_k and q_k.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from theorykit.errors import ConvergenceError
from theorykit.results import Estimate, Optimum
from theorykit.single_location.tasks import Spiked

if TYPE_CHECKING:
    from theorykit.single_location.moments import Grids
    from theorykit.single_location.optimum import Search

__all__ = ["follow", "off_truth"]

_PROBES = ((1.0, 0.1), (1.0, 0.5), (1.2, 0.3))  # (m_k over optimum, (q_k - m_k^2)/m_k^2)
_GAIN = 1e-4  # relative gain from which an orthogonal part counts: coarse grids are good to about 1e-5
_FINE = 1e-11
_PROBING = 1e-4  # accuracy of a probe on grids of its own
_FARTHEST = 50.0  # of the log of the squared orthogonal part


def off_truth(search: Search, m_k: float, excess: float, grids: Grids) -> Optimum | None:
    """The optimum at some q_k > m_k**2 if a probe there has a smaller risk than ``excess``, else None.

    Raises
    ------
    ConvergenceError
        A probe has a smaller risk, and the way down from it ends nowhere.
    """
    scale = abs(m_k) if m_k != 0 else 1.0
    for factor, share in _PROBES:
        m, rest = m_k * factor, share * scale * scale
        if _is_lower(search, m, m * m + rest, excess, grids):
            return follow(search, m, rest)
    return None


def follow(search: Search, m_k: float, rest: float) -> Optimum:
    """The minimum over m_k and the squared orthogonal part q_k - m_k**2, downhill from a key off k*."""
    from scipy.optimize import minimize

    from theorykit.single_location.plane import descend

    def quick(point: Any, grids: Grids) -> tuple[float, float]:
        m, q = _overlaps(point)
        search.evaluations += 1
        return search.general.quick_best(m, q, grids)

    def fine(point: Any) -> Grids:
        return search.general.grids(*_overlaps(point), search.accuracy(_FINE))

    def risk(point: Any) -> float:
        if abs(float(point[1])) > _FARTHEST:
            return 1.0 + abs(float(point[1]))
        return quick(point, coarse)[1]

    start = (m_k, math.log(rest))
    coarse = search.general.grids(*_overlaps(start), 1e-6)
    options = {"xatol": 1e-3, "fatol": 1e-10, "maxiter": 200}
    near = minimize(risk, start, method="Nelder-Mead", options=options)
    best = descend(quick, fine, near.x)
    m, q = _overlaps(best.point)
    if not best.settled:
        raise ConvergenceError(
            f"a key with a part orthogonal to k* has a smaller risk than all along k* for {search.activation!r} and "
            f"{search.task!r}, but the search did not settle: m_k = {m:.6g}, q_k = {q:.6g}; scan risk(...) there",
            last=(m, q),
            residual=max(best.errors),
            steps=search.evaluations,
            start="orthogonal",
        )
    m_v, value = search.general.best_value(m, q, best.grids)
    from theorykit.single_location.optimum import squared

    m_v = Estimate(float(m_v), m_v.error + best.value_error)
    return Optimum(
        Estimate(float(value), value.error + best.rise),
        Estimate(m, best.errors[0]),
        Estimate(q, 2 * abs(m) * best.errors[0] + (q - m * m) * best.errors[1]),
        m_v,
        squared(m_v),
        shift=search.shift,
        evaluations=search.evaluations,
    )


def _overlaps(point: Any) -> tuple[float, float]:
    """(m_k, q_k) of m_k and the log of the squared orthogonal part."""
    m = float(point[0])
    return m, m * m + math.exp(max(-_FARTHEST, min(_FARTHEST, float(point[1]))))


def _is_lower(search: Search, m_k: float, q_k: float, excess: float, grids: Grids) -> bool:
    """Whether a key off k* has a smaller risk: on coarse grids, and then on good ones."""
    bound = excess * (1 - _GAIN) - 1e-12
    search.evaluations += 1
    if search.general.quick_excess(m_k, q_k, _general_grids(search, m_k, q_k, grids)) >= bound:
        return False
    search.evaluations += 1
    return float(search.general.best_value(m_k, q_k)[1]) < bound


def _general_grids(search: Search, m_k: float, q_k: float, grids: Grids) -> Grids:
    """Coarse grids for keys off k*: with a few nodes for the orthogonal field, where it is a variable of its own."""
    if isinstance(search.task, Spiked):
        return grids
    if search.general.has_strong_signal:  # other variables than along k*
        return search.general.grids(m_k, q_k, _PROBING)
    from theorykit.numerics.grids import Interval

    orthogonal = Interval(-7.0, 7.0, 3.5)
    return {length: {**intervals, "eta": orthogonal} for length, intervals in grids.items()}
