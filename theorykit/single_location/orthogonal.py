"""Keys with a part orthogonal to k*: whether one has a smaller risk than the best key along k*.

That q_k = m_k**2 is optimal is observed for the activations of the paper, not proved. A few keys around the optimum
are probed on coarse grids; where one is better, the risk is followed downwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from theorykit.errors import ConvergenceError
from theorykit.results import Optimum
from theorykit.single_location.tasks import Spiked

if TYPE_CHECKING:
    from theorykit.single_location.moments import Grids
    from theorykit.single_location.optimum import Search

__all__ = ["off_truth"]

_PROBES = ((1.0, 0.1), (1.0, 0.5), (1.2, 0.3))  # (m_k over optimum, (q_k - m_k^2)/m_k^2)
_GAIN = 1e-4  # relative gain from which an orthogonal part counts: coarse grids are good to about 1e-5


def off_truth(search: Search, m_k: float, excess: float, grids: Grids) -> Optimum | None:
    """The optimum at some q_k > m_k**2 if a probe there has a smaller risk than ``excess``, else None."""
    scale = abs(m_k) if m_k != 0 else 1.0
    for factor, share in _PROBES:
        m = m_k * factor
        q = m * m + share * scale * scale
        if _is_lower(search, m, q, excess, grids):
            raise ConvergenceError(
                f"a key with a part orthogonal to k* has a smaller risk than {excess:.8g} at q_k = m_k^2: "
                f"m_k = {m:.6g}, q_k = {q:.6g}; the search along k* is not enough for "
                f"{search.activation!r} and {search.task!r}: scan risk(...) over m_k and q_k",
                last=(m, q),
                residual=excess,
                steps=search.evaluations,
                start="aligned",
            )
    return None


def _is_lower(search: Search, m_k: float, q_k: float, excess: float, grids: Grids) -> bool:
    """Whether a key off k* has a smaller risk: on coarse grids, and then on good ones."""
    bound = excess * (1 - _GAIN) - 1e-12
    search.evaluations += 1
    if search.general.quick_excess(m_k, q_k, _general_grids(search, grids)) >= bound:
        return False
    search.evaluations += 1
    return float(search.general.best_value(m_k, q_k)[1]) < bound


def _general_grids(search: Search, grids: Grids) -> Grids:
    """Coarse grids for keys off k*: with a few nodes for the orthogonal field, where it is a variable of its own."""
    if isinstance(search.task, Spiked):
        return grids
    from theorykit.numerics.grids import Interval

    orthogonal = Interval(-7.0, 7.0, 3.5)
    return {length: {**intervals, "eta": orthogonal} for length, intervals in grids.items()}
