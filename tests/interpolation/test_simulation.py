"""The simulator of the finite model: its linear algebra, its draws, its refusals, limits known in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

from theorykit import interpolation as ip
from theorykit.validation.simulate import attention_features as features
from theorykit.validation.simulate.attention_request import NOISES, gaussian_mean, read_request
from theorykit.validation.simulate.interpolation import eigenvalues, interpolation_error, probe
from theorykit.validation.simulate.streams import chunk_stream

PLAIN = {
    "formula": "tanh(x)",
    "ratio": 0.5,
    "gram": ((1.0, 0.5, -0.3), (0.5, 1.0, 0.2), (-0.3, 0.2, 2.0)),
    "label_mean": 0.0,
    "square_variance": 2.0,
    "diagonal": "zero",
    "centering": "entry",
}


def request(tokens=60, noise="gaussian", attention="entrywise", **changes):
    return read_request({**PLAIN, **changes}, tokens, noise, attention)


@pytest.mark.parametrize(("rows", "columns"), [(20, 50), (50, 20), (30, 30)])
def test_probe_is_the_ridge_regression_it_stands_for(rows, columns):
    """The residual of the minimizer of |y - M^T w|^2/n + gamma |w|^2, solved by least squares."""
    rng = np.random.default_rng(3)
    matrix, labels = rng.standard_normal((rows, columns)), np.sign(rng.standard_normal(columns))
    matrix[:, 0] = matrix[:, 1]  # not of full rank where rows >= columns
    found = probe(matrix, labels)
    for ridge in (1e-3, 0.1, 10.0):
        root = math.sqrt(columns * ridge)
        stacked = np.vstack([matrix.T, root * np.eye(rows)])
        solution = np.linalg.lstsq(stacked, np.concatenate([labels, np.zeros(rows)]), rcond=None)[0]
        residual = labels - matrix.T @ solution
        assert found.error(ridge) == pytest.approx(residual @ residual / columns, rel=1e-9)
        resolvent = np.linalg.inv(matrix.T @ matrix / columns + ridge * np.eye(columns))
        assert found.quadratic_form(ridge) == pytest.approx(labels @ resolvent @ labels / columns, rel=1e-9)
        trace = np.trace(resolvent) / columns
        assert found.degrees_of_freedom(ridge) == pytest.approx(1 - ridge * trace, rel=1e-9)


def test_singular_features_leave_what_no_probe_explains():
    labels = np.ones(4)
    found = probe(np.array([[1.0, -1.0, 0.0, 0.0], [1.0, -1.0, 0.0, 0.0]]), labels)
    assert found.eigenvalues.size == 1
    assert found.error(1e-12) == pytest.approx(1.0, abs=1e-12)


def test_a_draw_is_the_model_entry_by_entry():
    asked = request(tokens=12, ratio=1.0, diagonal="kept")
    stream = chunk_stream(5, 0)
    sample = features.draw(asked, stream)
    again = chunk_stream(5, 0)
    directions = np.linalg.qr(again.standard_normal((12, 3)))[0]
    mu, key, query = (directions @ row for row in asked.frame)
    gram = np.array([mu, key, query]) @ np.array([mu, key, query]).T
    assert np.allclose(gram, PLAIN["gram"], atol=1e-13)
    tokens = again.standard_normal((12, 12)) + np.outer(mu, sample.labels)
    assert np.allclose(sample.tokens, tokens, atol=1e-13)
    weights = np.eye(12) + np.outer(key, query)
    for i in range(12):
        for j in range(12):
            score = tokens[:, i] @ weights @ tokens[:, j] / math.sqrt(12)
            assert sample.attention[i, j] == pytest.approx(math.tanh(score) / math.sqrt(12), abs=1e-13)
    assert list(sample.labels) == [1.0] * 6 + [-1.0] * 6
    full = features.draw(asked, chunk_stream(5, 0), weights)
    assert np.allclose(full.attention, sample.attention, atol=1e-12)


@pytest.mark.parametrize(("diagonal", "value"), [("zero", 0.0), (0.3, 0.3)])
def test_diagonal_conventions(diagonal, value):
    sample = features.draw(request(diagonal=diagonal), chunk_stream(0, 0))
    assert np.array_equal(np.diag(sample.attention), np.full(60, value))


@pytest.mark.parametrize("label_mean", [-1.0, -0.5, 0.0, 0.6])
def test_labels_have_the_mean_asked_for(label_mean):
    sample = features.draw(request(label_mean=label_mean, gram=np.zeros((3, 3))), chunk_stream(0, 0))
    assert sample.labels.mean() == pytest.approx(label_mean, abs=1e-15)


def test_centred_matrices_sum_to_zero():
    softmax = {"formula": "exp(x - 1/2) - 1"}
    for kind, options in (("entrywise", {}), ("softmax", softmax)):
        row = features.draw(request(attention=kind, centering="row", **options), chunk_stream(0, 0)).attention
        column = features.draw(
            request(attention=kind, centering="column", **options), chunk_stream(0, 0)
        ).attention
        assert np.allclose(row.sum(axis=1), 0, atol=1e-12)
        assert np.allclose(column.sum(axis=0), 0, atol=1e-12)
        assert not np.allclose(row.sum(axis=0), 0, atol=1e-3)
    raw = features.draw(
        request(attention="softmax", centering="none", **softmax), chunk_stream(0, 0)
    ).attention
    assert np.allclose(raw.sum(axis=1), 60 / math.sqrt(30), atol=1e-12)
    assert np.array_equal(np.diag(raw), np.zeros(60))


@pytest.mark.parametrize("law", NOISES)
def test_noise_has_the_moments_it_is_said_to_have(law):
    entries = features.noise_entries(law, np.random.default_rng(11), (1000, 2000)).ravel()
    count = entries.size
    assert abs(entries.mean()) < 5 / math.sqrt(count)
    squares = entries**2
    assert abs(squares.mean() - 1) < 5 * math.sqrt(max(NOISES[law], 1e-30) / count)
    if law != "student5":  # whose squares have an infinite variance of their variance
        assert squares.var() == pytest.approx(NOISES[law], abs=0.03)


def test_the_mean_of_a_formula_with_kinks_and_jumps():
    from theorykit.formula import Formula

    assert gaussian_mean(Formula("relu(x)")) == pytest.approx(1 / math.sqrt(2 * math.pi), abs=1e-9)
    assert gaussian_mean(Formula("sign(x - 0.3)")) == pytest.approx(math.erf(-0.3 / math.sqrt(2)), abs=2e-5)
    assert gaussian_mean(Formula("exp(x)")) == pytest.approx(math.exp(0.5), rel=1e-12)


def test_streams_are_reproducible_and_trials_are_kept():
    model = ip.Attention("tanh(x)", ratio=0.5, ridge=0.1, signal=1.0)
    few, more = (ip.simulate(model, tokens=60, trials=trials, seed=4) for trials in (3, 5))
    assert few == ip.simulate(model, tokens=60, trials=3, seed=4)
    for name, values in few.samples.items():
        assert np.array_equal(values, more.samples[name][:3])
    assert few != ip.simulate(model, tokens=60, trials=3, seed=5)
    drawn = ip.simulate(model, tokens=60, trials=2)
    assert ip.simulate(model, tokens=60, trials=2, seed=drawn.seed) == drawn


def test_several_ridges_share_their_draws():
    model = ip.Attention("tanh(x)", ratio=0.5, ridge=0.1, signal=1.0)
    data = ip.simulate(model, tokens=60, trials=3, seed=4, ridges=[0.01, 0.1, 1.0])
    one = ip.simulate(model, tokens=60, trials=3, seed=4)
    assert data["interpolation_error"].sel(ridge=0.1).item() == float(one.interpolation_error)
    assert data["interpolation_error_error"].sel(ridge=0.1).item() == one["interpolation_error"].error
    assert np.all(np.diff(data["interpolation_error"]) > 0)
    assert np.all(np.diff(data["degrees_of_freedom"]) < 0)


def linear_regression_limit(ratio: float, ridge: float, signal2: float) -> float:
    """E of linear regression, from the Marchenko-Pastur law in closed form."""
    b = ridge + ratio - 1
    root = math.sqrt(b * b + 4 * ridge)
    m = (-b + root) / (2 * ridge)
    slope = (m * m + m) / (2 * ridge * m + b)
    below = 1 + m + signal2 * m
    return ridge**2 * slope * ((1 + 2 * m) * below - m * (1 + m) * (1 + signal2)) / below**2


@pytest.mark.parametrize(("ratio", "signal"), [(0.5, 1.0), (0.5, 0.0), (2.0, 1.0)])
def test_linear_regression_reaches_its_limit(ratio, signal):
    """Stated beforehand: |z| < 4 with a finite-size bias of at most 1/n."""
    model = ip.Attention("tanh(x)", ratio=ratio, ridge=0.1, signal=signal)
    found = ip.simulate(model, tokens=400, trials=40, seed=8).linear_regression_error
    gap = abs(found - linear_regression_limit(ratio, 0.1, signal**2))
    assert gap < 4 * found.error + found / 400


def test_linear_regression_is_the_limit_of_a_dominant_diagonal():
    """With a diagonal of d >> 1 the features are d times the tokens."""
    model = ip.Attention("tanh(x)", ratio=0.5, ridge=0.1, signal=1.0, diagonal=1e6).replace(ridge=1e11)
    found = ip.simulate(model, tokens=100, trials=3, seed=1)
    plain = ip.simulate(model.replace(ridge=0.1), tokens=100, trials=3, seed=1)
    assert found.interpolation_error == pytest.approx(plain.linear_regression_error, rel=1e-4)


def test_control_variate_lowers_the_error():
    model = ip.Attention("tanh(x)", ratio=0.5, ridge=0.1, signal=1.0, aligned=1.0)
    found = ip.simulate(model, tokens=200, trials=40, seed=2)
    limit = linear_regression_limit(0.5, 0.1, 1.0)
    controlled = found.controlled_error(limit)
    assert controlled.error < 0.8 * found.interpolation_error.error
    # by hand: the intercept of the least-squares line at the limit of the control
    x, y = found.samples["linear_regression_error"], found.samples["interpolation_error"]
    slope, intercept = np.polyfit(x - limit, y, 1)
    assert controlled == pytest.approx(intercept, rel=1e-10)
    assert slope > 0.3


def test_eigenvalues_are_those_of_the_feature_matrix():
    found = eigenvalues(PLAIN, tokens=40, trials=2, seed=3)
    assert found.shape == (2, 40)
    sample = features.draw(request(tokens=40), chunk_stream(3, 1))
    matrix = sample.tokens @ sample.attention
    assert np.allclose(found[1], np.linalg.eigvalsh(matrix.T @ matrix / 40), atol=1e-9)
    assert np.count_nonzero(found[0] == 0.0) == 20


REFUSED = [
    ({"noise": "cauchy"}, ValueError, "noise must be one of"),
    ({"noise": "uniform"}, ValueError, "square_variance must be 0.8 for noise 'uniform', got 2.0"),
    ({"attention": "softmax"}, ValueError, "needs the formula 'exp"),
    ({"attention": 3}, TypeError, "attention must be one of"),
    ({"tokens": 3}, ValueError, "tokens must be an integer in"),
    ({"trials": 1}, ValueError, "trials must be an integer in"),
    ({"seed": -1}, ValueError, "seed must be at least 0"),
]


@pytest.mark.parametrize(("change", "error", "message"), REFUSED)
def test_refusals(change, error, message):
    model = ip.Attention("tanh(x)", ratio=0.5, ridge=0.1)
    with pytest.raises(error, match=message):
        ip.simulate(model, **{"tokens": 40, "trials": 2, "seed": 0, **change})


def test_refusals_of_models():
    with pytest.raises(TypeError, match="model must be an Attention record"):
        ip.simulate("tanh(x)", tokens=10, trials=2)
    softmax = ip.Attention(ip.SOFTMAX_MAP, ratio=0.5, ridge=0.1, label_mean=0.6)
    with pytest.raises(ValueError, match="needs centering 'row', 'column' or 'none'"):
        ip.simulate(softmax, tokens=40, trials=2, attention="softmax")
    with pytest.raises(ValueError, match="keeps the mean of f, which is zero"):
        ip.simulate(softmax.replace(centering="none"), tokens=40, trials=2)
    with pytest.raises(ValueError, match="needs diagonal 'zero'"):
        ip.simulate(softmax.replace(centering="row", diagonal=1), tokens=40, trials=2, attention="softmax")
    with pytest.raises(ValueError, match="at least 4 dimensions"):
        ip.simulate(softmax.replace(ratio=1e-3), tokens=40, trials=2)
    with pytest.raises(ValueError, match="must have the entries"):
        interpolation_error({"formula": "x"}, 40, [0.1], 2)
    with pytest.raises(ValueError, match="weights must be a finite matrix of shape"):
        interpolation_error(PLAIN, 40, [0.1], 2, weights=np.eye(3))
    with pytest.raises(ValueError, match="must be finite at all scores"):
        strong = ip.Attention("exp(x)", ratio=1, ridge=1, signal=200.0, diagonal="zero")
        ip.simulate(strong, tokens=20, trials=2)
