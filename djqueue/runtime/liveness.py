"""Telling whoever runs this supervisor that its workers are able to work: a file's time, and systemd's notify socket.

It lives in the keeper, which sees all workers in the slot table; the parent has no time for it. Invariant: nothing is
told while any worker has not looked for jobs for longer than `max_age_seconds` (see `policy.alive`), so that a watchdog
that hears nothing, or a file that has grown old, means a frozen or stuck worker, or a database that is gone.
"""

import logging
import os
import socket
from pathlib import Path

from djqueue.runtime.slot_table import LOOKED, STOP_KEEPER, PageStatus, SlotTable, now_ns

log = logging.getLogger("djqueue")


class Liveness:
    """Tells it about once a second."""

    def __init__(self, table: SlotTable, max_age_seconds: float, file: str = "", notify_socket: str = "") -> None:
        self._table = table
        self._max_age_ns = int(max_age_seconds * 1e9)
        self._file = Path(file) if file else None
        self._address = f"\0{notify_socket[1:]}" if notify_socket.startswith("@") else notify_socket
        self._has_failed = False

    def tell(self) -> None:
        """Look at the workers; touch the file and notify systemd where they are able to work."""
        if self._file is None and not self._address:
            return
        try:
            self._tell()
            self._has_failed = False
        except OSError as error:
            if not self._has_failed:
                log.error("liveness can't be told error=%s", error)
            self._has_failed = True

    def _tell(self) -> None:
        if self._table.get(STOP_KEEPER):
            self._notify("STOPPING=1")
            return
        ages = [now_ns() - page.get(LOOKED) for page in self._table.live() if page.status is PageStatus.RUNNING]
        if not ages:
            return  # none has reached the database yet, or none is left
        if max(ages) > self._max_age_ns:
            self._notify(f"STATUS=a worker has not looked for jobs for {max(ages) / 1e9:.0f} s")
            return
        if self._file is not None:
            self._file.touch()
        self._notify(f"READY=1\nWATCHDOG=1\nSTATUS={len(ages)} workers")

    def _notify(self, words: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
            line.setblocking(False)
            line.sendto(words.encode(), self._address)


def notify_socket() -> str:
    """Return where systemd wants to be told; '' where it does not run this."""
    return os.environ.get("NOTIFY_SOCKET", "")
