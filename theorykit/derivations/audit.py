"""Running the checks of a derivation.

A *proved* step is reduced to zero by the rewritings of :mod:`theorykit.derivations.reduction`, and evaluated
on both sides at seeded points as a guard against a wrong reduction. A *verified* step is evaluated on both
sides at its own points, each side by its own means. *Simulated* and *assumed* steps are listed, not run.

Nothing is swallowed: a check that cannot be carried out has failed, and its detail holds the error.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import mpmath
import sympy as sp
from sympy.core.function import AppliedUndef

from theorykit.derivations.evaluate import evaluate
from theorykit.derivations.ledger import Check, Claim, Derivation, Step
from theorykit.derivations.matrices import Determinant, Entry
from theorykit.derivations.nodes import DistinctSum, Expectation, Node, TokenExpectation
from theorykit.derivations.reduction import reduces_to_zero
from theorykit.derivations.tensor import evaluate_tensor, tensor_value
from theorykit.derivations.verdicts import AuditReport, AuditStatus, ClaimVerdict, DerivationAudit, StepResult
from theorykit.errors import ConvergenceError, DerivationError

__all__ = [
    "AuditReport",
    "AuditStatus",
    "ClaimVerdict",
    "DerivationAudit",
    "StepResult",
    "audit",
    "audit_all",
    "audit_step",
    "sign_flips",
]

OnStep = Callable[[str, int, int], None]
ClaimPairs = Sequence[tuple[Claim, Callable[[], ClaimVerdict]]]

_TENSOR_RULES = ("trapezoid", "legendre")
_PRECISE_RULES = {"mp-trapezoid": "trapezoid", "mp-quad": "quad"}
_DOUBLE_DIGITS = 15.95
_TINY = mpmath.mpf("1e-300")
_SANITY_POINTS = 3


def audit(derivation: Derivation, slow: bool = False, on_step: OnStep | None = None) -> DerivationAudit:
    """Check every step of a derivation, and its chain.

    Parameters
    ----------
    derivation : Derivation
    slow : bool
        Run the slow checks too; otherwise their status is "not run".
    on_step : callable, optional
        Called as ``on_step(name, index, total)`` before each step, ``index`` from 0.
    """
    if not isinstance(derivation, Derivation):
        raise TypeError(f"derivation must be a Derivation, got {derivation!r} ({type(derivation).__name__})")
    faults = derivation.faults()
    results = []
    for index, step in enumerate(derivation.steps):
        if on_step is not None:
            on_step(f"{derivation.name}: {step.name}", index, len(derivation.steps))
        if step.name in faults:
            broken = AuditStatus.BROKEN_CHAIN
            results.append(StepResult(step.name, step.check.kind, broken, faults[step.name]))
        else:
            results.append(audit_step(step, slow))
    return DerivationAudit(derivation.name, derivation.title, tuple(results), faults)


def audit_step(step: Step, slow: bool = False) -> StepResult:
    """Run the check of one step.

    Returns
    -------
    StepResult
        An error while checking is a failed check: its message is in ``detail``.
    """
    check = step.check
    if check.kind == "assumed":
        return StepResult(step.name, check.kind, AuditStatus.ASSUMED, check.reference)
    if check.kind == "simulated":
        detail = f"{check.reference} (run by validate)"
        return StepResult(step.name, check.kind, AuditStatus.SIMULATED, detail)
    if check.slow and not slow:
        return StepResult(step.name, check.kind, AuditStatus.NOT_RUN, "a slow check that was not asked for")
    checks = {"proved": _prove, "verified": _verify}
    if check.kind not in checks:
        return StepResult(step.name, check.kind, AuditStatus.FAILED, f"unknown kind of check {check.kind!r}")
    try:
        holds, detail, digits = checks[check.kind](step)
    except Exception as error:
        holds, detail, digits = False, f"the check raised {type(error).__name__}: {error}", None
    status = AuditStatus.PASSED if holds else AuditStatus.FAILED
    return StepResult(step.name, check.kind, status, detail, digits)


def audit_all(
    name: str,
    derivations: Mapping[str, Callable[[], Derivation]],
    claims: ClaimPairs = (),
    slow: bool = False,
    on_step: OnStep | None = None,
) -> AuditReport:
    """Audit several derivations, each made by calling its entry and reported under its key, and the claims.

    A derivation that cannot be made (its chain is broken) has failed; the report says why.
    """
    made, failed = _make_all(derivations)
    total = sum(len(d.steps) for d in made.values()) + len(claims)
    done = 0
    audits = []
    for key in derivations:
        if key in failed:
            audits.append(DerivationAudit(key, "", (), {"derivation": failed[key]}))
            continue
        start = done
        report = None if on_step is None else _shifted(on_step, start, total)
        audits.append(replace(audit(made[key], slow, report), name=key))
        done += len(made[key].steps)
    verdicts, faults = [], {}
    for claim, judge in claims:
        if on_step is not None:
            on_step(f"claim {claim.name}", done, total)
        done += 1
        try:
            verdicts.append(_judge(claim, judge))
        except Exception as error:
            faults[claim.name] = f"{type(error).__name__}: {error}"
    return AuditReport(name, tuple(audits), tuple(verdicts), faults)


def sign_flips(expression: sp.Expr) -> Iterator[sp.Expr]:
    """The expression with the sign of one top-level term flipped, for each term: an audit must notice."""
    terms = sp.Add.make_args(expression)
    for position in range(len(terms)):
        yield sp.Add(*[-t if i == position else t for i, t in enumerate(terms)])


def _make_all(
    derivations: Mapping[str, Callable[[], Derivation]],
) -> tuple[dict[str, Derivation], dict[str, str]]:
    made, failed = {}, {}
    for key, make in derivations.items():
        try:
            made[key] = make()
        except DerivationError as error:
            failed[key] = str(error)
    return made, failed


def _shifted(on_step: OnStep, start: int, total: int) -> OnStep:
    def report(name: str, index: int, _: int) -> None:
        on_step(name, start + index, total)

    return report


def _judge(claim: Claim, judge: Callable[[], ClaimVerdict]) -> ClaimVerdict:
    verdict = judge()
    if not isinstance(verdict, ClaimVerdict):
        raise TypeError(f"its evaluator must return a ClaimVerdict, got {type(verdict).__name__}")
    if (verdict.name, verdict.statement) != (claim.name, claim.statement):
        raise ValueError(f"its evaluator judged another claim: {verdict.name}: {verdict.statement}")
    return verdict


# --------------------------------------------------------------------------- proved


def _prove(step: Step) -> tuple[bool, str, float | None]:
    sanity = _compare_at_seeded_points(step)
    if sanity.refuted:
        return False, sanity.text, sanity.digits
    left, right = step.lhs, step.rhs
    if step.check.normal_form is not None:
        left, right = step.check.normal_form(left), step.check.normal_form(right)
    rewriting = "structural equality" if left == right else reduces_to_zero(left - right)
    if rewriting is None:
        return False, f"not reduced to zero by the bounded rewritings; {sanity.text}", sanity.digits
    return True, f"reduced to zero by {rewriting}; {sanity.text}", sanity.digits


@dataclass(frozen=True)
class _Sanity:
    """Outcome of the numerical comparison that guards a proof."""

    refuted: bool
    text: str
    digits: float | None = None


def _compare_at_seeded_points(step: Step) -> _Sanity:
    """Both sides at seeded points: refutes what is wrong, confirms what can be evaluated, or says why not."""
    both = sp.Tuple(step.lhs, step.rhs)
    symbols = sorted((s for s in both.free_symbols if isinstance(s, sp.Symbol)), key=lambda s: s.name)
    obstacle = _obstacle(both)
    if obstacle:
        return _Sanity(False, f"not compared numerically: {obstacle}")
    value = evaluate_tensor if _is_averaged(both) else _value_to_30_digits
    reached: list[float] = []
    trouble = "no seeded point where both sides are finite"
    for point in _seeded_points(step.name, symbols):
        try:
            (left, left_error), (right, right_error) = value(step.lhs, point), value(step.rhs, point)
        except (
            ConvergenceError,
            DerivationError,
            ArithmeticError,
            ValueError,
            TypeError,
            NameError,
        ) as error:
            trouble = f"{type(error).__name__}: {error}"
            continue  # perhaps outside the domain: another point is tried
        gap, size = abs(left - right), max(abs(left), abs(right))
        if gap > 1e-6 * size + 100 * (left_error + right_error):
            text = f"the sides differ at {_describe(point)}: {_show(left)} and {_show(right)}"
            return _Sanity(True, text, 0.0)
        if gap <= 1e-8 * size + 10 * (left_error + right_error):
            reached.append(_agreement(left, right, _DOUBLE_DIGITS if _is_averaged(both) else 30.0))
        if len(reached) == (_SANITY_POINTS if symbols else 1):
            break
    if not reached:
        return _Sanity(False, f"not compared numerically: {trouble}")
    count = f"{len(reached)} seeded point{'' if len(reached) == 1 else 's'}"
    return _Sanity(False, f"both sides agree to {min(reached):.1f} digits at {count}", min(reached))


def _is_averaged(both: sp.Basic) -> bool:
    """Whether there are nodes other than those of small matrices."""
    return any(not isinstance(n, Entry | Determinant) for n in both.atoms(Node))


def _obstacle(both: sp.Basic) -> str:
    """Why an expression cannot be evaluated cheaply; empty where it can."""
    abstract = sorted({a.func.__name__ for a in both.atoms(AppliedUndef)})
    if abstract:
        return f"the function {', '.join(abstract)} is abstract"
    if both.has(sp.Limit):
        return "a limit"
    loose = sorted(str(i) for i in both.free_symbols if isinstance(i, sp.Indexed | sp.IndexedBase))
    if loose:
        return f"{', '.join(loose)} stand outside an average"
    if any(_dimension(n) > 2 for n in both.atoms(Node)):
        return "an average of more than two dimensions"
    return ""


def _dimension(expression: sp.Basic) -> int:
    """Number of nested integrations."""
    inner = max((_dimension(a) for a in expression.args), default=0)
    if isinstance(expression, Expectation):
        return inner + len(expression.variables)
    if isinstance(expression, TokenExpectation):
        return inner + 2 * len(expression.families) + len(expression.shared)
    return inner + (isinstance(expression, Node) and not isinstance(expression, DistinctSum))


def _seeded_points(seed: str, symbols: list[sp.Symbol]) -> Iterator[dict[str, Any]]:
    """Points admitted by the assumptions of the symbols; the same in every process."""
    generator = random.Random(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big"))
    for _ in range(12):
        yield {s.name: _admissible(s, generator) for s in symbols}


def _admissible(symbol: sp.Symbol, generator: random.Random) -> int | float:
    if symbol.is_integer:
        return generator.randint(2, 4) * (-1 if symbol.is_negative else 1)
    size = generator.randint(16, 112) / 64
    if symbol.is_negative or (symbol.is_real and symbol.is_nonnegative is None and generator.random() < 0.5):
        return -size
    return size


def _value_to_30_digits(expression: sp.Expr, point: Mapping[str, Any]) -> tuple[Any, float]:
    value = evaluate(expression, point, 30)
    if not mpmath.isfinite(value):
        raise DerivationError(f"not finite at {_describe(point)}")
    return value, 1e-25 * float(abs(value))


# --------------------------------------------------------------------------- verified


def _verify(step: Step) -> tuple[bool, str, float | None]:
    check = step.check
    reached: list[tuple[float, str]] = []
    for point in check.points:
        left, right = (_concrete(side, check, point) for side in (step.lhs, step.rhs))
        left_value = _by_rule(left, point, check.left_rule, check.digits)
        right_value = _by_rule(right, point, check.right_rule, check.digits)
        if not (mpmath.isfinite(left_value) and mpmath.isfinite(right_value)):
            return False, f"not finite at {_describe(point)}: {left_value} and {right_value}", None
        double = check.left_rule in _TENSOR_RULES or check.right_rule in _TENSOR_RULES
        with mpmath.workdps(check.digits + 10):
            digits = _agreement(left_value, right_value, _DOUBLE_DIGITS if double else check.digits + 3.0)
        reached.append((digits, f"{_show(left_value)} and {_show(right_value)} at {_describe(point)}"))
    digits, where = min(reached)
    means = f"{check.left_rule} against {check.right_rule}"
    if digits < check.digits:
        return False, f"only {max(digits, 0.0):.1f} of {check.digits} digits ({means}): {where}", digits
    count = f"{len(reached)} point{'' if len(reached) == 1 else 's'}"
    return True, f"{digits:.1f} digits, {check.digits} asked for ({means}) at {count}", digits


def _concrete(side: sp.Expr, check: Check, point: Mapping[str, Any]) -> sp.Expr:
    if check.concrete is None:
        return side
    lengths = [value for name, value in point.items() if str(name) in ("L", "length")]
    if not lengths:
        raise DerivationError(
            f"the point {_describe(point)} gives no length L, needed to make the step concrete"
        )
    return check.concrete(side, int(lengths[0]))


def _by_rule(side: sp.Expr, point: Mapping[str, Any], rule: str, digits: int) -> mpmath.mpf:
    if rule in _TENSOR_RULES:
        return mpmath.mpf(tensor_value(side, {k: _as_float(v) for k, v in point.items()}, rule))
    if rule in _PRECISE_RULES:
        return evaluate(side, point, digits + 3, _PRECISE_RULES[rule])
    known = ", ".join([*_TENSOR_RULES, *_PRECISE_RULES])
    raise DerivationError(f"there is no rule {rule!r}; the rules are {known}")


def _as_float(value: Any) -> float:
    return float(Fraction(value)) if isinstance(value, str) else float(value)


def _agreement(left: Any, right: Any, most: float) -> float:
    """Digits to which two numbers agree, at most ``most``: relative, absolute where both are below 1e-300."""
    gap, size = mpmath.mpf(abs(left - right)), mpmath.mpf(max(abs(left), abs(right)))
    if gap == 0:
        return most
    return min(most, float(-mpmath.log10(gap if size < _TINY else gap / size)))


def _show(value: Any) -> str:
    return mpmath.nstr(value, 15) if isinstance(value, mpmath.mpf | mpmath.mpc) else f"{value:.15g}"


def _describe(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in point.items()) or "the only point"
