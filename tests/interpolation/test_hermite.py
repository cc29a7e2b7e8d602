"""Hermite coefficients and second moments: closed forms, quadrature, audit, refusals."""

from __future__ import annotations

import math
import subprocess
import sys

import mpmath
import pytest
import sympy as sp

import theorykit as tk
from theorykit import derivations
from theorykit import interpolation as ip
from theorykit.derivations.gaussian_integrals import closed_average
from theorykit.derivations.hermite import hermite_polynomial
from theorykit.derivations.nodes import Expectation
from theorykit.errors import ConvergenceError, FormulaError

E = math.e
PI = math.pi
R = math.sqrt


def clip_moment(t: float) -> float:
    inside = math.erf(t / R(2))
    return inside - 2 * t * math.exp(-t * t / 2) / R(2 * PI) + t * t * (1 - inside)


# f -> (a_0, a_1, a_2, nu); known closed forms, or published digits
TABLE = {
    "x": (0, 1, 0, 1),
    "erf(x)": (0, 2 / R(3 * PI), 0, 2 / PI * math.asin(2 / 3)),
    "tanh(x)": (0, 0.605705509602158826, 0, 1 - 0.605705509602158826),
    "sin(x)": (0, E**-0.5, 0, (1 - E**-2) / 2),
    "cos(x)": (E**-0.5, 0, -(E**-0.5) / R(2), (1 - 1 / E) ** 2 / 2),
    "exp(x)": (E**0.5, E**0.5, E**0.5 / R(2), E**2 - E),
    "exp(x - 1/2) - 1": (0, 1, 1 / R(2), E - 1),
    "relu(x)": (1 / R(2 * PI), 0.5, 1 / (2 * R(PI)), 0.5 - 1 / (2 * PI)),
    "gelu(x)": (1 / (2 * R(PI)), 0.5, 0.299206710301, 1 / 3 + 1 / (2 * PI * R(3)) - 1 / (4 * PI)),
    "silu(x)": (0.206620964142, 0.5, 0.248085192830, 0.313083296994421),
    "sign(x)": (0, R(2 / PI), 0, 1),
    "x**3": (0, 3, 0, 15),
    "max(-1, min(x, 1))": (0, math.erf(1 / R(2)), 0, 0.5160585509617133),
    "max(-0.3, min(x, 0.3))": (0, math.erf(0.3 / R(2)), 0, clip_moment(0.3)),
    "abs(x)": (R(2 / PI), 0, 1 / R(PI), 1 - 2 / PI),
}
CLOSED = [f for f in TABLE if f not in ("tanh(x)", "silu(x)")]


@pytest.mark.parametrize("formula", TABLE)
def test_table(formula):
    found = ip.hermite(formula, degree=2)
    mean, first, second, moment = TABLE[formula]
    published = 1e-11 if formula in ("gelu(x)", "silu(x)") else 2e-15
    for value, known in zip(
        (*found.coefficients, found.second_moment), (mean, first, second, moment), strict=True
    ):
        assert abs(value - known) <= published * max(1.0, moment) + value.error
    assert found.linearity == pytest.approx(first**2 / moment, abs=1e-13)
    assert found.remainder == pytest.approx(moment - first**2, abs=4e-15 * max(1.0, moment))


@pytest.mark.parametrize("formula", CLOSED)
def test_closed_forms_are_found(formula):
    record = derivations.get("interpolation.hermite", formula=formula, degree=3).equations
    assert not any(expression.has(Expectation) for expression in record.equations.values())


@pytest.mark.parametrize(
    "formula", ["tanh(x)", "gelu(x)", "max(-1, min(x, 1))", "erf(x - 1/2)", "cos(x + 1)"]
)
def test_audit_is_green_and_turns_red(formula):
    derivation = derivations.get("interpolation.hermite", formula=formula, degree=3)
    assert tk.audit(derivation).ok
    step = [s for s in derivation.steps if s.rhs.is_number and s.rhs != 0]
    for name in [s.name for s in step][:1]:
        (own,) = [s for s in derivation.steps if s.name == name]
        report = tk.audit(derivation.with_step(name, -own.rhs))
        assert not report.ok


def test_a_zero_that_is_wrong_turns_the_audit_red():
    derivation = derivations.get("interpolation.hermite", formula="relu(x)", degree=3)
    (zero,) = [s for s in derivation.steps if s.name == "Gaussian average (a 3)"]
    assert zero.rhs == 0
    assert not tk.audit(derivation.with_step(zero.name, sp.Rational(1, 10**12))).ok


def mp_moments(f, degree, edges):
    """a_0 ... and nu by tanh-sinh quadrature at 20 digits; He_k by its own recursion."""
    with mpmath.workdps(20):
        grid = sorted({*range(-12, 13, 3), *edges})

        def average(g):
            return mpmath.quad(lambda x: g(x) * mpmath.npdf(x), grid)

        def he(k, x):
            low, high = mpmath.mpf(1), x
            for order in range(1, k):
                low, high = high, x * high - order * low
            return low if k == 0 else high

        a = [
            average(lambda x, k=k: f(x) * he(k, x)) / mpmath.sqrt(mpmath.factorial(k))
            for k in range(degree + 1)
        ]
        return a, average(lambda x: (f(x) - a[0]) ** 2)


CASES = {
    "softplus(2*x - 1)": (lambda x: mpmath.log(1 + mpmath.exp(2 * x - 1)), ()),
    "max(x, tanh(3*x))": (lambda x: max(x, mpmath.tanh(3 * x)), (-0.99, 0, 0.99)),
    "erf(x - 1/2)": (lambda x: mpmath.erf(x - 0.5), ()),
    "x*exp(0.25*x) + cos(2*x + 1)": (lambda x: x * mpmath.exp(x / 4) + mpmath.cos(2 * x + 1), ()),
    "relu(x - 1/2)**2": (lambda x: max(x - 0.5, 0) ** 2, (0.5,)),
    "exp(x**2/5)": (lambda x: mpmath.exp(x * x / 5), (-30, -20, 20, 30)),
}


@pytest.mark.parametrize("formula", CASES)
def test_against_tanh_sinh(formula):
    f, edges = CASES[formula]
    if formula.startswith("max"):  # where x = tanh(3 x)
        edges = (-float(mpmath.findroot(lambda x: x - mpmath.tanh(3 * x), 0.99)), 0, 0.99505475368)
        edges = (edges[0], 0, -edges[0])
    coefficients, moment = mp_moments(f, 3, edges)
    found = ip.hermite(formula, degree=3)
    scale = max(1.0, float(moment))
    for value, known in zip(found.coefficients, coefficients, strict=True):
        assert abs(value - float(known)) <= 1e-12 * scale
    assert found.second_moment == pytest.approx(float(moment), rel=1e-12)


def test_parseval():
    found = ip.hermite("tanh(x)", degree=13)
    total = math.fsum(a * a for a in found.coefficients[1:])
    assert 0 < found.second_moment - total < 1e-3  # the tail of the expansion, positive


@pytest.mark.parametrize(
    "formula",
    ["tanh(1e6*(x - 0.3))", "erf(1e5*(x - 0.3))", "2*sigmoid(1e3*(x - 0.3)) - 1"],
)
def test_steep_fronts_reach_their_limit(formula):
    found = ip.hermite(formula, degree=2)
    below = 0.5 * math.erfc(-0.3 / R(2))
    assert found.coefficients[0] == pytest.approx(1 - 2 * below, abs=1e-5)
    assert found.coefficients[1] == pytest.approx(2 * math.exp(-0.045) / R(2 * PI), abs=1e-5)
    assert found.second_moment == pytest.approx(1 - (1 - 2 * below) ** 2, abs=3e-3)


@pytest.mark.parametrize(
    ("formula", "mean"), [("log(abs(x))", -0.63518142273073908501), ("sqrt(abs(x))", None)]
)
def test_weak_singularities(formula, mean):
    known = mean if mean is not None else 2**0.25 * math.gamma(0.75) / R(PI)
    assert ip.hermite(formula, degree=1).coefficients[0] == pytest.approx(known, abs=1e-11)


REFUSED = {
    "exp(x**2/4)": "finite second moment .*has not decayed",
    "exp(x**2)": "finite second moment",
    "exp(0.26*x**2)": "finite second moment",
    "1/x": "pole at x",
    "tan(x)": "pole",
    "abs(x)**(-1/2)": "pole",
    "log(x)": "must be finite",
    "sqrt(x)": "must be finite",
    "3": "must depend on x",
}


@pytest.mark.parametrize("formula", REFUSED)
def test_refusals(formula):
    with pytest.raises(ValueError, match=REFUSED[formula]):
        ip.hermite(formula)
    with pytest.raises(ValueError, match=REFUSED[formula]):
        ip.Attention(formula, ratio=1, ridge=1)


def test_bad_arguments():
    with pytest.raises(FormulaError):
        ip.hermite("tanh(y)")
    with pytest.raises(ValueError, match="degree must be an integer in"):
        ip.hermite("x", degree=0)
    with pytest.raises(TypeError, match="degree"):
        ip.hermite("x", degree="6")
    assert not issubclass(ConvergenceError, FormulaError)


def test_any_source_of_a_formula():
    x = sp.Symbol("x", real=True)
    assert ip.hermite(sp.tanh(x)) == ip.hermite("tanh( x )")


def test_multiplying_an_equation_changes_the_number():
    plain = ip.hermite("sin(x)", degree=2)
    for target, read in {
        "a_1": lambda h: h.coefficients[1],
        "nu": lambda h: h.second_moment,
        "remainder": lambda h: h.remainder,
    }.items():
        with derivations.substituted("interpolation.hermite", lambda d, t=target: d.equations.scaled(t)):
            changed = ip.hermite("sin(x)", degree=2)
        assert read(changed) == pytest.approx(2 * read(plain), rel=1e-14)


def test_polynomials_are_orthonormal():
    x = sp.Symbol("x", real=True)
    for j in range(5):
        for k in range(5):
            product = sp.expand(hermite_polynomial(j, x) * hermite_polynomial(k, x))
            value = closed_average(Expectation(product, x)) if product.has(x) else product
            assert value == (1 if j == k else 0)


def test_numbers_beyond_doubles_are_not_closed():
    """exp(1e3) is infinite as a double: a closed form of its reciprocal would be a wrong zero."""
    x = sp.Symbol("x", real=True)
    assert closed_average(Expectation(x * (2 / (1 + sp.Float("2e400") * sp.exp(-x)) - 1), x)) is None


def test_nothing_is_closed_that_does_not_fit():
    x = sp.Symbol("x", real=True)
    for integrand in (
        sp.tanh(x) ** 2,
        sp.erf(x) * sp.erf(2 * x),
        sp.exp(x**2),
        sp.Max(x, x**3),
        1 / (1 + x**2),
    ):
        assert closed_average(Expectation(integrand, x)) is None


def test_a_warm_process_does_without_sympy():
    ip.hermite("tanh(x)")
    code = (
        "import sys; from theorykit import interpolation as ip; h = ip.hermite('tanh(x)');"
        "assert 'sympy' not in sys.modules; print(float(h.second_moment).hex())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == float(ip.hermite("tanh(x)").second_moment).hex()


def test_importing_the_theory_is_light():
    code = (
        "import sys; import theorykit.interpolation;"
        "print([m for m in ('sympy', 'scipy', 'numba', 'matplotlib', 'xarray') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
