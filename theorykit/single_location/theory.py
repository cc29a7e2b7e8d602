"""Single-location regression as a theory: what ``tk.audit``, ``tk.latex`` and ``tk.validate`` read."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from theorykit import derivations
from theorykit.single_location.activations import (
    Activation,
    Elementwise,
    Erf,
    Linear,
    NormalizedKernel,
    Softmax,
    Softplus,
)
from theorykit.single_location.population import (
    attention_moments,
    bayes_risk,
    best_elementwise_risk,
    optimal_risk,
    risk,
)
from theorykit.single_location.replica_solution import erm
from theorykit.single_location.ridge_search import optimal_ridge
from theorykit.single_location.tasks import Max, Spiked, Task
from theorykit.single_location.trained_points import training_study
from theorykit.single_location.training import train
from theorykit.theory import Theory, ValidationPoint

__all__ = ["THEORY"]

_LAWS = ("spiked", "max", "max_infinite")
_LIMIT_LAWS = ("softmax", "best_elementwise", "linear", "erf", "softplus", "long_spiked", "long_max")


def _catalogue() -> dict[str, Callable[[], Any]]:
    """Every derivation with the options it is used with; "name[option, ...]" -> function that makes it."""
    entries: dict[str, Callable[[], Any]] = {}

    def add(name: str, *marks: str, **options: Any) -> None:
        label = f"{name}[{', '.join(marks)}]" if marks else name
        entries[label] = partial(derivations.get, f"single_location.{name}", **options)

    for task in ("spiked", "max"):
        add("bayes_risk", task, task=task)
        add("bayes_risk", task, "strong signal", task=task, steep=True)
    for kind in ("normalized", "elementwise"):
        add("risk", kind, activation=kind)
    for task in _LAWS:
        for kernel in ("exp(x)", "softplus(x)"):
            add("normalized_moments", task, kernel, task=task, kernel=kernel, aligned=task != "spiked")
        add("elementwise_moments", task, "1 + erf(shift + x)", task=task, activation="1 + erf(x)",
            aligned=task != "spiked", shifted=True)  # fmt: skip
        if task != "max_infinite":
            add("normalized_moments", task, "exp(x)", "strong signal", task=task, kernel="exp(x)",
                aligned=task != "spiked", steep=True)  # fmt: skip
        if task == "max":
            for first in ("location", "attention"):
                add("normalized_moments", task, "exp(x)", f"long key, {first} first", task=task, kernel="exp(x)",
                    aligned=True, steep=True, joint=first)  # fmt: skip
        if task != "spiked":
            add("normalized_moments", task, "exp(x)", "any key", task=task, kernel="exp(x)")
            add("elementwise_moments", task, "1 + x", "any key", task=task, activation="1 + x")
        if task != "max":  # limit of softplus weights at infinite overlaps
            add("normalized_moments", task, "relu(x)", task=task, kernel="relu(x)", aligned=task != "spiked")
        add("best_elementwise", task, task=task)
    for task in ("max", "max_infinite"):
        add("hidden_field", task, task=task)
    add("best_elementwise", "max", "strong signal", task="max", steep=True)
    add("hidden_field", "max", "strong signal", task="max", steep=True)
    add("elementwise_moments", "max", "1 + x", "strong signal", task="max", activation="1 + x", aligned=True,
        steep=True)  # fmt: skip
    add(
        "elementwise_moments",
        "max",
        "1 + x",
        "any key",
        "strong signal",
        task="max",
        activation="1 + x",
        steep=True,
    )
    for task in ("spiked", "max"):
        add("linear", task, task=task)
    add("erf", "spiked", task="spiked")
    for law in _LIMIT_LAWS:
        add("asymptotics", law.replace("_", " "), law=law)
    for task in _LAWS:
        add(
            "off_manifold",
            task,
            "exp(x)",
            task=task,
            kind="normalized",
            formula="exp(x)",
            aligned=task != "spiked",
        )
        add(
            "off_manifold",
            task,
            "1 + x",
            task=task,
            kind="elementwise",
            formula="1 + x",
            aligned=task != "spiked",
        )
    for kind, formula in (("normalized", "exp(x)"), ("elementwise", "1 + x")):
        add("erm", kind, formula, kind=kind, formula=formula)
    add("erm_newton")
    add("erm_fixed")
    add("erm_linear")
    return entries


def _claims() -> Any:
    return importlib.import_module("theorykit.single_location.claims").claims()


# ------------------------------------------------------------------------------------- against simulation

_ACTIVATIONS: Mapping[str, Activation] = {
    "softmax": Softmax(),
    "softplus": Softplus(),
    "linear": Linear(),
    "erf": Erf(0.3),
    "tanh": Elementwise("1 + tanh(x)"),
    "quadratic": NormalizedKernel("1 + x**2"),
}
_TASKS: tuple[Task, ...] = (
    Spiked(nu=4, length=3, noise=0.3),
    Spiked(nu=1, length={1: 0.25, 2: 0.25, 5: 0.5}),
    Max(nu=2, length=2),
    Max(nu=4, length=3, noise=0.5),
    Max(nu=math.inf, length=4),
)
_OVERLAPS = {
    "matched": {"m_k": 1.6, "q_k": 2.56, "m_v": 0.8, "q_v": 0.8},
    "generic": {"m_k": 0.9, "q_k": 2.1, "m_v": 0.7, "q_v": 1.1},
}


def simulate(
    task: Task, activation: Activation, overlaps: Mapping[str, float], trials: int, seed: Any
) -> dict[str, Any]:
    """Direct Monte Carlo of the model at given overlaps (see ``theorykit.validation.simulate``)."""
    simulator = importlib.import_module("theorykit.validation.simulate.single_location")
    kind = {"Softmax": "softmax", "Softplus": "softplus", "Linear": "linear", "Erf": "erf"}
    plain: dict[str, Any] = {"kind": kind.get(type(activation).__name__, activation.name)}
    if isinstance(activation, Erf):
        plain["shift"] = activation.shift
    elif isinstance(activation, Elementwise | NormalizedKernel):
        plain["formula"] = activation.formula.text
    law = {"kind": task.name, "nu": task.nu, "length": dict(task.lengths), "noise": task.noise}
    full = {"m_kv": 0.0, "m_vk": 0.0, "q_kv": 0.0, **overlaps}
    found: dict[str, Any] = simulator.population_risk(law, plain, full, trials, seed=seed, dimension=8)
    return found


def _predict(task: Task, activation: Activation, overlaps: Mapping[str, float]) -> dict[str, float]:
    first, second = attention_moments(task, activation, overlaps["m_k"], overlaps["q_k"])
    return {
        "risk": risk(task, activation, overlaps["m_k"], overlaps["q_k"], overlaps["m_v"], overlaps["q_v"]),
        "A": first,
        "B": second,
        "bayes_risk": bayes_risk(task),
    }


def _points() -> tuple[ValidationPoint, ...]:
    points = []
    for task in _TASKS:
        for name, activation in _ACTIVATIONS.items():
            # a tilted 4-dimensional average is slow at finite nu: there the key is along k*
            choice = "matched" if task.name == "max" and activation.kind == "normalized" else "generic"
            overlaps = _OVERLAPS[choice]
            points.append(
                ValidationPoint(
                    {"task": repr(task), "activation": name, **overlaps},
                    partial(_predict, task, activation, overlaps),
                    partial(simulate, task, activation, overlaps),
                )
            )
    return tuple(points)


THEORY = Theory(
    name="single_location",
    title="Single-location regression",
    derivations=_catalogue(),
    claims=_claims,
    solver={
        "bayes_risk": bayes_risk,
        "risk": risk,
        "attention_moments": attention_moments,
        "optimal_risk": optimal_risk,
        "best_elementwise_risk": best_elementwise_risk,
        "erm": erm,
        "optimal_ridge": optimal_ridge,
    },
    simulate={"population_risk": simulate, "train": train},
    validation_points=_points(),
    studies={"training": training_study},
)
