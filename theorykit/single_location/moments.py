"""Moments of attention weights at given overlaps, averaged over the law of the length."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from theorykit.errors import ConvergenceError
from theorykit.results import Estimate
from theorykit.single_location.activations import Activation, Erf
from theorykit.single_location.near_truth import NEAR, interpolated
from theorykit.single_location.programs import (
    STEEP,
    STRONG,
    moments_program,
    observed,
    propagate,
    risk_program,
)
from theorykit.single_location.tasks import Max, Spiked, Task

if TYPE_CHECKING:
    from theorykit.codegen.program import Program
    from theorykit.numerics.grids import Interval
    from theorykit.numerics.quadrature import Known, Options

    Grids = Mapping[int, Mapping[str, Interval]]

__all__ = ["KeyMoments", "mix", "underflowing"]


# squared weights below this are no weights: v = 0, of excess risk 1, is as good, and A/B would overflow
_NO_WEIGHT = 1e-200
# bound of an integral whose integrand, smooth over the nodes of a coarse grid, underflows
_UNDERFLOW = 1e-290
# of integrals in three variables, which at full accuracy may need grids beyond the limit and be refused; where that is
# reached (nu = 20, L = 3, m_k = 1.2) both agree within the errors stated (tested), less than the 1e-10 promised
_STRONG_ACCURACY = 1e-11
# nu up to which the fields may be integrated over as they are, whatever the key
_MODERATE, _MODERATE_KINKED = 30.0, 20.0
_FRONT = 8.0  # panels of a field, over the size of a long key
_LONG_ACCURACY, _SEARCHING = 1e-9, 1e-5  # of integrals with a long key; where they are only searched
_PANEL = 4.0  # first panels of a score, in widths of the field that is left
_CANCELS = 0.05  # share of a residual in the sizes of its terms from which their rounding matters
# noisy fields y of more than about 3 beyond the largest count by exp(-3 nu), which is then below rounding
_LONG = 12.0
_COMPARABLE = 0.07  # m_k/nu or nu/m_k from which on one of the weights serves as the variable of both
_REACHED = 40.0  # m_k up to which it does at any smaller nu: all weights of fields are numbers of normal size
_ROUNDED = 2.0**-57  # rounding of a number close to 1, averaged over nodes; 1e-18 was met
_NO_VALUE = {"m_v": 0.0, "q_v": 0.0, "noise": 0.0}
_NORMALIZED = ("miss", "miss_square", "leak")


def _strong_options() -> Options:
    from theorykit.numerics.quadrature import Options

    return Options(rtol=_STRONG_ACCURACY)


def underflowing(options: Options | None = None) -> Options:
    """Options for smooth integrands that may be smaller than the smallest numbers: their integrals are then 0."""
    from theorykit.numerics.quadrature import Options

    return replace(options or Options(), negligible=_UNDERFLOW)


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
        self._programs: dict[bool, Program] = {}

    def at_shift(self, shift: float) -> KeyMoments:
        """Those of erf attention with another shift: an argument of the same programs."""
        other = copy(self)
        other.activation = Erf(shift)
        return other

    def _program(self, with_value: bool) -> Program:
        if with_value not in self._programs:
            found = moments_program(
                self.task, self.activation, self.aligned, with_value, self.has_strong_signal
            )
            self._programs[with_value] = found
        return self._programs[with_value]

    @property
    def _is_softmax(self) -> bool:
        return self.is_normalized and self.activation.formula.text == "exp(x)"

    @property
    def _is_drawn(self) -> bool:
        """Whether the location is drawn from probabilities of the fields: the max task at finite nu."""
        return isinstance(self.task, Max) and self.task.nu < math.inf

    @property
    def has_strong_signal(self) -> bool:
        """Whether the location is all but the largest field, and integrated over as such."""
        if not self._is_drawn:
            return False
        if not self.aligned:
            return self.task.nu > STEEP
        return self.task.nu > STRONG and not self.activation.formula.kinks()  # noise would move the kinks

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
            return dict.fromkeys(_NORMALIZED, Estimate(0.0, 0.0))
        if self._is_silent(q_k):
            return {n: Estimate(float(n == "residual"), 0.0) for n in ("A", "power", "leak", "residual")}
        if q_k == 0 and intervals is None and self._is_drawn and self.task.nu > STRONG:
            # without a key all tokens weigh the same, wherever the location is
            weak = KeyMoments(self.task.replace(nu=1.0), self.activation, self.aligned, self.options)
            return weak._at_length(length, m_k, q_k, m_v, None)
        point = self._point(length, m_k, q_k, m_v)
        if intervals is None and self._is_steep(q_k):
            return self._at_steep(point)
        if intervals is None and self._is_joint(m_k):
            return self._at_joint(point)
        if intervals is None and self._is_almost_ranked(m_k, q_k):
            return self._almost_ranked(length, m_k, q_k, m_v)
        compiled, options = self._program(m_v is not None), self.options
        if self.has_strong_signal and not self.aligned and intervals is None:
            intervals = self._resolved(compiled, point)
        if options is None and self.has_strong_signal and self.is_normalized:
            options = _strong_options()
        if intervals is None and isinstance(self.task, Spiked) and self.activation.formula.text == "exp(x)":
            options = underflowing(options)
        return compiled.values(point, options, intervals)

    def _resolved(self, compiled: Program, point: Mapping[str, float]) -> dict[str, Interval]:
        """Grids for a key off k* at a strong signal: panels of the score as narrow as what the score leaves open."""
        from theorykit.numerics.quadrature import locate

        found = locate(compiled, compiled.vector(point))
        width = math.sqrt(1 - point["m_k"] ** 2 / point["q_k"])
        return {**found, "x": replace(found["x"], step=min(found["x"].step, _PANEL * width))}

    def _for_long_key(
        self, intervals: Mapping[str, Interval], key: float, rtol: float
    ) -> tuple[dict[str, Interval], float]:
        """Grids and accuracy at a strong signal: fronts of the weights of a long key lie anywhere in the fields."""
        panel = (_FRONT if rtol < _SEARCHING else 2 * _FRONT) / max(key, _FRONT)
        found = {
            v: i if v.startswith("log_") else replace(i, step=min(i.step, panel))
            for v, i in intervals.items()
        }
        return found, max(rtol, _LONG_ACCURACY) if panel < 1 else rtol

    def _is_almost_ranked(self, m_k: float, q_k: float) -> bool:
        """Whether the location is almost that of the largest score, but integrals over the noise are out of reach."""
        if not self._is_drawn:
            return False
        if self.aligned:
            return self.task.nu > _MODERATE_KINKED and bool(self.activation.formula.kinks()) and m_k != 0
        return self.has_strong_signal and q_k - m_k * m_k < NEAR * q_k

    def _almost_ranked(self, length: int, m_k: float, q_k: float, m_v: float | None) -> dict[str, Estimate]:
        """Moments at a strong signal for a key with little or nothing orthogonal to k*."""
        if not self.aligned and self.task.nu <= _MODERATE:
            plain = moments_program(self.task, self.activation, False, m_v is not None)
            return plain.values(self._point(length, m_k, q_k, m_v))
        along, across = (KeyMoments(self.task, self.activation, a, self.options) for a in (True, False))

        def at(q: float) -> dict[str, Estimate]:
            moments = along if q == m_k * m_k else across
            return moments._at_length(length, m_k, q, m_v, None)

        return interpolated(at, m_k, q_k, along.has_strong_signal)

    def _is_steep(self, q_k: float) -> bool:
        return self._is_softmax and isinstance(self.task, Spiked) and q_k > STEEP**2

    def _at_steep(self, point: Mapping[str, float]) -> dict[str, Estimate]:
        """Moments of softmax weights for a long key; wrong tokens that weigh less than the smallest numbers weigh 0."""
        compiled = moments_program(self.task, self.activation, self.aligned, steep=True)
        return compiled.values(point, underflowing(self.options))

    def _is_joint(self, m_k: float) -> bool:
        """Whether the location probabilities and the weights are steep in the same field."""
        if not (self._is_softmax and self.aligned and self._is_drawn):
            return False
        less, more = sorted((self.task.nu, m_k))
        return more > _LONG and (less > _COMPARABLE * more or self.task.nu < m_k <= _REACHED)

    def _at_joint(self, point: Mapping[str, float]) -> dict[str, Estimate]:
        """Moments of softmax weights along k*, with the steeper one of the weights as the variable."""
        first = "location" if point["m_k"] <= point["nu"] else "attention"
        compiled = moments_program(self.task, self.activation, True, steep=True, joint=first)
        found = compiled.values(point, self.options)
        # averages of one token are rounded close to 1 and raised to the power L: a relative error that grows with L
        return {n: Estimate(float(v), v.error + _ROUNDED * point["L"] * float(v)) for n, v in found.items()}

    def risk_at(self, m_k: float, q_k: float, m_v: float, q_v: float, noise: float) -> dict[str, Estimate]:
        """ "excess" and "risk" at the overlaps."""
        moments = self.at(m_k, q_k)
        if not self.is_normalized:
            moments = self._with_residual(moments, m_k, q_k, m_v, None)
        inputs = {**moments, "m_v": m_v, "q_v": q_v, "noise": noise}
        return propagate(self.risk, inputs, ("excess", "risk"))

    def _with_residual(
        self, moments: dict[str, Estimate], m_k: float, q_k: float, m_v: float, grids: Grids | None
    ) -> dict[str, Estimate]:
        """Moments with E(1 - m_v sigma)^2: from the others, or an average of its own where that would cancel."""
        inputs = {**moments, **_NO_VALUE, "m_v": m_v, "residual": 0.0}
        plain = propagate(self.risk, inputs, ("plain_residual",))["plain_residual"]
        if plain > _CANCELS * (1 + m_v * m_v * float(moments["power"])):
            return {**moments, "residual": plain}
        return self.at(m_k, q_k, m_v, grids)

    def best_value(self, m_k: float, q_k: float, grids: Grids | None = None) -> tuple[Estimate, Estimate]:
        """(m_v, excess risk) at the best v for this key. No weight at all: v is irrelevant, risk 1."""
        return self.best_of(self.at(m_k, q_k, grids=grids), m_k, q_k, grids)

    def best_of(
        self, moments: dict[str, Estimate], m_k: float, q_k: float, grids: Grids | None = None
    ) -> tuple[Estimate, Estimate]:
        """(m_v, excess risk) at the best v, from the moments at this key."""
        if self._is_weightless(moments):
            return Estimate(0.0, 0.0), Estimate(1.0, 0.0)
        unused = {} if self.is_normalized else {"residual": 0.0}
        m_v = propagate(self.risk, {**moments, **_NO_VALUE, **unused}, ("best_m_v",))["best_m_v"]
        # the risk at this v: an error of m_v counts to second order only
        value = float(m_v)
        if not self.is_normalized:
            moments = self._with_residual(moments, m_k, q_k, value, grids)
        inputs = {**moments, "m_v": value, "q_v": value * value, "noise": 0.0}
        return m_v, propagate(self.risk, inputs, ("excess",))["excess"]

    def _is_weightless(self, moments: Mapping[str, float]) -> bool:
        return not self.is_normalized and not moments["power"] + moments["leak"] > _NO_WEIGHT

    # ---------------------------------------------------------------- for searches: fast, without errors

    def grids(
        self, m_k: float, q_k: float, rtol: float, near: Grids | None = None, steps: Grids | None = None
    ) -> Grids:
        """Grids that are good to ``rtol`` at these overlaps (of a unit key, without weights).

        They are looked for around those at ``near`` by overlaps, if there are some, no coarser than ``steps``.
        """
        if self._is_silent(q_k):
            m_k, q_k = 1.0, 1.0
        return self.measured(m_k, q_k, rtol, near=near, steps=steps)[0]

    def measured(
        self,
        m_k: float,
        q_k: float,
        rtol: float,
        start: Grids | None = None,
        steps: Grids | None = None,
        near: Grids | None = None,
    ) -> tuple[Grids, dict[str, Estimate]]:
        """Grids that are good to ``rtol`` at these overlaps, the same ones for all lengths, and the moments.

        Lengths share the tables that do not depend on them. ``start`` are grids that hold the integrals,
        ``steps`` some that are not too fine, ``near`` those at similar overlaps.
        """
        from theorykit.numerics.grids import hull

        compiled = self._program(False)
        lengths = [n for n, _ in self.task.lengths if not (n == 1 and self.is_normalized)]
        if not lengths:
            return {}, self.at(m_k, q_k)
        points = {n: self._point(n, m_k, q_k, None) for n in lengths}
        places = near or {}
        shared = hull(
            [start[n] if start else compiled.located(points[n], rtol, places.get(n)) for n in lengths]
        )
        if start is None and self.has_strong_signal and self.is_normalized and self.aligned:
            shared, rtol = self._for_long_key(shared, abs(m_k), rtol)
        if steps:
            finest = hull([steps[n] for n in lengths])
            shared = {v: replace(i, step=min(i.step, finest[v].step)) for v, i in shared.items()}
        known: Known | None = {} if len(lengths) > 1 else None
        found: dict[int, dict[str, Estimate]] = {}
        for n in lengths:
            shared, found[n] = compiled.measured(points[n], rtol, shared, known)
        none = dict.fromkeys(_NORMALIZED, Estimate(0.0, 0.0))
        moments = mix([(p, found.get(n, none)) for n, p in self.task.lengths])
        return dict.fromkeys(lengths, shared), moments

    def quick(self, m_k: float, q_k: float, grids: Grids, m_v: float | None = None) -> dict[str, float]:
        """Moments on given grids."""
        total: dict[str, float] = {}
        for length, p in self.task.lengths:
            if length in grids:
                compiled = self._program(m_v is not None)
                found = compiled.quick(self._point(length, m_k, q_k, m_v), grids[length])
            else:
                found = dict.fromkeys(_NORMALIZED, 0.0)
            for name, value in found.items():
                total[name] = total.get(name, 0.0) + p * value
        return total

    def quick_excess(self, m_k: float, q_k: float, grids: Grids) -> float:
        """Excess risk at the best v, on given grids."""
        return self.quick_best(m_k, q_k, grids)[1]

    def quick_best(self, m_k: float, q_k: float, grids: Grids) -> tuple[float, float]:
        """(best m_v, excess risk there) on given grids."""
        moments = self.quick(m_k, q_k, grids)
        if self._is_weightless(moments):
            return 0.0, 1.0
        unused = {} if self.is_normalized else {"residual": 0.0}
        found = observed(self.risk, {**moments, **_NO_VALUE, **unused})
        m_v = found["best_m_v"]
        if not self.is_normalized:
            if found["best_excess"] > _CANCELS:
                return m_v, found["best_excess"]
            moments = self.quick(m_k, q_k, grids, m_v)
        # of all forms, this one has the least rounding, also where normalized weights are all but uniform
        inputs = {**moments, "m_v": m_v, "q_v": m_v * m_v, "noise": 0.0}
        excess = observed(self.risk, inputs)["excess"]
        if not math.isfinite(excess):
            raise ConvergenceError(
                f"the risk of {self.activation!r} for {self.task!r} at m_k = {m_k:.6g} is {excess}",
                last=(m_k, q_k, m_v),
                residual=math.inf,
                steps=0,
                start="quadrature",
            )
        return m_v, excess
