"""Limit laws of random matrices beside other packages: accuracy and time of densities both can do.

    python benchmarks/random_matrices.py

The laws: Marchenko-Pastur at several ratios, and the free multiplicative convolution of two Marchenko-Pastur laws of
ratio one (singular values of a product of two square Gaussian matrices). The others are `freealg` and `scikit-rmt`
(`pip install freealg scikit-rmt`); what is not installed is left out. Errors are against formulas in 40 digits, on 400
points inside the spectrum; times are the best of five calls, after the first. theorykit is told the matrix expression,
and derives the law; the others are told its name. Nothing here is a test.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

import mpmath
import numpy as np

import theorykit as tk
from theorykit import interpolation as ip
from theorykit import random_matrices as rm

POINTS = 400
RATIOS = (0.25, 0.5, 0.9)

Density = Callable[[np.ndarray], np.ndarray]


def best_time(work: Callable[[], object], repeat: int = 5) -> float:
    """Shortest of several runs, in seconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


# ------------------------------------------------------------------------------------------- the truth


def marchenko_pastur(x: np.ndarray, ratio: float) -> np.ndarray:
    """Density of X X^T for X with p = ratio n rows and n columns, entries of variance 1/n, ratio below one."""
    low, high = (1 - np.sqrt(ratio)) ** 2, (1 + np.sqrt(ratio)) ** 2
    return np.sqrt((high - x) * (x - low)) / (2 * np.pi * ratio * x)


def fuss_catalan(x: np.ndarray) -> np.ndarray:
    """Density of G H H^T G^T from the generating function B = 1 + w B^3 of its moments, w = 1/x, in 40 digits."""
    found = []
    with mpmath.workdps(40):
        for point in x:
            roots = mpmath.polyroots([1 / mpmath.mpf(point), 0, -1, 1], maxsteps=200, extraprec=200)
            found.append(max(float(mpmath.im(root)) for root in roots) / point / np.pi)
    return np.array(found)


# -------------------------------------------------------------------------------------- the contestants


def ours_marchenko_pastur(ratio: float) -> Density:
    X = rm.Gaussian("X", rows="p", columns="n")
    expr = X @ X.T  # p x p, entries of X of variance 1/n
    return lambda x: rm.density(expr, x, ratios={"p": ratio})


def ours_fuss_catalan() -> Density:
    product = rm.Gaussian("G", rows="n", columns="n") @ rm.Gaussian("H", rows="n", columns="n")
    expr = product @ product.T
    return lambda x: rm.density(expr, x)


def found(package: str, module: str, name: str) -> type | None:
    """A class of another package, if that is installed."""
    try:
        version(package)
    except PackageNotFoundError:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(import_module(module), name)


def contestants_marchenko_pastur(ratio: float) -> dict[str, Density]:
    entries: dict[str, Density] = {"theorykit": ours_marchenko_pastur(ratio)}
    other = found("freealg", "freealg.distributions", "MarchenkoPastur")
    if other is not None:
        entries["freealg"] = other(ratio).density
    other = found("scikit-rmt", "skrmt.ensemble.spectral_law", "MarchenkoPasturDistribution")
    if other is not None:
        entries["scikit-rmt"] = other(ratio).pdf
    return entries


def contestants_fuss_catalan() -> dict[str, Density]:
    entries: dict[str, Density] = {"theorykit": ours_fuss_catalan()}
    other = found("freealg", "freealg.distributions", "FussCatalan")
    if other is not None:
        entries["freealg"] = other(2).density
    return entries


# ------------------------------------------------------------------------------------------------ tables


def compare(title: str, grid: np.ndarray, truth: np.ndarray, entries: dict[str, Density]) -> None:
    print(f"\n{title}, {grid.size} points")
    print(
        f"  {'package':<24}{'largest error':>15}{'median error':>15}{'first call, s':>15}{'best of 5, ms':>15}"
    )
    for name, density in entries.items():
        start = time.perf_counter()
        values = np.asarray(density(grid), dtype=float)
        first = time.perf_counter() - start
        error = np.abs(values - truth) / truth
        label = f"{name} {version(name)}" if name != "theorykit" else name
        best = 1e3 * best_time(lambda d=density: d(grid))
        print(f"  {label:<24}{np.max(error):>15.1e}{np.median(error):>15.1e}{first:>15.2f}{best:>15.2f}")


def interpolation() -> None:
    """The attention model: times after compilation, beside the goals they were set beforehand (an idle machine)."""
    model = ip.Attention("tanh(x)", ratio=0.5, ridge=1.0, signal=1.0, aligned=1.0)
    over = {"ratio": np.geomspace(0.1, 5, 25).tolist(), "ridge": np.geomspace(1e-3, 10, 40).tolist()}
    grid = np.geomspace(1e-3, 20, POINTS)
    tk.curve(ip.interpolation_error, model, over=over)
    ip.density(model, grid)
    print("\ninterpolation error of attention, theorykit alone")
    for what, work, goal in (
        ("1000 points (p/n, ridge)", lambda: tk.curve(ip.interpolation_error, model, over=over), 1.0),
        (f"density on {POINTS} points", lambda: ip.density(model, grid), 1.0),
    ):
        print(f"  {what:<28}{best_time(work, 3):>8.2f} s, goal {goal:g} s")


def main() -> None:
    for ratio in RATIOS:
        low, high = (1 - ratio**0.5) ** 2, (1 + ratio**0.5) ** 2
        grid = low + (high - low) * (np.arange(POINTS) + 0.5) / POINTS
        title = f"Marchenko-Pastur, p/n = {ratio}"
        compare(title, grid, marchenko_pastur(grid, ratio), contestants_marchenko_pastur(ratio))
    grid = 27 / 4 * (np.arange(POINTS) + 0.5) / POINTS
    title = "product of two free Marchenko-Pastur laws of ratio 1"
    compare(title, grid, fuss_catalan(grid), contestants_fuss_catalan())
    interpolation()


if __name__ == "__main__":
    main()
