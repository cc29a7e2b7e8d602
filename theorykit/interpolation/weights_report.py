"""Real weights beside the assumption of the theory: reports on the layers and heads of a local checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from theorykit.errors import require_integer
from theorykit.interpolation.checkpoint import open_checkpoint, read_config
from theorykit.interpolation.projections import Layer, find_layers, head_count
from theorykit.interpolation.structure import (
    LARGEST_RANK,
    LARGEST_REMAINDER,
    LEAST_GAIN,
    Null,
    Structure,
    compressed,
    describe,
    identity_share,
    rotation_null,
    statistic,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["LayerReport", "WeightsReport", "layer_matrix", "read_layers", "weights"]

_SHUFFLES = 24  # of the heads of a layer, for its null law
_SCALARS = tuple(
    f.name
    for f in fields(Structure)
    if f.name not in ("singular_values", "eigenvalues", "mismatched", "rotated")
)


@dataclass(frozen=True)
class LayerReport:
    """One layer: the sum of W_K^T W_Q over its heads, and each head on the space of its keys.

    ``heads`` is empty where the number of heads is not known. ``gain`` names the gain of the normalization before the
    layer, and ``folded_share`` is the identity share with this gain folded in (None where there is none).
    """

    index: int
    gain: str | None
    folded_share: float | None
    whole: Structure
    heads: tuple[Structure, ...]


@dataclass(frozen=True)
class WeightsReport:
    """What :func:`weights` found in a checkpoint.

    Attributes
    ----------
    path : str
    layers : tuple of LayerReport
    seed : int
    """

    path: str
    layers: tuple[LayerReport, ...]
    seed: int

    @property
    def supported(self) -> bool:
        """Whether every layer is the identity plus a matrix of low rank."""
        return all(layer.whole.supported for layer in self.layers)

    @property
    def supported_heads(self) -> int:
        """Heads that are, on the space of their keys."""
        return sum(head.supported for layer in self.layers for head in layer.heads)

    @property
    def verdict(self) -> str:
        """The conclusion in words."""
        good = [layer.index for layer in self.layers if layer.whole.supported]
        shares = [layer.whole.identity_share for layer in self.layers]
        head_total = sum(len(layer.heads) for layer in self.layers)
        heads = f"; {self.supported_heads} of {head_total} heads, on their own" if head_total else ""
        ends = dict.fromkeys((_percent(min(shares)), _percent(max(shares))))
        spread = f"the identity carries {' to '.join(ends)} of |W|^2"
        if len(good) == len(self.layers):
            return f"identity plus low rank holds in all {len(self.layers)} layers ({spread}{heads})"
        if good:
            where = f"holds in layers {', '.join(map(str, good))} only"
        else:
            where = f"fails in all {len(self.layers)} layers"
        return f"the assumption identity plus low rank {where} ({spread}{heads})"

    @property
    def criterion(self) -> str:
        """What "supported" means."""
        return (
            f"supported: |W - identity - rank r| at most {LARGEST_REMAINDER:g} |W|, r at most p/{1 / LARGEST_RANK:g}, "
            f"and the identity lowers it {LEAST_GAIN:g} times"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data: all scalars of layers and heads, and the spectra of the layers."""
        return {
            "path": self.path,
            "seed": self.seed,
            "supported": self.supported,
            "supported_heads": self.supported_heads,
            "verdict": self.verdict,
            "criterion": self.criterion,
            "layers": [
                {
                    "layer": layer.index,
                    "gain": layer.gain,
                    "folded_share": layer.folded_share,
                    **_as_data(layer.whole),
                    "singular_values": list(layer.whole.singular_values),
                    "eigenvalues": [[e.real, e.imag] for e in layer.whole.eigenvalues],
                    "heads": [_as_data(head) for head in layer.heads],
                }
                for layer in self.layers
            ],
        }


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _as_data(structure: Structure) -> dict[str, Any]:
    data = {name: getattr(structure, name) for name in _SCALARS}
    for name in ("mismatched", "rotated"):
        null: Null = getattr(structure, name)
        data[name] = {"mean": null.mean, "deviation": null.deviation, "z": null.z, "draws": null.draws}
    return data


def read_layers(
    path: str | os.PathLike[str], heads: int | None = None, layers: Iterable[int] | None = None
) -> tuple[Layer, ...]:
    """Key and query projections of a checkpoint (of some ``layers``, if given)."""
    found = find_layers(open_checkpoint(path), head_count(read_config(path), heads))
    return found if layers is None else _chosen(found, layers)


def _chosen(found: tuple[Layer, ...], layers: Iterable[int]) -> tuple[Layer, ...]:
    known = {layer.index: layer for layer in found}
    wanted = [require_integer("layer", index) for index in layers]
    for index in wanted:
        if index not in known:
            raise ValueError(f"layer must be one of {', '.join(map(str, sorted(known)))}, got {index}")
    return tuple(known[index] for index in wanted)


def layer_matrix(layer: Layer) -> NDArray[np.float64]:
    """W_K^T W_Q of a layer; on the space of the keys where it has fewer rows than tokens have dimensions."""
    if layer.key.shape[0] < layer.dimension:
        return compressed(layer.key, layer.query)
    product: NDArray[np.float64] = layer.key.T @ layer.query
    return product


def weights(
    path: str | os.PathLike[str],
    heads: int | None = None,
    layers: Iterable[int] | None = None,
    gains: bool = False,
    draws: int = 32,
    seed: int = 0,
    on_layer: Callable[[int, int], None] | None = None,
) -> WeightsReport:
    """Measure how far the attention weights of a checkpoint are from "identity plus low rank".

    Parameters
    ----------
    path : str or path
        A ``.safetensors`` file, the index of a sharded one, or the folder of either. Nothing in it is executed.
        GPT-2 (``attn.c_attn``) and BERT (``attention.self.query`` and ``key``) layouts, and others that name
        projections alike.
    heads : int, optional
        Heads per layer; by default from ``config.json`` beside the checkpoint. Without either, heads are not
        reported one by one.
    layers : iterable of int, optional
        Which layers; default: all.
    gains : bool
        Fold the gain of the normalization before each layer into its projections, so that W acts on normalized tokens.
        The identity share with gains is reported in any case.
    draws : int
        Random rotations for the null law of each layer and each head.
    seed : int
    on_layer : callable, optional
        Called as ``on_layer(index, total)`` before each layer.

    Returns
    -------
    WeightsReport
        ``.layers``, ``.supported``, ``.verdict``, ``.to_dict()``.

    Raises
    ------
    FileNotFoundError, ValueError
        Nothing there; a format that is not read; projections of an unknown layout.
    """
    import numpy as np

    draws = require_integer("draws", draws, low=0)
    seed = require_integer("seed", seed, low=0)
    every = read_layers(path, heads)
    chosen = every if layers is None else _chosen(every, layers)
    reports = []
    for position, layer in enumerate(chosen):
        if on_layer is not None:
            on_layer(position, len(chosen))
        stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(layer.index,)))
        if gains:
            layer, others = layer.folded(), tuple(other.folded() for other in every if other is not layer)
        else:
            others = tuple(other for other in every if other is not layer)
        reports.append(_report(layer, others, draws, stream))
    return WeightsReport(str(path), tuple(reports), seed)


def _report(layer: Layer, others: tuple[Layer, ...], draws: int, stream: np.random.Generator) -> LayerReport:
    matrix = layer_matrix(layer)
    whole = describe(
        matrix,
        _mismatched(layer, others, stream),
        rotation_null(layer.key, layer.query, draws, stream),
        stream,
    )
    heads = tuple(_head(layer, index, draws, stream) for index in range(layer.heads or 0))
    share = None if layer.gain is None else identity_share(layer_matrix(layer.folded()))
    return LayerReport(layer.index, layer.gain_name, share, whole, heads)


def _mismatched(layer: Layer, others: tuple[Layer, ...], stream: np.random.Generator) -> list[float]:
    """t for queries of other layers, and for the heads of this one in an order that keeps none in place."""
    import numpy as np

    pairs = [other.query for other in others if other.query.shape == layer.query.shape]
    if layer.heads is not None and layer.heads > 2:
        blocks = layer.query.reshape(layer.heads, -1, layer.dimension)
        for _ in range(_SHUFFLES):
            order = _derangement(layer.heads, stream)
            pairs.append(np.concatenate([blocks[h] for h in order]))
    small = layer.key.shape[0] < layer.dimension
    return [statistic(compressed(layer.key, q) if small else layer.key.T @ q) for q in pairs]


def _derangement(count: int, stream: np.random.Generator) -> list[int]:
    import numpy as np

    while True:
        order = stream.permutation(count)
        if not np.any(order == np.arange(count)):
            return [int(h) for h in order]


def _head(layer: Layer, index: int, draws: int, stream: np.random.Generator) -> Structure:
    key, query = layer.head("key", index), layer.head("query", index)
    others = [h for h in range(layer.heads or 0) if h != index]
    mismatched = [statistic(compressed(key, layer.head("query", h))) for h in others]
    return describe(compressed(key, query), mismatched, rotation_null(key, query, draws, stream), stream)
