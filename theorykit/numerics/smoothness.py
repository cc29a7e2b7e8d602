"""What a grid itself tells about the integrand: estimates of the error where convergence is not geometric.

Two grids may agree by accident on an integrand with a kink or a jump, or with noise of an inner quadrature. Values
on one grid show the roughness: on panels the Legendre coefficients stop to decay, on a lattice the sums over every
second and every fourth node are equally wrong. Where both decay as for analytic integrands, the estimate is zero and
the comparison of two grids can be trusted. What lies beyond the end of a grid is estimated from the decay towards it.
"""

from __future__ import annotations

import numpy as np

from theorykit.numerics.grids import legendre_coefficients, legendre_rule

__all__ = ["lattice_roughness", "panel_roughness", "tails_beyond"]

# decay over four degrees, and from every fourth to every second node, that rough integrands do not reach
PANEL_DECAY, LATTICE_DECAY = 0.1, 0.02
UNSEEN = 1e-16  # share of an integral that rounding hides


def panel_roughness(weighted: np.ndarray, order: int) -> np.ndarray:
    """Estimated error of each integral (row) on Gauss-Legendre panels, from the decay of Legendre coefficients."""
    _, weights = legendre_rule(order)
    panels = weighted.reshape(weighted.shape[0], -1, order) / weights
    size = np.abs(panels @ legendre_coefficients(order).T)
    # four degrees each: single coefficients of a rough integrand may be small
    last, before = size[..., -4:].max(axis=-1), size[..., -8:-4].max(axis=-1)
    decay = np.divide(last, before, out=np.ones_like(last), where=before > last)
    # the rule mistakes degrees above twice its order, to which a power law decays once or twice more
    return np.sum(np.where(decay > PANEL_DECAY, 2 * last * decay, 0.0), axis=-1)


def lattice_roughness(weighted: np.ndarray) -> np.ndarray:
    """Estimated error of each trapezoid sum (row), from the sums over every second and every fourth node."""
    padded = np.pad(weighted, ((0, 0), (0, -weighted.shape[1] % 4)))
    quarters = padded.reshape(padded.shape[0], -1, 4).sum(axis=1)
    coarse = np.max(np.abs(4 * quarters - quarters.sum(axis=1, keepdims=True)), axis=1)
    fine = np.abs(quarters[:, 0] + quarters[:, 2] - quarters[:, 1] - quarters[:, 3])
    decay = np.divide(fine, coarse, out=np.ones_like(fine), where=coarse > fine)
    # errors h**2 are 3 and 15 times that of the sum over all nodes; either may be small by accident
    return np.where(decay > LATTICE_DECAY, fine + coarse / 5, 0.0)


def tails_beyond(
    nodes: np.ndarray, density: np.ndarray, spacing: np.ndarray, distance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Estimated integrals of each row below the first node and above the last one.

    The decay is exponential, as over the ``distance`` before the end; ``spacing`` are the weights of the nodes.
    Zero where it cannot matter, infinite where the integrand does not decay.
    """
    unseen = UNSEEN * np.sum(density * spacing, axis=1)
    backwards = _tail(-nodes[::-1], density[:, ::-1], unseen, distance)
    return backwards, _tail(nodes, density, unseen, distance)


def _tail(nodes: np.ndarray, density: np.ndarray, unseen: np.ndarray, distance: float) -> np.ndarray:
    """What lies beyond the last node."""
    end = density[:, -1]
    length = nodes[-1] - nodes[0]
    matters = end * length > unseen
    if not matters.any():
        return np.zeros_like(end)
    inside = max(0, int(np.searchsorted(nodes, nodes[-1] - distance)) - 1)
    decay = np.divide(density[:, inside], end, out=np.ones_like(end), where=matters)
    rate = np.log(np.maximum(decay, 1.0)) / (nodes[-1] - nodes[inside])
    tail = np.divide(end, rate, out=np.full_like(end, np.inf), where=rate > 0)
    return np.where(matters, tail, 0.0)
