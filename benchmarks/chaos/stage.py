"""The servers: a primary whose tables lie in a small tablespace of their own, a synchronous standby, and the network.

What the machine can't do (mounting a tmpfs needs root on Linux, a standby needs pg_basebackup) is left out, and said.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from benchmarks.chaos.proxy import Network
from testproject.embedded import EmbeddedServer
from testproject.embedded.binaries import find_binaries
from testproject.embedded.folder import SUPERUSER, make_folder
from testproject.embedded.launch import clean_environment, step_down_user
from testproject.embedded.reach import reachable_binaries

TABLESPACE_MEGABYTES = 400
STANDBY_WITHIN_SECONDS = 30


class Stage:
    """Servers and network, for as long as the bench runs."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="djqueue-chaos-"))
        self.folder.chmod(0o755)
        self.server = EmbeddedServer()
        self.standby: EmbeddedServer | None = None
        self.missing: dict[str, str] = {}
        """What can't be done here, and why."""
        self.tablespace: Path | None = None

    def __enter__(self) -> Self:
        self.server.start()
        self._make_tablespace()
        self.network = Network(self.server.port)
        self.url = self.server.url.replace(f":{self.server.port}/", f":{self.network.port}/")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self.standby, self.server):
            if each is not None:
                each.stop("immediate")
        if self.tablespace is not None:
            subprocess.run(["umount", "-l", self.tablespace], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def direct(self, **options: Any) -> Iterator[psycopg.Connection[Any]]:
        """A connection to the server that is primary now, past the network."""
        with psycopg.connect(self.server.url, autocommit=True, connect_timeout=10, **options) as connection:
            yield connection

    def set(self, name: str, value: str) -> None:
        """Change a setting of the server while it runs; an empty value takes the change back."""
        words = f"alter system set {name} to '{value}'" if value else f"alter system reset {name}"
        with psycopg.connect(self.server.url_of("postgres"), autocommit=True) as connection:
            connection.execute("set default_transaction_read_only to off")
            connection.execute(words)
            connection.execute("select pg_reload_conf()")

    def make_standby(self) -> None:
        """Copy the primary, start the copy as its standby, and make commits wait for it."""
        user = step_down_user()
        target = self.folder / "standby"
        try:
            programs = reachable_binaries(find_binaries(), user)
            if not (programs / "pg_basebackup").exists():
                raise FileNotFoundError("there is no pg_basebackup beside this server")
            make_folder(target, user)
            command: list[str | Path] = [programs / "pg_basebackup", "-D", target, "-R", "-X", "stream", "-c", "fast"]
            command += ["-h", "127.0.0.1", "-p", str(self.server.port), "-U", SUPERUSER]
            if self.tablespace is not None:
                place = self._owned(self.folder / "standby-tables")
                command += ["-T", f"{self.tablespace / 'tables'}={place}"]
            subprocess.run(
                command,
                check=True,
                capture_output=True,
                cwd="/",
                env=clean_environment(),
                user=user.uid if user else None,
                group=user.gid if user else None,
                extra_groups=[] if user else None,
            )
            self.standby = EmbeddedServer(data_dir=target, database=self.server.database).start()
            self._wait_for_standby()
        except subprocess.CalledProcessError as error:
            self.missing["fail over"] = error.stderr.decode(errors="replace").strip()
        except OSError as error:
            self.missing["fail over"] = str(error)

    def tablespace_is_gone(self) -> None:
        """The standby's tables lie on the ordinary disk."""
        if self.tablespace is not None:
            subprocess.run(["umount", "-l", self.tablespace], check=False)
            self.tablespace = None

    def _wait_for_standby(self) -> None:
        until = time.monotonic() + STANDBY_WITHIN_SECONDS
        with self.direct() as connection:
            while not connection.execute("select true from pg_stat_replication where state = 'streaming'").fetchone():
                if time.monotonic() > until:
                    raise TimeoutError("the standby does not stream")
                time.sleep(0.1)
        self.set("synchronous_standby_names", "*")

    def _make_tablespace(self) -> None:
        place = self.folder / "small"
        place.mkdir()
        option = f"size={TABLESPACE_MEGABYTES}m,mode=755"
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", option, "djqueue", place], capture_output=True, check=False
        )
        if made.returncode:
            self.missing["fill the tablespace"] = made.stderr.decode(errors="replace").strip()
            return
        self.tablespace = place
        tables = self._owned(place / "tables")
        with psycopg.connect(self.server.url_of("postgres"), autocommit=True) as connection:
            connection.execute(f"create tablespace small location '{tables}'")
            connection.execute(f"alter database {self.server.database} set tablespace small")

    def _owned(self, folder: Path) -> Path:
        folder.mkdir(mode=0o700)
        user = step_down_user()
        if user is not None:
            os.chown(folder, user.uid, user.gid)
        return folder


@contextmanager
def ignoring_trouble() -> Iterator[None]:
    """Go on where the server is just in trouble of another kind."""
    with contextlib.suppress(psycopg.Error, OSError):
        yield
