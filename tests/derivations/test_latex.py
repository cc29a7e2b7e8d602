"""The LaTeX export: balanced, deterministic, escaped, broken into lines; KaTeX and pdflatex accept it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sympy as sp
import toy_theory
from latex_readers import ALIGN, assert_balanced, assert_compiles, mathematics, read_by_katex
from toy_theory import THEORY, make_growth, make_weights

from theorykit import theory
from theorykit._latex.layout import ROOM, aligned_rows, broken
from theorykit._latex.printer import MathPrinter
from theorykit._latex.text import escaped, slug
from theorykit._latex.width import visual_width
from theorykit.derivations.ledger import Definition, Derivation, Equations, Quantity, Step, assumed
from theorykit.derivations.minimum import AtMinimum, minimum
from theorykit.derivations.nodes import (
    DistinctSum,
    Expectation,
    HalfLine,
    Largest,
    TokenExpectation,
    TokenPower,
    TruncatedExpectation,
)
from theorykit.derivations.proximal import AtProximal
from theorykit.derivations.special import gamma_weight, normal_cdf, owens_t
from theorykit.theory import Theory

ROOT = Path(__file__).resolve().parents[2]
X, Y = sp.symbols("x y", real=True)
A, B, T = sp.symbols("a b t", positive=True)
LENGTH = sp.Symbol("L", integer=True, positive=True)
CHI = sp.IndexedBase("chi")
ELL, EM, EN = sp.symbols("l m n", integer=True, positive=True)
W = sp.Function("w")

LONG = sp.Add(*[A**i * Expectation(sp.exp(-T * X**i) * sp.log(1 + X**2), [X]) ** i for i in range(1, 7)])
DEEP = HalfLine(
    T * sp.exp(-LONG) * Expectation((LONG + X) ** 3 * sp.exp(-T * sp.exp(X)), [X]) * (1 + LONG), T
)
ZOO = {
    "every_node": Expectation(X * Y, [X, Y], [[1, A], [A, 2]]) * TokenPower(A + 1, LENGTH - 2)
    + TruncatedExpectation(X + 1, X, B) ** 2
    + TokenExpectation(Largest(CHI, 1) * W(CHI[1]), [CHI], LENGTH)
    + DistinctSum(W(CHI[ELL]) * W(CHI[EM]), [ELL, EM], 2, LENGTH)
    + DistinctSum(CHI[ELL] * CHI[EM] * CHI[EN], [ELL, EM, EN], 1, LENGTH)
    + DistinctSum(CHI[ELL], ELL, 1, LENGTH, [3]) * A
    + gamma_weight(T * W(X), 2)
    + normal_cdf(A) ** 2 * owens_t(A, B),
    "functions": sp.Piecewise((sp.erf(A), A > B), (sp.Max(A, B) - sp.Abs(B), True))
    + sp.sqrt(A) / sp.cosh(B) * sp.log(A) ** 2
    + sp.Float("0.1")
    + sp.sign(A) * sp.erfc(B) / sp.pi,
    "long_sum": LONG,
    "deep": DEEP,
    "wide_product": sp.Mul(*[sp.sin(A + i) ** i + sp.cos(B * i) for i in range(1, 9)]),
    "wide_exponent": sp.exp(-LONG) / (1 + A),
    "minimum": minimum(LONG**2 + (A - B) ** 2, [A, B]) + AtMinimum(A, LONG**2 + B, [A, B]),
    "negative_sums": -DistinctSum(W(CHI[ELL]), ELL, 1, LENGTH) * (LONG + 1) - LONG * B,
}


def zoo() -> Derivation:
    """A derivation that prints every kind of node, and formulas too long for a line."""
    symbols = [sp.Symbol(name) for name in ZOO]
    definitions = tuple(Definition(s, e, f"{s} of all") for s, e in zip(symbols, ZOO.values(), strict=True))
    steps = tuple(
        Step(f"keep {n}", e, e, (n,), "nothing to do", assumed("nothing to show"), ("a > 0",))
        for n, e in ZOO.items()
    )
    table = (Quantity(A, r"\alpha_0", "a"), Quantity(B, "b", "b"), Quantity(LENGTH, "L", "length"),
             Quantity(T, "t", "t"), Quantity(X, "x", "x"), Quantity(sp.Symbol("chi"), r"\chi", "field"),
             Quantity(sp.Symbol("q_hat"), r"\hat{q}", "conjugate"))  # fmt: skip
    record = Equations("zoo", table, {}, {})
    return Derivation("zoo", "All nodes", "§ 3.1 of these tests", definitions, steps, record, "notes: 100 %")


# ----------------------------------------------------------------- form


@pytest.mark.parametrize(
    "subject", [THEORY, make_growth(), make_weights().equations, zoo()], ids=lambda s: s.name
)
@pytest.mark.parametrize("fragment", [False, True])
def test_documents_are_balanced(subject, fragment):
    tex = theory.latex(subject, fragment=fragment)
    assert_balanced(tex)
    assert tex.startswith(r"\documentclass") is not fragment
    assert (r"\begin{document}" in tex) is not fragment
    assert tex.isascii()


def test_every_equation_has_one_label_and_every_reference_an_equation():
    tex = theory.latex(THEORY) + theory.latex(zoo())
    labels = re.findall(r"\\label\{([^}]*)\}", tex)
    assert len(labels) == len(set(labels)) == len(ALIGN.findall(tex))
    assert set(re.findall(r"\\eqref\{([^}]*)\}", tex)) <= set(labels)
    for body in ALIGN.findall(tex):
        assert body.count(r"\label") == 1
        assert body.count(r"\\" + "\n") == body.count(r"\notag")


def test_derivations_that_differ_by_options_have_labels_of_their_own():
    twice = Theory("twice", "Twice", {"growth[quick]": make_growth, "growth[slow]": make_growth})
    labels = re.findall(r"\\label\{([^}]*)\}", theory.latex(twice))
    assert len(labels) == len(set(labels)) == 2 * len(ALIGN.findall(theory.latex(make_growth())))
    assert "eq:growth-slow:step-tilt" in labels


def test_steps_state_reason_assumptions_premises_and_check():
    tex = theory.latex(make_growth(), fragment=True)
    assert r"\textbf{Step 1: integration by parts.} Stein's lemma." in tex
    assert r"\emph{From} \eqref{eq:toy-growth:def-growth}." in tex
    assert "verified: both sides agree to 30 digits or more at 2 points (mp-trapezoid against mp-quad)" in tex
    assert "assumed, not proved here: standard lore" in tex
    assert "simulated: growth in validate" in tex
    assert "proved: the difference of both sides reduces to zero" in tex
    assert r"\emph{Assuming} the weights are positive." in theory.latex(make_weights())


def test_symbols_are_listed_with_meaning_domain_and_scaling():
    tex = theory.latex(make_growth())
    assert (
        r"$\mathcal{G}$ & \raggedright growth & \raggedright (0, inf) & \raggedright O(1) \tabularnewline"
        in tex
    )
    assert r"shift \& offset, in \% of the standard deviation" in tex


def test_final_equations_and_known_values_are_listed():
    tex = theory.latex(make_weights(), fragment=True)
    results = tex.split(r"\subsection*{Equations}")[1]
    assert r"\mathcal{B} &= \int_0^\infty" in results
    assert r"$\mathcal{B} = \frac{1}{4}$ at $a = 0$, $L = 4$: uniform weights." in results


def test_declared_symbols_print_as_declared():
    printer = MathPrinter([Quantity(A, r"\alpha_0", "a"), Quantity(sp.Symbol("q_hat"), r"\hat{q}", "q")])
    assert printer.print(A + sp.Symbol("q_hat", positive=True)) == r"\alpha_0 + \hat{q}"
    assert printer.print(sp.Symbol("bayes_risk")) == r"\mathrm{bayes\ risk}"
    assert printer.print(sp.Symbol("m_k")) == "m_{k}"
    assert printer.print(sp.Symbol("nu")) == r"\nu"


def test_export_is_the_same_in_every_process():
    script = str(Path(toy_theory.__file__))
    texts = set()
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        found = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, check=True, env=environment
        )
        texts.add(found.stdout)
    assert texts == {theory.latex(THEORY)}


def test_what_is_no_theory_is_refused():
    from theorykit.latex import document

    with pytest.raises(TypeError, match="Derivation, Equations or Theory is expected, got int"):
        document(3)


# ----------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("text", "tex"),
    [
        (r"\input{/etc/passwd}", r"\textbackslash{}input\{/etc/passwd\}"),
        ("50% of $x_1^2 & #3~", r"50\% of \$x\_1\textasciicircum{}2 \& \#3\textasciitilde{}"),
        ("ν < 1, Δ² ≥ 0", r"$\nu$ $<$ 1, $\Delta$$^{2}$ $\ge$ 0"),
        ("Erdős, Łukasz, naïve, é", r"Erd\H{o}s, \L{}ukasz, na\"{i}ve, \'{e}"),
        ("§ 2 – “so” 1→2", r"\mathhexbox278{} 2 -- ``so'' 1$\to$2"),
        ("a\nb|c", "a b$|$c"),
        ("Ε and Ω and λ", r"$\mathrm{E}$ and $\Omega$ and $\lambda$"),
    ],
)
def test_text_is_escaped(text, tex):
    assert escaped(text) == tex


def test_text_that_cannot_be_printed_is_named():
    with pytest.raises(ValueError, match=r"cannot hold '語' \(U\+8A9E"):
        escaped("ab語")


def test_labels_are_plain():
    assert slug("Erdős & ν: step 1!") == "erdos-step-1"
    assert slug("νν") == "x"


# ----------------------------------------------------------------- mathematics on lines


@pytest.mark.parametrize("name", ZOO)
def test_no_line_is_wider_than_the_page(name):
    rows = aligned_rows("R", ZOO[name], MathPrinter())
    assert all(visual_width(row) <= ROOM + 8 for row in rows)
    if name in ("long_sum", "deep", "negative_sums", "wide_product"):
        assert len(rows) > 1


def test_sums_are_broken_between_terms():
    lines = broken(LONG, MathPrinter())
    assert all(depth == 0 for depth, _ in lines)
    assert all(text.startswith("{}+ ") for _, text in lines[1:])
    assert " ".join(text.removeprefix("{}") for _, text in lines) == MathPrinter().print(LONG)


@pytest.mark.parametrize("name", ZOO)
def test_breaking_lines_keeps_the_formula(name):
    """Without brackets, spaces, fractions and signs of breaking, lines and formula hold the same letters."""
    marks = (r"\left", r"\right", r"\Bigl", r"\Bigr", r"\biggl", r"\biggr", r"\times", r"\frac")

    def letters(tex: str) -> list[str]:
        for mark in marks:
            tex = tex.replace(mark, "")
        return sorted(re.sub(r"[(){} ]", "", tex))

    lines = " ".join(text for _, text in broken(ZOO[name], MathPrinter()))
    assert letters(lines) == letters(MathPrinter().print(ZOO[name]))


@pytest.mark.parametrize(
    ("expression", "tex"),
    [
        (DistinctSum(W(CHI[ELL]), ELL, 1, LENGTH) + B, r"b + \sum_{l=1}^{L} w{\left({\chi}_{l} \right)}"),
        (DistinctSum(CHI[ELL], ELL, 1, LENGTH) * A, r"a \sum_{l=1}^{L} {\chi}_{l}"),
        (DistinctSum(CHI[ELL], ELL, 1, LENGTH) ** 2, r"\left(\sum_{l=1}^{L} {\chi}_{l}\right)^{2}"),
        (DistinctSum(CHI[ELL] + 1, ELL, 1, LENGTH), r"\sum_{l=1}^{L} \left({\chi}_{l} + 1\right)"),
        (
            DistinctSum(CHI[ELL] * CHI[EM], [ELL, EM], 2, LENGTH),
            r"\sum_{2\le l\ne m\le L} {\chi}_{l} {\chi}_{m}",
        ),
        (HalfLine(A * T + 1, T) * B, r"b \int_0^\infty \left(a t + 1\right)\,dt"),
        (HalfLine(T, T) ** 2, r"\left(\int_0^\infty t\,dt\right)^{2}"),
        (HalfLine(T, T) * HalfLine(T**2, T), r"\left(\int_0^\infty t\,dt\right) \int_0^\infty t^{2}\,dt"),
        (TokenPower(A + 1, LENGTH), r"\left(a + 1\right)^{L}"),
        (gamma_weight(A * T, 1), r"a t e^{- a t}"),
        (gamma_weight(A * T, 2) * B, r"b \left(a t\right)^{2} e^{- a t}"),
        (Expectation(X**2, [X], [[B]]), r"\mathbb{E}_{x\sim\mathcal{N}(0,b)}\left[x^{2}\right]"),
        (normal_cdf(A) ** 2, r"\Phi^{2}\left(a\right)"),
    ],
)
def test_brackets_stand_where_they_are_needed(expression, tex):
    assert MathPrinter().print(expression) == tex


@pytest.mark.parametrize(
    "expression",
    [
        -A / 2,
        2 * A / 3,
        -3 * A**2 / (5 * B),
        1 / sp.sqrt(A),
        -1 / A**2,
        A / (B * (A + 1) ** 3),
        3 * 2**A,
        sp.sqrt(2) * A / 2,
        -(A + B) * X,
        (A + 1) * (B + 1),
        A**-LENGTH * B,
        sp.exp(-A) / B,
        -sp.Float("0.5") * A,
        X - (A + B) / 2,
        sp.sin(A) ** 2 / sp.cos(B),
    ],
    ids=str,
)
def test_products_print_like_sympy_where_no_fraction_is_long(expression):
    assert MathPrinter().print(expression) == sp.latex(expression)


def test_what_makes_a_fraction_long_stands_behind_it():
    printer = MathPrinter()
    product = sp.sin(A) * sp.cos(B) * sp.tan(X) / A
    assert printer.print(product) == (
        r"\frac{1}{a} \sin{\left(a \right)} \cos{\left(b \right)} \tan{\left(x \right)}"
    )


def test_a_denominator_wider_than_a_line_is_a_negative_power():
    wide = sp.Add(*[sp.sin(A + i) ** i * sp.cos(B * i) for i in range(1, 9)])
    for expression in (A / wide**2, wide**-2, 1 - X * A / wide**2):
        lines = [text for _, text in broken(expression, MathPrinter())]
        assert len(lines) >= 3
        assert all(visual_width(line) <= 1.1 * ROOM for line in lines)
        assert sum(r"r)^{-2}" in line for line in lines) == 1
        assert_balanced("\n".join(lines))
    assert "^{-1}" not in MathPrinter().print(A / (1 + B))


def test_printing_does_not_simplify(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("simplify was called")

    monkeypatch.setattr(sp.Basic, "simplify", refuse)
    monkeypatch.setattr(sp, "simplify", refuse)
    power = TokenPower(Expectation(sp.exp(-T * sp.exp(A * X)), [X]), LENGTH - 2)
    assert MathPrinter().print(power * (1 - A) ** (LENGTH * (A - 1) / B) / T).startswith(r"\frac{1}{t}")


def test_two_sums_over_tokens_do_not_swallow_each_other():
    two = DistinctSum(CHI[ELL], ELL, 1, LENGTH) + DistinctSum(W(CHI[ELL]), ELL, 1, LENGTH)
    tex = MathPrinter().print(two)
    assert re.fullmatch(r"\\left\(\\sum_.*\\right\) \+ \\sum_[^()]*(\{\\left\(.*\\right\)\})?", tex)
    product = DistinctSum(CHI[ELL], ELL, 1, LENGTH) * DistinctSum(W(CHI[ELL]), ELL, 1, LENGTH)
    assert MathPrinter().print(product).startswith(r"\left(\sum")


# ----------------------------------------------------------------- other readers


@pytest.mark.parametrize("subject", [THEORY, zoo()], ids=lambda s: s.name)
def test_katex_accepts_all_mathematics(subject):
    items = mathematics(theory.latex(subject))
    assert len(items) >= 10
    found = read_by_katex(items)
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == str(len(items))


def test_katex_refuses_what_is_wrong():
    assert read_by_katex([r"\frac{1}{2"]).returncode != 0


@pytest.mark.parametrize("subject", [THEORY, zoo(), make_weights().equations], ids=lambda s: s.name)
def test_pdflatex_compiles_the_document_alone(subject, tmp_path):
    assert_compiles(theory.latex(subject), tmp_path)


def test_functions_are_broken_between_their_arguments():
    arguments = [sp.sin(A + i) * sp.cos(B * i) + X**i for i in range(1, 7)]
    lines = [text for _, text in broken(sp.Function("energy")(*arguments), MathPrinter())]
    assert len(lines) >= 3
    assert all(visual_width(line) <= ROOM for line in lines)
    assert lines[0].startswith(r"\operatorname{energy}\Bigl(")
    assert lines[-1].endswith(r"\Bigr)")
    assert " ".join(lines).count(",") == len(arguments) - 1
    assert all(MathPrinter().print(argument) in " ".join(lines) for argument in arguments)


def test_deep_brackets_are_broken_too():
    wide = sp.Add(*[sp.sin(A + i) * sp.cos(B * i) for i in range(1, 5)])
    for _ in range(12):
        wide = sp.exp(wide) + sp.Symbol("c")
    assert all(visual_width(text) <= ROOM for _, text in broken(wide, MathPrinter()))


def test_a_minimization_is_broken_at_its_objective():
    x = sp.Symbol("x", real=True)
    loss = sp.Add(*[sp.sin(A + i) * sp.cos(x * i) for i in range(1, 8)])
    lines = [text for _, text in broken(AtProximal(x**2, loss, (x - A) ** 2, [x]), MathPrinter())]
    assert r"\text{at}\ \arg\min_{x}" in lines[0]
    assert len(lines) >= 3
    assert all(visual_width(line) <= ROOM for line in lines)
    assert_balanced("\n".join(lines))
