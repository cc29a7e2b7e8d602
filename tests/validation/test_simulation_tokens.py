"""The compiled kernel that draws tokens and hidden locations, against NumPy and against its definition."""

from __future__ import annotations

import math
import os
import warnings

import numba
import numpy as np
import pytest
from scipy import stats

from theorykit.validation.simulate import token_draws
from theorykit.validation.simulate.token_draws import ARGMAX, MAX, SPIKED, draw_tokens

FRAME = np.linalg.qr(np.random.default_rng(5).standard_normal((7, 7)))[0]


@pytest.mark.parametrize("law", [SPIKED, MAX, ARGMAX])
@pytest.mark.parametrize("length", [1, 4])
def test_same_numbers_as_numpy(law, length):
    """The same stream read by NumPy, with projections and location in array form."""
    fields, hidden = draw_tokens(np.random.default_rng(9), law, 1.5, FRAME[:, :4], length, 50)
    stream = np.random.default_rng(9)
    for sample in range(50):
        location = int(stream.integers(0, length)) if law == SPIKED else None
        tokens = stream.standard_normal((length, 7))
        if law == SPIKED:
            tokens[location] += 1.5 * FRAME[:, 0]
        scores = tokens @ FRAME[:, 0]
        if law == MAX:
            scores = 1.5 * scores - np.log(stream.standard_exponential(length))
        expected = location if law == SPIKED else int(np.argmax(scores))
        assert hidden[sample] == expected
        np.testing.assert_allclose(fields[:, :, sample].T, tokens @ FRAME[:, :4], rtol=0, atol=1e-13)


def test_spiked_tokens_have_their_law():
    samples = 40_000
    fields, hidden = draw_tokens(np.random.default_rng(1), SPIKED, 2.0, FRAME, 3, samples)
    assert stats.chisquare(np.bincount(hidden, minlength=3)).pvalue > 1e-4
    fields[0, hidden, np.arange(samples)] -= 2.0
    flat = fields.reshape(7, -1)
    count = flat.shape[1]
    # |z| <= 4.5 on 7 means and 28 covariances
    assert np.abs(flat.mean(axis=1)).max() * math.sqrt(count) < 4.5
    scale = np.sqrt(count / (1.0 + np.eye(7)))
    assert (np.abs(flat @ flat.T / count - np.eye(7)) * scale).max() < 4.5


def test_max_location_has_softmax_probabilities():
    samples, nu = 200_000, 1.3
    fields, hidden = draw_tokens(np.random.default_rng(2), MAX, nu, FRAME[:, :4], 3, samples)
    odds = np.exp(nu * fields[0])
    probability = odds / odds.sum(axis=0)
    # The centred indicator is uncorrelated with any function of the tokens, here four of them.
    centred = (hidden == 0) - probability[0]
    for other in (np.ones(samples), probability[0], fields[0, 1], fields[1, 0]):
        product = centred * other
        assert abs(product.mean()) / (product.std() / math.sqrt(samples)) < 4.0


def test_strength_beyond_the_range_of_doubles_is_the_maximum():
    fields, hidden = draw_tokens(np.random.default_rng(3), MAX, 1.7e308, FRAME[:, :4], 5, 500)
    assert np.array_equal(hidden, fields[0].argmax(axis=0))


def _cache_files(folder, suffix):
    return [
        os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name.endswith(suffix)
    ]


def test_cache_serves_later_processes_and_survives_damage(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    build = token_draws._compiled_kernel.__wrapped__

    def counts():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = build().stats
        return sum(found.cache_hits.values()), sum(found.cache_misses.values())

    assert counts() == (0, 1)
    assert counts() == (1, 0)
    for suffix in (".nbi", ".nbc"):
        (path,) = _cache_files(tmp_path, suffix)
        os.truncate(path, 40)
        assert counts() == (0, 1)
        assert counts() == (1, 0)


def test_without_a_cache_it_warns_once_and_works(monkeypatch):
    compiled = []

    def njit(*signature, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        compiled.append(signature)
        return lambda function: function

    monkeypatch.setattr(numba, "njit", njit)
    with pytest.warns(RuntimeWarning, match="no locator available.*NUMBA_CACHE_DIR") as caught:
        kernel = token_draws._compiled_kernel.__wrapped__()
    assert len(caught) == 1 and len(compiled) == 1
    fields, hidden = np.empty((4, 3, 10)), np.empty(10, dtype=np.int64)
    kernel(np.random.default_rng(4), MAX, 1.0, FRAME[:, :4], fields, hidden)
    again, places = draw_tokens(np.random.default_rng(4), MAX, 1.0, FRAME[:, :4], 3, 10)
    np.testing.assert_allclose(fields, again, rtol=0, atol=1e-13)
    assert np.array_equal(hidden, places)
