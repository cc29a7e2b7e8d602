"""Population risk of single-location regression: Bayes, given overlaps, optimal overlaps.

All numbers are :class:`~theorykit.results.Estimate` with an error bound. Equations: arXiv 2509.21936, derived in
``theorykit.derivations.single_location`` (see ``tk.derivations()``).
"""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from typing import NamedTuple

from theorykit.results import Estimate, Optimum
from theorykit.single_location.activations import Activation, Erf
from theorykit.single_location.moments import KeyMoments, mix, underflowing
from theorykit.single_location.overlaps import Overlaps
from theorykit.single_location.programs import (
    STEEP,
    bayes_risks,
    is_aligned,
    program,
    propagate,
    task_name,
)
from theorykit.single_location.tasks import Spiked, Task

__all__ = ["attention_moments", "bayes_risk", "best_elementwise_risk", "optimal_risk", "risk"]


def bayes_risk(task: Task, excess: bool = False) -> Estimate:
    r"""Bayes risk :math:`E(y-E[y|X,k^*,v^*])^2`, a lower bound for every estimator.

    Parameters
    ----------
    task : Spiked or Max
    excess : bool
        Leave the label noise :math:`\Delta^2` out.

    Returns
    -------
    Estimate
        Of order 1: in [noise^2, noise^2 + 1].

    Raises
    ------
    TypeError
        ``task`` is no Spiked or Max.
    ConvergenceError
        The quadrature does not converge.

    Notes
    -----
    One half-line integral of one-token averages at any length; relative accuracy about 1e-14 also where the excess
    risk is tiny. A random length is known to the estimator: the average over lengths. Derived in
    ``single_location.bayes_risk`` (see ``tk.derivation``), from arXiv 2509.21936, population risk.

    Examples
    --------
    >>> from theorykit import single_location as slr
    >>> round(bayes_risk(slr.Spiked(nu=4, length=2)), 12)
    0.115509110965
    """
    _require_task(task)
    average = mix([(p, bayes_risks(task, length)) for length, p in task.lengths])
    return average["bayes_excess" if excess else "bayes_risk"]


def _with_noise(value: Estimate, task: Task, excess: bool) -> Estimate:
    if excess:
        return value
    noisy = float(value) + task.noise**2
    return Estimate(noisy, value.error + 2.0**-52 * noisy)


def risk(
    task: Task,
    activation: Activation,
    m_k: float,
    q_k: float,
    m_v: float,
    q_v: float,
    m_kv: float = 0.0,
    m_vk: float = 0.0,
    q_kv: float = 0.0,
    excess: bool = False,
) -> Estimate:
    r"""Population risk :math:`E(y-f)^2` of attention at given overlaps.

    Parameters
    ----------
    task : Spiked or Max
    activation : Activation
        An ``Erf`` needs a shift.
    m_k, q_k : float
        :math:`k\cdot k^*/D` and :math:`|k|^2/D\ge m_k^2`.
    m_v, q_v : float
        :math:`v\cdot v^*/D` and :math:`|v|^2/D\ge m_v^2`.
    m_kv, m_vk, q_kv : float
        :math:`k\cdot v^*/D`, :math:`v\cdot k^*/D` and :math:`k\cdot v/D`; zero on the manifold.
    excess : bool
        Leave the label noise out.

    Returns
    -------
    Estimate
        With the squared error as it is, without a factor 1/2.

    Raises
    ------
    ValueError
        The overlaps are not those of any vectors (the Gram matrix of k*, v*, k, v has a negative eigenvalue).
    ConvergenceError
        The quadrature does not converge.

    Notes
    -----
    Derived in ``single_location.risk`` on the manifold and in ``single_location.off_manifold`` off it, from
    arXiv 2509.21936, population risk.

    Examples
    --------
    >>> from theorykit import single_location as slr
    >>> round(risk(slr.Spiked(nu=4, length=3), slr.Softmax(), m_k=2, q_k=4, m_v=1, q_v=1), 12)
    0.194123973657
    """
    _require_task(task)
    _require_activation(activation)
    overlaps = Overlaps(m_k, q_k, m_v, q_v, m_kv, m_vk, q_kv)
    if not overlaps.is_on_manifold:
        from theorykit.single_location.off_manifold import excess_risk

        return _with_noise(excess_risk(task, activation, overlaps), task, excess)
    moments = KeyMoments(task, activation, is_aligned(overlaps.m_k, overlaps.q_k))
    found = moments.risk_at(overlaps.m_k, overlaps.q_k, overlaps.m_v, overlaps.q_v, task.noise)
    return found["excess" if excess else "risk"]


class AttentionMoments(NamedTuple):
    """Mean weight A of the informative token and mean sum B of the squared weights."""

    A: Estimate
    B: Estimate


def attention_moments(task: Task, activation: Activation, m_k: float, q_k: float) -> AttentionMoments:
    r""":math:`A=E\,\sigma_\epsilon(\chi)` and :math:`B=E\sum_l\sigma_l(\chi)^2` at the overlaps of the key.

    The risk on the manifold is :math:`\Delta^2+1-2m_vA+q_vB`.

    Parameters
    ----------
    task : Spiked or Max
    activation : Activation
        An ``Erf`` needs a shift.
    m_k, q_k : float
        :math:`k\cdot k^*/D` and :math:`|k|^2/D\ge m_k^2`, of order 1.

    Returns
    -------
    AttentionMoments
        ``A`` and ``B``, of order 1 in the dimension; a random length is averaged over.

    Raises
    ------
    TypeError, ValueError
        An argument is of the wrong kind, or the overlaps are not those of any vectors.
    ConvergenceError
        The quadrature does not converge.

    Notes
    -----
    Derived in ``single_location.normalized_moments`` and ``elementwise_moments`` (closed for ``Linear`` and ``Erf``),
    from arXiv 2509.21936, population risk.

    Examples
    --------
    >>> from theorykit import single_location as slr
    >>> A, B = attention_moments(slr.Spiked(nu=4, length=3), slr.Linear(), m_k=1, q_k=1)
    >>> round(A, 12), round(B, 12)
    (3.0, 14.0)
    """
    _require_task(task)
    _require_activation(activation)
    overlaps = Overlaps(m_k, q_k, 0.0, 0.0)
    moments = KeyMoments(task, activation, is_aligned(overlaps.m_k, overlaps.q_k))
    found = moments.at(overlaps.m_k, overlaps.q_k)
    fixed = {"m_v": 0.0, "q_v": 0.0, "noise": 0.0, "residual": 0.0}
    observed = propagate(moments.risk, {**fixed, **found}, ("A", "B"))
    return AttentionMoments(observed["A"] if moments.is_normalized else found["A"], observed["B"])


def optimal_risk(task: Task, activation: Activation, excess: bool = False) -> Optimum:
    """Smallest population risk over all overlaps (and over the shift of ``Erf(shift=None)``).

    The best v for a key is closed (v = (A/B) v*); the key overlaps are searched over m_k and q_k >= m_k**2. That
    q_k = m_k**2 is optimal is observed in every case, not proved. Softmax attention at very strong signals (nu above
    400 spiked, 8 max) is not searched for: at k = c k*, v = v*, c = sqrt(nu) or nu, it is the Bayes estimator.

    Parameters
    ----------
    task : Spiked or Max
    activation : Activation
        With ``Erf(shift=None)`` the shift is searched over too.
    excess : bool
        Leave the label noise out.

    Returns
    -------
    Optimum
        ``attained`` is False where the infimum is approached as the overlaps grow; ``risk`` is then the limit.

    Raises
    ------
    ConvergenceError
        The search finds neither a minimum nor a limit.

    Examples
    --------
    >>> from theorykit import single_location as slr
    >>> best = optimal_risk(slr.Spiked(nu=4, length=3), slr.Linear())
    >>> round(best.risk, 12), round(best.m_k, 12)
    (0.352941176471, 1.333333333333)
    """
    from theorykit.single_location.optimum import find_optimum

    _require_task(task)
    _require_activation(activation, free_shift=True)
    found = find_optimum(task, activation)
    if excess:
        return found
    from dataclasses import replace

    return replace(found, risk=_with_noise(found.risk, task, excess))


def best_elementwise_risk(task: Task, excess: bool = False) -> Estimate:
    """Infimum of the population risk over all activations applied token by token.

    Spiked: depends on the law of the length through its mean only. Max: needs the density of the hidden field.

    Parameters
    ----------
    task : Spiked or Max
    excess : bool
        Leave the label noise out.

    Returns
    -------
    Estimate
        In [noise^2, noise^2 + 1].

    Raises
    ------
    TypeError
        ``task`` is no Spiked or Max.
    ConvergenceError
        The quadrature does not converge.

    Notes
    -----
    Derived in ``single_location.best_elementwise``, from arXiv 2509.21936, population risk.

    Examples
    --------
    >>> from theorykit import single_location as slr
    >>> round(best_elementwise_risk(slr.Max(nu=float("inf"), length=2)), 12)
    0.333333333333
    """
    _require_task(task)
    kind, mean = task_name(task), task.mean_length
    if mean == 1:
        return _with_noise(Estimate(0.0, 0.0), task, excess)
    if isinstance(task, Spiked):
        found = program("best_elementwise", ("best_excess",), task=kind)
        value = found.values({"nu": task.nu, "L": mean}, underflowing())["best_excess"]
        return _with_noise(value, task, excess)
    options = {"steep": True} if kind == "max" and task.nu > STEEP else {}
    pairs = program("best_elementwise", ("overlap",), task=kind, **options)
    # a single token overlaps with every length by 1: what it adds to 1 and to the overlaps is left out
    parts, error = [p * (length - 1) for length, p in task.lengths], 0.0
    several = [(length, p) for length, p in task.lengths if length > 1]
    for (length, p), (other, p_other) in combinations_with_replacement(several, 2):  # symmetric in the two
        point = {"nu": task.nu, "L": float(length), "L_other": float(other)}
        overlap = pairs.values({n: point[n] for n in pairs.parameters})["overlap"]
        weight = p * p_other * (1 if length == other else 2)
        parts.append(-weight * (float(overlap) - 1))
        error += weight * (overlap.error + 2.0**-52)
    total = math.fsum(parts) / mean
    return _with_noise(Estimate(total, error / mean + 2.0**-52 * total), task, excess)


def _require_task(task: object) -> None:
    if not isinstance(task, Task):
        raise TypeError(f"task must be a Spiked or Max record, got {task!r} ({type(task).__name__})")


def _require_activation(activation: object, free_shift: bool = False) -> None:
    if not isinstance(activation, Activation):
        raise TypeError(
            f"activation must be a record such as Softmax(), got {activation!r} ({type(activation).__name__})"
        )
    if isinstance(activation, Erf) and activation.shift is None and not free_shift:
        raise ValueError("shift of Erf must be a real number here, got None: only optimal_risk optimizes it")
