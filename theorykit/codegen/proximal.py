"""Emission of proximal solvers: a record of a sample problem becomes a module that minimizes it at every node.

Input: the observables of :mod:`theorykit.derivations.single_location.erm` (energy in sums of statistics,
statistics of one token, law of the fields). Output: the source of a module with ``minimize_nodes``; derivatives
are taken here, by SymPy. The loops are the template of :mod:`theorykit.numerics.proximal`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import sympy as sp

from theorykit.codegen.body import Body
from theorykit.codegen.emit import join_module, primitive_sources
from theorykit.codegen.rewrite import stabilize
from theorykit.numerics.dual import TEMPLATE as DUAL
from theorykit.numerics.proximal import ATTEND, CHUNK, MINIMIZE

if TYPE_CHECKING:
    from theorykit.derivations.ledger import Equations

__all__ = ["ScalarFunctions", "emit_proximal"]

_PLAIN = '@njit(nogil=True, error_model="numpy")'


class ScalarFunctions:
    """Scalar functions of one module and the primitives they use."""

    def __init__(self, parameters: tuple[sp.Symbol, ...]) -> None:
        self.parameters = parameters
        self.functions: list[str] = []
        self.used: set[str] = set()

    def add(
        self,
        signature: str,
        arguments: dict[sp.Symbol, str],
        expressions: Sequence[sp.Expr],
        store: Callable[[int, str], str] | None = None,
    ) -> None:
        """A function that returns its values, or stores each of them."""
        loads = {s: (text, frozenset()) for s, text in arguments.items()}
        body = Body((), loads, self.parameters)
        values = [body.atom(stabilize(e)) for e in expressions]
        self.used |= body.used
        lines = [_PLAIN, f"def {signature}:", *[f"    {line}" for line in body.scopes[0].lines]]
        if store is None:
            lines.append(f"    return {', '.join(values)}")
        else:
            lines += [f"    {store(i, v)}" for i, v in enumerate(values)]
        self.functions.append("\n".join(lines))


def emit_proximal(record: Equations, header: str, dual: Equations | None = None) -> str:
    """Source of the module that minimizes the sample problem of a record, through its dual where there is one."""
    expressions = record.observables
    symbol = {q.symbol.name: q.symbol for q in record.symbols}
    chi, omega, label = symbol["chi"], symbol["omega_v"], symbol["label"]
    statistics = [expressions[f"statistic_{i}"] for i in range(3)]
    sums = [sp.Symbol(f"S_{i}", real=True) for i in range(3)]
    kept = [i for i in range(3) if not statistics[i].is_number]  # a constant statistic is no variable
    statistics, sums = [statistics[i] for i in kept], [sums[i] for i in kept]
    parameters = tuple(
        symbol[n] for n in ("m_k", "q_k", "V_k", "m_v", "q_v", "V_v", "noise", "shift") if n in symbol
    )
    emitter = ScalarFunctions(parameters)
    token = {chi: "x", omega: "w"}
    state = {s: f"S[{j}]" for j, s in enumerate(sums)} | {label: "y"}
    count = len(sums)
    add = emitter.add
    add("token_values(x, w, P, S)", token, statistics, lambda j, v: f"S[{j}] += {v}")
    slopes = [sp.diff(s, chi) for s in statistics] + [sp.diff(s, chi, 2) for s in statistics]
    add("token_slopes(x, w, P, first, second)", token, slopes,
        lambda j, v: f"{'first' if j < count else 'second'}[{j % count}] = {v}")  # fmt: skip
    mixed = [sp.diff(s, omega) for s in statistics] + [sp.diff(s, omega, chi) for s in statistics]
    add("token_mixed(x, w, P, plain, mixed)", token, mixed,
        lambda j, v: f"{'plain' if j < count else 'mixed'}[{j % count}] = {v}")  # fmt: skip
    energy = expressions["energy"]
    add("energy_value(S, y, P)", state, [energy])
    curvature = [sp.diff(energy, s) for s in sums]
    curvature += [sp.diff(energy, s, t) for s in sums for t in sums]
    add("energy_slopes(S, y, P, G, GG)", state, curvature,
        lambda j, v: f"{f'G[{j}]' if j < count else f'GG[{j // count - 1}, {j % count}]'} = {v}")  # fmt: skip
    add("sample_loss(S, y, P)", state, [expressions["sample_loss"]])
    add("response_v(S, x, w, y, P)", state | token, [expressions["response_v"]])
    add("field_k(z, eta, P)", {symbol["truth_k"]: "z", symbol["noise_k"]: "eta"}, [expressions["field_k"]])
    add("field_v(h, P)", {symbol["gauss_v"]: "h"}, [expressions["field_v"]])
    add("label_mean(w, P)", {omega: "w"}, [expressions["label_mean"]])
    add("label_spread(P)", {}, [expressions["label_spread"]])
    add("attention(S, x, P)", state | {chi: "x"}, [expressions["weight"], expressions["weight_square"]])
    constants = [f"J = {count}", f"I_V_K = {parameters.index(symbol['V_k'])}", f"CHUNK = {CHUNK}"]
    loops = MINIMIZE + ATTEND
    if dual is not None:
        constants.append(f"I_V_V = {parameters.index(symbol['V_v'])}")
        _add_dual(emitter, dual)
        loops = DUAL + ATTEND
    layout = {
        "name": record.name,
        "parameters": [p.name for p in parameters],
        "observables": [],
        "stages": [],
    }
    parts = [
        "\n".join(constants), *primitive_sources(emitter.used), *emitter.functions, loops.strip(),
        f"LAYOUT = {layout!r}",
    ]  # fmt: skip
    return join_module(header, parts)


def _add_dual(emitter: ScalarFunctions, record: Equations) -> None:
    """The dual function with its derivatives in the residual and in the sums over tokens."""
    symbol = {q.symbol.name: q.symbol for q in record.symbols}
    r, sums = symbol["r"], [symbol[n] for n in "ABC"]
    value = record.observables["dual"]
    arguments = {r: "r", symbol["label"]: "y"} | {s: s.name for s in sums}
    slopes = [sp.diff(value, s) for s in sums]
    derivatives = [sp.diff(value, r), sp.diff(value, r, 2), *slopes, *[sp.diff(s, r) for s in slopes]]
    emitter.add("dual(r, y, A, B, C, P)", arguments, derivatives)
    emitter.add("dual_value(r, y, A, B, C, P)", arguments, [value])
