"""Plain text as LaTeX text: nothing a reason or a meaning says is taken for a command."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["escaped", "slug"]

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    '"': "''",
    "–": "--",
    "—": "---",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
    "…": r"\dots{}",
    "§": r"\mathhexbox278{}",  # \S would need a font that minimal installations lack
    "ß": r"\ss{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "æ": r"\ae{}",
    "å": r"\aa{}",
    "Å": r"\AA{}",
    "ı": r"\i{}",
    "\n": " ",
    "\t": " ",
    "\u00a0": "~",
}

_MATH = {
    "×": r"\times",
    "·": r"\cdot",
    "−": "-",
    "±": r"\pm",
    "≤": r"\le",
    "≥": r"\ge",
    "≠": r"\ne",
    "≈": r"\approx",
    "≃": r"\simeq",
    "∼": r"\sim",
    "∝": r"\propto",
    "∞": r"\infty",
    "√": r"\surd",
    "∫": r"\int",
    "∑": r"\sum",
    "∂": r"\partial",
    "∇": r"\nabla",
    "∈": r"\in",
    "→": r"\to",
    "⇒": r"\Rightarrow",
    "↦": r"\mapsto",
    "⟂": r"\perp",
    "½": r"\tfrac12",
    "¼": r"\tfrac14",
    "ℝ": r"\mathbb{R}",
    "𝔼": r"\mathbb{E}",
    "°": r"^\circ",
    "ϕ": r"\phi",
    "φ": r"\varphi",
    "ε": r"\epsilon",
    "ς": r"\varsigma",
    "ο": "o",
}

_ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0327": "c",
    "\u0328": "k",
}


def escaped(text: str) -> str:
    """Text with everything escaped that LaTeX would read as a command; Greek and signs become mathematics.

    Raises
    ------
    ValueError
        A character that plain LaTeX cannot print; the message says which and where.
    """
    return "".join(_character(c, text) for c in unicodedata.normalize("NFC", text))


def _character(character: str, text: str) -> str:
    if character in _SPECIAL:
        return _SPECIAL[character]
    if character in _MATH:
        return f"${_MATH[character]}$"
    if " " <= character <= "~":
        return character
    name = unicodedata.name(character, "")
    greek = re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER ([A-Z]+)", name)
    if greek:
        return _greek(greek[2].replace("LAMDA", "LAMBDA").lower(), greek[1] == "CAPITAL")
    script = re.fullmatch(r"(SUPERSCRIPT|SUBSCRIPT) (.*)", name)
    if script and (inner := unicodedata.normalize("NFKC", character).replace("−", "-")).isascii():
        return f"${'^' if script[1] == 'SUPERSCRIPT' else '_'}{{{inner}}}$"
    base, *marks = list(unicodedata.normalize("NFD", character))
    if marks and base.isascii() and all(mark in _ACCENTS for mark in marks):
        for mark in marks:
            base = rf"\{_ACCENTS[mark]}{{{base}}}"
        return base
    raise ValueError(f"LaTeX text cannot hold {character!r} (U+{ord(character):04X} {name}) in {text!r}")


_LIKE_LATIN = {
    "alpha": "A",
    "beta": "B",
    "epsilon": "E",
    "zeta": "Z",
    "eta": "H",
    "iota": "I",
    "kappa": "K",
    "mu": "M",
    "nu": "N",
    "omicron": "O",
    "rho": "P",
    "tau": "T",
    "chi": "X",
}


def _greek(name: str, is_capital: bool) -> str:
    if is_capital and name in _LIKE_LATIN:
        return rf"$\mathrm{{{_LIKE_LATIN[name]}}}$"
    return rf"$\{name.capitalize() if is_capital else name}$"


def slug(text: str) -> str:
    """A name as part of a label: lower-case letters, digits and hyphens."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-") or "x"
