"""Damaged entries of the cache: the same numbers, no crash, and the entry is whole again afterwards."""

from __future__ import annotations

import hashlib
import json

import pytest
from answer import answer


def _cut(part):
    def damage(path):
        data = path.read_bytes()
        path.write_bytes(data[: int(part * len(data))])

    return damage


def _write(text):
    return lambda path: path.write_text(text)


NUMBA_FILES = [("modules/__pycache__/*.nbi", _cut(0.5)), ("modules/__pycache__/*.nbc", _cut(0.9))]
DAMAGES = {
    "module truncated": [("modules/*.py", _cut(0.6))],
    "module missing": [("modules/*.py", lambda path: path.unlink())],
    "module with a line added": [
        ("modules/*.py", lambda path: path.write_text(path.read_text() + "x = 1\n"))
    ],
    "Numba index truncated": NUMBA_FILES[:1],
    "Numba code truncated": NUMBA_FILES[1:],
    "Numba code missing": [("modules/__pycache__/*.nbc", lambda path: path.unlink())],
    "index garbage": [("index/*.json", _write("{]"))],
    "index empty": [("index/*.json", _cut(0))],
    "index not text": [("index/*.json", lambda path: path.write_bytes(b"\xff\xfe\x00"))],
    "index of another form": [("index/*.json", _write('["module"]'))],
    "index without module": [("index/*.json", _write('{"request": []}'))],
    "index with a path": [("index/*.json", _write('{"request": [], "module": "../../evil\\u0000*"}'))],
    "index with an unknown module": [
        ("index/*.json", _write(json.dumps({"request": [], "module": 32 * "0"})))
    ],
    "everything": [*NUMBA_FILES, ("modules/*.py", _cut(0.3)), ("index/*.json", _write("null"))],
}
IN_A_NEW_PROCESS = ("Numba index truncated", "everything")


def _apply(damage, folder):
    for pattern, change in DAMAGES[damage]:
        paths = list(folder.glob(pattern))
        assert paths
        for path in paths:
            change(path)


def _assert_whole(folder):
    (module,) = (folder / "modules").glob("*.py")
    assert module.name == f"tk_{hashlib.sha256(module.read_bytes()).hexdigest()[:32]}.py"
    (entry,) = (folder / "index").glob("*.json")
    assert f"tk_{json.loads(entry.read_text())['module']}.py" == module.name
    assert not list(folder.rglob(".new-*"))


@pytest.mark.parametrize("damage", IN_A_NEW_PROCESS)
def test_in_a_new_process(damage, copy_of_warm, warm, start, finish):
    _apply(damage, copy_of_warm)
    found = finish(start(copy_of_warm))
    assert found["values"] == warm[1]["values"]
    assert found["warnings"] == []
    _assert_whole(copy_of_warm)
    again = finish(start(copy_of_warm))
    assert (again["status"]["derived"], again["status"]["compiled_functions"]) == (0, 0)
    assert again["values"] == warm[1]["values"]


@pytest.mark.parametrize("damage", [d for d in DAMAGES if d not in IN_A_NEW_PROCESS])
def test_in_this_process(damage, copy_of_warm, warm, fresh_codegen):
    fresh_codegen(copy_of_warm)
    _apply(damage, copy_of_warm)
    assert [list(pair) for pair in answer()] == warm[1]["values"]
    _assert_whole(copy_of_warm)


def test_listing_skips_what_cannot_be_read(copy_of_warm, fresh_codegen):
    from theorykit.codegen import cache

    fresh_codegen(copy_of_warm)
    (entry,) = cache.entries()
    assert entry["request"] == ["toy", "('kernel', 'exp(x)')", "second_moment"]
    assert entry["bytes"] > 10_000
    for name, text in (("a", "{]"), ("b", "[]"), ("c", '{"request": [], "module": 3}')):
        (copy_of_warm / "index" / f"{name}.json").write_text(text)
    assert cache.entries() == [entry]


def test_clearing_deletes_everything_and_leaves_a_usable_folder(copy_of_warm, warm, fresh_codegen):
    from theorykit.codegen import cache, status

    fresh_codegen(copy_of_warm)
    files = [p for p in copy_of_warm.rglob("*") if p.is_file()]
    assert cache.clear() == len(files)
    assert not [p for p in copy_of_warm.rglob("*") if p.is_file()]
    assert cache.entries() == []
    assert [list(pair) for pair in answer()] == warm[1]["values"]
    assert status()["derived"] == 1
    _assert_whole(copy_of_warm)


def test_a_folder_removed_while_we_run_is_made_again(copy_of_warm, warm, fresh_codegen):
    import shutil

    from theorykit.codegen import cache

    fresh_codegen(copy_of_warm)
    assert cache.folder() == copy_of_warm
    shutil.rmtree(copy_of_warm)
    assert [list(pair) for pair in answer()] == warm[1]["values"]
    _assert_whole(copy_of_warm)
    assert copy_of_warm.stat().st_mode & 0o077 == 0
