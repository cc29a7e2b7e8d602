"""What is distributed: the package `theorykit`, every module once, and nothing with a generic name."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import Counter
from pathlib import Path, PurePosixPath

import pytest

import theorykit

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The sdist of the checkout, and the wheel built from that sdist; offline."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
        assert not [member.name for member in members if member.issym() or member.islnk()]
        source = [
            str(PurePosixPath(*PurePosixPath(member.name).parts[1:])) for member in members if member.isfile()
        ]
    with zipfile.ZipFile(wheel) as archive:
        binary = archive.namelist()
    return source, binary


@pytest.fixture(scope="module")
def modules():
    return {str(path.relative_to(ROOT)) for path in (ROOT / "theorykit").rglob("*.py")}


def test_every_module_is_in_each_distribution_once(distributions, modules):
    for names in distributions:
        counts = Counter(name for name in names if name.startswith("theorykit/") and name.endswith(".py"))
        assert set(counts) == modules and set(counts.values()) == {1}


def test_no_other_package_is_installed(distributions):
    _, wheel = distributions
    assert {PurePosixPath(name).parts[0] for name in wheel} == {
        "theorykit",
        f"theorykit-{theorykit.__version__}.dist-info",
    }


def test_the_doors_are_not_in_the_source_distribution(distributions):
    source, _ = distributions
    tops = {PurePosixPath(name).parts[0] for name in source}
    assert {"theorykit", "tests", "pyproject.toml", "README.md", "LICENSE"} <= tops
    assert not {"derivations", "validation"} & tops


def test_the_doors_are_relative_links():
    for name in ("derivations", "validation"):
        link = ROOT / name
        assert link.is_symlink() and link.readlink() == Path("theorykit") / name and link.is_dir()


def test_every_folder_of_the_package_is_a_package(modules):
    """A folder without `__init__.py` would be a namespace package, which import-linter does not see."""
    folders = {str(PurePosixPath(module).parent) for module in modules}
    assert {folder for folder in folders if f"{folder}/__init__.py" not in modules} == set()


def test_version_is_stated_once_in_effect():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert project["version"] == theorykit.__version__
    assert f"version: {theorykit.__version__}\n" in citation
    assert f"## {theorykit.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
