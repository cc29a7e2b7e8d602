"""Search for the overlaps of smallest population risk.

Everything about v is closed, so the search is over the key: m_k (and a free shift) for k along k*, then a test
whether a part of k orthogonal to k* helps. Stages: scan -> local minimum or limit at infinity -> polish -> test of
q_k > m_k**2 -> value with error. Grids of the quadrature are fixed within a stage, so that the risk is smooth there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from theorykit.errors import ConvergenceError
from theorykit.results import Estimate, Optimum, Status
from theorykit.single_location.activations import Activation, Erf, Linear, Softmax
from theorykit.single_location.moments import KeyMoments
from theorykit.single_location.programs import program, propagate, task_name
from theorykit.single_location.tasks import Spiked, Task

__all__ = ["find_optimum"]

_SCAN = (0.1, 0.3, 1.0, 3.0, 10.0)
_FAR = {"spiked": (30.0, 100.0, 300.0), "max": (20.0, 40.0), "max_infinite": (20.0,)}  # if it still falls
_LIMIT = (6.0, 8.0, 12.0, 16.0, 24.0, 32.0)  # extrapolated to infinity in powers of 1/m_k
_SHIFTS = (-2.0, -1.0, 0.0)
_SEARCH, _SMOOTH = 1e-6, 1e-10  # accuracy of the grids during the search, and of the final parabola
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
        m_k = self._minimum(self._scan())
        if m_k is None:
            return self._limit()
        m_k = self._polished(m_k)
        excess = self._quick(m_k)
        self._require_alignment(m_k, excess)
        m_v, value = self.aligned.best_value(m_k, m_k * m_k)
        key = Estimate(m_k, _KEY_ERROR * abs(m_k))
        m_v = Estimate(float(m_v), m_v.error + self._value_error(m_k))
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

    def _quick(self, m_k: float, grids: Mapping[int, Any] | None = None) -> float:
        self.evaluations += 1
        q_k = m_k * m_k
        grids = self.aligned.grids(m_k, q_k, _SEARCH) if grids is None else grids
        return self.aligned.quick_excess(m_k, q_k, grids)

    def _scan(self) -> tuple[list[float], list[float]]:
        """(m_k, excess risk) by increasing m_k, on the side of k* or of -k* where the risk is smaller."""
        grids = self._grids_between(1.0, _SCAN[-1])
        origin = self._quick(0.0, grids)
        right, left = self._quick(1.0, grids), self._quick(-1.0, self._grids_between(-1.0, -1.0))
        sign = 1.0 if right <= left else -1.0
        if sign < 0:
            grids = self._grids_between(-1.0, -_SCAN[-1])
        points = [sign * m for m in _SCAN]
        return [0.0, *points], [origin, *(self._quick(m, grids) for m in points)]

    def _grids_between(self, low: float, high: float) -> Mapping[int, Any]:
        """Grids that hold the integrals at both ends of an interval of m_k (and between: they move steadily)."""
        return _union(*[self.aligned.grids(m, m * m, _SEARCH) for m in sorted({low, high})])

    def _minimum(self, scan: tuple[list[float], list[float]]) -> float | None:
        """m_k of the smallest risk, None where it falls up to the end of what is probed."""
        points, risks = scan
        lowest = min(risks)
        best = next(i for i, r in enumerate(risks) if r <= lowest * (1 + 1e-11) + 1e-300)
        sign = math.copysign(1.0, points[-1])
        for far in _FAR[task_name(self.task)]:
            if best < len(points) - 1:
                break
            points.append(sign * far)
            risks.append(self._quick(points[-1]))
            if risks[-1] < risks[best] * (1 - 1e-11):
                best = len(points) - 1
        if best == len(points) - 1:
            return None
        if best == 0:
            return self._near_zero(points[1], risks[0])
        return self._between(points[best - 1], points[best], points[best + 1])

    def _between(self, low: float, middle: float, high: float) -> float:
        """Minimum in a bracket, in log m_k (or m_k where the bracket starts at 0)."""
        from scipy.optimize import minimize_scalar

        sign = math.copysign(1.0, middle)
        start = abs(low) if low != 0 else abs(middle) / 30
        grids = self._grids_between(sign * start, high)
        found = minimize_scalar(
            lambda u: self._quick(sign * math.exp(u), grids),
            bounds=(math.log(start), math.log(abs(high))),
            method="bounded",
            options={"xatol": _SEARCH_TOLERANCE, "maxiter": 60},
        )
        return sign * math.exp(float(found.x))

    def _near_zero(self, scale: float, origin: float) -> float:
        """0, or the minimum between 0 and the first points of the scan on either side."""
        for m_k in (scale / 10, -scale / 10):
            if self._quick(m_k) < origin * (1 - 1e-9):
                return self._between(m_k / 30, m_k, m_k * 10)
        return 0.0

    def _polished(self, m_k: float) -> float:
        """Vertex of a parabola through three values on one fine grid: m_k to about 1e-8."""
        for _ in range(2 if m_k != 0 else 0):
            step = _POLISH * m_k
            grids = self.aligned.grids(m_k, m_k * m_k, _SMOOTH)
            left, centre, right = (self._quick(m_k + d, grids) for d in (-step, 0.0, step))
            curvature = left - 2 * centre + right
            if not curvature > 1e-13 * centre:
                break  # flat within rounding: any point here is as good
            m_k += max(-20.0, min(20.0, (left - right) / (2 * curvature))) * step
        return m_k

    def _value_error(self, m_k: float) -> float:
        """How far the best v moves with m_k inside its error."""
        if m_k == 0:
            return 0.0
        step = 1e-3 * m_k
        grids = self.aligned.grids(m_k, m_k * m_k, _SEARCH)
        ends = [self.aligned.quick_value(m, m * m, grids) for m in (m_k - step, m_k + step)]
        return abs(ends[1] - ends[0]) / 2e-3 * _KEY_ERROR

    # ------------------------------------------------------------ at infinity

    def _limit(self) -> Optimum:
        """The infimum is approached as m_k grows: risk and m_v extrapolated in powers of 1/m_k."""
        from theorykit.numerics.quadrature import Options

        if isinstance(self.activation, Softmax) and task_name(self.task) == "max_infinite":
            # the posterior at nu is the softmax of nu chi*, so the limit is the argmax, which is Bayes
            return self._at_infinity(Estimate(self._bayes(), 0.0), Estimate(1.0, 0.0), 1.0)
        sign = 1.0 if self._quick(1.0) <= self._quick(-1.0) else -1.0
        aligned = KeyMoments(self.task, self.activation, aligned=True, options=Options(rtol=1e-9))
        pairs = [aligned.best_value(sign * m, m * m) for m in _LIMIT]
        self.evaluations += len(pairs)
        value, error = _extrapolated([1 / m for m in _LIMIT], [float(e) for _, e in pairs])
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

    def _require_alignment(self, m_k: float, excess: float) -> None:
        """Look for a smaller risk at q_k > m_k**2; none is known, so one that is found is an error here."""
        scale = abs(m_k) if m_k != 0 else 1.0
        grids = self._general_grids(m_k)
        for factor, share in _ORTHOGONAL:
            m = m_k * factor
            q = m * m + share * scale * scale
            self.evaluations += 1
            found = self.general.quick_excess(m, q, grids(m, q))
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

    def _general_grids(self, m_k: float) -> Callable[[float, float], Mapping[int, Any]]:
        if isinstance(self.task, Spiked):
            return lambda m, q: self.general.grids(m, q, _SEARCH)
        from theorykit.numerics.grids import Interval

        base = self.aligned.grids(m_k, m_k * m_k, 1e-5)
        orthogonal = Interval(-7.0, 7.0, 3.5)
        return lambda m, q: {length: {**i, "eta": orthogonal} for length, i in base.items()}


def _squared(m: Estimate) -> Estimate:
    return Estimate(float(m) ** 2, 2 * abs(float(m)) * m.error + 2.0**-52 * float(m) ** 2)


def _union(*choices: Mapping[int, Any]) -> dict[int, Any]:
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
    """erf with the shift optimized as well: minimum over the shift of the minimum over m_k."""
    from scipy.optimize import minimize

    found: dict[tuple[float, float], float] = {}
    searches: dict[float, _Search] = {}

    def excess(point: Any) -> float:
        log_m, shift = float(point[0]), float(point[1])
        if abs(log_m) > 4 or abs(shift) > 40:
            return 1.0 + abs(log_m) + abs(shift)
        search = searches.setdefault(shift, _Search(task, Erf(shift)))
        value = search._quick(math.exp(log_m))
        found[log_m, shift] = value
        return value

    starts = [(math.log(m), c) for m in (0.4, 1.0, 2.5) for c in _SHIFTS]
    start = min(starts, key=excess)
    simplex = [start, (start[0] + 0.3, start[1]), (start[0], start[1] - 0.4)]
    best = minimize(
        excess,
        start,
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "xatol": 1e-7, "fatol": 1e-15, "maxiter": 400},
    )
    if not best.success:
        raise ConvergenceError(
            f"the search over m_k and the shift of erf did not converge for {task!r}: {best.message}",
            last=tuple(best.x),
            residual=float(best.fun),
            steps=int(best.nfev),
            start="scan",
        )
    shift = float(best.x[1])
    search = _Search(task, Erf(shift))
    m_k = math.exp(float(best.x[0]))
    search._require_alignment(m_k, float(best.fun))
    m_v, value = search.aligned.best_value(m_k, m_k * m_k)
    return Optimum(
        value,
        Estimate(m_k, 1e-6 * m_k),
        Estimate(m_k * m_k, 2e-6 * m_k * m_k),
        m_v,
        _squared(m_v),
        shift=shift,
        evaluations=int(best.nfev) + search.evaluations,
    )
