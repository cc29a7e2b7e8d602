"""Options that would change nothing, of another theory or without their partner, are refused."""

from __future__ import annotations

import typer

__all__ = ["refuse_foreign", "refuse_without"]

_OWN = {
    "single_location": (
        *("nu", "length", "task", "noise", "activation", "kernel", "shift", "bayes", "excess"),
        *("m_k", "q_k", "m_v", "q_v", "m_kv", "m_vk", "q_kv", "alpha", "ridge_k", "ridge_v", "workers"),
    ),
    "interpolation": (
        *("ratio", "ridge", "signal", "aligned", "overlaps", "label_mean", "square_variance"),
        *("diagonal", "centering", "degrees_of_freedom", "over"),
    ),
}  # parameters of verbs; what is in neither list serves both


def refuse_foreign(context: typer.Context, theory: str) -> None:
    """Refuse options that were given and belong to a theory other than ``theory``.

    Raises
    ------
    ValueError
        Naming the options and the theory they belong to.
    """
    for other, names in _OWN.items():
        if other == theory:
            continue
        spelled = {parameter.name: parameter.opts[0] for parameter in context.command.params}
        given = [spelled[name] for name in names if name in spelled and _was_given(context, name)]
        if given:
            verb = "belongs" if len(given) == 1 else "belong"
            here, there = theory.replace("_", "-"), other.replace("_", "-")
            raise ValueError(f"{', '.join(given)} {verb} to {there}, not to {here}")


def refuse_without(context: typer.Context, needed: str, *names: str) -> None:
    """Refuse options that say nothing without the option ``needed``, which is absent.

    Raises
    ------
    ValueError
        Naming the first of them that was given, and the one that is missing.
    """
    for parameter in context.command.params:
        if parameter.name in names and _was_given(context, str(parameter.name)):
            raise ValueError(f"{parameter.opts[0]} needs {needed}")


def _was_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
