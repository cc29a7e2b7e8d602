"""Arithmetic that the compiler does for several nodes at once: against 50 digits, the same bits wherever a node is."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest

from theorykit.codegen import primitives
from theorykit.codegen.emit import join_module, primitive_sources

EPS = 2.0**-52
NAMES = ("exponential", "one_minus_exponential")
LOOP = """@njit("void(float64[::1], float64[::1])")
def {name}_loop(x, out):
    for i in range(x.shape[0]):
        out[i] = {name}(x[i])"""


@pytest.fixture(scope="module")
def compiled():
    """``compiled[name]``: the function over an array, and the product of tables."""
    sources = primitive_sources({*NAMES, "add_product"})
    loops = [LOOP.format(name=name) for name in NAMES]
    namespace = {}
    exec(compile(join_module("lanes", [*sources, *loops]), "<lanes>", "exec"), namespace)

    def over(loop):
        def call(x):
            out = np.empty(len(x))
            loop(np.ascontiguousarray(x, dtype=float), out)
            return out

        return call

    found = {name: over(namespace[f"{name}_loop"]) for name in NAMES}
    return found | {"add_product": namespace["add_product"]}


def _points():
    spread = np.random.default_rng(3).uniform(-1, 1, 400)
    close = 10.0 ** np.linspace(-300, 0, 40)
    return np.concatenate(
        [700 * spread, 0.4 * spread, close, -close, [0.0, 707.999, -707.999, 0.5 * math.log(2)]]
    )


@pytest.mark.parametrize("name", NAMES)
def test_within_the_last_bit(name, compiled):
    x = _points()
    with mpmath.workdps(50):
        truth = [mpmath.exp(v) if name == "exponential" else -mpmath.expm1(-v) for v in map(mpmath.mpf, x)]
        for found in (compiled[name](x), [getattr(primitives, name)(v) for v in x.tolist()]):
            worst = max(abs(f - t) / abs(t) if t else abs(f) for f, t in zip(found, truth, strict=True))
            assert worst < 1.25 * EPS


@pytest.mark.parametrize("name", NAMES)
def test_the_bits_do_not_depend_on_the_place(name, compiled):
    x = _points()
    whole = compiled[name](x)
    for start in range(9):
        for size in (1, 3, 4, 17, 64):
            assert np.array_equal(compiled[name](x[start : start + size]), whole[start : start + size])


def test_beyond_the_range(compiled):
    found = compiled["exponential"]([-math.inf, -1e9, -708.5, 709.9, 1e9, math.inf])
    assert found.tolist() == [0.0, 0.0, 0.0, math.inf, math.inf, math.inf]
    assert compiled["one_minus_exponential"]([math.inf, 1e300, 709.0]).tolist() == [1.0, 1.0, 1.0]
    assert compiled["one_minus_exponential"]([-1e9, -math.inf]).tolist() == [-math.inf, -math.inf]
    for name in NAMES:
        assert np.isnan(compiled[name]([1.0, math.nan])).tolist() == [False, True]


@pytest.mark.parametrize(("rows", "terms", "columns"), [(1, 1, 1), (2, 4, 3), (5, 11, 17), (8, 16, 64)])
def test_products_of_tables(rows, terms, columns, compiled):
    """Whichever rows are computed together, the bits are the same."""
    generator = np.random.default_rng(rows)
    left, right = generator.normal(size=(rows, terms)), generator.normal(size=(terms, columns))
    weights = generator.uniform(size=terms)
    whole = np.zeros((rows, columns))
    compiled["add_product"](left, right, weights, whole, 0, rows)
    np.testing.assert_allclose(whole, (left * weights) @ right, rtol=0, atol=8 * terms * EPS)
    for parts in ([0, rows // 2, rows], list(range(rows + 1))):
        pieces = np.zeros((rows, columns))
        for lo, hi in itertools.pairwise(parts):
            compiled["add_product"](left, right, weights, pieces, lo, hi)
        assert np.array_equal(pieces, whole)
