"""Theory against simulation at the points a theory fixes beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from theorykit.errors import ConvergenceError, require_integer
from theorykit.theory import Prediction, Theory, ValidationPoint, resolve

if TYPE_CHECKING:
    from theorykit.validation.compare import ValidationReport

__all__ = ["validate"]


def validate(
    subject: Theory | str,
    trials: int | None = None,
    seed: Any = 0,
    on_point: Callable[[int, int], None] | None = None,
    study: str | None = None,
    points: Iterable[int] | None = None,
) -> ValidationReport:
    """Set a theory beside simulations of the model itself.

    Parameters
    ----------
    subject : Theory or name of one
    trials : int, optional
        Samples per point; None: as many as the theory finds enough.
    seed : int, SeedSequence, Generator or None
        Each point has its own stream, whatever the number of points.
    on_point : callable, optional
        Called as ``on_point(index, total)`` before each point.
    study : str, optional
        A longer list of points that the theory declares, by name; None: its usual ones.
    points : iterable of int, optional
        Positions in the list, from 0, of the points that are wanted; None: all. Their numbers are those of the
        whole list.

    Returns
    -------
    ValidationReport
        A table of z-scores; ``.ok`` says whether theory and simulation agree. Where a theory says that it may not
        hold, the difference is shown and not judged. Points at which the theory has no solution
        (:class:`ConvergenceError`) are ``.unsolved``: then the report is not ok.

    Raises
    ------
    TypeError, ValueError
        No such theory, study or point, or a theory that declares no points.
    """
    import numpy as np

    from theorykit.validation.compare import Comparison, ValidationReport

    theory = subject if isinstance(subject, Theory) else resolve(subject)
    known, title = _points(theory, study)
    if trials is not None:
        trials = require_integer("trials", trials, low=1)
    wanted = _chosen(points, len(known))
    streams = _streams(seed, len(known), np)
    rows, unsolved = [], []
    for done, index in enumerate(wanted):
        if on_point is not None:
            on_point(done, len(wanted))
        point = known[index]
        try:
            predicted = point.theory()
        except ConvergenceError as error:
            unsolved.append((dict(point.parameters), str(error)))
            if len(unsolved) == len(wanted):
                raise
            continue
        values, doubt = (
            (predicted.values, predicted.doubt) if isinstance(predicted, Prediction) else (predicted, "")
        )
        found = point.simulate(point.trials if trials is None else trials, streams[index])
        missing = [name for name in values if name not in found]
        if missing:
            raise ValueError(f"the simulation of {dict(point.parameters)} returned no {missing}")
        rows += [
            Comparison.of(n, dict(point.parameters), v, found[n], doubt=doubt) for n, v in values.items()
        ]
    return ValidationReport(tuple(rows), title=title, unsolved=tuple(unsolved))


def _points(theory: Theory, study: str | None) -> tuple[tuple[ValidationPoint, ...], str]:
    """The list that was asked for, and its title."""
    if study is None:
        if not theory.validation_points:
            raise ValueError(f"theory {theory.name} declares no validation points")
        return theory.validation_points, theory.title
    if study not in theory.studies:
        known = ", ".join(theory.studies) or "none"
        raise ValueError(f"study must be one of those of theory {theory.name} ({known}), got {study!r}")
    return tuple(theory.studies[study]()), f"{theory.title}: {study}"


def _chosen(points: Iterable[int] | None, count: int) -> list[int]:
    if points is None:
        return list(range(count))
    chosen = [require_integer("points", index, low=0, high=count - 1) for index in points]
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"points must be different positions, at least one, got {chosen}")
    return chosen


def _streams(seed: Any, count: int, np: Any) -> list[Any]:
    """One SeedSequence per point; that of a point does not depend on how many there are."""
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**63))
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    return [
        np.random.SeedSequence(entropy=root.entropy, spawn_key=(*root.spawn_key, index))
        for index in range(count)
    ]
