"""Search for the overlaps of smallest population risk.

Everything about v is closed, so the search is over the key: m_k (and a free shift) for k along k*, then a test
whether a part of k orthogonal to k* helps. Stages: scan -> local minimum or limit at infinity -> polish -> test of
q_k > m_k**2 -> value with error. Grids of the quadrature are fixed within a stage, so that the risk is smooth there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from theorykit.errors import ConvergenceError
from theorykit.results import Estimate, Optimum
from theorykit.single_location.activations import Activation, Erf, Linear, Softmax
from theorykit.single_location.minimum import Vertex, quartic_vertex
from theorykit.single_location.moments import KeyMoments
from theorykit.single_location.population import bayes_risk
from theorykit.single_location.programs import STEEP, program, propagate, task_name
from theorykit.single_location.scan import FLAT, scan
from theorykit.single_location.tasks import Spiked, Task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from theorykit.single_location.moments import Grids

__all__ = ["NOISE", "SEARCH", "Search", "find_optimum", "squared"]

SEARCH, _FINAL = 1e-4, 1e-12  # accuracy of the grids of the search, and of the polynomial and the value
# times the errors of the moments where the grids were made: they are those at the minimum, close by
_MOVED = 2.0
_SMALL_GAIN = 0.02  # below it, coarse grids do not tell one key from another
_FINEST = 1e-14  # no grid is asked to be better
_SEARCH_TOLERANCE = 3e-4  # in log m_k; the polynomial does the rest
_POLISH = 3e-3  # relative step of the final polynomial
_POLISH_ROUNDS = 8
_STEEP = 1e-4  # largest curvature of the risk over one step of the polynomial, relative to its scale
# Softmax attention with the key of the posterior is the Bayes estimator, so the search only confirms what is known.
# It is run where it takes seconds; both ways agree within their errors on either side of these keys (tested), and
# beyond them the search gets slow (spiked: 10 s at 30; max: minutes at 25) and then fails (spiked: at 45, where the
# moments of keys near the best one underflow).
_LONGEST = {"spiked": 20.0, "max": 8.0, "max_infinite": math.inf}
NOISE = 4e-15  # rounding of a risk, relative
_OSCILLATION = 2000.0  # of the errors of the grids, in radians over the size of the key
_NEAR = 0.02  # relative move of the key up to which grids and the errors on them are those of the same place


def find_optimum(task: Task, activation: Activation) -> Optimum:
    """The optimum of the excess risk; see :func:`theorykit.single_location.population.optimal_risk`."""
    if isinstance(activation, Linear):
        return _linear_optimum(task)
    if isinstance(activation, Erf) and activation.shift is None:
        from theorykit.single_location.free_shift import find_shifted_optimum

        return find_shifted_optimum(task)
    search = Search(task, activation)
    if isinstance(activation, Softmax) and search.scale > _LONGEST[task_name(task)]:
        return _matched_optimum(search)
    return search.run()


def _matched_optimum(search: Search) -> Optimum:
    """Softmax attention with the key of the posterior and v = v*: it is the Bayes estimator, and none is better."""
    key, one = Estimate(search.scale, 2.0**-52 * search.scale), Estimate(1.0, 0.0)
    return Optimum(bayes_risk(search.task, excess=True), key, squared(key), one, one, evaluations=1)


def _linear_optimum(task: Task) -> Optimum:
    """Closed: solved by SymPy in the derivation of linear attention."""
    names = ("best_excess", "best_m_k", "best_q_k", "best_m_v")
    mean = task.mean_length
    if isinstance(task, Spiked):
        inputs: dict[str, float] = {"nu": task.nu, "L": mean}
    else:
        inputs = {"mu": _hidden_field(task), "L": mean}
    found = propagate(program("linear", names, task=type(task).__name__.lower()), inputs)
    m_v = found["best_m_v"]
    return Optimum(
        found["best_excess"],
        found["best_m_k"],
        found["best_q_k"],
        m_v,
        squared(m_v),
        evaluations=1,
    )


def _hidden_field(task: Task) -> Estimate:
    """Mean field of the hidden token, averaged over the length."""
    kind = task_name(task)
    options = {"steep": True} if kind == "max" and task.nu > STEEP else {}
    compiled = program("hidden_field", ("mu",), task=kind, **options)
    value = error = 0.0
    for length, p in task.lengths:
        if length == 1:
            continue  # the field of a single token has mean 0
        mu = compiled.values({n: {"nu": task.nu, "L": float(length)}[n] for n in compiled.parameters})["mu"]
        value, error = value + p * mu, error + p * mu.error
    return Estimate(value, error)


@dataclass(frozen=True)
class Polished:
    """A minimum in m_k: where, on which grids, relative errors of the moments on them, error of m_k, how far the risk
    may be above its minimum, and how fast the best v moves there."""

    m_k: float
    grids: Grids
    moment_errors: Mapping[str, float]
    key_error: float
    rise: float
    value_slope: float


@dataclass
class Search:
    """One minimization: the risk at the best v as a function of m_k, for k along k*."""

    task: Task
    activation: Activation
    evaluations: int = 0
    # what the best key gains over the risk 1 of no weights, as far as the accuracy depends on it
    gain: float = 1.0
    blur_at_zero: float = 0.0  # of a minimum that the risks near 0 do not tell from 0

    @cached_property
    def aligned(self) -> KeyMoments:
        return KeyMoments(self.task, self.activation, aligned=True)

    @cached_property
    def general(self) -> KeyMoments:
        return KeyMoments(self.task, self.activation, aligned=False)

    @property
    def scale(self) -> float:
        """Size of the key that attains the Bayes risk."""
        if isinstance(self.task, Spiked):
            return math.sqrt(self.task.nu)
        return self.task.nu if math.isfinite(self.task.nu) else 0.0

    @property
    def shift(self) -> float | None:
        return self.activation.shift if isinstance(self.activation, Erf) else None

    def run(self) -> Optimum:
        if isinstance(self.activation, Softmax) and task_name(self.task) == "max_infinite":
            from theorykit.single_location.infinity import largest_token

            return largest_token(self)
        found = scan(self)
        if found.is_open:
            from theorykit.single_location.infinity import limit_at_infinity

            return limit_at_infinity(self, found.best, found.risk)
        if found.best == 0:
            return self.described(self._near_zero(found.high, found.risk, found.grids), found.grids)
        return self.described(self.between(found.low, found.high, found.grids), found.grids)

    def described(self, m_k: float, grids: Grids) -> Optimum:
        """The optimum near m_k, with its errors; the grids are coarse ones that hold the keys around."""
        best = self._polished(m_k)
        m_v, value = self._value(best)
        value = Estimate(float(value), value.error + best.rise)
        from theorykit.single_location.orthogonal import off_truth

        lower = off_truth(self, best.m_k, float(value), grids)
        if lower is not None:
            return lower
        key = Estimate(best.m_k, best.key_error)
        m_v = Estimate(float(m_v), m_v.error + best.value_slope * best.key_error)
        return Optimum(
            value, key, squared(key), m_v, squared(m_v), shift=self.shift, evaluations=self.evaluations
        )

    def _value(self, best: Polished) -> tuple[Estimate, Estimate]:
        """(m_v, risk) at the minimum, with the errors of the grids it was found on."""
        if best.m_k == 0 or not any(best.grids.values()):
            return self.aligned.best_value(best.m_k, best.m_k**2, best.grids)
        found = self.aligned.quick(best.m_k, best.m_k**2, best.grids)
        moments = {n: Estimate(v, _MOVED * best.moment_errors[n] * abs(v)) for n, v in found.items()}
        return self.aligned.best_of(moments, best.m_k, best.m_k**2, best.grids)

    # ------------------------------------------------------------ along k*

    def quick(self, m_k: float, grids: Grids) -> float:
        """Risk on given grids, without error."""
        return self.quick_best(m_k, grids)[1]

    def quick_best(self, m_k: float, grids: Grids) -> tuple[float, float]:
        """(m_v, risk) at the best v on given grids, without error."""
        self.evaluations += 1
        return self.aligned.quick_best(m_k, m_k * m_k, grids)

    @property
    def _least_gain(self) -> float:
        return math.fsum(p / length for length, p in self.task.lengths)

    def accuracy(self, wanted: float) -> float:
        """Relative accuracy asked of the moments of the weights.

        Normalized weights of a long sequence can be all but uniform: everything that distinguishes one key from
        another is then of the size of the gain, at least E 1/L.
        """
        return max(_FINEST, wanted * self.gain)

    def needs_finer(self, risk: float) -> bool:
        """Whether the best key gains so little that coarse grids do not tell keys apart: accuracy is raised then."""
        if self.activation.kind != "normalized" or self.gain < 1:
            return False
        gain = max(self._least_gain, min(1.0, 1 - risk))
        if gain < _SMALL_GAIN:
            self.gain = gain
        return self.gain < 1

    def search_grids(self, m_k: float, near: Grids | None = None) -> Grids:
        """Coarse grids that hold the integrals at m_k, looked for around those at a similar key, and no coarser."""
        return self.aligned.grids(m_k, m_k * m_k, self.accuracy(SEARCH), near, near)

    def between(self, low: float, high: float, grids: Grids) -> float:
        """Minimum in a bracket on one side of zero, in log |m_k|."""
        from scipy.optimize import minimize_scalar

        sign = 1.0 if high > 0 else -1.0
        ends = sorted(abs(m) for m in (low, high))
        found = minimize_scalar(
            lambda u: self.quick(sign * math.exp(u), grids),
            bounds=(math.log(ends[0] or ends[1] / 1000), math.log(ends[1])),
            method="bounded",
            options={"xatol": _SEARCH_TOLERANCE, "maxiter": 60},
        )
        return sign * math.exp(float(found.x))

    def _near_zero(self, step: float, origin: float, grids: Grids) -> float:
        """0, or a minimum much closer to it than ``step``: vertices of the parabolas on both sides of 0.

        The sides differ for activations with a kink at 0, where the risk has one as well.
        """
        best, least = 0.0, origin * (1 - FLAT)
        for side in (step, -step):
            half, whole = self.quick(side / 2, grids), self.quick(side, grids)
            slope, bend = 4 * half - whole - 3 * origin, 4 * (whole - 2 * half + origin)
            if bend > 0:  # a vertex whose gain is within FLAT is not seen
                unseen = step * min(1.0, math.sqrt(2 * FLAT * origin / bend))
                self.blur_at_zero = max(self.blur_at_zero, unseen)
            if slope < -10 * NOISE * origin and bend > 0:
                m_k = -slope / bend * side
                risk = self.quick(m_k, grids)
                if risk < least:
                    best, least = m_k, risk
        return best

    def _smooth_grids(self, m_k: float) -> tuple[Grids, Mapping[str, float]]:
        """Fine grids around m_k, on which the risk is a smooth function of it; relative errors of the moments."""
        grids, moments = self.aligned.measured(m_k, m_k * m_k, self.accuracy(_FINAL))
        return grids, {n: v.error / abs(v) if v != 0 else 0.0 for n, v in moments.items()}

    def _polished(self, m_k: float) -> Polished:
        """Vertex of a quartic through five values on one fine grid."""
        if m_k == 0:
            grids, step = self.aligned.grids(0.0, 0.0, self.accuracy(_FINAL)), 1e-3
            ends = [self.quick_best(m, grids)[0] for m in (-step, step)]
            rise = FLAT * self.quick(0.0, grids)
            return Polished(0.0, grids, {}, self.blur_at_zero, rise, abs(ends[1] - ends[0]) / (2 * step))
        grids, errors = self._smooth_grids(m_k)
        share, made_at = _POLISH, m_k
        for _ in range(_POLISH_ROUNDS):
            step = share * m_k
            m_v, values = zip(
                *[self.quick_best(m_k + j * step, grids) for j in (-2, -1, 0, 1, 2)], strict=True
            )
            noise = NOISE * values[2]
            vertex = quartic_vertex(values, noise)
            slope = abs((m_v[3] - m_v[1]) / (2 * step))
            # curvature against the gain: how much of the scale of the risk one step is
            steep = vertex.curvature / max(min(values[2], 1 - values[2]), noise)
            if vertex.curvature == 0:
                if share > 0.2:  # any key near here is as good
                    return Polished(m_k, grids, errors, share * abs(m_k), 50 * noise, slope)
                share *= 10
                continue
            m_k += vertex.offset * step
            if abs(vertex.offset) <= 1 and (steep <= _STEEP or share < _POLISH):
                uneven = max(errors.values()) if any(grids.values()) else 0.0
                error, rise = self._open(uneven * abs(step / m_k), steep, vertex, values[2])
                return Polished(m_k, grids, errors, error * abs(step), rise, slope)
            share = min(share, share * math.sqrt(_STEEP / (2 * steep)))
            if abs(m_k / made_at - 1) > _NEAR:
                (grids, errors), made_at = self._smooth_grids(m_k), m_k
        raise ConvergenceError(
            f"the search over m_k did not settle for {self.activation!r} and {self.task!r}: last m_k = {m_k:.6g}",
            last=m_k,
            residual=abs(vertex.offset) * share,
            steps=self.evaluations,
            start="scan",
        )

    def _open(self, grid: float, steep: float, vertex: Vertex, excess: float) -> tuple[float, float]:
        """Error of the key in steps and of the risk, from the truncated polynomial, rounding, and the grids."""
        truncated = 40 * steep**1.5  # the fifth derivative, from how the second compares with the risk
        # errors of a trapezoid rule oscillate as the integrand moves over its nodes with the key
        uneven = _OSCILLATION * grid * excess / vertex.curvature
        blur = vertex.blur + min(1.0, truncated + uneven)
        return blur, 0.5 * vertex.curvature * blur**2 + FLAT * excess


def squared(m: Estimate) -> Estimate:
    """Square of an estimate."""
    value = float(m) ** 2
    return Estimate(value, 2 * abs(float(m)) * m.error + m.error**2 + 2.0**-52 * value)
