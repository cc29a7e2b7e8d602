"""Solutions on the branch that begins where a parameter is infinite, at real parameters.

The start of a system is exact at an infinite value of one parameter (large ridge: perturbation theory). From
there the solution is followed downwards by factors of two, predicted by extrapolation in the logarithm and
corrected by Newton's method; points that differ in this parameter alone share the way. The levels are powers of
two whatever is asked for, so a point does not depend on its neighbours.
"""

from __future__ import annotations

import numpy as np

from theorykit.numerics.newton import Outcome, System, newton

__all__ = ["follow"]

_HIGHEST = 60
_ON_THE_WAY = 1e-9
_SUBSTEPS = (1, 4, 16, 64)


def follow(system: System, P: np.ndarray, row: int, tolerance: float = 1e-12) -> Outcome:
    """Solve at every point, along the path parameter in a row of P.

    Parameters
    ----------
    system : System
    P : array, shape (parameters, points)
        Real; the row of the path parameter is positive.
    row : int
    tolerance : float
        For the relative residual.

    Returns
    -------
    Outcome
        ``converged`` is False where the way down was lost; the iterate is then the last one on the way.
    """
    others = np.delete(P, row, axis=0)
    _, first, group = np.unique(others, axis=1, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    wanted = np.log2(P[row])
    chains = _Chains(system, P[:, first], row, tolerance)
    chains.run(_lowest(wanted, group, first.size))
    guess, level_ok = chains.guess(group, wanted)
    found = newton(system, P, guess, tolerance)
    strayed = _distance(found.X, guess) > 0.5
    found.converged &= level_ok & ~strayed
    found.steps += chains.steps[group]
    return found


def _lowest(wanted: np.ndarray, group: np.ndarray, count: int) -> np.ndarray:
    """The level (power of two) just below the smallest value wanted of each group."""
    lowest = np.full(count, np.inf)
    np.minimum.at(lowest, group, wanted)
    return np.floor(lowest).astype(int)


def _distance(X: np.ndarray, guess: np.ndarray) -> np.ndarray:
    return np.max(np.abs(X - guess), axis=0) / np.max(np.abs(guess), axis=0)


def _carried(X: np.ndarray, before: np.ndarray, times: np.ndarray | float) -> np.ndarray:
    """X moved on by ``times`` the last change: by its factor where that is moderate (power laws), else by the sum."""
    with np.errstate(all="ignore"):
        factor = X / before
        is_power = np.isfinite(factor) & (factor > 0.1) & (factor < 10)
        powers = X * np.where(is_power, factor, 1.0) ** times
    return np.where(is_power, powers, X + (X - before) * times)


class _Chains:
    """One way down for each group: states at the levels, from the top to the lowest one."""

    def __init__(self, system: System, P: np.ndarray, row: int, tolerance: float) -> None:
        self.system, self.P, self.row, self.tolerance = system, P, row, tolerance
        self.top, first = self._tops()
        self.states: dict[int, np.ndarray] = {}
        self.good: dict[int, np.ndarray] = {}
        self.steps = np.zeros(P.shape[1], dtype=int)
        self._first = first

    def at(self, exponents: np.ndarray | float, groups: np.ndarray) -> np.ndarray:
        P = self.P[:, groups].copy()
        P[self.row] = np.exp2(exponents)
        return P

    def _tops(self) -> tuple[np.ndarray, np.ndarray]:
        """Lowest level, from 10 in steps of 5, at which the plain iteration from the start contracts well."""
        count = self.P.shape[1]
        top = np.full(count, _HIGHEST)
        states = self.system.start(self.P).astype(float)
        left = np.arange(count)
        for level in range(10, _HIGHEST + 1, 5):
            if not left.size:
                break
            P = self.at(float(level), left)
            X = self.system.start(P).astype(float)
            with np.errstate(all="ignore"):
                for _ in range(24):
                    previous, X = X, self.system.step(P, X)
            contracted = _distance(X, previous) < 1e-11
            states[:, left], top[left] = X, level
            left = left[~contracted]
        return top, states

    def run(self, lowest: np.ndarray) -> None:
        """Follow every chain to its lowest level."""
        count = self.P.shape[1]
        lowest = np.minimum(lowest, self.top)
        for level in range(int(self.top.max()) + 1, int(lowest.min()) - 1, -1):
            state = np.zeros((self._first.shape[0], count))
            good = np.zeros(count, dtype=bool)
            begins = np.flatnonzero(self.top + 1 == level)
            if begins.size:  # one level above the top, so that there is something to extrapolate from
                out = newton(self.system, self.at(float(level), begins), self._first[:, begins], _ON_THE_WAY)
                state[:, begins], good[begins] = out.X, out.converged
            moves = np.flatnonzero((self.top >= level) & (lowest <= level))
            if moves.size:
                state[:, moves], good[moves] = self._descend(level, moves)
            self.states[level], self.good[level] = state, good

    def _descend(self, level: int, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """States one level below, with finer and finer steps where a step is too long."""
        above, good = self.states[level + 1][:, groups], self.good[level + 1][groups]
        state, reached = above.copy(), np.zeros(groups.size, dtype=bool)
        todo = np.flatnonzero(good)
        for substeps in _SUBSTEPS:
            if not todo.size:
                break
            X, ok = self._walk(level, groups[todo], substeps)
            state[:, todo[ok]] = X[:, ok]
            reached[todo[ok]] = True
            todo = todo[~ok]
        return state, reached

    def _walk(self, level: int, groups: np.ndarray, substeps: int) -> tuple[np.ndarray, np.ndarray]:
        X = self.states[level + 1][:, groups]
        ok = np.ones(groups.size, dtype=bool)
        higher = self.states.get(level + 2)
        known = np.zeros(groups.size, dtype=bool) if higher is None else self.good[level + 2][groups]
        before = X if higher is None else np.where(known, higher[:, groups], X)
        times = 1.0 / substeps
        for k in range(1, substeps + 1):
            P = self.at(level + 1 - k / substeps, groups)
            out = newton(self.system, P, _carried(X, before, times), _ON_THE_WAY, 12, polish=False)
            ok &= out.converged & (_distance(out.X, X) < 0.6)
            before, X, times = X, np.where(ok, out.X, X), 1.0
            self.steps[groups] += out.steps
        return X, ok

    def guess(self, group: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Starts for the points: between the states of the two levels around each."""
        below = np.floor(wanted).astype(int)
        X = np.empty((self._first.shape[0], group.size))
        ok = np.zeros(group.size, dtype=bool)
        for level in np.unique(below):
            at = np.flatnonzero(below == level)
            groups = group[at]
            high = self.top[groups] < level
            lower = self.states.get(int(level))
            upper = self.states.get(int(level) + 1)
            if lower is not None and upper is not None:
                part = wanted[at] - level
                X[:, at] = _carried(lower[:, groups], upper[:, groups], -part)
                ok[at] = self.good[int(level)][groups] & self.good[int(level) + 1][groups]
            # above its top a chain needs no states: the iteration from the start contracts even better
            far = at[high]
            if far.size:
                P = self.at(wanted[far], group[far])
                start = self.system.start(P).astype(float)
                for _ in range(24):
                    start = self.system.step(P, start)
                X[:, far], ok[far] = start, True
        return X, ok
