r"""Trained attention at finite sample ratio: replica equations of regularized least squares on attention.

Setting: N = alpha D samples (X, y) of single-location regression; (k, v) minimize sum (y - sigma(chi).z)^2/2 plus
ridge_k |k|^2/2 + ridge_v |v|^2/2 with chi = X k/sqrt(D), z = X v/sqrt(D). The saddle point is that of
:mod:`theorykit.derivations.replica` for two vectors and L tokens (arXiv 2509.21936). Results:

* the value field is minimized in closed form; what is left is a problem in the L key fields, and it depends on the
  tokens through sums S of a few statistics of one token each, and a separable parabola;
* the responses f_k, f_v = -(gradient of the Moreau envelope) follow from it by differentiation;
* conjugates in averages that can be sampled: by parts (jumps of the minimizer included) and with pointwise
  derivatives of the responses (smoother, jumps left out; equal where there are none).

The training loss carries the 1/2. Responses are abstract functions of the fields in the steps on averages; those steps
are checked with polynomial ones.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from theorykit.derivations.ledger import (
    Check,
    Definition,
    Derivation,
    Equations,
    Quantity,
    Step,
    verified,
)
from theorykit.derivations.nodes import TokenExpectation
from theorykit.derivations.proximal import AtProximal, Moreau, solve_quadratic
from theorykit.derivations.replica import ALPHA, Problem, Vector, derive_saddle_point, over_tokens
from theorykit.derivations.single_location.symbols import DELTA, LENGTH, PAPER, XI
from theorykit.derivations.tensor import expand_sums
from theorykit.formula import parse

__all__ = ["KEY", "STATISTICS", "VALUE", "attention_problem", "derive_erm"]

KEY, VALUE = Vector("k"), Vector("v")
LABEL = sp.Symbol("label", real=True)
CHI, OMEGA_K, OMEGA_V = sp.symbols("chi omega_k omega_v", real=True)  # fields of one token
SCORE = sp.Symbol("shift", real=True)
WEIGHT = sp.IndexedBase("sigma")
#: Sums over tokens: of the kernel, of the kernel times the value field, of its square.
STATISTICS = sp.symbols("S_0 S_1 S_2", real=True)
F_K, F_V = sp.IndexedBase("f_k"), sp.IndexedBase("f_v")  # responses
D_K, D_V = sp.IndexedBase("d_k"), sp.IndexedBase("d_v")  # their derivatives in the field of the same token
TILT = sp.Function("g", positive=True)
SLOPE = sp.IndexedBase("g_prime")  # derivative of log g in z_k[l]
ENERGY, RESIDUAL, SAMPLE_LOSS, RESPONSE = sp.symbols("energy residual sample_loss response_v", real=True)
ATTENTION, SQUARES = sp.symbols("weight weight_square", real=True)
MEANS = {
    name: sp.Symbol(f"mean_{name}", real=True)
    for name in ("kk", "vv", "k_noise", "k_truth", "k_slope", "v_label", "v_field", "k_div", "v_div", "loss")
}
_POINT = {
    "m_k": 0.6,
    "q_k": 0.9,
    "V_k": 0.8,
    "m_v": 0.7,
    "q_v": 0.8,
    "V_v": 0.5,
    "noise": 0.4,
    "alpha": 1.3,
    "nu": 0.5,
}


def attention_problem() -> Problem:
    """Attention with abstract weights sigma[l] of the key fields, as an empirical risk minimization."""
    output = over_tokens(lambda i: WEIGHT[i] * VALUE.field[i], LENGTH)
    return Problem(
        "single_location.replica", "Saddle point of trained attention", PAPER, (KEY, VALUE),
        (VALUE.truth[1] + DELTA * XI - output) ** 2 / 2, tilt=TILT(KEY.truth), length=LENGTH, shared=(XI,),
    )  # fmt: skip


def derive_erm(kind: str = "normalized", formula: str = "exp(x)", shifted: bool = False) -> Derivation:
    """Equations of trained attention, for kernels ("normalized") or activations ("elementwise") given by a formula.

    Observables: ``energy``, ``residual``, ``sample_loss``, ``response_v`` in the sums S and the fields of a token,
    ``statistic_0`` ... of one token, ``field_k``, ``field_v``, ``label_mean``, ``label_spread``; conjugates in sampled
    averages ``mean_*`` (``V_hat_*``: by parts, ``V_hat_*_pointwise``), and order parameters in conjugates.
    """
    if kind not in ("normalized", "elementwise"):
        raise ValueError(f"kind must be 'normalized' or 'elementwise', got {kind!r}")
    steps: list[Step] = []
    definitions: list[Definition] = []
    observables = _sample_problem(kind, formula, shifted, definitions, steps)
    observables |= _law_of_fields(definitions, steps)
    observables |= _conjugates(definitions, steps)
    observables |= _order_parameters(definitions, steps)
    rows = _rows(observables)
    record = Equations(f"single_location.erm.{kind}", rows, {}, observables)
    return Derivation(
        f"single_location.erm.{kind}", f"Trained {kind} attention", PAPER, tuple(definitions), tuple(steps), record
    )  # fmt: skip


# --------------------------------------------------------------------------- one sample


def _sample_problem(
    kind: str, formula: str, shifted: bool, definitions: list[Definition], steps: list[Step]
) -> dict[str, sp.Expr]:
    """The value field minimized: energy of the key fields, residual, response of the value fields."""
    weight = parse(formula).to_sympy(CHI + SCORE if shifted else CHI)
    first = weight if kind == "normalized" else sp.Integer(1)
    summands = (first, weight * OMEGA_V, weight**2)
    S0, S1, S2 = STATISTICS if kind == "normalized" else (sp.Integer(1), *STATISTICS[1:])
    fields, values = sp.IndexedBase("chi"), sp.IndexedBase("omega_v")

    def at_token(summand: sp.Expr, i: sp.Basic) -> sp.Expr:
        return summand.xreplace({CHI: fields[i], OMEGA_V: values[i]})

    sums = {
        s: over_tokens(lambda i, e=e: at_token(e, i), LENGTH)
        for s, e in zip(STATISTICS, summands, strict=True)
    }
    output = over_tokens(lambda i: WEIGHT[i] * VALUE.field[i], LENGTH)
    loss = (LABEL - output) ** 2 / 2
    penalty = over_tokens(lambda i: (VALUE.field[i] - values[i]) ** 2 / (2 * VALUE.V), LENGTH)
    attended = over_tokens(lambda i: WEIGHT[i] * values[i], LENGTH)
    squares = over_tokens(lambda i: WEIGHT[i] ** 2, LENGTH)
    error = (LABEL - attended) / (1 + VALUE.V * squares)
    in_sums = (LABEL - S1 / S0) / (1 + VALUE.V * S2 / S0**2)
    energy = in_sums * (LABEL - S1 / S0) / 2
    own = {s: sp.diff(e, OMEGA_V) for s, e in zip(STATISTICS, summands, strict=True)}
    response = -sp.Add(*[sp.diff(energy, s) * slope for s, slope in own.items() if slope != 0])
    check = _sample_check(sums, weight, kind)
    lines = {
        ENERGY: (Moreau(loss, penalty, [VALUE.field]), error * (LABEL - attended) / 2, energy),
        RESIDUAL: (AtProximal(LABEL - output, loss, penalty, [VALUE.field]), error, in_sums),
        SAMPLE_LOSS: (AtProximal(loss, loss, penalty, [VALUE.field]), error**2 / 2, in_sums**2 / 2),
        RESPONSE: (
            AtProximal((VALUE.field[1] - values[1]) / VALUE.V, loss, penalty, [VALUE.field]),
            WEIGHT[1] * error,
            response,
        ),
        ATTENTION: (AtProximal(WEIGHT[1], loss, penalty, [VALUE.field]), WEIGHT[1], weight / S0),
        SQUARES: (AtProximal(squares, loss, penalty, [VALUE.field]), squares, S2 / S0**2),
    }
    for symbol, (meaning, closed, final) in lines.items():
        definitions.append(Definition(symbol, meaning, _MEANING[symbol]))
        steps.append(
            Step(f"value field minimized ({symbol})", meaning, closed, (symbol.name,),
                 "the loss is quadratic in the value field, along the weights", check)
        )  # fmt: skip
        steps.append(
            Step(f"sums over tokens ({symbol})", closed, final, (f"value field minimized ({symbol})",),
                 "the weights enter through sums of statistics of single tokens"
                 + ("; envelope theorem" if symbol == RESPONSE else ""), check)
        )  # fmt: skip
    found = {s.name: final for s, (_, _, final) in lines.items()}
    return found | _statistics(sums, summands, definitions, steps, fields, values)


_MEANING = {
    ENERGY: "least loss of a sample over the value field, at given key fields",
    RESIDUAL: "what is left of the label at the minimum",
    SAMPLE_LOSS: "half its square",
    ATTENTION: "weight of a token",
    SQUARES: "sum of the squared weights",
    RESPONSE: "how far the sample moves the value field of a token, over the variance",
}


def _statistics(
    sums: dict[sp.Symbol, sp.Expr],
    summands: tuple[sp.Expr, ...],
    definitions: list[Definition],
    steps: list[Step],
    fields: sp.IndexedBase,
    values: sp.IndexedBase,
) -> dict[str, sp.Expr]:
    """What one token adds to each sum: the last term of the sum over one token more than given."""
    found = {}
    for position, (symbol, summand) in enumerate(zip(sums, summands, strict=True)):
        name = sp.Symbol(f"statistic_{position}", real=True)
        one = sums[symbol]
        lone = expand_sums(one, LENGTH, 1)
        definitions.append(Definition(name, one, f"sum {symbol} over the tokens"))
        to_token = {fields[1]: CHI, values[1]: OMEGA_V}

        def concrete(expression: sp.Expr, length: int, to_token=to_token) -> sp.Expr:
            return expand_sums(expression, LENGTH, length).xreplace(to_token)

        point = {"L": 1, "chi": "0.4", "omega_v": "0.7", "shift": "0.2"}
        steps.append(
            Step(f"one token ({symbol})", one, summand, (name.name,), "the sum at L = 1 is what a token adds",
                 verified(point, digits=25, left="mp-trapezoid", right="mp-quad", concrete=concrete))
        )  # fmt: skip
        found[name.name] = summand
        assert lone.xreplace(to_token) == summand
    return found


def _sample_check(sums: dict[sp.Symbol, sp.Expr], weight: sp.Expr, kind: str) -> Check:
    """At two tokens with numbers for their fields: the minimum by linear equations, sums written out."""
    numbers = {1: ("0.3", "0.8"), 2: ("-0.5", "0.6")}
    fields, values = sp.IndexedBase("chi"), sp.IndexedBase("omega_v")

    def concrete(expression: sp.Expr, length: int) -> sp.Expr:
        opened = expand_sums(expression, LENGTH, length)
        opened = opened.replace(lambda e: isinstance(e, Moreau | AtProximal), solve_quadratic)
        opened = opened.xreplace({s: expand_sums(e, LENGTH, length) for s, e in sums.items()})
        total = sp.Add(*[weight.xreplace({CHI: fields[i]}) for i in range(1, length + 1)])
        scale = total if kind == "normalized" else sp.Integer(1)
        places: dict[sp.Expr, sp.Expr] = {
            WEIGHT[i]: weight.xreplace({CHI: fields[i]}) / scale for i in range(1, length + 1)
        }
        opened = opened.xreplace(places).xreplace({CHI: fields[1], OMEGA_V: values[1]})
        known = {fields[i]: sp.Rational(numbers[i][0]) for i in numbers}
        known |= {values[i]: sp.Rational(numbers[i][1]) for i in numbers}
        return opened.xreplace(known)

    point = {"L": 2, "label": "0.9", "V_v": "0.7", "shift": "0.2"}
    return verified(point, digits=25, left="mp-trapezoid", right="mp-quad", concrete=concrete)


# --------------------------------------------------------------------------- law of the fields

FIELD_K, FIELD_V, LABEL_MEAN, LABEL_SPREAD = sp.symbols("field_k field_v label_mean label_spread", real=True)
PENALTY = sp.Symbol("penalty", real=True)
TRUTH_K, NOISE_K, GAUSS_V = sp.symbols("truth_k noise_k gauss_v", real=True)  # of one token


def _law_of_fields(definitions: list[Definition], steps: list[Step]) -> dict[str, sp.Expr]:
    """Fields without the sample, and the law of the label given the value field of the hidden token.

    (z_v, omega_v) of the hidden token is Gaussian: the label given omega_v has mean m/q omega_v, variance
    1 - m^2/q + noise^2, and omega_v is sqrt(q) times a standard Gaussian.
    """
    from theorykit.derivations.nodes import Expectation

    z, eta = sp.symbols("z eta", real=True)
    omega = VALUE.m * z + VALUE.spread * eta
    label = z + DELTA * XI
    gauss = (z, eta, XI)
    covariance, variance, power = (
        Expectation(sp.expand(e), gauss) for e in (omega * label, omega**2, label**2)
    )
    spread_square = power - covariance**2 / variance
    entries = (
        (FIELD_K, KEY.m * TRUTH_K + KEY.spread * NOISE_K, None, "key field of a token"),
        (FIELD_V, sp.sqrt(variance) * GAUSS_V, sp.sqrt(VALUE.q) * GAUSS_V, "value field of a token"),
        (LABEL_MEAN, covariance / variance * OMEGA_V, VALUE.m / VALUE.q * OMEGA_V, "mean of the label given it"),
        (LABEL_SPREAD, sp.sqrt(spread_square), sp.sqrt(1 - VALUE.m**2 / VALUE.q + DELTA**2), "its spread"),
        (PENALTY, KEY.penalty(sp.S.One), KEY.penalty(sp.S.One, OMEGA_K).xreplace({KEY.field[1]: CHI}),
         "penalty of a key field"),
    )  # fmt: skip
    point = {"m_v": 0.7, "q_v": 0.8, "noise": 0.4, "gauss_v": 0.3, "omega_v": 0.6, "m_k": 0.6, "q_k": 0.9,
             "truth_k": 0.2, "noise_k": 0.5, "chi": 0.8, "V_k": 0.7}  # fmt: skip
    found = {}
    for symbol, definition, result, meaning in entries:
        if result is None:
            definition, result = KEY.omega(sp.Integer(1)), definition
        definitions.append(Definition(symbol, definition, meaning))
        replaced = {KEY.truth[1]: TRUTH_K, KEY.noise[1]: NOISE_K, KEY.field[1]: CHI,
                    OMEGA_K: KEY.m * TRUTH_K + KEY.spread * NOISE_K}  # fmt: skip
        steps.append(
            Step(f"Gaussian fields ({symbol})", definition, result, (symbol.name,),
                 "second moments of jointly Gaussian fields determine the conditional law",
                 verified({**point, "L": 1}, concrete=lambda e, _, r=replaced: e.xreplace(r)))
        )  # fmt: skip
        found[symbol.name] = result
    return found


# --------------------------------------------------------------------------- conjugates


def _conjugates(definitions: list[Definition], steps: list[Step]) -> dict[str, sp.Expr]:
    """Conjugates of the order parameters in averages of responses that can be sampled."""
    problem = attention_problem()
    check = verified({**_POINT, "L": 2}, digits=8, concrete=_polynomial_responses)

    def average(summand: Callable[[sp.Basic], sp.Expr]) -> sp.Expr:
        return problem.average(over_tokens(summand, LENGTH))

    label = VALUE.truth[1] + DELTA * XI
    variance = 1 - VALUE.m**2 / VALUE.q + DELTA**2
    rest = label - VALUE.m / VALUE.q * VALUE.omega(sp.Integer(1))
    means = {
        "kk": average(lambda i: F_K[i] ** 2),
        "vv": average(lambda i: F_V[i] ** 2),
        "k_noise": average(lambda i: F_K[i] * KEY.noise[i]),
        "k_truth": average(lambda i: F_K[i] * KEY.truth[i]),
        "k_slope": average(lambda i: F_K[i] * SLOPE[i]),
        "v_label": problem.average(F_V[1] * rest),
        "v_field": average(lambda i: F_V[i] * VALUE.omega(i)),
        "k_div": average(lambda i: D_K[i]),
        "v_div": average(lambda i: D_V[i]),
    }
    for name, mean in means.items():
        definitions.append(Definition(MEANS[name], mean, "average over the fields of a sample"))
    E = MEANS
    v_label = ALPHA * E["v_label"] / variance
    pull_k = average(lambda i: F_K[i] * (KEY.truth[i] - KEY.m * KEY.noise[i] / KEY.spread))
    pull_v = average(lambda i: F_V[i] * (VALUE.truth[i] - VALUE.m * VALUE.noise[i] / VALUE.spread))
    push_v = average(lambda i: F_V[i] * VALUE.noise[i])
    named = "responses are named f = (x - omega)/V; replica saddle point"
    parts = "Gaussian integration by parts in the noise of the fields"
    entries: tuple[tuple[str, sp.Expr, sp.Expr, str], ...] = (
        ("q_hat_k", ALPHA * means["kk"], ALPHA * E["kk"], named),
        ("q_hat_v", ALPHA * means["vv"], ALPHA * E["vv"], named),
        ("V_hat_k", -ALPHA * means["k_noise"] / KEY.spread, -ALPHA * E["k_noise"] / KEY.spread, named),
        ("V_hat_k_pointwise", -ALPHA * means["k_noise"] / KEY.spread, -ALPHA * E["k_div"], parts),
        ("V_hat_v", -ALPHA * push_v / VALUE.spread, (VALUE.m * v_label - ALPHA * E["v_field"]) / VALUE.q,
         "integration by parts in z_v and its noise: E[f.omega] is a combination of both"),
        ("V_hat_v_pointwise", -ALPHA * push_v / VALUE.spread, -ALPHA * E["v_div"], parts),
        ("m_hat_k", ALPHA * pull_k, ALPHA * E["k_slope"],
         "integration by parts in z_k, on which the tilt depends, and in the noise"),
        ("m_hat_k_infinite", ALPHA * pull_k, ALPHA * E["k_truth"] - ALPHA * KEY.m * E["k_div"],
         "integration by parts in the noise only: no derivative of the tilt"),
        ("m_hat_v", ALPHA * pull_v, v_label, "z_v given label and omega_v of the hidden token is Gaussian"),
        ("m_hat_v_smooth", ALPHA * pull_v,
         ALPHA * (VALUE.m / VALUE.q * E["v_field"] + (1 - VALUE.m**2 / VALUE.q) / variance * E["v_label"])
         - ALPHA * VALUE.m * E["v_div"],
         "z_v given label and omega_v is Gaussian; integration by parts in its noise only"),
    )  # fmt: skip
    found = {}
    for name, definition, result, reason in entries:
        definitions.append(Definition(sp.Symbol(name, real=True), definition, "stationarity of the action"))
        used = tuple(str(s) for s in MEANS.values() if s in result.free_symbols)
        steps.append(Step(f"sampled average ({name})", definition, result, (name, *used), reason, check))
        found[name] = result
    return found


def _polynomial_responses(expression: sp.Expr, length: int) -> sp.Expr:
    """Abstract responses and tilt by polynomials of the fields, so that averages are exact on few nodes."""
    tokens = range(1, length + 1)
    omega_k, omega_v = KEY.omega, VALUE.omega
    y = VALUE.truth[1] + DELTA * XI
    half, third = sp.Rational(1, 2), sp.Rational(1, 3)
    density, slope = sp.symbols("_density _slope", positive=True)  # 1 + z_k[1]/2 and its derivative
    places: dict[sp.Expr, sp.Expr] = {}
    for i in tokens:
        places[F_K[i]] = omega_k(i) + third * y * omega_v(i) + third * omega_k(i) ** 2
        places[D_K[i]] = 1 + 2 * third * omega_k(i)
        places[F_V[i]] = third * omega_v(i) * omega_k(i) + y
        places[D_V[i]] = third * omega_k(i)
        places[SLOPE[i]] = slope / density if i == 1 else sp.Integer(0)

    def averaged(node: TokenExpectation) -> sp.Expr:
        integrand = node.integrand.replace(TILT, lambda _: density).xreplace(places)
        plain = sp.expand(integrand).xreplace({density: 1 + half * KEY.truth[1], slope: half})
        return TokenExpectation(plain, node.families, node.length, node.shared)

    means = {s: e for s, e in _mean_definitions(attention_problem()).items() if s in expression.free_symbols}
    opened = expand_sums(expression.xreplace(means), LENGTH, length)
    return opened.replace(lambda n: isinstance(n, TokenExpectation), averaged)


def _mean_definitions(problem: Problem) -> dict[sp.Symbol, sp.Expr]:
    """The sampled averages written out, for checks."""
    definitions: list[Definition] = []
    if not _KNOWN:
        _conjugates(definitions, [])
        _KNOWN.update({d.symbol: d.expression for d in definitions if d.symbol in MEANS.values()})
    return _KNOWN


_KNOWN: dict[sp.Symbol, sp.Expr] = {}


# --------------------------------------------------------------------------- order parameters


def _order_parameters(definitions: list[Definition], steps: list[Step]) -> dict[str, sp.Expr]:
    """m, q, V in their conjugates: the ridge, as the general saddle point derives it for each vector."""
    saddle = derive_saddle_point(_stand_in())
    found = {}
    for vector in (KEY, VALUE):
        for symbol in (vector.m, vector.q, vector.V):
            name = str(symbol)
            (definition,) = [d for d in saddle.definitions if d.symbol == symbol]
            definitions.append(definition)
            for step in saddle.steps:
                if step.name.endswith(f"({symbol})"):
                    premises = tuple(p for p in step.premises if p != "replica-symmetric action")
                    steps.append(Step(step.name, step.lhs, step.rhs, premises, step.reason, step.check))
            found[name] = saddle.equations.observables[name]
    return found | _objective(definitions, steps)


def _objective(definitions: list[Definition], steps: list[Step]) -> dict[str, sp.Expr]:
    """Objective per dimension, penalties and loss, and the matrix whose spectral radius must stay below 1."""
    problem, symbol = _stand_in(), sp.Symbol("objective", real=True)
    components = [problem.at_component(a, lambda _, a=a: problem.prior(a).regularizer) for a in (KEY, VALUE)]
    closed = [a.ridge * (a.m_hat**2 + a.q_hat) / (2 * (a.ridge + a.V_hat) ** 2) for a in (KEY, VALUE)]
    loss = ALPHA * MEANS["loss"]
    point = {**_POINT, "mean_loss": 0.3, "L": 1}
    for a in (KEY, VALUE):
        point |= {
            f"m_hat_{a.name}": 0.7,
            f"q_hat_{a.name}": 0.5,
            f"V_hat_{a.name}": 0.9,
            f"ridge_{a.name}": 0.4,
        }
    definitions.append(
        Definition(symbol, sp.Add(*components) + loss, "objective per dimension at the saddle point")
    )
    steps.append(
        Step("penalties (objective)", sp.Add(*components) + loss, sp.Add(*closed) + loss, (symbol.name,),
             "a quadratic objective has a linear minimizer; Wick's theorem",
             verified(point, concrete=lambda e, _: e.replace(lambda n: isinstance(n, AtProximal), solve_quadratic)))
    )  # fmt: skip
    return {"objective": sp.Add(*closed) + loss}


def _stand_in() -> Problem:
    """Two vectors on one token: order parameters depend on the prior only."""
    loss = (KEY.truth[1] + VALUE.truth[1] - KEY.field[1] * VALUE.field[1]) ** 2 / 2
    return Problem("single_location.prior", "Ridge", PAPER, (KEY, VALUE), loss)


def _rows(observables: dict[str, sp.Expr]) -> tuple[Quantity, ...]:
    rows = [*KEY.rows(), *VALUE.rows(), Quantity(ALPHA, r"\alpha", "samples per dimension, N/D", "(0, inf)"),
            Quantity(DELTA, r"\Delta", "standard deviation of the label noise", "[0, inf)"),
            Quantity(LABEL, "y", "label"), Quantity(CHI, r"\chi", "key field of a token"),
            Quantity(OMEGA_V, r"\omega_v", "value field of a token without the sample"),
            Quantity(OMEGA_K, r"\omega_k", "key field of a token without the sample"),
            Quantity(SCORE, "c", "shift of the error function"),
            Quantity(TRUTH_K, r"\chi^*", "field of a token along k*"),
            Quantity(NOISE_K, r"\eta", "rest of its key field"),
            Quantity(GAUSS_V, "h", "its value field over sqrt(q_v)")]  # fmt: skip
    rows += [Quantity(s, f"S_{i}", "sum of a statistic over tokens") for i, s in enumerate(STATISTICS)]
    rows += [
        Quantity(s, rf"\mathsf{{E}}_{{\mathrm{{{n.replace('_', '-')}}}}}", "average")
        for n, s in MEANS.items()
    ]
    used = set().union({KEY.V}, *[e.free_symbols for e in observables.values()])
    results = [Quantity(sp.Symbol(n, real=True), *row) for n, row in _RESULTS.items() if n in observables]
    known = [r for r in rows if r.symbol in used]
    return (*known, *[r for r in results if r.name not in {k.name for k in known}])


#: What is derived: name -> (LaTeX, meaning).
_RESULTS = {
    "energy": (r"\mathcal E", "energy of the key fields, the value field minimized"),
    "residual": ("r", "residual of the sample"),
    "sample_loss": (r"\ell", "loss of the sample, half its squared residual"),
    "response_v": ("f_v", "response of the value field of a token"),
    "weight": (r"\sigma", "attention weight of a token"),
    "weight_square": (r"\Sigma_2", "sum of the squared attention weights"),
    **{f"statistic_{i}": (f"t_{i}", f"what a token adds to S_{i}") for i in range(3)},
    "field_k": (r"\omega_k^{\circ}", "key field of a token without the sample, in standard ones"),
    "penalty": (r"\mathcal P", "penalty of the key field of a token"),
    "field_v": (r"\omega_v^{\circ}", "value field of a token without the sample, in standard ones"),
    "label_mean": (r"\bar y", "mean of the label given the value field of its token"),
    "label_spread": (r"\Delta_y", "standard deviation of the label given that field"),
    "V_hat_k_pointwise": (r"\hat V_k^{\partial}", "conjugate variance of the key by derivatives at points"),
    "V_hat_v_pointwise": (r"\hat V_v^{\partial}", "conjugate variance of the value by derivatives at points"),
    "m_hat_k_infinite": (r"\hat m_k^{\infty}", "conjugate overlap of the key, any law of the location"),
    "m_hat_v_smooth": (r"\hat m_v^{\partial}", "conjugate overlap of the value by derivatives at points"),
    "objective": ("e", "objective per dimension"),
    "test_risk": ("R", "population risk of the trained attention"),
    "train_loss": (r"\epsilon", "training loss, half the mean squared residual"),
}
