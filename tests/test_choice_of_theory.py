"""``--theory`` leaves out what concerns other theories alone, and nothing else."""

from __future__ import annotations

import pytest

from theorykit import derivations, theory

CONTRACT = "tests/derivations/test_contract.py::test_the_audit_passes"


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("tests/single_location/test_search.py::test_limit", "population"),
        ("tests/single_location/test_erm.py::test_limit", "trained"),
        ("tests/single_location/test_trained_claim.py::test_limit", "trained"),
        ("tests/validation/test_simulation_training.py::test_limit", "trained"),
        ("tests/interpolation/test_error.py::test_limit[tanh(x)-single_location]", "interpolation"),
        ("tests/random_matrices/test_laws.py::test_limit", "random_matrices"),
        ("tests/numerics/test_dormand_prince.py::test_limit", "signal_recovery"),
        (f"{CONTRACT}[single_location-risk[normalized]]", "population"),
        (f"{CONTRACT}[single_location-asymptotics[long max]]", "population"),
        (f"{CONTRACT}[single_location-erm[normalized, exp(x)]]", "trained"),
        (f"{CONTRACT}[signal_recovery-kernel[softplus(t)]]", "signal_recovery"),
        (f"{CONTRACT}[interpolation-hermite[erf(x)]]", "interpolation"),
        ("tests/test_examples.py::test_docstring_examples[theorykit.random_matrices]", "random_matrices"),
        ("tests/test_examples.py::test_docstring_examples[theorykit.results]", None),
        # a word in the name of a function, or one that means something else, does not make a theory
        ("tests/test_plotting.py::test_interpolation_between_erm_and_signal_recovery", None),
        ("tests/codegen/test_cache_damage.py::test_in_this_process[index of another single term]", None),
        ("tests/derivations/test_audit.py::test_flipping_the_sign_of_a_term[permutation-0]", None),
    ],
)
def test_by_path_and_parameters(theory_of, test, expected):
    assert theory_of(test) == expected


def test_every_registered_theory_and_derivation_can_be_chosen(theory_of):
    assert {theory_of(f"{CONTRACT}[{name}]") for name in theory.theories()} <= {
        "population",
        "signal_recovery",
        "interpolation",
    }
    assert all(theory_of(f"{CONTRACT}[{name}-False]") for name in derivations.names())


@pytest.mark.theory("random_matrices")
def test_a_test_may_say_what_it_concerns(request):
    assert request.config.getoption("--theory") in (None, "random_matrices")


def test_what_concerns_no_theory_is_never_left_out(request, theory_of):
    """In the very run that this test is part of."""
    wanted = request.config.getoption("--theory")
    found = {theory_of(item.nodeid) for item in request.session.items}
    assert None in found
    assert wanted is None or found <= {None, wanted}
