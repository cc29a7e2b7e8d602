"""Emission: a plan becomes the source of one Numba module.

A stage is a loop nest over its dims with the reduced variable innermost; what its body looks like is decided in
:mod:`theorykit.codegen.body`.
"""

from __future__ import annotations

import inspect
import pprint

import sympy as sp

from theorykit.codegen import primitives
from theorykit.codegen.body import Body
from theorykit.codegen.lower import Plan, Stage
from theorykit.codegen.wellposed import require_writable
from theorykit.errors import CodegenError

__all__ = ["emit", "join_module", "layout_of", "primitive_sources", "scalar_function"]

_NAN_SAFE = 'nogil=True, cache=True, error_model="numpy", boundscheck=False'


def _stage_source(stage: Stage, plan: Plan, home: dict[sp.Symbol, tuple[int, int]]) -> tuple[str, set[str]]:
    """The function of one stage and the primitives it uses."""
    by_symbol = {v.symbol: v for v in plan.variables}
    dims_of = {o.symbol: s.dims for s in plan.stages for o in s.outputs}
    loops = stage.dims if stage.reduced is None else (*stage.dims, stage.reduced)
    inputs = _inputs(stage, home)
    loads = {}
    for symbol, (source, row) in _loaded(stage, home).items():
        index = ", ".join(f"i_{v.name}" for v in dims_of[symbol])
        loads[symbol] = (f"T_{source}[{row}, {index}]", frozenset(dims_of[symbol]))
    chunked = stage.dims[0] if stage.dims else None
    outer = by_symbol[stage.reduced].outer if stage.reduced is not None else None
    body = Body(loops, loads, plan.parameters, chunked=chunked, in_rows=True)
    separated = _separated(stage, body) if stage.reduced is not None and outer is None else None
    if outer is not None:
        kept = tuple(v for v in loops if v != outer)
        body = Body(kept, loads, plan.parameters, chunked=chunked, in_rows=True)
        nest = _below(body, stage, outer)
    elif separated is not None:
        nest = _products(body, stage, separated)
    elif stage.reduced is None:
        index = "".join(f", i_{v.name}" for v in stage.dims)
        values = [body.atom(o.integrand) for o in stage.outputs]
        nest = body.nest([f"out[{k}{index}] = {v}" for k, v in enumerate(values)])
    else:
        nest = _reduction(body, stage, stage.reduced)
    arguments = ["P", *[f"nodes_{v.name}" for v in loops]]
    if stage.reduced is not None:
        arguments.append(f"weights_{stage.reduced.name}")
    if outer is not None:
        arguments += [f"blocks_{stage.reduced.name}", f"panels_{stage.reduced.name}"]
    arguments += [f"T_{s}" for s in inputs] + ["out", "lo", "hi"]
    sizes = [f"n_{v.name} = nodes_{v.name}.shape[0]" for v in loops]
    lines = [f"def {stage.name}({', '.join(arguments)}):", *[f"    {s}" for s in sizes]]
    lines += [f"    {line}" for line in [*body.tables, *nest]]
    return _decorated(_signature(stage, plan, inputs), lines), body.used


def _below(body: Body, stage: Stage, outer: sp.Symbol) -> list[str]:
    """Running integrals over a truncated variable: values at its nodes, then one sum for every outer node."""
    if stage.dims[-1] != outer:
        raise CodegenError(f"{stage.name}: the truncated variable must hang on the innermost outer variable")
    for output in stage.outputs:
        if outer in body.depends(output.integrand) or outer in output.integrand.free_symbols:
            raise CodegenError(f"{stage.name}: the truncated integrand {output.integrand} depends on {outer}")
    body.used.add("integrate_below")
    y = stage.reduced.name
    values = [body.atom(o.integrand) for o in stage.outputs]
    innermost = [f"values_{k}[i_{y}] = {v}" for k, v in enumerate(values)]
    before = [f"values_{k} = np.empty(n_{y})" for k in range(len(values))]
    index = "".join(f", i_{v.name}" for v in stage.dims[:-1])
    arguments = f"weights_{y}, blocks_{y}, panels_{y}"
    after = [f"integrate_below(values_{k}, {arguments}, out[{k}{index}])" for k in range(len(values))]
    return body.nest(innermost, before) + ["    " * (len(stage.dims) - 1) + a for a in after]


Separated = list[list[tuple[sp.Expr, sp.Expr]]]


def _separated(stage: Stage, body: Body) -> Separated | None:
    """Integrands over two outer variables as sums of f(first, own) * g(second, own), or None."""
    if len(stage.dims) != 2:
        return None
    first, second = stage.dims
    found: Separated = []
    for output in stage.outputs:
        pairs = []
        for term in sp.Add.make_args(output.integrand):
            left, right = sp.Integer(1), sp.Integer(1)
            for factor in sp.Mul.make_args(term):
                needed = body.depends(factor)
                if first in needed and second in needed:
                    return None
                if second in needed:
                    right *= factor
                else:
                    left *= factor
            pairs.append((left, right))
        found.append(pairs)
    return found


def _products(body: Body, stage: Stage, separated: Separated) -> list[str]:
    """The reduction as matrix products of the tables of the separate factors."""
    first, second = stage.dims
    own = stage.reduced
    weights = f"weights_{own.name}"
    lines = ["out[:, lo:hi, :] = 0.0"]
    for k, pairs in enumerate(separated):
        for left, right in pairs:
            a = body.full_table(left, (first, own))
            if right == 1:
                body.used.add("add_row_sums")
                lines.append(f"add_row_sums({a}, {weights}, out[{k}], lo, hi)")
                continue
            b = body.full_table(right, (own, second))
            body.used.add("add_product")
            lines.append(f"add_product({a}, {b}, {weights}, out[{k}], lo, hi)")
    return lines


def _reduction(body: Body, stage: Stage, reduced: sp.Symbol) -> list[str]:
    """Accumulators around the innermost loop."""
    values = [body.atom(o.integrand) for o in stage.outputs]
    index = "".join(f", i_{v.name}" for v in stage.dims)
    weight = f"weights_{reduced.name}[i_{reduced.name}]"
    innermost = [f"w = {weight}"] + [f"sum_{k} += w * {v}" for k, v in enumerate(values)]
    before = [f"sum_{k} = 0.0" for k in range(len(values))]
    after = [f"out[{k}{index}] = sum_{k}" for k in range(len(values))]
    lines = body.nest(innermost, before)
    return lines + ["    " * len(stage.dims) + a for a in after]


def _loaded(stage: Stage, home: dict[sp.Symbol, tuple[int, int]]) -> dict[sp.Symbol, tuple[int, int]]:
    symbols = set().union(*[o.integrand.free_symbols for o in stage.outputs])
    return {s: home[s] for s in sorted(symbols, key=str) if s in home}


def _inputs(stage: Stage, home: dict[sp.Symbol, tuple[int, int]]) -> list[int]:
    return sorted({source for source, _ in _loaded(stage, home).values()})


def _signature(stage: Stage, plan: Plan, inputs: list[int]) -> str:
    vector = "float64[::1]"
    by_symbol = {v.symbol: v for v in plan.variables}
    types = [vector] * (1 + len(stage.dims))
    if stage.reduced is not None:
        types += [vector, vector]
        if by_symbol[stage.reduced].outer is not None:
            types += ["float64[:, ::1]", "int64[::1]"]
    types += [_array(1 + len(plan.stages[i].dims)) for i in inputs]
    types += [_array(1 + len(stage.dims)), "int64", "int64"]
    return f"void({', '.join(types)})"


def _array(rank: int) -> str:
    return "float64[" + ":, " * (rank - 1) + "::1]"


def _decorated(signature: str, lines: list[str]) -> str:
    return "\n".join([f'@njit("{signature}", {_NAN_SAFE})', *lines])


def scalar_function(
    name: str, plan: Plan, expressions: list[sp.Expr], integrals: dict[sp.Symbol, str]
) -> tuple[str, set[str]]:
    """A function of the parameters (and integrals) that fills a vector."""
    loads = {s: (text, frozenset()) for s, text in integrals.items()}
    body = Body((), loads, plan.parameters)
    values = [body.atom(e) for e in expressions]
    lines = [f"def {name}(P, integrals, out):", *[f"    {s}" for s in body.scopes[0].lines]]
    lines += [f"    out[{k}] = {v}" for k, v in enumerate(values)] or ["    pass"]
    if len(lines) == 1:
        lines.append("    pass")
    return _decorated("void(float64[::1], float64[::1], float64[::1])", lines), body.used


#: Closed observables at many parameter vectors; compiled when they are wanted, which is seldom.
_ROWS = "\n".join(
    [
        f"@njit({_NAN_SAFE})",
        "def rows(P, out, lo, hi):",
        "    none = np.empty(0)",
        "    for k in range(lo, hi):",
        "        observables(P[k], none, out[k])",
    ]
)


def emit(plan: Plan, header: str) -> str:
    """The module source of a plan: imports, the primitives it uses, stages, observables and the layout.

    Raises
    ------
    CodegenError
        an expression has no code, or two symbols cannot be told apart; the message names the observable.
    """
    require_writable(plan)
    home = {o.symbol: (i, row) for i, s in enumerate(plan.stages) for row, o in enumerate(s.outputs)}
    roots = [o.symbol for s in plan.stages if s.reduced is None for o in s.outputs]
    functions, used = [], set()
    for stage in plan.stages:
        source, names = _stage_source(stage, plan, home)
        functions.append(source)
        used |= names
    integrals = {symbol: f"integrals[{i}]" for i, symbol in enumerate(roots)}
    scalar = {"observables": (list(plan.observables.values()), integrals)}
    scalar |= {f"breakpoints_{v.name}": (list(v.breakpoints), {}) for v in plan.variables if v.breakpoints}
    for name, (expressions, loads) in scalar.items():
        source, names = scalar_function(name, plan, expressions, loads)
        functions.append(source)
        used |= names
    if not plan.stages:
        functions.append(_ROWS)
    layout = "LAYOUT = " + pprint.pformat(layout_of(plan, home), width=100, sort_dicts=True)
    return join_module(header, [*primitive_sources(used), *functions, layout])


def join_module(header: str, parts: list[str]) -> str:
    """The text of a module from its functions and its layout, parsed once to be sure."""
    imports = "import math\n\nimport numpy as np\nfrom numba import njit"
    if any(part.startswith("@compiled_once") for part in parts):
        imports += "\n\nfrom theorykit.codegen.shared import compiled_once"
    text = "\n\n\n".join([repr(header), imports, *parts]) + "\n"
    compile(text, "<generated>", "exec")
    return text


def primitive_sources(used: set[str]) -> list[str]:
    """Source of the primitives of these names and of what they need."""
    sources, done = [], set()
    for name in sorted(used):
        for item in (*primitives.NAMES[name], name):
            if item in done:
                continue
            done.add(item)
            target = getattr(primitives, item)
            if callable(target):
                options = ", ".join(f"{k}={v!r}" for k, v in primitives.options_of(item).items())
                sources.append(f"@compiled_once({options})\n" + inspect.getsource(target).rstrip())
            else:
                sources.append(f"{item} = {target!r}")
    return sources


def layout_of(plan: Plan, home: dict[sp.Symbol, tuple[int, int]]) -> dict:
    """What the runtime needs to drive the module, as plain data."""
    return {
        "name": plan.name,
        "parameters": [p.name for p in plan.parameters],
        "observables": list(plan.observables),
        "variables": [
            {
                "name": v.name,
                "measure": v.measure,
                "outer": v.outer.name if v.outer is not None else None,
                "breakpoints": len(v.breakpoints),
            }
            for v in plan.variables
        ],
        "stages": [
            {
                "function": s.name,
                "dims": [d.name for d in s.dims],
                "reduced": s.reduced.name if s.reduced is not None else None,
                "outputs": len(s.outputs),
                "inputs": _inputs(s, home),
                "parameters": _used_parameters(s, plan),
            }
            for s in plan.stages
        ],
    }


def _used_parameters(stage: Stage, plan: Plan) -> list[int]:
    """Positions of the parameters that a stage uses itself: with others, its tables stay what they are."""
    used = set().union(*[o.integrand.free_symbols for o in stage.outputs])
    return [i for i, parameter in enumerate(plan.parameters) if parameter in used]
