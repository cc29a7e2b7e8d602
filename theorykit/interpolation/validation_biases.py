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
_MEASURED = (
    (0.0142, 0.0027),
    (0.0252, 0.0018),
    (0.0560, 0.0003),
    (0.0093, 0.0013),
    (0.0619, 0.0002),
    (0.0285, 0.0039),
    (0.0263, 0.0011),
    (0.0222, 0.0133),
    (0.0062, 0.0041),
    (0.0392, 0.0009),
    (0.0221, 0.0083),
    (0.0401, 0.0005),
    (0.0269, 0.0010),
    (0.0171, 0.0103),
    (0.0139, 0.0076),
    (0.0112, 0.0020),
    (0.0792, 0.0154),
    (0.0316, 0.0086),
    (0.0199, 0.0031),
    (0.0222, 0.0034),
    (0.0272, 0.0024),
    (0.0255, 0.0028),
    (0.0278, 0.0029),
    (0.0121, 0.0012),
    (0.0378, 0.0012),
    (0.0169, 0.0018),
    (0.0245, 0.0019),
    (0.0169, 0.0037),
    (0.0614, 0.0095),
    (0.0482, 0.0111),
    (0.0159, 0.0025),
    (0.0309, 0.0032),
    (0.0220, 0.0028),
    (0.0166, 0.0042),
    (0.0209, 0.0034),
    (0.0104, 0.0062),
    (0.0203, 0.0063),
    (0.0188, 0.0076),
    (0.0166, 0.0024),
    (0.0224, 0.0122),
    (0.0114, 0.0124),
    (0.0535, 0.0126),
    (0.0704, 0.0125),
    (0.0396, 0.0093),
    (0.0683, 0.0235),
    (0.0200, 0.0189),
    (0.0300, 0.0007),
    (0.0286, 0.0002),
    (0.0173, 0.0017),
    (0.0663, 0.0030),
    (0.0304, 0.0022),
    (0.0225, 0.0043),
)
DEVIATIONS: tuple[Deviation, ...] = tuple(Deviation(*row) for row in _MEASURED)
