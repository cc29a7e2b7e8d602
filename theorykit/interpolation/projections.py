"""Key and query projections of the layers of a transformer, from the names and shapes of its tensors.

Conventions: a layer scores token j (query) against token i (key) by x_i . W x_j with W = W_K^T W_Q; the rows of
W_K and W_Q, shape (r, p), are the r coordinates of keys and queries, head by head. The gain of the layer
normalization that feeds the projections can be folded into both, with the projection on vectors of mean zero that
goes with it. Biases add terms of rank one, which are left out; so are rotations by position, where a model has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from theorykit.errors import require_integer
from theorykit.interpolation.checkpoint import Checkpoint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Layer", "find_layers", "head_count"]

#: One tensor for query, key and value, tokens on the left: shape (p, 3p).
_FUSED = re.compile(r"^(?P<stem>.*?)h\.(?P<layer>\d+)\.attn\.c_attn\.weight$")
#: Separate tensors, tokens on the right: shape (r, p).
_SEPARATE = re.compile(
    r"^(?P<stem>.*?)layers?\.(?P<layer>\d+)\.(?P<block>.*?)\.(?P<side>query|key|q_lin|k_lin|q_proj|k_proj|wq|wk)\.weight$"
)
_QUERY = ("query", "q_lin", "q_proj", "wq")
#: Where the gain of the normalization before a layer may be: of the layer itself, or at the end of the one before.
_BEFORE = ("{stem}h.{layer}.ln_1.weight",)
_AFTER = ("{stem}layer.{previous}.output.LayerNorm.weight", "{stem}layer.{previous}.output_layer_norm.weight")
_FIRST = ("embeddings.LayerNorm.weight",)
_HEAD_NAMES = ("num_attention_heads", "n_head", "n_heads", "num_heads")


@dataclass(frozen=True)
class Layer:
    """Projections of one layer, each of shape (r, p).

    ``heads`` is None where their number is not known; ``gain`` is that of the normalization before the layer, where
    one was found under the name ``gain_name``.
    """

    index: int
    key: NDArray[np.float64]
    query: NDArray[np.float64]
    heads: int | None
    gain_name: str | None = None
    gain: NDArray[np.float64] | None = None

    def folded(self) -> Layer:
        """The layer as it acts on normalized tokens: gain times projection, on vectors of mean zero."""
        if self.gain is None:
            return self
        return replace(self, key=_folded(self.key, self.gain), query=_folded(self.query, self.gain))

    @property
    def dimension(self) -> int:
        """p, of the tokens."""
        return int(self.key.shape[1])

    def head(self, side: str, index: int) -> NDArray[np.float64]:
        """Rows of one head of "key" or "query", shape (r/heads, p)."""
        matrix = self.key if side == "key" else self.query
        size = matrix.shape[0] // (self.heads or 1)
        return matrix[index * size : (index + 1) * size]


def head_count(config: dict[str, Any], given: int | None) -> int | None:
    """Heads per layer: as given, else from the configuration beside the checkpoint, else None."""
    if given is not None:
        return require_integer("heads", given, low=1)
    for name in _HEAD_NAMES:
        if type(config.get(name)) is int and config[name] >= 1:
            return int(config[name])
    return None


def find_layers(checkpoint: Checkpoint, heads: int | None = None) -> tuple[Layer, ...]:
    """The layers of a checkpoint, in order.

    Raises
    ------
    ValueError
        No projections of a known layout; keys and queries of different shapes (grouped heads); a number of heads
        that does not divide them.
    """
    found = _fused(checkpoint, heads) or _separate(checkpoint, heads)
    if not found:
        some = ", ".join(list(checkpoint)[:4]) or "none"
        raise ValueError(
            "the checkpoint must have attn.c_attn (GPT-2) or query and key (BERT) projections; "
            f"none of its {len(checkpoint)} tensors is one ({some}, ...)"
        )
    return tuple(sorted(found, key=lambda layer: layer.index))


def _fused(checkpoint: Checkpoint, heads: int | None) -> list[Layer]:
    layers = []
    for name in checkpoint:
        match = _FUSED.match(name)
        if match is None:
            continue
        shape = checkpoint.shape(name)
        if len(shape) != 2 or shape[1] != 3 * shape[0]:
            raise ValueError(f"tensor {name!r} must have shape (p, 3p), got {shape}")
        weights = checkpoint[name]
        p = shape[0]
        layers.append(_layer(checkpoint, match, weights[:, p : 2 * p].T, weights[:, :p].T, heads))
    return layers


def _separate(checkpoint: Checkpoint, heads: int | None) -> list[Layer]:
    pairs: dict[tuple[str, str], dict[str, tuple[str, re.Match[str]]]] = {}
    for name in checkpoint:
        match = _SEPARATE.match(name)
        if match is not None:
            side = "query" if match["side"] in _QUERY else "key"
            pairs.setdefault((match["stem"], match["layer"]), {}).setdefault(side, (name, match))
    layers = []
    for (_, index), sides in pairs.items():
        if len(sides) < 2:
            raise ValueError(f"layer {index} must have both query and key, it has {', '.join(sides)} only")
        (query, match), (key, _) = sides["query"], sides["key"]
        shapes = checkpoint.shape(query), checkpoint.shape(key)
        if len(shapes[0]) != 2 or shapes[0] != shapes[1]:
            raise ValueError(
                f"query and key of layer {index} must have one shape (r, p), got {shapes[0]} and {shapes[1]}: "
                "heads that share keys are not supported"
            )
        layers.append(_layer(checkpoint, match, checkpoint[key], checkpoint[query], heads))
    return layers


def _layer(
    checkpoint: Checkpoint,
    match: re.Match[str],
    key: NDArray[np.float64],
    query: NDArray[np.float64],
    heads: int | None,
) -> Layer:
    if heads is not None and key.shape[0] % heads:
        raise ValueError(f"heads must divide the {key.shape[0]} rows of the projections, got {heads}")
    index = int(match["layer"])
    name = _gain(checkpoint, match["stem"], index)
    gain = checkpoint[name] if name is not None else None
    if gain is not None and gain.shape != (key.shape[1],):
        raise ValueError(f"tensor {name!r} must have shape ({key.shape[1]},), got {gain.shape}")
    return Layer(index, key, query, heads, name, gain)


def _gain(checkpoint: Checkpoint, stem: str, layer: int) -> str | None:
    patterns = (*_BEFORE, *(_AFTER if layer else ()))
    names = [p.format(stem=stem, layer=layer, previous=layer - 1) for p in patterns]
    if layer == 0:
        root = re.sub(r"(encoder|transformer)\.$", "", stem)
        names += [root + name for name in _FIRST]
    return next((name for name in names if name in checkpoint), None)


def _folded(matrix: NDArray[np.float64], gain: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled = matrix * gain
    centred: NDArray[np.float64] = scaled - scaled.mean(axis=1, keepdims=True)
    return centred
