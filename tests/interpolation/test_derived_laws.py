"""Derived laws beside the solver: reductions, linear attention, structure, centerings, and the claims on them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from theorykit import derivations
from theorykit import interpolation as ip
from theorykit.derivations.evaluate import evaluate_all
from theorykit.derivations.interpolation.features import label_form
from theorykit.derivations.solve import solve_fixed_point
from theorykit.interpolation.claims import EVALUATORS
from theorykit.interpolation.error import linear_regression


def observables(name, digits=20, **values):
    """Observables whose parameters are all given."""
    record = derivations.get(f"interpolation.{name}").equations
    known = {n: e for n, e in record.observables.items() if {s.name for s in e.free_symbols} <= set(values)}
    return {n: float(v) for n, v in evaluate_all(known, values, digits).items()}


@pytest.mark.parametrize(("ratio", "ridge"), [(0.5, 0.1), (2.0, 0.03), (1.01, 1.0), (0.2, 1e-4)])
def test_without_linear_part_the_solver_is_on_the_reduced_curve(ratio, ridge):
    found = ip.solve(ip.Attention("cos(x)", ratio, ridge, signal=1.0, aligned=1.0))
    nu = (1 - math.exp(-1)) ** 2 / 2
    law = observables("reductions", phi=float(found.degrees_of_freedom), c=ratio, nu=nu)
    assert law["nonlinear_ridge"] == pytest.approx(ridge, rel=1e-10)
    assert law["nonlinear_error"] == pytest.approx(float(found.interpolation_error), rel=1e-10)
    # m_vv in the scaling of the record
    assert law["nonlinear_vv"] == pytest.approx(ridge * float(found.blocks.m_vv), rel=1e-9)


@pytest.mark.parametrize(("ratio", "ridge"), [(0.5, 0.1), (2.0, 0.03)])
def test_linear_regression_is_on_its_reduced_curve(ratio, ridge):
    b = ridge + ratio - 1
    m = (math.sqrt(b * b + 4 * ridge) - b) / (2 * ridge)  # positive root of ridge m^2 + b m = 1
    law = observables("reductions", phi=1 - ridge * m, c=ratio)
    assert law["regression_ridge"] == pytest.approx(ridge, rel=1e-12)
    error = ip.linear_regression_error(ratio=ratio, ridge=ridge)
    assert law["regression_error"] == pytest.approx(float(error), rel=1e-12)


def test_many_dimensions_are_saturated_whatever_the_linear_part():
    limit = float(ip.linear_regression_error(ratio=1, ridge=0.1))
    freedom = float(linear_regression(1.0, np.array([0.1]), 0.0)["degrees_of_freedom"][0])
    law = observables("reductions", phi=freedom, nu=1.0)
    assert law["saturated_ridge"] == pytest.approx(0.1, rel=1e-12)
    assert law["saturated_error"] == pytest.approx(limit, rel=1e-12)
    for a_1 in (0.3, 0.9):
        rest = math.sqrt((1 - a_1**2) / 6)
        model = ip.Attention(f"{a_1 - 3 * rest!r}*x + {rest!r}*x**3", 1e6, 0.1)
        assert ip.interpolation_error(model) == pytest.approx(limit, rel=1e-3)


@pytest.mark.parametrize("ratio", [0.5, 1.7])
def test_small_ridges(ratio):
    """Constants of the reduced curves, from the solver at ridges of 1e-8."""
    law = observables("reductions", c=ratio, nu=(1 - math.exp(-1)) ** 2 / 2)
    ridge = 1e-8
    error = float(ip.interpolation_error(ip.Attention("cos(x)", ratio, ridge)))
    regression = float(ip.linear_regression_error(ratio=ratio, ridge=1e-5))
    if ratio < 1:
        assert error == pytest.approx(law["nonlinear_few"], rel=1e-6)
        assert regression == pytest.approx(law["regression_few"], rel=1e-3)
    else:
        assert error**2 / ridge == pytest.approx(law["nonlinear_many"], rel=1e-3)
        assert regression / 1e-10 == pytest.approx(law["regression_many"], rel=1e-3)


@pytest.mark.parametrize(("ratio", "diagonal"), [(0.5, 0.0), (2.0, 0.4)])
def test_linear_attention_is_an_average_over_the_marchenko_pastur_law(ratio, diagonal):
    """The record, the solver, and eigenvalues of one large matrix."""
    ridge, slope = 0.1, 0.7
    model = ip.Attention(f"{slope}*x", ratio, ridge, diagonal=diagonal)
    found = ip.solve(model)
    law = observables("linear_attention", a_1=slope, c=ratio, d=diagonal, gamma=ridge)
    assert law["linear_uu"] == pytest.approx(1 - float(found.degrees_of_freedom), rel=1e-10)
    assert law["bulk_error"] == pytest.approx(float(found.bulk_error), rel=1e-9)
    n = 1200
    p = round(ratio * n)
    noise = np.random.default_rng(4).standard_normal((p, n))
    values = np.linalg.svd(noise, compute_uv=False) ** 2 / p
    values = np.concatenate([values, np.zeros(n - values.size)])
    gram = ratio * values * (slope * values - slope + diagonal) ** 2
    assert law["linear_uu"] == pytest.approx(float(np.mean(ridge / (ridge + gram))), abs=4e-3)


@pytest.fixture(scope="module")
def solved():
    """A model of tanh with weights that are not aligned, its blocks and their derivatives to 25 digits."""
    record = derivations.get("interpolation.attention").equations
    model = ip.Attention("tanh(x)", 0.5, 0.1, signal=1.0, overlaps=ip.Overlaps(1, 2, 0.5, -0.3, 0.2))
    from theorykit.interpolation.programs import parameters

    point = {n: repr(v) for n, v in parameters(model).items()} | {"z": -1}
    known = point | {s.name: v for s, v in solve_fixed_point(record, point, 25).items()}
    explicit = {s.name: e for s, e in record.equations.items() if s.name not in known}
    order = sorted(explicit, key=lambda name: name.startswith("r_"))  # derivatives need the blocks
    for name in order:
        known |= evaluate_all({name: record.closed(explicit[name])}, known, 25)
    return model, known


def test_signal_and_noise_of_the_labels(solved):
    model, known = solved
    law = observables("structure", **known)
    found = ip.solve(model)
    assert law["interpolation_error"] == pytest.approx(float(found.interpolation_error), rel=1e-12)
    split = (float(found.bulk_error) + law["signal_error"]) / 2
    assert split == pytest.approx(float(found.interpolation_error), rel=1e-12)
    assert law["orthogonal_error"] == pytest.approx(
        float(ip.interpolation_error(model.replace(overlaps=None))), rel=1e-12
    )
    strong = [ip.interpolation_error(model.replace(overlaps=None, aligned=b)) for b in (-1e3, 1e3)]
    assert strong == pytest.approx([law["least_error"]] * 2, rel=1e-6)
    assert law["least_error"] == pytest.approx(0.3236714, abs=6e-8)


@pytest.mark.parametrize(("ridge", "expected"), [(0.01, 0.0275), (0.1, 0.0414), (1.0, 0.0809)])
def test_error_along_the_signal(ridge, expected):
    """Of tanh without weights: E_x from the split."""
    found = ip.solve(ip.Attention("tanh(x)", 0.5, ridge, signal=1.0))
    assert 2 * found.interpolation_error - found.bulk_error == pytest.approx(expected, abs=6e-5)


def test_the_forms_of_the_centerings_are_those_of_the_error():
    """What is derived with two tokens is what the error is the derivative of."""
    observed = derivations.get("interpolation.centering").equations.observables
    for centering in ("row", "column", "none"):
        record = derivations.get("interpolation.attention", centering=centering).equations
        gamma = next(s for s in record.observables["quadratic_form"].free_symbols if s.name == "gamma")
        assert observed[f"form_{centering}"] / gamma == record.observables["quadratic_form"]
        assert label_form(centering).free_symbols


def doubled(name):
    def change(derivation):
        record = derivation.equations
        return record.scaled(name) if name in record.observables else derivation

    return change


@pytest.mark.parametrize(
    ("claim", "record", "result"),
    [
        ("gap_vanishes_when_aligned", "structure", "least_error"),
        pytest.param("gap_reversed", "structure", "ridgeless_ratio", marks=pytest.mark.slow),
        ("no_linear_part_no_signal", "reductions", "nonlinear_error"),
        ("no_linear_part_no_dimension", "reductions", "saturated_ridge"),
        pytest.param("softmax_is_entrywise", "softmax", "softmax_moment", marks=pytest.mark.slow),
    ],
)
def test_claims_rest_on_derived_laws(claim, record, result):
    true = EVALUATORS[claim]()
    with derivations.substituted(f"interpolation.{record}", doubled(result)):
        found = EVALUATORS[claim]()
    assert found != true
