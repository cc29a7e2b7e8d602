"""A process with one request: run by the cache tests, several times, at once, and on damaged folders.

Prints the bits of the answer, the counters of ``theorykit.codegen.status`` and the packages that were imported.
"""

from __future__ import annotations

import json
import sys
import warnings

OBSERVABLES = ("second_moment",)
POINTS = tuple({"a": a, "L": length} for a in (0.3, 1.0, 2.0) for length in (2.0, 50.0))


def derive():
    """E p**2 of the weight p = 1/(1 + (L - 1) exp(a x)) of one token among L: small, because it is compiled often."""
    import sympy as sp

    from theorykit.derivations.ledger import Equations, Quantity
    from theorykit.derivations.nodes import Expectation

    a, length = sp.Symbol("a", real=True), sp.Symbol("L", positive=True)
    x = sp.Symbol("x", real=True)
    value = Expectation((1 + (length - 1) * sp.exp(a * x)) ** -2, x)
    symbols = (Quantity(a, "a", "slope"), Quantity(length, "L", "number of tokens"))
    return Equations("toy_weights", symbols, {}, {OBSERVABLES[0]: value})


def program():
    """The program of the request, by way of the index."""
    from theorykit.codegen import load

    return load("toy", (("kernel", "exp(x)"),), derive, OBSERVABLES)


def answer():
    """Values and errors as exact text."""
    found = [program().values(point)["second_moment"] for point in POINTS]
    return [(float(e).hex(), e.error.hex()) for e in found]


if __name__ == "__main__":
    from theorykit.codegen import status

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values = answer()
        print(
            json.dumps(
                {
                    "values": values,
                    "status": status(),
                    "sympy": "sympy" in sys.modules,
                    "warnings": [f"{w.category.__name__}: {w.message}" for w in caught],
                }
            )
        )
