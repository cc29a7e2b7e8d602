"""Keys and grids of a curve -> the arguments of every call.

A key is a field of one record among the arguments, or an argument of the function; :func:`make_plan` finds
which, and :meth:`Plan.point` puts one value of every grid in its place.
"""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from theorykit.records import Record, near_matches

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Grid", "Plan", "Point", "function_name", "inner_function", "make_grid", "make_plan"]

Point = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Grid:
    """The values of one key, and how they appear as a coordinate."""

    values: tuple[Any, ...]
    labels: np.ndarray


def make_grid(name: str, values: Any) -> Grid:
    import numpy as np

    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__len__"):
        raise TypeError(f"over[{name!r}] must be a one-dimensional sequence of values, got {values!r}")
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(f"over[{name!r}] must be one-dimensional, got the shape {np.shape(values)}")
    if len(values) == 0:
        raise ValueError(f"over[{name!r}] must have at least one value, got none")
    items = tuple(value.item() if hasattr(value, "item") else value for value in values)
    if all(isinstance(item, numbers.Real) and not isinstance(item, bool) for item in items):
        whole = all(isinstance(item, numbers.Integral) for item in items)
        values = np.array(items, dtype=np.int64 if whole else np.float64)
        if np.isnan(values).any():
            raise ValueError(f"over[{name!r}] must hold numbers, got nan")
        return Grid(items, values)
    labels = [_label(item) for item in items]
    if len(set(labels)) < len(labels):
        labels = [item if isinstance(item, str) else repr(item) for item in items]
    if len(set(labels)) < len(labels):
        raise ValueError(f"over[{name!r}] must hold distinct values, got {labels}")
    return Grid(items, np.array(labels))


def _label(item: Any) -> str:
    if isinstance(item, (str, Record)):
        return str(getattr(item, "label", item))
    return repr(item)


@dataclass(frozen=True)
class Plan:
    """Where the value of each key goes: a keyword of the call, or a field of the record in a slot of it."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    keys: tuple[str, ...]
    holders: dict[str, int | str]  # key -> position or keyword of the record; absent for arguments

    def point(self, values: Sequence[Any]) -> Point:
        given = dict(zip(self.keys, values, strict=True))
        args = list(self.args)
        kwargs = self.kwargs | {key: value for key, value in given.items() if key not in self.holders}
        changes: dict[int | str, dict[str, Any]] = {}
        for key, slot in self.holders.items():
            changes.setdefault(slot, {})[key] = given[key]
        for slot, fields in changes.items():
            if isinstance(slot, int):
                args[slot] = args[slot].replace(**fields)
            else:
                kwargs[slot] = kwargs[slot].replace(**fields)
        return tuple(args), kwargs


def make_plan(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], grids: Mapping[str, Grid]
) -> Plan:
    parameters = _parameters(function)
    taken = {*parameters[: len(args)], *kwargs}
    free = [name for name in parameters if name not in taken]
    slots: dict[int | str, list[Any]] = {index: [value] for index, value in enumerate(args)}
    slots |= {name: [value] for name, value in kwargs.items()}
    slots |= {name: list(grid.values) for name, grid in grids.items() if name in free}
    holders: dict[str, int | str] = {}
    for key in grids:
        owners = [slot for slot, values in slots.items() if all(_has_field(value, key) for value in values)]
        places = [_describe(slot, slots[slot], parameters) for slot in owners]
        places += [f"the argument {key!r} of {function_name(function)}"] if key in free else []
        if len(places) > 1:
            raise ValueError(f"over[{key!r}] is ambiguous: {' and '.join(places)}")
        if owners:
            holders[key] = owners[0]
        elif key not in free:
            raise ValueError(_unknown(function, key, key in taken, free, slots))
    return Plan(args, kwargs, tuple(grids), holders)


def _parameters(function: Callable[..., Any]) -> list[str]:
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind in named]


def _has_field(value: Any, key: str) -> bool:
    return isinstance(value, Record) and key in value.field_names()


def _describe(slot: int | str, values: list[Any], parameters: list[str]) -> str:
    where = parameters[slot] if isinstance(slot, int) and slot < len(parameters) else slot
    return f"a field of {type(values[0]).__name__} ({where})"


def _unknown(
    function: Callable[..., Any], key: str, taken: bool, free: list[str], slots: Mapping[int | str, list[Any]]
) -> str:
    if taken:
        return f"over[{key!r}] varies an argument of {function_name(function)} that is also given as {key}"
    fields = [
        name for values in slots.values() if isinstance(values[0], Record) for name in values[0].field_names()
    ]
    known = list(dict.fromkeys([*fields, *free]))
    hint = near_matches(key, known)
    return f"over[{key!r}] is no field of the records and no argument of {function_name(function)}{hint}"


def inner_function(function: Any) -> Any:
    return inner_function(function.func) if isinstance(function, functools.partial) else function


def function_name(function: Any) -> str:
    name = getattr(inner_function(function), "__name__", type(function).__name__)
    return name if name.isidentifier() else "value"
