"""What can be written as code, how numbers are written, and that a Piecewise evaluates the branch taken only."""

from __future__ import annotations

import ast
import math
import random

import mpmath
import numpy as np
import pytest
import sympy as sp

from theorykit.codegen import source_of
from theorykit.codegen.printer import constant
from theorykit.derivations.nodes import DistinctSum, Expectation, HalfLine, TokenExpectation
from theorykit.errors import CodegenError

a, b, x, y = sp.symbols("a b x y", real=True)
t = sp.Symbol("t", positive=True)
n = sp.Symbol("n", integer=True)

UNSUPPORTED = [
    sp.gamma(a),
    sp.Heaviside(a),
    sp.floor(a),
    sp.Mod(a, 3),
    sp.besselj(0, a),
    sp.atan2(a, b),
    sp.Function("f")(a),
    sp.Sum(a**n, (n, 1, 3)),
    sp.Integral(sp.exp(-a * x), (x, 0, 1)),
    sp.Derivative(sp.Function("f")(a), a),
]


class TestClosedList:
    @pytest.mark.parametrize("expression", UNSUPPORTED, ids=str)
    def test_other_nodes_are_named(self, expression, record_of):
        record = record_of("unusual", good=a + 1, bad=2 + sp.exp(expression) * b)
        with pytest.raises(CodegenError) as caught:
            source_of(record)
        message = str(caught.value)
        assert "unusual, bad: " in message
        assert type(expression).__name__ in message or str(expression) in message

    def test_inside_an_average_the_observables_are_named(self, record_of):
        inner = Expectation(sp.gamma(x**2 + a), x)
        record = record_of("unusual", first=inner + 1, second=b * inner, other=Expectation(sp.exp(a * x), x))
        with pytest.raises(CodegenError, match=r"unusual, first, second: no code for gamma in gamma"):
            source_of(record)

    def test_inside_an_average_inside_an_average(self, record_of):
        record = record_of("unusual", deep=Expectation(sp.exp(x * Expectation(sp.floor(x * y), y)), x))
        with pytest.raises(CodegenError, match=r"unusual, deep: no code for floor in floor\(x\*y\)"):
            source_of(record)

    @pytest.mark.parametrize(
        "node",
        [
            DistinctSum(a**n, n, 1, 3),
            TokenExpectation(sp.IndexedBase("x")[1] ** 2, [sp.IndexedBase("x")], 2),
            Expectation(sp.exp(x * y), [x, y]),
        ],
        ids=lambda node: type(node).__name__,
    )
    def test_averaging_nodes_without_array_form(self, node, record_of):
        """Averages over tokens must have been factorized; Gaussian ones are nested on the way."""
        record = record_of("unusual", value=node)
        if isinstance(node, Expectation):
            assert "stage_1" in source_of(record)
            return
        with pytest.raises(
            CodegenError, match=f"unusual, observable value: no array form for {type(node).__name__}"
        ):
            source_of(record)

    @pytest.mark.parametrize("test", [sp.Contains(a, sp.Interval(0, 1)), sp.Xor(a > 0, b > 0)], ids=str)
    def test_other_conditions_are_named(self, test, record_of):
        with pytest.raises(CodegenError, match="no code for the condition"):
            source_of(record_of(value=sp.Piecewise((a, test), (b, True))))

    def test_breakpoints_are_named(self, record_of):
        record = record_of("unusual", value=Expectation(a * x**2, x), breakpoints={x: (sp.floor(a),)})
        with pytest.raises(CodegenError, match=r"unusual, breakpoint of x: no code for floor"):
            source_of(record)


class TestNumbers:
    def test_floats_round_trip(self):
        generator = random.Random(3)
        numbers = [math.ldexp(generator.uniform(-1, 1), generator.randint(-1000, 1000)) for _ in range(300)]
        for number in [*numbers, 0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0]:
            assert float(constant(sp.Float(number))) == number

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (sp.Rational(1, 3), 1 / 3),
            (sp.pi, math.pi),
            (sp.Integer(2) ** 53 + 1, 2.0**53),
            (sp.Integer(10) ** 300, 1e300),
            (sp.sqrt(2) / 7 - 1, lambda: mpmath.sqrt(2) / 7 - 1),
            (sp.log(2) * sp.EulerGamma, lambda: mpmath.log(2) * mpmath.euler),
        ],
    )
    def test_exact_numbers_become_the_nearest_double(self, value, expected):
        with mpmath.workdps(40):
            assert constant(value) == repr(float(expected() if callable(expected) else expected))

    @pytest.mark.parametrize(
        "value",
        [sp.oo, -sp.oo, sp.nan, sp.zoo, sp.I, sp.log(-1), sp.Integer(10) ** 400, sp.exp(-1000)],
        ids=lambda v: str(v)[:20],
    )
    def test_numbers_without_a_double_are_refused(self, value):
        with pytest.raises(CodegenError, match="cannot be written"):
            constant(value)

    def test_what_is_no_number(self):
        assert constant(a + 1) is None
        assert constant(sp.Function("f")(2)) is None

    @pytest.mark.parametrize("kind", [int, float, np.float32, np.int64, sp.Integer])
    def test_kinds_of_arguments_give_the_same_bits(self, kind, record_of, interpreted):
        call = interpreted(record_of(value=a**3 / 7 + sp.sqrt(a) + a ** sp.Rational(-5, 3)))
        assert call(a=kind(3)) == call(a=3.0)

    def test_powers(self, record_of, interpreted):
        exponents = [
            2,
            3,
            4,
            7,
            64,
            65,
            -1,
            -2,
            -5,
            sp.Rational(1, 2),
            sp.Rational(-1, 2),
            sp.Rational(5, 3),
            b,
        ]
        record = record_of(**{f"power_{i}": a**e for i, e in enumerate(exponents)})
        found = interpreted(record)(a=1.37, b=-0.6)
        for i, e in enumerate(exponents):
            expected = 1.37 ** float(e if e != b else -0.6)
            assert found[f"power_{i}"] == pytest.approx(expected, rel=64 * 2.0**-52)

    def test_quotients_and_signs(self, record_of, interpreted):
        record = record_of(value=-a / (b * (a + b) ** 2) - 3 * b / a + sp.Rational(-2, 3))
        assert interpreted(record)(a=1.7, b=0.3)["value"] == pytest.approx(
            -1.7 / (0.3 * 4.0) - 0.9 / 1.7 - 2 / 3, rel=8 * 2.0**-52
        )


class TestPiecewise:
    """Run by plain Python, where log(-1) is an exception: what is not taken must not be evaluated."""

    def test_only_the_branch_taken_is_evaluated(self, record_of, interpreted):
        value = sp.Piecewise((sp.log(a), a > 0), (sp.log(-a) + 5, a < 0), (b, True))
        call = interpreted(record_of(value=value))
        assert call(a=2, b=7)["value"] == pytest.approx(math.log(2))
        assert call(a=-2, b=7)["value"] == pytest.approx(math.log(2) + 5)
        assert call(a=0, b=7)["value"] == 7

    def test_nothing_common_is_hoisted_out(self, record_of, interpreted):
        common = sp.log(a) ** 2
        call = interpreted(
            record_of(
                first=sp.Piecewise((common + 1, a > 0), (0, True)),
                second=sp.Piecewise((common + b, a > 0), (1, True)),
            )
        )
        assert call(a=-1, b=2) == {"first": 0.0, "second": 1.0}
        assert call(a=math.e, b=2) == {"first": pytest.approx(2), "second": pytest.approx(3)}

    def test_nested(self, record_of, interpreted):
        inner = sp.Piecewise((sp.log(a), a > 0), (sp.log(1 - b), b < 1), (3, True))
        value = sp.Piecewise((inner + inner**2, a < 5), (sp.sqrt(a - 5), True))
        call = interpreted(record_of(value=value))
        assert call(a=1, b=9)["value"] == 0.0
        assert call(a=-1, b=0.5)["value"] == pytest.approx(math.log(0.5) + math.log(0.5) ** 2)
        assert call(a=-1, b=2)["value"] == 12.0
        assert call(a=9, b=2)["value"] == 2.0

    def test_common_parts_outside_are_used_inside(self, record_of, interpreted):
        outside = sp.sin(a)
        record = record_of(first=outside, value=sp.Piecewise((outside**2, b > 0), (outside**3, True)))
        assert source_of(record).count("math.sin(") == 1
        call = interpreted(record)
        assert call(a=0.5, b=1)["value"] == pytest.approx(math.sin(0.5) ** 2)
        assert call(a=0.5, b=-1)["value"] == pytest.approx(math.sin(0.5) ** 3)

    def test_conditions(self, record_of, interpreted):
        value = sp.Piecewise(
            (1, sp.And(a > 0, b >= 1)), (2, sp.Or(sp.Eq(a, -1), a <= -3)), (3, sp.Ne(b, 0)), (4, True)
        )
        call = interpreted(record_of(value=value))
        points = [(1, 1), (1, 0.5), (-1, 5), (-4, 0), (-2, 1), (-2, 0)]
        assert [call(a=p, b=q)["value"] for p, q in points] == [1, 3, 2, 2, 3, 4]

    def test_without_a_default_the_rest_is_nan(self, record_of, interpreted):
        call = interpreted(record_of(value=sp.Piecewise((1, a > 0), (2, a < -1))))
        assert call(a=-2)["value"] == 2
        assert math.isnan(call(a=-0.5)["value"])

    def test_in_an_integrand(self, record_of):
        """Branch assignments stand under their ``if`` in the innermost loop."""
        value = Expectation(sp.Piecewise((sp.log(x + a), x + a > 0), (0, True)), x)
        (log,) = [
            node
            for node in ast.walk(ast.parse(source_of(record_of(value=value))))
            if isinstance(node, ast.If) and "math.log" in ast.unparse(node)
        ]
        assert "math.log" in ast.unparse(log.body)

    def test_half_line(self, record_of):
        value = HalfLine(sp.Piecewise((sp.exp(-t), t < a), (0, True)), t)
        assert "if " in source_of(record_of(value=value))
