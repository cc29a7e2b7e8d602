"""The main job: Bayes risk and minimal risks of attentions, and the phase portrait of a query that learns, as tables,
files and figures, and the equations behind the risks.

The grids are the data below. Stages: comparisons -> pieces of work -> results, from as many processes as there are
processors -> Datasets -> files and figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theorykit import signal_recovery as sr
from theorykit import single_location as slr

if TYPE_CHECKING:
    import xarray as xr

    from theorykit._points import Point
    from theorykit.single_location.comparison import RiskTable

__all__ = ["MAX", "SPIKED", "THEORIES", "TRAPPED", "Comparison", "reproduce"]

#: Theories that have a part in the main job.
THEORIES = ("single_location", "signal_recovery")

_ESTIMATORS = ("bayes", "softmax", "softplus", "erf-best", "linear", "best-elementwise")
#: What takes longest first, so that processes finish together.
_BY_WORK = ("softplus", "erf-best", "softmax", "erf", "best-elementwise", "bayes", "linear")


@dataclass(frozen=True)
class Comparison:
    """Risks to compare: the task, its signal strengths, its lengths by the label of their panel."""

    name: str
    title: str
    task: slr.Spiked | slr.Max
    nu: tuple[float, ...]
    lengths: Mapping[str, Any]
    estimators: tuple[str, ...] = _ESTIMATORS

    def table(self) -> RiskTable:
        """The curves to compute, length by length."""
        from theorykit.single_location.comparison import RiskTable

        over = {"length": list(self.lengths.values()), "nu": self.nu}
        return RiskTable.of(self.task, self.estimators, over, excess=True)


#: The Bayes risk falls like exp(-nu/4) at fixed L; at L = 10**6 not before nu = 2 log L = 27.6.
SPIKED = Comparison(
    name="spiked",
    title="Spiked single-location regression",
    task=slr.Spiked(nu=0.0, length=2),
    nu=(0.0, 1.0, 3.0, 6.0, 10.0, 16.0, 24.0, 32.0, 40.0),
    lengths={"L = 2": 2, "L = 10": 10, "L = 1000": 1000, "L = 10^6": 10**6},
)

MAX = Comparison(
    name="max",
    title="Max single-location regression",
    task=slr.Max(nu=0.0, length=2),
    nu=(0.5, 1.0, 2.0, 4.0, math.inf),
    lengths={"L = 2": 2, "L = 10": 10, "L = 1, 2 or 3": {1: 1 / 3, 2: 1 / 3, 3: 1 / 3}},
)

#: A model of signal recovery in which the opposed direction is a trap.
TRAPPED = sr.Model(theta=3, fraction=0.3)


def reproduce(
    folder: str | Path,
    theories: Sequence[str] = THEORIES,
    comparisons: Sequence[Comparison] = (SPIKED, MAX),
    processes: int = 1,
    progress: bool = False,
) -> dict[str, xr.Dataset]:
    """Compute, draw and write the main job of some theories.

    Parameters
    ----------
    folder : path-like
        Made if it does not exist. Single-location regression writes ``<name>.nc``, ``<name>.png`` per comparison and
        ``equations.tex``; signal recovery writes ``signal_recovery.nc`` and ``.png``.
    theories : sequence of str
        Names of :data:`THEORIES`.
    comparisons : sequence of Comparison
        Those of single-location regression.
    processes : int
        How many share the work, see :func:`theorykit.processes.finished`. The numbers do not depend on it.
    progress : bool
        Show a progress bar once the work has lasted two seconds.

    Returns
    -------
    dict
        The Datasets by their names: those of the comparisons, then "signal_recovery".

    Raises
    ------
    ValueError
        A theory without a main job.
    """
    from theorykit.processes import finished
    from theorykit.progress import progress_bar

    for name in theories:
        if name not in THEORIES:
            raise ValueError(f"theories must be among {', '.join(THEORIES)}, got {name!r}")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    pieces = []
    if "single_location" in theories:  # the first ones are for other processes, the last ones for this one
        for comparison in reversed(comparisons):
            pieces += _Unfinished(comparison).pieces(target)
        pieces.append(_Piece(_equations, partial(_write_text, target / "equations.tex")))
    if "signal_recovery" in theories:
        pieces.append(_Piece(partial(_portrait, target)))
    made: dict[str, xr.Dataset] = {}
    with progress_bar("risks", total=sum(piece.risks for piece in pieces), enabled=progress) as bar:
        for index, result in finished([piece.call for piece in pieces], processes):
            made |= pieces[index].receive(result)
            bar.advance(pieces[index].risks)
    order = [*(c.name for c in comparisons), "signal_recovery"]
    return {name: made[name] for name in order if name in made}


@dataclass(frozen=True)
class _Piece:
    """A part of the work that any process can do, what this one does with the result, and how many risks it holds.

    ``receive`` returns the Datasets that the result completes.
    """

    call: Callable[[], Any]
    receive: Callable[[Any], dict[str, xr.Dataset]] = dict
    risks: int = 0


class _Unfinished:
    """A comparison of which the results arrive piece by piece: one estimator at one length."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.table = comparison.table()
        self.results: dict[tuple[int, int], list[Any]] = {}

    def pieces(self, target: Path) -> list[_Piece]:
        found = []
        size = len(self.comparison.nu)
        for name in sorted(self.comparison.estimators, key=_BY_WORK.index):
            row = self.comparison.estimators.index(name)
            curve = self.table.curves[row]
            for start in range(0, len(curve.points), size):
                call = partial(_risks, curve.function, curve.points[start : start + size])
                found.append(_Piece(call, partial(self.receive, target, (row, start)), size))
        return found

    def receive(self, target: Path, place: tuple[int, int], results: list[Any]) -> dict[str, xr.Dataset]:
        """Keep results; the last ones complete the Dataset, which is written and drawn."""
        comparison = self.comparison
        self.results[place] = results
        if len(self.results) < len(comparison.estimators) * len(comparison.lengths):
            return {}
        rows: list[list[Any]] = [[] for _ in comparison.estimators]
        for row, start in sorted(self.results):
            rows[row] += self.results[row, start]
        data = self.table.dataset(rows).assign_coords(length=list(comparison.lengths))
        _write(comparison, data, target)
        return {comparison.name: data}


def _risks(function: Callable[..., Any], points: Sequence[Point]) -> list[Any]:
    from theorykit.codegen.program import single_threaded
    from theorykit.curve import evaluate

    with single_threaded():  # the processors have their processes
        return evaluate(function, points, 1, lambda: None)


def _write(comparison: Comparison, data: xr.Dataset, target: Path) -> None:
    from theorykit.plotting import plot_risks
    from theorykit.saving import save

    save(data, target / f"{comparison.name}.nc")
    figure = plot_risks(data, title=comparison.title)
    figure.savefig(target / f"{comparison.name}.png", dpi=150)


def _portrait(target: Path) -> dict[str, xr.Dataset]:
    from theorykit.saving import save
    from theorykit.signal_recovery.portrait import phase_portrait, plot_portrait

    portrait = phase_portrait(TRAPPED)
    save(portrait, target / "signal_recovery.nc")
    plot_portrait(portrait).savefig(target / "signal_recovery.png", dpi=150)
    return {"signal_recovery": portrait}


_LATEX = "latex single_location"


def _equations() -> str:
    """The LaTeX document; deriving it takes seconds, so it is kept in the cache."""
    from theorykit import derivations
    from theorykit.codegen import cache
    from theorykit.theory import latex

    if any(derivations.is_substituted(name) for name in derivations.CATALOGUE):
        return latex("single_location")
    return cache.text(_LATEX, lambda: latex("single_location"))


def _write_text(path: Path, text: str) -> dict[str, xr.Dataset]:
    path.write_text(text, encoding="utf-8")
    return {}
