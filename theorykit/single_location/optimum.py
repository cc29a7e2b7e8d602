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
from theorykit.results import Estimate, Optimum, Status
from theorykit.single_location.activations import Activation, Erf, Linear, Softmax
from theorykit.single_location.minimum import Vertex, extrapolated, quartic_vertex
from theorykit.single_location.moments import KeyMoments
from theorykit.single_location.programs import program, propagate, task_name
from theorykit.single_location.scan import FLAT, scan, union
from theorykit.single_location.tasks import Spiked, Task

if TYPE_CHECKING:
    from theorykit.single_location.moments import Grids

__all__ = ["NOISE", "Search", "find_optimum", "squared"]

_LIMIT = (6.0, 8.0, 12.0, 16.0, 24.0, 32.0)  # extrapolated to infinity in powers of 1/m_k
_SEARCH, _SMOOTH = 1e-4, 1e-12  # accuracy of the grids during the search, and of the final polynomial
_FINEST = 1e-14  # no grid is asked to be better
_SEARCH_TOLERANCE = 3e-4  # in log m_k; the polynomial does the rest
_POLISH = 3e-3  # relative step of the final polynomial
_POLISH_ROUNDS = 8
_STEEP = 1e-4  # largest curvature of the risk over one step of the polynomial, relative to its scale
NOISE = 4e-15  # rounding of a risk, relative
_ORTHOGONAL = ((1.0, 0.1), (1.0, 0.5), (1.2, 0.3))  # (m_k over optimum, (q_k - m_k^2)/m_k^2)
_GAIN = 1e-4  # relative gain from which an orthogonal part counts: coarse grids are good to about 1e-5


def find_optimum(task: Task, activation: Activation) -> Optimum:
    """The optimum of the excess risk; see :func:`theorykit.single_location.population.optimal_risk`."""
    if isinstance(activation, Linear):
        return _linear_optimum(task)
    if isinstance(activation, Erf) and activation.shift is None:
        from theorykit.single_location.free_shift import find_shifted_optimum

        return find_shifted_optimum(task)
    return Search(task, activation).run()


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
    compiled = program("hidden_field", ("mu",), task=task_name(task))
    value = error = 0.0
    for length, p in task.lengths:
        if length == 1:
            continue  # the field of a single token has mean 0
        mu = compiled.values({n: {"nu": task.nu, "L": float(length)}[n] for n in compiled.parameters})["mu"]
        value, error = value + p * mu, error + p * mu.error
    return Estimate(value, error)


@dataclass(frozen=True)
class Polished:
    """A minimum in m_k: where, on which grids, error of m_k, how far the risk may be above its minimum."""

    m_k: float
    grids: Grids
    key_error: float
    rise: float


@dataclass
class Search:
    """One minimization: the risk at the best v as a function of m_k, for k along k*."""

    task: Task
    activation: Activation
    evaluations: int = 0
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

    def run(self) -> Optimum:
        found = scan(self)
        if found.is_open:
            return self._limit(found.best)
        if found.best == 0:
            return self.described(self._near_zero(found.high, found.risk, found.grids))
        return self.described(self._between(found.low, found.high, found.grids))

    def described(self, m_k: float) -> Optimum:
        """The optimum near m_k, with its errors."""
        best = self._polished(m_k)
        m_k, grids = best.m_k, best.grids
        self._require_alignment(m_k, self.quick(m_k, grids), grids)
        m_v, value = self.aligned.best_value(m_k, m_k * m_k, grids)
        key = Estimate(m_k, best.key_error)
        m_v = Estimate(float(m_v), m_v.error + self._value_slope(m_k, grids) * best.key_error)
        return Optimum(
            Estimate(float(value), value.error + best.rise),
            key,
            squared(key),
            m_v,
            squared(m_v),
            shift=self.activation.shift if isinstance(self.activation, Erf) else None,
            evaluations=self.evaluations,
        )

    # ------------------------------------------------------------ along k*

    def quick(self, m_k: float, grids: Grids) -> float:
        """Risk on given grids, without error."""
        self.evaluations += 1
        return self.aligned.quick_excess(m_k, m_k * m_k, grids)

    def accuracy(self, wanted: float) -> float:
        """Relative accuracy asked of the moments of the weights.

        Normalized weights of a long sequence can be all but uniform: everything that distinguishes one key from
        another is then of the size of E 1/L.
        """
        if self.activation.kind != "normalized":
            return wanted
        return max(_FINEST, wanted * math.fsum(p / length for length, p in self.task.lengths))

    def search_grids(self, m_k: float) -> Grids:
        """Coarse grids that hold the integrals at m_k."""
        return self.aligned.grids(m_k, m_k * m_k, self.accuracy(_SEARCH))

    def smooth_grids(self, m_k: float) -> Grids:
        """Fine grids around m_k, on which the risk is a smooth function of it."""
        return self.aligned.grids(m_k, m_k * m_k, self.accuracy(_SMOOTH))

    def _between(self, low: float, high: float, grids: Grids) -> float:
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

    def _polished(self, m_k: float) -> Polished:
        """Vertex of a quartic through five values on one fine grid."""
        grids = self.smooth_grids(m_k)
        if m_k == 0:
            return Polished(m_k, grids, self.blur_at_zero, FLAT * self.quick(m_k, grids))
        share = _POLISH
        for _ in range(_POLISH_ROUNDS):
            step = share * m_k
            values = [self.quick(m_k + j * step, grids) for j in (-2, -1, 0, 1, 2)]
            noise = NOISE * values[2]
            vertex = quartic_vertex(values, noise)
            # curvature against the gain: how much of the scale of the risk one step is
            steep = vertex.curvature / max(min(values[2], 1 - values[2]), noise)
            if vertex.curvature == 0:
                if share > 0.2:  # any key near here is as good
                    return Polished(m_k, grids, share * abs(m_k), 50 * noise)
                share *= 10
                continue
            m_k += vertex.offset * step
            if abs(vertex.offset) <= 1 and (steep <= _STEEP or share < _POLISH):
                return self._with_errors(m_k, step, steep, vertex, values[2], grids)
            share = min(share, share * math.sqrt(_STEEP / (2 * steep)))
            grids = self.smooth_grids(m_k)
        raise ConvergenceError(
            f"the search over m_k did not settle for {self.activation!r} and {self.task!r}: last m_k = {m_k:.6g}",
            last=m_k,
            residual=abs(vertex.offset) * share,
            steps=self.evaluations,
            start="scan",
        )

    def _with_errors(
        self, m_k: float, step: float, steep: float, vertex: Vertex, excess: float, grids: Grids
    ) -> Polished:
        """What the truncated polynomial, rounding, and the accuracy of the grids leave open, in steps."""
        truncated = 40 * steep**1.5  # the fifth derivative, from how the second compares with the risk
        uneven = 100 * self.accuracy(_SMOOTH) * excess * abs(step / m_k) / vertex.curvature
        blur = vertex.blur + min(1.0, truncated + uneven)
        return Polished(m_k, grids, blur * abs(step), 0.5 * vertex.curvature * blur**2 + FLAT * excess)

    def _value_slope(self, m_k: float, grids: Grids) -> float:
        """How fast the best v moves with m_k."""
        step = 1e-3 * (m_k or 1.0)
        ends = [self.aligned.quick_value(m, m * m, grids) for m in (m_k - step, m_k + step)]
        return abs((ends[1] - ends[0]) / (2 * step))

    # ------------------------------------------------------------ at infinity

    def _limit(self, end: float) -> Optimum:
        """The infimum is approached as m_k grows: risk and m_v extrapolated in powers of 1/m_k."""
        if isinstance(self.activation, Softmax) and task_name(self.task) == "max_infinite":
            # the posterior at nu is the softmax of nu chi*, so the limit is the argmax, which is Bayes
            return self._at_infinity(Estimate(self._bayes(), 0.0), Estimate(1.0, 0.0), 1.0)
        keys = [m * end / _LIMIT[-1] for m in _LIMIT]
        inverse = [1 / abs(m) for m in keys]
        m_v, risks = zip(*[self._value_at(m) for m in keys], strict=True)
        best = risks.index(min(risks))
        if 0 < best < len(keys) - 1:  # a shallow minimum after all
            low, high = sorted((keys[best - 1], keys[best + 1]))
            return self.described(self._between(low, high, union(*map(self.search_grids, (low, high)))))
        value, error = extrapolated(inverse, risks)
        # a risk farther out, which the polynomial foretells where it means something
        error += 2 * abs(extrapolated(inverse, risks, inverse[-1] / 3)[0] - self._value_at(3 * keys[-1])[1])
        floor = self._bayes()
        if abs(value - floor) <= error or value < floor:
            error, value = error + abs(value - floor), floor  # no estimator is better than Bayes
        if not error <= 1e-2 * max(abs(value), 1e-3):
            raise ConvergenceError(
                f"the risk of {self.activation!r} for {self.task!r} falls up to m_k = {end:g} and does not "
                f"extrapolate: {value:.6g} +- {error:.1g}",
                last=risks,
                residual=error,
                steps=self.evaluations,
                start="limit",
            )
        best_v = Estimate(*extrapolated(inverse, m_v))
        return self._at_infinity(Estimate(value, error), best_v, math.copysign(1.0, end))

    def _value_at(self, m_k: float) -> tuple[float, float]:
        """(best m_v, risk) at a large key, each to about 1e-9."""
        from theorykit.numerics.quadrature import Options

        self.evaluations += 1
        options = Options(rtol=self.accuracy(1e-9))
        aligned = KeyMoments(self.task, self.activation, aligned=True, options=options)
        m_v, risk = aligned.best_value(m_k, m_k * m_k)
        return float(m_v), float(risk)

    def _at_infinity(self, risk: Estimate, m_v: Estimate, sign: float) -> Optimum:
        return Optimum(
            risk,
            sign * math.inf,
            math.inf,
            m_v,
            squared(m_v),
            shift=self.activation.shift if isinstance(self.activation, Erf) else None,
            attained=False,
            status=Status.LIMIT,
            evaluations=self.evaluations,
        )

    def _bayes(self) -> float:
        from theorykit.single_location.population import bayes_risk

        return float(bayes_risk(self.task, excess=True))

    # ------------------------------------------------------------ off k*

    def _require_alignment(self, m_k: float, excess: float, grids: Grids) -> None:
        """Look for a smaller risk at q_k > m_k**2; none is known, so one that is found is an error here."""
        scale = abs(m_k) if m_k != 0 else 1.0
        for factor, share in _ORTHOGONAL:
            m = m_k * factor
            q = m * m + share * scale * scale
            if self._is_lower(m, q, excess, grids):
                raise ConvergenceError(
                    f"a key with a part orthogonal to k* has a smaller risk than {excess:.8g} at q_k = m_k^2: "
                    f"m_k = {m:.6g}, q_k = {q:.6g}; the search along k* is not enough for "
                    f"{self.activation!r} and {self.task!r}: scan risk(...) over m_k and q_k",
                    last=(m, q),
                    residual=excess,
                    steps=self.evaluations,
                    start="aligned",
                )

    def _is_lower(self, m_k: float, q_k: float, excess: float, grids: Grids) -> bool:
        """Whether a key off k* has a smaller risk: on coarse grids, and then on good ones."""
        bound = excess * (1 - _GAIN) - 1e-12
        self.evaluations += 1
        if self.general.quick_excess(m_k, q_k, self._general_grids(m_k, q_k, grids)) >= bound:
            return False
        self.evaluations += 1
        return float(self.general.best_value(m_k, q_k)[1]) < bound

    def _general_grids(self, m_k: float, q_k: float, grids: Grids) -> Grids:
        """Grids for a key off k*: known ones made coarser, with a few nodes for the orthogonal field."""
        if isinstance(self.task, Spiked):
            return self.general.grids(m_k, q_k, self.accuracy(_SEARCH))
        from theorykit.numerics.grids import Interval

        orthogonal = Interval(-7.0, 7.0, 3.5)
        return {
            length: {**{v: i.refined(0.4) for v, i in intervals.items()}, "eta": orthogonal}
            for length, intervals in grids.items()
        }


def squared(m: Estimate) -> Estimate:
    """Square of an estimate."""
    value = float(m) ** 2
    return Estimate(value, 2 * abs(float(m)) * m.error + m.error**2 + 2.0**-52 * value)
