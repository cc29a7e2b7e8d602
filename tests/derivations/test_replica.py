"""Saddle-point equations from declared problems, against results that are known by other means.

Independent truth: the closed form of ridge regression; the scalar equations of the LASSO (Donoho, Maleki, Montanari
2011) and of the logistic maximum likelihood estimate (Sur, Candes 2019), solved here with SciPy in their authors'
parametrization. Tolerances: 1e-10 for closed forms, 1e-5 for smooth quadratures, 3e-4 for the kinked ones of the LASSO
(a rule of 360 nodes of step 0.06 is off by the square of the step).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import brentq, root
from scipy.stats import norm

from theorykit.derivations.audit import audit, audit_step, sign_flips
from theorykit.derivations.ledger import Quantity
from theorykit.derivations.proximal import AtProximal, Moreau, bisect_slope, solve_quadratic
from theorykit.derivations.replica import TRUTH, Prior, Problem, Vector, derive_saddle_point, over_tokens
from theorykit.derivations.tensor import evaluate_tensor
from theorykit.errors import DerivationError

W = Vector("w")
NOISE = sp.Symbol("noise", nonnegative=True)
GAMMA = sp.Symbol("gamma", positive=True)
PENALTY, FRACTION = sp.symbols("penalty fraction", positive=True)
XI = sp.Symbol("xi", real=True)
X, Z = W.field[1], W.truth[1]
SQUARE = (Z + NOISE * XI - X) ** 2 / 2


def row(symbol):
    return Quantity(symbol, rf"\mathrm{{{symbol.name}}}", symbol.name)


@pytest.fixture(scope="module")
def ridge_regression():
    problem = Problem("ridge", "Ridge", "tests", (W,), SQUARE, shared=(XI,), parameters=(row(NOISE),))
    return derive_saddle_point(problem)


@pytest.fixture(scope="module")
def lasso():
    truth = ((FRACTION, TRUTH / sp.sqrt(FRACTION)), (1 - FRACTION, sp.Integer(0)))
    problem = Problem(
        "lasso", "LASSO", "tests", (W,), SQUARE, shared=(XI,),
        priors={"w": Prior(PENALTY * sp.Abs(W.weight), truth)},
        parameters=(row(NOISE), row(PENALTY), row(FRACTION)),
    )  # fmt: skip
    return derive_saddle_point(problem)


@pytest.fixture(scope="module")
def logistic():
    # label 1 without loss of generality: the tilt is the density of y z given y = 1
    problem = Problem(
        "logistic", "Logistic regression", "tests", (W,), sp.log(1 + sp.exp(-X)),
        tilt=2 / (1 + sp.exp(-GAMMA * Z)), parameters=(row(GAMMA),),
    )  # fmt: skip
    return derive_saddle_point(problem)


def attention(length):
    k, v = Vector("k"), Vector("v")
    output = over_tokens(lambda i: (1 + k.field[i]) * v.field[i], length)
    return Problem("toy", "Linear attention", "tests", (k, v), (v.truth[1] - output) ** 2 / 2,
                   tilt=sp.exp(k.truth[1] - sp.Rational(1, 2)), length=length,
                   parameters=(Quantity(length, "L", "tokens"),) if length.is_Symbol else ())  # fmt: skip


def values(derivation, point, names=None):
    observables = derivation.equations.observables
    return {n: evaluate_tensor(observables[n], point)[0] for n in names or observables}


def iterate(derivation, parameters, steps=400):
    """The fixed point of closed equations, by plain iteration."""
    observables = derivation.equations.observables
    names = ["q_hat_w", "V_hat_w", "m_hat_w", "V_w", "m_w", "q_w"]
    state = {"V_w": 0.5, "m_w": 0.5, "q_w": 0.5, "q_hat_w": 1.0, "V_hat_w": 1.0, "m_hat_w": 1.0}
    functions = {}
    for name in [*names, "train_loss", "objective"]:
        symbols = sorted(observables[name].free_symbols, key=str)
        functions[name] = (
            [s.name for s in symbols],
            sp.lambdify(symbols, observables[name], "numpy", cse=True),
        )
    for _ in range(steps):
        for name in names:
            arguments, function = functions[name]
            state[name] = float(function(*[{**parameters, **state}[a] for a in arguments]))
    for name in ("train_loss", "objective"):
        arguments, function = functions[name]
        state[name] = float(function(*[{**parameters, **state}[a] for a in arguments]))
    return state


def test_ridge_regression_has_its_closed_form(ridge_regression):
    alpha, noise, penalty = 2.0, 0.5, 0.3
    state = iterate(ridge_regression, {"alpha": alpha, "noise": noise, "ridge_w": penalty})
    b = penalty + alpha - 1
    V = (1 - alpha - penalty + math.sqrt(b * b + 4 * penalty)) / (2 * penalty)
    m = 1 - penalty * V
    risk = (penalty**2 * V**2 + noise**2) / (1 - alpha * V**2 / (1 + V) ** 2)
    q = risk - noise**2 - 1 + 2 * m
    train = risk / (2 * (1 + V) ** 2)
    expected = {"V_w": V, "m_w": m, "q_w": q, "train_loss": train}
    assert {n: state[n] for n in expected} == pytest.approx(expected, rel=1e-12)
    assert state["objective"] == pytest.approx(alpha * train + penalty * q / 2, rel=1e-12)


def test_action_of_ridge_regression_is_the_objective_at_its_saddle_point(ridge_regression):
    parameters = {"alpha": 1.5, "noise": 0.4, "ridge_w": 0.2}
    state = iterate(ridge_regression, parameters)
    (step,) = [s for s in ridge_regression.steps if s.name == "replica-symmetric action"]
    closed = step.rhs.replace(lambda e: isinstance(e, Moreau | AtProximal), solve_quadratic)
    action, _ = evaluate_tensor(closed, {**parameters, **state})
    assert action == pytest.approx(state["objective"], rel=1e-10)


def test_audit_of_the_declared_problems_passes(ridge_regression, lasso, logistic):
    for derivation in (ridge_regression, lasso, logistic):
        report = audit(derivation)
        assert report.ok, report
        kinds = {s.kind for s in report.steps}
        assert kinds == {"assumed", "verified"}
        assert any("replica symmetry" in s.detail for s in report.steps if s.kind == "assumed")


def test_audit_notices_every_flipped_sign(logistic):
    checked = 0
    for step in logistic.steps:
        if step.check.kind != "verified":
            continue
        for wrong in sign_flips(step.rhs):
            assert audit_step(replace(step, rhs=wrong)).status.is_red, step.name
            checked += 1
    assert checked >= 9


def test_several_vectors_and_tokens():
    derivation = derive_saddle_point(attention(sp.Symbol("L", positive=True, integer=True)))
    assert audit(derivation).ok
    names = {f"{s}_{a}" for a in "kv" for s in ("m", "q", "V", "m_hat", "q_hat", "V_hat")}
    assert names < set(derivation.equations.observables)


# --------------------------------------------------------------------------- LASSO


def soft_threshold_moments(tau, theta, fraction):
    """Mean square error of soft thresholding, fraction above threshold, in closed form.

    A component that is not zero is Gaussian of variance 1/fraction; w + tau Z is then Gaussian too.
    """
    active = 0.0
    error = 0.0
    for probability, variance in ((fraction, 1 / fraction), (1 - fraction, 0.0)):
        s = math.sqrt(variance + tau * tau)
        t = theta / s
        above = 2 * norm.sf(t)
        active += probability * above
        second = s * s * ((1 + t * t) * above - 2 * t * norm.pdf(t))  # E eta^2
        error += probability * (second - 2 * (variance / s**2) * s * s * above + variance)  # E eta w by Stein
    return error, active


def solve_lasso(alpha, noise, penalty, fraction):
    """(tau, theta, mean square error) by the scalar equations, A with unit columns."""

    def tau_at(theta_over_tau):
        def gap(tau):
            error, _ = soft_threshold_moments(tau, theta_over_tau * tau, fraction)
            return tau**2 - noise**2 / alpha - error / alpha

        return brentq(gap, 1e-3, 50, xtol=1e-14)

    def calibration(a):
        tau = tau_at(a)
        _, active = soft_threshold_moments(tau, a * tau, fraction)
        return a * tau * (1 - active / alpha) - penalty / alpha

    a = brentq(calibration, 0.6, 6, xtol=1e-14)
    tau = tau_at(a)
    return tau, a * tau, *soft_threshold_moments(tau, a * tau, fraction)


def test_lasso_satisfies_its_scalar_equations(lasso):
    alpha, noise, penalty, fraction = 0.8, 0.3, 0.25, 0.2
    tau, theta, error, active = solve_lasso(alpha, noise, penalty, fraction)
    assert penalty / theta == pytest.approx(alpha - active, rel=1e-10)
    V_hat = penalty / theta
    point = {
        "alpha": alpha, "noise": noise, "penalty": penalty, "fraction": fraction,
        "V_hat_w": V_hat, "q_hat_w": (tau * V_hat) ** 2, "m_hat_w": V_hat,
    }  # fmt: skip
    prior = values(lasso, point, ("V_w", "m_w", "q_w"))
    assert prior["V_w"] == pytest.approx(active / V_hat, rel=3e-4)
    assert prior["q_w"] - 2 * prior["m_w"] + 1 == pytest.approx(error, rel=3e-4)
    prior = {"V_w": active / V_hat, "m_w": prior["m_w"], "q_w": error - 1 + 2 * prior["m_w"]}
    channel = values(lasso, {**point, **prior}, ("V_hat_w", "m_hat_w", "q_hat_w"))
    for name, found in channel.items():
        assert found == pytest.approx(point[name], rel=1e-5), name


# --------------------------------------------------------------------------- logistic regression


def solve_logistic(kappa, gamma):
    """(bias, scale, lambda) of the maximum likelihood estimate: three equations of Sur and Candes."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / math.sqrt(2 * math.pi)
    g1, g2 = np.meshgrid(nodes, nodes, indexing="ij")
    w = weights[:, None] * weights[None, :]

    def sigmoid(t):
        return 0.5 * (1 + np.tanh(t / 2))

    def equations(unknown):
        bias, scale, lam = unknown
        first = gamma * g1
        second = -bias * gamma * g1 + math.sqrt(kappa) * scale * g2
        x = second.copy()
        for _ in range(60):
            x -= (x + lam * sigmoid(x) - second) / (1 + lam * sigmoid(x) * (1 - sigmoid(x)))
        rho, slope = sigmoid(x), sigmoid(x) * (1 - sigmoid(x))
        label = 2 * sigmoid(first)
        return [
            np.sum(w * label * (lam * rho) ** 2) / kappa**2 - scale**2,
            np.sum(w * label * first * lam * rho),
            np.sum(w * label / (1 + lam * slope)) - (1 - kappa),
        ]

    return root(equations, [1.5, 4.5, 3.0], tol=1e-12).x


def test_logistic_regression_satisfies_the_equations_of_its_maximum_likelihood_theory(logistic):
    kappa, gamma = 0.2, math.sqrt(5)
    bias, scale, lam = solve_logistic(kappa, gamma)
    # published for these parameters: 1.4994, 4.7436, 3.0269
    assert (bias, scale, lam) == pytest.approx((1.4994, 4.7436, 3.0269), abs=2e-4)
    m, q = bias * gamma, (bias * gamma) ** 2 + kappa * scale**2
    point = {"alpha": 1 / kappa, "gamma": gamma, "m_w": m, "q_w": q, "V_w": lam}
    hats = values(logistic, point, ("V_hat_w", "m_hat_w", "q_hat_w"))
    # without ridge V = 1/V^, m = m^/V^, q = (m^2 + q^)/V^2
    assert hats["V_hat_w"] == pytest.approx(1 / lam, rel=1e-5)
    assert hats["m_hat_w"] == pytest.approx(m / lam, rel=1e-5)
    assert hats["q_hat_w"] == pytest.approx((q - m * m) / lam**2, rel=1e-5)


# --------------------------------------------------------------------------- nodes


def test_minimum_of_a_parabola_is_refused_where_there_is_none():
    x = sp.Symbol("x", real=True)
    assert solve_quadratic(Moreau((x - 3) ** 2, x**2, [x])) == sp.Rational(9, 2)
    assert solve_quadratic(AtProximal(x, (x - 3) ** 2, x**2, [x])) == sp.Rational(3, 2)
    with pytest.raises(DerivationError, match="not quadratic"):
        solve_quadratic(Moreau(sp.exp(x), x**2, [x]))
    with pytest.raises(DerivationError, match="not quadratic"):
        solve_quadratic(Moreau(x**4, x**2, [x]))


def test_minimizer_of_a_kinked_objective():
    pull = np.linspace(-3, 3, 13)
    found = bisect_slope(lambda x: np.sign(x) + x - pull, pull.shape)
    assert found == pytest.approx(np.sign(pull) * np.maximum(np.abs(pull) - 1, 0), abs=1e-12)
    with pytest.raises(DerivationError, match="no minimum"):
        bisect_slope(lambda x: np.ones_like(x), (3,))


def test_a_problem_needs_a_vector():
    with pytest.raises(DerivationError, match="no trainable vector"):
        derive_saddle_point(replace(attention(sp.Integer(1)), vectors=()))
