"""Where the theory is set beside simulations of the finite model: points fixed beforehand.

The kinds: the gradient at one overlap, its mean with other weights than the softmax, the mean overlap along a climb
(with the mean effect of step noise), the stationary law at a pole, the side on which trials end that start around the
separatrix, and the basins of a uniform start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from theorykit.results import Estimate
from theorykit.signal_recovery.model import Model
from theorykit.theory import ValidationPoint

if TYPE_CHECKING:
    import numpy as np

__all__ = ["validation_points"]

#: theta, fraction, beta, tokens, dimension, rho, whether the variances are compared, samples.
_GRADIENTS = (
    (1.5, 0.3, 1.0, 1000, 1000, -0.5, False, 20_000),  # heavy tails: the variances converge too slowly
    (2.0, 0.5, 0.7, 400, 400, 0.8, False, 50_000),
    (1.0, 0.1, 1.0, 2000, 20, 0.5, True, 10_000),
    (0.25, 0.05, 1.0, 10_000, 100, 0.0, True, 2000),
    (3.0, 0.3, 1.0, 2000, 20, -0.7, True, 10_000),
    (1.0, 0.5, 0.4, 1000, 2000, 0.4, True, 20_000),
    (0.5, 0.3, 0.5, 1000, 1000, -0.2, True, 20_000),
    (1.0, 0.9, 0.8, 1000, 10, 0.9, True, 20_000),
    (2.0, 0.05, 0.6, 2000, 50, -0.9, True, 10_000),
    (0.8, 0.1, 0.8, 1000, 300, 0.3, True, 20_000),
)
#: Other weights: kernel, theta, fraction, beta, tokens, dimension, rho, samples. Here the slope is that of the limit.
_KERNELS = (
    ("relu(t)", 1.5, 0.1, 1.0, 4000, 20, 0.3, 1000),
    ("log(1 + exp(t))", 2.0, 0.3, 1.0, 4000, 400, -0.5, 1000),
    ("cosh(t)", 1.5, 0.5, 0.8, 4000, 20, 0.6, 1000),
)
#: theta, fraction, beta, tokens, dimension, start, step size, steps. The step sizes are small: the mean of finite steps
#: differs from the flow at second order in the step, and the spread about the mean is neglected. From -0.8 the pole -1
#: traps; the last but one is a trap that the dimension makes, the last its like in few dimensions.
_CLIMBS = (
    (0.5, 0.3, 1.0, 1000, 100, -0.95, 0.002, 4000),
    (0.5, 0.3, 0.5, 1000, 1000, -0.2, 0.01, 1000),
    (3.0, 0.3, 1.0, 2000, 20, -0.8, 0.0025, 2000),
    (3.0, 0.3, 1.0, 2000, 20, -0.4, 0.002, 1200),
    (1.0, 0.1, 1.0, 4000, 50, 0.0, 0.01, 800),
    (1.0, 0.5, 0.5, 1000, 300, 0.0, 0.005, 1600),
    (2.0, 0.2, 0.7, 500, 50, -0.6, 0.005, 800),
    (1.0, 0.3, 0.5, 1000, 4000, -0.9, 0.0003, 3000),
    (1.0, 0.3, 0.5, 1000, 20, -0.9, 0.005, 3000),
)
#: theta, fraction, beta, tokens, dimension, pole, step size, steps of which the second half is averaged.
_STATIONARY = (
    (1.5, 0.3, 0.5, 1000, 10, 1, 0.05, 800),
    (1.0, 0.5, 0.5, 1000, 50, 1, 0.02, 1200),
    (3.0, 0.3, 1.0, 2000, 10, -1, 0.004, 3000),
)
#: Starts around the separatrix, some 1.5 spreads apart, at: theta, fraction, beta, tokens, dimension, step size, steps.
_SPLITTINGS = (-0.593, -0.572, -0.551)
_SPLITTING = (3.0, 0.3, 1.0, 500, 5, 0.004, 1500)
#: Dimensions in which uniform starts are tried: theta, fraction, beta, tokens, dimension, step size, steps.
_BASINS = ((3.0, 0.3, 1.0, 500, 3, 0.005, 1500), (3.0, 0.3, 1.0, 500, 6, 0.005, 1500))

#: A sample is a sequence; a trial of a climb takes many of them, and counts as so many samples. Least number of trials.
_SAMPLES_PER_TRIAL, _LEAST = 300, 32
_CLIMBERS, _SPLIT, _UNIFORM = 32, 100, 200  # trials that are enough


def validation_points() -> tuple[ValidationPoint, ...]:
    """All the points, each with its theory and its simulation."""
    points = [_gradient_point(*row) for row in _GRADIENTS]
    points += [_kernel_point(*row) for row in _KERNELS]
    points += [_climb_point(*row) for row in _CLIMBS]
    points += [_stationary_point(*row) for row in _STATIONARY]
    points += [_splitting_point(start) for start in _SPLITTINGS]
    return tuple(points + [_basin_point(*row) for row in _BASINS])


def _neglected(model: Model, tokens: int) -> float:
    """Relative size of the next order in 1/L of the noise of the gradient, which is not derived.

    Fourth powers of weights correlate with their sum like exp(4 beta^2)/L; three times that is above what direct
    sampling shows at the sizes of the points, and beyond a fifth the theory says nothing.
    """
    return 3.0 * math.exp(4.0 * model.beta**2) / tokens


def _trials(samples: int) -> int:
    """Number of trials that a number of samples pays for."""
    return max(_LEAST, samples // _SAMPLES_PER_TRIAL)


def _described(what: str, model: Model, **rest: Any) -> dict[str, Any]:
    shown = {"theta": model.theta, "fraction": model.fraction, "beta": model.beta}
    return {"what": what, **shown, **rest}


def _mean(name: str, sample: np.ndarray) -> dict[str, Estimate]:
    """Mean over trials with its standard error, widened to make z of few trials as wide as of many."""
    count = sample.size
    spread = float(sample.std(ddof=1)) * math.sqrt((count - 1) / (count - 3) / count)
    return {name: Estimate(float(sample.mean()), spread, "standard error")}


def _probability(name: str, hits: np.ndarray) -> dict[str, Estimate]:
    """Fraction of trials; its error at the centre of the score interval of four standard errors, right near 0 and 1."""
    count = hits.size
    guess = (float(hits.sum()) + 8.0) / (count + 16.0)
    return {name: Estimate(float(hits.mean()), math.sqrt(guess * (1 - guess) / count), "standard error")}


# ------------------------------------------------------------------------------------------------ gradients


def _gradient_point(
    theta: float,
    fraction: float,
    beta: float,
    tokens: int,
    dimension: int,
    rho: float,
    noise: bool,
    samples: int,
) -> ValidationPoint:
    model = Model(theta, fraction, beta)
    return ValidationPoint(
        _described("gradient", model, tokens=tokens, dimension=dimension, rho=rho),
        partial(_predict_gradient, model, tokens, dimension, rho, noise),
        partial(_sample_gradient, model, tokens, dimension, rho),
        trials=samples,
    )


def _predict_gradient(
    model: Model, tokens: int, dimension: int, rho: float, noise: bool
) -> Mapping[str, float]:
    from theorykit.signal_recovery.finite_size import finite_size_slope, gradient_noise

    found: dict[str, Any] = {"slope": finite_size_slope(model, rho, tokens=tokens, dimension=dimension)}
    if noise:
        limit = gradient_noise(model.replace(kappa=(dimension - 1) / tokens), rho)
        neglected = _neglected(model, tokens)
        for name, value in (("parallel", limit.parallel), ("perpendicular", limit.perpendicular)):
            found[name] = Estimate(float(value), value.error + neglected * abs(value))
    return found


def _sample_gradient(
    model: Model, tokens: int, dimension: int, rho: float, trials: int, seed: Any
) -> Mapping[str, Any]:
    from theorykit.validation.simulate.signal_recovery import population_gradient

    informative = round(model.fraction * tokens)
    return population_gradient(
        model.theta,
        informative,
        tokens,
        dimension,
        rho,
        max(trials, 2),
        seed=seed,
        beta=model.beta,
        kernel=model.kernel,
    )


def _kernel_point(
    kernel: str,
    theta: float,
    fraction: float,
    beta: float,
    tokens: int,
    dimension: int,
    rho: float,
    samples: int,
) -> ValidationPoint:
    model = Model(theta, fraction, beta, kernel=kernel)
    return ValidationPoint(
        _described("kernel", model, kernel=kernel, tokens=tokens, dimension=dimension, rho=rho),
        partial(_predict_limit, model, tokens, dimension, rho),
        partial(_sample_gradient, model, tokens, dimension, rho),
        trials=samples,
    )


def _predict_limit(model: Model, tokens: int, dimension: int, rho: float) -> Mapping[str, float]:
    from theorykit.signal_recovery.landscape import slope

    value: Any = slope(model.replace(kappa=(dimension - 1) / tokens), rho)
    # the correction of order 1/L is derived for the exponential kernel only
    return {"slope": Estimate(float(value), value.error + 4.0 / tokens * abs(value))}


# ------------------------------------------------------------------------------------------------ climbs


def _climb_point(
    theta: float,
    fraction: float,
    beta: float,
    tokens: int,
    dimension: int,
    start: float,
    step_size: float,
    steps: int,
) -> ValidationPoint:
    model = Model(theta, fraction, beta)
    sizes = {"tokens": tokens, "dimension": dimension, "step_size": step_size}
    instants = [steps // 4 * quarter for quarter in range(1, 5)]
    return ValidationPoint(
        _described("climb", model, **sizes, start=start),
        partial(_predict_climb, model, sizes, start, instants),
        partial(_sample_climb, model, sizes, start, instants),
        trials=_CLIMBERS * _SAMPLES_PER_TRIAL,
    )


def _predict_climb(
    model: Model, sizes: Mapping[str, Any], start: float, instants: list[int]
) -> Mapping[str, float]:
    from theorykit.signal_recovery.trajectories import trajectory

    times = [sizes["step_size"] * k for k in instants]
    rho = trajectory(model, start, times, **sizes)["rho"].to_numpy()
    smooth = trajectory(model, start, times, **{**sizes, "step_size": 1e-9})["rho"].to_numpy()
    errors = _neglected(model, sizes["tokens"]) * abs(rho - smooth)
    return {
        f"rho after {k} steps": Estimate(float(r), float(e))
        for k, r, e in zip(instants, rho, errors, strict=True)
    }


def _sample_climb(
    model: Model, sizes: Mapping[str, Any], start: float, instants: list[int], trials: int, seed: Any
) -> Mapping[str, Any]:
    from theorykit.signal_recovery.simulation import simulate

    found = simulate(
        model, **sizes, steps=instants[-1], every=instants[0], start=start, trials=_trials(trials), seed=seed
    )
    rho = found["rho"].sel(step=instants).to_numpy()
    result: dict[str, Any] = {}
    for k, column in zip(instants, rho.T, strict=True):
        result |= _mean(f"rho after {k} steps", column)
    return result


# ------------------------------------------------------------------------------------------------ poles


def _stationary_point(
    theta: float,
    fraction: float,
    beta: float,
    tokens: int,
    dimension: int,
    pole: int,
    step_size: float,
    steps: int,
) -> ValidationPoint:
    model = Model(theta, fraction, beta)
    sizes = {"tokens": tokens, "dimension": dimension, "step_size": step_size}
    return ValidationPoint(
        _described("stationary", model, **sizes, pole=pole),
        partial(_predict_stationary, model, sizes, pole),
        partial(_sample_stationary, model, sizes, pole, steps),
        trials=_CLIMBERS * _SAMPLES_PER_TRIAL,
    )


def _predict_stationary(model: Model, sizes: Mapping[str, Any], pole: int) -> Mapping[str, float]:
    from theorykit.signal_recovery.stochastic import stationary

    gap = stationary(model, pole=pole, **sizes).gap
    return {"1 - |rho|": Estimate(float(gap), gap.error + _neglected(model, sizes["tokens"]) * gap)}


def _sample_stationary(
    model: Model, sizes: Mapping[str, Any], pole: int, steps: int, trials: int, seed: Any
) -> Mapping[str, Any]:
    from theorykit.signal_recovery.simulation import simulate

    found = simulate(model, **sizes, steps=steps, start=float(pole), trials=_trials(trials), seed=seed)
    rest = 1.0 - abs(found["rho"].to_numpy()[:, steps // 2 :])
    return _mean("1 - |rho|", rest.mean(axis=1))


# ------------------------------------------------------------------------------------------------ sides


def _splitting_point(start: float) -> ValidationPoint:
    theta, fraction, beta, tokens, dimension, step_size, steps = _SPLITTING
    model = Model(theta, fraction, beta)
    sizes = {"tokens": tokens, "dimension": dimension, "step_size": step_size}
    return ValidationPoint(
        _described("separatrix", model, **sizes, start=start),
        partial(_predict_splitting, model, sizes, start),
        partial(_sample_side, model, sizes, start, steps),
        trials=_SPLIT * _SAMPLES_PER_TRIAL,
    )


def _predict_splitting(model: Model, sizes: Mapping[str, Any], start: float) -> Mapping[str, float]:
    from theorykit.signal_recovery.stochastic import splitting

    return {"probability of -xi": splitting(model, start, **sizes).opposed}


def _basin_point(
    theta: float, fraction: float, beta: float, tokens: int, dimension: int, step_size: float, steps: int
) -> ValidationPoint:
    model = Model(theta, fraction, beta)
    sizes = {"tokens": tokens, "dimension": dimension, "step_size": step_size}
    return ValidationPoint(
        _described("basin", model, **sizes),
        partial(_predict_basin, model, tokens, dimension),
        partial(_sample_side, model, sizes, "uniform", steps),
        trials=_UNIFORM * _SAMPLES_PER_TRIAL,
    )


def _predict_basin(model: Model, tokens: int, dimension: int) -> Mapping[str, float]:
    from theorykit.signal_recovery.phases import basin

    finite = model.replace(kappa=(dimension - 1) / tokens)
    return {"probability of -xi": basin(finite, dimension=dimension).opposed}


def _sample_side(
    model: Model, sizes: Mapping[str, Any], start: float | str, steps: int, trials: int, seed: Any
) -> Mapping[str, Any]:
    """Fraction of trials that end in the half of -xi, below the separatrix."""
    from theorykit.signal_recovery.phases import separatrix
    from theorykit.signal_recovery.simulation import simulate

    found = simulate(model, **sizes, steps=steps, every=steps, start=start, trials=_trials(trials), seed=seed)
    border = separatrix(model)
    assert border is not None  # the points are chosen where there is one
    return _probability("probability of -xi", found["rho"].to_numpy()[:, -1] < border)
