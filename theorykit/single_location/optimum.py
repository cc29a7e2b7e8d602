"""Search for the overlaps of smallest population risk.

Everything about v is closed, so the search is over the key: m_k (and a free shift) for k along k*, then a test
whether a part of k orthogonal to k* helps. Stages: scan -> local minimum or limit at infinity -> polish -> test of
q_k > m_k**2 -> value with error. Grids of the quadrature are fixed within a stage, so that the risk is smooth there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from theorykit.errors import ConvergenceError
from theorykit.results import Estimate, Optimum, Status
from theorykit.single_location.activations import Activation, Erf, Linear, Softmax
from theorykit.single_location.moments import KeyMoments
from theorykit.single_location.programs import program, propagate, task_name
from theorykit.single_location.tasks import Spiked, Task

if TYPE_CHECKING:
    from theorykit.single_location.moments import Grids

__all__ = ["find_optimum"]

_SCAN = (0.1, 0.3, 1.0, 3.0)
_FAR = (10.0, 25.0)  # probed while the risk still falls at the end of the scan
_LIMIT = (6.0, 8.0, 12.0, 16.0, 24.0, 32.0)  # extrapolated to infinity in powers of 1/m_k
_SEARCH, _SMOOTH = 1e-4, 1e-10  # accuracy of the grids during the search, and of the final parabola
_SEARCH_TOLERANCE = 3e-4  # in log m_k; the parabola does the rest
_POLISH = 1e-4  # relative step of the final parabola
_ORTHOGONAL = ((1.0, 0.1), (1.0, 0.5), (1.2, 0.3))  # (m_k over optimum, (q_k - m_k^2)/m_k^2)
_KEY_ERROR = 1e-7  # relative error of m_k after the parabola
_GAIN = 1e-4  # relative gain from which an orthogonal part counts: coarse grids are good to about 1e-5


def find_optimum(task: Task, activation: Activation) -> Optimum:
    """The optimum of the excess risk; see :func:`theorykit.single_location.population.optimal_risk`."""
    if isinstance(activation, Linear):
        return _linear_optimum(task)
    if isinstance(activation, Erf) and activation.shift is None:
        return _with_free_shift(task)
    return _Search(task, activation).run()


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
        _squared(m_v),
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


@dataclass
class _Search:
    """One minimization: the risk at the best v as a function of m_k, for k along k*."""

    task: Task
    activation: Activation
    evaluations: int = 0

    @cached_property
    def aligned(self) -> KeyMoments:
        return KeyMoments(self.task, self.activation, aligned=True)

    @cached_property
    def general(self) -> KeyMoments:
        return KeyMoments(self.task, self.activation, aligned=False)

    def run(self) -> Optimum:
        m_k = self._minimum()
        if m_k is None:
            return self._limit()
        return self._described(m_k)

    def _described(self, m_k: float) -> Optimum:
        m_k, grids, curvature = self._polished(m_k)
        self._require_alignment(m_k, self._quick(m_k, grids), grids)
        m_v, value = self.aligned.best_value(m_k, m_k * m_k, grids)
        key = Estimate(m_k, _KEY_ERROR * abs(m_k))
        m_v = Estimate(float(m_v), m_v.error + self._value_error(m_k, grids))
        # an error of m_k raises the risk by half the curvature times its square
        value = Estimate(float(value), value.error + 0.5 * curvature * (_KEY_ERROR / _POLISH) ** 2)
        return Optimum(
            value,
            key,
            _squared(key),
            m_v,
            _squared(m_v),
            shift=self.activation.shift if isinstance(self.activation, Erf) else None,
            evaluations=self.evaluations,
        )

    # ------------------------------------------------------------ along k*

    def _quick(self, m_k: float, grids: Grids) -> float:
        self.evaluations += 1
        return self.aligned.quick_excess(m_k, m_k * m_k, grids)

    def _grids(self, *keys: float) -> Grids:
        """Grids that hold the integrals at several m_k (and between: they move steadily)."""
        return _union(*[self.aligned.grids(m, m * m, _SEARCH) for m in keys])

    def _minimum(self) -> float | None:
        """m_k of the smallest risk, None where it falls up to the end of what is probed."""
        near = self._grids(1.0, 3.0)
        origin = self._quick(0.0, near)
        sign = 1.0 if self._quick(1.0, near) <= self._quick(-1.0, _mirrored(near)) else -1.0
        if sign < 0:
            near = self._grids(-1.0, -3.0)
        points = [0.0, *(sign * m for m in _SCAN)]
        risks = [origin, *(self._quick(m, near) for m in points[1:])]
        while _first_lowest(risks) == len(points) - 1:
            if len(points) > len(_SCAN) + len(_FAR):
                return None
            points.append(sign * _FAR[len(points) - len(_SCAN) - 1])
            near = _union(near, self._grids(points[-1]))
            risks.append(self._quick(points[-1], near))
        best = _first_lowest(risks)
        if best == 0:
            return self._near_zero(points[1], risks[0], near)
        return self._between(points[best - 1], points[best + 1], near)

    def _between(self, low: float, high: float, grids: Grids) -> float:
        """Minimum in a bracket, in log m_k."""
        from scipy.optimize import minimize_scalar

        sign = math.copysign(1.0, high)
        start = abs(low) if low != 0 else abs(high) / 30
        found = minimize_scalar(
            lambda u: self._quick(sign * math.exp(u), grids),
            bounds=(math.log(start), math.log(abs(high))),
            method="bounded",
            options={"xatol": _SEARCH_TOLERANCE, "maxiter": 60},
        )
        return sign * math.exp(float(found.x))

    def _near_zero(self, scale: float, origin: float, grids: Grids) -> float:
        """0, or the minimum between 0 and the first points of the scan on either side."""
        for m_k in (scale / 10, -scale / 10):
            if self._quick(m_k, grids) < origin * (1 - 1e-9):
                return self._between(m_k / 30, m_k * 10, grids)
        return 0.0

    def _polished(self, m_k: float) -> tuple[float, Grids, float]:
        """Vertex of a parabola through three values on one fine grid: (m_k to about 1e-8, grids, curvature)."""
        curvature = 0.0
        grids = self.aligned.grids(m_k, m_k * m_k, _SMOOTH)
        for _ in range(3 if m_k != 0 else 0):
            step = _POLISH * m_k
            left, centre, right = (self._quick(m_k + d, grids) for d in (-step, 0.0, step))
            curvature = left - 2 * centre + right
            if not curvature > 1e-13 * centre:
                break  # flat within rounding: any point here is as good
            shift = max(-20.0, min(20.0, (left - right) / (2 * curvature)))
            m_k += shift * step
            if abs(shift) < 1e-2:
                break
        return m_k, grids, max(curvature, 0.0)

    def _value_error(self, m_k: float, grids: Grids) -> float:
        """How far the best v moves with m_k inside its error."""
        if m_k == 0:
            return 0.0
        step = 1e-3 * m_k
        ends = [self.aligned.quick_value(m, m * m, grids) for m in (m_k - step, m_k + step)]
        return abs(ends[1] - ends[0]) / 2e-3 * _KEY_ERROR

    # ------------------------------------------------------------ at infinity

    def _limit(self) -> Optimum:
        """The infimum is approached as m_k grows: risk and m_v extrapolated in powers of 1/m_k."""
        from theorykit.numerics.quadrature import Options

        if isinstance(self.activation, Softmax) and task_name(self.task) == "max_infinite":
            # the posterior at nu is the softmax of nu chi*, so the limit is the argmax, which is Bayes
            return self._at_infinity(Estimate(self._bayes(), 0.0), Estimate(1.0, 0.0), 1.0)
        near = self._grids(1.0)
        sign = 1.0 if self._quick(1.0, near) <= self._quick(-1.0, _mirrored(near)) else -1.0
        aligned = KeyMoments(self.task, self.activation, aligned=True, options=Options(rtol=1e-9))
        keys = [sign * m for m in _LIMIT]
        pairs = [aligned.best_value(m, m * m) for m in keys]
        self.evaluations += len(pairs)
        risks = [float(e) for _, e in pairs]
        lowest = risks.index(min(risks))
        if 0 < lowest < len(keys) - 1:  # a shallow minimum after all
            bracket = keys[lowest - 1], keys[lowest + 1]
            return self._described(self._between(*bracket, self._grids(*bracket)))
        value, error = _extrapolated([1 / m for m in _LIMIT], risks)
        m_v, m_v_error = _extrapolated([1 / m for m in _LIMIT], [float(v) for v, _ in pairs])
        floor = self._bayes()
        if abs(value - floor) <= error or value < floor:
            error, value = error + abs(value - floor), floor  # no estimator is better than Bayes
        if not error <= 1e-2 * max(abs(value), 1e-3):
            raise ConvergenceError(
                f"the risk of {self.activation!r} for {self.task!r} falls up to m_k = {_LIMIT[-1]:g} and does not "
                f"extrapolate: {value:.6g} +- {error:.1g}",
                last=[float(e) for _, e in pairs],
                residual=error,
                steps=self.evaluations,
                start="limit",
            )
        return self._at_infinity(Estimate(value, error), Estimate(m_v, m_v_error), sign)

    def _at_infinity(self, risk: Estimate, m_v: Estimate, sign: float) -> Optimum:
        return Optimum(
            risk,
            sign * math.inf,
            math.inf,
            m_v,
            _squared(m_v),
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
            self.evaluations += 1
            found = self.general.quick_excess(m, q, self._general_grids(m, q, grids))
            if found < excess * (1 - _GAIN) - 1e-12:
                raise ConvergenceError(
                    f"a key with a part orthogonal to k* has a smaller risk: {found:.8g} at m_k = {m:.6g}, "
                    f"q_k = {q:.6g} against {excess:.8g} at q_k = m_k^2; the search along k* is not enough for "
                    f"{self.activation!r} and {self.task!r}: scan risk(...) over m_k and q_k",
                    last=(m, q),
                    residual=excess - found,
                    steps=self.evaluations,
                    start="aligned",
                )

    def _general_grids(self, m_k: float, q_k: float, grids: Grids) -> Grids:
        """Grids for a key off k*: known ones made coarser, with a few nodes for the orthogonal field."""
        if isinstance(self.task, Spiked):
            return self.general.grids(m_k, q_k, _SEARCH)
        from theorykit.numerics.grids import Interval

        orthogonal = Interval(-7.0, 7.0, 3.5)
        return {
            length: {**{v: i.refined(0.4) for v, i in intervals.items()}, "eta": orthogonal}
            for length, intervals in grids.items()
        }


def _squared(m: Estimate) -> Estimate:
    return Estimate(float(m) ** 2, 2 * abs(float(m)) * m.error + 2.0**-52 * float(m) ** 2)


def _first_lowest(risks: list[float]) -> int:
    """Index of the lowest risk, of the first one where they are equal within rounding."""
    lowest = min(risks)
    return next(i for i, r in enumerate(risks) if r <= lowest * (1 + 1e-11) + 1e-300)


def _mirrored(grids: Grids) -> Grids:
    """Grids that hold the integrals of the opposite key as well: Gaussian fields on both sides alike."""
    return {
        n: {
            v: i if v.startswith("log_") else replace(i, low=-max(-i.low, i.high), high=max(-i.low, i.high))
            for v, i in intervals.items()
        }
        for n, intervals in grids.items()
    }


def _union(*choices: Grids) -> Grids:
    """Intervals that hold those of all choices, with the finest steps."""
    first = choices[0]
    return {
        n: {
            v: replace(
                first[n][v],
                low=min(c[n][v].low for c in choices),
                high=max(c[n][v].high for c in choices),
                step=min(c[n][v].step for c in choices),
            )
            for v in first[n]
        }
        for n in first
    }


def _extrapolated(x: list[float], y: list[float]) -> tuple[float, float]:
    """Value at x = 0 of the interpolating polynomial (Neville), error from dropping the farthest point."""

    def neville(points: list[float], values: list[float]) -> float:
        table = list(values)
        for order in range(1, len(points)):
            for i in range(len(points) - order):
                far, near = points[i], points[i + order]
                table[i] = (far * table[i + 1] - near * table[i]) / (far - near)
        return table[0]

    best = neville(x[1:], y[1:])
    spread = max(abs(best - neville(x, y)), abs(best - neville(x[2:], y[2:])))
    return best, 2 * spread + 1e-15


def _with_free_shift(task: Task) -> Optimum:
    """erf with the shift optimized as well: minimum over the shift and m_k together."""
    from scipy.optimize import minimize

    # long sequences need a threshold, at about the field where one token in L lies
    typical = math.sqrt(2 * math.log(max(task.mean_length, 2.0)))
    calls = 0

    def excess(point: Any) -> float:
        nonlocal calls
        log_m, shift = float(point[0]), float(point[1])
        if abs(log_m) > 4 or abs(shift) > 40:
            return 1.0 + abs(log_m) + abs(shift)
        calls += 1
        search = _Search(task, Erf(shift))
        m_k = math.exp(log_m)
        return search._quick(m_k, search._grids(m_k))

    starts = [(math.log(m), -m * c) for m in (0.3, 0.7, 1.5, 3.0) for c in (0.0, 0.5 * typical, typical)]
    start = min(starts, key=excess)
    simplex = [start, (start[0] + 0.3, start[1]), (start[0], start[1] - 0.4)]
    options = {"initial_simplex": simplex, "xatol": 1e-6, "fatol": 1e-13, "maxiter": 600}
    best = minimize(excess, start, method="Nelder-Mead", options=options)
    if not best.success:
        raise ConvergenceError(
            f"the search over m_k and the shift of erf did not converge for {task!r}: {best.message}",
            last=tuple(best.x),
            residual=float(best.fun),
            steps=calls,
            start="scan",
        )
    found = _Search(task, Erf(float(best.x[1])), evaluations=calls)._described(math.exp(float(best.x[0])))
    loose = Estimate(float(found.m_k), 1e-5 * float(found.m_k))
    return replace(
        found, m_k=loose, q_k=_squared(loose), m_v=Estimate(float(found.m_v), 1e-5 * float(found.m_v))
    )
