"""Fused loss and gradient of attention against NumPy and PyTorch (where installed), and its memory bandwidth.

    python benchmarks/training.py [samples dimension length]

One run measures everything in turns; machines and their load differ, ratios less. Every program may use all cores
(threads of NumPy's BLAS are those of OPENBLAS_NUM_THREADS; one is faster where the machine has other work). Two
yardsticks of the bandwidth, in as many threads as there are cores: a copy, which moves every number twice (in and
out), and a sum, which like the fused pass only reads. PyTorch (``pip install torch``; float64, on the CPU, by automatic
differentiation and with the gradient written out) is no dependency of the project.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from theorykit.validation.simulate.attention_loss import Objective
from theorykit.validation.simulate.single_location_request import read_task
from theorykit.validation.simulate.training import draw_data

Run = Callable[[], tuple[float, np.ndarray]]
REPEATS = 9


def in_numpy(tokens: np.ndarray, labels: np.ndarray, both: np.ndarray) -> Run:
    """Softmax attention written with array operations: two products with one large matrix."""
    samples, length, dimension = tokens.shape
    scale = dimension**-0.5
    flat = tokens.reshape(-1, dimension)

    def run() -> tuple[float, np.ndarray]:
        fields = (flat @ both.T * scale).reshape(samples, length, 2)
        chi, z = fields[..., 0], fields[..., 1]
        weights = np.exp(chi - chi.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        output = np.sum(weights * z, axis=1)
        rest = labels - output
        pull = -rest[:, None] * weights * scale
        slopes = np.stack([pull * (z - output[:, None]), pull]).reshape(2, -1)
        return 0.5 * float(rest @ rest), slopes @ flat

    return run


def in_numpy_vectors(tokens: np.ndarray, labels: np.ndarray, both: np.ndarray) -> Run:
    """The same with four products of the matrix with a vector, which some BLAS do faster than two with a pair."""
    samples, length, dimension = tokens.shape
    scale = dimension**-0.5
    flat = tokens.reshape(-1, dimension)

    def run() -> tuple[float, np.ndarray]:
        chi, z = ((flat @ vector * scale).reshape(samples, length) for vector in both)
        weights = np.exp(chi - chi.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        output = np.sum(weights * z, axis=1)
        rest = labels - output
        pull = -rest[:, None] * weights * scale
        slopes = np.stack([(pull * (z - output[:, None])).ravel() @ flat, pull.ravel() @ flat])
        return 0.5 * float(rest @ rest), slopes

    return run


def in_torch(tokens: np.ndarray, labels: np.ndarray, both: np.ndarray) -> dict[str, Run]:
    """The same in PyTorch, twice; nothing where it is not installed."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(os.cpu_count() or 1)
    samples, length, dimension = tokens.shape
    flat, target = torch.from_numpy(tokens.reshape(-1, dimension)), torch.from_numpy(labels)
    parameters = torch.from_numpy(both.copy()).requires_grad_()
    fixed = torch.from_numpy(both.copy())
    scale = dimension**-0.5

    def differentiated() -> tuple[float, np.ndarray]:
        parameters.grad = None
        fields = (flat @ parameters.T * scale).reshape(samples, length, 2)
        output = (torch.softmax(fields[..., 0], dim=1) * fields[..., 1]).sum(dim=1)
        loss = 0.5 * ((target - output) ** 2).sum()
        loss.backward()
        return float(loss.detach()), parameters.grad.numpy().copy()

    def written_out() -> tuple[float, np.ndarray]:
        with torch.no_grad():
            fields = (flat @ fixed.T * scale).reshape(samples, length, 2)
            weights, z = torch.softmax(fields[..., 0], dim=1), fields[..., 1]
            output = (weights * z).sum(dim=1)
            rest = target - output
            pull = -rest[:, None] * weights * scale
            slopes = torch.stack([pull * (z - output[:, None]), pull]).reshape(2, -1)
            return 0.5 * float(rest @ rest), (slopes @ flat).numpy()

    return {"torch autograd": differentiated, "torch written out": written_out}


def yardsticks(source: np.ndarray) -> dict[str, Callable[[], object]]:
    """A copy and a sum of all numbers, shared by as many threads as there are cores."""
    count = os.cpu_count() or 1
    pool, target = ThreadPoolExecutor(count), np.zeros_like(source)
    parts = list(zip(np.array_split(target, count), np.array_split(source, count), strict=True))

    def copy() -> None:
        for job in [pool.submit(np.copyto, out, part) for out, part in parts]:
            job.result()

    def read() -> float:
        return sum(job.result() for job in [pool.submit(np.sum, part) for _, part in parts])

    return {"copy": copy, "sum": read}


def in_turns(runs: dict[str, Callable[[], object]], repeats: int = REPEATS) -> dict[str, list[float]]:
    """Times of each, sorted; the first round is not counted."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: sorted(found) for name, found in times.items()}


def main() -> None:
    samples, dimension, length = (int(a) for a in (sys.argv[1:4] or (20_000, 1000, 3)))
    stream = np.random.default_rng(0)
    task = read_task({"kind": "spiked", "nu": 4.0, "length": length, "noise": 0.3})
    data = draw_data(stream, task, samples, dimension)
    both = 0.5 * stream.standard_normal((2, dimension))
    objective = Objective(data, {"kind": "softmax"}, 1.0, 1.0)
    tokens, labels = data.parts[0]
    programs: dict[str, Run] = {
        "fused": lambda: objective.losses(both),
        "numpy": in_numpy(tokens, labels, both),
        "numpy vectors": in_numpy_vectors(tokens, labels, both),
        **in_torch(tokens, labels, both),
    }
    value, gradient = programs["fused"]()
    for name, program in programs.items():
        loss, slopes = program()
        if abs(loss - value) > 1e-9 * value or np.abs(slopes - gradient).max() > 1e-8 * np.abs(slopes).max():
            raise SystemExit(f"the fused pass and {name} disagree")
    times = in_turns({**programs, **yardsticks(tokens)})
    print(f"N = {samples}, D = {dimension}, L = {length}: {tokens.nbytes / 1e6:.0f} MB of tokens")
    for name, found in times.items():
        moved = 2 * tokens.nbytes if name == "copy" else tokens.nbytes
        print(
            f"{name:18s} best {1e3 * found[0]:7.1f} ms  median {1e3 * statistics.median(found):7.1f} ms"
            f"  {moved / found[0] / 1e9:5.1f} GB/s"
        )
    for what, pick in (("best", min), ("median", statistics.median)):
        least = {name: pick(found) for name, found in times.items()}
        other = min(
            (seconds, name) for name, seconds in least.items() if name in programs and name != "fused"
        )
        share, part = 0.5 * least["copy"] / least["fused"], least["sum"] / least["fused"]
        print(
            f"{what}: fused is {other[0] / least['fused']:.2f} times {other[1]}, at {share:.0%} of the bandwidth "
            f"of the copy and {part:.0%} of that of the sum"
        )


if __name__ == "__main__":
    main()
