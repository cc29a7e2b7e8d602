"""Results of many calls -> named columns of numbers, errors and status: the table behind a Dataset."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from theorykit.results import Estimate, Solution, Status

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Failure", "columns"]


@dataclasses.dataclass(frozen=True)
class Failure:
    """Stands for the result of a call that did not converge."""

    reason: str


def columns(results: list[Any], name: str) -> dict[str, tuple[np.ndarray, dict[str, str]]]:
    """One array per numeric field of the results and per error, and ``status``, each with its attributes.

    Parameters
    ----------
    results : list
        Numbers, Estimates, tuples, records, Solutions; Failure where there is none.
    name : str
        Name of the column of results that are single numbers.
    """
    import numpy as np

    rows = [{} if isinstance(result, Failure) else _row(result, name) for result in results]
    table: dict[str, tuple[np.ndarray, dict[str, str]]] = {}
    for column in dict.fromkeys(key for row in rows for key, value in row.items() if value is not None):
        values = [row.get(column) for row in rows]
        table[column] = (_array(values), {})
        kinds = sorted({value.kind for value in values if isinstance(value, Estimate)})
        if kinds:
            errors = [value.error if isinstance(value, Estimate) else math.nan for value in values]
            table[f"{column}_error"] = (np.array(errors), {"kind": " or ".join(kinds)})
    table["status"] = (np.array([_status(result) for result in results]), {})
    return table


def _row(result: Any, name: str) -> dict[str, Any]:
    """The numeric fields of one result by name."""
    if _is_number(result):
        return {name: result}
    if isinstance(result, Solution):
        fields: Mapping[str, Any] = {
            **result.values,
            "residual": result.residual,
            "iterations": result.iterations,
        }
    elif dataclasses.is_dataclass(result):
        fields = {f.name: getattr(result, f.name) for f in dataclasses.fields(result)}
    elif isinstance(result, tuple):
        names = getattr(result, "_fields", [f"{name}_{index}" for index in range(len(result))])
        fields = dict(zip(names, result, strict=True))
    else:
        raise TypeError(
            "a curve needs results that are numbers or records of numbers, "
            f"got {type(result).__name__} from {name}"
        )
    return {key: value for key, value in fields.items() if value is None or _is_number(value)}


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real)  # booleans too: `attained` is a column


def _array(values: list[Any]) -> np.ndarray:
    """Booleans and integers keep their type where no value is missing; all else becomes float with nan."""
    import numpy as np

    for kind in (bool, numbers.Integral):
        if all(isinstance(value, kind) for value in values):
            return np.array(values)
    return np.array([math.nan if value is None else float(value) for value in values])


def _status(result: Any) -> str:
    if isinstance(result, Failure):
        return f"failed: {result.reason}"
    status = getattr(result, "status", Status.CONVERGED)
    return str(status.value if isinstance(status, Status) else status)
