"""theorykit: solvable models of attention, from a derivation to audited equations, solvers and curves.

Everything public is reached from here, and nothing is imported until it is used::

    import theorykit as tk
    from theorykit import single_location as slr

``tk.curve``, ``tk.sweep``, ``tk.audit``, ``tk.latex``, ``tk.validate``, ``tk.derivation``, ``tk.cite`` are
functions.  ``tk.derivations`` is the package of derivations, and calling it lists them.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

__version__ = "0.1.0"

#: Public functions: name -> (module that defines it, its name there).
_FUNCTIONS = {
    "curve": ("theorykit.curve", "curve"),
    "derivation": ("theorykit.theory", "derivation"),
    "audit": ("theorykit.theory", "audit"),
    "latex": ("theorykit.theory", "latex"),
    "validate": ("theorykit.validation.run", "validate"),
    "cite": ("theorykit.citation", "cite"),
}

#: Submodules reachable as attributes of the package without importing them first.
_MODULES = (
    "derivations",
    "errors",
    "formula",
    "interpolation",
    "plotting",
    "random_matrices",
    "results",
    "signal_recovery",
    "single_location",
    "validation",
)

__all__ = ["__version__", *sorted([*_FUNCTIONS, *_MODULES])]


def __getattr__(name: str) -> Any:
    module, attribute = _FUNCTIONS.get(name, (f"{__name__}.{name}" if name in _MODULES else None, None))
    if module is None:
        public = ", ".join(__all__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; public names: {public}")
    value: Any = importlib.import_module(module)
    if attribute is not None:
        value = getattr(value, attribute)
        globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(types.ModuleType):
    """Keeps ``theorykit.curve`` the function although a submodule has the same name.

    The import system binds every submodule to the package after loading it; for names in ``_FUNCTIONS`` that
    binding is dropped, so the meaning of ``tk.curve`` does not depend on what was imported before.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in _FUNCTIONS and isinstance(value, types.ModuleType):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
