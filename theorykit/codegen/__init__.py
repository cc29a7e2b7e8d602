"""From a derived record to machine code, one call per stage.

============  ==========================================  ============================================
stage         input -> output                             module
============  ==========================================  ============================================
rewrite       expression -> stable expression             ``rewrite``
lower         ``Equations`` -> ``Plan``                   ``lower``
emit          ``Plan`` -> module source                   ``emit`` (``wellposed``, ``body``, ``printer``)
store         source -> file named by its hash            ``cache``
load          file -> ``Program``                         ``program``
loops         ``Equations`` -> ``Flow``, ``Roots``        ``loops``, ``flow``, ``roots``
============  ==========================================  ============================================

Records of matrix fixed points (``FixedPoint``) take a shorter way: ``matrices`` writes NumPy source over batches of
small dense matrices, and ``fixed_point`` drives it.

``compile_record`` runs them all; ``load`` asks the index first, so that a warm process neither derives nor
compiles and never imports SymPy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from theorykit.codegen import cache
from theorykit.errors import CacheError

if TYPE_CHECKING:
    from theorykit.codegen.flow import Flow
    from theorykit.codegen.program import Program
    from theorykit.codegen.roots import Roots
    from theorykit.derivations.ledger import Equations

__all__ = [
    "compile_record",
    "load",
    "load_flow",
    "load_module",
    "load_proximal",
    "load_roots",
    "load_source",
    "source_of",
    "status",
]

_loaded: dict[str, Program] = {}
_answers: dict[str, str] = {}
_counts = {"derived": 0, "modules": 0}
_lock = threading.RLock()


def source_of(record: Equations, observables: tuple[str, ...] | None = None) -> str:
    """The source of the module that is generated from a record."""
    from theorykit.codegen.emit import emit
    from theorykit.codegen.lower import lower
    from theorykit.derivations.fixed_point import FixedPoint

    if isinstance(record, FixedPoint):
        from theorykit.codegen.matrices import emit_fixed_point

        return emit_fixed_point(record, observables, _header(record))
    return emit(lower(record, observables), _header(record))


def _header(record: Equations) -> str:
    from importlib.metadata import version

    import theorykit

    versions = ", ".join(f"{p} {version(p)}" for p in ("sympy", "numba"))
    return f"Generated from the equations {record.name} by theorykit {theorykit.__version__} ({versions})."


def compile_record(record: Equations, observables: tuple[str, ...] | None = None) -> Program:
    """Lower, emit, store and load a record: its observables as compiled code."""
    return load_source(source_of(record, observables))


def load_source(source: str) -> Program:
    """Store and load a generated module; what a pickled program is rebuilt by, wherever it arrives."""
    return _load_or_rebuild(cache.store(source), lambda: source)


def load(
    theory: str, request: tuple[object, ...], derive: Callable[[], Equations], observables: tuple[str, ...]
) -> Program:
    """The program of a theory's request, from this process, from disk, or derived and compiled now.

    ``request`` names everything the record depends on (task, canonical formula, ...); ``derive`` makes the record
    and is called only where no module answers the request.
    """
    return _find((theory, request, observables), lambda: source_of(derive(), observables))


def load_flow(
    theory: str,
    request: tuple[object, ...],
    derive: Callable[[], Equations],
    state: tuple[str, ...],
    slopes: tuple[str, ...],
    events: tuple[str, ...] = (),
    time: str | None = None,
) -> Flow:
    """The flow ``d state / dt = slopes``, compiled with its integrator: from this process, disk, or derived now.

    ``slopes`` and ``events`` name observables of the record, ``state`` (and ``time``) parameters of them. ``request``
    and ``derive`` are as for :func:`load`.
    """
    from theorykit.codegen.flow import Flow

    def source() -> str:
        from theorykit.codegen.loops import emit_flow

        record = derive()
        return emit_flow(record, state, slopes, events, time, _header(record))

    return Flow(_find((theory, request, ("flow", state, slopes, events, time)), source))


def load_roots(
    theory: str, request: tuple[object, ...], derive: Callable[[], Equations], unknown: str, residual: str
) -> Roots:
    """The bracketing root finder of an observable, as a function of the parameter ``unknown`` (see :func:`load`)."""
    from theorykit.codegen.roots import Roots

    def source() -> str:
        from theorykit.codegen.loops import emit_roots

        record = derive()
        return emit_roots(record, unknown, residual, _header(record))

    return Roots(_find((theory, request, ("roots", unknown, residual)), source))


def load_proximal(
    theory: str,
    request: tuple[object, ...],
    derive: Callable[[], tuple[Equations, Equations | None, Equations | None]],
    method: str,
) -> Program:
    """The compiled minimization of a sample problem by a method, like :func:`load`.

    ``derive`` makes the arguments of :func:`theorykit.codegen.proximal.emit_proximal`: the record of the problem,
    and that of Newton's method or of the dual.
    """

    def source() -> str:
        from theorykit.codegen.proximal import emit_proximal

        record, newton, dual = derive()
        return emit_proximal(record, _header(record), newton, dual)

    return _find((theory, request, method), source)


def _find(key: tuple[object, ...], source: Callable[[], str]) -> Program:
    """The program of a request; ``source`` makes its module where there is none."""
    name = repr(key)  # 1 and True are equal as keys of a dictionary, but not as requests
    with _lock:
        if name not in _answers:
            _answers[name] = _answer(key, source)
        return _loaded[_answers[name]]


def _answer(key: tuple[object, ...], source: Callable[[], str]) -> str:
    def build() -> str:
        _counts["derived"] += 1
        return source()

    module = cache.lookup(key)
    if module is None:
        module = cache.store(build())
        cache.remember(key, module)
    program = _load_or_rebuild(module, build)
    if program.key != module:
        cache.remember(key, program.key)
    return program.key


def _load_or_rebuild(key: str, source: Callable[[], str]) -> Program:
    """Load a module; a damaged one (also a truncated Numba index) is deleted, rebuilt and tried once more."""
    with _lock:
        try:
            return load_module(key)
        except Exception as first:  # anything a damaged file can raise: pickle, syntax, index, hash
            cache.discard(key)
            rebuilt = cache.store(source())
            try:
                return load_module(rebuilt)
            except Exception as second:
                raise CacheError(
                    f"generated module {rebuilt} cannot be loaded even after a rebuild: {second}"
                ) from first


def load_module(key: str) -> Program:
    """The program of a stored module, by the key of the module."""
    with _lock:
        if key not in _loaded:
            _loaded[key] = _program(key)
            _counts["modules"] += 1
        return _loaded[key]


def _program(key: str) -> Any:
    """The class that drives a module is named by its layout."""
    from theorykit.codegen.fixed_point import FixedPointProgram
    from theorykit.codegen.program import Program

    module = cache.import_module(key)
    is_fixed_point = module.LAYOUT.get("kind") == "fixed point"
    return FixedPointProgram(key, module) if is_fixed_point else Program(key, module)


def status() -> dict[str, Any]:
    """What this process did so far: records derived, functions compiled, functions loaded from disk."""
    compiled = loaded = 0
    # primitives belong to several programs
    functions = {id(f): f for program in list(_loaded.values()) for f in program.compiled_functions}
    for function in functions.values():
        compiled += sum(function.stats.cache_misses.values())
        loaded += sum(function.stats.cache_hits.values())
    return {
        "cache_folder": str(cache.folder()),
        "derived": _counts["derived"],
        "modules": _counts["modules"],
        "compiled_functions": compiled,
        "loaded_functions": loaded,
    }
