"""Attention trained by regularized empirical risk minimization, at finite sample ratio N/D = alpha.

Replica-symmetric equations of arXiv 2509.21936, derived in :mod:`theorykit.derivations.single_location.erm`,
averages by randomized quasi-Monte Carlo: the errors are standard errors over independent scramblings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from theorykit.errors import ConvergenceError, require_integer, require_real
from theorykit.numerics.acceleration import Acceleration
from theorykit.numerics.sampling import SOBOL_DIMENSIONS, spread
from theorykit.results import Estimate, Solution, Status
from theorykit.single_location.activations import Activation, Linear
from theorykit.single_location.alpha_path import AlphaPath
from theorykit.single_location.erm_exact import has_fixed_weights, solve_fixed_weights
from theorykit.single_location.erm_iteration import OVERLAPS, Regularized, State, solve_sample
from theorykit.single_location.erm_sample import Sample, draw_samples
from theorykit.single_location.moments import KeyMoments
from theorykit.single_location.population import _require_activation, _require_task
from theorykit.single_location.programs import propagate, risk_program
from theorykit.single_location.tasks import Spiked, Task

__all__ = ["STARTS", "erm"]

#: Longest sequence of activations that are not linear.
LONGEST_NONLINEAR = 8
STARTS = ("informed", "uninformed")
_TOLERANCE = 1e-5
_ACCEPTED = 3e-3  # residual that is put down to jumps of the minimizers
_EVENTS = 4  # nodes near a jump, in all samples together, below which there is no telling
_JUMPY = 1e-3  # share of V_hat_k due to jumps from which on they limit the accuracy
_APART, _SURE = 0.02, 6.0  # relative difference of the two forms of V_hat_k, in itself and in standard errors
_LARGEST = (0.3, 1.0, 1.0, 0.3, 1.0, 1.0)  # of a step in m, log(q - m^2), log V
_ROUGH = Acceleration(tolerance=1e-3, max_steps=150, largest=_LARGEST)
_WITH_JUMPS = Acceleration(tolerance=1e-4, max_steps=40, largest=_LARGEST)
_POLISH = Acceleration(tolerance=_TOLERANCE, max_steps=150, largest=_LARGEST)


def erm(
    task: Task,
    activation: Activation,
    alpha: float,
    ridge_k: float,
    ridge_v: float,
    start: str | Mapping[str, float] = "informed",
    nodes: int = 2**13,
    scramblings: int = 4,
    seed: int = 0,
) -> Solution:
    r"""Attention that minimizes :math:`\sum_i\frac12(y_i-f(X_i))^2+\frac{\lambda_k}2|k|^2+\frac{\lambda_v}2|v|^2`.

    Parameters
    ----------
    task : Spiked or Max
    activation : Activation
        Any; at most 8 tokens unless it is ``Linear()``.
    alpha : float
        Samples per dimension, N/D > 0.
    ridge_k, ridge_v : float
        Penalties, positive; ``ridge_k`` may be infinite: the key is 0 and attention uniform.
    start : "informed", "uninformed" or mapping
        Where the iteration starts: near the hidden directions, near none, or at order parameters ``m_k``, ``q_k``,
        ``V_k``, ``m_v``, ``q_v``, ``V_v``. Different starts may find different minima.
    nodes, scramblings : int
        Quasi-Monte Carlo points of one scrambling (a power of 2), and number of independent scramblings.
    seed : int
        Of the scramblings.

    Returns
    -------
    Solution
        ``m_k q_k V_k m_v q_v V_v``, ``test_risk`` (E(y - f)^2, noise included), ``train_loss`` (with the factor
        1/2, per sample), ``objective`` (per dimension), all with standard errors; ``rs_stable`` (bool),
        ``spectral_radius`` of replica symmetry, ``jump_share``: part of V_hat_k that is due to jumps of the
        minimizer; ``form_difference``: V_hat_k by parts over V_hat_k with pointwise derivatives, minus 1, at the
        solution of the pointwise equations: 0 within its error where there are no jumps, otherwise minus that
        part. Where either tells of jumps the equations by parts are solved: status ``noise_floor``, larger errors.

    Raises
    ------
    ValueError
        An activation with a kink (its proximal problem is not solved here), or too many tokens.
    ConvergenceError
        The iteration does not converge; ``last`` holds the order parameters.

    Notes
    -----
    Derived in ``single_location.erm`` from arXiv 2509.21936, finite samples.

    Exact for convex problems; for the others replica symmetry is an assumption, see ``rs_stable``. With fixed weights
    (one token under normalized attention, ``ridge_k=inf``) the result is that of ridge regression, exact.

    Examples
    --------
    >>> from theorykit import single_location as slr
    >>> found = erm(slr.Spiked(nu=4, length=1, noise=0.5), slr.Softmax(), alpha=2, ridge_k=1, ridge_v=0.3)
    >>> round(found.test_risk, 12)
    0.426470588235
    """
    return _on_path(AlphaPath(), task, activation, alpha, ridge_k, ridge_v, start, nodes, scramblings, seed)


def _on_path(
    path: AlphaPath,
    task: Task,
    activation: Activation,
    alpha: float,
    ridge_k: float,
    ridge_v: float,
    start: str | Mapping[str, float],
    nodes: int,
    scramblings: int,
    seed: int,
) -> Solution:
    """The solution of :func:`erm`, from those before it on a path of problems that differ in alpha only."""
    fit = _checked(task, activation, alpha, ridge_k, ridge_v)
    first = _start_point(task, activation, start)
    exponent = _exponent(nodes)
    count = require_integer("scramblings", scramblings, low=2)
    seed = require_integer("seed", seed, low=0)
    name = start if isinstance(start, str) else "given"
    if has_fixed_weights(task, activation, fit.ridge_k):
        return solve_fixed_weights(task, activation, fit, name)
    _require_length(task, activation)
    _require_smooth(activation)
    if not path.samples:
        path.samples = draw_samples(task, activation, exponent, count, seed)
    starts = path.starts(fit.alpha)
    if starts is None:
        rough = draw_samples(task, activation, min(exponent, 10), 1, seed + 1)[0]
        starts = [_rough_solution(rough, fit, _with_value(rough, first, fit))] * count
    return _solve(path, fit, starts, name)


def _with_value(rough: Sample, first: dict[str, float], fit: Regularized) -> dict[str, float]:
    """A start without overlaps of the value: near the best one for its key, stiffer the more samples there are."""
    if "m_v" in first:
        return first
    weights = rough.attention({**first, "m_v": 0.0, "q_v": 1.0, "V_k": 1.0, "V_v": 1.0})
    m_v = 0.9 * weights["hidden"] / weights["squares"]
    V = 1.0 / (2.0 + 0.5 * fit.alpha)
    return {**first, "V_k": V, "m_v": m_v, "q_v": 1.3 * m_v**2 + 0.01, "V_v": V}


def _rough_solution(rough: Sample, fit: Regularized, first: dict[str, float]) -> dict[str, float]:
    """The solution on few nodes, where there is one."""
    near, _ = solve_sample(rough, fit, first, _ROUGH)
    return near.overlaps if near.outcome is not None and near.outcome.residual < 0.1 else first


def _solve(path: AlphaPath, fit: Regularized, starts: Sequence[Mapping[str, float]], name: str) -> Solution:
    """The fixed point of every sample, and their spread."""
    samples = path.samples
    found = _each(samples, fit, starts, _POLISH)
    evidence = _evidence([o for _, o in found])
    jumps = evidence.decisive
    if jumps:
        starts = [state.overlaps for state, _ in found]
        found = _each(samples, fit, starts, _WITH_JUMPS, by_parts=True)
    residual = max(_residual(state) for state, _ in found)
    if residual > (_ACCEPTED if jumps else 10 * _TOLERANCE):
        state = max(found, key=lambda f: _residual(f[0]))[0]
        raise ConvergenceError.not_reached(
            "fixed point of the replica equations", residual=residual, tolerance=_TOLERANCE,
            steps=_steps(state), start=name, last=state.overlaps,
            advice="try another start, larger penalties or more nodes",
        )  # fmt: skip
    path.add(fit.alpha, [state.overlaps for state, _ in found])
    return _solution(samples, found, name, residual, evidence)


@dataclass(frozen=True)
class _Evidence:
    """What speaks for jumps of the minimizers at a fixed point of the pointwise equations.

    ``share``: of V_hat_k, from the density of equal minima; ``difference``: V_hat_k by parts over that with pointwise
    derivatives, minus 1, which sees jumps however they were missed, and is noisier.
    """

    share: float
    difference: Estimate
    decisive: bool


def _evidence(observables: Sequence[Mapping[str, float]]) -> _Evidence:
    share = float(np.mean([o["jump_share"] for o in observables]))
    mean, error = spread(np.array([o["by_parts"] for o in observables]))
    counted = share > _JUMPY and sum(o["events"] for o in observables) >= _EVENTS
    apart = abs(mean) > max(_APART, _SURE * error)
    return _Evidence(share, Estimate(mean, error, "standard error"), bool(counted or apart))


def _each(
    samples: Sequence[Sample],
    fit: Regularized,
    starts: Sequence[Mapping[str, float]],
    options: Acceleration,
    by_parts: bool = False,
) -> list[tuple[State, dict[str, float]]]:
    """Every sample on its own."""

    def one(sample: Sample, start: Mapping[str, float]) -> tuple[State, dict[str, float]]:
        return solve_sample(sample, fit, start, options, by_parts)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, samples, starts))


def _residual(state: State) -> float:
    return state.outcome.residual if state.outcome is not None else math.inf


def _steps(state: State) -> int:
    return state.outcome.steps if state.outcome is not None else 0


def _solution(
    samples: Sequence[Sample],
    found: Sequence[tuple[State, dict[str, float]]],
    name: str,
    residual: float,
    evidence: _Evidence,
) -> Solution:
    """Means over the samples; their errors hold the residual, and jumps that were left out because they are rare."""
    columns: dict[str, list[float]] = {n: [s.overlaps[n] for s, _ in found] for n in OVERLAPS}
    columns["test_risk"] = _test_risks(samples, [s.overlaps for s, _ in found])
    for key in ("train_loss", "objective"):
        columns[key] = [o[key] for _, o in found]
    jumps, share = evidence.decisive, evidence.share
    left_out = 0.0 if jumps else 0.3 * share
    values: dict[str, Any] = {}
    for key, column in columns.items():
        mean, error = spread(np.array(column))
        # a residual moves the solution by more than itself where the map contracts slowly
        values[key] = Estimate(mean, error + (3.0 * residual + left_out) * abs(mean), "standard error")
    radius = float(np.mean([o["spectral_radius"] for _, o in found]))
    values |= {"rs_stable": radius < 1.0, "spectral_radius": radius}
    values |= {"jump_share": share, "form_difference": evidence.difference}
    messages = []
    if jumps:
        messages.append(
            f"jumps of the minimizer make up {share:.2g} of V_hat_k, its two forms differ by {evidence.difference}, "
            "relatively: solved in the form by parts, whose sampling errors are larger"
        )
    if radius >= 1.0:
        messages.append("replica symmetry is unstable: theory and training may differ by some percent")
    steps = max(_steps(state) for state, _ in found)
    status = Status.NOISE_FLOOR if jumps else Status.CONVERGED
    return Solution(values, status, residual, steps, name, messages=tuple(messages))


def _test_risks(samples: Sequence[Sample], overlaps: Sequence[Mapping[str, float]]) -> list[float]:
    """Population risk at the order parameters of each sample: by quadrature where that is quick, else sampled."""
    task, activation = samples[0].task, samples[0].activation
    if isinstance(task, Spiked) or activation.kind == "elementwise":
        moments = KeyMoments(task, activation, False)
        return [
            float(moments.risk_at(o["m_k"], o["q_k"], o["m_v"], o["q_v"], task.noise)["risk"])
            for o in overlaps
        ]
    compiled = risk_program(activation)
    found = []
    for sample, o in zip(samples, overlaps, strict=True):
        mean = sample.attention(o)
        inputs = {
            "miss": 1.0 - mean["hidden"],
            "miss_square": 1.0 - 2.0 * mean["hidden"] + mean["hidden_square"],
            "leak": mean["squares"] - mean["hidden_square"],
            "m_v": o["m_v"],
            "q_v": o["q_v"],
            "noise": task.noise,
        }
        found.append(float(propagate(compiled, inputs, ("risk",))["risk"]))
    return found


# --------------------------------------------------------------------------- arguments


def _checked(task: Task, activation: Activation, alpha: Any, ridge_k: Any, ridge_v: Any) -> Regularized:
    _require_task(task)
    _require_activation(activation)
    return Regularized(
        require_real("alpha", alpha, low=0, low_open=True),
        require_real("ridge_k", ridge_k, low=0, low_open=True, allow_inf=True),
        require_real("ridge_v", ridge_v, low=0, low_open=True),
    )


def _require_length(task: Task, activation: Activation) -> None:
    longest = task.lengths[-1][0]
    most = LONGEST_NONLINEAR if not isinstance(activation, Linear) else (SOBOL_DIMENSIONS - 2) // 3
    if longest > most:
        raise ValueError(f"length must be at most {most} for {activation.label} in erm, got {longest}")


def _require_smooth(activation: Activation) -> None:
    kinks = activation.formula.kinks()
    if kinks:
        raise ValueError(
            f"activation must be twice differentiable in erm, got {activation.label} with a kink at x = {kinks[0]:g}; "
            "train simulates it"
        )


def _exponent(nodes: Any) -> int:
    count = require_integer("nodes", nodes, low=2)
    if count & (count - 1) or not 2**8 <= count <= 2**20:
        raise ValueError(f"nodes must be a power of 2 in [256, 1048576], got {count}")
    return count.bit_length() - 1


def _start_point(task: Task, activation: Activation, start: Any) -> dict[str, float]:
    """Order parameters at which the iteration starts."""
    if isinstance(start, Mapping):
        if set(start) != set(OVERLAPS):
            raise ValueError(f"start must give {', '.join(OVERLAPS)}, got {', '.join(map(str, start))}")
        given = {
            n: require_real(f"start[{n!r}]", start[n], low=None if n.startswith("m") else 0) for n in OVERLAPS
        }
        for a in "kv":
            if given[f"q_{a}"] <= given[f"m_{a}"] ** 2 or given[f"V_{a}"] == 0:
                raise ValueError(f"start must have q_{a} > m_{a}**2 and V_{a} > 0, got {dict(start)}")
        return given
    if start == "uninformed":
        return {"m_k": 0.05, "q_k": 0.1, "V_k": 0.5, "m_v": 0.1, "q_v": 0.1, "V_v": 0.5}
    if start != "informed":
        raise ValueError(
            f"start must be 'informed', 'uninformed' or a mapping of order parameters, got {start!r}"
        )
    scale = math.sqrt(task.nu) if isinstance(task, Spiked) else task.nu
    m_k = 0.9 * min(scale, 1.5) if activation.kind == "normalized" else 0.5 * min(scale, 1.0)
    return {"m_k": m_k, "q_k": 1.2 * m_k**2 + 0.1}


def _batch(
    points: Sequence[tuple[tuple[Any, ...], dict[str, Any]]], on_done: Callable[[], None] = lambda: None
) -> list[Any]:
    """Many problems, those that differ in alpha only one after the other, each from the solutions before."""
    import inspect

    signature = inspect.signature(erm)
    calls = []
    for args, kwargs in points:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        calls.append(dict(bound.arguments))
    order = sorted(range(len(calls)), key=lambda i: (_family(calls[i]), -float(calls[i]["alpha"]), i))
    results: list[Any] = [None] * len(calls)
    family, path = None, AlphaPath()
    for index in order:
        call = calls[index]
        if family != _family(call) or not isinstance(call["start"], str):
            family, path = _family(call), AlphaPath()
        try:
            try:
                results[index] = _on_path(path, **call)
            except ConvergenceError:  # once more, from the start that was asked for
                if path.starts(float(call["alpha"])) is None:
                    raise
                path = AlphaPath()
                results[index] = _on_path(path, **call)
        except ConvergenceError as error:
            results[index], path = error, AlphaPath()
        on_done()
    return results


def _family(call: Mapping[str, Any]) -> str:
    return repr(sorted((k, repr(v)) for k, v in call.items() if k != "alpha"))


erm.batch = _batch  # type: ignore[attr-defined]
