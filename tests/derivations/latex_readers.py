"""Readers of LaTeX: balance of braces and environments, KaTeX, pdflatex; the last two skip where not installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["ALIGN", "assert_balanced", "assert_compiles", "mathematics", "read_by_katex"]

ROOT = Path(__file__).resolve().parents[2]
ALIGN = re.compile(r"\\begin\{align\}(.*?)\\end\{align\}", re.DOTALL)


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


def mathematics(tex: str) -> list[str]:
    """Everything between mathematics delimiters of a document, without labels."""
    body = tex.split(r"\begin{document}")[1]
    found = [rf"\begin{{align}}{b}\end{{align}}" for b in ALIGN.findall(body)]
    rest = ALIGN.sub("", body).replace(r"\$", "")
    found += re.findall(r"\$([^$]+)\$", rest)
    return [re.sub(r"\\label\{[^}]*\}", "", m) for m in found]


def katex_folder() -> Path | None:
    places = [ROOT / "node_modules" / "katex", ROOT / ".ci" / "katex" / "node_modules" / "katex"]
    if "THEORYKIT_KATEX" in os.environ:
        places.insert(0, Path(os.environ["THEORYKIT_KATEX"]))
    return next((place for place in places if (place / "package.json").exists()), None)


KATEX = """
const katex = require(process.argv[1]);
const items = JSON.parse(require("fs").readFileSync(0, "utf8"));
for (const item of items) {
  katex.renderToString(item, {displayMode: true, throwOnError: true, strict: "error"});
}
console.log(items.length);
"""


def read_by_katex(items: list[str]) -> subprocess.CompletedProcess[str]:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    folder = katex_folder()
    if folder is None:
        pytest.skip("the npm package katex is not installed (node_modules, .ci/katex or THEORYKIT_KATEX)")
    command = ["node", "-e", KATEX, str(folder)]
    return subprocess.run(command, input=json.dumps(items), capture_output=True, text=True, check=False)


def assert_compiles(tex: str, folder: Path, is_neat: bool = True) -> None:
    """pdflatex makes a document of it without complaints; ``is_neat``: nor lines that stick out."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    (folder / "document.tex").write_text(tex, encoding="ascii")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "document.tex"]
    for _ in range(2):
        found = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
        )
        assert found.returncode == 0, found.stdout[-2000:]
    assert (folder / "document.pdf").exists()
    assert "undefined" not in found.stdout
    assert not is_neat or "Overfull" not in found.stdout
