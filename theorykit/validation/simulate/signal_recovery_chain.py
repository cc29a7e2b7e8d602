"""The overlap of the query as a Markov chain, sampled exactly in O(L) per step, compiled.

Given the scores t_i = q.x_i, the rest of the sample gradient of |f|**2 depends on the noise z_i orthogonal to q only
through few numbers. In the plane of e1 (direction of xi orthogonal to q) and of what sum a_i z_i has beyond it, the
latter is (n1, n2) sqrt(sum a_i**2), n2 of law chi with d - 2 degrees of freedom; the components of z_i along f
orthogonal to q are then a_i n_parallel/|a| plus white noise projected orthogonally to the vector a; what is left of
the gradient is isotropic. Every draw below is one of these conditional laws, so that the chain has the law of rho_k
of the d-dimensional ascent, at any finite L, R and d >= 3. The gradient is 2 sum_i v_i x_i with
v_i = (d a_i-weight)(x_i.f - |f|**2), which holds for every normalized kernel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from theorykit.validation.simulate.compiled import compile_kernel

__all__ = ["ALONG", "FIELDS", "MASS", "RADIAL", "SQUARE", "TANGENTIAL", "kernel"]

# What one sample fills: gradient along e1, square of the tangential gradient, gradient along q, mass on informative
# tokens, |f|**2
ALONG, TANGENTIAL, RADIAL, MASS, SQUARE = range(5)
FIELDS = 5


@njit(nogil=True)
def _scores(generator, informative, shift, scores):
    """Scores of one sequence; the first tokens are the informative ones."""
    for i in range(scores.shape[0]):
        scores[i] = generator.standard_normal()
    for i in range(informative):
        scores[i] += shift


@njit(nogil=True)
def _softmax(beta, scores, weights, slopes):
    """Weights and beta times the weights, the derivative by which the scores move them."""
    top = scores[0]
    for i in range(1, scores.shape[0]):
        top = max(top, scores[i])
    total = 0.0
    for i in range(scores.shape[0]):
        weights[i] = math.exp(beta * (scores[i] - top))
        total += weights[i]
    for i in range(scores.shape[0]):
        weights[i] /= total
        slopes[i] = beta * weights[i]


@njit(nogil=True)
def _chi_square(generator, degrees):
    return 2.0 * generator.standard_gamma(0.5 * degrees) if degrees > 0 else 0.0


@njit(nogil=True)
def _gradient(generator, informative, dimension, strength, scores, weights, slopes, white, out):
    """One sample of the gradient given scores and weights; ``strength`` = theta sqrt(1 - rho**2)."""
    length = scores.shape[0]
    mass, along_q, squares, coupled = 0.0, 0.0, 0.0, 0.0
    for i in range(informative):
        mass += weights[i]
    for i in range(length):
        white[i] = generator.standard_normal()
        along_q += weights[i] * scores[i]
        squares += weights[i] * weights[i]
        coupled += weights[i] * white[i]
    root = math.sqrt(squares)
    n1, n2 = generator.standard_normal(), math.sqrt(_chi_square(generator, dimension - 2))
    f1, f2 = strength * mass + root * n1, root * n2
    f_perp = math.sqrt(f1 * f1 + f2 * f2)
    c, s = f1 / f_perp, f2 / f_perp
    parallel, crossed = c * n1 + s * n2, c * n2 - s * n1
    square = along_q * along_q + f_perp * f_perp
    offset = parallel / root - coupled / squares
    v_score, v_noise, v_weight, v_square, v_signal = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(length):
        noise = white[i] + weights[i] * offset
        lift = strength * f1 if i < informative else 0.0
        v = slopes[i] * (scores[i] * along_q + f_perp * noise + lift - square)
        v_score += v * scores[i]
        v_noise += v * noise
        v_weight += v * weights[i]
        v_square += v * v
        if i < informative:
            v_signal += v
    v_weight /= root
    rest = max(v_square - v_weight * v_weight, 0.0)
    across = crossed * v_weight + math.sqrt(rest) * generator.standard_normal()
    g1 = 2.0 * (c * v_noise - s * across + strength * v_signal)
    g2 = 2.0 * (s * v_noise + c * across)
    out[ALONG] = g1
    out[TANGENTIAL] = g1 * g1 + g2 * g2 + 4.0 * rest * _chi_square(generator, dimension - 3)
    out[RADIAL] = 2.0 * v_score
    out[MASS] = mass
    out[SQUARE] = square


@njit(nogil=True)
def _moved(rho, eta, ambient, sample):
    """The overlap after one normalized step."""
    stretch = 1.0 + eta * sample[RADIAL] if ambient else 1.0
    up = rho * stretch + eta * math.sqrt(max(1.0 - rho * rho, 0.0)) * sample[ALONG]
    return up / math.sqrt(stretch * stretch + eta * eta * sample[TANGENTIAL])


def scores_kernel(generator, informative, shift, scores):
    _scores(generator, informative, shift, scores)


def gradient_kernel(generator, informative, dimension, strength, scores, weights, slopes, white, out):
    _gradient(generator, informative, dimension, strength, scores, weights, slopes, white, out)


def samples_kernel(generator, informative, length, dimension, theta, beta, rho, out):
    """Independent samples at one overlap, one per row of ``out``."""
    scores, weights, slopes, white = np.empty(length), np.empty(length), np.empty(length), np.empty(length)
    strength = theta * math.sqrt(max(1.0 - rho * rho, 0.0))
    for k in range(out.shape[0]):
        _scores(generator, informative, theta * rho, scores)
        _softmax(beta, scores, weights, slopes)
        _gradient(generator, informative, dimension, strength, scores, weights, slopes, white, out[k])


def ascent_kernel(
    generator, informative, length, dimension, theta, beta, rho, step_sizes, ambient, every, path
):
    """One trial of the chain with softmax weights; ``path`` receives every so many overlaps and the last."""
    scores, weights, slopes, white = np.empty(length), np.empty(length), np.empty(length), np.empty(length)
    sample = np.empty(FIELDS)
    path[0] = rho
    for k in range(step_sizes.shape[0]):
        strength = theta * math.sqrt(max(1.0 - rho * rho, 0.0))
        _scores(generator, informative, theta * rho, scores)
        _softmax(beta, scores, weights, slopes)
        _gradient(generator, informative, dimension, strength, scores, weights, slopes, white, sample)
        rho = _moved(rho, step_sizes[k], ambient, sample)
        path[k // every + 1] = rho


def moved_kernel(rho, eta, ambient, sample, out):
    out[0] = _moved(rho, eta, ambient, sample)


@functools.cache
def kernel(name: str) -> Callable[..., None]:
    """A compiled kernel: "scores", "gradient", "moved", "samples" or "ascent"."""
    import numba

    generator = numba.typeof(np.random.default_rng(0))
    n, x, v, m, b = numba.int64, numba.float64, numba.float64[::1], numba.float64[:, ::1], numba.boolean
    known: dict[str, tuple[Callable[..., None], tuple[Any, ...]]] = {
        "scores": (scores_kernel, (generator, n, x, v)),
        "gradient": (gradient_kernel, (generator, n, n, x, v, v, v, v, v)),
        "moved": (moved_kernel, (x, x, b, v, v)),
        "samples": (samples_kernel, (generator, n, n, n, x, x, x, m)),
        "ascent": (ascent_kernel, (generator, n, n, n, x, x, x, v, b, n, v)),
    }
    compiled: Callable[..., None] = compile_kernel(*known[name])
    return compiled
