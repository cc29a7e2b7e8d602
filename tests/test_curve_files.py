"""Curves in files: NetCDF, CSV and JSON keep what the Dataset holds."""

from __future__ import annotations

import json
import math
import warnings

import pytest
import xarray as xr

from theorykit.curve import ConvergenceWarning, curve
from theorykit.errors import ConvergenceError
from theorykit.results import Estimate
from theorykit.saving import save


def fussy(x):
    if x > 2:
        raise ConvergenceError("fixed point not reached")
    return Estimate(x * x, 0.5)


@pytest.fixture
def data():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return curve(fussy, over={"x": [0.1, 1 / 3, 3.0, math.inf]})


class TestFiles:
    def test_netcdf_round_trip(self, data, tmp_path):
        path = save(data, tmp_path / "a.nc")
        with xr.open_dataset(path, engine="h5netcdf") as again:
            xr.testing.assert_identical(again.load(), data)

    def test_files_are_the_same_every_time(self, data, tmp_path):
        for suffix in (".nc", ".csv", ".json"):
            first, second = (save(data, tmp_path / f"{name}{suffix}") for name in "ab")
            assert first.read_bytes() == second.read_bytes()

    def test_csv_keeps_all_digits(self, data, tmp_path):
        lines = save(data, tmp_path / "a.csv").read_text().splitlines()
        assert lines[0] == "x,fussy,fussy_error,status"
        assert float(lines[2].split(",")[0]) == 1 / 3
        assert float(lines[2].split(",")[1]) == (1 / 3) ** 2
        assert len(lines) == 5

    def test_json_is_strict(self, data, tmp_path):
        def refuse(constant):
            raise AssertionError(f"{constant} is no JSON")

        found = json.loads(save(data, tmp_path / "a.json").read_text(), parse_constant=refuse)
        assert found["coords"]["x"]["data"] == [0.1, 1 / 3, 3.0, "inf"]
        assert found["data_vars"]["fussy"]["data"] == [0.1 * 0.1, (1 / 3) ** 2, None, None]
        assert found["attrs"]["function"] == f"{__name__}.fussy"

    @pytest.mark.parametrize("name", ["a.txt", "a", "a.NC2"])
    def test_unknown_suffix(self, data, tmp_path, name):
        with pytest.raises(ValueError, match=r"path must end in \.nc, \.csv or \.json, got"):
            save(data, tmp_path / name)

    def test_missing_folder(self, data, tmp_path):
        with pytest.raises(ValueError, match="path must lie in an existing folder"):
            save(data, tmp_path / "none" / "a.nc")
