"""A theory as a record: what ``tk.audit``, ``tk.latex`` and ``tk.validate`` accept beside a name.

A theory that is declared in a user's own file is audited, solved, validated and exported like the ones that
ship with the package: nothing here knows which theories there are, except the table of names.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theorykit.derivations.audit import AuditReport, ClaimVerdict
    from theorykit.derivations.ledger import Claim, Derivation, Equations

__all__ = [
    "Prediction", "Theory", "ValidationPoint", "audit", "derivation", "latex", "resolve", "theories",
]  # fmt: skip

#: Name of a theory -> module that defines its record ``THEORY``.
_MODULES = {
    "interpolation": "theorykit.interpolation.theory",
    "signal_recovery": "theorykit.signal_recovery.theory",
    "single_location": "theorykit.single_location.theory",
}
_ABBREVIATIONS = {"ip": "interpolation", "slr": "single_location", "sr": "signal_recovery"}


@dataclass(frozen=True)
class Prediction:
    """Numbers of a theory at one point, where the theory itself says that it may not hold there.

    Parameters
    ----------
    values : mapping of str to value
        As ``ValidationPoint.theory`` returns it.
    doubt : str
        Why theory and simulation need not agree: then the difference is shown and not judged. Empty: no doubt.
    """

    values: Mapping[str, float] = field(hash=False)
    doubt: str = ""


@dataclass(frozen=True)
class ValidationPoint:
    """One parameter point at which a theory is set beside a simulation of the model itself.

    Parameters
    ----------
    parameters : mapping of str to value
        What is shown in the table; equal parameters count as one simulation.
    theory : callable
        ``theory()`` returns the predicted numbers by name, each with its error where it has one; or a
        :class:`Prediction`, which may express a doubt.
    simulate : callable
        ``simulate(trials, seed)`` returns estimates with standard errors under (at least) the same names.
    trials : int
        Samples that are enough.
    """

    parameters: Mapping[str, Any] = field(hash=False)
    theory: Callable[[], Mapping[str, float] | Prediction]
    simulate: Callable[[int, Any], Mapping[str, Any]]
    trials: int = 100_000


@dataclass(frozen=True)
class Theory:
    """A solvable model: its derivations, solvers, simulators, claims, and where it is validated.

    Parameters
    ----------
    name, title : str
    derivations : mapping of str to callable
        Each call makes one :class:`~theorykit.derivations.ledger.Derivation`.
    claims : sequence of (Claim, callable returning its ClaimVerdict), or a callable returning that sequence
        Statements of papers; the verdicts are computed when the theory is audited.
    solver, simulate : mapping of str to callable
        What computes numbers and what samples the model itself, by name of the quantity.
    validation_points : tuple of ValidationPoint
        Where theory and simulation are set side by side, fixed beforehand.
    studies : mapping of str to callable
        Longer lists of such points: each call makes a tuple of :class:`ValidationPoint`.
    """

    name: str
    title: str
    derivations: Mapping[str, Callable[[], Derivation]] = field(hash=False)
    claims: Any = ()
    solver: Mapping[str, Callable[..., Any]] = field(default_factory=dict, hash=False)
    simulate: Mapping[str, Callable[..., Any]] = field(default_factory=dict, hash=False)
    validation_points: tuple[ValidationPoint, ...] = field(default=(), hash=False)
    studies: Mapping[str, Callable[[], tuple[ValidationPoint, ...]]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for label in ("name", "title"):
            value = getattr(self, label)
            if not isinstance(value, str) or not value:
                raise TypeError(f"{label} of a theory must be a non-empty str, got {value!r}")
        for label in ("derivations", "solver", "simulate", "studies"):
            object.__setattr__(self, label, _checked(label, getattr(self, label)))
        if not callable(self.claims):
            object.__setattr__(self, "claims", tuple(self.claims))
        object.__setattr__(self, "validation_points", tuple(self.validation_points))
        for point in self.validation_points:
            if not isinstance(point, ValidationPoint):
                raise TypeError(
                    f"validation_points of theory {self.name} must be ValidationPoint, got {point!r}"
                )

    def claim_pairs(self) -> tuple[tuple[Claim, Callable[[], ClaimVerdict]], ...]:
        """The claims, each with the function that computes its verdict."""
        return tuple(self.claims() if callable(self.claims) else self.claims)

    def equations(self) -> dict[str, Equations]:
        """The records in which the derivations end, by name of the derivation."""
        return {name: make().equations for name, make in self.derivations.items()}


def _checked(label: str, table: Any) -> dict[str, Callable[..., Any]]:
    if not isinstance(table, Mapping):
        raise TypeError(f"{label} of a theory must be a mapping of names to callables, got {table!r}")
    for name, entry in table.items():
        if not isinstance(name, str) or not callable(entry):
            raise TypeError(f"{label} of a theory must map names to callables, got {name!r}: {entry!r}")
    return dict(table)


def theories() -> tuple[str, ...]:
    """Names of the theories of the package."""
    return tuple(sorted(_MODULES))


def resolve(name: str) -> Theory:
    """The theory called ``name``; "single-location" and abbreviations ("slr") are understood.

    Raises
    ------
    TypeError
        ``name`` is no text.
    ValueError
        No theory has this name; the message lists those there are.
    """
    if not isinstance(name, str):
        raise TypeError(f"theory must be a name or a Theory, got {name!r} ({type(name).__name__})")
    plain = name.strip().lower().replace("-", "_")
    plain = _ABBREVIATIONS.get(plain, plain)
    if plain not in _MODULES:
        abbreviations = {full: short for short, full in _ABBREVIATIONS.items()}
        known = ", ".join(f"{n} ({abbreviations[n]})" if n in abbreviations else n for n in theories())
        raise ValueError(f"theory must be one of {known}, got {name!r}")
    theory: Theory = importlib.import_module(_MODULES[plain]).THEORY
    return theory


def derivation(name: str, **options: Any) -> Derivation:
    """The derivation called ``name`` (``theorykit.derivations()`` lists the names).

    Parameters
    ----------
    name : str
    **options
        Hashable options of the deriving function, such as ``task="max"``.

    Returns
    -------
    Derivation
        ``.steps``, ``.equations``, ``.latex()`` and ``.code()``.

    Raises
    ------
    DerivationError
        No derivation has this name.
    TypeError
        ``name`` is no text, or an option is unknown or not hashable.
    """
    from theorykit.derivations import get

    return get(name, **options)


def audit(
    subject: Theory | str | Derivation,
    slow: bool = False,
    on_step: Callable[[str, int, int], None] | None = None,
) -> AuditReport:
    """Check every step of every derivation of a theory, and judge its claims.

    Parameters
    ----------
    subject : Theory, Derivation, or the name of one
    slow : bool
        Run slow checks too; otherwise they read "not run" and the report is not complete.
    on_step : callable, optional
        Called as ``on_step(name, index, total)`` before each step and claim.

    Returns
    -------
    AuditReport
        ``.ok``: nothing failed; ``.complete``: nothing was left unrun; prints as a table.

    Raises
    ------
    TypeError, ValueError, DerivationError
        ``subject`` is none of these, or no theory or derivation has this name.
    """
    from theorykit.derivations.audit import audit_all

    found = _find(subject)
    if isinstance(found, Theory):
        return audit_all(found.name, found.derivations, found.claim_pairs(), slow, on_step)
    return audit_all(found.name, {found.name: lambda: found}, (), slow, on_step)


def latex(subject: Theory | str | Derivation | Equations, fragment: bool = False) -> str:
    """A theory, derivation or record of equations as LaTeX.

    Parameters
    ----------
    subject : Theory, Derivation, Equations, or the name of a theory or derivation
    fragment : bool
        False: a document that compiles alone. True: what stands between ``\\begin{document}`` and
        ``\\end{document}``, for ``\\input`` (it needs amsmath and amssymb).

    Returns
    -------
    str

    Raises
    ------
    TypeError, ValueError, DerivationError
        ``subject`` is none of these, or no theory or derivation has this name.
    """
    from theorykit.derivations.ledger import Equations
    from theorykit.latex import document, fragment_of

    found = subject if isinstance(subject, Equations) else _find(subject)
    return fragment_of(found) if fragment else document(found)


def _find(subject: Any) -> Any:
    """The theory or derivation that a record or a name stands for."""
    from theorykit import derivations
    from theorykit.derivations.ledger import Derivation

    if isinstance(subject, Theory | Derivation):
        return subject
    if isinstance(subject, str) and subject in derivations.CATALOGUE:
        return derivations.get(subject)
    if isinstance(subject, str) and "." in subject:
        return derivations.get(subject)  # raises, with near names
    return resolve(subject)
