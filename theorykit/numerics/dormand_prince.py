"""Dormand-Prince 5(4) with dense output and events: the tableau as data, the loop as text.

The loop is written once, here, and instantiated into a generated module around a generated right-hand side (compiled
functions that take functions would miss Numba's cache in every new process). It knows a state in some slots of a
parameter vector, ``slopes(P, none, out)`` and ``crossings(P, none, out)``, and nothing else.

Source: Dormand and Prince, J. Comput. Appl. Math. 6 (1980) 19, with the continuous extension of order 4 by Shampine;
step control as in Hairer, Norsett and Wanner, Solving Ordinary Differential Equations I, II.4. When not to use it:
stiff equations (the step is bounded by 3.3 over the fastest rate), and accuracies below 1e-13.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction as Q

from theorykit.numerics.outcome import Outcome

__all__ = ["DORMAND_PRINCE", "FlowStatus", "Tableau", "flow_source"]


class FlowStatus(Outcome):
    """How the integration of one trajectory ended; ``message`` says it in words."""

    FINISHED = 0, "the last time was reached"
    EVENT = 1, "a terminal event ended the trajectory"
    STEP_TOO_SMALL = 2, "the step needed for the tolerance is below the rounding of time"
    TOO_MANY_STEPS = 3, "the last allowed step was made before the last time"
    NON_FINITE = 4, "the right-hand side is infinite or not a number"

    @property
    def ok(self) -> bool:
        """Whether the trajectory is complete: to the last time or to a terminal event."""
        return self in (FlowStatus.FINISHED, FlowStatus.EVENT)


@dataclass(frozen=True)
class Tableau:
    """An embedded Runge-Kutta pair whose last stage is the first of the next step.

    ``stages`` are the rows of the Butcher matrix, of which the last is also the step; ``error`` are weights of the
    difference to the embedded solution; ``dense`` holds for each stage the coefficients of theta, theta**2, ...
    of its weight in the continuous extension.
    """

    order: int
    nodes: tuple[Q, ...]
    stages: tuple[tuple[Q, ...], ...]
    error: tuple[Q, ...]
    dense: tuple[tuple[Q, ...], ...]


DORMAND_PRINCE = Tableau(
    order=5,
    nodes=(Q(0), Q(1, 5), Q(3, 10), Q(4, 5), Q(8, 9), Q(1), Q(1)),
    stages=(
        (),
        (Q(1, 5),),
        (Q(3, 40), Q(9, 40)),
        (Q(44, 45), Q(-56, 15), Q(32, 9)),
        (Q(19372, 6561), Q(-25360, 2187), Q(64448, 6561), Q(-212, 729)),
        (Q(9017, 3168), Q(-355, 33), Q(46732, 5247), Q(49, 176), Q(-5103, 18656)),
        (Q(35, 384), Q(0), Q(500, 1113), Q(125, 192), Q(-2187, 6784), Q(11, 84)),
    ),
    error=(Q(71, 57600), Q(0), Q(-71, 16695), Q(71, 1920), Q(-17253, 339200), Q(22, 525), Q(-1, 40)),
    dense=(
        (
            Q(1),
            Q(-8048581381, 2820520608),
            Q(8663915743, 2820520608),
            Q(-12715105075, 11282082432),
        ),
        (Q(0), Q(0), Q(0), Q(0)),
        (Q(0), Q(131558114200, 32700410799), Q(-68118460800, 10900136933), Q(87487479700, 32700410799)),
        (Q(0), Q(-1754552775, 470086768), Q(14199869525, 1410260304), Q(-10690763975, 1880347072)),
        (Q(0), Q(127303824393, 49829197408), Q(-318862633887, 49829197408), Q(701980252875, 199316789632)),
        (Q(0), Q(-282668133, 205662961), Q(2019193451, 616988883), Q(-1453857185, 822651844)),
        (Q(0), Q(40617522, 29380423), Q(-110615467, 29380423), Q(69997945, 29380423)),
    ),
)

# What a module gets. Names in capitals are replaced; P holds parameters, time and state of one trajectory, K the
# slopes of all stages. States, event times and event states start as nan, inf and nan.
_TEMPLATE = '''
@njit(DECORATION)
def place_dense(P, y, K, h, theta):
    """The state at a fraction of the step, by the continuous extension, into its slots."""
DENSE_WEIGHTS
    for i in range(SIZE):
        P[SLOTS[i]] = y[i] + h * (DENSE_SUM)


@njit(DECORATION)
def crossing_time(P, none, y, K, h, t, event, before, values):
    """Fraction of the step at which an event changes sign: bisection with regula falsi, on the bracket [0, 1]."""
    low, high = 0.0, 1.0
    g_low, g_high = before, values[event]
    for round in range(200):
        theta = 0.5 * (low + high)
        if round % 3 and g_low != g_high:
            trial = low - g_low * (high - low) / (g_high - g_low)
            if low < trial < high:
                theta = trial
        if not low < theta < high or high - low < 1e-15:
            break
        place_dense(P, y, K, h, theta)
SET_EVENT_TIME
        crossings(P, none, values)
        g = values[event]
        if (g > 0.0) == (g_low > 0.0) and g != 0.0:
            low, g_low = theta, g
        else:
            high, g_high = theta, g
    return high


@njit(DECORATION)
def first_step(P, none, y, K, t, span, rtol, atol):
    """A first step from the sizes of the state, its slope and the change of the slope over a small step."""
    size, slope = 0.0, 0.0
    for i in range(SIZE):
        scale = atol[i] + rtol * abs(y[i])
        size += (y[i] / scale) ** 2
        slope += (K[0, i] / scale) ** 2
    size, slope = math.sqrt(size / SIZE), math.sqrt(slope / SIZE)
    h = min(span, 1e-6 if size < 1e-5 or slope < 1e-5 else 0.01 * size / slope)
    for i in range(SIZE):
        P[SLOTS[i]] = y[i] + h * K[0, i]
SET_FIRST_TIME
    slopes(P, none, K[1])
    change = 0.0
    for i in range(SIZE):
        change += ((K[1, i] - K[0, i]) / (atol[i] + rtol * abs(y[i]))) ** 2
    change = math.sqrt(change / SIZE) / h
    largest = max(slope, change)
    if not math.isfinite(largest):
        return h
    wanted = max(1e-6, h * 1e-3) if largest <= 1e-15 else (0.01 / largest) ** (1.0 / ORDER)
    return min(100.0 * h, wanted, span)


@njit(DECORATION)
def trajectory(P, y, times, t, rtol, atol, max_steps, directions, terminal, states, event_times, event_states):
    """One trajectory from y at t through all times; returns (status, steps taken, steps refused, last time)."""
    none = np.empty(0)
    K = np.empty((STAGES, SIZE))
    new = np.empty(SIZE)
    before, after, trial = np.empty(EVENTS), np.empty(EVENTS), np.empty(EVENTS)
    done, taken, refused = 0, 0, 0
    for i in range(SIZE):
        P[SLOTS[i]] = y[i]
SET_TIME
    slopes(P, none, K[0])
    crossings(P, none, before)
    for i in range(SIZE):
        if not math.isfinite(K[0, i]):
            return NON_FINITE, taken, refused, t
    while done < times.shape[0] and times[done] <= t:
        for i in range(SIZE):
            states[done, i] = y[i]
        done += 1
    if done == times.shape[0]:
        return FINISHED, taken, refused, t
    end = times[times.shape[0] - 1]
    h = first_step(P, none, y, K, t, end - t, rtol, atol)
    previous = 1e-4
    shrunk = False
    non_finite = False
    while True:
        if taken + refused >= max_steps:
            return TOO_MANY_STEPS, taken, refused, t
        last = t + 1.01 * h >= end
        if last:
            h = end - t
        if h <= 1e-15 * abs(t) or h < 1e-300:
            return (NON_FINITE if non_finite else STEP_TOO_SMALL), taken, refused, t
STEP
        error = 0.0
        for i in range(SIZE):
            scale = atol[i] + rtol * max(abs(y[i]), abs(new[i]))
            error += ((ERROR_SUM) * h / scale) ** 2
        error = math.sqrt(error / SIZE)
        if not math.isfinite(error):
            h, shrunk, non_finite = 0.1 * h, True, True
            refused += 1
            continue
        if error > 1.0:
            h *= max(0.2, 0.9 * error ** (-1.0 / ORDER))
            shrunk, non_finite = True, False
            refused += 1
            continue
        non_finite = False
        taken += 1
        reach = 1.0
        stopped = False
        if EVENTS:
            crossings(P, none, after)
            for e in range(EVENTS):
                rising = before[e] < 0.0 <= after[e]
                falling = before[e] > 0.0 >= after[e]
                if not ((rising and directions[e] >= 0) or (falling and directions[e] <= 0)):
                    continue
                if event_times[e] < np.inf and not terminal[e]:
                    continue
                trial[:] = after
                theta = crossing_time(P, none, y, K, h, t, e, before[e], trial)
                if event_times[e] == np.inf:
                    event_times[e] = t + theta * h
                    place_dense(P, y, K, h, theta)
                    for i in range(SIZE):
                        event_states[e, i] = P[SLOTS[i]]
                if terminal[e] and theta <= reach:
                    reach, stopped = theta, True
            if stopped:
                for e in range(EVENTS):
                    if t + reach * h < event_times[e] < np.inf:
                        event_times[e] = np.inf
                        event_states[e, :] = np.nan
        while done < times.shape[0] and (times[done] <= t + reach * h or (last and not stopped)):
            place_dense(P, y, K, h, (times[done] - t) / h)
            for i in range(SIZE):
                states[done, i] = P[SLOTS[i]]
            done += 1
        if stopped:
            place_dense(P, y, K, h, reach)
            for i in range(SIZE):
                y[i] = P[SLOTS[i]]
            return EVENT, taken, refused, t + reach * h
        t = end if last else t + h
        for i in range(SIZE):
            y[i] = new[i]
            K[0, i] = K[STAGES - 1, i]
        for e in range(EVENTS):
            before[e] = after[e] if after[e] != 0.0 else (-1e-300 if before[e] > 0.0 else 1e-300)
        if last:
            return FINISHED, taken, refused, t
        growth = 10.0
        if error > 0.0:
            growth = 0.9 * error ** (-EXPONENT) * previous ** DAMPING
        growth = min(10.0, max(0.2, growth))
        if shrunk:
            growth = min(1.0, growth)
        previous = max(error, 1e-4)
        shrunk = False
        h *= growth


@njit("void(float64[:, ::1], float64[:, ::1], float64[::1], float64, float64, float64[::1], int64, int64[::1], "
      "boolean[::1], float64[:, :, ::1], int64[:, ::1], float64[::1], float64[:, ::1], float64[:, :, ::1], int64, "
      "int64)", DECORATION, cache=True)
def flow(P, y, times, start, rtol, atol, max_steps, directions, terminal, states, counts, reached, event_times,
         event_states, lo, hi):
    """Trajectories lo to hi of a batch; each is computed alone, so that none depends on how they are shared out."""
    for k in range(lo, hi):
        status, taken, refused, t = trajectory(
            P[k], y[k], times, start, rtol, atol, max_steps, directions, terminal, states[k], event_times[k],
            event_states[k])
        counts[k, 0] = status
        counts[k, 1] = taken
        counts[k, 2] = refused
        reached[k] = t
'''


def flow_source(
    slots: tuple[int, ...],
    time_slot: int | None = None,
    events: int = 0,
    tableau: Tableau = DORMAND_PRINCE,
    decoration: str = 'nogil=True, error_model="numpy", boundscheck=False',
) -> str:
    """The loop for states in given slots of the parameter vector, as text.

    Parameters
    ----------
    slots : tuple of int
        Where the components of the state stand in P.
    time_slot : int, optional
        Where the time stands, if the slopes depend on it.
    events : int
        Number of values that ``crossings`` fills.
    tableau : Tableau
    decoration : str
        Options of the compiled functions.

    Notes
    -----
    The module must define ``slopes`` and ``crossings`` before this text and import ``math``, ``numpy as np`` and
    ``njit``. What is public in it is ``flow``.
    """
    stages = len(tableau.stages)

    def time(indent: str, value: str) -> str:
        return f"{indent}P[{time_slot}] = {value}" if time_slot is not None else f"{indent}# autonomous"

    blocks = {
        "DENSE_WEIGHTS": "\n".join(
            f"    d{s} = {_horner(row)}" for s, row in enumerate(tableau.dense) if any(row)
        ),
        "DENSE_SUM": " + ".join(f"d{s} * K[{s}, i]" for s, row in enumerate(tableau.dense) if any(row)),
        "ERROR_SUM": _combination(tableau.error),
        "SET_EVENT_TIME": time(8 * " ", "t + theta * h"),
        "SET_FIRST_TIME": time(4 * " ", "t + h"),
        "SET_TIME": time(4 * " ", "t"),
        "STEP": "\n".join(_stage(tableau, s, time) for s in range(1, stages)),
    }
    constants = {
        "SLOTS": repr(slots),
        "STAGES": repr(stages),
        "SIZE": repr(len(slots)),
        "EVENTS": repr(events),
        "DECORATION": decoration,
        "ORDER": repr(tableau.order),
        "EXPONENT": repr(1 / tableau.order - 0.03),
        "DAMPING": "0.04",
        **{status.name: repr(int(status)) for status in FlowStatus},
    }
    text = _TEMPLATE
    for words in (blocks, constants):  # blocks first: they contain constants
        names = re.compile(r"\b(" + "|".join(words) + r")\b")
        text = names.sub(lambda found, words=words: words[found.group()], text)
    return text


def _number(value: Q) -> str:
    """The double nearest to a fraction; an integer division of Python is correctly rounded."""
    return repr(value.numerator / value.denominator)


def _horner(coefficients: tuple[Q, ...]) -> str:
    text = _number(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        text = f"({text}) * theta" + (f" + {_number(c)}" if c else "")
    return f"({text}) * theta"


def _combination(weights: tuple[Q, ...]) -> str:
    return " + ".join(f"{_number(w)} * K[{s}, i]" for s, w in enumerate(weights) if w)


def _stage(tableau: Tableau, stage: int, time) -> str:
    """One evaluation of the slopes; the last is at the new state."""
    target = "new[i] = P[SLOTS[i]]" if stage == len(tableau.stages) - 1 else "P[SLOTS[i]]"
    node = tableau.nodes[stage]
    return "\n".join(
        [
            "        for i in range(SIZE):",
            f"            {target} = y[i] + h * ({_combination(tableau.stages[stage])})",
            time(8 * " ", f"t + {_number(node)} * h" if node != 1 else "t + h"),
            f"        slopes(P, none, K[{stage}])",
        ]
    )
