"""Public numbers are those of the derived records: doubling a result there doubles the number."""

from __future__ import annotations

import pytest

from theorykit import derivations
from theorykit import signal_recovery as sr

TRAP = sr.Model(theta=3, fraction=0.3)
WIDE = TRAP.replace(kappa=0.5)
OTHER = sr.Model(theta=1.2, fraction=0.2, kernel="sigmoid(t)")
WEAK = sr.Model(theta=1, fraction=0.8)
CALM = sr.Model(theta=1.5, fraction=0.3, beta=0.5)

READINGS = [
    ("limit", "objective", lambda: sr.objective(TRAP, 0.2)),
    ("limit", "slope", lambda: sr.slope(TRAP, 0.2)),
    ("limit", "w", lambda: sr.attention_mass(TRAP, 0.2)),
    ("fixed_points", "separatrix", lambda: sr.separatrix(TRAP.replace(theta=6))),
    ("escape", "pace", lambda: sr.time_to(TRAP, 0.0, 0.5)),
    ("noise", "perpendicular", lambda: sr.gradient_noise(TRAP, 0.2).perpendicular),
]
FURTHER = [
    ("limit", "drift", lambda: sr.drift(TRAP, 0.2)),
    ("linear_laws", "gap", lambda: sr.stationary(CALM, 1000, 10, 0.05).gap),
    ("global_maximum", "kappa_global", lambda: sr.thresholds(WEAK).kappa_global),
    ("limit", "objective", lambda: sr.objective(WIDE, 0.2)),
    ("limit", "slope", lambda: sr.slope(WIDE, 0.2)),
    ("limit", "drift_slope", lambda: sr.fixed_points(TRAP)[0].eigenvalue),
    ("thresholds", "beta_c", lambda: sr.thresholds(TRAP).beta_c),
    ("thresholds", "kappa_c", lambda: sr.thresholds(WEAK).kappa_c),
    ("thresholds", "fraction_c", lambda: sr.thresholds(sr.Model(theta=2, fraction=0.1)).fraction_c),
    ("finite_size", "finite_size_slope", lambda: sr.finite_size_slope(TRAP, 0.2, 500, 20)),
    ("noise", "parallel", lambda: sr.gradient_noise(WIDE, 0.2).parallel),
    ("linear_laws", "variance", lambda: sr.stationary(CALM, 1000, 10, 0.05).variance),
    ("linear_laws", "opposed", lambda: sr.splitting(TRAP, -0.57, 4000, 20, 0.005).opposed),
    ("linear_laws", "width", lambda: sr.splitting(TRAP, -0.57, 4000, 20, 0.005).width),
    ("kernel", "objective", lambda: sr.objective(OTHER, 0.2)),
    ("kernel", "slope", lambda: sr.slope(OTHER, 0.2)),
]


def scaled(target: str):
    """The record with a result doubled, where it has one of this name."""

    def change(derivation):
        record = derivation.equations
        known = {*map(str, record.equations), *record.observables}
        return record.scaled(target) if target in known else record

    return change


def assert_doubled(derivation, target, call):
    before = float(call())
    with derivations.substituted(f"signal_recovery.{derivation}", scaled(target)):
        found = float(call())
    assert found == pytest.approx(2 * before, rel=1e-12)
    assert float(call()) == before


@pytest.mark.parametrize(
    ("derivation", "target", "call"), READINGS, ids=lambda x: x if isinstance(x, str) else ""
)
def test_doubling_a_result_doubles_the_number(derivation, target, call):
    assert_doubled(derivation, target, call)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("derivation", "target", "call"), FURTHER, ids=lambda x: x if isinstance(x, str) else ""
)
def test_doubling_further_results_doubles_their_numbers(derivation, target, call):
    assert_doubled(derivation, target, call)


@pytest.mark.slow
def test_doubling_the_balance_moves_no_root():
    before = sr.separatrix(TRAP)
    with derivations.substituted("signal_recovery.fixed_points", scaled("balance")):
        assert sr.separatrix(TRAP) == pytest.approx(float(before), abs=1e-14)


@pytest.mark.slow
def test_doubling_the_rate_halves_the_time():
    time = float(sr.time_to(TRAP, 0.0, 0.9))
    before = sr.trajectory(TRAP, 0.0, [time]).rho.item()
    with derivations.substituted("signal_recovery.limit", scaled("rapidity_rate")):
        assert sr.trajectory(TRAP, 0.0, [time / 2]).rho.item() == pytest.approx(before, abs=1e-9)
