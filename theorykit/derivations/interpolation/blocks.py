"""Block traces of the pencil of the features: their equations, their derivatives, and the record they end in."""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp

from theorykit.derivations.fixed_point import FixedPoint, implicit_rates
from theorykit.derivations.interpolation.features import attention_pencil, features_image, system
from theorykit.derivations.interpolation.points import POINTS
from theorykit.derivations.interpolation.symbols import GAMMA, Z, observable_rows, quantities
from theorykit.derivations.ledger import Check, Definition, Limit, Quantity, Step, assumed, verified
from theorykit.derivations.matrices import Entry, product

__all__ = ["FREE", "BlockChains", "both", "record_of"]

FREE = "asymptotic freeness of the Wigner part from Z and the matrix Dyson equation of Gaussian pencils"


def both(z: int) -> Check:
    """Both sides at two points with numbers for matrices and vectors, to 25 digits."""
    return verified(*({**p, "z": z} for p in POINTS), digits=25, left="mp-trapezoid", right="mp-quad")


def _names() -> list[str]:
    return [v.name for v in attention_pencil().variables]


class BlockChains:
    """Definitions and steps of the block traces and their derivatives, shared by both derivations."""

    def __init__(self, z: sp.Expr, shift: sp.Expr) -> None:
        self.system = system(shift)
        self.z = z
        self.at = (lambda e: e.xreplace({Z: z})) if z != Z else (lambda e: e)
        self.image = attention_pencil().image()
        self.definitions: list[Definition] = []
        self.steps: list[Step] = []
        self.equations: dict[sp.Symbol, sp.Expr] = {}

    def blocks(self) -> None:
        """One definition and one step per unknown."""
        names = _names()
        for unknown, right in (self.system.equations | self.system.explicit).items():
            i, j = (names.index(n) for n in unknown.name.removeprefix("m_"))
            left = Entry(product(sp.Inverse(self.image)), i, j)
            meaning = f"normalized trace of block ({names[i]}, {names[j]}) of the inverse pencil (numbers for matrices)"
            self.definitions.append(Definition(unknown, left, meaning))
            self.equations[unknown] = self.at(right)
            self.steps.append(
                Step(f"Dyson equation of {unknown.name}", left, self.equations[unknown], (unknown.name,),
                     "the average of the inverse pencil solves its matrix Dyson equation", assumed(FREE),
                     ("n, p to infinity at p/n = c",))
            )  # fmt: skip

    def rates(self) -> dict[sp.Symbol, sp.Symbol]:
        """The derivative of every trace in z: by partial derivatives, and by the rules of products and inverses."""
        rights = self.system.equations | self.system.explicit
        names = {s: sp.Symbol(f"r_{s.name.removeprefix('m_')}") for s in rights}
        found = implicit_rates(rights, Z, names)
        along = {**names, Z: sp.Integer(1)}
        points = [{**p, **self._numbers(names, k)} for k, p in enumerate(POINTS)]
        check = verified(*points, digits=25, left="mp-trapezoid", right="mp-quad")
        for trace, rate in names.items():
            partial = [
                sp.diff(rights[trace], s) * r for s, r in along.items() if s in rights[trace].free_symbols
            ]
            left, right = self.at(sp.Add(*partial)), self.at(found[rate])
            self.definitions.append(Definition(rate, left, f"derivative of {trace.name} in z"))
            self.steps.append(
                Step(f"derivative of {trace.name}", left, right, (rate.name, f"Dyson equation of {trace.name}"),
                     "implicit differentiation: the derivative of an inverse is -(inverse)(derivative)(inverse)", check)
            )  # fmt: skip
            self.equations[rate] = right
        return names

    def traces(self) -> dict[str, sp.Expr]:
        """The block traces in the scaling of the model, by what they are traces of."""
        image, found = features_image(), {}
        token = sp.Symbol("Z", real=True) + sp.Symbol("mu", real=True) * sp.Symbol("y", real=True)
        kernel, gram, resolvent = image / token, token**2, 1 / (GAMMA + image**2)
        ends = kernel * resolvent * kernel
        meanings = {
            "uu": (resolvent, "tr Q/n"),
            "uv": (resolvent * kernel, "tr Q K^T/n"),
            "uw": (resolvent * kernel * gram, "tr Q K^T H/n, with H = X^T X/n"),
            "vv": (ends, "tr K Q K^T/n"),
            "vw": (ends * gram - 1, "tr K Q K^T H/n - 1"),
            "ww": (gram * (ends * gram - 1), "tr H (K Q K^T H - 1)/n"),
        }
        power = {"u": -1, "v": -1, "w": 1}  # blocks are of order 1 in units of these powers of sqrt(gamma)
        names = _names()
        for unknown in self.system.unknowns:
            pair = unknown.name.removeprefix("m_")
            scale = sp.sqrt(GAMMA) ** (power[pair[0]] + power[pair[1]])
            value, meaning = meanings[pair]
            symbol = sp.Symbol(f"trace_{pair}", real=True)
            block = Entry(sp.Inverse(self.image), *(names.index(n) for n in pair))
            self.definitions.append(Definition(symbol, value, f"{meaning} (numbers for matrices)"))
            first = f"{symbol.name} from the pencil"
            self.steps += [
                Step(first, value, scale * block, (symbol.name,), "stationarity of the pencil, blocks unscaled",
                     both(-1)),
                Step(f"limit of {symbol.name}", scale * block, scale * unknown, (first, unknown.name),
                     "the normalized trace of the block", assumed(FREE)),
            ]  # fmt: skip
            found[symbol.name] = scale * unknown
        return found

    @staticmethod
    def _numbers(names: Mapping[sp.Symbol, sp.Symbol], which: int) -> dict[str, float]:
        """Values of the traces and their derivatives, of no meaning but distinct."""
        found = {}
        for k, (trace, rate) in enumerate(names.items()):
            found[trace.name] = 0.3 + 0.17 * ((5 * k + 3 * which) % 7) * (-1) ** k
            found[rate.name] = 0.2 - 0.11 * ((3 * k + which) % 5)
        return found


def record_of(
    name: str,
    chains: BlockChains,
    rates: Mapping[sp.Symbol, sp.Symbol],
    observables: Mapping[str, sp.Expr],
    path: sp.Symbol | None,
    limits: tuple[Limit, ...] = (),
) -> FixedPoint:
    """Record of the blocks and of observables."""
    start = {u: chains.at(e) for u, e in chains.system.start.items()}
    free: set[sp.Symbol] = set()
    sides = [side for step in chains.steps for side in (step.lhs, step.rhs)]
    for expression in [*observables.values(), *chains.equations.values(), *start.values(), *sides]:
        free |= expression.free_symbols
    rows = [*chains.system.symbols()]
    rows += [
        Quantity(r, rf"\partial_z m_{{{u.name[2:]}}}", f"derivative of {u.name} in z")
        for u, r in rates.items()
    ]
    if chains.system.shift in free:
        rows.append(Quantity(chains.system.shift, r"\eta", "imaginary shift, lowered to zero", "nonnegative"))
    return FixedPoint(
        name,
        quantities(free, *rows, *observable_rows(observables)),
        chains.equations,
        observables,
        limits=limits,
        start=start,
        rates={u: rates[u] for u in chains.system.unknowns if u in rates},
        path=path,
        matrices=chains.system.matrices,
    )
