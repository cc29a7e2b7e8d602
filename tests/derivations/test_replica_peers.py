"""Ridge and logistic regression from declared problems, against state-evolution numbers that others printed.

Peers, with their conventions in ours:

* BootstrapAsymptotics (github.com/SPOC-group/BootstrapAsymptotics, test/ridge.jl): ``α = n/d``, ``λ``, label noise of
  variance ``Δ``, ``m, Q, V`` and their conjugates are ``alpha``, ``ridge_w``, ``noise**2``, ``m_w q_w V_w`` and hats;
  loss (y - x)^2/2; accuracy stated there: 1e-3. A pair bootstrap multiplies the loss of each sample by an independent
  Poisson(1) weight.
* LogisticBootstrapStateEvolution (github.com/lclarte/LogisticBootstrapStateEvolution, test/scratchpad.jl), the logistic
  part of the same project: labels +-1 with probability sigmoid(y z), loss log(1 + exp(-y x)), the same weights up to
  6; iterated until q changes by less than 1e-3, relatively, in a step: 3e-3 here. By symmetry y = 1 here, with the
  density 2 sigmoid(z) of y z.
* GCMProject (github.com/lclarte/GCMProject, src/GCMProject/how_to.ipynb): ridge regression with identity covariances,
  no label noise, loss (y - x)^2/2, Poisson(1) weights; iterated to 1e-7. Its ``self_overlap`` averages responses over
  the weights before squaring them: it is the overlap between two independent resamples, not q_w.
"""

from __future__ import annotations

import math

import pytest
import sympy as sp

from theorykit.derivations.ledger import Quantity
from theorykit.derivations.replica import Problem, Vector, derive_saddle_point
from theorykit.derivations.tensor import tensor_value

W = Vector("w")
X, Z = W.field[1], W.truth[1]
XI = sp.Symbol("xi", real=True)
NOISE, WEIGHT = sp.Symbol("noise", nonnegative=True), sp.Symbol("weight", positive=True)
HATS, OVERLAPS = ("V_hat_w", "m_hat_w", "q_hat_w"), ("V_w", "m_w", "q_w")


def poisson(largest):
    """Weights 1, 2, ... and their probabilities; a weight of 0 has no response."""
    return {p: math.exp(-1) / math.factorial(p) for p in range(1, largest + 1)}


def row(symbol):
    return Quantity(symbol, rf"\mathrm{{{symbol.name}}}", symbol.name)


@pytest.fixture(scope="module")
def ridge():
    loss = WEIGHT * (Z + NOISE * XI - X) ** 2 / 2
    return derive_saddle_point(
        Problem(
            "ridge", "Weighted ridge", "tests", (W,), loss, shared=(XI,), parameters=(row(NOISE), row(WEIGHT))
        )
    )


@pytest.fixture(scope="module")
def logistic():
    return derive_saddle_point(
        Problem(
            "logistic",
            "Weighted logistic regression",
            "tests",
            (W,),
            WEIGHT * sp.log(1 + sp.exp(-X)),
            tilt=2 / (1 + sp.exp(-Z)),
            parameters=(row(WEIGHT),),
        )
    )


def solve_ridge(derivation, alpha, penalty, noise, weights, crossed=False):
    """Fixed point of the closed equations, conjugates averaged over the weights of a sample.

    ``crossed``: q_hat of two resamples with independent weights, from the mean response (linear in y - omega).
    """
    observables = derivation.equations.observables
    symbols = {n: sorted(observables[n].free_symbols, key=str) for n in (*HATS, *OVERLAPS)}
    functions = {n: sp.lambdify(symbols[n], observables[n], "math") for n in symbols}
    state = {"V_w": 1.0, "m_w": 0.5, "q_w": 0.5, "alpha": alpha, "noise": noise, "ridge_w": penalty}

    def value(name, **more):
        known = {**state, **more}
        return functions[name](*[known[s.name] for s in symbols[name]])

    for _ in range(3000):
        means = {n: sum(p * value(n, weight=w) for w, p in weights.items()) for n in HATS}
        if crossed:  # V_hat is the mean slope of the response, alpha times
            plain = value("q_hat_w", weight=1.0) / value("V_hat_w", weight=1.0) ** 2
            means["q_hat_w"] = plain * means["V_hat_w"] ** 2
        state |= means
        state |= {n: value(n) for n in OVERLAPS}
    return state


def test_ridge_regression_has_the_printed_values_of_a_pair_bootstrap(ridge):
    found = solve_ridge(ridge, 1.0, 1e-4, 1.0, poisson(8))
    printed = {"m_w": 0.631987, "q_w": 2.34849, "V_w": 3680.13, "m_hat_w": 0.00017173, "q_hat_w": 1.43915e-7,
               "V_hat_w": 0.00017173}  # fmt: skip
    assert {n: found[n] for n in printed} == pytest.approx(printed, rel=1e-3)


def test_ridge_curve_over_the_sample_ratio_has_the_printed_values(ridge):
    alphas = [0.5 + i / 6 for i in range(10)]
    m = (0.2857776801844226, 0.375908003173555, 0.4620248365585041, 0.5428470333165891, 0.6168452867108212,
         0.682452292655108, 0.7384771789048663, 0.7845608006095608, 0.8213382236447737,
         0.8501630087931975)  # fmt: skip
    q = (0.18125601075994408, 0.24606874045354837, 0.3131352179464854, 0.38199883752962116, 0.45155153902016004,
         0.5198722216833093, 0.5844189848721579, 0.6427154073354203, 0.6931797525045703,
         0.7354821655961669)  # fmt: skip
    found = [solve_ridge(ridge, a, 0.1, 0.0, poisson(20), crossed=True) for a in alphas]
    assert [f["m_w"] for f in found] == pytest.approx(m, rel=1e-6)
    assert [f["q_w"] for f in found] == pytest.approx(q, rel=1e-6)


def test_single_ridge_point_has_the_printed_values(ridge):
    found = solve_ridge(ridge, 2.5, 0.3, 0.0, poisson(20), crossed=True)
    printed = (0.7886320523802121, 0.6367356367534799, 0.7045598253982335)
    assert (found["m_w"], found["q_w"], found["V_w"]) == pytest.approx(printed, rel=1e-6)


PRINTED = [
    (1.0, 2.0, (0.4551180048548463, 0.07756231047458477, 0.07034273363434002),
     (0.19723234267327278, 0.17042241714722361, 0.31055895718276305)),
    (2.0, 0.1, (4.447796051796358, 0.7629706003134091, 3.8746065374638277),
     (0.12483045273537757, 0.1715390254922466, 0.16643081204981966)),
]  # fmt: skip


@pytest.mark.parametrize("alpha, penalty, overlaps, hats", PRINTED)
def test_printed_points_of_logistic_regression_solve_our_equations(logistic, alpha, penalty, overlaps, hats):
    observables = logistic.equations.observables
    point = {"alpha": alpha, **dict(zip(OVERLAPS, overlaps, strict=True))}
    found = dict.fromkeys(HATS, 0.0)  # smooth averages: a third of the nodes is plenty
    for weight, probability in poisson(6).items():
        for name in HATS:
            found[name] += probability * tensor_value(
                observables[name], {**point, "weight": weight}, scale=0.35
            )
    assert [found[n] for n in HATS] == pytest.approx(hats, rel=3e-3)
    values = {"ridge_w": penalty, **found}
    again = [tensor_value(observables[n], {s.name: values[s.name] for s in observables[n].free_symbols})
             for n in OVERLAPS]  # fmt: skip
    assert again == pytest.approx(overlaps, rel=3e-3)
