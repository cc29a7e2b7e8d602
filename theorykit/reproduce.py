"""The main job: Bayes risk and minimal risks of attentions, as tables, files, figures, and the equations
behind them.

The grids are the data below; everything else is one call per stage: compute, save, draw, export.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theorykit import single_location as slr

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["MAX", "SPIKED", "Comparison", "compile_for", "single_location"]

_ESTIMATORS = ("bayes", "softmax", "softplus", "erf-best", "linear", "best-elementwise")


@dataclass(frozen=True)
class Comparison:
    """Risks to compare: the task, its signal strengths, its lengths by the label of their panel."""

    name: str
    title: str
    task: slr.Spiked | slr.Max
    nu: tuple[float, ...]
    lengths: Mapping[str, Any]
    estimators: tuple[str, ...] = _ESTIMATORS

    @property
    def points(self) -> int:
        """Number of risks to compute."""
        return len(self.nu) * len(self.lengths) * len(self.estimators)


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


def single_location(
    folder: str | Path, comparisons: tuple[Comparison, ...] = (SPIKED, MAX), progress: bool = False
) -> dict[str, xr.Dataset]:
    """Compute the comparisons and write ``<name>.nc``, ``<name>.png`` and ``equations.tex`` into a folder.

    Parameters
    ----------
    folder : path-like
        Made if it does not exist.
    comparisons : tuple of Comparison
    progress : bool
        Show a progress bar once the work has lasted two seconds.

    Returns
    -------
    dict
        The Datasets by the name of their comparison.
    """
    from theorykit.progress import progress_bar

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    total = sum(comparison.points for comparison in comparisons)
    found = {}
    helpers = _compilers(comparisons[1:])
    with progress_bar("risks", total=total, enabled=progress) as bar:
        for comparison in comparisons:
            if comparison.name in helpers:
                _equations()  # something to do meanwhile
                helpers[comparison.name].wait()
            found[comparison.name] = _compute(comparison, bar)
    for comparison in comparisons:
        _write(comparison, found[comparison.name], target)
    (target / "equations.tex").write_text(_equations(), encoding="utf-8")
    return found


_LATEX = "latex single_location"


def _equations() -> str:
    """The LaTeX document; deriving it takes seconds, so it is kept in the cache."""
    from theorykit import derivations
    from theorykit.codegen import cache
    from theorykit.theory import latex

    if any(derivations.is_substituted(name) for name in derivations.CATALOGUE):
        return latex("single_location")
    return cache.text(_LATEX, lambda: latex("single_location"))


def _compilers(comparisons: tuple[Comparison, ...]) -> dict[str, subprocess.Popen[bytes]]:
    """Where nothing is compiled yet, a process for each comparison that compiles what it needs meanwhile.

    A process that fails is no loss: whatever is missing afterwards is compiled here.
    """
    from theorykit.codegen import cache

    if cache.known_text(_LATEX) is not None or (os.cpu_count() or 1) < 2:
        return {}
    known = [c for c in comparisons if c in (SPIKED, MAX)]
    code = "from theorykit.reproduce import compile_for; compile_for({!r})"

    def start(name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", code.format(name)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return {c.name: start(c.name) for c in known}


def compile_for(name: str) -> None:
    """Have everything compiled that a comparison of this module needs, by computing a few of its points."""
    (comparison,) = [c for c in (SPIKED, MAX) if c.name == name]
    length = next(iter(comparison.lengths))
    nu = (comparison.nu[1], comparison.nu[-1])
    few = replace(comparison, nu=nu, lengths={length: comparison.lengths[length]})
    _compute(few, lambda: None)


def _compute(comparison: Comparison, advance: Callable[[], None]) -> xr.Dataset:
    from theorykit.single_location.comparison import compare_risks

    over = {"length": list(comparison.lengths.values()), "nu": comparison.nu}
    data = compare_risks(comparison.task, comparison.estimators, over, excess=True, progress=advance)
    return data.assign_coords(length=list(comparison.lengths))


def _write(comparison: Comparison, data: xr.Dataset, target: Path) -> None:
    from theorykit.plotting import plot_risks
    from theorykit.saving import save

    save(data, target / f"{comparison.name}.nc")
    figure = plot_risks(data, title=comparison.title)
    figure.savefig(target / f"{comparison.name}.png", dpi=150)
