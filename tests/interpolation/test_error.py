"""Limiting interpolation error: reference values, branch and certificates, evaluation to 40 digits, batches."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest

import theorykit as tk
from theorykit import interpolation as ip
from theorykit.errors import ConvergenceError
from theorykit.interpolation import programs
from theorykit.interpolation.error import solve_many

TANH = {"ratio": 0.5, "ridge": 0.1}
REFERENCES = [
    ("tanh(x)", TANH | {"signal": 1, "aligned": 1}, 0.32808507043581854),
    ("erf(x)", {"ratio": 0.25, "ridge": 0.01, "signal": 2}, 0.151439407520490714),
    ("relu(x)", {"ratio": 1, "ridge": 1, "signal": 1, "aligned": 2}, 0.383462723481617014),
    ("exp(x)", {"ratio": 1, "ridge": 0.1, "signal": 1, "aligned": 1}, 0.097740699962523047),
    ("cos(x)", TANH | {"signal": 3, "aligned": 0.7}, 0.591284172511587196),
    ("x", {"ratio": 2, "ridge": 0.01, "signal": 1}, 0.0356568988000860603),
    ("x", {"ratio": 2, "ridge": 0.01, "signal": 1, "diagonal": "kept"}, 0.0228812656328316428),
    ("tanh(x)", TANH | {"signal": 1, "aligned": -1}, 0.448497672161702198),
    ("tanh(x)", TANH | {"signal": 1, "overlaps": ip.Overlaps(1, 2, 0.5, -0.3, 0.2)}, 0.358951859435690929),
    ("relu(x)", TANH | {"label_mean": 0.6}, 0.563858076937808311),
    (ip.SOFTMAX_MAP, TANH | {"label_mean": 0.6, "centering": "row"}, 0.692366915256383843),
    (ip.SOFTMAX_MAP, TANH | {"label_mean": 0.6, "centering": "none"}, 0.332366915256383843),
    (ip.SOFTMAX_MAP, TANH | {"label_mean": 0.6, "centering": "column"}, 0.442612975618),
    ("tanh(x)", {"ratio": 0.5, "ridge": 1e-6, "signal": 1, "aligned": 1}, 0.252743114260548015),
]


@pytest.mark.parametrize(("formula", "arguments", "expected"), REFERENCES)
def test_reference_values(formula, arguments, expected):
    found = ip.interpolation_error(ip.Attention(formula, **arguments))
    digits = 1e-12 if len(str(expected)) < 16 else 4e-15
    assert found == pytest.approx(expected, abs=digits)
    assert abs(found - expected) < found.error + digits
    assert found.error < 1e-12


def test_the_blocks_of_the_noise():
    """a_1 = 0.7, nu = 1: a cubic polynomial with these coefficients, He_3/sqrt(6) for the rest."""
    rest = math.sqrt(0.51 / 6)
    model = ip.Attention(f"{0.7 - 3 * rest!r}*x + {rest!r}*x**3", **TANH)
    found = ip.solve(model)
    expected = {
        "m_uu": 5.86848736044260854,
        "m_uv": -2.83471167972222847,
        "m_uw": 0.0834689544929890043,
        "m_vv": 5.85529001846194802,
        "m_vw": -0.586848736044260854,
        "m_ww": -0.0413119323344901285,
    }
    for name, value in expected.items():
        assert found.blocks[name] == pytest.approx(value, abs=1e-12)
    assert found.bulk_error / 0.01 == pytest.approx(53.1203822889677243, abs=1e-10)
    assert found.residual < 1e-12


def test_quadratic_form_degrees_of_freedom_and_energy():
    model = ip.Attention("tanh(x)", **TANH, signal=1, aligned=1)
    found = ip.solve(model)
    assert found.quadratic_form == pytest.approx(3.60950801838502479, abs=1e-13)
    assert found.degrees_of_freedom == pytest.approx(1 - 0.1 * float(found.blocks.m_uu), abs=1e-14)
    nu, a_1 = float(model.hermite.second_moment), float(model.hermite.coefficients[1])
    assert found.feature_energy == pytest.approx(nu + a_1**2 / 0.5, rel=1e-13)
    kept = ip.solve(ip.Attention("tanh(x)", **TANH, diagonal=0.3))
    assert kept.feature_energy == pytest.approx(nu + a_1**2 / 0.5 + 2 * a_1 * 0.3 + 0.5 * 0.09, rel=1e-13)
    hash(found)


@pytest.mark.parametrize(
    ("ratio", "ridge", "signal", "expected"),
    [
        (0.5, 0.1, 0, 0.517261241912424385),
        (0.5, 0.1, 1, 0.260290284671631895),
        (2, 0.01, 2, 0.0000420559045933875934),
    ],
)
def test_linear_regression(ratio, ridge, signal, expected):
    found = ip.linear_regression_error(ratio=ratio, ridge=ridge, signal=signal)
    assert found == pytest.approx(expected, rel=1e-14)
    # K = 1: attention with a_1 = 0, no noise, and diagonal 1
    from theorykit.interpolation.programs import program
    from theorykit.numerics.continuation import follow

    compiled = program("attention", centering="entry")
    values = dict.fromkeys(compiled.parameters, 0.0)
    P = compiled.table(values | {"c": [float(ratio)], "gamma": ridge, "d": 1.0, "signal2": signal**2})
    out = follow(compiled, P, compiled.parameters.index("gamma"))
    error = compiled.observables(P, out.X)["interpolation_error"][0]
    assert error == pytest.approx(expected, rel=1e-10)


def test_linear_regression_over_the_whole_range():
    """The positive root of gamma m^2 + (gamma + c - 1) m = 1 and its derivative, in mpmath at 40 digits."""
    rng = np.random.default_rng(3)
    for c, gamma, mu in zip(
        np.exp(rng.uniform(np.log(0.05), np.log(20), 40)),
        np.exp(rng.uniform(np.log(1e-9), np.log(1e6), 40)),
        rng.uniform(0, 10, 40),
        strict=True,
    ):
        with mpmath.workdps(40):
            c_, g_, s_ = mpmath.mpf(c), mpmath.mpf(gamma), mpmath.mpf(mu) ** 2

            def form(g, c_=c_, s_=s_):
                b = g + c_ - 1
                m = (-b + mpmath.sqrt(b * b + 4 * g)) / (2 * g)
                return m * (1 + m) / (1 + m + s_ * m)

            expected = -(g_**2) * mpmath.diff(form, g_, h=g_ * mpmath.mpf(10) ** -14)
            found = ip.linear_regression_error(ratio=c, ridge=gamma, signal=mu)
            assert abs(found - expected) < found.error + 1e-13 * expected


def test_evaluation_to_40_digits_against_a_derivative_in_the_ridge():
    """E = -gamma^2 F'(gamma) with F from solved systems at neighbouring ridges, differentiated by mpmath."""
    record = tk.derivation("interpolation.attention").equations
    point = {
        "a_1": "0.7", "remainder": "0.51", "a_2": "0.2", "d": "0.1", "c": "0.5", "gamma": "0.1", "signal2": 1,
        "key2": 1, "query2": 2, "signal_key": "0.5", "signal_query": "-0.3", "key_query": "0.2",
        "label_mean": "0.3", "square_variance": 2,
    }  # fmt: skip
    exact = record.evaluate(point, digits=40)["interpolation_error"]
    with mpmath.workdps(60):
        gamma, width = mpmath.mpf("0.1"), mpmath.mpf(10) ** -8
        forms = [
            record.evaluate(point | {"gamma": gamma + k * width}, digits=50)["quadratic_form"]
            for k in (-2, -1, 1, 2)
        ]
        # the derivative of the polynomial through five points: error of order width**4
        slope = (forms[0] - 8 * forms[1] + 8 * forms[2] - forms[3]) / (12 * width)
        assert abs(-(gamma**2) * slope - exact) < mpmath.mpf(10) ** -22
    compiled = programs.program("attention", centering="entry")
    from theorykit.numerics.continuation import follow

    P = compiled.table({k: [float(v)] for k, v in point.items()})
    out = follow(compiled, P, compiled.parameters.index("gamma"))
    assert compiled.observables(P, out.X)["interpolation_error"][0] == pytest.approx(float(exact), abs=1e-14)


def _formula(rng):
    """c_1 x + c_2 (x^2 - 1) + c_3 (x^3 - 3x), some coefficients zero."""
    c = rng.uniform(0.1, 1, 3) * rng.integers(0, 2, 3)
    c[rng.integers(0, 3)] += 0.3
    return f"{c[0]!r}*x + {c[1]!r}*(x**2 - 1) + {c[2]!r}*(x**3 - 3*x)".replace("np.float64", "")


def scan(count):
    """Groups of four models that differ in the ridge: f, p/n in [0.05, 20], |mu|^2 up to 100, ridges 1e-9 to 1e6."""
    rng = np.random.default_rng(11)
    formulas = [_formula(rng) for _ in range(12)]
    formulas += ["tanh(x)", "x", "cos(x)", "relu(x)", "sign(x)", "x**3", "0.99*x + 0.01*tanh(3*x)"]
    models = []
    for _ in range(count):
        mu, b = rng.uniform(0, 10), rng.uniform(-3, 3)
        diagonal = float(rng.uniform(0, 1) * rng.integers(0, 2))
        c = math.exp(rng.uniform(math.log(0.05), math.log(20))) if rng.uniform() > 0.1 else 1.0
        formula = formulas[rng.integers(0, len(formulas))]
        for exponent in sorted(rng.uniform(-9, 6, 4)):
            models.append(ip.Attention(formula, c, 10**exponent, signal=mu, aligned=b, diagonal=diagonal))
    return models, solve_many(models)


@pytest.fixture(scope="module")
def scanned():
    return scan(500)


def test_random_models_are_solved_and_fall_with_the_ridge(scanned):
    """2000 points: every one is solved or says that it is not; E falls and degrees of freedom grow as ridges fall."""
    _, found = scanned
    failed = [f for f in found if isinstance(f, ConvergenceError)]
    assert len(failed) < 0.005 * len(found)
    assert all("not reached" in str(f) for f in failed)
    for first in range(0, len(found), 4):
        group = [f for f in found[first : first + 4] if not isinstance(f, ConvergenceError)]
        errors = [float(f.interpolation_error) for f in group]
        slack = [f.interpolation_error.error for f in group]
        assert all(
            a <= b + s + t + 1e-14 for a, b, s, t in zip(errors, errors[1:], slack, slack[1:], strict=False)
        )
        freedom = [float(f.degrees_of_freedom) for f in group]
        assert all(a >= b - 1e-13 for a, b in pairwise(freedom))


def test_random_models_obey_the_bounds(scanned):
    for model, f in zip(*scanned, strict=True):
        if isinstance(f, ConvergenceError):
            continue
        assert f.residual < 1e-12
        mu2, bulk = model.signal**2, float(f.bulk_error)
        assert bulk >= max(0.0, 1 - model.ratio) - 1e-9
        # the part of the labels that is noise given X is fitted like noise
        assert f.interpolation_error >= bulk / (1 + mu2) - f.interpolation_error.error - 1e-12
        assert f.interpolation_error <= 1 + 1e-12
        energy = float(f.feature_energy)
        if model.ridge > 1e3 * energy:  # normalization: df = energy/gamma to first order
            assert model.ridge * f.degrees_of_freedom == pytest.approx(energy, rel=0.2)


def typed(m, model):
    """Right side of the noise equation as a matrix equation, written by hand: the inverse of m."""
    from theorykit.interpolation.programs import parameters

    p, c = parameters(model), model.ratio
    shift = p["a_1"] - p["d"]
    a = np.array([[model.ridge, 0, -shift], [0, 0, -1], [-shift, -1, 0]])
    d = np.diag([p["a_1"], math.sqrt(c), 1.0])
    f, j = np.eye(3)[::-1], np.zeros((3, 3))
    j[0, 2] = j[2, 0] = 1
    return a + d @ np.linalg.inv(f + d @ m @ d / c) @ d - p["remainder"] / c * j @ m @ j


def test_random_models_are_on_the_branch_of_the_damped_iteration(scanned):
    """Started at infinite ridge and damped by 1/2, the iteration is slow and finds the right branch."""
    models, found = scanned
    compared = [(m, f) for m, f in zip(models, found, strict=True) if 1e-2 < m.ridge < 1e3][::8]
    assert len(compared) > 50
    for model, f in compared:
        m = np.array([[1 / model.ridge, 0, 0], [0, 0, -1], [0, -1, -model.ratio]])
        for _ in range(3000):
            previous, m = m, 0.5 * (m + np.linalg.inv(typed(m, model)))
            if np.max(np.abs(m - previous)) < 1e-13 * np.max(np.abs(m)):
                break
        blocks = [f.blocks[f"m_{pair}"] for pair in ("uu", "uv", "uw", "vv", "vw", "ww")]
        assert m[np.triu_indices(3)] == pytest.approx([float(v) for v in blocks], rel=1e-7, abs=1e-9), model


def test_large_ridge_is_perturbation_theory():
    """1 - df = 1 - energy/gamma + O(1/gamma^2)."""
    model = ip.Attention("relu(x)", ratio=0.7, ridge=1e6, signal=1, diagonal="kept")
    found = ip.solve(model)
    assert 1e6 * found.degrees_of_freedom == pytest.approx(float(found.feature_energy), rel=1e-4)


def test_rescaling_f_is_rescaling_the_ridge():
    small = ip.interpolation_error(ip.Attention("tanh(x)", 0.5, 0.1 / 9, signal=1, aligned=1))
    large = ip.interpolation_error(ip.Attention("3*tanh(x)", 0.5, 0.1, signal=1, aligned=1))
    assert large == pytest.approx(small, abs=1e-14)


def test_saturation_at_many_dimensions():
    """mu = 0, d = 0: E tends to that of linear regression at c = 1 and ridge gamma/nu, for every a_1."""
    nu = 1.0
    limit = 0.156173761888606066
    assert ip.linear_regression_error(ratio=1, ridge=0.1 / nu) == pytest.approx(limit, abs=1e-14)
    for a_1 in (0.0, 0.6, 1.0):
        rest = math.sqrt((1 - a_1**2) / 6)
        formula = f"{a_1 - 3 * rest!r}*x + {rest!r}*x**3"
        gaps = [ip.interpolation_error(ip.Attention(formula, c, 0.1)) - limit for c in (1e3, 4e3)]
        assert abs(gaps[1]) < 0.3 * abs(gaps[0]) + 1e-12 or abs(gaps[1]) < 1e-6


def test_small_ridge_without_linear_part():
    """a_1 = 0, nu = 1, c = 2: E = sqrt(c gamma/(nu (c - 1)))/2 at small ridge."""
    model = ip.Attention("(x**2 - 1)/sqrt(2)", ratio=2, ridge=1e-9)
    assert ip.interpolation_error(model) / math.sqrt(1e-9) == pytest.approx(0.707106781186548, rel=1e-4)


def test_without_linear_part_signal_and_weights_do_not_matter():
    plain = ip.solve(ip.Attention("cos(x)", **TANH))
    full = ip.solve(ip.Attention("cos(x)", **TANH, signal=2, overlaps=ip.Overlaps(1, 2, 0.5, -0.3, 0.2)))
    assert full.interpolation_error == pytest.approx(float(plain.interpolation_error), abs=1e-14)
    assert full.quadratic_form == pytest.approx(float(full.blocks.m_uu), abs=1e-13)


def test_weights_orthogonal_to_the_signal_do_not_matter():
    plain = ip.interpolation_error(ip.Attention("tanh(x)", **TANH, signal=1))
    for overlaps in (ip.Overlaps(1, 2, 0, 0, 0.5), ip.Overlaps(3, 1, 0, 0, -1.0)):
        model = ip.Attention("tanh(x)", **TANH, signal=1, overlaps=overlaps)
        assert ip.interpolation_error(model) == pytest.approx(float(plain), abs=1e-14)


@pytest.mark.parametrize(
    ("overlaps", "expected"),
    [
        (ip.Overlaps(0, 1, 0, 1, 0), 0.33958),
        (ip.Overlaps(1, 0, 1, 0, 0), 0.38619),
        (ip.Overlaps(), 0.34436),
    ],
)
def test_key_and_query_are_not_interchangeable(overlaps, expected):
    """Vectors of length 1 along the signal, one of them of vanishing length."""
    if overlaps.key2 != overlaps.query2:  # the other vector: orthogonal to everything, of length 1
        overlaps = overlaps.replace(key2=1, query2=1)
    found = ip.interpolation_error(ip.Attention("tanh(x)", **TANH, signal=1, overlaps=overlaps))
    assert found == pytest.approx(expected, abs=6e-6)


def test_centerings_coincide_for_balanced_labels_and_a_mean_that_vanishes_is_none():
    errors = [
        ip.interpolation_error(ip.Attention(ip.SOFTMAX_MAP, **TANH, signal=1, aligned=1, centering=centering))
        for centering in ("entry", "row", "column", "none")
    ]
    assert errors == pytest.approx([errors[0]] * 4, abs=1e-13)
    entry, none = (
        ip.interpolation_error(ip.Attention("tanh(x)", **TANH, label_mean=0.6, centering=c))
        for c in ("entry", "none")
    )
    assert entry == none


def test_curves_are_computed_in_one_batch():
    model = ip.Attention("tanh(x)", ratio=0.5, ridge=0.1, signal=1, aligned=1)
    over = {"ratio": [0.3, 1.0, 2.5], "ridge": [1e-3, 0.1, 3.0]}
    found = tk.curve(ip.interpolation_error, model, over=over)
    one = ip.interpolation_error(model.replace(ratio=1.0, ridge=3.0))
    assert found.interpolation_error.sel(ratio=1.0, ridge=3.0) == float(one)  # to the last bit
    assert np.all(found.interpolation_error_error.values < 1e-12)
    table = tk.curve(ip.solve, model, over={"ridge": [0.1, 1.0]})
    assert table.degrees_of_freedom.values[0] == pytest.approx(0.292028003832553, abs=1e-13)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ip.interpolation_error(3), TypeError, "model must be an Attention record"),
        (lambda: ip.linear_regression_error(ratio=0, ridge=1), ValueError, "ratio must be a real number"),
        (lambda: ip.linear_regression_error(ratio=1, ridge=-1), ValueError, "ridge must be a real number"),
        (
            lambda: ip.linear_regression_error(ratio=1, ridge=1, signal=-1),
            ValueError,
            "signal must be a real",
        ),
        (lambda: ip.solve(ip.Attention("tanh(x)", **TANH)).blocks["m_xx"], KeyError, "no block 'm_xx'"),
    ],
)
def test_bad_requests(make, error, message):
    with pytest.raises(error, match=message):
        make()
