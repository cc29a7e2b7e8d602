"""Verdicts on the statements of arXiv 2606.22406, decided from computed numbers.

The statements are in :data:`theorykit.derivations.signal_recovery.claims.CLAIMS`. Each evaluator calls the public
functions, tests what the claim says under several conditions, and returns where it holds. The conditions are exact
ones of the theory (thresholds, case M or B); the tests put numbers on both sides of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from theorykit.findings import Evaluator, Finding, pairs
from theorykit.signal_recovery.bifurcation import thresholds
from theorykit.signal_recovery.finite_size import gradient_noise
from theorykit.signal_recovery.landscape import attention_mass, objective, slope
from theorykit.signal_recovery.model import Model
from theorykit.signal_recovery.phases import basin, fixed_points, separatrix
from theorykit.signal_recovery.trajectories import trajectory

if TYPE_CHECKING:
    from theorykit.derivations.ledger import Claim
    from theorykit.derivations.verdicts import ClaimVerdict

__all__ = ["EVALUATORS", "claims"]

TRAP = Model(theta=3.0, fraction=0.3)
FREE = Model(theta=1.0, fraction=0.3)
_BESIDE = 0.01  # relative distance to a threshold at which both sides of it are tried


def claims() -> tuple[tuple[Claim, Callable[[], ClaimVerdict]], ...]:
    """The claims of the paper, each with the function that computes its verdict."""
    from theorykit.derivations.signal_recovery.claims import CLAIMS

    return pairs(CLAIMS, EVALUATORS)


# --------------------------------------------------------------------------- evaluators


def _least_slope(model: Model) -> float:
    """The smallest slope on a grid of alignments."""
    import numpy as np

    return float(np.min(slope(model, np.linspace(-1.0, 1.0, 2001))))


def _one_dimension() -> Finding:
    """Samples of the finite model by explicit vectors in two different frames, at the same alignment."""
    from theorykit.validation.simulate.signal_recovery import population_gradient

    found: list[Any] = [
        population_gradient(1.5, 3, 10, 4, 0.3, 20_000, seed=7, engine=engine)["objective"]
        for engine in ("vectors", "chain")
    ]
    z = (found[0] - found[1]) / math.hypot(found[0].error, found[1].error)
    evidence = {"objective, R = 3, L = 10, d = 4, rho = 0.3: explicit vectors": found[0],
                "the same from the law of rho alone": found[1], "z": z}  # fmt: skip
    return Finding({"R, L, d are finite or infinite": abs(z) < 4}, evidence)


def _monotone_field() -> Finding:
    """The slope on both sides of beta_c, and for beta theta at most 1."""
    critical = float(thresholds(FREE).beta_c)
    below, above = (FREE.replace(beta=critical * (1 + s * _BESIDE)) for s in (-1, 1))
    weak = [_least_slope(Model(t, p, 1 / t)) for t in (0.5, 1.0, 3.0) for p in (0.01, 0.5, 0.99)]
    evidence = {
        "beta_c at theta = 1, fraction = 0.3": critical,
        "least slope 1% below beta_c": _least_slope(below),
        "least slope 1% above beta_c": _least_slope(above),
        "least slope at beta theta = 1": min(weak),
        "theta_c at beta = 1, fraction = 0.3": thresholds(FREE).theta_c,
    }
    return Finding(
        {
            "beta <= beta_c(theta, pi) at fixed dimension": _least_slope(below) > 0,
            "beta theta <= 1 at fixed dimension": min(weak) > 0,
            "beta > beta_c(theta, pi)": _least_slope(above) > 0,
        },
        evidence,
    )


def _converges() -> Finding:
    """Ends of trajectories with and without a trap: the attractors are poles, and -xi only where it is stable."""
    attractors = [p.rho for m in (FREE, TRAP) for p in fixed_points(m) if p.stable]
    edge = separatrix(TRAP)
    beside = [float(edge) - 1e-3, float(edge) + 1e-3] if edge is not None else [-0.5]
    ends = trajectory(TRAP, beside, [200.0]).rho.values[:, -1]
    free = float(trajectory(FREE, -0.999, [200.0]).rho.values[-1])
    evidence = {
        "theta = 3: end from just below the separatrix": float(ends[0]),
        "theta = 3: end from just above the separatrix": float(ends[-1]),
        "theta = 1: end from rho = -0.999": free,
        "separatrix at theta = 3": float("nan") if edge is None else float(edge),
    }
    poles = all(abs(abs(r) - 1) < 1e-12 for r in attractors)
    return Finding(
        {
            "the start is off the separatrix and off an unstable pole": poles
            and max(abs(abs(ends) - 1)) < 1e-9,
            "the start is on the latitude rho_c": edge is None,
        },
        evidence,
    )


def _harmless_sign() -> Finding:
    """The slope at the equator, which a symmetric objective does not have, and the value at both poles."""
    even = Model(theta=1.0, fraction=0.3, kernel="cosh(t)")
    gap = float(objective(TRAP, 1) - objective(TRAP, -1))
    dense = basin(TRAP, 100).opposed
    evidence = {
        "exponential kernel, theta = 3, fraction = 0.3: slope at the equator": float(slope(TRAP, 0)),
        "objective at xi minus objective at -xi": gap,
        "attention mass at -xi (fraction 0.3)": float(attention_mass(TRAP, -1)),
        "probability to end at -xi from a uniform start, d = 100": dense,
        "kernel cosh: slope at the equator": float(slope(even, 0)),
        "kernel cosh: objective at xi minus objective at -xi": float(
            objective(even, 1) - objective(even, -1)
        ),
    }
    symmetric = abs(evidence["kernel cosh: slope at the equator"]) < 1e-10
    return Finding(
        {
            "the kernel has E phi'(g) = 0, as cosh": symmetric,
            "the kernel is exponential": abs(float(slope(TRAP, 0))) < 1e-10 and abs(gap) < 1e-10,
        },
        evidence,
    )


def _noise_vanishes() -> Finding:
    """Noise mass at the poles, at fixed parameters and as beta theta + logit(pi) grows."""
    paper = Model(theta=1.0, fraction=1 / 21)
    strong = [float(1 - attention_mass(paper.replace(theta=t), 1)) for t in (10.0, 20.0, 40.0)]
    here = float(1 - attention_mass(paper, 1))
    there = float(1 - attention_mass(TRAP, -1))
    evidence = {"theta = 1, 1 of 21 informative: noise mass at xi": here,
                "theta = 3, fraction = 0.3: noise mass at -xi": there}  # fmt: skip
    evidence |= {f"theta = {t}: noise mass at xi": m for t, m in zip((10, 20, 40), strong, strict=True)}
    return Finding(
        {
            "at xi, beta theta + logit(pi) -> inf": strong[0] > strong[1] > strong[2] and strong[2] < 1e-12,
            "theta, beta and pi are fixed": here < 1e-3,
            "the end is -xi": there < 0.7,
        },
        evidence,
    )


def _dense_signal() -> Finding:
    """Noise mass at weak signal as the density grows, against uniform weights."""
    weak, evidence, ratios = 0.25, {}, []
    for density in (0.5, 0.9, 0.99, 0.9999):
        mass = 1 - attention_mass(Model(theta=weak, fraction=density), 1)
        ratios.append(float(mass) / (1 - density))
        evidence[f"theta = 0.25, fraction = {density}: noise mass over its uniform value"] = ratios[-1]
    return Finding(
        {
            "the fraction tends to 1 (then it vanishes without attention too)": abs(
                ratios[-1] - math.exp(-weak)
            )
            < 1e-3,
            "the fraction stays below 1": float(1 - attention_mass(Model(theta=weak, fraction=0.9), 1))
            < 1e-3,
        },
        evidence,
    )


def _both_numbers_grow() -> Finding:
    """The slope at the equator at R/L fixed and as R/L vanishes."""
    small = [float(slope(Model(theta=1.0, fraction=p), 0)) for p in (1e-2, 1e-4, 1e-6)]
    fixed = float(slope(FREE, 0))
    scaled = [s / (2 * p) for s, p in zip(small, (1e-2, 1e-4, 1e-6), strict=True)]
    evidence = {"slope at the equator, fraction = 0.3": fixed}
    evidence |= {f"fraction = {p}": s for p, s in zip(("1e-2", "1e-4", "1e-6"), small, strict=True)}
    evidence["slope over 2 beta theta R/L, fraction = 1e-6"] = scaled[-1]
    return Finding(
        {
            "R/L has a limit above 0": fixed > 1e-3,
            "time is scaled by L/R": abs(scaled[-1] - 1) < 1e-3,
            "R/L -> 0 at fixed time": small[-1] > 1e-3,
        },
        evidence,
    )


def _high_dimension() -> Finding:
    """The trap that noise dimensions make, and the global maximum they move."""
    weak = Model(theta=0.8, fraction=0.1)
    dense = Model(theta=1.0, fraction=0.8)
    limit, moved = thresholds(weak).kappa_c, thresholds(dense).kappa_global
    if limit is None or moved is None:
        raise ArithmeticError("the thresholds of these models exist")
    below, above = (_least_slope(weak.replace(kappa=float(limit) * (1 + s * _BESIDE))) for s in (-1, 1))
    ahead = dense.replace(kappa=float(moved) * (1 + _BESIDE))
    evidence = {
        "kappa_c at theta = 0.8, fraction = 0.1": limit,
        "least slope 1% below kappa_c": below,
        "least slope 1% above kappa_c": above,
        "kappa_global at theta = 1, fraction = 0.8": moved,
        "objective at xi minus at -xi, 1% above kappa_global": float(
            objective(ahead, 1) - objective(ahead, -1)
        ),
        "noise of the gradient over that at kappa = 0, kappa = 1, beta = 0.5": float(
            gradient_noise(Model(1.0, 0.3, 0.5, 1.0), 1).perpendicular
            / gradient_noise(Model(1.0, 0.3, 0.5), 1).perpendicular
        ),
    }
    return Finding({"d/L < kappa_c": below > 0, "d/L > kappa_c": above > 0}, evidence)


def _twenty_noise_tokens() -> Finding:
    """Signal and noise of the paper's experiment: alignment is reached, the noise mass stays."""
    model = Model(theta=0.25, fraction=1 / 21)
    end = float(trajectory(model, 0.0, [400.0]).rho.values[-1])
    mass = float(1 - attention_mass(model, 1))
    evidence = {"theta = 0.25, 1 of 21 informative: alignment of the flow at t = 400": end,
                "noise mass at xi": mass,
                "theta_c": thresholds(model).theta_c}  # fmt: skip
    return Finding(
        {"alignment is meant": end > 0.9965, "attention on the informative tokens is meant": mass < 0.5},
        evidence,
    )


def _tracks_the_flow() -> Finding:
    """The mean flow with step noise against the deterministic one, at vanishing and at constant step size."""
    model, times, sizes = Model(theta=0.5, fraction=0.3), [8.0], (1000, 100)
    kappa = (sizes[1] - 1) / sizes[0]
    limit = float(trajectory(model.replace(kappa=kappa), -0.95, times).rho.values[-1])
    small, constant = (
        float(trajectory(model, -0.95, times, step, *sizes).rho.values[-1]) for step in (1e-6, 2e-3)
    )
    large = float(trajectory(model, -0.95, times, 1e-6, 10**6, int(1e6 * kappa) + 1).rho.values[-1])
    evidence = {"rho(8) from -0.95, theta = 0.5, fraction = 0.3, kappa = 0.099: flow": limit,
                "step size 1e-6, L = 1e6": large, "step size 1e-6, L = 1000": small,
                "step size 0.002, L = 1000": constant}  # fmt: skip
    return Finding(
        {
            "the step size tends to 0 (Robbins-Monro) and L is large": abs(large - limit) < 1e-2,
            "the step size is constant": abs(constant - limit) < 1e-2,
        },
        evidence,
    )


#: Name of a claim -> function that tests it.
EVALUATORS: Mapping[str, Evaluator] = {
    "one_dimension": _one_dimension,
    "monotone_field": _monotone_field,
    "converges_to_either": _converges,
    "harmless_sign": _harmless_sign,
    "noise_vanishes": _noise_vanishes,
    "dense_signal": _dense_signal,
    "both_numbers_grow": _both_numbers_grow,
    "high_dimension": _high_dimension,
    "twenty_noise_tokens": _twenty_noise_tokens,
    "tracks_the_flow": _tracks_the_flow,
}
