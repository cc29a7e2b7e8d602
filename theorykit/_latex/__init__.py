"""Parts of the LaTeX export: text, mathematics, and how long equations are broken into lines."""

from __future__ import annotations

__all__: list[str] = []
