"""Ten thousand trajectories of the alignment to t = 50 at rtol 1e-9: one call of ours against loops over theirs.

    python benchmarks/run.py trajectories

SciPy's and JiTCODE's DOP853 integrate the same equation, written out from the derived record; from few starts, spread
evenly over all. JiTCODE is optional.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable

import numpy as np

from theorykit import derivations
from theorykit import signal_recovery as sr

__all__ = ["chain_against_vectors", "trajectories_against_jitcode", "trajectories_against_scipy"]

Report = tuple[str, float, float, str]
MODEL = sr.Model(theta=1.0, fraction=0.1)
STARTS = np.linspace(-0.95, 0.95, 10_000)
TIMES = np.linspace(0.0, 50.0, 6)
RTOL, ATOL = 1e-9, 1e-12


def ours() -> float:
    """Seconds per trajectory; the best of three calls."""
    sr.trajectory(MODEL, STARTS[:10], TIMES, rtol=RTOL)  # loaded before the clock starts
    found = []
    for _ in range(3):
        start = time.perf_counter()
        sr.trajectory(MODEL, STARTS, TIMES, rtol=RTOL)
        found.append(time.perf_counter() - start)
    return min(found) / STARTS.size


def derived_drift() -> tuple[object, dict[str, object]]:
    """The rate of the alignment from the record, and its symbols by name."""
    record = derivations.get("signal_recovery.limit", proportional=False).equations
    drift = record.closed(record.observables["drift"])
    return drift, {s.name: s for s in drift.free_symbols}


def parameters() -> dict[str, float]:
    return {
        "theta": MODEL.theta,
        "beta": MODEL.beta,
        "fraction": MODEL.fraction,
        "noise_fraction": 1 - MODEL.fraction,
    }


def per_trajectory(integrate: Callable[[float], np.ndarray], count: int) -> float:
    """Seconds per trajectory of a loop, after checking one against ours."""
    sample = STARTS[:: STARTS.size // count]
    reference = sr.trajectory(MODEL, float(sample[3]), TIMES)["rho"].to_numpy()
    difference = np.abs(integrate(float(sample[3])) - reference).max()
    if difference > 1e-6:
        raise RuntimeError(f"not the same equation: trajectories differ by {difference:.2g}")
    start = time.perf_counter()
    for rho0 in sample:
        integrate(float(rho0))
    return (time.perf_counter() - start) / sample.size


def trajectories_against_scipy() -> Report:
    """SciPy: solve_ivp(method="DOP853") with a plain Python function of floats."""
    import sympy as sp
    from scipy.integrate import solve_ivp

    drift, symbols = derived_drift()
    values = {symbols[name]: value for name, value in parameters().items() if name in symbols}
    rate = sp.lambdify(symbols["rho"], drift.subs(values), "math", cse=True)

    def integrate(rho0: float) -> np.ndarray:
        return solve_ivp(
            lambda t, y: (rate(y[0]),),
            (0.0, 50.0),
            (rho0,),
            method="DOP853",
            rtol=RTOL,
            atol=ATOL,
            t_eval=TIMES,
        ).y[0]

    return (
        "10,000 trajectories to t = 50 (s each) against solve_ivp(DOP853)",
        ours(),
        per_trajectory(integrate, 50),
        ">= 100",
    )


def trajectories_against_jitcode() -> Report:
    """JiTCODE: its compiled dop853, parameters as control parameters, one instance for all starts."""
    try:
        import jitcode
        import symengine
    except ImportError:
        return "10,000 trajectories: jitcode is not installed", float("nan"), float("nan"), ">= 5"
    drift, symbols = derived_drift()
    given = {name: value for name, value in parameters().items() if name in symbols}
    controls = [symengine.Symbol(name) for name in given]
    rate = symengine.sympify(drift).subs({symengine.sympify(symbols["rho"]): jitcode.y(0)})
    rate = rate.subs({symengine.sympify(symbols[n]): c for n, c in zip(given, controls, strict=True)})
    system = jitcode.jitcode([rate], control_pars=controls, verbose=False)
    with contextlib.chdir(tempfile.mkdtemp()):  # it compiles in the current folder
        system.compile_C()
    system.set_integrator("dop853", rtol=RTOL, atol=ATOL, nsteps=100_000)
    system.set_parameters(*given.values())

    def integrate(rho0: float) -> np.ndarray:
        system.set_initial_value([rho0], 0.0)
        return np.array([rho0, *(system.integrate(t)[0] for t in TIMES[1:])])

    return (
        "10,000 trajectories to t = 50 (s each) against JiTCODE's dop853",
        ours(),
        per_trajectory(integrate, 1000),
        ">= 5",
    )


def chain_against_vectors() -> Report:
    """A million tokens of stochastic ascent, 1000 steps of 1000 tokens, by the chain of the overlap and by vectors."""

    def seconds(engine: str, steps: int) -> float:
        found = []
        for _ in range(3):
            start = time.perf_counter()
            sr.simulate(MODEL, tokens=1000, dimension=100, steps=steps, step_size=0.01, seed=0, engine=engine)
            found.append((time.perf_counter() - start) * 1000 / steps)
        return min(found)

    seconds("chain", 10)  # compiled before the clock starts
    return (
        "10^6 token-steps of ascent in 100 dimensions (s): chain, vectors",
        seconds("chain", 1000),
        seconds("vectors", 50),
        "chain < 0.1 s",
    )
