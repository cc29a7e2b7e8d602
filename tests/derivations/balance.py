"""LaTeX whose braces, fences and environments match."""

from __future__ import annotations

import re

__all__ = ["assert_balanced"]


def assert_balanced(tex: str) -> None:
    plain = re.sub(r"\\[{}]", "", tex)
    depth = 0
    for character in plain:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    for row in tex.split("\n"):
        assert len(re.findall(r"\\left\b", row)) == len(re.findall(r"\\right\b", row)), row
    for size in ("Big", "bigg"):
        assert tex.count(rf"\{size}l") == tex.count(rf"\{size}r")
    opened = re.findall(r"\\(begin|end)\{(\w+\*?)\}", tex)
    stack: list[str] = []
    for kind, name in opened:
        if kind == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert not stack
