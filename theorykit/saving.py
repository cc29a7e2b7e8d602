"""Datasets to files: NetCDF, CSV or JSON, by the suffix of the path."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

    import xarray as xr

__all__ = ["SUFFIXES", "dataset_json", "dataset_plain", "require_suffix", "save"]

SUFFIXES = (".nc", ".csv", ".json")


def save(dataset: xr.Dataset, path: str | os.PathLike[str]) -> Path:
    """Write a dataset: ``.nc`` NetCDF 4 (through h5netcdf), ``.csv`` one row per point, ``.json``.

    Parameters
    ----------
    dataset : xarray.Dataset
        What :func:`theorykit.curve` returns.
    path : path-like
        Its suffix chooses the format.

    Returns
    -------
    pathlib.Path
        The file written.

    Raises
    ------
    ValueError
        For any other suffix.

    Notes
    -----
    NetCDF and JSON hold everything; CSV has no attributes.  Numbers keep all their digits in every format.
    JSON knows no infinities: there they are the strings "inf" and "-inf", and nan is null.
    """
    target = require_suffix("path", path, SUFFIXES)
    writers: dict[str, Callable[[], Any]] = {
        ".nc": lambda: dataset.to_netcdf(target, engine="h5netcdf"),
        ".csv": lambda: _frame(dataset).to_csv(target),
        ".json": lambda: target.write_text(dataset_json(dataset) + "\n", encoding="utf-8"),
    }
    writers[target.suffix]()
    return target


def require_suffix(name: str, path: str | os.PathLike[str], suffixes: tuple[str, ...]) -> Path:
    """The path, if its suffix is a known one and its folder exists; ValueError otherwise."""
    target = Path(path)
    if target.suffix not in suffixes:
        allowed = ", ".join(suffixes[:-1]) + " or " * (len(suffixes) > 1) + suffixes[-1]
        raise ValueError(f"{name} must end in {allowed}, got {str(path)!r}")
    if not target.parent.is_dir():
        raise ValueError(f"{name} must lie in an existing folder, got {str(path)!r}")
    return target


def dataset_json(dataset: xr.Dataset) -> str:
    """The dataset as JSON: attributes, coordinates and variables with their dimensions."""
    return json.dumps(dataset_plain(dataset), indent=2, ensure_ascii=False, allow_nan=False)


def dataset_plain(dataset: xr.Dataset) -> dict[str, Any]:
    """The dataset as plain data that JSON holds."""
    return dict(_plain(dataset.to_dict()))


def _frame(dataset: xr.Dataset) -> Any:
    return dataset.to_dataframe(dim_order=[str(name) for name in dataset.dims])


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
