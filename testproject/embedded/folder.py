"""The data folder: create it, read its postmaster.pid, keep two starts apart, clear up temporary ones.

The invariant: a folder that this module did not finish making is never started and never deleted.
"""

import fcntl
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testproject.embedded.errors import EmbeddedServerError, ServerStartFailed
from testproject.embedded.launch import SystemUser, spawn
from testproject.embedded.reach import can_enter

SUPERUSER = "postgres"
FINISHED_MARK = "initdb.done"
TEMPORARY_PREFIX = "djqueue-postgres-"
ORPHAN_AGE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """Say what postmaster.pid tells about a server."""

    pid: int
    port: int


@contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    """Hold the folder's lock, so that of two processes one starts the server and the other finds it."""
    descriptor = os.open(data_dir, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def make_folder(data_dir: Path, user: SystemUser | None) -> None:
    """Create the folder for the user that the server runs as."""
    is_new = not data_dir.exists()
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if user is not None and data_dir.stat().st_uid != user.uid and not any(data_dir.iterdir()):
        os.chown(data_dir, user.uid, user.gid)
    if not can_enter(data_dir, user):
        if is_new:
            data_dir.rmdir()
        name = user.name if user else "this user"
        raise EmbeddedServerError(
            f"The user {name}, whom PostgreSQL runs as, can't enter the data folder {data_dir}. "
            "Name a folder that is open to that user, or start this as an ordinary user."
        )


def initialise(data_dir: Path, binaries: Path, user: SystemUser | None) -> None:
    """Run initdb unless it has been run; trust everybody, as only the loopback address is listened on."""
    if (data_dir / FINISHED_MARK).exists():
        return
    if any(data_dir.iterdir()):
        raise EmbeddedServerError(
            f"Expected an empty data folder or one made by an earlier start, got {data_dir}, "
            "which holds other files or an unfinished start. Remove it, or name another folder."
        )
    command: list[str | Path] = [
        binaries / "initdb", "--pgdata", data_dir, "--username", SUPERUSER, "--auth=trust", "-E", "UTF8",
        "--locale=C",
    ]  # fmt: skip
    with tempfile.NamedTemporaryFile(prefix="initdb-", suffix=".log") as log:
        if spawn(command, user=user, cwd=data_dir, log=log.file).wait() != 0:
            raise ServerStartFailed(f"initdb could not make the data folder {data_dir}.", Path(log.name))
    (data_dir / FINISHED_MARK).touch()


def read_pid_file(data_dir: Path) -> RunningServer | None:
    """Return what postmaster.pid says, or None where it is missing, not yet whole, or of a process that is gone."""
    try:
        lines = (data_dir / "postmaster.pid").read_text().splitlines()
        server = RunningServer(pid=int(lines[0]), port=int(lines[3]))
    except (FileNotFoundError, IndexError, ValueError):
        return None
    return server if is_postgres(server.pid) else None


def is_postgres(pid: int) -> bool:
    """Tell whether the process lives and, where /proc says it, is a PostgreSQL server and not a later namesake."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/comm").read_text().strip() == "postgres"
        except (FileNotFoundError, ProcessLookupError):
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class TemporaryFolder:
    """Hold a temporary data folder and a lock on it that ends with this process, whatever ends it."""

    def __init__(self) -> None:
        remove_orphans()
        self.path = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX))
        self.path.chmod(0o755)
        self.data_dir = self.path / "data"
        self._lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Delete the folder with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_orphans() -> None:
    """Delete temporary folders whose process was killed before it could."""
    for path in Path(tempfile.gettempdir()).glob(f"{TEMPORARY_PREFIX}*"):
        if is_orphan(path):
            shutil.rmtree(path, ignore_errors=True)


def is_orphan(path: Path) -> bool:
    """Tell whether a temporary folder is ours, not brand new, unlocked, and without a running server."""
    try:
        found = path.stat()
        if found.st_uid != os.geteuid() or time.time() - found.st_mtime < ORPHAN_AGE_SECONDS:
            return False
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return read_pid_file(path / "data") is None
