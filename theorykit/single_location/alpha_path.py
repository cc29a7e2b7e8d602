"""Solutions of the replica equations along the sample ratio: the nodes are kept, the next solution is foreseen.

Every sample (scrambling) follows its own fixed point, whose sampling error is nearly the same at neighbouring ratios;
a line in log alpha through the last two of them is where its next iteration starts. The minimizers stay at the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from theorykit.single_location.erm_iteration import to_coordinates, to_overlaps
from theorykit.single_location.erm_sample import Sample

__all__ = ["AlphaPath"]

_FARTHEST = 0.5  # of a coordinate from one point to the start of the next


class AlphaPath:
    """What is known of problems that differ in alpha only; empty at first."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._known: list[tuple[float, np.ndarray]] = []

    def add(self, alpha: float, overlaps: Sequence[Mapping[str, float]]) -> None:
        """A solution: order parameters of every sample."""
        point = np.array([to_coordinates(o) for o in overlaps])
        self._known = [*self._known[-1:], (math.log(alpha), point)]

    def starts(self, alpha: float) -> list[dict[str, float]] | None:
        """Order parameters near the solution at alpha, for every sample; None at the first point of a path."""
        if not self._known:
            return None
        at, point = self._known[-1]
        step = np.zeros_like(point)
        if len(self._known) == 2 and at != self._known[0][0]:
            before, earlier = self._known[0]
            step = (point - earlier) / (at - before) * (math.log(alpha) - at)
        return [to_overlaps(u) for u in point + np.clip(step, -_FARTHEST, _FARTHEST)]
