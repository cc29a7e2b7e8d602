"""Curves: a function over labelled grids, as an xarray Dataset with errors, status and provenance.

Stages: grids -> points (arguments of every call, validated) -> results -> columns of numbers -> Dataset.
"""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from theorykit._columns import Failure, columns
from theorykit._points import Grid, Point, function_name, inner_function, make_grid, make_plan
from theorykit.errors import ConvergenceError, require_integer
from theorykit.processes import processors
from theorykit.progress import progress_bar

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ConvergenceWarning", "Curve", "curve", "evaluate"]

_VERSIONS = ("numba", "numpy", "scipy", "sympy")


class ConvergenceWarning(UserWarning):
    """Some points of a curve have no value; their status says why."""


def curve(
    function: Callable[..., Any],
    *args: Any,
    over: Mapping[str, Sequence[Any]],
    workers: int | None = None,
    progress: bool | Callable[[], None] = False,
    **kwargs: Any,
) -> xr.Dataset:
    """Values of ``function(*args, **kwargs)`` over the product of grids.

    Parameters
    ----------
    function : callable
        Returns a number, an Estimate, an Optimum, a Solution, or a tuple of numbers.
    *args, **kwargs
        Its other arguments.
    over : mapping from str to sequence
        What varies: a field of one of the records among the arguments (``nu``, ``length``, ...), or an
        argument of the function that is not given otherwise (``m_k``, ``activation``, ...).  Each grid is
        one-dimensional; its values may be numbers, strings, mappings or records, the latter two appear by
        their labels.
    workers : int, optional
        Number of threads; default: one per processor.  Results do not depend on it.
    progress : bool or callable
        True: show a progress bar on standard error once the work has lasted two seconds.  A callable is
        called after each point.

    Returns
    -------
    xarray.Dataset
        Dimensions in the order of ``over``.  Variables: the value under the name of the function, or one
        variable per numeric field of the result; ``*_error`` beside each that has errors; ``status`` per
        point.  Attributes: function, arguments and versions.

    Raises
    ------
    TypeError, ValueError
        Unknown or ambiguous keys, empty grids, values that a record refuses: all before any computation.
    ConvergenceError
        If no point at all converged.  A failure at some points leaves nan there, its reason in ``status``,
        and one :class:`ConvergenceWarning`.

    Notes
    -----
    A function may bring a compiled batch: ``function.batch(points, on_done=callback)`` receives the list of
    ``(args, kwargs)``, calls ``on_done`` after each point, and returns the list of results; a
    ConvergenceError in the place of a result marks that point as failed.

    Examples
    --------
    >>> import theorykit as tk
    >>> from theorykit import single_location as slr
    >>> task = slr.Spiked(nu=1.0, length=3)
    >>> risks = tk.curve(slr.bayes_risk, task, over={"nu": [0.0, 4.0]})
    >>> [round(value, 12) for value in risks.bayes_risk.values.tolist()]
    [0.666666666667, 0.194123973657]
    """
    threads = processors() if workers is None else require_integer("workers", workers, low=1)
    planned = Curve.of(function, args, kwargs, over)
    with progress_bar(function_name(function), total=len(planned.points), enabled=progress is True) as bar:
        results = evaluate(function, planned.points, threads, progress if callable(progress) else bar)
    return planned.dataset(results)


@dataclass(frozen=True)
class Curve:
    """A curve before it is computed: the points, and the Dataset that their results make."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    grids: Mapping[str, Grid]
    points: tuple[Point, ...]

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        over: Mapping[str, Sequence[Any]],
    ) -> Curve:
        """The arguments of every call, in the order of the product of the grids, checked.

        Raises
        ------
        TypeError, ValueError
            As :func:`curve`.
        """
        grids = {name: make_grid(name, values) for name, values in over.items()}
        if not grids:
            raise ValueError("over must name at least one field or argument to vary, got an empty mapping")
        plan = make_plan(function, args, kwargs, grids)
        points = tuple(
            plan.point(values) for values in itertools.product(*(g.values for g in grids.values()))
        )
        first_args, first_kwargs = points[0]
        inspect.signature(function).bind(
            *first_args, **first_kwargs
        )  # a missing argument shows before any work
        return cls(function, args, kwargs, grids, points)

    def dataset(self, results: list[Any]) -> xr.Dataset:
        """The Dataset of the results of all points, as :func:`evaluate` returns them.

        Raises
        ------
        ConvergenceError
            If no point at all converged; a :class:`ConvergenceWarning` names the first of several.
        """
        import xarray as xr

        _report_failures(self.function, self.grids, results)
        shape = tuple(len(grid.values) for grid in self.grids.values())
        name = function_name(self.function)
        variables = {}
        for column, (values, attributes) in columns(results, name).items():
            free_name = f"{name}_{column}" if column in self.grids else column
            variables[free_name] = (tuple(self.grids), values.reshape(shape), attributes)
        coordinates = {key: grid.labels for key, grid in self.grids.items()}
        return xr.Dataset(variables, coordinates, _provenance(self.function, self.args, self.kwargs))


def evaluate(
    function: Callable[..., Any], points: Sequence[Point], threads: int, advance: Callable[..., None]
) -> list[Any]:
    """The result of every point; a Failure where it did not converge.  Other errors propagate.

    ``advance`` is called after each point.
    """
    from theorykit.codegen.program import single_threaded

    batch = getattr(function, "batch", None)
    if batch is not None:
        results = list(batch(list(points), on_done=advance))
        if len(results) != len(points):
            raise RuntimeError(
                f"{function_name(function)}.batch returned {len(results)} results for {len(points)} points"
            )
        return [Failure(str(r)) if isinstance(r, ConvergenceError) else r for r in results]

    def call(point: Point) -> Any:
        try:
            with (
                single_threaded() if threads > 1 else nullcontext()
            ):  # the points share the processors already
                return function(*point[0], **point[1])
        except ConvergenceError as error:
            return Failure(str(error))
        finally:
            advance()

    if threads == 1 or len(points) == 1:
        return [call(point) for point in points]
    with ThreadPoolExecutor(min(threads, len(points))) as pool:
        futures = [pool.submit(call, point) for point in points]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _report_failures(function: Callable[..., Any], grids: Mapping[str, Grid], results: list[Any]) -> None:
    failed = [index for index, result in enumerate(results) if isinstance(result, Failure)]
    if not failed:
        return
    labels = list(itertools.product(*(grid.labels.tolist() for grid in grids.values())))
    where = ", ".join(f"{name}={label}" for name, label in zip(grids, labels[failed[0]], strict=True))
    summary = (
        f"{len(failed)} of {len(results)} points of {function_name(function)} did not converge; "
        f"the first at {where}: {results[failed[0]].reason}"
    )
    if len(failed) == len(results):
        raise ConvergenceError(summary)
    warnings.warn(summary, ConvergenceWarning, stacklevel=4)


def _provenance(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, str]:
    """What made the numbers.  No date: the same call writes the same file."""
    from importlib.metadata import version

    import theorykit

    given = [repr(value) for value in args] + [f"{name}={value!r}" for name, value in kwargs.items()]
    return {
        "function": f"{getattr(inner_function(function), '__module__', None)}.{function_name(function)}",
        "arguments": ", ".join(given),
        "theorykit": theorykit.__version__,
        "versions": ", ".join(f"{package} {version(package)}" for package in _VERSIONS),
    }
