"""Fused loss and gradient of attention against NumPy (and PyTorch, where installed), and its memory bandwidth.

    python benchmarks/training.py [samples dimension length]

One run measures everything, alternately, the best of five: machines differ, ratios less.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from theorykit.validation.simulate.attention_loss import Objective
from theorykit.validation.simulate.single_location_request import read_task
from theorykit.validation.simulate.training import draw_data


def in_numpy(
    tokens: np.ndarray, labels: np.ndarray, both: np.ndarray
) -> Callable[[], tuple[float, np.ndarray]]:
    """Softmax attention written with array operations."""
    scale = 1 / np.sqrt(tokens.shape[2])

    def run() -> tuple[float, np.ndarray]:
        fields = tokens @ both.T * scale
        chi, z = fields[..., 0], fields[..., 1]
        weights = np.exp(chi - chi.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        output = np.sum(weights * z, axis=1)
        rest = labels - output
        to_k = -rest[:, None] * weights * (z - output[:, None]) * scale
        to_v = -rest[:, None] * weights * scale
        flat = tokens.reshape(-1, tokens.shape[2])
        gradient = np.stack([to_k.ravel() @ flat, to_v.ravel() @ flat])
        return 0.5 * float(rest @ rest), gradient

    return run


def in_torch(
    tokens: np.ndarray, labels: np.ndarray, both: np.ndarray
) -> Callable[[], tuple[float, np.ndarray]] | None:
    """The same by automatic differentiation, or None without PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    data, target = torch.from_numpy(tokens), torch.from_numpy(labels)
    parameters = torch.from_numpy(both.copy()).requires_grad_()
    scale = tokens.shape[2] ** -0.5

    def run() -> tuple[float, np.ndarray]:
        parameters.grad = None
        fields = data @ parameters.T * scale
        output = (torch.softmax(fields[..., 0], dim=1) * fields[..., 1]).sum(dim=1)
        loss = 0.5 * ((target - output) ** 2).sum()
        loss.backward()
        return float(loss), parameters.grad.numpy().copy()

    return run


def best_of(runs: dict[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """Shortest time of each, taken in turns."""
    times = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def main() -> None:
    samples, dimension, length = (int(a) for a in (sys.argv[1:4] or (20_000, 1000, 3)))
    stream = np.random.default_rng(0)
    task = read_task({"kind": "spiked", "nu": 4.0, "length": length, "noise": 0.3})
    data = draw_data(stream, task, samples, dimension)
    both = 0.5 * stream.standard_normal((2, dimension))
    objective = Objective(data, {"kind": "softmax"}, 1.0, 1.0)
    (tokens, labels), target = data.parts[0], np.empty_like(data.parts[0][0])
    runs: dict[str, Callable[[], object]] = {
        "fused": lambda: objective.losses(both),
        "numpy": in_numpy(tokens, labels, both),
        "copy": lambda: np.copyto(target, tokens),
    }
    torch_run = in_torch(tokens, labels, both)
    if torch_run is not None:
        runs["torch"] = torch_run
    (value, gradient), (expected, slopes) = objective.losses(both), in_numpy(tokens, labels, both)()
    if (
        abs(value - expected) > 1e-9 * expected
        or np.abs(gradient - slopes).max() > 1e-8 * np.abs(slopes).max()
    ):
        raise SystemExit("the fused pass and NumPy disagree")
    times = best_of(runs)
    others = min(t for n, t in times.items() if n in ("numpy", "torch"))
    bandwidth = (tokens.nbytes / times["fused"]) / (2 * tokens.nbytes / times["copy"])
    for name, seconds in times.items():
        print(f"{name:6s} {1000 * seconds:9.1f} ms")
    print(
        f"fused is {others / times['fused']:.2f} times the faster of the others, at {bandwidth:.0%} of copy bandwidth"
    )


if __name__ == "__main__":
    main()
