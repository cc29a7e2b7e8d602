"""Generated modules on disk, and the index that spares a warm process SymPy.

Layout of the cache folder (``THEORYKIT_CACHE`` overrides the per-user default)::

    modules/tk_<sha>.py        generated source, named by its content; Numba's compiled code in __pycache__
    index/<sha>.json           (theory, request, formula, fingerprint) -> module; texts that take long to make

Writes are atomic and a module that exists is never written again: its modification time may be part of Numba's
own key. A folder or module that another user owns or can write to is refused.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.abc
import importlib.util
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from theorykit.errors import CacheError

__all__ = [
    "clear",
    "discard",
    "discard_compiled",
    "entries",
    "fingerprint",
    "folder",
    "import_module",
    "known_text",
    "lookup",
    "remember",
    "store",
    "text",
]

_PARTS = ("modules", "modules/__pycache__", "index")
_KEY = re.compile(r"[0-9a-f]{32}")
_lock = threading.Lock()


# ------------------------------------------------------------------------------------------------ the folder


def folder() -> Path:
    """The cache folder, created private; a temporary one (with a warning) where it cannot be written.

    Raises
    ------
    CacheError
        another user owns the folder or can write to it.
    """
    with _lock:  # threads that start together get one folder, and one warning
        return _folder()


@cache
def _folder() -> Path:
    try:
        wanted = _wanted_folder()
        _prepare(wanted)
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home
        return _temporary_folder(error)
    for path in (wanted, *(wanted / part for part in _PARTS)):
        _require_private(path)
    return wanted


def _wanted_folder() -> Path:
    chosen = os.environ.get("THEORYKIT_CACHE")
    if chosen:
        path = Path(chosen)
    elif sys.platform == "darwin":
        path = Path("~/Library/Caches/theorykit")
    elif sys.platform == "win32":
        path = Path(os.environ.get("LOCALAPPDATA", "~")) / "theorykit" / "cache"
    else:
        path = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "theorykit"
    return path.expanduser().absolute()  # a later change of directory must not move it


def _prepare(root: Path) -> None:
    """Create the folder with its parts and see whether it can be written."""
    for path in (root, *(root / part for part in _PARTS)):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=root / "modules"):
        pass


def _temporary_folder(error: Exception) -> Path:
    """A private folder for this process, removed at its end."""
    private = Path(tempfile.mkdtemp(prefix="theorykit-"))
    _prepare(private)
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not at the end of a forked child
            shutil.rmtree(private, ignore_errors=True)

    atexit.register(remove)
    warnings.warn(
        f"the cache folder cannot be written ({error}); using {private} for this process, so that everything is "
        "compiled anew next time; set THEORYKIT_CACHE to a writable folder",
        RuntimeWarning,
        stacklevel=4,
    )
    return private


def _require_private(path: Path) -> None:
    """Code is imported from here: nobody else may own or write it."""
    if not hasattr(os, "getuid"):
        return
    status = path.stat()
    if status.st_uid != os.getuid():
        raise CacheError(
            f"{path} belongs to user {status.st_uid}, not to you; set THEORYKIT_CACHE to your own"
        )
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
    loops = ("dormand_prince.py", "roots.py")  # their text goes into generated modules
    sources = [root / "formula.py", *(root / "numerics" / name for name in loops)]
    for part in ("derivations", "codegen", "_formula"):
        sources += (root / part).rglob("*.py")
    for path in sorted(sources):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    versions = [theorykit.__version__, *(version(p) for p in ("sympy", "numba", "numpy", "llvmlite"))]
    digest.update("|".join([*versions, sys.version, llvmlite.binding.get_host_cpu_name()]).encode())
    return digest.hexdigest()


# ------------------------------------------------------------------------------------------------ modules


def store(source: str) -> str:
    """Write a module once; returns its key, the hash of its content."""
    data = source.encode()
    key = _key_of(data)
    path = _module_path(key)
    if not _is_intact(path, key):
        path.unlink(missing_ok=True)
        _write_once(path, data)
    return key


def _key_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _module_path(key: str) -> Path:
    return folder() / "modules" / f"tk_{key}.py"


def _is_intact(path: Path, key: str) -> bool:
    try:
        return _key_of(path.read_bytes()) == key
    except OSError:
        return False


def _write_once(path: Path, data: bytes) -> None:
    """Appears whole or not at all; of several processes the first one wins and nobody overwrites it."""
    new = _write_beside(path, data)
    try:
        os.link(new, path)
    except FileExistsError:
        pass  # another process wrote the same content: the name is its hash
    except OSError:  # a file system without hard links
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def _write_beside(path: Path, data: bytes) -> Path:
    """A new file with the data, in the folder of ``path``."""
    if not path.parent.is_dir():  # somebody removed the cache while we run
        _prepare(folder())
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


class _Checked(importlib.abc.ExecutionLoader):
    """Executes the source that was checked: neither the file read again nor bytecode found beside it."""

    def __init__(self, path: Path, source: str) -> None:
        self.path, self.source = path, source

    def get_filename(self, fullname: str) -> str:
        return str(self.path)

    def get_source(self, fullname: str) -> str:
        return self.source


def import_module(key: str) -> ModuleType:
    """Import a stored module; CacheError if it is missing, damaged (its hash is checked first) or not private."""
    path = _module_path(key)
    data = path.read_bytes() if path.is_file() else b""
    if _key_of(data) != key:
        raise CacheError(f"generated module {path.name} is missing or damaged")
    if not (path.parent / "__pycache__").is_dir():
        _prepare(folder())
    for checked in (path, path.parent / "__pycache__"):
        _require_private(checked)
    name = f"theorykit_generated_{key}"
    spec = importlib.util.spec_from_loader(name, _Checked(path, data.decode()))
    if spec is None or spec.loader is None:
        raise CacheError(f"generated module {path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _compiled_beside_source():
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


@contextmanager
def _compiled_beside_source() -> Iterator[None]:
    """Numba unpickles what it finds in its cache: settings of its own must not lead it to an unchecked folder."""
    from numba.core import config

    config.reload_config()
    settings = {n: getattr(config, n) for n in ("CACHE_DIR", "CACHE_LOCATOR_CLASSES") if hasattr(config, n)}
    for name in settings:
        setattr(config, name, "")
    try:
        yield
    finally:
        for name, value in settings.items():
            setattr(config, name, value)


def discard(key: str) -> None:
    """Delete a module together with what Numba cached for it."""
    _module_path(key).unlink(missing_ok=True)
    discard_compiled(key)


def discard_compiled(key: str) -> None:
    """Delete what Numba cached for a module."""
    for stale in _compiled(_module_path(key)):
        stale.unlink(missing_ok=True)


def _compiled(module: Path) -> list[Path]:
    """Numba's files of a module."""
    return sorted((module.parent / "__pycache__").glob(f"{module.stem}.*"))


# ------------------------------------------------------------------------------------------------ the index


def _request_path(request: tuple[object, ...]) -> Path:
    text = json.dumps([_canonical(request), fingerprint()])
    return folder() / "index" / (_key_of(text.encode()) + ".json")


def _canonical(value: object) -> object:
    """Nested lists of texts that tell 1, 1.0, True and "1" apart, and where one part ends."""
    if isinstance(value, tuple | list):
        return [_canonical(v) for v in value]
    if value is None or isinstance(value, str | bool | int | float):
        return repr(value)
    raise TypeError(
        f"a request holds text, numbers, booleans, None and tuples of them, got {value!r} ({type(value).__name__})"
    )


def lookup(request: tuple[object, ...]) -> str | None:
    """The module key of a request, or None if it was never built (or its entry cannot be read)."""
    path = _request_path(request)
    entry = _read_entry(path)
    if entry is None:
        path.unlink(missing_ok=True)
        return None
    return str(entry["module"])


def _read_entry(path: Path) -> dict[str, Any] | None:
    """An entry of the index, or None if it is missing or damaged."""
    try:
        entry = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("request"), list):
        return None
    return entry if isinstance(entry.get("module"), str) and _KEY.fullmatch(entry["module"]) else None


def remember(request: tuple[object, ...], key: str) -> None:
    """Record which module answers a request."""
    path = _request_path(request)
    text = json.dumps({"request": list(map(str, _flat(request))), "module": key}, indent=1)
    os.replace(_write_beside(path, text.encode()), path)


def text(name: str, build: Callable[[], str]) -> str:
    """A text that is a function of the sources of the package, built once for each state of them."""
    found = known_text(name)
    if found is None:
        found = build()
        data = json.dumps({"name": name, "text": found}).encode()
        os.replace(_write_beside(_text_path(name), data), _text_path(name))
    return found


def known_text(name: str) -> str | None:
    """A text that was built for the present sources of the package, or None."""
    try:
        entry = json.loads(_text_path(name).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    is_whole = isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get("text"), str)
    return entry["text"] if is_whole else None


def _text_path(name: str) -> Path:
    return folder() / "index" / (_key_of(json.dumps([name, _package_state()]).encode()) + ".json")


@cache
def _package_state() -> str:
    """Hash of all our sources and of the version of SymPy."""
    from importlib.metadata import version

    import theorykit

    root = Path(theorykit.__file__).parent
    digest = hashlib.sha256(f"{version('sympy')}|{sys.version}".encode())
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _flat(request: tuple[object, ...]) -> list[object]:
    """A request as words to be read: the tuples at the top are opened."""
    words: list[object] = []
    for part in request:
        words += part if isinstance(part, tuple) else [part]
    return words


def entries() -> list[dict[str, object]]:
    """What the cache holds: request, module and size in bytes of each entry that can be read."""
    found: list[dict[str, object]] = []
    for path in sorted((folder() / "index").glob("*.json")):
        entry = _read_entry(path)
        if entry is None:
            continue
        module = _module_path(entry["module"])
        size = sum(p.stat().st_size for p in [module, *_compiled(module)] if p.exists())
        found.append({"request": entry["request"], "module": module.name, "bytes": size})
    return found


def clear() -> int:
    """Delete every entry; returns how many files went. The folders stay, private as they are."""
    count = 0
    for part in _PARTS:
        for path in sorted((folder() / part).iterdir()):
            if path.is_file() or path.is_symlink():
                path.unlink(missing_ok=True)
                count += 1
    return count
