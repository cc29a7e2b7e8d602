"""What every theory promises, tested over the registry: one that is added is covered without a line here."""

from __future__ import annotations

import random
import re
from functools import cache

import pytest
import sympy as sp
from latex_readers import assert_balanced, assert_compiles, mathematics, read_by_katex
from readings import READ_BY_NOTHING, READINGS, Reading

from theorykit import derivations, theory
from theorykit.codegen import compile_record
from theorykit.derivations.audit import AuditStatus, DerivationAudit, audit, audit_step, sign_flips
from theorykit.derivations.evaluate import evaluate
from theorykit.derivations.ledger import Derivation, Equations
from theorykit.derivations.matrices import Determinant, Entry
from theorykit.derivations.tensor import evaluate_tensor
from theorykit.errors import ConvergenceError, DerivationError

THEORIES = {name: theory.resolve(name) for name in theory.theories()}


def catalogue_name(name: str, label: str) -> str:
    """The name in the catalogue of an entry such as ``risk[normalized]``."""
    plain = label.split("[")[0]
    (found,) = {plain, f"{name}.{plain}"} & set(derivations.CATALOGUE)
    return found


#: (theory, label) of every derivation of every theory, then what is in the catalogue alone.
ENTRIES = [(name, label) for name, record in THEORIES.items() for label in record.derivations]
ENTRIES += [("", name) for name in sorted(set(derivations.CATALOGUE) - {catalogue_name(*e) for e in ENTRIES})]
PROTECTED = ("proved", "verified")
CHANGED = 1e-4  # relative change of a public number that counts as one


@cache
def derivation_of(name: str, label: str) -> Derivation:
    return THEORIES[name].derivations[label]() if name else derivations.get(label)


@cache
def audited(name: str, label: str) -> DerivationAudit:
    """All checks that are not slow; kept, because several tests read it."""
    return audit(derivation_of(name, label))


# ----------------------------------------------------------------- chains and audits


@pytest.mark.parametrize(("name", "label"), ENTRIES)
def test_every_step_follows_from_its_premises(name, label):
    derivation = derivation_of(name, label)
    assert derivation.faults() == {}
    assert all(derivation.root(step.name) is not None for step in derivation.steps)
    assert all(step.premises and step.reason.strip() for step in derivation.steps)


#: audits of these lists take seconds each; of each, the slow suite makes them again with its slow checks
LONG_AUDITS = (
    "normalized_moments[max_infinite, exp(x), any key]",
    "normalized_moments[max, exp(x), any key]",
    "normalized_moments[max, exp(x), strong signal]",
    "best_elementwise[max, strong signal]",
)


@pytest.mark.parametrize(
    ("name", "label"),
    [pytest.param(*entry, marks=[pytest.mark.slow] * (entry[1] in LONG_AUDITS)) for entry in ENTRIES],
)
def test_the_audit_passes(name, label):
    found = audited(name, label)
    assert found.ok, [(s.name, s.detail) for s in found.steps if s.status.is_red]
    slow = {step.name for step in derivation_of(name, label).steps if step.check.slow}
    assert {s.name for s in found.steps if s.status is AuditStatus.NOT_RUN} == slow
    assert found.complete is not bool(slow)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "label"), ENTRIES)
def test_the_audit_with_slow_checks_is_complete(name, label):
    found = audit(derivation_of(name, label), slow=True)
    assert found.ok
    assert found.complete


# ----------------------------------------------------------------- signs


def flips(derivation: Derivation, slow: bool) -> list[tuple[str, sp.Expr]]:
    """(step, right side with one sign flipped) of every protected step; with ``slow`` also those checked slowly."""
    return [
        (step.name, flipped)
        for step in derivation.steps
        if step.check.kind in PROTECTED and (slow or not step.check.slow)
        for flipped in sign_flips(step.rhs)
        if flipped != step.rhs  # the right side is 0
    ]


def assert_red_at(derivation: Derivation, name: str, flipped: sp.Expr) -> None:
    """The check of the step fails; the chain breaks after it and nowhere else."""
    mutated = derivation.with_step(name, flipped)
    (step,) = [s for s in mutated.steps if s.name == name]
    (true,) = [s for s in derivation.steps if s.name == name]
    result = audit_step(step, slow=True)
    assert result.status is AuditStatus.FAILED, (name, flipped, result.detail)
    carried = {s.name for s in derivation.steps if name in s.premises and s.lhs == true.rhs}
    targets = {str(symbol) for symbol, e in derivation.equations.equations.items() if e == true.rhs}
    targets |= {target for target, e in derivation.equations.observables.items() if e == true.rhs}
    broken = set(mutated.faults())
    assert broken <= _behind(derivation, name)
    assert broken or not carried | targets


def _behind(derivation: Derivation, name: str) -> set[str]:
    """Steps and results whose chain passes through a step: none of them reaches its definition any more."""
    reached = {name}
    for step in derivation.steps:
        reached |= {step.name} if reached & set(step.premises) else set()
    ends = {s.rhs for s in derivation.steps if s.name in reached}
    record = derivation.equations
    named = {str(s): e for s, e in record.equations.items()} | dict(record.observables)
    return reached - {name} | {target for target, e in named.items() if e in ends}


@pytest.mark.parametrize(("name", "label"), ENTRIES)
def test_a_flipped_sign_turns_the_audit_red(name, label):
    """Two steps of every derivation, drawn with a fixed seed; the slow test takes all."""
    derivation = derivation_of(name, label)
    every = flips(derivation, slow=False)
    for step, flipped in random.Random(f"{name} {label}").sample(every, min(2, len(every))):
        assert_red_at(derivation, step, flipped)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "label"), ENTRIES)
def test_every_flipped_sign_turns_the_audit_red(name, label):
    derivation = derivation_of(name, label)
    for step, flipped in flips(derivation, slow=True):
        assert_red_at(derivation, step, flipped)


# ----------------------------------------------------------------- records


def one_of_each() -> list[object]:
    """All entries; those that are a derivation of the list with other options are slow."""
    seen: set[str] = set()
    found = []
    for name, label in ENTRIES:
        plain = catalogue_name(name, label)
        found.append(pytest.param(name, label, marks=[pytest.mark.slow] * (plain in seen)))
        seen.add(plain)
    return found


@pytest.mark.parametrize(("name", "label"), one_of_each())
def test_compiled_numbers_have_the_known_values(name, label):
    record = derivation_of(name, label).equations
    if not record.limits:
        return
    program = compile_record(record, tuple(sorted({limit.observable for limit in record.limits})))
    for limit in record.limits:
        assert limit.reason.strip()
        values = dict.fromkeys(program.parameters, 1.0) | {
            k: float(sp.Rational(str(v))) for k, v in limit.values.items()
        }
        found = program.values(values)[limit.observable]
        assert abs(found - float(limit.expected)) <= limit.tolerance, limit.reason


@pytest.mark.parametrize(("name", "label"), ENTRIES)
def test_the_symbol_table_is_complete_and_the_latex_is_balanced(name, label):
    derivation = derivation_of(name, label)
    record = derivation.equations
    for row in record.symbols:
        assert row.latex.strip()
        assert row.meaning.strip()
        assert row.domain.strip()
    declared = {row.name for row in record.symbols}
    assert {*map(str, record.equations), *record.observables} <= declared
    tex = derivation.latex()
    assert_balanced(tex)
    labels = re.findall(r"\\label\{(.*?)\}", tex)
    assert len(set(labels)) == len(labels)
    assert set(re.findall(r"\\eqref\{(.*?)\}", tex)) <= set(labels)


@pytest.mark.parametrize("name", THEORIES)
def test_katex_and_pdflatex_read_the_whole_theory(name, tmp_path):
    tex = theory.latex(name)
    assert tex == theory.latex(name)
    assert_balanced(tex)
    items = mathematics(tex)
    assert len(items) > 10
    found = read_by_katex(items)
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == str(len(items))
    assert_compiles(tex, tmp_path, is_neat=name == "single_location")


# ----------------------------------------------------------------- mutations of records


def scaled(target: str):
    """The derivation with a target doubled, where its record has one of this name."""

    def change(derivation: Derivation) -> Derivation | Equations:
        record = derivation.equations
        names = {*map(str, record.equations), *record.observables}
        return record.scaled(target) if target in names else derivation

    return change


def targets_of(record: Equations) -> list[str]:
    """Equations and observables that are not zero."""
    named = {str(s): e for s, e in record.equations.items()} | dict(record.observables)
    return sorted(name for name, expression in named.items() if expression != 0)


#: doublings that compile for ten seconds or more
LONG_DOUBLINGS = ("single_location.off_manifold", "interpolation.attention", "interpolation.spectrum")


@cache
def true_number(reading: Reading) -> float:
    """The public number, which the true record stands for."""
    value = float(reading.call())
    record = derivations.get(reading.derivation, **reading.options).equations
    expected = reading.expected(record)
    assert expected is None or value == pytest.approx(expected, rel=1e-8)
    return value


def mutated_number(reading: Reading) -> float:
    try:
        return float(reading.call())
    except ConvergenceError:
        return float("nan")  # no number any more, and it says so


@pytest.mark.parametrize(
    ("name", "slow"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] * (case[1] or case[0] in LONG_DOUBLINGS))
        for case in sorted({(r.derivation, r.slow) for r in READINGS})
    ],
)
def test_doubling_a_result_changes_the_public_number_accordingly(name, slow):
    """Where some readings are slow, the fast test leaves out what only those read."""
    readings = [r for r in READINGS if r.derivation == name and (slow or not r.slow)]
    is_complete = slow or not any(r.slow for r in READINGS if r.derivation == name)
    records = [derivations.get(name, **r.options).equations for r in readings]
    for target in sorted({t for record in records for t in targets_of(record)}):
        if (name, target) not in READ_BY_NOTHING:
            followed = [follows(r, e, target) for r, e in zip(readings, records, strict=True)]
            assert any(followed) or not is_complete, f"no public number of {name} depends on {target}"


def follows(reading: Reading, record: Equations, target: str) -> bool:
    """Whether the number of a reading depends on a target; if so, it must be what the mutated record says."""
    if target not in targets_of(record) or (reading.follows is None and target not in reading.needs):
        return False
    before = true_number(reading)
    expected = reading.expected(record.scaled(target))
    if expected is not None and abs(expected - before) <= CHANGED * abs(before):
        return False
    with derivations.substituted(reading.derivation, scaled(target)):
        found = mutated_number(reading)
    if expected is None:
        assert found != pytest.approx(before, rel=CHANGED)
    else:
        assert found == pytest.approx(expected, rel=1e-8), target
    assert float(reading.call()) == before, "the substitution outlives its block"
    return True


def unread() -> list[str]:
    """Derivations of the catalogue that no reading covers: their theory's validation points have to."""
    return sorted(set(derivations.CATALOGUE) - {r.derivation for r in READINGS})


#: Records whose mutations take long to compile.
LONG = (
    "interpolation.hermite", "signal_recovery.finite_size", "signal_recovery.noise", "signal_recovery.stochastic",
    "signal_recovery.thresholds", "single_location.erm",
)  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in unread()])
def test_doubling_a_result_without_reading_changes_its_compiled_number(name):
    """Laws that no solver reads, and theories without readings."""
    for theory_name, label in ENTRIES:
        if catalogue_name(theory_name, label) != name:
            continue
        record = derivation_of(theory_name, label).equations
        for target in targets_of(record):
            assert_compiled_number_follows(record, target)


@pytest.mark.parametrize(("name", "target"), sorted(READ_BY_NOTHING))
def test_doubling_an_intermediate_result_changes_its_compiled_number(name, target):
    records = [derivation_of(*entry).equations for entry in ENTRIES if catalogue_name(*entry) == name]
    assert any(target in targets_of(record) for record in records)
    for record in records:
        if target in targets_of(record):
            assert_compiled_number_follows(record, target)


def assert_compiled_number_follows(record: Equations, target: str) -> None:
    """Some observable changes, and the compiled number is what brute force makes of the mutated record."""
    mutated = record.scaled(target)
    for point in some_points(record):
        for name in sorted(record.observables, key=lambda n: n != target):
            try:
                before = by_other_means(record.closed(record.observables[name]), point)
                after = by_other_means(mutated.closed(mutated.observables[name]), point)
            except (DerivationError, ValueError):
                continue  # outside the domain of this observable
            if abs(after - before) > CHANGED * abs(before):
                found = compile_record(mutated, (name,)).values(point)[name]
                assert found == pytest.approx(after, rel=1e-6)
                return
    raise AssertionError(f"no observable of {record.name} depends on {target}")


def by_other_means(expression: sp.Expr, point: dict[str, float]) -> float:
    """Brute force for averages; any precision for entries of matrices, which it does not know."""
    if expression.has(Entry, Determinant):
        return float(evaluate(expression, point, 20))
    return evaluate_tensor(expression, point)[0]


def some_points(record: Equations) -> list[dict[str, float]]:
    """Points that the assumptions of the parameters admit, drawn with a fixed seed."""
    draw = random.Random(record.name)
    return [
        {s.name: draw.randint(2, 4) if s.is_integer else draw.uniform(0.3, 1.5) for s in record.parameters}
        for _ in range(50)
    ]
