"""Tensors of a local checkpoint in the safetensors format, without executing anything it contains.

A file is eight bytes with the length of a header, the header (JSON: name -> dtype, shape, byte range) and the bytes
of all tensors. It is read here, rather than by a dependency, because that is all there is to it. Files of other
formats (pickled ones above all) are refused by what they are, not by what they are called.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Checkpoint", "open_checkpoint", "read_config"]

_LONGEST_HEADER = 100_000_000
_MOST_DIMENSIONS = 16
#: dtype of the format -> dtype of NumPy; bfloat16 is read as the upper half of a float32.
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_SIZES = {
    **{name: 8 for name in ("F64", "I64", "U64", "C64")},
    **{name: 4 for name in ("F32", "I32", "U32")},
    **{name: 2 for name in ("F16", "BF16", "I16", "U16")},
    **{name: 1 for name in ("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0")},
}
_PICKLED = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")


@dataclass(frozen=True)
class _Entry:
    """Where one tensor lies."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int


class Checkpoint(Mapping[str, "NDArray[np.float64]"]):
    """Tensors by name; each is read from the file when it is asked for, as float64.

    ``shape`` tells the shape of one without reading it.
    """

    def __init__(self, entries: Mapping[str, _Entry]) -> None:
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        import numpy as np

        entry = self._entries[name]
        if entry.dtype not in _DTYPES:
            raise ValueError(
                f"tensor {name!r} must hold floating-point numbers ({', '.join(_DTYPES)}), it holds {entry.dtype}"
            )
        raw = np.fromfile(
            entry.path, dtype=_DTYPES[entry.dtype], count=math.prod(entry.shape), offset=entry.start
        )
        if entry.dtype == "BF16":
            raw = (raw.astype("<u4") << 16).view("<f4")
        values = raw.astype(np.float64).reshape(entry.shape)
        if not np.isfinite(values).all():
            raise ValueError(f"tensor {name!r} must be finite; it holds infinities or nan")
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self._entries[name].shape


def open_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Open a checkpoint: a ``.safetensors`` file, the index of a sharded one, or the folder of either.

    Raises
    ------
    FileNotFoundError
        Nothing is there.
    ValueError
        The file is of another format, or damaged; the message says where.
    """
    place = _located(Path(path))
    if place.suffix == ".json":
        return Checkpoint(_sharded(place))
    return Checkpoint(_header(place))


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """``config.json`` beside a checkpoint, or an empty mapping where there is none."""
    place = Path(path)
    place = (place if place.is_dir() else place.parent) / "config.json"
    if not place.is_file():
        return {}
    config = _json(place, place.read_bytes())
    return config if isinstance(config, dict) else {}


def _located(path: Path) -> Path:
    if path.is_dir():
        for name in ("model.safetensors", "model.safetensors.index.json"):
            if (path / name).is_file():
                return path / name
        single = sorted(path.glob("*.safetensors"))
        if len(single) == 1:
            return single[0]
        raise FileNotFoundError(f"{path} holds no model.safetensors; name the file")
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    return path


def _sharded(index: Path) -> dict[str, _Entry]:
    content = _json(index, index.read_bytes())
    table = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(table, dict):
        raise ValueError(f"{index} must be the index of a sharded checkpoint, it has no weight_map")
    entries: dict[str, _Entry] = {}
    for name in sorted({str(value) for value in table.values()}):
        if Path(name).name != name:
            raise ValueError(f"{index} must name files beside it, it names {name!r}")
        entries |= _header(index.parent / name)
    return entries


def _header(path: Path) -> dict[str, _Entry]:
    with path.open("rb") as file:
        start = file.read(8)
        if start[:2] in {mark[:2] for mark in _PICKLED}:
            raise ValueError(
                f"{path} must be in the safetensors format; it looks pickled, which is never read"
            )
        total = file.seek(0, os.SEEK_END)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or not 2 <= length <= min(total - 8, _LONGEST_HEADER):
            raise ValueError(f"{path} must be in the safetensors format; it does not begin with a header")
        file.seek(8)
        header = _json(path, file.read(length))
    if not isinstance(header, dict):
        raise ValueError(f"{path} must be in the safetensors format; its header is no table of tensors")
    header.pop("__metadata__", None)
    return {name: _entry(path, name, value, 8 + length, total) for name, value in header.items()}


def _entry(path: Path, name: str, value: Any, data: int, total: int) -> _Entry:
    """One line of the header, with its byte range checked against the file."""
    try:
        dtype, shape, (begin, end) = value["dtype"], tuple(value["shape"]), value["data_offsets"]
        whole = all(type(n) is int and n >= 0 for n in (*shape, begin, end))
    except (TypeError, KeyError, ValueError):
        raise ValueError(f"{path}: the header does not say where tensor {name!r} is") from None
    if not whole or dtype not in _SIZES or len(shape) > _MOST_DIMENSIONS:
        raise ValueError(
            f"{path}: tensor {name!r} has dtype {dtype!r} and shape {shape!r}, which is not understood"
        )
    if end - begin != math.prod(shape) * _SIZES[dtype] or data + end > total:
        raise ValueError(
            f"{path}: the bytes of tensor {name!r} are not those of its shape; the file is damaged"
        )
    return _Entry(path, dtype, shape, data + begin, end - begin)


def _json(path: Path, text: bytes) -> Any:
    try:
        return json.loads(text)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError(f"{path} is damaged: its header is not JSON") from None
