"""Curves of trained attention over the sample ratio: options and tables."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from theorykit.cli import inputs

__all__ = ["AlphaOption", "RidgeKOption", "RidgeVOption", "make_curve"]

AlphaOption = Annotated[
    str | None,
    typer.Option(
        "--alpha",
        help="Train at these sample ratios N/D: start:stop:count, or a comma list; one --nu, one --length.",
    ),
]
RidgeKOption = Annotated[
    float, typer.Option("--ridge-k", help="With --alpha: penalty on the key; inf is legal.")
]
RidgeVOption = Annotated[float, typer.Option("--ridge-v", help="With --alpha: penalty on the value.")]
_NOT_TRAINED = "bayes,softmax,linear"  # the default of curves of minimal risks


def make_curve(
    task: str,
    nu: str,
    length: str,
    noise: float,
    alpha: str,
    ridge_k: float,
    ridge_v: float,
    activation: str,
    formulas: list[str] | None,
    kernels: list[str] | None,
    excess: bool,
) -> Any:
    """Test risks over the sample ratio, one column per activation."""
    from theorykit import single_location as slr
    from theorykit.curve import curve

    strengths = inputs.real_grid("--nu", nu)
    if len(strengths) != 1:
        raise ValueError(f"--nu must be one number with --alpha, got {nu!r}")
    record = inputs.read_task(task, strengths[0], inputs.read_length("--length", length), noise)
    names = "softmax,linear" if activation == _NOT_TRAINED else activation
    chosen = [inputs.read_activation(n.strip(), None, None, None) for n in names.split(",") if n.strip()]
    chosen += [slr.Elementwise(text) for text in formulas or ()]
    chosen += [slr.NormalizedKernel(text) for text in kernels or ()]
    grids: dict[str, list[Any]] = {"alpha": inputs.real_grid("--alpha", alpha), "activation": chosen}
    data = curve(slr.erm, record, over=grids, ridge_k=ridge_k, ridge_v=ridge_v, progress=True)
    data = data.rename({"test_risk": "risk", "test_risk_error": "risk_error", "activation": "estimator"})
    if excess:
        data["risk"] = data["risk"] - record.noise**2
    data["risk"].attrs["long_name"] = "excess test risk" if excess else "test risk"
    data.attrs["task"] = f"{record!r}, ridge_k={ridge_k:g}, ridge_v={ridge_v:g}"
    return data
