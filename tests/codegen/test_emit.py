"""The source of generated modules: deterministic, parseable, with a header and a layout, and free of pasted names."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sympy as sp

import theorykit
from theorykit.codegen import source_of
from theorykit.codegen.emit import emit
from theorykit.codegen.lower import lower
from theorykit.derivations.nodes import Expectation, HalfLine, TokenPower, TruncatedExpectation
from theorykit.derivations.special import gamma_weight
from theorykit.errors import CodegenError

ROOT = Path(theorykit.__file__).resolve().parent.parent
a, b, x, y = sp.symbols("a b x y", real=True)
n, t = sp.symbols("n t", positive=True)
ONE_TOKEN = Expectation(sp.exp(-t * sp.exp(a * x)), x)
LAPLACE = HalfLine(Expectation(gamma_weight(t * sp.exp(a * x), 1), x) * TokenPower(ONE_TOKEN, n) / t, t)

AWKWARD = [
    "lambda", "range", "P", "out", "lo", "np", "math", "v1", "E", "S", "beta", "gamma", "T_0", "for", "x'",
    "m\\kappa", "ν", "a b", "1", "'''", '"""', "a\nimport os", "__import__('os').abort()", "None",
]  # fmt: skip


def test_parses_and_has_a_header():
    source = source_of(_record(LAPLACE))
    tree = ast.parse(source)
    header = ast.get_docstring(tree)
    assert f"the equations toy by theorykit {theorykit.__version__}" in header
    assert "sympy" in header
    assert "numba" in header


def _record(expression, **options):
    from theorykit.derivations.ledger import Equations, Quantity

    free = sorted(expression.free_symbols, key=lambda s: s.name)
    symbols = tuple(Quantity(s, f"p_{i}", "parameter") for i, s in enumerate(free))
    return Equations(options.pop("name", "toy"), symbols, {}, {"value": expression}, **options)


def test_layout_says_how_to_drive_it():
    tree = ast.parse(source_of(_record(LAPLACE + b)))
    layout = ast.literal_eval(tree.body[-1].value)
    assert layout["name"] == "toy"
    assert layout["parameters"] == ["a", "b", "n"]
    assert layout["observables"] == ["value"]
    measures = {v["name"]: v["measure"] for v in layout["variables"]}
    assert measures == {"log_t": "half_line", "x": "gaussian"}
    inner, root = layout["stages"]
    assert (inner["dims"], inner["reduced"], inner["outputs"]) == (["log_t"], "x", 3)
    assert (root["dims"], root["reduced"], root["inputs"]) == (["log_t"], None, [0])
    functions = {f.name: f for f in tree.body if isinstance(f, ast.FunctionDef)}
    assert {s["function"] for s in layout["stages"]} <= set(functions)
    for stage in layout["stages"]:
        assert functions[stage["function"]].args.args[0].arg == "P"


def test_truncated_variables_name_their_outer_one():
    below = TruncatedExpectation(sp.exp(a * y), y, x)
    tree = ast.parse(source_of(_record(Expectation(below**2, x), breakpoints={x: (a, -a)})))
    variables = {v["name"]: v for v in ast.literal_eval(tree.body[-1].value)["variables"]}
    assert (variables["y"]["measure"], variables["y"]["outer"]) == ("truncated", "x")
    assert (variables["x"]["breakpoints"], variables["y"]["breakpoints"]) == (2, 0)


def test_breakpoints_of_truncated_variables_are_kept():
    below = TruncatedExpectation(sp.Abs(y - a), y, x)
    tree = ast.parse(source_of(_record(Expectation(below, x), breakpoints={y: (a,)})))
    variables = {v["name"]: v["breakpoints"] for v in ast.literal_eval(tree.body[-1].value)["variables"]}
    assert variables == {"x": 0, "y": 1}


def test_parameters_of_breakpoints_are_parameters(record_of):
    record = record_of(value=Expectation(sp.Max(x, 0), x), breakpoints={x: (a - b,)})
    assert ast.literal_eval(ast.parse(source_of(record)).body[-1].value)["parameters"] == ["a", "b"]


def test_breakpoints_of_half_lines_are_refused():
    record = _record(HalfLine(sp.exp(-a * t), t), breakpoints={t: (a,)})
    with pytest.raises(CodegenError, match="a half-line variable has no breakpoints, t is given some"):
        source_of(record)


def test_parameters_are_arguments():
    """Neither a value nor a name of a parameter is in the code: a sweep has nothing to recompile."""
    record = _record(LAPLACE + b)
    renamed = {a: sp.Symbol("first", real=True), b: sp.Symbol("second", real=True), n: sp.Symbol("third")}
    other = _record(
        (LAPLACE + b).xreplace({k: sp.Symbol(v.name, **k.assumptions0) for k, v in renamed.items()})
    )

    def body(source):
        return source[: source.index("LAYOUT")]

    assert body(source_of(record)) == body(source_of(other))


SCRIPT = """
import hashlib, sys
import sympy as sp
filler = [sp.Symbol(f"filler_{i}") * i for i in range(int(sys.argv[1]))]
from theorykit import derivations
from theorykit.codegen import source_of
names = [
    ("single_location.normalized_moments", dict(task="max", kernel="softplus(x)")),
    ("single_location.normalized_moments", dict(task="max_infinite", kernel="exp(x)", aligned=True)),
    ("single_location.elementwise_moments", dict(task="spiked", activation="relu(x) + gelu(x)")),
]
if sys.argv[2] == "reversed":
    names.reverse()
sources = {repr(n): source_of(derivations.get(n[0], **n[1]).equations) for n in names}
print(hashlib.sha256("".join(sources[k] for k in sorted(sources)).encode()).hexdigest())
"""


def test_source_is_the_same_in_every_process():
    """Whatever the hash seed, the order of creation and the symbols made before."""
    found = set()
    for seed, fillers, order in (("0", "0", "straight"), ("1", "17", "reversed"), ("4242", "3", "straight")):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, fillers, order],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout.strip())
    assert len(found) == 1


class TestNames:
    @pytest.mark.parametrize("name", AWKWARD, ids=repr)
    def test_any_name_of_a_parameter_is_usable(self, name, record_of, interpreted):
        symbol = sp.Symbol(name, real=True)
        call = interpreted(record_of(value=sp.exp(symbol) + 2 * b * symbol))
        assert call(**{name: 0.5, "b": 3.0})["value"] == pytest.approx(1.6487212707001282 + 3.0)

    @pytest.mark.parametrize("name", AWKWARD, ids=repr)
    def test_any_name_of_a_record_or_observable_is_usable(self, name, record_of, interpreted):
        record = record_of(name, **{name: a + 1})
        tree = ast.parse(source_of(record))
        assert name in ast.get_docstring(tree, clean=False)
        kinds = [type(node) for node in tree.body]
        expected = [ast.Expr, ast.Import, ast.Import, ast.ImportFrom, *2 * [ast.FunctionDef], ast.Assign]
        assert kinds == expected
        assert interpreted(record)(a=2) == {name: 3.0}

    @pytest.mark.parametrize("name", AWKWARD, ids=repr)
    def test_names_of_bound_variables_are_usable_or_refused(self, name):
        """They become parts of names in the code: an identifier works, anything else is refused."""
        symbol = sp.Symbol(name, real=True)
        record = _record(Expectation(sp.exp(a * symbol), symbol))
        if name.isidentifier() and name.isascii():
            layout = ast.literal_eval(ast.parse(source_of(record)).body[-1].value)
            assert layout["variables"][0]["name"] == name
        else:
            with pytest.raises(CodegenError, match=r"toy: the bound variable .* cannot be named"):
                source_of(record)

    def test_half_line_variables_too(self):
        symbol = sp.Symbol("t; import os", positive=True)
        with pytest.raises(CodegenError, match=r"bound variable 'log_t; import os' cannot be named"):
            source_of(_record(HalfLine(sp.exp(-a * symbol), symbol)))

    def test_two_parameters_of_one_name(self):
        other = sp.Symbol("a", positive=True)
        with pytest.raises(CodegenError, match="toy: two parameters are called 'a'"):
            emit(lower(_record(a + other)), "header")

    def test_two_variables_of_one_name(self):
        other = sp.Symbol("x")
        expression = Expectation(sp.exp(a * x), x) + Expectation(other**2, other)
        with pytest.raises(CodegenError, match="toy: two bound variables are called 'x'"):
            source_of(_record(expression))

    @pytest.mark.parametrize("symbol", [sp.Symbol("T0"), sp.Symbol("log_t", real=True)], ids=str)
    def test_a_parameter_that_looks_like_a_symbol_of_the_code(self, symbol):
        """It is kept apart or refused; it must not be taken for a table or for the variable of an integral."""
        with pytest.raises(CodegenError, match=f"called '{symbol}'; rename one"):
            source_of(_record(HalfLine(sp.exp(-t * (1 + symbol**2)), t)))
