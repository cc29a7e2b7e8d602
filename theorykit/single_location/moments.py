"""Moments of attention weights at given overlaps, averaged over the law of the length."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from theorykit.results import Estimate
from theorykit.single_location.activations import Activation, Erf
from theorykit.single_location.programs import moments_program, propagate, risk_program
from theorykit.single_location.tasks import Task

if TYPE_CHECKING:
    from theorykit.codegen.program import Program
    from theorykit.numerics.grids import Interval
    from theorykit.numerics.quadrature import Options

    Grids = Mapping[int, Mapping[str, Interval]]

__all__ = ["KeyMoments", "mix"]


# squared weights below this are no weights: v = 0, of excess risk 1, is as good, and A/B would overflow
_NO_WEIGHT = 1e-200


def mix(parts: list[tuple[float, Mapping[str, Estimate]]]) -> dict[str, Estimate]:
    """Average over the length: values and error bounds with the probabilities of the lengths."""
    names = parts[0][1].keys()
    return {
        name: Estimate(
            math.fsum(p * float(values[name]) for p, values in parts),
            math.fsum(p * values[name].error for p, values in parts),
        )
        for name in names
    }


class KeyMoments:
    """Moments of the weights of one task and activation, as functions of the key overlaps.

    Parameters
    ----------
    task : Spiked or Max
    activation : Activation
        An :class:`Erf` needs a shift.
    aligned : bool
        Whether q_k = m_k**2 in every call.
    options : Options, optional
        Accuracy of the quadrature.
    """

    def __init__(
        self, task: Task, activation: Activation, aligned: bool, options: Options | None = None
    ) -> None:
        self.options = options
        self.task, self.activation, self.aligned = task, activation, aligned
        self.is_normalized = activation.kind == "normalized"
        self.risk = risk_program(activation)

    def _program(self, with_value: bool) -> Program:
        return moments_program(self.task, self.activation, self.aligned, with_value)

    def _point(self, length: int, m_k: float, q_k: float, m_v: float | None) -> dict[str, float]:
        values = {"nu": self.task.nu, "L": float(length), "m_k": m_k, "q_k": q_k}
        if m_v is not None:
            values["m_v"] = m_v
        if isinstance(self.activation, Erf):
            values["shift"] = float(self.activation.shift or 0.0)
        return values

    def _is_silent(self, q_k: float) -> bool:
        """Whether all weights are 0: the scores are, and the activation vanishes there."""
        if q_k != 0 or self.is_normalized or isinstance(self.activation, Erf):
            return False
        return float(self.activation.formula.evaluate([0.0])[0]) == 0

    def at(
        self, m_k: float, q_k: float, m_v: float | None = None, grids: Grids | None = None
    ) -> dict[str, Estimate]:
        """Moments with errors; with ``m_v`` also the residual of an elementwise activation.

        ``grids`` are where the quadrature starts, if something is known of them.
        """
        known = grids or {}
        return mix(
            [
                (p, self._at_length(length, m_k, q_k, m_v, known.get(length)))
                for length, p in self.task.lengths
            ]
        )

    def _at_length(
        self, length: int, m_k: float, q_k: float, m_v: float | None, intervals: Mapping[str, Interval] | None
    ) -> dict[str, Estimate]:
        if length == 1 and self.is_normalized:
            return {n: Estimate(0.0, 0.0) for n in ("miss", "miss_square", "leak")}
        if self._is_silent(q_k):
            return {n: Estimate(float(n == "residual"), 0.0) for n in ("A", "power", "leak", "residual")}
        point = self._point(length, m_k, q_k, m_v)
        return self._program(m_v is not None).values(point, self.options, intervals)

    def risk_at(self, m_k: float, q_k: float, m_v: float, q_v: float, noise: float) -> dict[str, Estimate]:
        """ "excess" and "risk" at the overlaps."""
        moments = self.at(m_k, q_k, None if self.is_normalized else m_v)
        inputs = {**moments, "m_v": m_v, "q_v": q_v, "noise": noise}
        return propagate(self.risk, inputs, ("excess", "risk"))

    def best_value(self, m_k: float, q_k: float, grids: Grids | None = None) -> tuple[Estimate, Estimate]:
        """(m_v, excess risk) at the best v for this key. No weight at all: v is irrelevant, risk 1."""
        moments = self.at(m_k, q_k, grids=grids)
        if not self.is_normalized and not moments["power"] + moments["leak"] > _NO_WEIGHT:
            return Estimate(0.0, 0.0), Estimate(1.0, 0.0)
        fixed = {"m_v": 0.0, "q_v": 0.0, "noise": 0.0}
        if not self.is_normalized:
            fixed["residual"] = 0.0
        m_v = propagate(self.risk, {**moments, **fixed}, ("best_m_v",))["best_m_v"]
        # the risk at this v: an error of m_v counts to second order only
        value = float(m_v)
        if not self.is_normalized:
            moments = self.at(m_k, q_k, value)
        inputs = {**moments, "m_v": value, "q_v": value * value, "noise": 0.0}
        return m_v, propagate(self.risk, inputs, ("excess",))["excess"]

    # ---------------------------------------------------------------- for searches: fast, without errors

    def grids(self, m_k: float, q_k: float, rtol: float) -> dict[int, dict[str, Interval]]:
        """Grids of each length that are good to ``rtol`` at these overlaps (of a unit key, without weights)."""
        if self._is_silent(q_k):
            m_k, q_k = 1.0, 1.0
        compiled = self._program(False)
        return {
            length: compiled.grids_for(self._point(length, m_k, q_k, None), rtol)
            for length, _ in self.task.lengths
            if not (length == 1 and self.is_normalized)
        }

    def quick_excess(self, m_k: float, q_k: float, grids: Grids) -> float:
        """Excess risk at the best v, on given grids."""
        return self._quick(m_k, q_k, grids)[1]

    def quick_value(self, m_k: float, q_k: float, grids: Grids) -> float:
        """The best m_v, on given grids."""
        return self._quick(m_k, q_k, grids)[0]

    def _quick(self, m_k: float, q_k: float, grids: Grids) -> tuple[float, float]:
        total: dict[str, float] = {}
        for length, p in self.task.lengths:
            if length in grids:
                found = self._program(False).quick(self._point(length, m_k, q_k, None), grids[length])
            else:
                found = dict.fromkeys(("miss", "miss_square", "leak"), 0.0)
            for name, value in found.items():
                total[name] = total.get(name, 0.0) + p * value
        return self._best_of(total)

    def _best_of(self, moments: dict[str, float]) -> tuple[float, float]:
        """(best m_v, excess risk there) from moments without errors."""
        fixed = {"m_v": 0.0, "q_v": 0.0, "noise": 0.0}
        if not self.is_normalized:
            if not moments["power"] + moments["leak"] > _NO_WEIGHT:
                return 0.0, 1.0
            fixed["residual"] = 0.0
        m_v = float(propagate(self.risk, {**moments, **fixed}, ("best_m_v",))["best_m_v"])
        fixed |= {"m_v": m_v, "q_v": m_v * m_v}
        if not self.is_normalized:
            # E(1 - m_v sigma)^2 from the moments: exact enough to find the minimum, not to report it
            fixed["residual"] = 1 - 2 * m_v * moments["A"] + m_v * m_v * moments["power"]
        return m_v, float(propagate(self.risk, {**moments, **fixed}, ("excess",))["excess"])
