"""Trained attention at finite sample ratio, against closed forms, published numbers and brute force.

Independent truth: ridge regression (closed forms typed here), minimization of the full sample problem by SciPy
on grids of starts, reference values computed by another implementation (two scramblings of 2^13 to 2^14 nodes;
errors 0.0002 to 0.004). Tolerances: 1e-10 for closed forms; 4 joint standard errors for sampled numbers.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import erf as scipy_erf

import theorykit as tk
from theorykit import derivations
from theorykit import single_location as slr
from theorykit.codegen.proximal import emit_proximal
from theorykit.derivations.audit import audit, audit_step, sign_flips
from theorykit.numerics.proximal import OUTPUTS
from theorykit.numerics.sampling import sobol_points
from theorykit.results import Status
from theorykit.single_location import erm_sample, replica_solution
from theorykit.single_location.erm_sample import draw_samples, proximal_program

FAST = {"nodes": 2**11, "scramblings": 3}


def ridge_closed(alpha, noise, penalty):
    """(m, q, V, test risk, training loss) of ridge regression."""
    b = penalty + alpha - 1
    V = (1 - alpha - penalty + math.sqrt(b * b + 4 * penalty)) / (2 * penalty)
    m = 1 - penalty * V
    risk = (penalty**2 * V**2 + noise**2) / (1 - alpha * V**2 / (1 + V) ** 2)
    return m, risk - noise**2 - 1 + 2 * m, V, risk, risk / (2 * (1 + V) ** 2)


def uniform_closed(alpha, noise, penalty, length):
    """The same for uniform attention over L tokens."""
    b = length * penalty + alpha - 1
    V = (-b + math.sqrt(b * b + 4 * penalty * length)) / (2 * penalty)
    m = 1 - penalty * V
    shrink = V / (length + V)
    risk = (1 + noise**2 - 2 * m / length + m * m / length) / (1 - alpha * shrink**2)
    q = m * m + alpha * length * shrink**2 * risk
    return m, q, V, risk, length**2 * risk / (2 * (length + V) ** 2)


def in_order(solution):
    return [float(solution.values[n]) for n in ("m_v", "q_v", "V_v", "test_risk", "train_loss")]


@pytest.mark.parametrize("alpha, noise, penalty", [(2, 0.5, 0.3), (0.5, 0.1, 1.0), (30, 0, 0.01)])
@pytest.mark.parametrize("activation", [slr.Softmax(), slr.Softplus(), slr.NormalizedKernel("1 + x**2")])
def test_one_token_is_ridge_regression(alpha, noise, penalty, activation):
    task = slr.Max(nu=2, length=1, noise=noise)
    found = slr.erm(task, activation, alpha=alpha, ridge_k=0.7, ridge_v=penalty)
    assert in_order(found) == pytest.approx(ridge_closed(alpha, noise, penalty), rel=1e-10)
    assert (found.m_k, found.q_k, found.V_k) == (0, 0, pytest.approx(1 / 0.7))
    assert found.rs_stable


@pytest.mark.parametrize("length", [2, 5, 100])
def test_infinite_penalty_on_the_key_is_uniform_attention(length):
    task = slr.Spiked(nu=4, length=length, noise=0.3)
    found = slr.erm(task, slr.Softmax(), alpha=2, ridge_k=math.inf, ridge_v=0.5)
    assert in_order(found) == pytest.approx(uniform_closed(2, 0.3, 0.5, length), rel=1e-10)
    assert found.objective == pytest.approx(0.25 * found.q_v + 2 * found.train_loss, rel=1e-12)


def test_published_values_of_fixed_attention():
    ridge = slr.erm(slr.Spiked(nu=4, length=1, noise=0.5), slr.Softmax(), alpha=2, ridge_k=1, ridge_v=0.3)
    assert in_order(ridge) == pytest.approx(
        [0.8, 0.776470588235, 2 / 3, 0.426470588235, 0.0767647058824], rel=1e-11
    )
    task = slr.Spiked(nu=4, length=2, noise=0.3)
    uniform = slr.erm(task, slr.Softmax(), alpha=2, ridge_k=math.inf, ridge_v=0.5)
    expected = [0.585786437627, 0.623065658240, 0.828427124746, 0.815746391493, 0.203936597873]
    assert in_order(uniform) == pytest.approx(expected, rel=1e-11)


def test_key_of_linear_attention_at_infinite_penalty_has_weight_one_everywhere():
    found = slr.erm(
        slr.Spiked(nu=4, length=1, noise=0.5), slr.Linear(), alpha=2, ridge_k=math.inf, ridge_v=0.3
    )
    assert in_order(found) == pytest.approx(ridge_closed(2, 0.5, 0.3), rel=1e-10)


def test_random_length_at_infinite_penalty_averages_the_conjugates():
    lengths = {1: 0.5, 3: 0.5}
    alpha, penalty, noise = 2.0, 0.4, 0.3
    found = slr.erm(slr.Spiked(nu=1, length=lengths, noise=noise), slr.Softmax(), alpha=alpha, ridge_k=math.inf,
                    ridge_v=penalty)  # fmt: skip
    V, m, q = (float(found.values[n]) for n in ("V_v", "m_v", "q_v"))
    risks = {n: 1 + noise**2 - 2 * m / n + q / n for n in lengths}
    stiff = sum(p * alpha / (n + V) for n, p in lengths.items())
    pull = sum(p * alpha / (n + V) for n, p in lengths.items())
    power = sum(p * alpha * n * risks[n] / (n + V) ** 2 for n, p in lengths.items())
    assert pytest.approx(1 / (penalty + stiff), rel=1e-10) == V
    assert m == pytest.approx(V * pull, rel=1e-10)
    assert q == pytest.approx(V * V * (pull**2 + power), rel=1e-10)
    assert found.test_risk == pytest.approx(sum(p * risks[n] for n, p in lengths.items()), rel=1e-10)


# --------------------------------------------------------------------------- published values

# task, activation, alpha, penalties; (m_k, q_k, m_v, q_v), test risk and its error, objective
TABLE = {
    "spiked linear": (slr.Spiked(nu=4, length=2, noise=0.3), slr.Linear(), 2, 0.5, 0.5,
                      (0.2708, 0.2340, 0.4046, 0.2473), 0.7931, 0.0002, 0.2006),
    "max softmax": (slr.Max(nu=math.inf, length=2, noise=0.1), slr.Softmax(), 3, 0.05, 0.1,
                    (1.1306, 1.9400, 1.0499, 1.1600), 0.3228, 0.0003, 0.1664),
    "spiked erf": (slr.Spiked(nu=4, length=2, noise=0.3), slr.Erf(0), 3, 0.3, 0.3,
                   (0.2938, 0.4131, 0.4828, 0.3071), 0.8010, 0.0005, 0.2963),
    "spiked softplus": (slr.Spiked(nu=4, length=2, noise=0.3), slr.Softplus(), 3, 0.05, 0.2,
                        (0.9246, 2.0603, 1.0007, 1.1261), 0.4414, 0.0002, 0.3160),
    "max linear": (slr.Max(nu=math.inf, length=3, noise=0.3), slr.Linear(), 4, 1, 1,
                   (0.3510, 0.3198, 0.3819, 0.2075), 0.9211, 0.0007, 0.8091),
}  # fmt: skip


_SLOW = ("spiked softplus", "spiked erf", "max linear")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in _SLOW)) for n in TABLE])
def test_reference_points_where_replica_symmetry_is_stable(name):
    task, activation, alpha, ridge_k, ridge_v, overlaps, risk, error, objective = TABLE[name]
    found = slr.erm(task, activation, alpha=alpha, ridge_k=ridge_k, ridge_v=ridge_v, nodes=2**12)
    assert found.rs_stable
    assert found.status is Status.CONVERGED
    assert abs(found.test_risk - risk) < 4 * math.hypot(found.test_risk.error, error)
    assert found.test_risk.error < 0.01 * risk
    for value, expected in zip((found.m_k, found.q_k, found.m_v, found.q_v), overlaps, strict=True):
        # both are averages over scramblings; the reference states no error of the overlaps: 0.5 %
        assert abs(value - expected) < 4 * math.hypot(value.error, 0.005 * expected)
    assert abs(found.objective - objective) < 4 * math.hypot(found.objective.error, 0.002 * objective)


#: Points at which minimizers jump: published risk with its half difference, objective; by another program, by parts.
JUMPY = {
    "two tokens": (slr.Spiked(nu=4, length=2, noise=0.3), 2, 0.1, 0.1,
                   (0.5158, 0.6832, 0.9973, 1.2469), 0.5294, 0.0008, 0.1495),
    "three tokens": (slr.Spiked(nu=4, length=3, noise=0.5), 3, 0.1, 0.3,
                     (0.858, 1.947, 0.950, 1.213), 0.8546, 0.0034, 0.5296),
    "three tokens, max": (slr.Max(nu=2, length=3, noise=0.3), 4, 0.2, 0.2,
                          (0.7850, 1.3485, 1.0657, 1.4293), 0.7970, 0.0016, 0.6932),
}  # fmt: skip


@pytest.mark.parametrize("name", JUMPY)
def test_jumps_of_the_minimizer_are_reported(name):
    """The equations by parts are solved, errors are widened, and the solution says so.

    The half difference of two scramblings is a poor estimate of an error: twice it is allowed for.
    """
    task, alpha, ridge_k, ridge_v, overlaps, risk, error, objective = JUMPY[name]
    found = slr.erm(task, slr.Softmax(), alpha=alpha, ridge_k=ridge_k, ridge_v=ridge_v, nodes=2**11)
    assert found.status is Status.NOISE_FLOOR
    assert not found.rs_stable
    assert found.jump_share > 1e-3
    assert abs(found.form_difference + found.jump_share) < 4 * found.form_difference.error < 0.2
    assert any("jumps" in m for m in found.messages) and any("replica symmetry" in m for m in found.messages)
    assert 0.002 * risk < found.test_risk.error < 0.05 * risk
    assert abs(found.test_risk - risk) < 4 * math.hypot(found.test_risk.error, 2 * error)
    assert abs(found.objective - objective) < 4 * math.hypot(found.objective.error, 0.003 * objective)
    for value, expected in zip((found.m_k, found.q_k, found.m_v, found.q_v), overlaps, strict=True):
        assert abs(value - expected) < 4 * math.hypot(value.error, 0.01 * expected)


@pytest.mark.slow
def test_published_point_needs_the_form_by_parts():
    """With pointwise derivatives alone the risk is 0.81: jumps are missed. By parts it is the published 0.8546(34).

    Training (0.8228 +- 0.0074) is 3 errors off: replica symmetry is unstable here, which the solution says.
    """
    task, alpha, ridge_k, ridge_v, *_ = JUMPY["three tokens"]
    found = slr.erm(task, slr.Softmax(), alpha, ridge_k, ridge_v, nodes=2**14, scramblings=8)
    assert found.test_risk.error < 0.003
    assert abs(found.test_risk - 0.8546) < 4 * math.hypot(found.test_risk.error, 0.0034)
    assert found.test_risk - 0.81 > 8 * found.test_risk.error


@pytest.mark.parametrize("activation", [slr.Linear(), slr.Softmax()])
def test_many_samples_and_small_penalties_reach_the_population_optimum(activation):
    """The excess over the optimum is of order 1/alpha: about 1 % of the risk, and less at 10 times alpha."""
    task = slr.Spiked(nu=4, length=2, noise=0.3)
    best = slr.optimal_risk(task, activation)
    risks = []
    for alpha in (1000, 10000):
        found = slr.erm(task, activation, alpha=alpha, ridge_k=0.1, ridge_v=0.1, **FAST)
        allowed = 4 * found.test_risk.error
        assert best.risk - allowed < found.test_risk < best.risk * (1 + 12 / alpha) + allowed
        assert abs(found.m_v - best.m_v) < 4 * math.hypot(found.m_v.error, 1 / alpha)
        assert found.test_risk.error < 2e-3 * best.risk
        risks.append(float(found.test_risk))
    assert risks[1] - best.risk < 0.3 * (risks[0] - best.risk)


@pytest.mark.parametrize("length", [1, 3])
def test_infinitely_many_samples_for_fixed_weights(length):
    """The population optimum of uniform attention: m_v = 1, risk 1 - 1/L and the noise; to 1e-10."""
    task, noise = slr.Spiked(nu=4, length=length, noise=0.3), 0.3
    found = slr.erm(task, slr.Softmax(), alpha=1e12, ridge_k=math.inf, ridge_v=0.5)
    risk = 1 - 1 / length + noise**2
    assert (found.m_v, found.q_v, found.test_risk) == pytest.approx((1, 1, risk), rel=1e-10)
    assert found.train_loss == pytest.approx(risk / 2, rel=1e-10)


def test_large_penalties():
    """On the key: uniform attention, up to the order of 1/ridge_k. On the value: nothing is learned."""
    task = slr.Spiked(nu=4, length=2, noise=0.3)
    limit = slr.erm(task, slr.Softmax(), alpha=2, ridge_k=math.inf, ridge_v=0.5)
    near = slr.erm(task, slr.Softmax(), alpha=2, ridge_k=1e6, ridge_v=0.5, **FAST)
    for name in ("m_v", "q_v", "V_v", "test_risk", "train_loss", "objective"):
        value, expected = near.values[name], float(limit.values[name])
        assert abs(value - expected) < 4 * value.error + 1e-5, name
        assert value.error < 0.03 * expected
    assert abs(near.m_k) < 1e-5 and near.q_k < 1e-5
    none = slr.erm(task, slr.Linear(), alpha=2, ridge_k=0.5, ridge_v=1e6, **FAST)
    energy = 1 + task.noise**2
    assert none.test_risk == pytest.approx(energy, rel=1e-5)
    assert abs(none.train_loss - energy / 2) < 4 * none.train_loss.error + 1e-5
    assert abs(none.m_v) < 1e-5


def test_starts_agree_where_the_solution_is_unique():
    task = slr.Spiked(nu=4, length=2, noise=0.3)
    starts = (
        "informed",
        "uninformed",
        {"m_k": 0.2, "q_k": 0.5, "V_k": 1.0, "m_v": 0.4, "q_v": 0.5, "V_v": 0.4},
    )
    risks = [
        float(slr.erm(task, slr.Linear(), alpha=2, ridge_k=0.5, ridge_v=0.5, start=s, **FAST).test_risk)
        for s in starts
    ]
    assert risks == pytest.approx([risks[0]] * 3, rel=1e-4)


def test_same_call_gives_the_same_bits():
    task = slr.Max(nu=2, length=3, noise=0.3)
    calls = [slr.erm(task, slr.Softmax(), alpha=3, ridge_k=0.5, ridge_v=0.5, **FAST) for _ in range(2)]
    assert calls[0] == calls[1]


# --------------------------------------------------------------------------- the sample problem

OVERLAPS = {"m_k": 0.8, "q_k": 1.6, "V_k": 2.0, "m_v": 0.9, "q_v": 1.2, "V_v": 0.8}
WEIGHTS = {
    "softmax": (slr.Softmax(), lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum()),
    "softplus": (slr.Softplus(), lambda x: np.logaddexp(0, x) / np.logaddexp(0, x).sum()),
    "linear": (slr.Linear(), lambda x: 1 + x),
    "erf": (slr.Erf(0.3), lambda x: 1 + scipy_erf(0.3 + x)),
    "own": (slr.Elementwise("x + tanh(x)"), lambda x: x + np.tanh(x)),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n != "softmax")) for n in WEIGHTS]
)
def test_sample_problem_is_minimized_globally(name):
    """Over key and value fields together, from a grid of starts: nothing lower is found, and the same place."""
    activation, weights = WEIGHTS[name]
    task = slr.Spiked(nu=2, length=2, noise=0.4)
    (sample,) = draw_samples(task, activation, 8, 1, 5)
    sample.program = proximal_program(activation, primal=True)  # which keeps the minimizers
    sample.means(OVERLAPS, True)
    nodes, o = sample.nodes[2], OVERLAPS
    grid = [np.array([a, b]) for a in (-4, -1.5, 0, 1.5, 4) for b in (-4, -1.5, 0, 1.5, 4)]
    for i in range(12):
        omega_k = o["m_k"] * nodes.truth[i] + math.sqrt(o["q_k"] - o["m_k"] ** 2) * nodes.noise[i]
        omega_v = math.sqrt(o["q_v"]) * nodes.gauss[i]
        rho = 1 - o["m_v"] ** 2 / o["q_v"]
        y = o["m_v"] / o["q_v"] * omega_v[0] + math.sqrt(rho + task.noise**2) * nodes.label_noise[i]

        def loss(point, omega_k=omega_k, omega_v=omega_v, y=y):
            chi, z = np.asarray(point[:2]), np.asarray(point[2:])
            distance = np.sum((chi - omega_k) ** 2) / (2 * o["V_k"]) + np.sum((z - omega_v) ** 2) / (
                2 * o["V_v"]
            )
            return 0.5 * (y - weights(chi) @ z) ** 2 + distance

        found = min(
            (minimize(loss, [*(omega_k + s), *omega_v], tol=1e-12) for s in grid), key=lambda r: r.fun
        )
        at = nodes.chi[i]
        inner = minimize(lambda z, at=at, f=loss: f([*at, *z]), omega_v, tol=1e-12)
        assert inner.fun <= found.fun + 1e-9
        assert at == pytest.approx(found.x[:2], abs=2e-4)


def _envelope_terms(activation, overlaps, omega_k, omega_v, y):
    """The objective of the key fields of one node, typed from the theory: value field minimized by hand."""
    weights = WEIGHTS[activation][1]

    def objective(chi, omega_k=omega_k, omega_v=omega_v):
        s = weights(chi)
        loss = (y - s @ omega_v) ** 2 / (2 * (1 + overlaps["V_v"] * (s @ s)))
        return loss + np.sum((chi - omega_k) ** 2) / (2 * overlaps["V_k"])

    return objective


def _second(function, x, z, step=1e-4):
    """Second derivatives of a function of (x, z), by central differences; exact to about 1e-7."""
    point, n = np.concatenate([x, z]), len(x)
    shifts = step * np.eye(len(point))

    def at(p):
        return function(p[:n], p[n:])

    return np.array(
        [[(at(point + a + b) - at(point + a - b) - at(point - a + b) + at(point - a - b)) / (4 * step**2)
          for b in shifts] for a in shifts]
    )  # fmt: skip


@pytest.mark.parametrize(
    "name, length", [("softmax", 3), pytest.param("softplus", 5, marks=pytest.mark.slow)]
)
def test_elimination_of_tokens_gives_what_dense_matrices_give(name, length):
    """Averages of derivatives of the responses: O(L) factorization against dense inverses of numerical Hessians."""
    task, o = slr.Spiked(nu=2, length=length, noise=0.4), OVERLAPS
    (sample,) = draw_samples(task, WEIGHTS[name][0], 5, 1, 5)
    means, nodes = sample.means(o, True), sample.nodes[length]
    found = dict.fromkeys(("k_div", "v_div", "dkk", "dkv", "dvv", "kk"), 0.0)
    for i in range(32):
        omega_k = o["m_k"] * nodes.truth[i] + math.sqrt(o["q_k"] - o["m_k"] ** 2) * nodes.noise[i]
        omega_v = math.sqrt(o["q_v"]) * nodes.gauss[i]
        rho = 1 - o["m_v"] ** 2 / o["q_v"]
        y = o["m_v"] / o["q_v"] * omega_v[0] + math.sqrt(rho + task.noise**2) * nodes.label_noise[i]
        objective = _envelope_terms(name, o, omega_k, omega_v, y)
        both = _second(lambda chi, w, f=objective: f(chi, omega_v=w), nodes.chi[i], omega_v)
        inverse = np.linalg.inv(both[:length, :length])
        mixed, value = both[:length, length:], both[length:, length:]
        f_k = (nodes.chi[i] - omega_k) / o["V_k"]
        k_k = (inverse / o["V_k"] - np.eye(length)) / o["V_k"]
        k_v = -inverse @ mixed / o["V_k"]
        v_v = mixed.T @ inverse @ mixed - value
        for key, term in zip(found, (np.trace(k_k), np.trace(v_v), np.sum(k_k**2), np.sum(k_v**2), np.sum(v_v**2),
                                     f_k @ f_k), strict=True):  # fmt: skip
            found[key] += term / 32
    assert {k: means[k] for k in found} == pytest.approx(found, rel=2e-5)


@pytest.mark.parametrize("activation", [slr.Linear(), slr.Erf(0.0)])
def test_both_forms_of_the_conjugates_agree_where_there_are_no_jumps(activation):
    """By parts and with pointwise derivatives: equal averages, so equal within the errors of the samples."""
    task = slr.Spiked(nu=2, length=2, noise=0.4)
    overlaps = {**OVERLAPS, "V_k": 0.15}
    spread = math.sqrt(overlaps["q_k"] - overlaps["m_k"] ** 2)
    gaps = []
    for sample in draw_samples(task, activation, 13, 6, 2):
        means = sample.means(overlaps, True)
        assert sample.jumps()["rate"] == 0
        gaps.append(means["k_noise"] / spread / means["k_div"] - 1)
    assert abs(np.mean(gaps)) < 4 * np.std(gaps, ddof=1) / math.sqrt(6)
    assert np.std(gaps, ddof=1) < 0.3


def test_jumps_complete_the_pointwise_derivative():
    """With jumps the pointwise form is off, and the density of equal minima accounts for the difference."""
    task = slr.Spiked(nu=4, length=2, noise=0.3)
    overlaps = {"m_k": 0.52, "q_k": 0.68, "V_k": 30.0, "m_v": 0.99, "q_v": 1.22, "V_v": 1.8}
    spread = math.sqrt(overlaps["q_k"] - overlaps["m_k"] ** 2)
    parts, pointwise, jumps = [], [], []
    for sample in draw_samples(task, slr.Softmax(), 13, 6, 3):
        means = sample.means(overlaps, True)
        parts.append(means["k_noise"] / spread)
        pointwise.append(means["k_div"])
        jumps.append(sample.jumps()["k"])
    difference = np.mean(np.array(parts) - np.array(pointwise))
    assert difference > 0.0014  # +-0.0001; about a tenth of the pointwise form
    # the density of equal minima falls off with the width in which they are counted: below, by up to a third
    assert 0.65 * difference < np.mean(jumps) < 1.1 * difference


@pytest.mark.parametrize("task", [slr.Spiked(nu=2, length=3, noise=0.4), slr.Max(nu=2, length=2, noise=0.4)])
def test_dual_of_linear_attention_gives_what_the_primal_gives(task):
    """Roots of a concave dual beside Newton's method on the key fields: every average, derivatives included."""
    dual, primal = (draw_samples(task, slr.Linear(), 10, 1, 5)[0] for _ in range(2))
    primal.program = proximal_program(slr.Linear(), primal=True)
    found, expected = (sample.means(OVERLAPS, True) for sample in (dual, primal))
    assert found == pytest.approx(expected, rel=1e-9)


def test_long_sequences_of_linear_attention():
    """Many tokens: nearly nothing is learned; risk between the noise with the label and without any fit."""
    task = slr.Spiked(nu=4, length=60, noise=0.3)
    found = slr.erm(task, slr.Linear(), alpha=2, ridge_k=5, ridge_v=5, nodes=2**9, scramblings=2)
    assert found.status is Status.CONVERGED
    # the sum of all tokens is fitted: label energy 1.09 at zero value, uniform attention is the limit of large ridge_k
    uniform = slr.erm(task, slr.Linear(), alpha=2, ridge_k=math.inf, ridge_v=5)
    assert found.objective < uniform.objective + 3 * found.objective.error


# --------------------------------------------------------------------------- derivation


@pytest.mark.parametrize("kind, formula", [("normalized", "exp(x)"), ("elementwise", "1 + x")])
def test_audit_of_the_derivation_passes(kind, formula):
    report = audit(derivations.get("single_location.erm", kind=kind, formula=formula))
    assert report.ok, report


@pytest.mark.parametrize(
    "name, options",
    [("erm_fixed", {}), ("erm_newton", {"count": 2}), pytest.param("erm_newton", {}, marks=pytest.mark.slow)],
)
def test_audit_notices_flipped_signs(name, options):
    derivation = derivations.get(f"single_location.{name}", **options)
    assert audit(derivation).ok
    for step in derivation.steps:
        for wrong in sign_flips(step.rhs):
            assert audit_step(replace(step, rhs=wrong)).status.is_red, step.name


#: Targets of the records that a public number depends on; what is slow compiles a solver of its own.
_EQUATIONS = ("q_hat_k", "V_hat_v_pointwise", "m_v", "m_hat_k")
_NEWTON = ("response_k", "diagonal", "projection_0", "projection_1", "projection_2", "pivot", "multiplier",
           *[f"remainder_{i}{j}" for i in range(3) for j in range(i, 3)], "mixed_own", "mixed_coupling",
           "value_coupling", "key_slope", "cross_slope", "value_slope")  # fmt: skip
_SAMPLE = ("energy", "penalty", "statistic_0", "statistic_1", "statistic_2", "response_v", "sample_loss", "field_k",
           "field_v", "label_mean", "label_spread")  # fmt: skip
DOUBLED = [("erm", t, slr.Linear()) for t in _EQUATIONS]
DOUBLED += [pytest.param("erm", t, slr.Softmax(), marks=pytest.mark.slow) for t in _SAMPLE]
DOUBLED += [pytest.param("erm_newton", t, slr.Softmax(), marks=pytest.mark.slow) for t in _NEWTON]


def _sums_of_nodes(record, newton):
    """What the emitted module sums over eight nodes, run as plain Python: nothing is compiled."""
    plain = r"\1 = lambda *a, **k: a[0] if a and callable(a[0]) else lambda f: f"
    source = emit_proximal(record, "mutated", newton)
    assert "from numba import njit" in source
    module = {}
    exec(re.sub(r"from \S+ import (njit|compiled_once)\b", plain, source), module)
    nodes = erm_sample._Nodes(slr.Spiked(nu=4, length=2, noise=0.3), 2, sobol_points(7, 3, 1, 0)[0])
    at = {"m_k": 0.6, "q_k": 0.8, "V_k": 1.0, "m_v": 0.9, "q_v": 1.1, "V_v": 0.6, "noise": 0.3}
    P = np.array([at[name] for name in module["LAYOUT"]["parameters"]])
    fields = (nodes.truth, nodes.noise, nodes.gauss, nodes.slope, nodes.label_noise, nodes.chi, nodes.rivals)
    out, weights = np.zeros((1, len(OUTPUTS))), np.zeros((1, 3))
    module["minimize_nodes"](P, *fields, True, out, 0, 1)
    module["attend_nodes"](P, nodes.truth, nodes.noise, weights, 0, 1)
    return np.append(out, weights)


def test_every_result_is_read_by_the_minimization():
    """Doubling any observable of the sample problem or of Newton's method changes the sums over the nodes."""
    record = derivations.get("single_location.erm", kind="normalized", formula="exp(x)").equations
    newton = derivations.get("single_location.erm_newton", count=3).equations
    before = _sums_of_nodes(record, newton)
    mutants = [(t, record.scaled(t), newton) for t in (*_SAMPLE, "weight", "weight_square")]
    mutants += [(t, record, newton.scaled(t)) for t in newton.observables]
    assert set(_NEWTON) == set(newton.observables)
    for target, *records in mutants:
        try:
            after = _sums_of_nodes(*records)
        except OverflowError:
            continue  # Newton's method runs away
        assert np.abs(after / before - 1).max() > 1e-3, target


@pytest.mark.parametrize("name, target, activation", DOUBLED)
def test_doubling_an_equation_changes_the_number(name, target, activation):
    """A public number: risk, loss, or the spectral radius of replica symmetry."""
    task = slr.Spiked(nu=4, length=2, noise=0.3)
    arguments = {"alpha": 2, "ridge_k": 0.5, "ridge_v": 0.5, "nodes": 2**9, "scramblings": 2}
    plain = slr.erm(task, activation, **arguments)
    with derivations.substituted(f"single_location.{name}", lambda d: d.equations.scaled(target)):
        try:
            changed = slr.erm(task, activation, **arguments)
        except (tk.errors.ConvergenceError, ValueError):
            return
    keys = ("test_risk", "train_loss", "spectral_radius")
    assert max(abs(float(changed.values[k]) / float(plain.values[k]) - 1) for k in keys) > 1e-4


# --------------------------------------------------------------------------- arguments and curves


@pytest.mark.parametrize(
    "change, message",
    [
        ({"alpha": 0}, r"alpha must be a real number in \(0, inf\), got 0"),
        ({"ridge_k": 0}, r"ridge_k must be a real number in \(0, inf\]"),
        ({"ridge_v": math.inf}, r"ridge_v must be a real number in \(0, inf\)"),
        ({"nodes": 1000}, "nodes must be a power of 2"),
        ({"scramblings": 1}, "scramblings must be an integer"),
        ({"start": "cold"}, "start must be 'informed', 'uninformed' or a mapping"),
        ({"start": {"m_k": 1}}, "start must give m_k, q_k, V_k"),
        ({"task": slr.Spiked(nu=1, length=9)}, "length must be at most 8 for softmax in erm, got 9"),
        ({"activation": slr.Erf(shift=None)}, "shift of Erf"),
        (
            {"activation": slr.NormalizedKernel("relu(x) + 1/10")},
            "twice differentiable in erm, got .* kink at x = 0",
        ),
    ],
)
def test_bad_arguments_are_named(change, message):
    good = {
        "task": slr.Spiked(nu=1, length=2),
        "activation": slr.Softmax(),
        "alpha": 1,
        "ridge_k": 1,
        "ridge_v": 1,
    }
    with pytest.raises(ValueError, match=message):
        slr.erm(**{**good, **change})


@pytest.mark.parametrize("activation", [slr.Linear(), slr.Softmax()])
def test_curve_over_alpha_is_warm_started_and_agrees_with_single_points(activation, monkeypatch):
    """Samples are drawn once for the curve and once for the rough start, and it takes fewer steps than its points."""
    task = slr.Spiked(nu=4, length=2, noise=0.3)
    arguments = {"ridge_k": 0.5, "ridge_v": 0.5, **FAST}
    drawn = []
    monkeypatch.setattr(
        replica_solution, "draw_samples", lambda *a: drawn.append(a) or erm_sample.draw_samples(*a)
    )
    alphas = [2.0, 2.5, 3.0, 3.6]
    data = tk.curve(slr.erm, task, activation, over={"alpha": alphas}, **arguments)
    assert len(drawn) == 2
    assert set(data["status"].values) == {"converged"}
    singles = [slr.erm(task, activation, alpha=a, **arguments) for a in alphas]
    assert data["test_risk"].values == pytest.approx([float(s.test_risk) for s in singles], rel=1e-4)
    assert (np.diff(data["test_risk"].values) < 0).all()


def test_a_point_without_solution_does_not_spoil_the_rest_of_a_curve(monkeypatch):
    task = slr.Spiked(nu=4, length=2, noise=0.3)
    solve = replica_solution._solve

    def failing(path, fit, starts, name):
        if fit.alpha == 2.5:
            raise tk.errors.ConvergenceError("no solution")
        return solve(path, fit, starts, name)

    monkeypatch.setattr(replica_solution, "_solve", failing)
    data = tk.curve(
        slr.erm, task, slr.Linear(), over={"alpha": [2.0, 2.5, 3.0]}, ridge_k=0.5, ridge_v=0.5, **FAST
    )
    assert list(data["status"].values == "converged") == [True, False, True]
