"""Records of single-location regression: value semantics, normalization of numbers, refusals."""

from __future__ import annotations

import dataclasses
import math
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import sympy

from theorykit import single_location as slr
from theorykit.errors import FormulaError
from theorykit.formula import Formula

RECORDS = [
    slr.Spiked(nu=4, length=3),
    slr.Spiked(nu=0.1, length={1: 1 / 3, 2: 1 / 3, 3: 1 / 3}, noise=0.3),
    slr.Max(nu=math.inf, length=10**6),
    slr.Max(nu=2, length={5: 0.25, 2: 0.75}),
    slr.Softmax(),
    slr.Softplus(),
    slr.Linear(),
    slr.Erf(),
    slr.Erf(shift=-1.25),
    slr.Erf(shift=None),
    slr.Elementwise("1+tanh( x )"),
    slr.NormalizedKernel("1/3 + x**2"),
]


@pytest.mark.parametrize("record", RECORDS, ids=repr)
class TestEveryRecord:
    def test_repr_rebuilds_with_the_public_names_alone(self, record):
        classes = (slr.Spiked, slr.Max, slr.Erf, slr.Elementwise, slr.NormalizedKernel, slr.Softmax)
        names = {kind.__name__: kind for kind in (*classes, slr.Softplus, slr.Linear)}
        assert eval(repr(record), names) == record

    def test_pickles_and_hashes_by_value(self, record):
        copy = pickle.loads(pickle.dumps(record))
        assert copy == record
        assert copy is not record
        assert hash(copy) == hash(record)

    def test_is_frozen(self, record):
        name = record.field_names()[0] if record.field_names() else "kind"
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, name, 1.0)

    def test_replacing_nothing_gives_an_equal_record(self, record):
        assert record.replace() == record

    def test_replace_refuses_unknown_parameters(self, record):
        with pytest.raises(TypeError, match=f"{type(record).__name__} has no parameter 'beta'"):
            record.replace(beta=1)


def test_records_differ_where_a_parameter_or_the_class_differs():
    assert len(set(RECORDS)) == len(RECORDS)
    assert slr.Spiked(1, 2) != slr.Max(1, 2)
    assert slr.Softmax() != slr.Softplus()


@pytest.mark.parametrize("four", [4, 4.0, np.int64(4), np.float32(4), np.array(4), Fraction(4)])
@pytest.mark.parametrize("three", [3, 3.0, np.int32(3), np.array(3.0)])
def test_kinds_of_numbers_do_not_matter(four, three):
    task = slr.Spiked(nu=four, length=three, noise=np.float64(0))
    assert task == slr.Spiked(4, 3)
    assert [type(value) for value in (task.nu, task.length, task.noise)] == [float, int, float]


def test_negative_zero_is_zero():
    assert math.copysign(1.0, slr.Spiked(-0.0, 2, noise=-0.0).nu) == 1.0
    assert repr(slr.Erf(shift=-0.0)) == "Erf(shift=0.0)"


class TestReplace:
    def test_validates_again(self):
        with pytest.raises(ValueError, match=r"nu must be a real number in \[0, inf\), got -1.0"):
            slr.Spiked(1, 2).replace(nu=-1)

    def test_keeps_the_rest(self):
        task = slr.Max(nu=math.inf, length={1: 0.5, 2: 0.5}, noise=0.2)
        assert task.replace(nu=3) == slr.Max(nu=3, length={1: 0.5, 2: 0.5}, noise=0.2)
        assert task.replace(length=7).lengths == ((7, 1.0),)

    def test_suggests_near_names(self):
        with pytest.raises(TypeError, match="no parameter 'lenght'; did you mean 'length'"):
            slr.Spiked(1, 2).replace(lenght=3)


class TestLength:
    def test_distribution_is_sorted_and_without_zeros(self):
        task = slr.Spiked(1, {3: 0.25, 1: 0.75, 9: 0.0})
        assert task.lengths == ((1, 0.75), (3, 0.25))
        assert task == slr.Spiked(1, {1: 0.75, 3: 0.25})
        assert task.mean_length == 1.5

    def test_certain_length_is_that_length(self):
        assert slr.Max(1, {3: 1.0, 5: 0}) == slr.Max(1, 3)

    def test_lengths_of_a_fixed_length(self):
        assert slr.Max(1, 3).lengths == ((3, 1.0),)
        assert slr.Max(1, 3).mean_length == 3.0

    def test_numpy_keys(self):
        assert slr.Max(1, {np.int64(1): np.float64(0.5), np.int64(2): 0.5}) == slr.Max(1, {1: 0.5, 2: 0.5})

    @pytest.mark.parametrize(
        ("length", "message"),
        [
            (0, r"length must be an integer in \[1, 1000000\], got 0"),
            (10**6 + 1, r"length must be an integer in \[1, 1000000\], got 1000001"),
            (2.5, r"length must be an integer in \[1, 1000000\], got 2.5"),
            (math.inf, r"length must be an integer in \[1, 1000000\], got inf"),
            ({}, "length must have probabilities that sum to 1"),
            ({1: 0.5, 2: 0.5 + 1e-11}, "length must have probabilities that sum to 1"),
            ({1: 1.5, 2: -0.5}, r"length\[1\], a probability, must be a real number in \[0, 1\], got 1.5"),
            ({1: math.nan}, r"length\[1\], a probability, must be a real number in \[0, 1\], got nan"),
            ({0: 1.0}, r"length must be an integer in \[1, 1000000\], got 0"),
            (((2, 0.5), (2, 0.5)), "got 2 twice"),
        ],
    )
    def test_wrong_values(self, length, message):
        with pytest.raises(ValueError, match=message):
            slr.Spiked(1, length)

    @pytest.mark.parametrize("length", ["3", True, None, [2, 3], {"2": 1.0}, {2: "1"}, np.array([2, 3]), 3j])
    def test_wrong_types(self, length):
        with pytest.raises(TypeError, match="length"):
            slr.Max(1, length)


class TestSignal:
    @pytest.mark.parametrize("nu", [-1, -1e-300, math.nan, -math.inf])
    @pytest.mark.parametrize("task", [slr.Spiked, slr.Max])
    def test_wrong_values(self, task, nu):
        with pytest.raises(ValueError, match=r"nu must be a real number in \[0, inf"):
            task(nu=nu, length=2)

    @pytest.mark.parametrize("nu", ["1", None, True, 1j, [1.0], np.array([1.0])])
    def test_wrong_types(self, nu):
        with pytest.raises(TypeError, match="nu must be a real number"):
            slr.Spiked(nu=nu, length=2)

    def test_infinite_nu_is_for_max_alone(self):
        assert slr.Max(nu=np.inf, length=2).nu == math.inf
        with pytest.raises(ValueError, match="degenerate"):
            slr.Spiked(nu=math.inf, length=2)

    @pytest.mark.parametrize("noise", [-0.1, math.nan, math.inf])
    def test_noise(self, noise):
        with pytest.raises(ValueError, match="noise must be a real number in"):
            slr.Max(1, 2, noise=noise)


class TestActivations:
    @pytest.mark.parametrize(
        ("activation", "kind", "name", "function"),
        [
            (slr.Softmax(), "normalized", "softmax", math.exp),
            (slr.Softplus(), "normalized", "softplus", lambda x: math.log1p(math.exp(x))),
            (slr.Linear(), "elementwise", "linear", lambda x: 1 + x),
            (slr.Erf(), "elementwise", "erf", lambda x: 1 + math.erf(x)),
            (slr.Erf(shift=2), "elementwise", "erf", lambda x: 1 + math.erf(x)),
            (slr.Elementwise("x*tanh(x)"), "elementwise", "elementwise", lambda x: x * math.tanh(x)),
            (slr.NormalizedKernel("1 + x**2"), "normalized", "normalized_kernel", lambda x: 1 + x * x),
        ],
    )
    def test_formula_is_the_function(self, activation, kind, name, function):
        grid = [-3.0, -0.5, 0.0, 0.7, 2.0]
        assert (activation.kind, activation.name) == (kind, name)
        assert activation.formula.evaluate(grid) == pytest.approx([function(x) for x in grid], rel=1e-14)

    def test_sources_of_a_formula(self):
        x = sympy.Symbol("x", real=True)
        expected = slr.Elementwise("1 + tanh(x)")
        for source in (" 1+tanh(x )", Formula("1 + tanh(x)"), 1 + sympy.tanh(x)):
            built = slr.Elementwise(source)
            assert built.formula.evaluate([0.3]) == expected.formula.evaluate([0.3])
        assert slr.Elementwise("1+tanh(x)") == expected

    def test_custom_activation_is_not_the_named_one(self):
        assert slr.NormalizedKernel("exp(x)") != slr.Softmax()

    def test_labels_tell_activations_apart(self):
        activations = [r for r in RECORDS if hasattr(r, "label")]
        assert len({a.label for a in activations}) == len(activations)

    @pytest.mark.parametrize("shift", [math.nan, math.inf])
    def test_shift_is_finite(self, shift):
        with pytest.raises(ValueError, match="shift must be a real number"):
            slr.Erf(shift=shift)

    @pytest.mark.parametrize(
        ("formula", "value", "point"),
        [
            ("relu(x)", "0.0", "0.0"),
            ("x", "0.0", "0.0"),
            ("1 - x", "0.0", "1.0"),
            ("1 + relu(x) - 3/2", "-0.5", "0.0"),
            ("exp(x**3)", "inf", "8.925"),
            ("sqrt(x)", "0.0", "0.0"),
        ],
    )
    def test_kernel_must_be_positive(self, formula, value, point):
        message = f"NormalizedKernel must be finite and positive.*got {value}.*x = {point}"
        with pytest.raises(ValueError, match=message):
            slr.NormalizedKernel(formula)

    @pytest.mark.parametrize("formula", ["1/x", "log(x)", "sqrt(x - 20)", "exp(exp(x))"])
    def test_elementwise_must_be_finite(self, formula):
        with pytest.raises(ValueError, match=r"Elementwise must be finite for scores in \[-12, 12\]"):
            slr.Elementwise(formula)

    @pytest.mark.parametrize("formula", ["x.real", "open(x)", "y", "x if x else 1", "", None, [1.0]])
    def test_refused_formulas(self, formula):
        with pytest.raises(FormulaError):
            slr.Elementwise(formula)


def test_importing_the_records_loads_nothing_heavy():
    code = (
        "import sys\nfrom theorykit import single_location as s\ns.Spiked(1, 2), s.Erf(0.5)\n"
        "print([m for m in ('numpy', 'sympy', 'scipy', 'numba', 'matplotlib', 'xarray') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_public_names_are_refused():
    with pytest.raises(AttributeError, match="has no attribute 'spiked'; public names"):
        slr.spiked
