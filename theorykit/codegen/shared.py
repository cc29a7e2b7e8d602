"""The primitives, compiled once in a process for all generated modules.

Every generated module contains the text of the primitives it uses, so that it stands by itself. Where that text is
the one of :mod:`theorykit.codegen.primitives`, which is the rule, the module takes the function from here, which
the first module compiled for all; a module of another version compiles its own.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import njit

from theorykit.codegen import primitives

__all__ = ["compiled_once"]


def compiled_once(**options: Any) -> Callable[[FunctionType], Any]:
    """``numba.njit(**options)``, which has been done already for a function that is one of the primitives."""

    def decorate(function: FunctionType) -> Any:
        name = function.__name__
        is_primitive = name in _OPTIONS and options == _OPTIONS[name]
        if is_primitive and _meaning(function) == _meaning(globals()[name].py_func):
            return globals()[name]
        return njit(**options)(function)

    return decorate


def _meaning(function: FunctionType) -> tuple[Any, ...]:
    """What decides the values of a function: its code, and what the names in it stand for.

    Numbers are compared by how they are written (0.0 and -0.0 are equal), functions and modules by identity.
    """
    code, known = function.__code__, function.__globals__
    used = [known.get(name) for name in code.co_names]
    values = [repr(v) if isinstance(v, int | float | tuple) else v for v in used]
    return (
        code.co_code,
        repr(code.co_consts),
        code.co_names,
        code.co_varnames,
        function.__defaults__,
        values,
    )


def _compile_all() -> dict[str, dict[str, Any]]:
    """Put all primitives, with what their names stand for, into this module; returns their options.

    Numba compiles one when it is first called. What it keeps on disk refers to this module by name.
    """
    names = {*primitives.NAMES, *(needed for more in primitives.NAMES.values() for needed in more)}
    functions = {n: f for n in sorted(names) if isinstance(f := getattr(primitives, n), FunctionType)}
    for function in functions.values():
        used = [name for name in function.__code__.co_names if name not in functions]
        globals().update({name: vars(primitives)[name] for name in used if name in vars(primitives)})
    options = {name: primitives.options_of(name) for name in functions}
    for name, function in functions.items():
        copy = FunctionType(function.__code__, globals(), name, function.__defaults__)
        copy.__module__ = __name__
        globals()[name] = njit(**options[name])(copy)
    return options


_OPTIONS = _compile_all()
