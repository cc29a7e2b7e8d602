"""The audit data model: a derivation is a chain of checked steps that ends in a record of equations.

==============  ====================================================================================
class           what it holds
==============  ====================================================================================
Definition      a symbol of the model and what it stands for
Step            left side -> right side, the premises, the reason, the check
Check           how a step is checked: proved, verified, simulated or assumed
Derivation      definitions, steps and the final :class:`Equations`; refuses a broken chain
Equations       symbol table, equations, observables, limits: all that is read downstream
Claim           a statement of a paper; its verdict is computed elsewhere, never typed
==============  ====================================================================================

The chain rule: the left side of a step is structurally the right side of a premise or of a definition, and
every equation of the record is the right side of a final step that started from the definition of its symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import sympy as sp

from theorykit.errors import DerivationError

__all__ = [
    "Check",
    "Claim",
    "Definition",
    "Derivation",
    "Equations",
    "Limit",
    "Quantity",
    "Step",
    "assumed",
    "proved",
    "simulated",
    "verified",
]


@dataclass(frozen=True)
class Quantity:
    """One row of a symbol table: ascii name, LaTeX, meaning, domain and scaling of a symbol."""

    symbol: sp.Symbol
    latex: str
    meaning: str
    domain: str = "real"
    scaling: str = "O(1)"

    @property
    def name(self) -> str:
        return self.symbol.name


@dataclass(frozen=True)
class Check:
    """How a step is checked. Made by :func:`proved`, :func:`verified`, :func:`simulated`, :func:`assumed`.

    ``points`` are the parameter points of a verified step; ``digits`` what both sides must agree to;
    ``concrete`` replaces abstract parts (a general weight) on both sides before they are evaluated;
    ``left_rule``/``right_rule`` name the means: "trapezoid", "legendre" (brute force in double precision)
    or "mp-trapezoid", "mp-quad" (mpmath).
    """

    kind: str
    digits: int = 0
    points: tuple[Mapping[str, Any], ...] = ()
    concrete: Callable[[sp.Expr, int], sp.Expr] | None = None
    left_rule: str = ""
    right_rule: str = ""
    normal_form: Callable[[sp.Expr], sp.Expr] | None = None
    reference: str = ""
    slow: bool = False


def proved(normal_form: Callable[[sp.Expr], sp.Expr] | None = None) -> Check:
    """SymPy reduces the difference of both sides to zero, after ``normal_form`` where one is given."""
    return Check("proved", normal_form=normal_form)


def verified(
    *points: Mapping[str, Any],
    digits: int = 10,
    left: str = "trapezoid",
    right: str = "legendre",
    concrete: Callable[[sp.Expr, int], sp.Expr] | None = None,
    slow: bool = False,
) -> Check:
    """Both sides agree to ``digits`` digits at the points, each computed by its own means."""
    if not points:
        raise DerivationError("a verified step needs at least one point")
    if left == right:
        raise DerivationError(f"the two sides of a verified step need different means, both are {left!r}")
    return Check("verified", digits, points, concrete, left, right, slow=slow)


def simulated(reference: str) -> Check:
    """Confirmed by Monte Carlo, run by ``theorykit.validation``; ``reference`` names the comparison."""
    return Check("simulated", reference=reference)


def assumed(reference: str) -> Check:
    """Not proved here; ``reference`` says where the literature proves or uses it."""
    return Check("assumed", reference=reference)


@dataclass(frozen=True)
class Definition:
    """What a symbol of the model stands for."""

    symbol: sp.Expr
    expression: sp.Expr
    meaning: str

    @property
    def name(self) -> str:
        return f"definition of {self.symbol}"


@dataclass(frozen=True)
class Step:
    """One line of a proof: ``lhs = rhs`` for a reason.

    ``premises`` names the steps and defined symbols it uses; the first whose right side is ``lhs`` carries the
    chain. ``assumptions`` are conditions in words.
    """

    name: str
    lhs: sp.Expr
    rhs: sp.Expr
    premises: tuple[str, ...]
    reason: str
    check: Check
    assumptions: tuple[str, ...] = ()

    @property
    def statement(self) -> sp.Eq:
        return sp.Eq(self.lhs, self.rhs, evaluate=False)


@dataclass(frozen=True)
class Limit:
    """A known value of an observable: what contract tests compare the compiled number with."""

    observable: str
    values: Mapping[str, Any]
    expected: sp.Expr
    reason: str
    tolerance: float = 1e-10


@dataclass(frozen=True)
class Claim:
    """A statement of a paper. The verdict is computed by the evaluator registered under ``name``."""

    name: str
    statement: str
    source: str


@dataclass(frozen=True)
class Equations:
    """The model as everything downstream reads it.

    ``equations`` maps a symbol to its expression, ``observables`` a name to an expression in parameters and
    symbols of ``equations``. ``breakpoints`` gives, for a bound variable, where integrands are not smooth.
    """

    name: str
    symbols: tuple[Quantity, ...]
    equations: Mapping[sp.Symbol, sp.Expr]
    observables: Mapping[str, sp.Expr]
    limits: tuple[Limit, ...] = ()
    breakpoints: Mapping[sp.Symbol, tuple[sp.Expr, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        declared = {q.symbol for q in self.symbols}
        if len({q.latex for q in self.symbols}) != len(self.symbols):
            raise DerivationError(f"two symbols of {self.name} print alike in LaTeX")
        where = [(str(s), e) for s, e in self.equations.items()] + list(self.observables.items())
        for target, expression in where:
            for symbol in sorted(expression.free_symbols, key=str):
                if symbol not in declared and symbol not in self.equations:
                    raise DerivationError(_undeclared(self.name, target, symbol, declared))

    @property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """Free symbols of the closed observables, by name: the arguments of the compiled record."""
        free: set[sp.Symbol] = set()
        for expression in [*self.observables.values(), *self.equations.values()]:
            free |= expression.free_symbols
        return tuple(sorted(free - set(self.equations), key=lambda s: s.name))

    def closed(self, expression: sp.Expr) -> sp.Expr:
        """The expression with every symbol of ``equations`` replaced by what it stands for."""
        for _ in range(len(self.equations) + 1):
            inside = expression.free_symbols & set(self.equations)
            if not inside:
                return expression
            expression = expression.xreplace({s: self.equations[s] for s in inside})
        raise DerivationError(f"the equations of {self.name} refer to each other in a circle")

    def evaluate(self, values: Mapping[str, Any], digits: int = 40) -> dict[str, Any]:
        """All observables at ``values`` with mpmath, to ``digits`` digits that two independent runs agree on.

        Parameters
        ----------
        values : mapping
            Name of a parameter -> number; text such as "1/3" is read at the precision of the evaluation.
        digits : int
            Digits of the results, 1 or more.

        Returns
        -------
        dict
            Name of an observable -> mpmath number.

        Raises
        ------
        ConvergenceError
            Fewer digits than asked for can be vouched for.
        DerivationError
            A parameter has no value, or a node has no evaluation at this precision.
        ValueError
            A value is no real number, or lies outside the domain of its parameter.
        """
        from theorykit.derivations.certified import evaluate_certified

        given = {str(name): value for name, value in values.items()}
        for quantity in self.symbols:
            if quantity.name in given:
                _require_in_domain(quantity, given[quantity.name])
        closed = {name: self.closed(expression) for name, expression in self.observables.items()}
        return {name: c.value for name, c in evaluate_certified(closed, values, digits).items()}

    def scaled(self, target: str, factor: int = 2) -> Equations:
        """The record with one equation or observable multiplied: what mutation tests start from."""
        equations = {s: factor * e if s.name == target else e for s, e in self.equations.items()}
        observables = {n: factor * e if n == target else e for n, e in self.observables.items()}
        if equations == dict(self.equations) and observables == dict(self.observables):
            raise DerivationError(f"{self.name} has no equation or observable {target!r}")
        return replace(self, equations=equations, observables=observables)


def _require_in_domain(quantity: Quantity, value: Any) -> None:
    """Refuse what the assumptions of the symbol exclude; other values than numbers are refused as well."""
    import mpmath

    from theorykit.derivations.skeleton import mp_number

    refused = f"{quantity.name} must be a number in its domain, {quantity.domain}, got {value!r}"
    try:
        number = mp_number(value)
    except (TypeError, ValueError, ZeroDivisionError):
        raise ValueError(refused) from None
    symbol = quantity.symbol
    if (
        mpmath.isnan(number)
        or (symbol.is_integer and not mpmath.isint(number))
        or (symbol.is_positive and number <= 0)
        or (symbol.is_nonnegative and number < 0)
    ):
        raise ValueError(refused)


def _undeclared(record: str, target: str, symbol: sp.Symbol, declared: set[sp.Symbol]) -> str:
    import difflib

    near = difflib.get_close_matches(symbol.name, [s.name for s in declared], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"equation for {target} uses {symbol.name!r}, which is not declared in {record}{hint}"


@dataclass(frozen=True)
class Derivation:
    """A chain of steps from the definitions of a model to its equations.

    Raises
    ------
    DerivationError
        the chain is broken: a left side that no premise provides, a premise that does not exist, or an
        equation of the record that no step derives.
    """

    name: str
    title: str
    source: str
    definitions: tuple[Definition, ...]
    steps: tuple[Step, ...]
    equations: Equations
    notes: str = ""

    def __post_init__(self) -> None:
        faults = self.faults()
        if faults:
            raise DerivationError(f"derivation {self.name}: " + "; ".join(faults.values()))

    def faults(self) -> dict[str, str]:
        """Breaks of the chain rule: name of the step or equation -> what is wrong."""
        rights: dict[str, sp.Expr] = {str(d.symbol): d.expression for d in self.definitions}
        found: dict[str, str] = {}
        for step in self.steps:
            if step.name in rights:
                found[step.name] = f"two steps or definitions are called {step.name!r}"
            missing = [p for p in step.premises if p not in rights]
            if missing:
                found[step.name] = f"step {step.name!r} names unknown premises {missing}"
            elif not any(rights[p] == step.lhs for p in step.premises):
                found[step.name] = (
                    f"the left side of step {step.name!r} is not the right side of any of {step.premises}"
                )
            if step.lhs == step.rhs and step.check.kind in ("proved", "verified"):
                found.setdefault(step.name, f"step {step.name!r} has the same expression on both sides")
            rights[step.name] = step.rhs
        for symbol, expression in self.equations.equations.items():
            if not self._derives(str(symbol), expression):
                found[str(symbol)] = (
                    f"no chain of steps leads from the definition of {symbol} to its equation"
                )
        for name, expression in self.equations.observables.items():
            if not self._derives(name, expression):
                found[name] = f"no chain of steps leads from the definition of {name} to the observable"
        return found

    def _derives(self, target: str, expression: sp.Expr) -> bool:
        return any(step.rhs == expression and self.root(step.name) == target for step in self.steps)

    def root(self, name: str) -> str | None:
        """The definition at which the chain that ends in a step begins."""
        rights = {str(d.symbol): d.expression for d in self.definitions}
        steps = {s.name: s for s in self.steps}
        for _ in range(len(self.steps) + 1):
            if name in rights:
                return name
            step = steps.get(name)
            if step is None:
                return None
            carriers = [p for p in step.premises if (rights[p] if p in rights else steps[p].rhs) == step.lhs]
            if not carriers:
                return None
            name = carriers[0]
        return None

    def with_step(self, name: str, rhs: sp.Expr) -> Derivation:
        """The same derivation with another right side at one step, unchecked: for mutation tests."""
        steps = tuple(replace(s, rhs=rhs) if s.name == name else s for s in self.steps)
        if steps == self.steps:
            raise DerivationError(f"{self.name} has no step {name!r} to change")
        copy = object.__new__(Derivation)
        for key, value in {**self.__dict__, "steps": steps}.items():
            object.__setattr__(copy, key, value)
        return copy

    def latex(self) -> str:
        """The derivation as LaTeX, ready for ``\\input``."""
        from theorykit.latex import derivation_latex

        return derivation_latex(self)

    def code(self) -> str:
        """The source of the Numba module that is generated from the equations."""
        from theorykit.codegen import source_of

        return source_of(self.equations)

    def _repr_latex_(self) -> str:
        from theorykit.latex import equations_latex

        return equations_latex(self.equations)
