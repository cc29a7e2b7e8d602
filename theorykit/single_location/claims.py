"""Verdicts on the statements of arXiv 2509.21936 at population level, decided from computed numbers.

The statements are in :data:`theorykit.derivations.single_location.asymptotics.CLAIMS`. Each evaluator calls the
public functions at a few points, tests what the claim says at each, and returns where it holds: everywhere, under a
condition, or nowhere. The conditions are put together from the outcomes of the tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from theorykit.findings import Evaluator, Finding, pairs
from theorykit.single_location.activations import Activation, Erf, Linear, Softmax, Softplus
from theorykit.single_location.tasks import Max, Spiked, Task

if TYPE_CHECKING:
    from theorykit.derivations.ledger import Claim
    from theorykit.derivations.verdicts import ClaimVerdict

__all__ = ["EVALUATORS", "claims"]

_THREE = {1: 1 / 3, 2: 1 / 3, 3: 1 / 3}  # a random length of mean 2
_SAME = 1e-10  # relative difference below which two computed numbers count as equal


def claims() -> tuple[tuple[Claim, Callable[[], ClaimVerdict]], ...]:
    """The claims of the paper, each with the function that computes its verdict."""
    from theorykit.derivations.single_location.asymptotics import CLAIMS

    return pairs(CLAIMS, EVALUATORS)


# --------------------------------------------------------------------------- evaluators

_IF = {"spiked": "the task is spiked", "max": "the task is max"}


def _softmax_is_bayes() -> Finding:
    """The risk at k = c k*, v = v* against the Bayes risk, and the optimum found by the search."""
    from theorykit.single_location.population import bayes_risk, optimal_risk, risk

    tasks: dict[str, tuple[Task, ...]] = {
        "spiked": (Spiked(4, 3), Spiked(9, 10**6), Spiked(1, {1: 0.25, 2: 0.25, 5: 0.5})),
        "max": (Max(2, 2), Max(4, 1000), Max(2, _THREE)),
    }
    evidence, outcomes = {}, {}
    for name, cases in tasks.items():
        gaps = []
        for task in cases:
            key = math.sqrt(task.nu) if name == "spiked" else task.nu
            at_key = risk(task, Softmax(), m_k=key, q_k=key * key, m_v=1.0, q_v=1.0, excess=True)
            gaps.append(abs(at_key / bayes_risk(task, excess=True) - 1))
        evidence[f"largest relative difference to the Bayes risk, {name}"] = max(gaps)
        outcomes[_IF[name]] = max(gaps) < _SAME
    first = tasks["spiked"][0]
    gap = optimal_risk(first, Softmax(), excess=True).risk / bayes_risk(first, excess=True) - 1
    evidence["the same for overlaps found by search, spiked, nu = 4, L = 3"] = gap
    outcomes[_IF["spiked"]] = outcomes[_IF["spiked"]] and abs(gap) < _SAME
    return Finding(outcomes, evidence)


def _softmax_exponential() -> Finding:
    """Local exponents of the softmax risk, which is the Bayes risk."""
    from theorykit.single_location.population import bayes_risk

    evidence, outcomes, remarks = {}, {}, {}
    cases: dict[str, tuple[type[Task], tuple[float, ...]]] = {
        "spiked": (Spiked, (50, 100, 200)),
        "max": (Max, (5, 10, 20)),
    }
    for name, (task, grid) in cases.items():
        kinds = set()
        for length in (2, 10):
            kind, rate = _decay(grid, [bayes_risk(task(nu, length), excess=True) for nu in grid])
            kinds.add(kind)
            evidence[f"{name}, L = {length}: rate of the {kind} decay"] = rate
        outcomes[_IF[name]] = kinds == {"exponential"}
        if kinds == {"algebraic"}:
            remarks[_IF[name]] = "the decay is algebraic"
    evidence["max, L = 2, nu = 20: nu times excess risk"] = 20 * bayes_risk(Max(20, 2), excess=True)
    return Finding(outcomes, evidence, remarks)


def _decay(nus: Sequence[float], risks: Sequence[float]) -> tuple[str, float]:
    """("exponential", rate per nu) or ("algebraic", power): which local exponent is the steadier one."""
    logs = [math.log(float(r)) for r in risks]

    def slopes(of: Callable[[float], float]) -> tuple[float, float]:
        x = [of(nu) for nu in nus]
        return (logs[0] - logs[1]) / (x[1] - x[0]), (logs[1] - logs[2]) / (x[2] - x[1])

    rates, powers = slopes(float), slopes(math.log)
    if abs(rates[1] / rates[0] - 1) < abs(powers[1] / powers[0] - 1):
        return "exponential", rates[1]
    return "algebraic", powers[1]


def _linear_stays() -> Finding:
    """The minimal excess risk of linear attention at large and at infinite signal strength."""
    from theorykit.single_location.population import optimal_risk

    strong, lengths = 1e8, (2, 10)
    weak, far, limit = (
        [float(optimal_risk(task(nu, n), Linear(), excess=True).risk) for n in lengths]
        for task, nu in ((Spiked, 10.0), (Spiked, strong), (Max, math.inf))
    )
    evidence = {f"spiked, L = {n}, nu = 1e8: nu times excess risk": strong * r
                for n, r in zip(lengths, far, strict=True)}  # fmt: skip
    evidence |= {f"max, L = {n}, nu = inf: excess risk": r for n, r in zip(lengths, limit, strict=True)}
    outcomes = {
        _IF["spiked"]: all(b > 0.1 * a for a, b in zip(weak, far, strict=True)),
        _IF["max"]: min(limit) > 0.1,
    }
    vanishes = all(abs(strong * r / n - 1) < 1e-4 for n, r in zip(lengths, far, strict=True))
    return Finding(outcomes, evidence, {_IF["spiked"]: "it vanishes like L/nu"} if vanishes else {})


def _linear_length() -> Finding:
    """Linear attention over lengths, at fixed signal strength; the Bayes risk beside it."""
    from theorykit.single_location.population import bayes_risk, optimal_risk

    lengths, longest = (1, 2, 3, 10, 1000, 10**6), 10**6
    evidence, outcomes = {}, {}
    for name, task in (("spiked", Spiked(4, 1)), ("max", Max(math.inf, 1))):
        risks = [float(optimal_risk(task.replace(length=n), Linear(), excess=True).risk) for n in lengths]
        where = f"{name}, nu = {task.nu:g}"
        evidence[f"{where}, L = 2: excess risk"] = risks[1]
        evidence[f"{where}, L = 1e6: 1 - excess risk"] = 1 - risks[-1]
        bayes = bayes_risk(task.replace(length=longest), excess=True)
        evidence[f"{where}, L = 1e6: 1 - excess Bayes risk"] = 1 - bayes
        grows = all(a < b for a, b in pairwise(risks))
        outcomes[_IF[name]] = grows and 1 - risks[-1] < 1e-3
    return Finding(outcomes, evidence)


def _variable_length() -> Finding:
    """Random length of mean 2 against length 2."""
    from theorykit.single_location.population import bayes_risk, best_elementwise_risk, optimal_risk

    evidence: dict[str, float] = {}
    outcomes, remarks = {}, {}
    for name, fixed in (("spiked", Spiked(4, 2)), ("max", Max(math.inf, 2))):
        random = fixed.replace(length=_THREE)
        changes = {
            "best elementwise": best_elementwise_risk(random) - best_elementwise_risk(fixed),
            "linear": optimal_risk(random, Linear()).risk - optimal_risk(fixed, Linear()).risk,
        }
        evidence |= {f"{name}, {n}: risk at random minus fixed length": c for n, c in changes.items()}
        outcomes[_IF[name]] = all(change > _SAME for change in changes.values())
        if all(abs(change) < _SAME for change in changes.values()):
            remarks[_IF[name]] = "only the mean length matters"
    gain = bayes_risk(Spiked(4, 2)) - bayes_risk(Spiked(4, _THREE))
    evidence["spiked, Bayes: risk at fixed minus random length"] = gain
    return Finding(outcomes, evidence, remarks)


def _normalization() -> Finding:
    """Softmax (its risk is the Bayes risk) and softplus against the best elementwise activation."""
    from theorykit.single_location.population import bayes_risk, best_elementwise_risk, optimal_risk

    def softplus(task: Task) -> float:
        return optimal_risk(task, Softplus(), excess=True).risk

    normalized: dict[str, Callable[[Task], float]] = {
        "the kernel is exponential": partial(bayes_risk, excess=True),
        "the kernel is softplus": softplus,
    }
    cases, nus = (Spiked(4, 3), Spiked(64, 2)), (64, 128, 256)
    evidence: dict[str, float] = {}
    outcomes, remarks = {}, {}
    bounds = [best_elementwise_risk(task, excess=True) for task in cases]
    decay = _decay(nus, [best_elementwise_risk(Spiked(nu, 2), excess=True) for nu in nus])
    for clause, function in normalized.items():
        values = [function(task) for task in cases]
        outcomes[clause] = all(value < bound for value, bound in zip(values, bounds, strict=True))
        kernel = clause.rsplit(" ", 1)[1]
        evidence |= {f"{kernel} kernel, spiked, nu = {t.nu:g}, L = {t.length}": v
                     for t, v in zip(cases, values, strict=True)}  # fmt: skip
        kind, rate = _decay(nus, [function(Spiked(nu, 2)) for nu in nus])
        evidence[f"{kernel} kernel, spiked, L = 2: rate of the {kind} decay"] = rate
        if kind != decay[0]:
            remarks[clause] = f"{kind} decay with nu, {decay[0]} for the best elementwise activation"
    evidence |= {f"best elementwise, spiked, nu = {t.nu:g}, L = {t.length}": b
                 for t, b in zip(cases, bounds, strict=True)}  # fmt: skip
    evidence[f"best elementwise, spiked, L = 2: rate of the {decay[0]} decay"] = decay[1]
    return Finding(outcomes, evidence, remarks)


def _aligned_key() -> Finding:
    """Keys with an orthogonal part, at the best v, against the best overlaps: observed, not proved.

    For linear attention it is proved in ``theorykit.derivations.single_location.linear``.
    """
    from theorykit.single_location.population import optimal_risk

    evidence, outcomes = {}, {}
    cases: tuple[tuple[str, Task, Activation], ...] = (
        ("attention is softmax", Spiked(4, 3), Softmax()),
        ("attention is softplus", Spiked(4, 3), Softplus()),
        ("attention is erf", Spiked(4, 2), Erf()),
        ("attention is linear", Spiked(4, 3), Linear()),
        ("attention is linear", Max(4, 3), Linear()),
    )
    for name, task, activation in cases:
        best = optimal_risk(task, activation, excess=True)
        where = f"{name} and {_IF[task.name]}"
        least = min(
            _best_value_excess(task, activation, stretch * best.m_k, share) - best.risk
            for stretch in (0.9, 1.0, 1.1)
            for share in (0.02, 0.2)
        )
        evidence[f"{where}: smallest increase of the risk by an orthogonal part"] = least
        outcomes[where] = least > 0 and abs(best.q_k - best.m_k**2) <= 1e-6 * best.q_k
    return Finding(outcomes, evidence)


def _best_value_excess(task: Task, activation: Activation, m_k: float, share: float) -> float:
    """Excess risk at the best v of a key with m_k and q_k = (1 + share) m_k^2."""
    from theorykit.single_location.population import attention_moments

    mean, square = attention_moments(task, activation, m_k=m_k, q_k=(1 + share) * m_k * m_k)
    return 1 - mean * mean / square


def _softmax_beats_linear() -> Finding:
    from theorykit.single_location.trained_claims import softmax_beats_linear

    return softmax_beats_linear()


#: Name of a claim -> function that tests it.
EVALUATORS: Mapping[str, Evaluator] = {
    "softmax_is_bayes": _softmax_is_bayes,
    "softmax_exponential_in_nu": _softmax_exponential,
    "linear_does_not_vanish_with_nu": _linear_stays,
    "linear_worse_with_length": _linear_length,
    "variable_length_hurts_elementwise": _variable_length,
    "normalization_is_key": _normalization,
    "optimal_q_k": _aligned_key,
    "softmax_beats_linear_when_trained": _softmax_beats_linear,
}
