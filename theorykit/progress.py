"""A progress bar for work that turns out to take longer than two seconds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Bar", "progress_bar"]

DELAY = 2.0  # seconds of silence: quick work shows nothing


class Bar:
    """What :func:`progress_bar` yields: call it to advance by one, or say where the work stands."""

    def __init__(self, bar: Any = None, task: Any = None) -> None:
        self._bar, self._task = bar, task

    def __call__(self, *_: Any) -> None:
        """Advance by one; arguments are ignored, so that the bar serves as a callback of any signature."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def advance(self, steps: int) -> None:
        """Advance by several."""
        if self._bar is not None:
            self._bar.advance(self._task, steps)

    def stand(self, description: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` steps are made and the next is ``description``."""
        if self._bar is not None:
            self._bar.update(self._task, description=description, completed=done, total=total)


@contextmanager
def progress_bar(
    description: str, total: int | None = None, enabled: bool = True, delay: float = DELAY
) -> Iterator[Bar]:
    """A bar on standard error that appears after ``delay`` seconds, and only on a terminal.

    Parameters
    ----------
    description : str
        What stands before the bar.
    total : int, optional
        Number of steps; None where it is unknown.
    enabled : bool
        False: nothing is ever shown, and rich is not imported.
    delay : float
        Seconds before the bar appears.

    Yields
    ------
    Bar
        May be used by any thread.
    """
    if not enabled:
        yield Bar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    silent = not console.is_terminal
    bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True, disable=silent)
    task = bar.add_task(description, total=total)
    timer = threading.Timer(delay, bar.start)  # a timer, because the first step may be the long one
    timer.daemon = True
    timer.start()
    try:
        yield Bar(bar, task)
    finally:
        timer.cancel()
        timer.join()  # the bar must not start after it was stopped
        bar.stop()
