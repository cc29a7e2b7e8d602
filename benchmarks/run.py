"""Speed of theorykit as ratios, every ratio from one run on one machine.

    python benchmarks/run.py            all
    python benchmarks/run.py single     those whose name contains a word

Each benchmark prints what it compares, both times and the ratio with the goal it was set beforehand. Nothing here is a
test: times depend on the machine and on what else it does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from numba import njit
from scipy.optimize import minimize
from trajectories import chain_against_vectors, trajectories_against_jitcode, trajectories_against_scipy

import theorykit as tk
from theorykit import single_location as slr
from theorykit.codegen.program import Program
from theorykit.numerics.quadrature import integrate
from theorykit.single_location.programs import program

Report = tuple[str, float, float, str]  # what, time or ratio of theorykit, of the other, goal


def side_by_side(
    first: Callable[[], object], second: Callable[[], object], repeat: int = 15
) -> tuple[float, float]:
    """Medians of the processor times of two jobs, in seconds, run in turns: what else a machine does falls on both."""
    times = np.empty((2, repeat))
    for k in range(repeat):
        for row, work in zip(times, (first, second), strict=True):
            start = time.process_time()
            work()
            row[k] = time.process_time() - start
    ours, theirs = np.median(times, axis=1)
    return float(ours), float(theirs)


class Counting:
    """A compiled plan that counts the integrand values it computes."""

    def __init__(self, compiled: Program) -> None:
        self._compiled, self.count = compiled, 0
        self.layout, self.breakpoints = compiled.layout, compiled.breakpoints
        self.observables = compiled.observables

    def run(self, stage: int, parameters: np.ndarray, grids: dict, tables: list) -> np.ndarray:
        layout = self.layout["stages"][stage]
        loops = [*layout["dims"], *([layout["reduced"]] if layout["reduced"] else [])]
        self.count += int(np.prod([grids[v].nodes.size for v in loops]))
        return self._compiled.run(stage, parameters, grids, tables)


# ------------------------------------------------------------------------------------- the textbook way


def textbook_moments(kernel: Callable, nu: float, m: float, q: float, order: int) -> tuple[float, float]:
    """A and B of three tokens by tensor Gauss-Hermite quadrature of the given order."""
    x, w = np.polynomial.hermite_e.hermegauss(order)
    w = w / np.sqrt(2 * np.pi)
    fields = [np.sqrt(nu) * m + np.sqrt(q) * x, np.sqrt(q) * x, np.sqrt(q) * x]
    weights = kernel(fields[0][:, None, None], fields[1][None, :, None], fields[2][None, None, :])
    measure = w[:, None, None] * w[None, :, None] * w[None, None, :]
    return float(np.sum(measure * weights[0])), float(np.sum(measure * sum(s**2 for s in weights)))


def normalized(b: Callable) -> Callable:
    def weights(*scores: np.ndarray) -> list[np.ndarray]:
        values = [b(s) for s in scores]
        total = sum(values)
        return [v / total for v in values]

    return weights


def elementwise(sigma: Callable) -> Callable:
    def weights(*scores: np.ndarray) -> list[np.ndarray]:
        shape = np.broadcast_shapes(*[s.shape for s in scores])
        return [np.broadcast_to(sigma(s), shape) for s in scores]

    return weights


def textbook_optimum(kernel: Callable, nu: float, order: int) -> float:
    def excess(point: np.ndarray) -> float:
        m, r = point
        first, second = textbook_moments(kernel, nu, m, m * m + r * r, order)
        return 1 - first**2 / second

    return float(
        minimize(excess, (1.0, 0.3), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-12}).fun
    )


def order_needed(kernel: Callable, task: slr.Spiked, activation: object, m: float) -> int:
    """Smallest order (of a list) with the accuracy of 1e-10 of the excess risk at the optimum."""
    first, second = slr.attention_moments(task, activation, m, m * m)
    truth = 1 - float(first) ** 2 / float(second)
    for order in (20, 30, 40, 60, 80, 100, 130, 160):
        a, b = textbook_moments(kernel, task.nu, m, m * m, order)
        if abs(1 - a**2 / b - truth) < 1e-10:
            return order
    return 160


def curve_of_four_activations() -> Report:
    """200 signal strengths, four activations, L = 3: all of ours, five strengths of the textbook scaled up."""
    from scipy.special import erf

    grid = np.linspace(0.2, 12.0, 200)
    kernels = {
        "softmax": (slr.Softmax(), normalized(np.exp)),
        "softplus": (slr.Softplus(), normalized(lambda s: np.logaddexp(0, s))),
        "erf": (slr.Erf(), elementwise(lambda s: 1 + erf(s))),
        "linear": (slr.Linear(), elementwise(lambda s: 1 + s)),
    }
    ours = theirs = 0.0
    for activation, weights in kernels.values():
        task = slr.Spiked(nu=1.0, length=3)
        slr.optimal_risk(task, activation)  # compiled before the clock starts
        start = time.process_time()
        tk.curve(slr.optimal_risk, task, activation, over={"nu": grid})
        ours += time.process_time() - start
        sample = grid[::50]
        for nu in sample:
            best = slr.optimal_risk(task.replace(nu=nu), activation)
            order = order_needed(weights, task.replace(nu=nu), activation, float(best.m_k))
            begin = time.process_time()
            textbook_optimum(weights, nu, order)
            theirs += (time.process_time() - begin) * grid.size / sample.size
    return (
        "curve of 200 strengths, four activations, L = 3 (s; textbook from 4 strengths)",
        ours,
        theirs,
        ">= 20",
    )


# ------------------------------------------------------------------------------------- the bare loop


@njit
def bare_loop(
    kernel: np.ndarray, hidden: np.ndarray, weights: np.ndarray, t: np.ndarray, rounds: int
) -> float:
    """The integrand values of the Bayes risk and nothing else: three exponentials and what they multiply."""
    total = 0.0
    for _ in range(rounds):
        for i in range(t.shape[0]):
            for j in range(kernel.shape[0]):
                u = t[i] * kernel[j]
                decay = np.exp(-u)
                complement = 1.0 - decay if u > 1.0 else -np.expm1(-u)
                total += weights[j] * (u * decay + np.exp(-t[i] * hidden[j]) + complement + decay)
    return total


def single_value_against_bare_loop() -> Report:
    """One Bayes risk, error rule included, against its number of integrand values in a bare compiled loop."""
    task = slr.Spiked(nu=4, length=3)
    compiled = program("bayes_risk", ("bayes_excess",), task="spiked")
    vector = compiled.vector({"nu": 4.0, "L": 3.0})
    counting = Counting(compiled)
    integrate(counting, vector)
    evaluations = counting.count
    x = np.linspace(-10, 10, 400)
    weights, t = np.exp(-x * x / 2), np.exp(np.linspace(-26, 8, 200))
    rounds = max(1, round(evaluations / (x.size * t.size)))
    bare = lambda: bare_loop(np.exp(2 * x), np.exp(2 * x + 4), weights, t, rounds)  # noqa: E731
    bare(), slr.bayes_risk(task)
    ours, theirs = side_by_side(lambda: slr.bayes_risk(task), bare, 41)
    theirs *= evaluations / (rounds * x.size * t.size)
    return (
        f"single value, {evaluations} integrand values (s, bare loop s)",
        ours,
        theirs,
        "<= 2 times the loop",
    )


def long_sequences() -> Report:
    """Time at L = 10^6 against L = 3, Bayes risk and softmax moments together."""

    def work(length: int) -> Callable[[], object]:
        task = slr.Spiked(nu=9, length=length)
        return lambda: (slr.bayes_risk(task), slr.attention_moments(task, slr.Softmax(), 2.5, 8.0))

    work(3)(), work(10**6)()
    return (
        "L = 10^6 (s) against L = 3 (s)",
        *side_by_side(work(10**6), work(3)),
        "<= 2 times L = 3",
    )


BENCHMARKS = (
    single_value_against_bare_loop,
    long_sequences,
    curve_of_four_activations,
    trajectories_against_scipy,
    trajectories_against_jitcode,
    chain_against_vectors,
)


def main(words: list[str]) -> None:
    for benchmark in BENCHMARKS:
        if words and not any(word in benchmark.__name__ for word in words):
            continue
        what, ours, theirs, goal = benchmark()
        print(f"{benchmark.__name__}\n  {what}")
        print(
            f"  theorykit {ours:.4g}, other {theirs:.4g}, other/theorykit {theirs / ours:.3g} (goal: {goal})"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
