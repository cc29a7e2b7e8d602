"""Independent calls, made by this process and by others beside it, whoever is free first."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

__all__ = ["finished", "processors"]

_Call = Callable[[], Any]
_Waiting = deque[tuple[int, _Call]]
_Done = queue.SimpleQueue[tuple[int, Any, BaseException | None]]


def processors() -> int:
    """Number of processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)


def finished(calls: Sequence[_Call], processes: int = 1) -> Iterator[tuple[int, Any]]:
    """The results of independent calls, as they finish.

    Parameters
    ----------
    calls : sequence of callable
        Without arguments. This process takes them from the end, the others from the front: what needs the same
        modules should be neighbours, what only this process is prepared for comes last.
    processes : int
        How many make the calls; 1: this one alone, in reverse order. With more, calls and results must pickle,
        and the main module of a script must be importable without running the script.

    Yields
    ------
    tuple of int and object
        Position of the call, and its result.

    Raises
    ------
    Exception
        The first one that a call raises; one from another process carries its traceback as a note.
    RuntimeError
        Another process died.

    Notes
    -----
    The others end with the iteration, however that ends. If this process is killed, they end after the calls that they
    are in.
    """
    waiting: _Waiting = deque(enumerate(calls))
    done: _Done = queue.SimpleQueue()
    others = [_start(waiting, done) for _ in range(min(processes, len(calls)) - 1)]
    try:
        for _ in calls:
            index, result, error = _next(waiting, done)
            if error is not None:
                raise error
            yield index, result
    finally:
        for other in others:
            other.terminate()
        for other in others:
            other.join()


def _next(waiting: _Waiting, done: _Done) -> tuple[int, Any, BaseException | None]:
    """What another process has finished, or else a call made here, or else what is still under way."""
    with contextlib.suppress(queue.Empty):
        return done.get_nowait()
    try:
        index, call = waiting.pop()
    except IndexError:
        return done.get()
    return index, call(), None


def _start(waiting: _Waiting, done: _Done) -> BaseProcess:
    """Another process, and a thread that hands it one call after the other."""
    context = multiprocessing.get_context(
        "spawn"
    )  # a fork would copy the locks of our threads, but not the threads
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,), daemon=True)
    process.start()
    there.close()  # so that the end of the process is the end of the connection
    threading.Thread(target=_lend, args=(waiting, done, here), daemon=True).start()
    return process


def _lend(waiting: _Waiting, done: _Done, connection: Connection) -> None:
    while True:
        try:
            index, call = waiting.popleft()
        except IndexError:
            return
        try:
            connection.send(call)
            result, error = connection.recv()
        except (EOFError, OSError) as ended:
            result, error = None, RuntimeError(f"a process beside this one died during {call!r}")
            error.__cause__ = ended
        except Exception as unsent:
            result, error = None, unsent
        done.put((index, result, error))


def _serve(connection: Connection) -> None:
    """Make the calls that arrive, until the process that sends them is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches us both, and the other one ends us
    while True:
        try:
            call = connection.recv()
            outcome = _outcome(call)
            connection.send(outcome)
        except (EOFError, OSError):
            return


def _outcome(call: _Call) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except Exception as error:
        error.add_note("".join(traceback.format_exception(error)))
        return None, error
