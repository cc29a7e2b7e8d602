"""Symbols of trained attention, and its declaration as an empirical risk minimization.

The fields of a token are chi = X_l.k/sqrt(D) (key) and z = X_l.v/sqrt(D) (value); omega_k and omega_v are what they
are without the sample.
"""

from __future__ import annotations

import sympy as sp

from theorykit.derivations.problem import Problem, Vector, over_tokens
from theorykit.derivations.single_location.symbols import DELTA, LENGTH, PAPER, XI

__all__ = [
    "CHI", "FIELD_K", "FIELD_V", "GAUSS_V", "KEY", "LABEL", "LABEL_MEAN", "LABEL_SPREAD", "MEANS", "NOISE_K", "OMEGA_K",
    "OMEGA_V", "PENALTY", "POINT", "SCORE", "STATISTICS", "TILT", "TRUTH_K", "VALUE", "WEIGHT", "attention_problem",
]  # fmt: skip

KEY, VALUE = Vector("k"), Vector("v")
LABEL = sp.Symbol("label", real=True)
CHI, OMEGA_K, OMEGA_V = sp.symbols("chi omega_k omega_v", real=True)  # fields of one token
SCORE = sp.Symbol("shift", real=True)
WEIGHT = sp.IndexedBase("sigma")
#: Sums over tokens: of the kernel, of the kernel times the value field, of its square.
STATISTICS = sp.symbols("S_0 S_1 S_2", real=True)
TILT = sp.Function("g", positive=True)
#: Averages over the fields of a sample.
MEANS = {
    name: sp.Symbol(f"mean_{name}", real=True)
    for name in ("kk", "vv", "k_noise", "k_truth", "k_slope", "v_label", "v_field", "k_div", "v_div", "loss")
}
FIELD_K, FIELD_V, LABEL_MEAN, LABEL_SPREAD = sp.symbols("field_k field_v label_mean label_spread", real=True)
PENALTY = sp.Symbol("penalty", real=True)
TRUTH_K, NOISE_K, GAUSS_V = sp.symbols("truth_k noise_k gauss_v", real=True)  # of one token
#: Where steps are checked.
POINT = {"m_k": 0.6, "q_k": 0.9, "V_k": 0.8, "m_v": 0.7, "q_v": 0.8, "V_v": 0.5, "noise": 0.4, "alpha": 1.3,
         "nu": 0.5}  # fmt: skip


def attention_problem() -> Problem:
    """Attention with abstract weights sigma[l] of the key fields, as an empirical risk minimization."""
    output = over_tokens(lambda i: WEIGHT[i] * VALUE.field[i], LENGTH)
    return Problem(
        "single_location.replica", "Saddle point of trained attention", PAPER, (KEY, VALUE),
        (VALUE.truth[1] + DELTA * XI - output) ** 2 / 2, tilt=TILT(KEY.truth), length=LENGTH, shared=(XI,),
    )  # fmt: skip
