"""Minimal risks of several estimators side by side, as one labelled Dataset.

An estimator is "bayes", "best-elementwise" (the infimum over all functions applied token by token), or an
activation at its best overlaps: a name of :data:`ESTIMATORS` or an activation record of your own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from theorykit.records import near_matches
from theorykit.single_location.activations import Activation, Erf, Linear, Softmax, Softplus
from theorykit.single_location.tasks import Task

if TYPE_CHECKING:
    import xarray as xr

    from theorykit.curve import Curve

__all__ = ["ESTIMATORS", "Estimator", "RiskTable", "compare_risks", "estimator"]


@dataclass(frozen=True)
class Estimator:
    """A function of ``theorykit.single_location`` that gives a minimal risk, and the activation it takes."""

    label: str
    function: str
    activation: Activation | None = None


#: Estimators by the names the command line knows.
ESTIMATORS: Mapping[str, Estimator] = {
    "bayes": Estimator("Bayes", "bayes_risk"),
    "softmax": Estimator("softmax", "optimal_risk", Softmax()),
    "softplus": Estimator("softplus", "optimal_risk", Softplus()),
    "erf": Estimator("erf", "optimal_risk", Erf()),
    "erf-best": Estimator("erf, best shift", "optimal_risk", Erf(shift=None)),
    "linear": Estimator("linear", "optimal_risk", Linear()),
    "best-elementwise": Estimator("best elementwise", "best_elementwise_risk"),
}

_NUMBERS = ("m_k", "q_k", "m_v", "q_v", "shift")


def estimator(which: str | Activation) -> Estimator:
    """The estimator of a name or of an activation.

    Raises
    ------
    TypeError, ValueError
        For anything else; the message lists the names.
    """
    if isinstance(which, Activation):
        return Estimator(which.label, "optimal_risk", which)
    if not isinstance(which, str):
        raise TypeError(f"estimator must be a name or an activation, got {which!r} ({type(which).__name__})")
    if which not in ESTIMATORS:
        hint = near_matches(which, list(ESTIMATORS))
        raise ValueError(f"estimator must be a known name, got {which!r}{hint}")
    return ESTIMATORS[which]


def compare_risks(
    task: Task,
    estimators: Sequence[str | Activation],
    over: Mapping[str, Sequence[Any]],
    excess: bool = False,
    workers: int | None = None,
    progress: bool | Callable[[], None] = False,
) -> xr.Dataset:
    """Minimal risks of estimators over grids of the fields of a task.

    Parameters
    ----------
    task : Spiked or Max
    estimators : sequence of str or activation
        Names of :data:`ESTIMATORS`, or activations at their best overlaps.
    over : mapping from str to sequence
        Fields of the task that vary, as in :func:`theorykit.curve`.
    excess : bool
        Leave the label noise out.
    workers, progress
        As in :func:`theorykit.curve`.

    Returns
    -------
    xarray.Dataset
        Dimensions ``estimator`` and those of ``over``; variables ``risk``, ``risk_error``, the optimal
        overlaps ``m_k q_k m_v q_v`` and ``shift`` (nan where an estimator has none), ``attained``,
        ``status``.
    """
    from theorykit.curve import evaluate
    from theorykit.errors import require_integer
    from theorykit.processes import processors
    from theorykit.progress import progress_bar

    threads = processors() if workers is None else require_integer("workers", workers, low=1)
    table = RiskTable.of(task, estimators, over, excess)
    total = sum(len(one.points) for one in table.curves)
    with progress_bar("risks", total=total, enabled=progress is True) as bar:
        advance = progress if callable(progress) else bar
        results = [evaluate(one.function, one.points, threads, advance) for one in table.curves]
    return table.dataset(results)


@dataclass(frozen=True)
class RiskTable:
    """A comparison before it is computed: one curve per estimator, and the Dataset that their results make."""

    task: Task
    over: Mapping[str, Sequence[Any]]
    excess: bool
    entries: tuple[Estimator, ...]
    curves: tuple[Curve, ...]

    @classmethod
    def of(
        cls,
        task: Task,
        estimators: Sequence[str | Activation],
        over: Mapping[str, Sequence[Any]],
        excess: bool,
    ) -> RiskTable:
        """The curves of :func:`compare_risks`, checked.

        Raises
        ------
        TypeError, ValueError
            As :func:`compare_risks`.
        """
        from theorykit import single_location
        from theorykit.curve import Curve

        entries = tuple(estimator(which) for which in estimators)
        labels = [entry.label for entry in entries]
        if not entries or len(set(labels)) < len(labels):
            raise ValueError(f"estimators must be at least one and all distinct, got {labels}")
        curves = []
        for entry in entries:
            given = (task,) if entry.activation is None else (task, entry.activation)
            curves.append(Curve.of(getattr(single_location, entry.function), given, {"excess": excess}, over))
        return cls(task, over, excess, entries, tuple(curves))

    def dataset(self, results: Sequence[list[Any]]) -> xr.Dataset:
        """The Dataset of :func:`compare_risks`, from the results of every curve."""
        import xarray as xr

        parts = [_risks(curve, found) for curve, found in zip(self.curves, results, strict=True)]
        labels = xr.DataArray([e.label for e in self.entries], dims="estimator", name="estimator")
        joined = xr.concat(parts, labels, combine_attrs="drop")
        joined["risk"].attrs["long_name"] = "excess risk" if self.excess else "risk"
        versions = {name: parts[0].attrs[name] for name in ("theorykit", "versions")}
        fixed = [n for n in self.task.field_names() if n not in self.over]
        values = ", ".join(f"{name}={getattr(self.task, name)!r}" for name in fixed)
        where = f"{type(self.task).__name__}({values}) over {', '.join(self.over)}"
        return joined.assign_attrs(task=where, excess=str(self.excess), **versions)


def _risks(curve: Curve, results: list[Any]) -> xr.Dataset:
    """The curve of one estimator with the columns that all have."""
    import numpy as np

    from theorykit._points import function_name

    data = curve.dataset(results)
    name = function_name(curve.function)
    if name in data:
        data = data.rename({name: "risk", f"{name}_error": "risk_error"})
    shape = data["risk"].shape
    for field, missing in [*((number, np.nan) for number in _NUMBERS), ("attained", True)]:
        if field not in data:
            data[field] = (data["risk"].dims, np.full(shape, missing))
    return data[["risk", "risk_error", *_NUMBERS, "attained", "status"]]
