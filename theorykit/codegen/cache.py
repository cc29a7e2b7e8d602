"""Generated modules on disk, and the index that spares a warm process SymPy.

Layout of the cache folder (``THEORYKIT_CACHE`` overrides the per-user default)::

    modules/tk_<sha>.py        generated source, named by its content; Numba's compiled code beside it
    index/<sha>.json           (theory, request, formula, fingerprint) -> module

Writes are atomic and a module that exists is never written again: its modification time is part of Numba's own
key. A folder or module that another user owns or can write to is refused.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import stat
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType

from theorykit.errors import CacheError

__all__ = ["clear", "entries", "fingerprint", "folder", "import_module", "lookup", "remember", "store"]


@cache
def folder() -> Path:
    """The cache folder, created private; a temporary one (with a warning) where it cannot be written."""
    wanted = _wanted_folder()
    try:
        wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in ("modules", "index"):
            (wanted / part).mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted / "modules"):
            pass
    except OSError as error:
        private = Path(tempfile.mkdtemp(prefix="theorykit-"))
        for part in ("modules", "index"):
            (private / part).mkdir(mode=0o700)
        warnings.warn(
            f"cache folder {wanted} cannot be written ({error.strerror or error}); using {private} for this "
            "process, so that everything is compiled anew next time; set THEORYKIT_CACHE to a writable folder",
            RuntimeWarning,
            stacklevel=2,
        )
        return private
    for path in (wanted, wanted / "modules", wanted / "index"):
        _require_private(path)
    return wanted


def _wanted_folder() -> Path:
    chosen = os.environ.get("THEORYKIT_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path("~/Library/Caches/theorykit").expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~")).expanduser() / "theorykit" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "theorykit"


def _require_private(path: Path) -> None:
    """Code is imported from here: nobody else may own or write it."""
    if not hasattr(os, "getuid"):
        return
    status = path.stat()
    if status.st_uid != os.getuid():
        raise CacheError(f"{path} belongs to user {status.st_uid}, not to you; set THEORYKIT_CACHE to your own")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CacheError(
            f"{path} can be written by others (mode {stat.S_IMODE(status.st_mode):o}); generated code is not "
            f"imported from there: chmod go-w it or set THEORYKIT_CACHE"
        )


@cache
def fingerprint() -> str:
    """Hash of what a generated module depends on besides its request: our sources, versions, the CPU."""
    from importlib.metadata import version

    import llvmlite.binding

    import theorykit

    digest = hashlib.sha256()
    root = Path(theorykit.__file__).parent
    sources = [root / "formula.py"]
    for part in ("derivations", "codegen", "_formula"):
        sources += (root / part).rglob("*.py")
    for path in sorted(sources):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    versions = [theorykit.__version__, *(version(p) for p in ("sympy", "numba", "numpy", "llvmlite"))]
    digest.update("|".join([*versions, sys.version, llvmlite.binding.get_host_cpu_name()]).encode())
    return digest.hexdigest()


def store(source: str) -> str:
    """Write a module once; returns its key, the hash of its content."""
    data = source.encode()
    key = hashlib.sha256(data).hexdigest()[:32]
    path = _module_path(key)
    if not _is_intact(path, key):
        path.unlink(missing_ok=True)
        _write_once(path, data)
    return key


def _module_path(key: str) -> Path:
    return folder() / "modules" / f"tk_{key}.py"


def _is_intact(path: Path, key: str) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:32] == key
    except OSError:
        return False


def _write_once(path: Path, data: bytes) -> None:
    """Appears whole or not at all; of several processes the first one wins and nobody overwrites it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        try:
            os.link(name, path)
        except FileExistsError:
            pass  # another process wrote the same content: the name is its hash
        except OSError:
            os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


def import_module(key: str) -> ModuleType:
    """Import a stored module; CacheError if it is missing or damaged (its hash is checked first)."""
    path = _module_path(key)
    if not _is_intact(path, key):
        raise CacheError(f"generated module {path.name} is missing or damaged")
    _require_private(path)
    name = f"theorykit_generated_{key}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CacheError(f"generated module {path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def discard(key: str) -> None:
    """Delete a module together with what Numba cached for it."""
    path = _module_path(key)
    path.unlink(missing_ok=True)
    compiled = path.parent / "__pycache__"
    for stale in compiled.glob(f"tk_{key}*") if compiled.is_dir() else ():
        stale.unlink(missing_ok=True)


def _request_path(request: tuple[object, ...]) -> Path:
    text = json.dumps([*map(str, request), fingerprint()])
    return folder() / "index" / (hashlib.sha256(text.encode()).hexdigest()[:32] + ".json")


def lookup(request: tuple[object, ...]) -> str | None:
    """The module key of a request, or None if it was never built (or its entry cannot be read)."""
    path = _request_path(request)
    try:
        entry = json.loads(path.read_text())
        return str(entry["module"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        path.unlink(missing_ok=True)
        return None


def remember(request: tuple[object, ...], key: str) -> None:
    """Record which module answers a request."""
    path = _request_path(request)
    text = json.dumps({"request": [str(r) for r in request], "module": key}, indent=1)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    with os.fdopen(handle, "w") as stream:
        stream.write(text)
    os.replace(name, path)


def entries() -> list[dict[str, object]]:
    """What the cache holds: request, module and size in bytes of each entry."""
    found = []
    for path in sorted((folder() / "index").glob("*.json")):
        entry = json.loads(path.read_text())
        module = _module_path(entry["module"])
        compiled = list((module.parent / "__pycache__").glob(f"tk_{entry['module']}*"))
        size = sum(p.stat().st_size for p in [module, *compiled] if p.exists())
        found.append({"request": entry["request"], "module": module.name, "bytes": size})
    return found


def clear() -> int:
    """Delete every entry; returns how many files went."""
    count = 0
    for part in ("index", "modules"):
        for path in sorted((folder() / part).rglob("*"), reverse=True):
            if path.is_file():
                path.unlink()
                count += 1
            elif path.is_dir():
                path.rmdir()
    return count
