"""Hearing of new jobs: LISTEN on a connection of its own. The poll is the truth; this only makes it prompt.

A lost connection is opened again after a pause, never in a tight loop; while there is none, the worker polls.
"""

import logging
import random
import time
from typing import Any

from django.db import connections

from djqueue.policy.backoff import Backoff
from djqueue.store import db, faults

log = logging.getLogger("djqueue")


SETTINGS_CHANGED = "*"
"""Stands in the place of a queue's name where something was paused, resumed, opened or closed."""


class Listener:
    """One LISTEN connection. `alias` empty: notifications are off."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._wrapper: Any = None
        self._backoff = Backoff(0.5, 5)
        self._retry_at = 0.0

    def open(self) -> None:
        """Connect and listen, unless that failed a moment ago."""
        if not self._alias or self._wrapper is not None or time.monotonic() < self._retry_at:
            return
        try:
            wrapper: Any = connections.create_connection(self._alias)
            db.unpool(wrapper)
            wrapper.connect()
            wrapper.connection.execute("listen djqueue")
            self._wrapper = wrapper
            self._backoff.reset()
        except (*faults.ERRORS, OSError) as error:
            self._lost(error)

    def fileno(self) -> int | None:
        """Return the socket to wait on, or None while there is no connection."""
        return None if self._wrapper is None else self._wrapper.connection.fileno()

    def heard(self) -> list[str]:
        """Return the queues that were told of since the last call, without waiting."""
        if self._wrapper is None:
            return []
        try:
            pgconn = self._wrapper.connection.pgconn
            pgconn.consume_input()
            names: list[str] = []
            while (notify := pgconn.notifies()) is not None:
                names.append(notify.extra.decode(errors="replace"))
            return names
        except Exception as error:
            self._lost(error)
            return []

    def close(self) -> None:
        """End listening."""
        if self._wrapper is not None:
            try:
                self._wrapper.close()
            except Exception:
                log.debug("listener could not be closed")
            self._wrapper = None

    def _lost(self, error: BaseException) -> None:
        self.close()
        pause = self._backoff.next(random.Random())
        self._retry_at = time.monotonic() + pause
        log.warning("not listening, polling instead error=%s retry_in=%.1fs", faults.words(error), pause)
