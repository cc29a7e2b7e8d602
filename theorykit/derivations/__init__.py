"""The mathematics as data: derivations that are checked step by step, and the records they end in.

``CATALOGUE`` maps the name of a derivation to the function that makes it; nothing is derived, and SymPy is
not imported, before :func:`get` asks for one. The package can be called: ``theorykit.derivations()`` lists
the names.

============= ===================================================================
module        what it holds
============= ===================================================================
ledger        the data model: Derivation, Step, Check, Equations, Claim
chain         several results derived side by side, with their premises
nodes         the expression language: averages, half-line integrals, token sums
special       functions SymPy does not have: the normal law, Owen's T
matrices      small dense matrices in expressions: entries, inverses, determinants
gaussian      Wick, Stein, exponential tilt
laplace       averages of normalized weights factorize over tokens
hermite       Hermite coefficients and second moments of a function of one variable
overlaps      gradient flow of vectors as a flow of their overlaps
proximal      the least value of a loss plus a penalty (Moreau envelope, proximal point)
problem       declared empirical risk minimizations and their replica-symmetric action
replica       the saddle point of such a problem
dyson         rational expressions in random matrices: pencils, Dyson equations
evaluate      numbers for expressions at any precision, by means of their own
certified     the same with digits that two independent runs agree on
lines         integrals over the line by the trapezoid rule, their error judged from three steps
translation   inner integrands that move with the outer variable as a whole
convolution   such integrals from tables of their factors
kinks         where an integrand is not smooth
tensor        the same by brute force in double precision, averages over tokens too
reduction     whether an expression is zero, by bounded rewritings
audit         runs the check of every step
verdicts      what an audit found, as records
============= ===================================================================

One folder per theory holds its derivations.
"""

from __future__ import annotations

import importlib
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

# The folder is also reachable through a link named `derivations` at the top of the repository. Imported
# through it, every class would exist twice under different names, so that import is refused.
if not __name__.startswith("theorykit."):
    raise ImportError("import theorykit.derivations")

if TYPE_CHECKING:
    from theorykit.derivations.ledger import Derivation, Equations

__all__ = ["CATALOGUE", "get", "is_substituted", "names", "substituted"]

#: Name of a derivation -> "module:function" that derives it.
CATALOGUE: dict[str, str] = {
    f"single_location.{name}": f"theorykit.derivations.single_location.{module}:{function}"
    for name, module, function in (
        ("bayes_risk", "bayes", "derive_bayes_risk"),
        ("risk", "risk", "derive_risk"),
        ("normalized_moments", "moments", "derive_normalized_moments"),
        ("elementwise_moments", "moments", "derive_elementwise_moments"),
        ("hidden_field", "hidden_field", "derive_hidden_field"),
        ("linear", "linear", "derive_linear"),
        ("erf", "erf", "derive_erf"),
        ("best_elementwise", "best_elementwise", "derive_best_elementwise"),
        ("asymptotics", "asymptotics", "derive_asymptotics"),
        ("off_manifold", "off_manifold", "derive_off_manifold"),
        ("erm", "erm", "derive_erm"),
        ("erm_fixed", "erm_fixed", "derive_erm_fixed"),
        ("erm_linear", "erm_linear", "derive_erm_linear"),
        ("erm_newton", "erm_newton", "derive_erm_newton"),
    )
} | {"interpolation.hermite": "theorykit.derivations.hermite:derive_hermite"}
CATALOGUE |= {
    f"signal_recovery.{name}": f"theorykit.derivations.signal_recovery.{module}:{function}"
    for name, module, function in (
        ("reduction", "reduction", "derive_reduction"),
        ("limit", "limit", "derive_limit"),
        ("fixed_points", "fixed_points", "derive_fixed_points"),
        ("thresholds", "thresholds", "derive_thresholds"),
        ("global_maximum", "thresholds", "derive_global_maximum"),
        ("escape", "escape", "derive_escape"),
        ("finite_size", "finite_size", "derive_finite_size"),
        ("noise", "noise", "derive_noise"),
        ("stochastic", "stochastic", "derive_stochastic"),
        ("linear_laws", "stochastic", "derive_linear_laws"),
        ("kernel", "kernels", "derive_kernel"),
        ("interpolated_flow", "kernels", "derive_interpolated_flow"),
    )
}
CATALOGUE |= {
    f"interpolation.{name}": f"theorykit.derivations.interpolation.{module}:{function}"
    for name, module, function in (
        ("normalization", "normalization", "derive_normalization"),
        ("linearization", "linearization", "derive_linearization"),
        ("attention", "attention", "derive_attention"),
        ("spectrum", "spectrum", "derive_spectrum"),
        ("linear_regression", "linear_regression", "derive_linear_regression"),
        ("reductions", "reductions", "derive_reductions"),
        ("structure", "structure", "derive_structure"),
        ("softmax", "softmax", "derive_softmax"),
        ("centering", "centering", "derive_centering"),
        ("linear_attention", "linear_attention", "derive_linear_attention"),
    )
}

_lock = threading.Lock()
_replacements: dict[str, list[tuple[object, Any]]] = {}


def names() -> tuple[str, ...]:
    """Names of all derivations, sorted."""
    return tuple(sorted(CATALOGUE))


def get(name: str, **options: Any) -> Derivation:
    """The derivation called ``name``; made at the first request, kept afterwards.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    **options
        Hashable options of the deriving function (an activation, a task).

    Raises
    ------
    DerivationError
        No derivation has this name.
    TypeError
        ``name`` is no text, or an option is unknown or not hashable.
    """
    _require_known(name)
    for option, value in options.items():
        try:
            hash(value)
        except TypeError:
            raise TypeError(f"option {option} of {name} must be hashable, got {value!r}") from None
    replacements = _replacements.get(name)
    if replacements:
        return _replaced(name, options, replacements[-1][1])
    return _derive(CATALOGUE[name], _key(options))


@contextmanager
def substituted(
    name: str, replacement: Derivation | Equations | Callable[[Derivation], Derivation | Equations]
) -> Iterator[None]:
    """Inside the block, ``get(name)`` returns something else, whatever its options: for mutation tests.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    replacement : Derivation, Equations, or function of the true derivation returning one of them
        An ``Equations`` record takes the place of the record of the true derivation, whose steps are kept and
        not checked against it.

    Blocks may be nested; the innermost one counts. The substitution holds in all threads of the process.
    """
    from theorykit.derivations.ledger import Derivation, Equations

    _require_known(name)
    if not (isinstance(replacement, Derivation | Equations) or callable(replacement)):
        raise TypeError(
            f"the replacement of {name} must be a Derivation, an Equations record or a function, "
            f"got {replacement!r}"
        )
    token = object()
    with _lock:
        _replacements.setdefault(name, []).append((token, replacement))
    try:
        yield
    finally:
        with _lock:
            kept = [entry for entry in _replacements[name] if entry[0] is not token]
            _replacements[name] = kept
            if not kept:
                del _replacements[name]


def is_substituted(name: str) -> bool:
    """Whether a block of :func:`substituted` for ``name`` is active: results must not be cached then."""
    _require_known(name)
    return name in _replacements


def _key(options: dict[str, Any]) -> tuple[tuple[str, type, Any], ...]:
    """Options as a key of the cache; the type belongs to it, because True == 1 == 1.0."""
    return tuple((option, type(options[option]), options[option]) for option in sorted(options))


@lru_cache(maxsize=512)
def _derive(target: str, options: tuple[tuple[str, type, Any], ...]) -> Derivation:
    from theorykit.derivations.ledger import Derivation

    module, function = target.split(":")
    derive = getattr(importlib.import_module(module), function)
    _require_options(target, derive, [option for option, _, _ in options])
    derivation = derive(**{option: value for option, _, value in options})
    if not isinstance(derivation, Derivation):
        raise TypeError(f"{target} must return a Derivation, got {type(derivation).__name__}")
    return derivation


def _require_options(target: str, derive: Callable[..., Derivation], given: list[str]) -> None:
    import difflib
    import inspect

    known = inspect.signature(derive).parameters
    if any(p.kind is p.VAR_KEYWORD for p in known.values()):
        return
    for option in given:
        if option not in known:
            (name,) = [n for n, entry in CATALOGUE.items() if entry == target][:1]
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"options: {', '.join(known) or 'none'}"
            raise TypeError(f"derivation {name} has no option {option!r}; {hint}")


def _replaced(name: str, options: dict[str, Any], replacement: Any) -> Derivation:
    from theorykit.derivations.ledger import Derivation, Equations

    if isinstance(replacement, Derivation):
        return replacement
    original = _derive(CATALOGUE[name], _key(options))
    if not isinstance(replacement, Equations):
        replacement = replacement(original)
    if isinstance(replacement, Derivation):
        return replacement
    if not isinstance(replacement, Equations):
        raise TypeError(f"the replacement of {name} must make a Derivation or Equations, got {replacement!r}")
    copy = object.__new__(Derivation)
    copy.__dict__.update({**original.__dict__, "equations": replacement})
    return copy


def _require_known(name: str) -> None:
    from theorykit.errors import DerivationError

    if not isinstance(name, str):
        raise TypeError(f"the name of a derivation must be a str, got {name!r} ({type(name).__name__})")
    if name not in CATALOGUE:
        import difflib

        near = difflib.get_close_matches(name, CATALOGUE, n=3, cutoff=0.5)
        known = f"known: {', '.join(names()) or 'none'}"
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else known
        raise DerivationError(f"no derivation is called {name!r}; {hint}")


class _Package(types.ModuleType):
    """A module that can be called: ``theorykit.derivations()`` lists the names of the derivations."""

    def __call__(self) -> tuple[str, ...]:
        return names()


sys.modules[__name__].__class__ = _Package
