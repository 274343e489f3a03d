"""Start, find, stop and restart an embedded PostgreSQL server.

    start() ─► a live server in the data folder? ─yes─► used, not owned: stop() leaves it alone
                        └─no─► initdb (once) ─► postgres as a child ─► answers ─► owned: stop() ends it

The data folder's lock is held during start(), so that two processes never start one server twice.
"""

import atexit
import os
import signal
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import psycopg
from psycopg import sql

from testproject.embedded.binaries import checked, find_binaries
from testproject.embedded.errors import EmbeddedServerError, ServerNotOwned, ServerStartFailed
from testproject.embedded.folder import (
    SUPERUSER,
    RunningServer,
    TemporaryFolder,
    initialise,
    locked,
    make_folder,
    read_pid_file,
)
from testproject.embedded.launch import BoundProcess, step_down_user
from testproject.embedded.reach import reachable_binaries

Mode = Literal["fast", "immediate"]

HOST = "127.0.0.1"
LOG_NAME = "server.log"
MAX_CONNECTIONS = 200
START_WITHIN_SECONDS = 60.0
LOOK_AGAIN_SECONDS = 0.02
PORT_TRIES = 5
STOP_SIGNALS: dict[Mode, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class EmbeddedServer:
    """Run a PostgreSQL server on 127.0.0.1 that ends with this process.

    data_dir: where the data lives; kept at stop. None: a temporary folder, removed at stop.
    binaries: the folder with initdb and postgres. None: looked for, see `binaries.find_binaries`.
    port: None: a free one, the same at every restart of this object.
    database: the database that `url` names; made at the first start.

    A server that already runs in `data_dir` is used and never stopped: `owned` is False then.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        binaries: Path | str | None = None,
        port: int | None = None,
        database: str = "shop",
    ) -> None:
        self.database = database
        self._given_data_dir = Path(data_dir).resolve() if data_dir is not None else None
        self._given_binaries = Path(binaries) if binaries is not None else None
        self._given_port = port
        self._temporary: TemporaryFolder | None = None
        self._process: BoundProcess | None = None
        self._running: RunningServer | None = None
        self._starter = 0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Start the server, or find the one that runs; return when it answers.

        Raises BinariesNotFound, ServerStartFailed (with the end of the server's log), EmbeddedServerError.
        """
        if self._running is not None:
            return self
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, mode: Mode = "fast") -> None:
        """Stop an owned server and remove a temporary folder; leave another process's server alone."""
        if self._starter == os.getpid():
            if self._process is not None:
                self._process.end(STOP_SIGNALS[mode])
                atexit.unregister(self.stop)
            if self._temporary is not None:
                self._temporary.remove()
        self._process = None
        self._temporary = None
        self._running = None

    def restart(self, mode: Mode = "fast") -> None:
        """Stop the server and start it again with the same port and data.

        fast ends sessions in an orderly way; immediate is a crash, followed by recovery.
        Raises ServerNotOwned where another process started the server.
        """
        if self._process is None:
            raise ServerNotOwned(
                f"The server in {self.data_dir} was not started by this object, which may not restart it. "
                "Restart it where it was started."
            )
        port = self.port
        self._process.end(STOP_SIGNALS[mode])
        self._launch(port)

    @property
    def owned(self) -> bool:
        """Tell whether this object started the server, and will stop it."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """Return the process id of the server."""
        return self._expect_running().pid

    @property
    def port(self) -> int:
        """Return the TCP port on 127.0.0.1."""
        return self._expect_running().port

    @property
    def data_dir(self) -> Path:
        """Return the data folder."""
        if self._temporary is not None:
            return self._temporary.data_dir
        if self._given_data_dir is None:
            raise EmbeddedServerError("A server with a temporary data folder has none before start().")
        return self._given_data_dir

    @property
    def log(self) -> Path:
        """Return the file that the server logs to."""
        return self.data_dir / LOG_NAME

    @property
    def url(self) -> str:
        """Return the address of the database, in the form that DATABASE_URL and psycopg take."""
        return self.url_of(self.database)

    @property
    def dsn(self) -> str:
        """Return the same as `url`."""
        return self.url

    def url_of(self, database: str) -> str:
        """Return the address of any database of this server."""
        return f"postgres://{SUPERUSER}@{HOST}:{self.port}/{database}"

    def _expect_running(self) -> RunningServer:
        if self._running is None:
            raise EmbeddedServerError("The server does not run. Call start() first, or use it as a context manager.")
        return self._running

    def _start(self) -> None:
        user = step_down_user()
        self._starter = os.getpid()
        if self._given_data_dir is None:
            self._temporary = TemporaryFolder()
        make_folder(self.data_dir, user)
        with locked(self.data_dir):
            self._running = wait_for_running(self.data_dir)
            if self._running is None:
                self._prepare()
                self._launch(self._given_port)
            self._create_database()

    def _prepare(self) -> None:
        user = step_down_user()
        found = checked(self._given_binaries) if self._given_binaries is not None else find_binaries()
        self._binaries = reachable_binaries(found, user)
        initialise(self.data_dir, self._binaries, user)

    def _launch(self, port: int | None) -> None:
        for tries_left in reversed(range(PORT_TRIES if port is None else 1)):
            chosen = port if port is not None else free_port()
            with self.log.open("ab") as log:
                size = log.tell()
                process = BoundProcess(self._command(chosen), user=step_down_user(), cwd=self.data_dir, log=log)
            self._process = process
            self._running = RunningServer(pid=process.pid, port=chosen)
            if wait_until_ready(process, chosen, self.data_dir):
                atexit.unregister(self.stop)
                atexit.register(self.stop)
                return
            if tries_left and b"Address already in use" in self.log.read_bytes()[size:]:
                continue
            raise ServerStartFailed(f"PostgreSQL ended with code {process.exit_code} instead of starting.", self.log)

    def _command(self, port: int) -> list[str | Path]:
        return [
            self._binaries / "postgres",
            "-D",
            self.data_dir,
            f"--port={port}",
            f"--listen_addresses={HOST}",
            "--unix_socket_directories=",
            f"--max_connections={MAX_CONNECTIONS}",
        ]

    def _create_database(self) -> None:
        with psycopg.connect(self.url_of("postgres"), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [self.database]).fetchone()
            if known is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.database)))


def wait_for_running(data_dir: Path) -> RunningServer | None:
    """Return the server that runs in the folder; wait for one that is starting or stopping to make up its mind."""
    deadline = time.monotonic() + START_WITHIN_SECONDS
    while (server := read_pid_file(data_dir)) is not None:
        if answers(server.port, data_dir):
            return server
        if time.monotonic() > deadline:
            raise ServerStartFailed(f"The server with pid {server.pid} lives but does not answer.", data_dir / LOG_NAME)
        pause()
    return None


def wait_until_ready(process: BoundProcess, port: int, data_dir: Path) -> bool:
    """Return True once the server answers, False when it has ended, or was ended for taking too long."""
    deadline = time.monotonic() + START_WITHIN_SECONDS
    while time.monotonic() < deadline:
        if process.ended_within(LOOK_AGAIN_SECONDS):
            return False
        if answers(port, data_dir):
            return True
    process.end(signal.SIGQUIT)
    return False


def answers(port: int, data_dir: Path) -> bool:
    """Tell whether the server on the port takes connections and is the one of this data folder."""
    try:
        with psycopg.connect(host=HOST, port=port, user=SUPERUSER, dbname="postgres", connect_timeout=2) as connection:
            shown = connection.execute("SHOW data_directory").fetchone()
    except psycopg.Error:
        return False
    return shown is not None and Path(shown[0]) == data_dir


def pause() -> None:
    """Wait a moment before looking again at a process that is not a child."""
    time.sleep(LOOK_AGAIN_SECONDS)


def free_port() -> int:
    """Return a port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
