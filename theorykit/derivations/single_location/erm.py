r"""Trained attention at finite sample ratio: replica equations of regularized least squares on attention.

Setting: N = alpha D samples (X, y) of single-location regression; (k, v) minimize sum (y - sigma(chi).z)^2/2 plus
ridge_k |k|^2/2 + ridge_v |v|^2/2 with chi = X k/sqrt(D), z = X v/sqrt(D). The saddle point is that of
:mod:`theorykit.derivations.replica` for two vectors and L tokens (arXiv 2509.21936). Results:

* the value field is minimized in closed form; what is left is a problem in the L key fields, and it depends on the
  tokens through sums S of a few statistics of one token each, and a separable parabola;
* the responses f_k, f_v = -(gradient of the Moreau envelope) follow from it by differentiation;
* conjugates in averages that can be sampled: by parts (jumps of the minimizer included) and with pointwise
  derivatives of the responses (smoother, jumps left out; equal where there are none).

The training loss carries the 1/2. Responses are abstract functions of the fields in the steps on averages; those steps
are checked with polynomial ones.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.ledger import Definition, Derivation, Equations, Quantity, Step, verified
from theorykit.derivations.proximal import AtProximal, solve_quadratic
from theorykit.derivations.replica import ALPHA, Problem, derive_saddle_point
from theorykit.derivations.single_location.erm_conjugates import derive_conjugates
from theorykit.derivations.single_location.erm_one_sample import derive_law_of_fields, derive_sample_problem
from theorykit.derivations.single_location.erm_symbols import (
    CHI,
    GAUSS_V,
    KEY,
    LABEL,
    MEANS,
    NOISE_K,
    OMEGA_K,
    OMEGA_V,
    POINT,
    SCORE,
    STATISTICS,
    TRUTH_K,
    VALUE,
)  # fmt: skip
from theorykit.derivations.single_location.symbols import DELTA, PAPER

__all__ = ["derive_erm"]


def derive_erm(kind: str = "normalized", formula: str = "exp(x)", shifted: bool = False) -> Derivation:
    """Equations of trained attention, for kernels ("normalized") or activations ("elementwise") given by a formula.

    Observables: ``energy``, ``residual``, ``sample_loss``, ``response_v`` in the sums S and the fields of a token,
    ``statistic_0`` ... of one token, ``field_k``, ``field_v``, ``label_mean``, ``label_spread``; conjugates in sampled
    averages ``mean_*`` (``V_hat_*``: by parts, ``V_hat_*_pointwise``), and order parameters in conjugates.
    """
    if kind not in ("normalized", "elementwise"):
        raise ValueError(f"kind must be 'normalized' or 'elementwise', got {kind!r}")
    steps: list[Step] = []
    definitions: list[Definition] = []
    observables = derive_sample_problem(kind, formula, shifted, definitions, steps)
    observables |= derive_law_of_fields(definitions, steps)
    observables |= derive_conjugates(definitions, steps)
    observables |= _order_parameters(definitions, steps)
    rows = _rows(observables)
    record = Equations(f"single_location.erm.{kind}", rows, {}, observables)
    return Derivation(
        f"single_location.erm.{kind}", f"Trained {kind} attention", PAPER, tuple(definitions), tuple(steps), record
    )  # fmt: skip


def _order_parameters(definitions: list[Definition], steps: list[Step]) -> dict[str, sp.Expr]:
    """m, q, V in their conjugates: the ridge, as the general saddle point derives it for each vector."""
    saddle = derive_saddle_point(_stand_in())
    found = {}
    for vector in (KEY, VALUE):
        for symbol in (vector.m, vector.q, vector.V):
            name = str(symbol)
            (definition,) = [d for d in saddle.definitions if d.symbol == symbol]
            definitions.append(definition)
            for step in saddle.steps:
                if step.name.endswith(f"({symbol})"):
                    premises = tuple(p for p in step.premises if p != "replica-symmetric action")
                    steps.append(Step(step.name, step.lhs, step.rhs, premises, step.reason, step.check))
            found[name] = saddle.equations.observables[name]
    return found | _objective(definitions, steps)


def _objective(definitions: list[Definition], steps: list[Step]) -> dict[str, sp.Expr]:
    """Objective per dimension, penalties and loss, and the matrix whose spectral radius must stay below 1."""
    problem, symbol = _stand_in(), sp.Symbol("objective", real=True)
    components = [problem.at_component(a, lambda _, a=a: problem.prior(a).regularizer) for a in (KEY, VALUE)]
    closed = [a.ridge * (a.m_hat**2 + a.q_hat) / (2 * (a.ridge + a.V_hat) ** 2) for a in (KEY, VALUE)]
    loss = ALPHA * MEANS["loss"]
    point = {**POINT, "mean_loss": 0.3, "L": 1}
    for a in (KEY, VALUE):
        point |= {
            f"m_hat_{a.name}": 0.7,
            f"q_hat_{a.name}": 0.5,
            f"V_hat_{a.name}": 0.9,
            f"ridge_{a.name}": 0.4,
        }
    definitions.append(
        Definition(symbol, sp.Add(*components) + loss, "objective per dimension at the saddle point")
    )
    steps.append(
        Step("penalties (objective)", sp.Add(*components) + loss, sp.Add(*closed) + loss, (symbol.name,),
             "a quadratic objective has a linear minimizer; Wick's theorem",
             verified(point, concrete=lambda e, _: e.replace(lambda n: isinstance(n, AtProximal), solve_quadratic)))
    )  # fmt: skip
    return {"objective": sp.Add(*closed) + loss}


def _stand_in() -> Problem:
    """Two vectors on one token: order parameters depend on the prior only."""
    loss = (KEY.truth[1] + VALUE.truth[1] - KEY.field[1] * VALUE.field[1]) ** 2 / 2
    return Problem("single_location.prior", "Ridge", PAPER, (KEY, VALUE), loss)


def _rows(observables: dict[str, sp.Expr]) -> tuple[Quantity, ...]:
    rows = [*KEY.rows(), *VALUE.rows(), Quantity(ALPHA, r"\alpha", "samples per dimension, N/D", "(0, inf)"),
            Quantity(DELTA, r"\Delta", "standard deviation of the label noise", "[0, inf)"),
            Quantity(LABEL, "y", "label"), Quantity(CHI, r"\chi", "key field of a token"),
            Quantity(OMEGA_V, r"\omega_v", "value field of a token without the sample"),
            Quantity(OMEGA_K, r"\omega_k", "key field of a token without the sample"),
            Quantity(SCORE, "c", "shift of the error function"),
            Quantity(TRUTH_K, r"\chi^*", "field of a token along k*"),
            Quantity(NOISE_K, r"\eta", "rest of its key field"),
            Quantity(GAUSS_V, "h", "its value field over sqrt(q_v)")]  # fmt: skip
    rows += [Quantity(s, f"S_{i}", "sum of a statistic over tokens") for i, s in enumerate(STATISTICS)]
    rows += [
        Quantity(s, rf"\mathsf{{E}}_{{\mathrm{{{n.replace('_', '-')}}}}}", "average")
        for n, s in MEANS.items()
    ]
    used = set().union({KEY.V}, *[e.free_symbols for e in observables.values()])
    results = [Quantity(sp.Symbol(n, real=True), *row) for n, row in _RESULTS.items() if n in observables]
    known = [r for r in rows if r.symbol in used]
    return (*known, *[r for r in results if r.name not in {k.name for k in known}])


#: What is derived: name -> (LaTeX, meaning).
_RESULTS = {
    "energy": (r"\mathcal E", "energy of the key fields, the value field minimized"),
    "residual": ("r", "residual of the sample"),
    "sample_loss": (r"\ell", "loss of the sample, half its squared residual"),
    "response_v": ("f_v", "response of the value field of a token"),
    "weight": (r"\sigma", "attention weight of a token"),
    "weight_square": (r"\Sigma_2", "sum of the squared attention weights"),
    **{f"statistic_{i}": (f"t_{i}", f"what a token adds to S_{i}") for i in range(3)},
    "field_k": (r"\omega_k^{\circ}", "key field of a token without the sample, in standard ones"),
    "penalty": (r"\mathcal P", "penalty of the key field of a token"),
    "field_v": (r"\omega_v^{\circ}", "value field of a token without the sample, in standard ones"),
    "label_mean": (r"\bar y", "mean of the label given the value field of its token"),
    "label_spread": (r"\Delta_y", "standard deviation of the label given that field"),
    "V_hat_k_pointwise": (r"\hat V_k^{\partial}", "conjugate variance of the key by derivatives at points"),
    "V_hat_v_pointwise": (r"\hat V_v^{\partial}", "conjugate variance of the value by derivatives at points"),
    "m_hat_k_infinite": (r"\hat m_k^{\infty}", "conjugate overlap of the key, any law of the location"),
    "m_hat_v_smooth": (r"\hat m_v^{\partial}", "conjugate overlap of the value by derivatives at points"),
    "objective": ("e", "objective per dimension"),
    "test_risk": ("R", "population risk of the trained attention"),
    "train_loss": (r"\epsilon", "training loss, half the mean squared residual"),
}
