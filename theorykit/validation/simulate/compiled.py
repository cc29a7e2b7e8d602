"""Hand-written kernels of simulators, compiled once and cached by Numba.

The cache lies beside the source file, in the user's cache folder where that is read-only, or in `NUMBA_CACHE_DIR`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

__all__ = ["compile_kernel"]


def compile_kernel(function: Callable[..., None], signature: tuple[Any, ...]) -> Any:
    """The compiled kernel; a damaged entry of the cache is rebuilt; without a cache there is one warning.

    Parameters
    ----------
    function : callable
        What it calls is compiled with it, so that everything must stand in the function's own file.
    signature : tuple of Numba types
        Of its arguments; nothing is returned.
    """
    import numba

    reason = ""
    for rebuild in (False, True):
        # A damaged or unwritable cache fails in many ways; an error of the kernel itself recurs below.
        try:
            kernel = numba.njit(nogil=True, cache=True)(function)
            if rebuild:
                kernel._cache.flush()  # type: ignore[attr-defined]
            kernel.compile(signature)
            return kernel
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
    kernel = numba.njit(signature, nogil=True)(function)
    warnings.warn(
        f"the simulator was compiled for this process only, because Numba's cache cannot be used ({reason}); "
        "set NUMBA_CACHE_DIR to a writable folder",
        RuntimeWarning,
        stacklevel=4,
    )
    return kernel
