"""Theory beside simulation: z-scores, one verdict per number and one for all of them together.

A wrong theory shows in a single large |z|, unless errors that are too large hide it. Wrong errors show in the
root mean square of all z, which must be near 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from theorykit.errors import require_real
from theorykit.results import Estimate

__all__ = ["Comparison", "ValidationReport"]

_ROUNDING = 2.0**-48  # relative rounding of either number: lets constants without sampling error be compared
_LEAST_P_VALUE = 1e-4


@dataclass(frozen=True)
class Comparison:
    """One number of the theory, the same number simulated, and z = (theory - simulation)/error.

    Attributes
    ----------
    name : str
        The quantity.
    parameters : mapping
        Where it was computed. Rows with equal parameters are taken to come from one simulation.
    theory : Estimate or float
        A float has no error.
    simulation : Estimate
        Of kind "standard error".
    z : float
        Difference over the root of the sum of both squared errors.
    ok : bool
        Whether |z| is at most the threshold, or the theory has a doubt.
    doubt : str
        Why the theory may not hold here; empty where it must. Such a row is shown and not judged.
    """

    name: str
    parameters: Mapping[str, Any] = field(hash=False)
    theory: float
    simulation: Estimate
    z: float
    ok: bool
    doubt: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        parameters: Mapping[str, Any],
        theory: Estimate | float,
        simulation: Estimate,
        threshold: float = 4.0,
        doubt: str = "",
    ) -> Comparison:
        """Compare two numbers.

        Raises
        ------
        TypeError, ValueError
            If the theory is not a finite number or the simulation no `Estimate` of kind "standard error".
        """
        threshold = require_real("threshold", threshold, low=0.0, low_open=True)
        value = require_real(f"theory of {name}", theory)
        if not isinstance(simulation, Estimate):
            raise TypeError(f"simulation of {name} must be an Estimate, got {simulation!r}")
        if simulation.kind != "standard error":
            raise ValueError(
                f"simulation of {name} must be of kind 'standard error', got {simulation.kind!r}"
            )
        spread = math.hypot(
            simulation.error,
            _error(theory),
            _ROUNDING * max(abs(value), abs(simulation.value)),
        )
        z = (value - simulation.value) / spread if spread > 0.0 else 0.0
        kept = theory if isinstance(theory, Estimate) else value
        return cls(name, dict(parameters), kept, simulation, z, bool(doubt) or abs(z) <= threshold, doubt)

    @property
    def relative(self) -> float:
        """By how much theory and simulation differ: theory/simulation - 1; infinite where the latter is 0."""
        if self.simulation == 0.0:
            return 0.0 if self.theory == 0.0 else math.copysign(math.inf, self.theory)
        return float(self.theory) / float(self.simulation) - 1.0


@dataclass(frozen=True)
class ValidationReport:
    """All comparisons of a validation.

    Attributes
    ----------
    rows : tuple of Comparison
        At least one.
    threshold : float
        Largest |z| that passes.
    title : str
        What was validated.
    unsolved : tuple of (parameters, message)
        Points at which the theory has no number, and why.

    Examples
    --------
    >>> simulation = Estimate(0.1938, 8e-4, "standard error")
    >>> row = Comparison.of("risk", {"nu": 4.0, "length": 3}, Estimate(0.194123973657, 1e-12), simulation)
    >>> report = ValidationReport((row,))
    >>> report.ok, round(report.rms_z, 3)
    (True, 0.405)
    >>> print(report)
    theory versus simulation
    quantity  parameters      theory             simulation  z      verdict
    --------  --------------  -----------------  ----------  -----  -------
    risk      nu=4, length=3  0.194123973657(1)  0.1938(8)   +0.40  ok
    ok: 1 of 1 rows within |z| <= 4; largest |z| 0.40; rms z 0.40 over 1 simulation is plausible (p = 0.63)
    """

    rows: tuple[Comparison, ...]
    threshold: float = 4.0
    title: str = "theory versus simulation"
    unsolved: tuple[tuple[Mapping[str, Any], str], ...] = field(default=(), hash=False)

    def __post_init__(self) -> None:
        rows = tuple(self.rows)
        if not rows:
            raise ValueError("rows must hold at least one comparison")
        for row in rows:
            if not isinstance(row, Comparison):
                raise TypeError(f"rows must hold comparisons, got {row!r}")
        object.__setattr__(self, "rows", rows)
        object.__setattr__(
            self, "threshold", require_real("threshold", self.threshold, low=0.0, low_open=True)
        )

    @property
    def failures(self) -> tuple[Comparison, ...]:
        """The rows that fail, at their own threshold or at the one of the report."""
        return tuple(row for row in self.rows if not self.passes(row))

    def passes(self, row: Comparison) -> bool:
        """Whether a row passes at its own threshold and at the one of the report, or is not judged."""
        return bool(row.doubt) or (row.ok and abs(row.z) <= self.threshold)

    @property
    def judged(self) -> tuple[Comparison, ...]:
        """The rows on which the theory has no doubt: all statistics are over these."""
        return tuple(row for row in self.rows if not row.doubt)

    @property
    def ok(self) -> bool:
        """No row fails, every point is solved, and all z together have a plausible size."""
        return not self.failures and not self.unsolved and self.plausible

    @property
    def worst(self) -> Comparison:
        """The row with the largest |z| among the judged ones (among all, if none is judged)."""
        return max(self.judged or self.rows, key=lambda row: abs(row.z))

    @property
    def rms_z(self) -> float:
        """Root mean square of z over the rows with a sampling error."""
        squares = [z * z for group in _groups(self.judged) for z in group]
        return math.sqrt(math.fsum(squares) / len(squares)) if squares else 0.0

    @property
    def degrees_of_freedom(self) -> int:
        """Number of independent simulations with a sampling error: sets of rows with equal parameters."""
        return len(_groups(self.judged))

    @property
    def p_value(self) -> float:
        """Two-sided chi-square p-value of the z-scores; 1 where no row has a sampling error.

        The rows of one simulation are correlated; each simulation counts once, with its mean square z. This
        is cautious: the sum then varies no more than a chi-square variable does.
        """
        groups = _groups(self.judged)
        if not groups:
            return 1.0
        from scipy.special import gammainc, gammaincc

        total = math.fsum(math.fsum(z * z for z in group) / len(group) for group in groups)
        shape, half = len(groups) / 2.0, total / 2.0
        return min(1.0, 2.0 * min(float(gammainc(shape, half)), float(gammaincc(shape, half))))

    @property
    def plausible(self) -> bool:
        """Whether the p-value exceeds 1e-4: errors neither too small nor too large."""
        return self.p_value > _LEAST_P_VALUE

    @property
    def verdict(self) -> str:
        """One sentence: how many rows pass, the largest |z|, the size of all z together."""
        judged, count = self.judged, self.degrees_of_freedom
        doubtful = len(self.rows) - len(judged)
        rest = f"; {doubtful} row{'s are' if doubtful > 1 else ' is'} not judged" if doubtful else ""
        if self.unsolved:
            where = "; ".join(f"{describe(parameters)} ({message})" for parameters, message in self.unsolved)
            rest += f"; no solution at {where}"
        if not judged:
            return f"{'no verdict' if self.ok else 'FAILED'}{rest}"
        size = "too large" if self.rms_z > 1.0 else "too small: errors overstated"
        return (
            f"{'ok' if self.ok else 'FAILED'}: {len(judged) - len(self.failures)} of {len(judged)} rows within "
            f"|z| <= {self.threshold:g}; largest |z| {abs(self.worst.z):.2f}; rms z {self.rms_z:.2f} "
            f"over {count} simulation{'' if count == 1 else 's'} is "
            f"{'plausible' if self.plausible else size} (p = {self.p_value:.2g}){rest}"
        )

    def table(self) -> list[tuple[str, ...]]:
        """The rows as text: name, parameters, theory, simulation, z, verdict."""
        return [
            (
                row.name,
                describe(row.parameters),
                str(row.theory) if isinstance(row.theory, Estimate) else f"{row.theory:.12g}",
                str(row.simulation),
                f"{row.z:+.2f}",
                self._verdict_on(row),
            )
            for row in self.rows
        ]

    def _verdict_on(self, row: Comparison) -> str:
        if row.doubt:
            return f"off by {100.0 * row.relative:+.2g} %, not judged: {row.doubt}"
        return "ok" if self.passes(row) else "FAILED"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data that JSON holds; infinite parameters become text."""
        return {
            "title": self.title,
            "ok": self.ok,
            "threshold": self.threshold,
            "rms_z": self.rms_z,
            "degrees_of_freedom": self.degrees_of_freedom,
            "p_value": self.p_value,
            "plausible": self.plausible,
            "worst": self.worst.name,
            "unsolved": [{"parameters": _plain(p), "message": m} for p, m in self.unsolved],
            "rows": [
                {
                    "name": row.name,
                    "parameters": _plain(row.parameters),
                    "theory": float(row.theory),
                    "theory_error": _error(row.theory),
                    "simulation": float(row.simulation),
                    "simulation_error": row.simulation.error,
                    "z": row.z,
                    "ok": self.passes(row),
                    "doubt": row.doubt,
                }
                for row in self.rows
            ],
        }

    def __str__(self) -> str:
        lines = [COLUMNS, *self.table()]
        widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
        texts = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
        ]
        rule = "  ".join("-" * width for width in widths)
        body = [text.rstrip() for text in (texts[0], rule, *texts[1:])]
        return "\n".join([self.title, *body, self.verdict])

    def __rich__(self) -> Any:
        """Table for a terminal; imports rich."""
        from rich.table import Table
        from rich.text import Text

        table = Table(
            title=Text(self.title), caption=Text(self.verdict, style="green" if self.ok else "bold red")
        )
        for column in COLUMNS:
            table.add_column(
                column,
                justify="right" if column == "z" else "left",
                no_wrap=column not in ("parameters", "verdict"),
            )
        for line in self.table():
            table.add_row(*(Text(cell) for cell in line), style="bold red" if line[-1] == "FAILED" else None)
        return table


COLUMNS = ("quantity", "parameters", "theory", "simulation", "z", "verdict")


def describe(parameters: Mapping[str, Any]) -> str:
    """Parameters on one line: `nu=4, length=3`."""
    return ", ".join(f"{name}={_short(value)}" for name, value in parameters.items())


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_short(key)}: {_short(item)}" for key, item in value.items()) + "}"
    if isinstance(value, float):
        return f"{float(value):.6g}"
    return str(value)


def _error(number: float) -> float:
    return number.error if isinstance(number, Estimate) else 0.0


def _groups(rows: Sequence[Comparison]) -> list[list[float]]:
    """z-scores by equal parameters, without the rows that have no sampling error."""
    found: list[tuple[Mapping[str, Any], list[float]]] = []
    for row in rows:
        if row.simulation.error == 0.0:
            continue
        for parameters, scores in found:
            if parameters == row.parameters:
                scores.append(row.z)
                break
        else:
            found.append((row.parameters, [row.z]))
    return [scores for _, scores in found]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if isinstance(value, float):
        return float(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)
