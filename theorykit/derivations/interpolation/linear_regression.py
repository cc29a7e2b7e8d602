r"""Linear regression on the tokens themselves: the same engine, and a closed form.

The Gram matrix :math:`X^\top X/n` has one unknown, the positive root of a quadratic equation; signal and labels make a
system of two directions. The formulas are written without cancellation.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from theorykit.derivations.dyson.equations import DysonSystem, dyson_system
from theorykit.derivations.dyson.pencil import Pencil, make_pencil
from theorykit.derivations.dyson.spikes import spiked_system
from theorykit.derivations.fixed_point import FixedPoint, implicit_rates
from theorykit.derivations.interpolation.features import tokens
from theorykit.derivations.interpolation.symbols import (
    GAMMA,
    LABEL,
    OVERLAPS,
    PAPER,
    C,
    Z,
    observable_rows,
    quantities,
)
from theorykit.derivations.ledger import (
    Check,
    Definition,
    Derivation,
    Limit,
    Quantity,
    Step,
    assumed,
    simulated,
    verified,
)
from theorykit.derivations.matrices import Entry, total_derivative

__all__ = ["derive_linear_regression"]

M = sp.Symbol("m_uu")
RATE = sp.Symbol("r_uu")
_FREE = "Marchenko and Pastur 1967: the law of sample covariance matrices"
_TRACE = "linear regression on the draws of the finite model, at the validation points"
_LOW, _HIGH = {"c": "3/5", "gamma": "1/5"}, {"c": "7/4", "gamma": "2/3"}
_NUMBERS = {"Z": 0.8, "y": 0.9, "mu": 0.7, "z": -1}


@cache
def _pencil() -> Pencil:
    x = tokens()
    return make_pencil((1 / GAMMA) * (x.T @ x), Z, ("u", "q"))


@cache
def _system() -> DysonSystem:
    return dyson_system(_pencil(), {"p": C})


def _exact(*points: dict[str, object], digits: int = 25) -> Check:
    return verified(*points, digits=digits, left="mp-trapezoid", right="mp-quad")


def _root(z: sp.Expr) -> sp.Expr:
    """Positive root of the quadratic equation that the Dyson equation is, at z <= 0."""
    right = _right().xreplace({Z: z})
    roots = sp.solve(sp.fraction(sp.together(M - right))[0], M)
    at = {C: sp.Rational(3, 5), GAMMA: sp.Rational(1, 5), Z: -1}
    (positive,) = [r for r in roots if r.subs(at) > 0]
    return positive


def _right() -> sp.Expr:
    """The equation of the engine as a scalar."""
    system = _system()
    return _written_out(
        system.equations[M].xreplace({s: _written_out(e) for s, e in system.explicit.items()})
    )


def _inserted(expression: sp.Expr) -> sp.Expr:
    """The p-side traces by what they are."""
    return expression.xreplace({s: _written_out(e) for s, e in _system().explicit.items()})


def _written_out(expression: sp.Expr) -> sp.Expr:
    """Matrices of one row as scalars."""
    return expression.replace(
        lambda e: isinstance(e, Entry), lambda e: sp.Matrix(e.args[0].doit())[int(e.args[1]), int(e.args[2])]
    )


def derive_linear_regression() -> Derivation:
    """Degrees of freedom, quadratic form and training error of ridge regression on the tokens."""
    definitions, steps = _trace_steps()
    more, observables = _label_steps()
    definitions += more[0]
    steps += more[1]
    equations = {M: steps[2].rhs, RATE: steps[4].rhs}
    rows = (
        Quantity(M, "m", "ridge times the limit of tr Q/n", "(0, 1]"),
        Quantity(RATE, r"\partial_z m", "derivative of m in z at -1", "positive"),
    )
    used: set[sp.Symbol] = set()
    for step in steps:
        used |= step.lhs.free_symbols | step.rhs.free_symbols
    record = FixedPoint(
        "interpolation.linear_regression",
        quantities(used, *rows, *observable_rows(observables)),
        equations,
        observables,
        limits=(
            Limit("degrees_of_freedom", {"c": 1, "gamma": "1/2", "signal2": 0}, sp.Rational(1, 2),
                  "gamma m^2 + gamma m = 1 has the root 1"),
            Limit("interpolation_error", {"c": 1, "gamma": "1/2", "signal2": 0}, sp.Rational(1, 3),
                  "the derivative of that root"),
        ),
    )  # fmt: skip
    return Derivation(
        "interpolation.linear_regression", "Linear regression on the tokens", PAPER,
        tuple(definitions), tuple(steps), record,
    )  # fmt: skip


def _trace_steps() -> tuple[list[Definition], list[Step]]:
    """m and its derivative in z, in closed form."""
    x, right = _image(), _right()
    root = _root(sp.Integer(-1))
    general = _root(Z)
    tilt = GAMMA + C - 1
    wide = sp.sqrt(tilt**2 + 4 * GAMMA)
    stable = sp.Piecewise((2 * GAMMA / (tilt + wide), tilt > 0), ((wide - tilt) / 2, True))
    names = {M: RATE}
    equation = implicit_rates({M: right}, Z, names)[RATE].xreplace({Z: sp.Integer(-1)})
    slope = sp.diff(equation, RATE)
    implicit = sp.factor(sp.cancel((equation.subs(RATE, 0)) / (1 - slope))).xreplace({M: stable})
    name = "derivative of the trace"
    definitions = [
        Definition(M, GAMMA / (GAMMA + x**2), "gamma tr Q/n (numbers for matrices)"),
        Definition(RATE, sp.diff(general, Z), "derivative of the positive root in z"),
    ]
    steps = [
        Step("Dyson equation", definitions[0].expression, right.xreplace({Z: sp.Integer(-1), M: root}), ("m_uu",),
             "the trace of the resolvent solves the equation of the engine; its solution in (0, 1] is the limit",
             assumed(_FREE)),
        Step("positive root", right.xreplace({Z: sp.Integer(-1), M: root}), root, ("Dyson equation",),
             "the equation is quadratic; one of its roots is positive", _exact(_LOW, _HIGH)),
        Step("root without cancellation", root, stable, ("positive root",),
             "the product of both roots is -gamma", _exact(_LOW, _HIGH)),
        Step(f"{name} at z = -1", definitions[1].expression, definitions[1].expression.xreplace({Z: sp.Integer(-1)}),
             ("r_uu",), "z = -1 is the resolvent of the probe", _exact({**_LOW, "z": -1}, {**_HIGH, "z": -1})),
        Step(name, definitions[1].expression.xreplace({Z: sp.Integer(-1)}), implicit, (f"{name} at z = -1",),
             "implicit differentiation of the Dyson equation", _exact(_LOW, _HIGH)),
    ]  # fmt: skip
    return definitions, steps


def _image() -> sp.Expr:
    z, y, mu = sp.symbols("Z y mu", real=True)
    return z + mu * y


def _label_steps() -> tuple[tuple[list[Definition], list[Step]], dict[str, sp.Expr]]:
    """Quadratic form of the labels and the error, in m and its derivative."""
    system, x = _system(), _image()
    form = _inserted(spiked_system(system, [(LABEL, 0)], OVERLAPS).quadratic_form((LABEL, 0), (LABEL, 0)))
    matrix = form.args[0]
    solved = sp.Matrix(matrix.args[0].arg.doit()).applyfunc(_written_out).LUsolve(
        sp.Matrix(matrix.args[1]).applyfunc(_written_out)
    )  # fmt: skip
    explicit = sp.factor(sp.cancel(solved[0]))
    change = sp.factor(sp.cancel(total_derivative(explicit, {M: RATE, Z: sp.Integer(1)})))
    implicit = total_derivative(form, {M: RATE, Z: sp.Integer(1)}).xreplace({Z: sp.Integer(-1)})
    corner = Entry(sp.Inverse(_pencil().image()), 0, 0)
    names = sp.symbols("interpolation_error quadratic_form degrees_of_freedom", real=True)
    images = ((GAMMA / (GAMMA + x**2)) ** 2, 1 / (GAMMA + x**2), x**2 / (GAMMA + x**2))
    meanings = (
        "mean squared residual, gamma^2 y^T Q^2 y/n",
        "y^T Q y/n",
        "effective degrees of freedom over n",
    )
    definitions = [
        Definition(n, e, f"{m} (numbers for matrices)")
        for n, e, m in zip(names, images, meanings, strict=True)
    ]
    numbers = _exact({**_LOW, **_NUMBERS}, {**_HIGH, **_NUMBERS})
    blocks = {"m_uu": 0.6, "r_uu": 0.3, "signal2": 1.4, "c": 0.7, "gamma": 0.3}
    mixed = _exact(blocks, blocks | {"m_uu": 0.2, "c": 1.9})
    at = {Z: sp.Integer(-1)}
    squared = corner**2
    steps = [
        Step("error as the square of the corner", images[0], squared, (names[0].name,),
             "gamma Q is the corner of the inverse pencil at z = -1; the residual is gamma Q y", numbers),
        Step("isotropic law for the error", squared, implicit, ("error as the square of the corner",),
             "the square of the resolvent is its derivative in z; signal and labels are two directions",
             simulated(_TRACE)),
        Step("error in closed form", implicit, change.xreplace(at), ("isotropic law for the error",),
             "the finite system solved", mixed),
        Step("quadratic form from the pencil", images[1], corner / GAMMA, (names[1].name,),
             "stationarity of the pencil", numbers),
        Step("isotropic law for the quadratic form", corner / GAMMA, form.xreplace(at) / GAMMA,
             ("quadratic form from the pencil",), "signal and labels are two directions", simulated(_TRACE)),
        Step("quadratic form in closed form", form.xreplace(at) / GAMMA, explicit.xreplace(at) / GAMMA,
             ("isotropic law for the quadratic form",), "the finite system solved", mixed),
        Step("degrees of freedom from the pencil", images[2], 1 - corner, (names[2].name,),
             "the hat matrix is 1 - gamma Q", numbers),
        Step("trace of the corner", 1 - corner, 1 - M, ("degrees of freedom from the pencil", "m_uu"),
             "the normalized trace of the corner", assumed(_FREE)),
    ]  # fmt: skip
    observables = {
        "interpolation_error": change.xreplace(at),
        "quadratic_form": explicit.xreplace(at) / GAMMA,
        "degrees_of_freedom": 1 - M,
    }
    return (definitions, steps), observables
