"""The main job: Bayes risk and minimal risks of attentions, as tables, files, figures, and the equations
behind them.

The grids are the data below; everything else is one call per stage: compute, save, draw, export.
"""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theorykit import single_location as slr

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["MAX", "SPIKED", "Comparison", "compute_share", "single_location"]

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

#: Of the second comparison, what a second process computes: about half of all work.
_SHARE = ("bayes", "softmax", "softplus", "erf-best")


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
    with progress_bar("risks", total=total, enabled=progress) as bar, _second_process(comparisons) as second:
        equations = _equations()
        for comparison in comparisons:  # what the second process has a share in comes last, and is waited for
            part = _compute(comparison, _own_share(comparison, second), bar)
            found[comparison.name] = _completed(comparison, part, second, bar)
            _write(comparison, found[comparison.name], target)
    (target / "equations.tex").write_text(equations, encoding="utf-8")
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


@contextmanager
def _second_process(comparisons: tuple[Comparison, ...]) -> Iterator[subprocess.Popen[bytes] | None]:
    """A process that computes its share meanwhile, where there is a second processor for it."""
    if comparisons != (SPIKED, MAX) or (os.cpu_count() or 1) < 2:
        yield None
        return
    command = [sys.executable, "-c", "from theorykit.reproduce import compute_share; compute_share()"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def compute_share() -> None:
    """Write the share of the second process to standard output, as a pickled Dataset."""
    data = _compute(MAX, _SHARE, lambda: None)
    sys.stdout.buffer.write(pickle.dumps(data))


def _own_share(comparison: Comparison, second: object) -> tuple[str, ...]:
    if second is None or comparison is not MAX:
        return comparison.estimators
    return tuple(e for e in comparison.estimators if e not in _SHARE)


def _completed(
    comparison: Comparison,
    part: xr.Dataset,
    second: subprocess.Popen[bytes] | None,
    advance: Callable[[], None],
) -> xr.Dataset:
    """The comparison with the share of the second process; what that failed to do is computed here."""
    missing = tuple(e for e in comparison.estimators if e not in _own_share(comparison, second))
    if second is None or not missing:
        return part
    import xarray as xr

    from theorykit.single_location.comparison import estimator

    answer, _ = second.communicate()
    if second.returncode == 0:
        other = pickle.loads(answer)
        for _ in range(other["risk"].size):
            advance()
    else:
        other = _compute(comparison, missing, advance)
    joined = xr.concat([part, other], "estimator", combine_attrs="override")
    return joined.sel(estimator=[estimator(e).label for e in comparison.estimators])


def _compute(comparison: Comparison, estimators: tuple[str, ...], advance: Callable[[], None]) -> xr.Dataset:
    from theorykit.codegen.program import single_threaded
    from theorykit.single_location.comparison import compare_risks

    over = {"length": list(comparison.lengths.values()), "nu": comparison.nu}
    with single_threaded():  # two processes share the processors
        data = compare_risks(comparison.task, estimators, over, excess=True, workers=1, progress=advance)
    return data.assign_coords(length=list(comparison.lengths))


def _write(comparison: Comparison, data: xr.Dataset, target: Path) -> None:
    from theorykit.plotting import plot_risks
    from theorykit.saving import save

    save(data, target / f"{comparison.name}.nc")
    figure = plot_risks(data, title=comparison.title)
    figure.savefig(target / f"{comparison.name}.png", dpi=150)
