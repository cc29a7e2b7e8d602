"""What the command line does about errors and warnings: one line on standard error, and an exit code."""

from __future__ import annotations

import warnings
from typing import Any

import typer
from typer.core import TyperGroup

from theorykit.errors import ConvergenceError, TheorykitError

__all__ = ["BAD_INPUT", "FAILED", "NOT_CONVERGED", "Verbs"]

FAILED, BAD_INPUT, NOT_CONVERGED = 1, 2, 3


class Verbs(TyperGroup):
    """The group of all verbs.  Errors a user can mend become messages, unless ``--traceback`` is given."""

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            try:
                return super().invoke(ctx)
            except ConvergenceError as error:
                self._refuse(ctx, "no convergence", error, NOT_CONVERGED)
            except BrokenPipeError:
                raise  # the reader has seen enough (`| head`): typer ends quietly
            except (TheorykitError, ValueError, TypeError, OSError) as error:
                self._refuse(ctx, "error", error, BAD_INPUT)

    @staticmethod
    def _refuse(ctx: Any, kind: str, error: Exception, code: int) -> None:
        if ctx.params.get("traceback"):
            raise error
        typer.echo(f"theorykit: {kind}: {error}", err=True)
        raise typer.Exit(code) from error


def _show_warning(message: Warning | str, *_: Any) -> None:
    typer.echo(f"theorykit: warning: {message}", err=True)
