"""The liveness file and systemd's notify socket: told while workers are able to work, and silent when they are not."""

import os
import signal
import socket
from pathlib import Path
from uuid import uuid4

import pytest

from djqueue.runtime.liveness import Liveness
from djqueue.runtime.slot_table import LOOKED, STATUS, Kind, PageStatus, SlotTable, now_ns
from tests.helpers import eventually
from tests.runtime.trial import Trial, rows

slow = pytest.mark.slow


@pytest.fixture
def line(tmp_path: Path) -> socket.socket:
    """What stands where systemd would."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    found.bind(str(tmp_path / "notify"))
    found.setblocking(False)
    return found


def heard(line: socket.socket) -> list[str]:
    words: list[str] = []
    while True:
        try:
            words += line.recv(4096).decode().splitlines()
        except BlockingIOError:
            return words


def table_of(looked_seconds_ago: float, status: PageStatus = PageStatus.RUNNING) -> SlotTable:
    found = SlotTable.inherited(1)
    [page] = found.pages
    page.assign(uuid4(), Kind.WORKER)
    page.set(LOOKED, now_ns() - int(looked_seconds_ago * 1e9))
    page.set(STATUS, status)
    return found


def test_workers_that_look_are_told_of(tmp_path: Path, line: socket.socket) -> None:
    Liveness(table_of(3), 20, str(tmp_path / "alive"), line.getsockname()).tell()

    assert heard(line) == ["READY=1", "WATCHDOG=1", "STATUS=1 workers"]
    assert (tmp_path / "alive").exists()


def test_one_that_does_not_look_silences_the_watchdog_and_leaves_the_file(tmp_path: Path, line: socket.socket) -> None:
    Liveness(table_of(21), 20, str(tmp_path / "alive"), line.getsockname()).tell()

    assert heard(line) == ["STATUS=a worker has not looked for jobs for 21 s"]
    assert not (tmp_path / "alive").exists()


def test_nobody_is_ready_before_a_worker_runs(tmp_path: Path, line: socket.socket) -> None:
    Liveness(table_of(0, PageStatus.STARTING), 20, str(tmp_path / "alive"), line.getsockname()).tell()

    assert heard(line) == []
    assert not (tmp_path / "alive").exists()


def test_a_folder_that_is_not_there_and_a_socket_that_is_gone_stop_nobody(caplog: pytest.LogCaptureFixture) -> None:
    for place in (("/nowhere/alive", ""), ("", "/nowhere/notify")):
        caplog.clear()
        liveness = Liveness(table_of(0), 20, *place)
        liveness.tell()
        liveness.tell()
        assert caplog.text.count("liveness can't be told") == 1


@slow
def test_a_supervisor_tells_it_until_a_worker_is_frozen(trial: Trial, line: socket.socket) -> None:
    file = Path(trial.file("alive"))
    supervisor = trial.supervisor("--liveness-file", str(file), env={"NOTIFY_SOCKET": line.getsockname()})
    eventually(file.exists, 30)
    assert "READY=1" in eventually(lambda: heard(line), 10)
    [(pid,)] = rows("select pid from djqueue_worker")

    os.kill(pid, signal.SIGSTOP)

    eventually(lambda: any("has not looked" in words for words in heard(line)), 30)
    os.kill(pid, signal.SIGCONT)
    eventually(lambda: "WATCHDOG=1" in heard(line), 20)
    supervisor.signal(signal.SIGTERM)
    eventually(lambda: "STOPPING=1" in heard(line), 20)
