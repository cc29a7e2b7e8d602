"""Fixed points of the replica equations of trained attention: one sample, then several for the error.

The iteration runs on conjugates, in which every point is legal: m_hat, log q_hat, log(ridge + V_hat) of k and
v. Nothing of the mathematics is repeated here: averages come from compiled samples, equations from the compiled
record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from theorykit.numerics.acceleration import Acceleration, Outcome, iterate
from theorykit.single_location.activations import Linear
from theorykit.single_location.erm_sample import Sample
from theorykit.single_location.programs import program
from theorykit.single_location.tasks import Spiked

__all__ = ["OVERLAPS", "Regularized", "State", "solve_sample", "to_coordinates", "to_overlaps"]

OVERLAPS = ("m_k", "q_k", "V_k", "m_v", "q_v", "V_v")
_HATS = ("m_hat_k", "q_hat_k", "V_hat_k", "m_hat_v", "q_hat_v", "V_hat_v")
# Two forms of the conjugates of m have equal averages. With many samples the solution is near the population optimum,
# where m_hat and m V_hat nearly cancel: their sampling errors do so too in the forms that contain V_hat.
_MANY = 100.0
_STEP = 0.003  # fields are moved by this much where the effect of jumps on stability is judged


@dataclass(frozen=True)
class Regularized:
    """Sample ratio and penalties."""

    alpha: float
    ridge_k: float
    ridge_v: float


@dataclass
class State:
    """What is known at one point of the iteration of a sample."""

    overlaps: dict[str, float]
    means: dict[str, float]
    jumps: dict[str, float]
    outcome: Outcome | None = None


class _Map:
    """One step of the iteration for one sample; remembers the last averages."""

    def __init__(self, sample: Sample, fit: Regularized, tolerance: float, by_parts: bool = False) -> None:
        self.sample, self.fit, self.tolerance, self.by_parts = sample, fit, tolerance, by_parts
        self.convex = isinstance(sample.activation, Linear)
        task = sample.task
        infinite = not isinstance(task, Spiked) and math.isinf(task.nu)
        many = fit.alpha > _MANY
        key = "m_hat_k_infinite" if infinite or many else "m_hat_k"
        value = "m_hat_v_smooth" if many else "m_hat_v"
        names = (
            key,
            "q_hat_k",
            "V_hat_k_pointwise",
            value,
            "q_hat_v",
            "V_hat_v_pointwise",
            "V_hat_k",
            "V_hat_v",
        )
        self.hats = program("erm", names)
        self.order = program("erm", OVERLAPS)
        self.jumps: dict[str, float] = {}
        self.state: State | None = None
        self.residual = math.inf

    def from_overlaps(self, overlaps: Mapping[str, float], thorough: bool) -> np.ndarray:
        """Conjugates at given order parameters."""
        means = self.sample.means(overlaps, thorough and not self.convex)
        if thorough and not self.convex:
            self.jumps = self.sample.jumps()
        jumps = self.jumps or dict.fromkeys(("k", "v", "rate", "roughness", "events"), 0.0)
        self.state = State(dict(overlaps), means, jumps)
        hats = dict(zip(_HATS, map(float, self.conjugates(means)[:6]), strict=True))
        if hats["V_hat_k"] + self.fit.ridge_k <= 0 or hats["V_hat_v"] + self.fit.ridge_v <= 0:
            return np.full(6, math.nan)
        penalties = {"ridge_k": self.fit.ridge_k, "ridge_v": self.fit.ridge_v}
        new = self.order.observables(self.order.vector({**hats, **penalties}), np.empty(0))
        return to_coordinates(dict(zip(OVERLAPS, map(float, new), strict=True)))

    def conjugates(self, means: Mapping[str, float]) -> np.ndarray:
        """The compiled equations at sampled averages.

        By parts: the mean divergences of the responses are those that integration by parts gives, jumps included.
        """
        assert self.state is not None
        inputs = {f"mean_{n}": v for n, v in means.items()}
        inputs |= {**self.state.overlaps, "alpha": self.fit.alpha, "noise": self.sample.task.noise}
        hats = self.hats.observables(self.hats.vector(inputs), np.empty(0))
        if not self.by_parts:
            return hats
        inputs |= {"mean_k_div": -hats[6] / self.fit.alpha, "mean_v_div": -hats[7] / self.fit.alpha}
        return self.hats.observables(self.hats.vector(inputs), np.empty(0))

    def __call__(self, u: np.ndarray, step: int) -> np.ndarray:
        """The map at a point; the search is thorough now and then, near jumps, and before convergence is believed."""
        near_jumps = self.jumps.get("events", 0.0) > 0 and self.residual < 30 * self.tolerance
        thorough = step % 6 == 0 or near_jumps
        new = self._moved(u, thorough)
        if not thorough and self.residual <= self.tolerance:
            new = self._moved(u, True)
        return new

    def _moved(self, u: np.ndarray, thorough: bool) -> np.ndarray:
        new = self.from_overlaps(to_overlaps(u), thorough)
        if np.isnan(new).any():  # negative stiffness: V is too large for the map, back by one step
            new = u - np.array([0, 0, 1.0, 0, 0, 1.0])
        self.residual = float(np.abs(new - u).max())
        return new


def to_coordinates(overlaps: Mapping[str, float]) -> np.ndarray:
    """Coordinates in which every point is legal: m, log(q - m^2), log V of k, then of v."""
    found = []
    for a in "kv":
        m, q, V = (overlaps[f"{n}_{a}"] for n in ("m", "q", "V"))
        found += [m, math.log(max(q - m * m, 1e-15 * q)), math.log(V)]
    return np.array(found)


def to_overlaps(u: np.ndarray) -> dict[str, float]:
    """Order parameters of coordinates."""
    values = []
    for m, spread, stiff in (u[:3], u[3:]):
        values += [m, m * m + math.exp(spread), math.exp(stiff)]
    return dict(zip(OVERLAPS, map(float, values), strict=True))


def solve_sample(
    sample: Sample,
    fit: Regularized,
    start: Mapping[str, float],
    options: Acceleration,
    by_parts: bool = False,
) -> tuple[State, dict[str, float]]:
    """The fixed point of one sample from order parameters: its state, and further observables."""
    step = _Map(sample, fit, options.tolerance, by_parts)
    outcome = iterate(step, to_coordinates(start), options)
    if outcome.residual > options.tolerance:
        step.from_overlaps(to_overlaps(outcome.best), True)
    assert step.state is not None
    step.state.outcome = outcome
    return step.state, _observables(step)


def _observables(step: _Map) -> dict[str, float]:
    """Objective, losses, stability and jumps at the current state of a map."""
    state, fit = step.state, step.fit
    assert state is not None
    means, at = state.means, state.overlaps
    hats = step.conjugates(means)
    values: dict[str, Any] = dict(zip(_HATS, map(float, hats[:6]), strict=True))
    values |= {"ridge_k": fit.ridge_k, "ridge_v": fit.ridge_v, "alpha": fit.alpha, "mean_loss": means["loss"]}
    energy = program("erm", ("objective",))
    objective = float(energy.observables(energy.vector(values), np.empty(0))[0])
    weights = np.array([at["V_k"], at["V_v"]])[:, None] ** 2
    smooth = np.array([[means["dkk"], means["dkv"]], [means["dkv"], means["dvv"]]])
    rough = smooth + np.array([[state.jumps["roughness"] / _STEP, 0.0], [0.0, 0.0]])
    # V_hat_k may be negative, and 0 in between: there the whole stiffness 1/V_k is what counts
    size = max(abs(values["V_hat_k"]), 1e-2 * abs(fit.ridge_k + values["V_hat_k"]))
    return {
        "objective": objective,
        "train_loss": means["loss"],
        "spectral_radius": float(np.abs(np.linalg.eigvals(fit.alpha * weights * rough)).max()),
        "smooth_radius": float(np.abs(np.linalg.eigvals(fit.alpha * weights * smooth)).max()),
        "jump_share": fit.alpha * abs(state.jumps["k"]) / size,
        "by_parts": (float(hats[6]) - values["V_hat_k"]) / size,
        "events": state.jumps["events"],
    }
