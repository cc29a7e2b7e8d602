"""Risk at any overlaps against sampling, quadrature over all fields, exact moments, and its own symmetries."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import erf, log_ndtr

from theorykit import derivations
from theorykit import single_location as slr
from theorykit.derivations.audit import audit
from theorykit.single_location import Erf, Linear, Max, Softmax, Spiked
from theorykit.single_location.off_manifold import excess_risk
from theorykit.single_location.overlaps import Overlaps
from theorykit.single_location.programs import program
from theorykit.validation.simulate.single_location import population_risk

GENERAL = Overlaps(m_k=0.9, q_k=1.3, m_v=0.8, q_v=1.1, m_kv=0.4, m_vk=-0.5, q_kv=0.1)
ALIGNED = Overlaps(m_k=1.2, q_k=1.44, m_v=0.8, q_v=0.9, m_vk=-0.4, q_kv=-0.48)
TASKS = (Spiked(nu=1.5, length=2), Max(nu=1.5, length=2), Max(nu=math.inf, length=2))
NAME = "single_location.off_manifold"


def value(task, activation, overlaps=GENERAL, **changes):
    return excess_risk(task, activation, replace(overlaps, **changes))


# ----------------------------------------------------------------- sampling

SAMPLED = [
    (Spiked(nu=1.5, length=3), Softmax(), GENERAL),
    (Spiked(nu=2.0, length={1: 0.3, 4: 0.7}), Erf(0.3), GENERAL),
    (Spiked(nu=1.0, length=400), Softmax(), replace(GENERAL, m_k=1.9, q_k=4.0, m_vk=-0.6, q_kv=-0.75)),
    (Max(nu=1.5, length=3), Softmax(), GENERAL),
    (Max(nu=2.0, length={1: 0.2, 2: 0.3, 3: 0.5}), Erf(0.3), GENERAL),
    (Max(nu=2.0, length=3), Softmax(), ALIGNED),
    (Max(nu=math.inf, length=3), Softmax(), GENERAL),
    (Max(nu=math.inf, length=2), Erf(0.3), GENERAL),
]
MORE = (2, 4, 5, 6)  # of the sampled, in the slow suite


@pytest.mark.parametrize(
    "task, activation, overlaps",
    [pytest.param(*case, marks=[pytest.mark.slow] * (i in MORE)) for i, case in enumerate(SAMPLED)],
)
def test_direct_sampling_agrees_and_sees_the_cross_overlaps(task, activation, overlaps):
    kind = "spiked" if isinstance(task, Spiked) else "max"
    length = dict(task.length) if isinstance(task.length, tuple) else task.length
    weights = {"kind": activation.name} | ({"shift": activation.shift} if isinstance(activation, Erf) else {})
    samples = 20_000 if task.mean_length > 100 else 200_000
    request = {"kind": kind, "nu": task.nu, "length": length}
    sampled = population_risk(request, weights, asdict(overlaps), samples, seed=20, excess=True)["risk"]
    found = excess_risk(task, activation, overlaps)
    assert abs(found - sampled) <= 4 * sampled.error
    without = excess_risk(task, activation, replace(overlaps, m_kv=0.0, m_vk=0.0, q_kv=0.0))
    assert abs(found - without) > 8 * sampled.error


# ----------------------------------------------------------------- two tokens, all fields on a grid


def conditional_error(scores, hidden_field, weights, overlaps, shift):
    """E[(z*_1 - sum_l sigma_l z_l)^2 | fields] by generic regression; arrays of shape (tokens, points)."""
    o = overlaps
    gram = np.array(
        [
            [1.0, o.m_k, 0.0, o.m_vk],
            [o.m_k, o.q_k, o.m_kv, o.q_kv],
            [0.0, o.m_kv, 1.0, o.m_v],
            [o.m_vk, o.q_kv, o.m_v, o.q_v],
        ]
    )
    known = [0, 1] if hidden_field is not None else [1]
    slopes = gram[np.ix_([2, 3], known)] @ np.linalg.inv(gram[np.ix_(known, known)])
    rest = gram[2:, 2:] - slopes @ gram[np.ix_(known, [2, 3])]
    means = []
    for token in range(2):
        offset = shift if token == 0 else 0.0
        fields = [scores[token] - o.m_k * offset]
        if hidden_field is not None:
            fields.insert(0, hidden_field[token] - offset)
        label, val = slopes @ np.array(fields)
        means.append((label, val + o.m_vk * offset))
    bias = means[0][0] - weights[0] * means[0][1] - weights[1] * means[1][1]
    variance = rest[0, 0] - 2 * weights[0] * rest[0, 1] + rest[1, 1] * (weights[0] ** 2 + weights[1] ** 2)
    return bias**2 + variance


def softmax_pair(scores):
    first = 1 / (1 + np.exp(scores[1] - scores[0]))
    return first, 1 - first


def grid(count, dimensions):
    """Points of shape (dimensions, n) and weights of the standard Gaussian."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    points = np.array(np.meshgrid(*[nodes] * dimensions)).reshape(dimensions, -1)
    products = np.prod(np.meshgrid(*[weights] * dimensions), axis=0).ravel()
    return points, products / math.sqrt(2 * math.pi) ** dimensions


@pytest.mark.parametrize("activation", [Softmax(), Erf(0.3)])
def test_spiked_pair_by_quadrature_over_both_scores(activation):
    nu, o = 1.5, GENERAL
    (u1, u2), density = grid(140, 2)
    scores = np.array([math.sqrt(o.q_k) * u1 + math.sqrt(nu) * o.m_k, math.sqrt(o.q_k) * u2])
    weights = pair_weights(activation, scores)
    expected = density @ conditional_error(scores, None, weights, o, math.sqrt(nu))
    assert value(Spiked(nu=nu, length=2), activation) == pytest.approx(expected, abs=1e-10)


def pair_weights(activation, scores):
    if isinstance(activation, Softmax):
        return softmax_pair(scores)
    return 1 + erf(activation.shift + scores)


@pytest.mark.parametrize("activation", [Softmax(), Erf(0.3)])
def test_max_pair_by_quadrature_over_four_fields(activation):
    nu, o = 1.5, GENERAL
    (x1, x2, e1, e2), density = grid(28, 4)
    length = math.sqrt(o.q_k - o.m_k**2)
    scores = np.array([o.m_k * x1 + length * e1, o.m_k * x2 + length * e2])
    error = conditional_error(scores, np.array([x1, x2]), pair_weights(activation, scores), o, 0.0)
    expected = density @ (2 * error / (1 + np.exp(nu * (x2 - x1))))
    assert value(Max(nu=nu, length=2), activation) == pytest.approx(expected, abs=1e-8)


def test_argmax_pair_by_quadrature_over_four_fields():
    o = GENERAL
    (mean, e1, e2), density = grid(24, 3)
    nodes, weights = np.polynomial.legendre.leggauss(48)
    gap = 4.5 * (nodes + 1)  # (x_1 - x_2)/sqrt 2, positive where token 1 is the largest
    half = 2 * 4.5 * weights * np.exp(-(gap**2) / 2) / math.sqrt(2 * math.pi)
    expected = 0.0
    for g, w in zip(gap, half, strict=True):
        fields = np.array([mean + g, mean - g]) / math.sqrt(2)
        scores = o.m_k * fields + math.sqrt(o.q_k - o.m_k**2) * np.array([e1, e2])
        expected += w * (density @ conditional_error(scores, fields, softmax_pair(scores), o, 0.0))
    assert value(Max(nu=math.inf, length=2), Softmax()) == pytest.approx(expected, abs=1e-8)


# ----------------------------------------------------------------- linear attention, exactly

EXACT = {
    "m_k": "9/10",
    "q_k": "3/2",
    "m_v": "4/5",
    "q_v": "6/5",
    "m_kv": "2/5",
    "m_vk": "-1/2",
    "q_kv": "1/5",
}


def moment(mean, covariance, powers):
    """E prod x_i^powers_i of Gaussians with a mean, by Isserlis' recursion, exact for fractions."""
    if not any(powers):
        return Fraction(1)
    first = next(i for i, power in enumerate(powers) if power)
    lower = [p - (i == first) for i, p in enumerate(powers)]
    total = mean[first] * moment(mean, covariance, lower)
    for other, power in enumerate(lower):
        if power:
            rest = [p - (i == other) for i, p in enumerate(lower)]
            total += covariance[first][other] * power * moment(mean, covariance, rest)
    return total


def linear_token(mean):
    """(E z* f, E f, E f^2) of one token with f = (1 + chi) z, variables (chi, z*, z)."""
    o = {name: Fraction(text) for name, text in EXACT.items()}
    covariance = [
        [o["q_k"], o["m_kv"], o["q_kv"]],
        [o["m_kv"], Fraction(1), o["m_v"]],
        [o["q_kv"], o["m_v"], o["q_v"]],
    ]
    e = lambda *powers: moment(mean, covariance, list(powers))  # noqa: E731
    return (
        e(0, 1, 1) + e(1, 1, 1),
        e(0, 0, 1) + e(1, 0, 1),
        e(0, 0, 2) + 2 * e(1, 0, 2) + e(2, 0, 2),
    )


@pytest.mark.parametrize("length", [1, 2, 3, 10**6])
def test_linear_spiked_by_exact_moments(length):
    nothing, root = [Fraction(0)] * 3, Fraction(2)  # nu = 4
    shift = [root * Fraction(EXACT["m_k"]), Fraction(0), root * Fraction(EXACT["m_vk"])]
    (label, first, square), (_, mean, other) = linear_token(shift), linear_token(nothing)
    rest = length - 1
    power = square + rest * other + 2 * rest * first * mean + rest * (rest - 1) * mean**2
    expected = float(1 - 2 * label + power)
    found = value(Spiked(nu=4, length=length), Linear(), exact_overlaps())
    assert abs(found - expected) <= found.error <= 1e-12 * max(1.0, expected)


def exact_overlaps():
    return Overlaps(**{name: float(Fraction(text)) for name, text in EXACT.items()})


@pytest.mark.parametrize(
    "length, mean_field", [(1, 0.0), (2, math.pi**-0.5), (3, 1.5 * math.pi**-0.5), (10**6, None)]
)
def test_linear_argmax_by_exact_moments(length, mean_field):
    if mean_field is None:  # E max of standard Gaussians, by parts
        from scipy.integrate import quad

        def density(x):
            return x * length * math.exp(-x * x / 2 + (length - 1) * log_ndtr(x)) / math.sqrt(2 * math.pi)

        mean_field = quad(density, 2, 9, epsabs=1e-13, epsrel=1e-13, limit=200)[0]
    o = exact_overlaps()
    _, mean, square = linear_token([Fraction(0)] * 3)
    power = float(length * square + length * (length - 1) * mean**2)
    label = o.m_v + mean_field * (o.m_k * o.m_v + o.m_kv * o.m_vk)
    found = value(Max(nu=math.inf, length=length), Linear(), o)
    expected = 1 - 2 * label + power
    assert abs(found - expected) <= found.error + 1e-15 * abs(power)
    assert found.error <= 1e-10 * max(1.0, expected)


# ----------------------------------------------------------------- symmetries and limits


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("activation", [Softmax(), Erf(0.3)])
def test_even_under_reflection_of_both_values(task, activation):
    there = value(task, activation)
    back = value(task, activation, m_kv=-GENERAL.m_kv, m_vk=-GENERAL.m_vk, q_kv=-GENERAL.q_kv)
    assert abs(there - back) <= there.error + back.error
    other = value(task, activation, q_kv=-GENERAL.q_kv)  # only one sign: another risk
    assert abs(there - other) > 1e-3


@pytest.mark.parametrize(
    "task, activation, key",
    [
        (TASKS[0], Softmax(), (0.9, 1.3)),
        (TASKS[0], Erf(0.3), (0.9, 1.3)),
        (TASKS[1], Erf(0.3), (0.9, 1.3)),
        (TASKS[2], Erf(0.3), (1.2, 1.44)),
        pytest.param(TASKS[1], Softmax(), (1.2, 1.44), marks=pytest.mark.slow),
        pytest.param(TASKS[2], Softmax(), (1.2, 1.44), marks=pytest.mark.slow),
        pytest.param(TASKS[1], Softmax(), (0.9, 1.3), marks=pytest.mark.slow),
    ],
)
def test_on_the_manifold_it_is_the_risk_of_the_moments(task, activation, key):
    on = Overlaps(*key, 0.8, 1.1)
    found = excess_risk(task, activation, on)
    expected = slr.risk(task, activation, on.m_k, on.q_k, on.m_v, on.q_v, excess=True)
    assert abs(found - expected) <= found.error + expected.error
    assert found.error <= 1e-9


CHEAP = list(zip(TASKS, (Softmax(), Erf(0.3), Erf(0.3)), strict=True))


@pytest.mark.parametrize("task, activation", CHEAP)
def test_leaves_the_manifold_quadratically(task, activation):
    on = Overlaps(0.9, 1.3, 0.8, 1.1)
    start = value(task, activation, on)

    def rise(size):
        return value(task, activation, on, m_kv=0.4 * size, m_vk=-0.5 * size, q_kv=0.3 * size) - start

    assert rise(0.02) / rise(0.01) == pytest.approx(4, abs=2e-3)


def test_values_along_the_true_key_only_add_to_the_risk():
    for task in TASKS[:2]:
        on = excess_risk(task, Softmax(), Overlaps(1.2, 1.44, 0.8, 1.1))
        tilted = excess_risk(task, Softmax(), Overlaps(1.2, 1.44, 0.8, 1.1, m_vk=0.3, q_kv=0.36))
        assert tilted > on + 1e-3


@pytest.mark.parametrize("task, activation", CHEAP)
@pytest.mark.parametrize("changes", [{}, {"m_kv": 1e-9, "q_kv": ALIGNED.q_kv + 1e-9}])
def test_continuous_at_a_key_along_the_true_one(task, activation, changes):
    # the overlap that a rest of this length allows changes the risk by no more than about its own size
    near = value(task, activation, ALIGNED, q_k=ALIGNED.q_k * (1 + 1e-12), **changes)
    at = value(task, activation, ALIGNED, **changes)
    assert abs(near - at) <= 1e-11 + near.error + at.error
    assert abs(value(task, activation, ALIGNED) - at) <= 2e-8


@pytest.mark.parametrize("task", TASKS[:2])
def test_without_a_key_the_weights_are_uniform(task):
    shift = task.nu * 0.4**2 / 4 if isinstance(task, Spiked) else 0.0
    found = excess_risk(task, Softmax(), Overlaps(0, 0, 0.5, 1, m_vk=0.4))
    assert abs(found - (1 - 0.5 + 0.5 + shift)) <= found.error + 1e-15


@pytest.mark.parametrize("task", TASKS)
def test_without_a_value_nothing_is_predicted(task):
    assert excess_risk(task, Softmax(), Overlaps(0.9, 1.3, 0, 0, m_kv=0.4)) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("task", TASKS)
def test_one_token_needs_no_attention(task):
    shift = task.nu * GENERAL.m_vk**2 if isinstance(task, Spiked) else 0.0
    found = value(task.replace(length=1), Softmax())
    assert abs(found - (1 - 1.6 + 1.1 + shift)) <= found.error + 4e-16


def test_random_length_is_an_average_and_a_million_tokens_cost_no_more():
    mixed = value(Spiked(nu=1.5, length={2: 0.25, 10**6: 0.75}), Softmax())
    two, million = (value(Spiked(nu=1.5, length=n), Softmax()) for n in (2, 10**6))
    assert mixed == pytest.approx(0.25 * two + 0.75 * million, rel=1e-14)
    # uniform weights at leading order: E f^2 = q_kv^2, the mean of X.v under the tilt by exp(X.k)
    assert million == pytest.approx(1 + GENERAL.q_kv**2, abs=1e-4)


# ----------------------------------------------------------------- the derivation

OPTIONS = [
    {"task": task, "kind": kind, "formula": formula, "aligned": aligned, "shifted": kind == "elementwise"}
    for task in ("spiked", "max", "max_infinite")
    for kind, formula in (("normalized", "exp(x)"), ("elementwise", "1 + erf(x)"))
    for aligned in (False, True)
]


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_derivation_passes_its_audit(options):
    """Beside those of the catalogue of the theory, which the contract tests audit."""
    report = audit(derivations.get(NAME, **options))
    assert report.ok, [r for r in report.results if r.status.name != "PASSED"]


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_known_values_of_the_records(options):
    record = derivations.get(NAME, **options).equations
    compiled = program("off_manifold", ("excess",), **options)
    assert record.limits
    for limit in record.limits:
        found = compiled.values({k: float(v) for k, v in limit.values.items()})[limit.observable]
        assert found == pytest.approx(float(limit.expected), abs=limit.tolerance), limit.reason


@pytest.mark.parametrize("options", [{"task": "argmax"}, {"kind": "softmax"}])
def test_unknown_options_are_named(options):
    ((name, wrong),) = options.items()
    with pytest.raises(ValueError, match=f"{name} must be one of .* got '{wrong}'"):
        derivations.get(NAME, **options)
