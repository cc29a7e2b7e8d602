"""Roughly how wide a formula is on paper, in characters: what decides where it is broken."""

from __future__ import annotations

import re

__all__ = ["visual_width"]

_TOKENS = re.compile(r"\\[A-Za-z]+|\\.|.", re.DOTALL)
_INVISIBLE = {
    *r"\left \right \mathbb \mathrm \mathcal \mathbf \operatorname \text \limits \displaystyle".split(),
    *r"\Bigl \Bigr \biggl \biggr \! \, \: \;".split(),
    r"\ ",
    " ",
    "&",
}
_WORDS = {r"\exp", r"\log", r"\sin", r"\cos", r"\tan", r"\max", r"\min", r"\sinh", r"\cosh", r"\tanh"}
_SCRIPT = 0.7


def visual_width(tex: str) -> float:
    """Width of a formula: fractions count their wider part, scripts seven tenths, commands one character."""
    tokens = _TOKENS.findall(tex)
    width, _ = _sequence(tokens, 0)
    return width


def _sequence(tokens: list[str], position: int) -> tuple[float, int]:
    """Width up to the brace that closes the group, and the position after it."""
    total = 0.0
    while position < len(tokens) and tokens[position] != "}":
        if tokens[position] in "^_":
            width, position = _scripts(tokens, position)
        else:
            width, position = _item(tokens, position)
        total += width
    return total, position + 1


def _scripts(tokens: list[str], position: int) -> tuple[float, int]:
    """A lower and an upper index stand above each other."""
    widest = 0.0
    while position < len(tokens) and tokens[position] in "^_":
        width, position = _item(tokens, position + 1)
        widest = max(widest, _SCRIPT * width)
    return widest, position


def _item(tokens: list[str], position: int) -> tuple[float, int]:
    if position >= len(tokens):
        return 0.0, position
    token = tokens[position]
    if token == "{":
        return _sequence(tokens, position + 1)
    if token == r"\frac":
        upper, position = _item(tokens, position + 1)
        lower, position = _item(tokens, position)
        return max(upper, lower) + 0.5, position
    if token in (r"\begin", r"\end"):
        _, position = _item(tokens, position + 1)
        return 0.0, position
    if token in _INVISIBLE:
        return 0.0, position + 1
    if token in _WORDS:
        return 3.0, position + 1
    return (2.0 if token in "+-=" else 1.0), position + 1
