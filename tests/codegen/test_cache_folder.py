"""Which folder is used, and which is refused: generated code is imported from it."""

from __future__ import annotations

import os
import stat
import threading
import warnings
from pathlib import Path

import pytest

from theorykit.codegen import cache
from theorykit.errors import CacheError

posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners and modes are POSIX")


@pytest.fixture
def use(fresh_codegen):
    return fresh_codegen


def _modes(folder):
    return {stat.S_IMODE(p.stat().st_mode) for p in [folder, *folder.rglob("*")] if p.is_dir()}


class TestChoice:
    def test_the_environment_chooses(self, tmp_path, use):
        use(tmp_path / "deep" / "own")
        assert cache.folder() == tmp_path / "deep" / "own"

    def test_home_is_expanded(self, tmp_path, use, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        use("~/mine")
        assert cache.folder() == tmp_path / "mine"

    def test_a_relative_folder_stays_where_it_is(self, tmp_path, use, monkeypatch):
        monkeypatch.chdir(tmp_path)
        use("mine")
        first = cache.folder()
        monkeypatch.chdir("/")
        assert cache.folder() == first == tmp_path / "mine"

    @pytest.mark.skipif(os.sys.platform != "linux", reason="XDG folders")
    @pytest.mark.parametrize("xdg", [True, False])
    def test_the_default_is_per_user(self, tmp_path, use, monkeypatch, xdg):
        use("")
        monkeypatch.setenv("HOME", str(tmp_path))
        if xdg:
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        else:
            monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        assert cache.folder() == tmp_path / ("xdg" if xdg else ".cache") / "theorykit"

    @posix
    def test_it_is_made_private_whatever_the_umask(self, tmp_path, use):
        use(tmp_path / "own")
        old = os.umask(0)
        try:
            folder = cache.folder()
        finally:
            os.umask(old)
        assert _modes(folder) == {0o700}


class TestUnwritable:
    """Nothing can be written where a file stands in the way: true for root, too."""

    @pytest.fixture
    def blocked(self, tmp_path, use):
        (tmp_path / "file").write_text("")
        use(tmp_path / "file" / "cache")

    def _check(self, folder, caught):
        assert [w.category for w in caught] == [RuntimeWarning]
        message = str(caught[0].message)
        assert "cannot be written" in message
        assert "THEORYKIT_CACHE" in message
        assert str(folder) in message
        assert folder.is_dir()
        assert _modes(folder) == {0o700}

    def test_a_private_temporary_folder_and_one_warning(self, blocked):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            folder = cache.folder()
            assert cache.folder() == folder
        self._check(folder, caught)

    def test_one_folder_for_all_threads(self, blocked):
        found = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            barrier = threading.Barrier(8)

            def ask():
                barrier.wait()
                found.append(cache.folder())

            threads = [threading.Thread(target=ask) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(set(found)) == 1
        self._check(found[0], caught)

    def test_a_disk_that_refuses_writes(self, tmp_path, use, monkeypatch):
        import tempfile

        def refuse(*_, dir=None, **__):
            raise OSError(30, "Read-only file system", str(dir))

        use(tmp_path / "own")
        monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
        monkeypatch.setattr(cache, "_temporary_folder", lambda error: Path(f"instead: {error.strerror}"))
        assert cache.folder() == Path("instead: Read-only file system")

    def test_a_user_without_home(self, use, monkeypatch):
        def homeless(self):
            raise RuntimeError("Could not determine home directory.")

        use("~/cache")
        monkeypatch.setattr(Path, "expanduser", homeless)
        with pytest.warns(RuntimeWarning, match="Could not determine home"):
            assert cache.folder().is_dir()

    def test_the_same_numbers_in_a_process_that_cleans_up(self, tmp_path, warm, start, finish):
        (tmp_path / "file").write_text("")
        found = finish(start(tmp_path / "file" / "cache"))
        assert found["values"] == warm[1]["values"]
        (warning,) = found["warnings"]
        assert warning.startswith("RuntimeWarning: the cache folder cannot be written")
        assert not Path(found["status"]["cache_folder"]).exists()


@posix
class TestRefusal:
    @pytest.mark.parametrize("part", ["", "modules", "modules/__pycache__", "index"])
    @pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
    def test_writable_by_others(self, copy_of_warm, use, part, mode):
        (copy_of_warm / part).chmod(mode)
        use(copy_of_warm)
        with pytest.raises(CacheError, match=rf"can be written by others \(mode {mode:o}\).*chmod go-w"):
            cache.folder()

    def test_readable_by_others_is_fine(self, copy_of_warm, use):
        copy_of_warm.chmod(0o755)
        use(copy_of_warm)
        assert cache.folder() == copy_of_warm

    def test_owned_by_somebody_else(self, copy_of_warm, use, monkeypatch):
        use(copy_of_warm)
        owner = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: owner + 1)
        with pytest.raises(CacheError, match=f"belongs to user {owner}, not to you"):
            cache.folder()

    def test_the_public_call_refuses_too(self, copy_of_warm, use):
        from answer import program

        copy_of_warm.chmod(0o777)
        use(copy_of_warm)
        with pytest.raises(CacheError, match="can be written by others"):
            program()

    def test_a_module_that_others_can_write_is_not_imported(self, copy_of_warm, use):
        (module,) = (copy_of_warm / "modules").glob("*.py")
        module.chmod(0o622)
        use(copy_of_warm)
        with pytest.raises(CacheError, match="can be written by others"):
            cache.import_module(module.stem.removeprefix("tk_"))

    def test_compiled_code_that_others_could_replace_is_not_loaded(self, copy_of_warm, use):
        (module,) = (copy_of_warm / "modules").glob("*.py")
        use(copy_of_warm)
        cache.folder()
        (copy_of_warm / "modules" / "__pycache__").chmod(0o777)
        with pytest.raises(CacheError, match="can be written by others"):
            cache.import_module(module.stem.removeprefix("tk_"))


class TestRequests:
    def test_different_requests_do_not_meet(self, tmp_path, use):
        use(tmp_path / "own")
        requests = [
            ("theory", ("a", "b"), ("c",)), ("theory", ("a",), ("b", "c")), ("theory", ("ab",), ("c",)),
            ("theory", (1,), ()), ("theory", (1.0,), ()), ("theory", (True,), ()), ("theory", ("1",), ()),
            ("theory", (None,), ()), ("theory", ("None",), ()), ("theory", (0.1 + 0.2,), ()), ("theory", (0.3,), ()),
        ]  # fmt: skip
        for number, request in enumerate(requests):
            cache.remember(request, f"{number:032x}")
        assert [cache.lookup(r) for r in requests] == [f"{n:032x}" for n in range(len(requests))]

    def test_what_is_not_text_or_number_is_refused(self, tmp_path, use):
        import numpy as np

        use(tmp_path / "own")
        for value in (np.zeros(3), object(), {"a": 1}, b"bytes"):
            with pytest.raises(TypeError, match="a request holds text, numbers"):
                cache.lookup(("theory", (value,), ()))

    def test_another_version_is_another_request(self, tmp_path, use, monkeypatch):
        use(tmp_path / "own")
        cache.remember(("theory", (), ()), "0" * 32)
        monkeypatch.setattr(cache, "fingerprint", lambda: "another")
        assert cache.lookup(("theory", (), ())) is None

    def test_the_fingerprint_knows_sources_and_versions(self, monkeypatch):
        import importlib.metadata

        first = cache.fingerprint()
        cache.fingerprint.cache_clear()
        assert cache.fingerprint() == first
        cache.fingerprint.cache_clear()
        monkeypatch.setattr(importlib.metadata, "version", lambda package: "0.0")
        assert cache.fingerprint() != first
        cache.fingerprint.cache_clear()
