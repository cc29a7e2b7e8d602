"""Calls shared among processes: every result once, errors with their traceback, nobody left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from theorykit.processes import finished


def work(x):
    return x * x, os.getpid()


def wait_for(path):
    """Done when a file is there: another process has to make it."""
    end = time.monotonic() + 60
    while not Path(path).exists():
        assert time.monotonic() < end, "the other process never came"
        time.sleep(0.01)
    return os.getpid()


def touch(path):
    Path(path).touch()
    return os.getpid()


def die(path, caller):
    assert os.getpid() != caller
    Path(path).touch()
    os._exit(3)


def fail(message):
    raise ValueError(message)


def test_alone_from_the_end():
    found = list(finished([partial(work, x) for x in range(5)]))
    assert found == [(x, (x * x, os.getpid())) for x in reversed(range(5))]


def test_no_calls():
    assert list(finished([], processes=3)) == []


@pytest.mark.parametrize("processes", [2, 3])
def test_every_result_once(processes):
    found = dict(finished([partial(work, x) for x in range(40)], processes))
    assert {x: value for x, (value, _) in found.items()} == {x: x * x for x in range(40)}
    assert len({pid for _, pid in found.values()}) <= processes


def test_two_work_at_the_same_time(tmp_path):
    """The last call, made here, ends when the first one, made elsewhere, has begun."""
    found = dict(finished([partial(touch, tmp_path / "x"), partial(wait_for, tmp_path / "x")], processes=2))
    assert found[1] == os.getpid() != found[0]


def test_an_error_here_is_raised():
    with pytest.raises(ValueError, match="bad"):
        list(finished([partial(fail, "bad")]))


def test_an_error_elsewhere_is_raised_with_its_traceback(tmp_path):
    calls = [partial(fail, "bad"), partial(touch, tmp_path / "x"), partial(wait_for, tmp_path / "x")]
    with pytest.raises(ValueError, match="bad") as caught:
        list(finished(calls, processes=2))
    assert "in fail\n    raise ValueError(message)" in "".join(caught.value.__notes__)


def test_a_death_elsewhere_is_noticed(tmp_path):
    calls = [partial(die, tmp_path / "x", os.getpid()), partial(wait_for, tmp_path / "x")]
    with pytest.raises(RuntimeError, match=r"died during functools\.partial.*die"):
        list(finished(calls, processes=2))


def test_what_does_not_pickle_is_refused(tmp_path):
    calls = [lambda: None, partial(touch, tmp_path / "x"), partial(wait_for, tmp_path / "x")]
    with pytest.raises(Exception, match="pickle"):
        list(finished(calls, processes=2))


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nobody_is_left_behind(tmp_path, ended_by):
    """However the process ends: the other one is in a call of a fifth of a second each time it is."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, time\n"
        "from functools import partial\n"
        "from pathlib import Path\n"
        "from theorykit.processes import finished\n"
        "def name(path):\n"
        "    Path(path).write_text(str(os.getpid()))\n"
        "    time.sleep(0.2)\n"
        "if __name__ == '__main__':\n"
        f"    calls = [partial(name, {str(tmp_path / 'pid')!r})] * 600 + [partial(time.sleep, 100)]\n"
        "    print(list(finished(calls, processes=2)))\n"
    )
    with subprocess.Popen([sys.executable, script], stderr=subprocess.PIPE, text=True) as process:
        wait_for(tmp_path / "pid")
        time.sleep(0.05)  # written
        other = int((tmp_path / "pid").read_text())
        assert alive(other)
        process.send_signal(ended_by)
        _, said = process.communicate(timeout=30)
    end = time.monotonic() + 30
    while alive(other) and time.monotonic() < end:
        time.sleep(0.01)
    assert not alive(other)
    assert ("KeyboardInterrupt" in said) == (ended_by == signal.SIGINT)
    assert said.count("Traceback") == (ended_by == signal.SIGINT)
