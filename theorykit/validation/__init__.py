"""Independent truth: simulators and reports that set a theory beside a simulation of the model itself.

`simulate` samples a model directly from its definition and shares no code with any theory; `compare` turns
pairs (theory, simulation) into z-scores and a verdict; `report` writes them as Markdown, HTML and a figure.
"""

from __future__ import annotations

__all__: list[str] = []

# The folder is also reachable through a link named `validation` at the top of the repository. Imported
# through it, every class would exist twice under different names, so that import is refused.
if not __name__.startswith("theorykit."):
    raise ImportError("import theorykit.validation")
