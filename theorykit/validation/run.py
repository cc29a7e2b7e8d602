"""Theory against simulation at the points a theory fixes beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from theorykit.errors import require_integer
from theorykit.theory import Theory, resolve

if TYPE_CHECKING:
    from theorykit.validation.compare import ValidationReport

__all__ = ["validate"]


def validate(
    subject: Theory | str,
    trials: int | None = None,
    seed: Any = 0,
    on_point: Callable[[int, int], None] | None = None,
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

    Returns
    -------
    ValidationReport
        A table of z-scores; ``.ok`` says whether theory and simulation agree.

    Raises
    ------
    TypeError, ValueError
        No such theory, or one that declares no points.
    """
    import numpy as np

    from theorykit.validation.compare import Comparison, ValidationReport

    theory = subject if isinstance(subject, Theory) else resolve(subject)
    points = theory.validation_points
    if not points:
        raise ValueError(f"theory {theory.name} declares no validation points")
    if trials is not None:
        trials = require_integer("trials", trials, low=1)
    streams = _streams(seed, len(points), np)
    rows = []
    for index, (point, stream) in enumerate(zip(points, streams, strict=True)):
        if on_point is not None:
            on_point(index, len(points))
        predicted = point.theory()
        found = point.simulate(point.trials if trials is None else trials, stream)
        missing = [name for name in predicted if name not in found]
        if missing:
            raise ValueError(f"the simulation of {dict(point.parameters)} returned no {missing}")
        rows += [Comparison.of(n, dict(point.parameters), v, found[n]) for n, v in predicted.items()]
    return ValidationReport(tuple(rows), title=theory.title)


def _streams(seed: Any, count: int, np: Any) -> list[Any]:
    """One SeedSequence per point; that of a point does not depend on how many there are."""
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**63))
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    return [
        np.random.SeedSequence(entropy=root.entropy, spawn_key=(*root.spawn_key, index))
        for index in range(count)
    ]
