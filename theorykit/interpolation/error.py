"""The limiting training error of ridge regression on nonlinear attention, and on the tokens themselves.

Equations: ``interpolation.attention`` and ``interpolation.linear_regression`` of ``tk.derivations()``, in the limit of
many tokens n and dimensions p at fixed p/n. These are errors on the training labels: they say nothing about new data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from theorykit.errors import ConvergenceError, require_real
from theorykit.interpolation.blocks import Blocks
from theorykit.interpolation.model import Attention
from theorykit.interpolation.programs import (
    BLOCKS,
    centering_of,
    parameter_errors,
    parameters,
    program,
    table,
)
from theorykit.results import Estimate, Solution, Status

__all__ = ["interpolation_error", "linear_regression_error", "solve", "solve_many"]

_TOLERANCE = 1e-12
_EPSILON = 2.0**-52


def interpolation_error(model: Attention) -> Estimate:
    r"""Limit of the training error :math:`E=|y-K^\top X^\top w|^2/n` of a ridge probe on attention features.

    Parameters
    ----------
    model : Attention

    Returns
    -------
    Estimate
        Between 0 and 1. The error is a bound on rounding and on the Hermite coefficients' errors.

    Raises
    ------
    ConvergenceError
        The fixed-point equations are not solved to a relative residual of 1e-12, or the solution is not on the
        branch that belongs to the model.

    Notes
    -----
    Derived in ``interpolation.attention`` from arXiv 2506.18656.

    Examples
    --------
    >>> model = Attention("tanh(x)", ratio=0.5, ridge=0.1, signal=1.0, aligned=1.0)
    >>> round(interpolation_error(model), 12)
    0.328085070436
    """
    found: Estimate = solve(model).interpolation_error
    return found


def solve(model: Attention) -> Solution:
    """Solution of the equations of the interpolation error.

    Parameters
    ----------
    model : Attention

    Returns
    -------
    Solution
        ``.interpolation_error`` E, ``.quadratic_form`` F = y^T Q y/n, ``.degrees_of_freedom`` (over n),
        ``.feature_energy`` (tr K^T X^T X K/n^2), ``.bulk_error`` (E without signal and mean), ``.blocks`` (traces
        of the noise resolvent: ``.m_uu`` is tr Q/n, ``.m_uv`` tr QK^T/n, ``.m_uw`` tr QK^T H/n, ``.m_vv``
        tr KQK^T/n, ``.m_vw`` tr KQK^T H/n - 1 and ``.m_ww`` tr H(KQK^T H - 1)/n with H = X^T X/n).

    Raises
    ------
    ConvergenceError
        As for :func:`interpolation_error`; ``.last`` holds the last iterate.
    """
    (found,) = solve_many([model])
    if isinstance(found, ConvergenceError):
        raise found
    return found


def solve_many(
    models: Sequence[Attention], only: tuple[str, ...] | None = None
) -> list[Solution | ConvergenceError]:
    """Solutions of many models at once; models that differ in ridge alone share most of the work.

    With ``only`` a solution holds these observables and no blocks.
    """
    for model in models:
        if not isinstance(model, Attention):
            raise TypeError(f"model must be an Attention record, got {model!r} ({type(model).__name__})")
    found: list[Any] = [None] * len(models)
    groups: dict[str, list[int]] = {}
    for index, model in enumerate(models):
        groups.setdefault(centering_of(model), []).append(index)
    for centering, members in groups.items():
        solutions = _solve_group(centering, [models[i] for i in members], only)
        for index, solution in zip(members, solutions, strict=True):
            found[index] = solution
    return found


def _solve_group(
    centering: str, models: list[Attention], only: tuple[str, ...] | None
) -> list[Solution | ConvergenceError]:
    from theorykit.numerics.continuation import follow

    compiled = program("attention", centering=centering)
    rows = [parameters(m) for m in models]
    P = table(compiled, rows)
    # signal, weights and labels are no part of the equations of the noise: they do not multiply the work
    noise = np.array([name in _NOISE for name in compiled.parameters])
    reduced = np.where(noise[:, None], P, 0.0)
    out = follow(compiled, reduced, compiled.parameters.index("gamma"), _TOLERANCE)
    good = out.converged & _on_branch(compiled, reduced, out.X)
    at = np.flatnonzero(good)
    values, errors = _observed(compiled, P[:, at], out.X[:, at], [models[i] for i in at])
    place = {int(i): k for k, i in enumerate(at)}
    found: list[Solution | ConvergenceError] = []
    for i in range(len(models)):
        if i not in place:
            found.append(_failure(models[i], compiled.unknowns, out, i))
            continue
        numbers = {n: Estimate(values[n][place[i]], errors[n][place[i]]) for n in only or values}
        found.append(_solution(numbers, float(out.residual[i]), int(out.steps[i])))
    return found


_NOISE = ("c", "gamma", "a_1", "remainder", "d")


def _on_branch(compiled: Any, P: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Certificates of the branch that begins at infinite ridge: signs, a conservation law, stability."""
    from theorykit.numerics.newton import spectral_radius

    uu, vv, vw, ww = (X[compiled.unknowns.index(f"m_{pair}")] for pair in ("uu", "vv", "vw", "ww"))
    slack = 1e-9 * np.max(np.abs(X), axis=0)
    signs = (uu > -slack) & (uu <= 1 + 1e-9) & (vv >= -slack) & (ww <= slack)
    return signs & (np.abs(uu + vw) <= 1e-8) & (spectral_radius(compiled, P, X) < 1 + 1e-9)


def _observed(
    compiled: Any, P: np.ndarray, X: np.ndarray, models: list[Attention]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Observables and bounds on their errors: rounding of the unknowns, and errors of the Hermite coefficients."""
    values = compiled.observables(P, X)
    count = len(compiled.unknowns)
    uu, vw = (X[compiled.unknowns.index(name)] for name in ("m_uu", "m_vw"))
    # a conservation law that the equations have and rounding breaks
    relative = 8 * _EPSILON + 4 * np.abs(uu + vw) / np.maximum(np.abs(uu), 1e-300)
    errors = {name: relative * np.abs(v) for name, v in values.items()}
    if not P.shape[1]:
        return values, errors
    inverse = np.linalg.inv(np.eye(count) - compiled.jacobian(P, X))
    size = np.maximum(np.abs(X), 1e-30).T
    gain = np.max(np.sum(np.abs(inverse) * size[:, None, :] / size[:, :, None], axis=2), axis=1)
    spread = _EPSILON * np.minimum(gain, 1e8)
    for pattern in ([1.0] * count, [(-1.0) ** k for k in range(count)]):
        moved = compiled.observables(P, X * (1 + np.array(pattern)[:, None] * spread))
        errors = {n: e + np.abs(moved[n] - values[n]) for n, e in errors.items()}
    given = [parameter_errors(m) for m in models]
    for name in ("a_1", "a_2", "remainder"):
        row = compiled.parameters.index(name)
        error = np.array([g[name] for g in given])
        width = np.maximum(error, 1e-7 * np.maximum(np.abs(P[row]), 1e-3))
        Q = P.copy()
        Q[row] += width
        change = compiled.step(Q, X) - X
        shifted = X + np.einsum("pij,jp->ip", inverse, change)
        moved = compiled.observables(Q, shifted)
        errors = {n: e + np.abs(moved[n] - values[n]) * (error / width) for n, e in errors.items()}
    return values, errors


def _solution(numbers: dict[str, Estimate], residual: float, steps: int) -> Solution:
    values: dict[str, Any] = {n: v for n, v in numbers.items() if n not in BLOCKS.values()}
    if set(BLOCKS.values()) <= set(numbers):
        values["blocks"] = Blocks(*(numbers[trace] for trace in BLOCKS.values()))
    return Solution(
        values, Status.CONVERGED, residual, steps, start="infinite ridge", branch="analytic in the ridge"
    )


def _failure(model: Attention, unknowns: Sequence[str], out: Any, i: int) -> ConvergenceError:
    last = dict(zip(unknowns, out.X[:, i].tolist(), strict=True))
    residual = float(out.residual[i])
    if out.converged[i] and residual <= _TOLERANCE:
        return ConvergenceError(
            f"a solution for {model!r} was found, but not on the branch that begins at infinite ridge; "
            "raise ridge",
            last=last, residual=residual, steps=int(out.steps[i]), start="infinite ridge",
        )  # fmt: skip
    return ConvergenceError.not_reached(
        f"interpolation error of {model!r}", residual=residual, tolerance=_TOLERANCE, steps=int(out.steps[i]),
        start="infinite ridge", advice="raise ridge", last=last,
    )  # fmt: skip


def degrees_of_freedom(model: Attention, ridges: np.ndarray) -> np.ndarray:
    """Effective degrees of freedom over n at several ridges.

    Raises
    ------
    ConvergenceError
        The equations are not solved at some ridge.
    """
    from theorykit.numerics.continuation import follow

    compiled = program("attention", centering=centering_of(model))
    values = {n: v if n in _NOISE else 0.0 for n, v in parameters(model).items()}
    P = table(compiled, [{**values, "gamma": float(r)} for r in ridges])
    out = follow(compiled, P, compiled.parameters.index("gamma"), _TOLERANCE)
    if not np.all(out.converged):
        bad = int(np.flatnonzero(~out.converged)[0])
        raise _failure(model.replace(ridge=float(ridges[bad])), compiled.unknowns, out, bad)
    return compiled.observables(P, out.X)["degrees_of_freedom"]


Points = Sequence[tuple[tuple[Any, ...], dict[str, Any]]]


def _batch(
    extract: Callable[[Solution], Any], only: tuple[str, ...] | None = None
) -> Callable[..., list[Any]]:
    """What ``tk.curve`` calls with all its points."""

    def batch(points: Points, on_done: Callable[[], None] | None = None) -> list[Any]:
        models = [args[0] if args else kwargs["model"] for args, kwargs in points]
        found = solve_many(models, only)
        for _ in found:
            if on_done is not None:
                on_done()
        return [f if isinstance(f, ConvergenceError) else extract(f) for f in found]

    return batch


interpolation_error.batch = _batch(lambda s: s.interpolation_error, ("interpolation_error",))  # type: ignore[attr-defined]
solve.batch = _batch(lambda s: s)  # type: ignore[attr-defined]


def linear_regression_error(*, ratio: float, ridge: float, signal: float = 0.0) -> Estimate:
    """Limit of the training error of ridge regression on the tokens themselves, the baseline.

    Parameters
    ----------
    ratio : float
        c = p/n, positive.
    ridge : float
        Positive.
    signal : float
        |mu|, at least 0.

    Returns
    -------
    Estimate
        Per token, of order 1. Derived in ``interpolation.linear_regression`` from arXiv 2506.18656.

    Raises
    ------
    TypeError, ValueError
        An argument is no real number in its range.

    Examples
    --------
    >>> round(linear_regression_error(ratio=0.5, ridge=0.1, signal=1.0), 12)
    0.260290284672
    """
    c = require_real("ratio", ratio, low=0, low_open=True)
    gamma = require_real("ridge", ridge, low=0, low_open=True)
    strength = require_real("signal", signal, low=0)
    value = linear_regression(c, np.array([gamma]), strength)["interpolation_error"][0]
    return Estimate(value, _LINEAR_ROUNDING * abs(value))


# largest relative difference of the closed form to 40 digits over c in [0.05, 20] and ridges from 1e-9 to 1e6
_LINEAR_ROUNDING = 1e-11


def linear_regression(ratio: float, ridges: np.ndarray, signal: float) -> dict[str, np.ndarray]:
    """Observables of linear regression at several ridges."""
    compiled = program("linear_regression")
    P = compiled.table({"c": ratio, "gamma": ridges, "signal2": signal * signal})
    return compiled.observables(P, np.empty((0, *P.shape[1:])))
