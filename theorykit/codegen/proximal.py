"""Emission of proximal solvers: a record of a sample problem becomes a module that minimizes it at every node.

Input: the observables of :mod:`theorykit.derivations.single_location.erm` (energy in sums of statistics,
statistics of one token, law of the fields), and those of its Newton's method or of its dual. Output: the source of
a module with ``minimize_nodes``; derivatives of energy and statistics are taken here, by SymPy. The loops are the
templates of :mod:`theorykit.numerics.proximal` and :mod:`theorykit.numerics.dual`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import sympy as sp

from theorykit.codegen.body import Body
from theorykit.codegen.emit import join_module, primitive_sources
from theorykit.codegen.rewrite import stabilize
from theorykit.errors import CodegenError
from theorykit.numerics.dual import TEMPLATE as DUAL
from theorykit.numerics.proximal import ATTEND, CHUNK, MINIMIZE

if TYPE_CHECKING:
    from theorykit.derivations.ledger import Equations

__all__ = ["ScalarFunctions", "emit_proximal", "varying_statistics"]

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


def emit_proximal(
    record: Equations, header: str, newton: Equations | None = None, dual: Equations | None = None
) -> str:
    """Source of the module that minimizes the sample problem of a record.

    By Newton's method, for which ``newton`` is the record of as many statistics as are not constant, or through
    its ``dual`` where one is given.
    """
    if (newton is None) == (dual is None):
        raise CodegenError("a sample problem is minimized either by Newton's method or through its dual")
    symbol = {q.symbol.name: q.symbol for q in record.symbols}
    parameters = tuple(
        symbol[n] for n in ("m_k", "q_k", "V_k", "m_v", "q_v", "V_v", "noise", "shift") if n in symbol
    )
    emitter = ScalarFunctions(parameters)
    count = _add_sample(emitter, record, symbol, newton is not None)
    constants = [f"J = {count}", f"CHUNK = {CHUNK}"]
    if newton is not None:
        _add_newton(emitter, newton, count)
        loops = MINIMIZE + ATTEND
    else:
        assert dual is not None
        constants += [f"I_{n.upper()} = {parameters.index(symbol[n])}" for n in ("V_k", "V_v")]
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


def _add_sample(
    emitter: ScalarFunctions, record: Equations, symbol: dict[str, sp.Symbol], derivatives: bool
) -> int:
    """Law of the fields, statistics, energy and penalty of a sample; how many statistics are not constant."""
    expressions, add = record.observables, emitter.add
    chi, omega, label = symbol["chi"], symbol["omega_v"], symbol["label"]
    kept = varying_statistics(record)  # a constant statistic is no variable
    statistics = [expressions[f"statistic_{i}"] for i in kept]
    sums = [sp.Symbol(f"S_{i}", real=True) for i in kept]
    token = {chi: "x", omega: "w"}
    state = {s: f"S[{j}]" for j, s in enumerate(sums)} | {label: "y"}
    count = len(sums)
    add("token_values(x, w, P, S)", token, statistics, lambda j, v: f"S[{j}] += {v}")
    add("field_k(z, eta, P)", {symbol["truth_k"]: "z", symbol["noise_k"]: "eta"}, [expressions["field_k"]])
    add("field_v(h, P)", {symbol["gauss_v"]: "h"}, [expressions["field_v"]])
    add("label_mean(w, P)", {omega: "w"}, [expressions["label_mean"]])
    add("label_spread(P)", {}, [expressions["label_spread"]])
    add("attention(S, x, P)", state | {chi: "x"}, [expressions["weight"], expressions["weight_square"]])
    if not derivatives:
        return count

    def two_kinds(first: str, second: str) -> Callable[[int, str], str]:
        return lambda j, v: f"{first if j < count else second}[{j % count}] = {v}"

    slopes = [sp.diff(s, chi) for s in statistics] + [sp.diff(s, chi, 2) for s in statistics]
    add("token_slopes(x, w, P, first, second)", token, slopes, two_kinds("first", "second"))
    mixed = [sp.diff(s, omega) for s in statistics] + [sp.diff(s, omega, chi) for s in statistics]
    add("token_mixed(x, w, P, plain, mixed)", token, mixed, two_kinds("plain", "mixed"))
    energy = expressions["energy"]
    add("energy_value(S, y, P)", state, [energy])
    curvature = [sp.diff(energy, s) for s in sums]
    curvature += [sp.diff(energy, s, t) for s in sums for t in sums]
    add("energy_slopes(S, y, P, G, GG)", state, curvature,
        lambda j, v: f"{f'G[{j}]' if j < count else f'GG[{j // count - 1}, {j % count}]'} = {v}")  # fmt: skip
    penalty, place = expressions["penalty"], {chi: "x", symbol["omega_k"]: "at"}
    add("penalty_value(x, at, P)", place, [penalty])
    add("penalty_slope(x, at, P)", place, [sp.diff(penalty, chi)])
    add("sample_loss(S, y, P)", state, [expressions["sample_loss"]])
    add("response_v(S, x, w, y, P)", state | token, [expressions["response_v"]])
    return count


def varying_statistics(record: Equations) -> list[int]:
    """Numbers of the statistics of a record that depend on the fields."""
    return [i for i in range(3) if not record.observables[f"statistic_{i}"].is_number]


def _add_newton(emitter: ScalarFunctions, record: Equations, count: int) -> None:
    """Hessian, elimination of a token, and derivatives of the responses."""
    symbol, found, add = {q.symbol.name: q.symbol for q in record.symbols}, record.observables, emitter.add

    def vector(stem: str, text: str) -> dict[sp.Symbol, str]:
        names = [(f"{stem}_{j}", f"{text}[{j}]") for j in range(count)]
        return {symbol[n]: t for n, t in names if n in symbol}

    pairs = [(i, j) for i in range(count) for j in range(i, count)]

    def matrix(stem: str) -> dict[sp.Symbol, str]:
        return {symbol[f"{stem}_{i}{j}"]: f"{stem}[{i}, {j}]" for i, j in pairs}

    u, w = vector("u", "u"), vector("w", "w")
    add("response_key(G, u, P)", vector("G", "G") | u, [found["response_k"]])
    add("diagonal(G, c, P)", vector("G", "G") | vector("c", "c"), [found["diagonal"]])
    add("project(M, u, w, P)", matrix("M") | u, [found[f"projection_{j}"] for j in range(count)],
        lambda j, v: f"w[{j}] = {v}")  # fmt: skip
    add("pivot(d, u, w, P)", {symbol["d"]: "d"} | u | w, [found["pivot"]])
    add("multiplier(u, w, p, P)", vector("u_other", "u") | w | {symbol["p"]: "p"}, [found["multiplier"]])
    add("eliminate(w, p, M, P)", matrix("M") | w | {symbol["p"]: "p"}, [found[f"remainder_{i}{j}"] for i, j in pairs],
        lambda n, v: "M[{0}, {1}] = M[{1}, {0}] = {2}".format(*pairs[n], v))  # fmt: skip
    add("mixed_own(G, b, P)", vector("G", "G") | vector("b", "b"), [found["mixed_own"]])
    add("mixed_coupling(GG, u, a, P)", matrix("GG") | u | vector("a_other", "a"), [found["mixed_coupling"]])
    add("value_coupling(GG, a, other, P)", matrix("GG") | vector("a", "a") | vector("a_other", "other"),
        [found["value_coupling"]])  # fmt: skip
    add("key_slope(z, unit, P)", {symbol["z"]: "z", symbol["unit"]: "unit"}, [found["key_slope"]])
    add("cross_slope(moved, P)", {symbol["moved"]: "moved"}, [found["cross_slope"]])
    add(
        "value_slope(induced, both, P)",
        {symbol["induced"]: "induced", symbol["both"]: "both"},
        [found["value_slope"]],
    )


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
