"""A progress bar for work that turns out to take longer than two seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["progress_bar"]

DELAY = 2.0  # seconds of silence: quick work shows nothing


@contextmanager
def progress_bar(
    description: str, total: int | None = None, enabled: bool = True, delay: float = DELAY
) -> Iterator[Callable[..., None]]:
    """A bar on standard error that appears after ``delay`` seconds; yields what advances it by one.

    Parameters
    ----------
    description : str
        What stands before the bar.
    total : int, optional
        Number of steps; None where it is unknown.
    enabled : bool
        False: nothing is ever shown, and rich is not imported.  Nothing is shown either where standard error
        is no terminal.
    delay : float
        Seconds before the bar appears.

    Notes
    -----
    The yielded function ignores its arguments, so that it serves as a callback, and may be called by any
    thread.
    """
    if not enabled:
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    count = () if total is None else (MofNCompleteColumn(), TimeRemainingColumn())
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), *count)
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task(description, total=total)
    timer = threading.Timer(delay, bar.start)  # a timer, because the first step may be the long one
    timer.daemon = True
    timer.start()
    try:
        yield lambda *_: bar.advance(task)
    finally:
        timer.cancel()
        timer.join()  # the bar must not start after it was stopped
        bar.stop()


def _ignore(*_: Any) -> None:
    """Advance nothing."""
