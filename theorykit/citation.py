"""How to cite theorykit, and the papers its theories come from."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["cite"]


@dataclass(frozen=True)
class _Entry:
    """One BibTeX entry: its kind, key and fields in the order of printing."""

    kind: str
    key: str
    fields: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.fields)
        lines = [f"  {name:<{width}} = {{{value}}}," for name, value in self.fields]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])


_PAPERS = (
    _Entry(
        "misc",
        "duranthon2025softmax",
        (
            ("title", "Statistical Advantage of Softmax Attention: Insights from Single-Location Regression"),
            ("author", "Duranthon, O. and Marion, P. and Boyer, C. and Loureiro, B. and Zdeborov{\\'a}, L."),
            ("year", "2025"),
            ("eprint", "2509.21936"),
            ("archiveprefix", "arXiv"),
            ("note", "Theory single\\_location of theorykit"),
        ),
    ),
)


def cite() -> str:
    """BibTeX of theorykit and of the papers whose theories it contains.

    Returns
    -------
    str
        One entry for the package, then one per paper.  Please cite the papers of the theories you use.

    Examples
    --------
    >>> print(cite().splitlines()[0])
    @software{theorykit,
    """
    import theorykit

    package = _Entry(
        "software",
        "theorykit",
        (
            (
                "title",
                "theorykit: solvable models of attention, from a derivation to audited curves",
            ),
            ("author", "{The theorykit developers}"),
            ("version", theorykit.__version__),
            ("license", "BSD-3-Clause"),
        ),
    )
    return "\n\n".join(map(str, (package, *_PAPERS))) + "\n"
