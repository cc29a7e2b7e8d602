"""Text from the command line -> numbers, grids, tasks, activations; refusals name the option."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from theorykit.records import near_matches

__all__ = [
    "length_grid",
    "positions",
    "read_activation",
    "read_length",
    "read_options",
    "read_task",
    "real_grid",
    "theory_name",
]

_THEORIES = {
    "single-location": "single_location",
    "slr": "single_location",
    "signal-recovery": "signal_recovery",
    "sr": "signal_recovery",
    "interpolation": "interpolation",
    "ip": "interpolation",
}
_MOST_POINTS = 100_000


def theory_name(text: str, *allowed: str) -> str:
    """The name of a theory in the package: "single-location", "single_location" and "slr" are one.

    ``allowed`` are the theories for which a verb has something to do; default: all.
    """
    plain = text.strip().lower().replace("_", "-")
    found = _THEORIES.get(plain)
    choices = allowed or tuple(dict.fromkeys(_THEORIES.values()))
    if found not in choices:
        short = {name: word for word, name in _THEORIES.items() if word.replace("-", "_") != name}
        known = " or ".join(f"{name.replace('_', '-')} ({short[name]})" for name in choices)
        raise ValueError(f"THEORY must be {known}, got {text!r}")
    return found


def number(option: str, text: str) -> float:
    """A real number: decimal, ratio like 1/3, or inf."""
    try:
        return float(text) if "/" not in text else float(Fraction(text))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{option} must be a number, got {text!r}") from None


def real_grid(option: str, text: str) -> list[float]:
    """``start:stop:count`` (evenly spaced, ends included) or a comma list."""
    if ":" not in text:
        return [number(option, part.strip()) for part in text.split(",")]
    parts = text.split(":")
    if len(parts) != 3:
        raise ValueError(f"{option} must be start:stop:count or a comma list, got {text!r}")
    start, stop = (number(option, part.strip()) for part in parts[:2])
    count = _count(option, parts[2].strip())
    if not (math.isfinite(start) and math.isfinite(stop)):
        raise ValueError(f"{option} must have finite ends in start:stop:count, got {text!r}")
    if count == 1:
        return [start]
    return [start + (stop - start) * index / (count - 1) for index in range(count)]


def length_grid(option: str, text: str) -> list[Any]:
    """A comma list of lengths, ``start:stop:count`` of whole numbers, or one distribution ``1:0.5,2:0.5``."""
    if ":" in text and text.count(":") != 2 * len(text.split(",")):
        return [read_length(option, text)]
    return [_whole(option, value) for value in real_grid(option, text)]


def positions(option: str, text: str) -> list[int]:
    """Positions in a list, from 0: a comma list of numbers and of ranges ``start:stop`` (stop excluded)."""
    found: list[int] = []
    for part in text.split(","):
        ends = [end.strip() for end in part.split(":")]
        if len(ends) > 2 or not all(end.isdecimal() for end in ends):
            raise ValueError(f"{option} must be numbers or ranges like 0:10, got {text!r}")
        found += range(int(ends[0]), int(ends[1])) if len(ends) == 2 else [int(ends[0])]
    if not found:
        raise ValueError(f"{option} must name at least one position, got {text!r}")
    return found


def read_length(option: str, text: str) -> int | dict[int, float]:
    """A number of tokens, or the probability of each: ``3``, ``1:0.5,2:0.5``, ``1:1/3,2:1/3,3:1/3``."""
    if ":" not in text:
        return _whole(option, number(option, text.strip()))
    found: dict[int, float] = {}
    for entry in text.split(","):
        size, separator, probability = entry.partition(":")
        if not separator:
            raise ValueError(f"{option} must be a whole number or size:probability,..., got {text!r}")
        key = _whole(option, number(option, size.strip()))
        if key in found:
            raise ValueError(f"{option} must give one probability per size, got {key} twice in {text!r}")
        found[key] = number(option, probability.strip())
    return found


def read_task(kind: str, nu: float, length: Any, noise: float) -> Any:
    """The record of a task."""
    from theorykit import single_location as slr

    kinds = {"spiked": slr.Spiked, "max": slr.Max}
    if kind not in kinds:
        raise ValueError(f"--task must be spiked or max, got {kind!r}")
    return kinds[kind](nu=nu, length=length, noise=noise)


def read_activation(
    name: str | None, formula: str | None, kernel: str | None, shift: float | None
) -> Any | None:
    """The activation that at most one of --activation, --formula, --kernel names; None where none does."""
    from theorykit import single_location as slr

    given = {"--activation": name, "--formula": formula, "--kernel": kernel}
    used = [option for option, value in given.items() if value is not None]
    if len(used) > 1:
        raise ValueError(f"{' and '.join(used)} exclude each other: each names an activation")
    if shift is not None and name != "erf":
        raise ValueError("--shift belongs to --activation erf")
    if formula is not None:
        return slr.Elementwise(formula)
    if kernel is not None:
        return slr.NormalizedKernel(kernel)
    if name is None:
        return None
    named = {
        "softmax": slr.Softmax(),
        "softplus": slr.Softplus(),
        "linear": slr.Linear(),
        "erf": slr.Erf(0.0 if shift is None else shift),
        "erf-best": slr.Erf(shift=None),
    }
    if name not in named:
        raise ValueError(f"--activation must be a known name, got {name!r}{near_matches(name, list(named))}")
    return named[name]


def read_options(option: str, entries: list[str]) -> dict[str, Any]:
    """``name=value`` pairs; "true" and "false" are booleans, all other values are text."""
    words = {"true": True, "false": False}
    found: dict[str, Any] = {}
    for entry in entries:
        name, separator, value = entry.partition("=")
        if not (separator and name.isidentifier() and value):
            raise ValueError(f"{option} must be NAME=VALUE, got {entry!r}")
        found[name] = words.get(value, value)
    return found


def _count(option: str, text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_POINTS:
        allowed = f"{option} must have a count in [1, {_MOST_POINTS}] in start:stop:count"
        raise ValueError(f"{allowed}, got {text!r}")
    return int(text)


def _whole(option: str, value: float) -> int:
    if not math.isfinite(value) or value != int(value):
        raise ValueError(f"{option} must be a whole number of tokens, got {value!r}")
    return int(value)
