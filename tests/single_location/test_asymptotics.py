"""Asymptotic laws against exact numbers with the order of what it leaves out."""

from __future__ import annotations

import math
from functools import cache

import mpmath
import pytest
from scipy import optimize

from theorykit.codegen import compile_record
from theorykit.derivations.ledger import Derivation
from theorykit.derivations.single_location.asymptotics import CLAIMS, derive_asymptotics
from theorykit.derivations.single_location.bayes import derive_bayes_risk
from theorykit.derivations.single_location.best_elementwise import derive_best_elementwise
from theorykit.derivations.single_location.erf import derive_erf
from theorykit.derivations.single_location.hidden_field import derive_hidden_field
from theorykit.derivations.single_location.linear import derive_linear


@cache
def derived(law: str) -> Derivation:
    return derive_asymptotics(law)


@cache
def law_values(law: str):
    return compile_record(derived(law).equations).values


@cache
def bayes(task: str):
    compiled = compile_record(derive_bayes_risk(task).equations, ("bayes_excess",))
    return lambda nu, length: compiled.values({"nu": nu, "L": length})["bayes_excess"]


def test_unknown_law_is_refused():
    with pytest.raises(ValueError, match="law must be one of"):
        derive_asymptotics("softmaxx")


# ----------------------------------------------------------------- softmax at strong signal


@pytest.mark.parametrize("nu", [100.0, 400.0, 1000.0])
def test_series_of_two_tokens_within_its_remainder(nu):
    """exp(-y) is alternating: what is left out is below the next term, 61 pi^6/(384 nu^3)."""
    exact, series = bayes("spiked")(nu, 2), law_values("softmax")({"nu": nu, "L": 2})["law"]
    gap = series / exact - 1
    bound = 61 * math.pi**6 / (384 * nu**3)
    assert 0 < gap < bound * (1 + 20 / nu)
    assert gap > 0.5 * bound


@pytest.mark.parametrize("length", [2, 3, 10, 1000])
@pytest.mark.parametrize("nu", [1.0, 9.0, 60.0, 300.0])
def test_pairs_bound_the_bayes_risk_from_both_sides(nu, length):
    found = law_values("softmax")({"nu": nu, "L": length})
    exact = bayes("spiked")(nu, length)
    gap = found["pair_excess"] - exact
    rounding = 1e-12 * found["pair_excess"]
    assert -rounding <= gap <= found["remainder"] + rounding
    if length > 2:
        assert gap > 0 or nu > 200


def test_three_tokens_at_once_cost_a_third_of_nu():
    """The exponent of what pairs leave out is nu/3: local exponents between nu = 40 and 160."""
    gaps = [law_values("softmax")({"nu": nu, "L": 3})["pair_excess"] - bayes("spiked")(nu, 3)
            for nu in (20.0, 40.0, 80.0)]  # fmt: skip
    rates = [(math.log(a) - math.log(b)) / step for a, b, step in zip(gaps, gaps[1:], (20, 40), strict=False)]
    assert 1 / 3 < rates[1] < rates[0] < 1 / 3 + 0.1


# ----------------------------------------------------------------- the others at strong signal


@pytest.mark.parametrize("length", [2, 3, 10])
def test_best_elementwise_law_is_good_to_third_order(length):
    exact = compile_record(derive_best_elementwise("spiked").equations).values

    def gap(nu: float) -> float:
        point = {"nu": nu, "L": length}
        return law_values("best_elementwise")(point)["law"] / exact(point)["best_excess"] - 1

    assert 0 < gap(800.0) < 1e-5
    assert gap(800.0) / gap(1600.0) == pytest.approx(8, rel=0.1)


def test_linear_law():
    exact = compile_record(derive_linear("spiked").equations, ("best_excess",)).values
    for length in (2, 7):
        rate = law_values("linear")({"L": length})["rate"]
        assert rate == length
        for nu in (1e4, 1e5):  # the next order is L^2/(nu (L - 1))
            scaled = nu * exact({"nu": nu, "L": length})["best_excess"]
            assert 1 - scaled / rate == pytest.approx(length**2 / (nu * (length - 1)), rel=0.1)


def test_erf_without_shift_keeps_a_floor():
    exact = compile_record(derive_erf("spiked").equations, ("A", "power", "leak")).values
    values = law_values("erf")
    for length in (2, 5):
        found = [values({"L": length, "slope": slope})["floor"] for slope in (1e-6, 0.1, 0.5, 2.0)]
        assert found[0] == pytest.approx((length - 1) / (length + 3), rel=1e-9)
        assert found == sorted(found)
        at = exact({"nu": 1e4, "L": length, "m_k": 0.5, "q_k": 0.25, "m_v": 0, "shift": 0})
        assert 1 - at["A"] ** 2 / (at["power"] + at["leak"]) == pytest.approx(found[2], rel=1e-12)


def test_softplus_constant():
    values = law_values("softplus")
    best = optimize.minimize_scalar(
        lambda slope: float(values({"L": 2, "slope": slope})["rate"]), bounds=(1, 20), method="bounded",
        options={"xatol": 1e-9},
    )  # fmt: skip
    assert best.fun == pytest.approx(0.8341597203, abs=1e-10)
    assert best.x == pytest.approx(4.8285, abs=1e-3)
    assert values({"L": 6, "slope": 2.0})["rate"] == pytest.approx(
        5 * values({"L": 2, "slope": 2.0})["rate"], rel=1e-13
    )
    assert values({"L": 2, "slope": 1e9})["rate"] == pytest.approx(1 - 1 / (2 * math.pi), abs=1e-12)


def test_softplus_risk_approaches_its_law():
    """nu times the risk of the best value, at the best slope; corrections of relative order 1/sqrt(nu)."""
    from theorykit.single_location import Softplus, Spiked, attention_moments

    slope, rate = 4.8285, law_values("softplus")({"L": 2, "slope": 4.8285})["rate"]

    def gap(nu: float) -> float:
        mean, square = attention_moments(Spiked(nu, 2), Softplus(), m_k=slope, q_k=slope**2)
        return nu * (1 - mean**2 / square) / rate - 1

    assert abs(gap(1e4)) < 0.05
    assert gap(2500.0) / gap(1e4) == pytest.approx(2, rel=0.1)


# ----------------------------------------------------------------- long sequences


@pytest.mark.parametrize(("task", "nu"), [("spiked", 0.5), ("spiked", 2.0), ("max", 0.5), ("max", 1.0)])
def test_bayes_risk_of_long_sequences(task, nu):
    rate = law_values(f"long_{task}")({"nu": nu})["bayes_rate"]
    assert rate == pytest.approx(math.exp(nu if task == "spiked" else nu * nu), rel=1e-14)
    gaps = [1 - length * (1 - bayes(task)(nu, length)) / rate for length in (1000, 10000)]
    assert 0 < gaps[1] < gaps[0] < 0.5
    assert gaps[0] / gaps[1] == pytest.approx(10, rel=0.3)


def test_linear_risk_of_long_sequences():
    spiked = compile_record(derive_linear("spiked").equations, ("best_excess",)).values
    point = {"nu": 3.0, "L": 10**6}
    assert law_values("long_spiked")({"nu": 3.0})["linear_rate"] == 4
    assert 10**6 * (1 - spiked(point)["best_excess"]) == pytest.approx(4, rel=1e-5)
    found = law_values("long_max")({"nu": 1.5})
    mu = compile_record(derive_hidden_field("max").equations).values({"nu": 1.5, "L": 10**6})["mu"]
    assert found["field_mean"] == 1.5
    assert found["linear_rate"] == pytest.approx(1 + 1.5**2)
    assert mu == pytest.approx(found["field_mean"], rel=1e-4)


def test_max_bayes_risk_is_the_largest_field_over_nu():
    """In the max task the law is algebraic: nu times the excess risk tends to the mean of the largest field."""
    largest = compile_record(derive_hidden_field("max_infinite").equations).values({"L": 3})["mu"]
    assert largest == pytest.approx(1.5 / math.sqrt(math.pi), rel=1e-14)
    gaps = [largest - nu * bayes("max")(nu, 3) for nu in (10.0, 20.0)]
    assert 0 < gaps[1] < gaps[0]
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.1)


# ----------------------------------------------------------------- numbers the laws rest on


@pytest.mark.parametrize(("degree", "moment"), [(0, "pi"), (2, "pi**3"), (4, "5*pi**5")])
def test_moments_of_the_kernel(degree, moment):
    """Moments of 1/(2 cosh(u/2)) over the line, which make the coefficients of the series."""
    exact = {"pi": mpmath.pi, "pi**3": mpmath.pi**3, "5*pi**5": 5 * mpmath.pi**5}[moment]
    found = 2 * mpmath.quad(lambda u: u**degree / (2 * mpmath.cosh(u / 2)), [0, 2, 6, 15, 40, 120])
    assert found == pytest.approx(float(exact), rel=1e-13)
    series = derived("softmax").equations.equations
    (coefficients,) = [e for s, e in series.items() if s.name == "series"]
    small = coefficients.as_coefficients_dict()
    assert len(small) == 3


def test_claims_are_stated_once_with_their_source():
    names = [claim.name for claim in CLAIMS]
    assert len(set(names)) == len(names) == 8
    assert all("2509.21936" in claim.source and claim.statement.endswith(".") for claim in CLAIMS)
