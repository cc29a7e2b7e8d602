"""Where the theory of the interpolation error is set beside simulations of the finite model.

The theory is a limit, the simulation has n tokens. How far apart they may be is not chosen: it is measured once at
n = 500, from draws that no comparison uses (:func:`calibrate`; the numbers are in
:mod:`theorykit.interpolation.validation_biases`), and must have shrunk at larger n like 1/sqrt(n), the slowest rate at
which the linearization of the attention matrix converges for a weakly differentiable f. A theory whose limit is wrong
has a deviation that does not shrink, and is refused as soon as the simulation resolves it.

The largest deviations are those of a strong signal. It shifts the scores by b, of order |mu|^2/sqrt(p), and while the
linearization has a_1 b in the place of the mean E f(x + b), the next term is a_3 b^3/sqrt(6): a relative change of
order (a_3/a_1) |mu|^4/p of the signal that K carries. It has the sign of a_3 and vanishes like 1/n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from theorykit.interpolation.model import SOFTMAX_MAP, Attention, Overlaps
from theorykit.interpolation.validation_biases import DEVIATIONS, MEASURED_AT, NONE, Deviation
from theorykit.results import Estimate
from theorykit.theory import ValidationPoint

__all__ = ["CASES", "QUICK", "Case", "calibrate", "predict", "simulate_case", "validation_points"]

_TOKENS = 800
_DRAWS = 48
_SEED = 50_000


@dataclass(frozen=True)
class Case:
    """A model, how it is drawn, and its deviation from the limit at n = 500."""

    model: Attention
    noise: str = "gaussian"
    attention: str = "entrywise"
    measured: Deviation = NONE

    def allowed(self, tokens: int) -> Deviation:
        """Relative deviations that are allowed for: those measured, shrinking like 1/sqrt(n), growing like 1/n."""
        rate = 0.5 if tokens >= MEASURED_AT else 1.0
        scale = (MEASURED_AT / tokens) ** rate
        return Deviation(self.measured.error * scale, self.measured.freedom * scale)


_GENERAL = Overlaps(key2=1, query2=2, signal_key=0.5, signal_query=-0.3, key_query=0.2)
_ORTHOGONAL = Overlaps(key2=1, query2=1, key_query=0.5)
_KEY_ALONE = Overlaps(key2=1, query2=1, signal_key=1)
_QUERY_ALONE = Overlaps(key2=1, query2=1, signal_query=1)


def _cases() -> tuple[Case, ...]:
    def balanced(formula: str, ratio: float, ridge: float, **options: Any) -> Case:
        drawn = {name: options.pop(name) for name in ("noise", "attention") if name in options}
        return Case(Attention(formula, ratio, ridge, **options), **drawn)

    def unbalanced(formula: Any, ratio: float, label_mean: float, **options: Any) -> Case:
        drawn = {name: options.pop(name) for name in ("noise", "attention") if name in options}
        return Case(Attention(formula, ratio, 0.1, label_mean=label_mean, **options), **drawn)

    softmax = SOFTMAX_MAP.text
    return (
        # f, ratio, ridge and signal
        balanced("tanh(x)", 0.5, 0.1, signal=1.0),
        balanced("tanh(x)", 0.5, 0.1, signal=1.0, aligned=1.0),
        balanced("tanh(x)", 0.25, 0.01, signal=2.0),
        balanced("tanh(x)", 2.0, 1.0, signal=1.0, aligned=-1.0),
        balanced("erf(x)", 0.25, 0.01, signal=2.0),
        balanced("erf(x)", 1.0, 0.1, signal=1.0, aligned=2.0),
        balanced("erf(x)", 2.0, 0.1),
        balanced("cos(x)", 0.5, 0.1, signal=1.0, aligned=1.0),
        balanced("cos(x)", 1.0, 1.0),
        balanced("sin(x)", 1.0, 0.1, signal=1.0, aligned=1.0),
        balanced("x", 0.5, 0.1, signal=1.0),
        balanced("x", 2.0, 0.1, signal=1.0, aligned=0.5),
        balanced("relu(x)", 0.5, 0.1, signal=1.0),
        balanced("relu(x)", 1.0, 1.0, signal=1.0, aligned=2.0),
        balanced("gelu(x)", 0.5, 0.1, signal=1.0, aligned=1.0),
        balanced("silu(x)", 2.0, 1.0, signal=1.0),
        balanced("exp(x)", 1.0, 0.1),
        balanced(softmax, 0.5, 1.0, signal=1.0),
        # weights that are not aligned
        balanced("tanh(x)", 0.5, 0.1, signal=1.0, overlaps=_GENERAL),
        balanced("tanh(x)", 0.5, 0.1, signal=1.0, overlaps=_ORTHOGONAL),
        balanced("tanh(x)", 0.5, 0.1, signal=1.0, overlaps=_KEY_ALONE),
        balanced("tanh(x)", 0.5, 0.1, signal=1.0, overlaps=_QUERY_ALONE),
        balanced("relu(x)", 0.5, 0.1, signal=1.0, overlaps=_GENERAL),
        # the diagonal
        balanced("tanh(x)", 0.5, 0.1, signal=1.0, diagonal=1.0),
        balanced("x", 2.0, 0.01, signal=1.0, diagonal=1.0),
        # other laws of the noise
        balanced("tanh(x)", 0.5, 0.1, signal=1.0, noise="rademacher", square_variance=0.0),
        balanced("tanh(x)", 0.5, 0.1, signal=1.0, aligned=1.0, noise="uniform", square_variance=0.8),
        balanced("relu(x)", 0.5, 0.1, signal=1.0, noise="student5", square_variance=8.0),
        # softmax itself; balanced labels do not see how it is centred
        balanced(softmax, 0.5, 0.1, signal=1.0, attention="softmax", centering="none"),
        balanced(softmax, 1.0, 0.1, signal=1.0, attention="softmax", centering="row"),
        # unbalanced labels
        unbalanced("tanh(x)", 0.5, 0.6, signal=1.0),
        unbalanced("relu(x)", 0.5, 0.6),
        unbalanced("relu(x)", 0.5, 0.6, noise="rademacher", square_variance=0.0),
        unbalanced("relu(x)", 0.5, 0.6, noise="uniform", square_variance=0.8),
        unbalanced("cos(x)", 1.0, 0.6),
        unbalanced("cos(x)", 1.0, 0.6, centering="row"),
        unbalanced("cos(x)", 1.0, 0.6, centering="column"),
        unbalanced("relu(x)", 0.5, -0.4, signal=1.0, aligned=1.0),
        unbalanced("relu(x)", 0.5, 0.6, centering="none"),
        unbalanced(softmax, 0.5, 0.6, attention="softmax", centering="none"),
        unbalanced(softmax, 0.5, 0.6, attention="softmax", centering="row"),
        unbalanced(softmax, 0.5, 0.6, attention="softmax", centering="column"),
        # strong signals, where the cubic term counts; other ratios, diagonals and mean components
        balanced("sin(x)", 0.5, 0.1, signal=2.0),
        balanced("sin(x)", 0.5, 0.1, signal=1.0, aligned=1.0),
        balanced("erf(x)", 0.25, 1.0, signal=2.0),
        balanced("cos(x)", 0.25, 0.1, signal=2.0),
        balanced("tanh(x)", 4.0, 0.3, signal=1.0),
        balanced("relu(x)", 2.0, 0.1, signal=1.0, diagonal=0.9),
        balanced("relu(x)", 0.5, 0.1, signal=1.0, aligned=1.0, diagonal=0.3),
        balanced(softmax, 0.5, 0.1, signal=1.0, aligned=1.0, attention="softmax", centering="none"),
        unbalanced("tanh(x)", 0.5, 0.5, signal=1.0, aligned=1.0),
        unbalanced("tanh(x) + 0.5", 0.5, 0.5, signal=1.0, centering="none"),
    )


CASES: tuple[Case, ...] = tuple(
    replace(case, measured=found) for case, found in zip(_cases(), DEVIATIONS, strict=True)
)
#: Positions of the cases that are run with few tokens, where a test must be fast.
QUICK = (1, 7, 10, 18, 25, 39)


def predict(case: Case, tokens: int) -> dict[str, Estimate]:
    """E and the degrees of freedom in the limit.

    Their errors are half of the deviation that is allowed for at this number of tokens: deviations are spread over
    what is allowed, and reports judge their mean square as well.
    """
    from theorykit.interpolation import solve

    found, allowed = solve(case.model), case.allowed(tokens)
    shares = {"interpolation_error": allowed.error, "degrees_of_freedom": allowed.freedom}
    return {name: _widened(getattr(found, name), share) for name, share in shares.items()}


def _widened(value: Estimate, share: float) -> Estimate:
    return Estimate(float(value), value.error + share / 2 * abs(float(value)))


def calibrate(position: int) -> Deviation:
    """Deviations of a case from the limit at n = 500 by 48 draws of their own, two standard errors added."""
    from theorykit.interpolation import solve

    case = CASES[position]
    found, limit = simulate_case(case, MEASURED_AT, _DRAWS, _SEED + position), solve(case.model)

    def relative(name: str) -> float:
        simulated, value = found[name], float(getattr(limit, name))
        return (abs(float(simulated) - value) + 2 * simulated.error) / abs(value)

    return Deviation(relative("interpolation_error"), relative("degrees_of_freedom"))


def simulate_case(case: Case, tokens: int, trials: int, seed: Any) -> dict[str, Estimate]:
    """The same simulated, with linear regression on the same draws as control variate where trials are enough."""
    from theorykit.interpolation import linear_regression_error
    from theorykit.interpolation.simulation import simulate

    found: Any = simulate(case.model, tokens, trials, seed=seed, noise=case.noise, attention=case.attention)
    error = found.interpolation_error
    if trials >= 8:
        model = case.model
        baseline = linear_regression_error(ratio=model.ratio, ridge=model.ridge, signal=model.signal)
        error = found.controlled_error(float(baseline))
    return {"interpolation_error": error, "degrees_of_freedom": found.degrees_of_freedom}


def validation_points(
    cases: tuple[Case, ...] = CASES, tokens: int = _TOKENS, trials: int = 16
) -> tuple[ValidationPoint, ...]:
    """The cases as points of a theory, at a number of tokens."""
    return tuple(
        ValidationPoint(
            {
                "model": repr(case.model),
                "noise": case.noise,
                "attention": case.attention,
                "tokens": tokens,
            },
            partial(predict, case, tokens),
            partial(simulate_case, case, tokens),
            trials,
        )
        for case in cases
    )
