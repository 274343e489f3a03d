"""Background duties: one contract for everything that a keeper does again and again.

A duty has a name and one `tick()`, which does a bounded piece of work and returns the seconds until it wants the next.
A `Routine` runs several duties in one thread on one database connection, survives what databases do, and stops when
told. A duty that cannot go on raises `Fatal`, which ends the process: never alive and idle.
"""

import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import psycopg

from djqueue.policy.backoff import Backoff
from djqueue.store import db, faults

log = logging.getLogger("djqueue")


MOST_PAUSE_SECONDS = 3.0
"""Heartbeats are back so soon after the database is; leases are 3 s at the least, and reaping waits still longer."""


class Duty(Protocol):
    """One background duty."""

    name: str

    def tick(self) -> float:
        """Do a bounded piece of work; return the seconds until the next is wanted (0 = at once)."""


@runtime_checkable
class EndingDuty(Duty, Protocol):
    """A duty that has something to give back when its routine stops."""

    def end(self) -> None:
        """Give it back; called once, after the last tick, if the connection still lives."""


@runtime_checkable
class PatientDuty(Duty, Protocol):
    """A duty that lets others go first when the database is back."""

    after_outage_seconds: float


class Fatal(Exception):
    """The duty can never succeed in this process; the process must end and be replaced."""


class Routine:
    """A thread that runs duties, each at its own pace, on the thread's own bookkeeping connection."""

    def __init__(
        self, name: str, alias: str, duties: Sequence[Duty], *, prepared: bool, on_fatal: Callable[[str], None]
    ) -> None:
        self.name = name
        self._alias = alias
        self._prepared = prepared
        self._due = {duty.name: (duty, 0.0) for duty in duties}
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._on_fatal = on_fatal
        self._backoff = Backoff(0.1, MOST_PAUSE_SECONDS)
        self._raw: psycopg.Connection[Any] | None = None
        self._connected = False
        self._was_away = False
        self._busy_since: float | None = None
        self._cutting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"djqueue-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end after the tick that it is in."""
        self._stopping.set()
        self._wake.set()

    def join(self, within: float) -> bool:
        """Wait for the thread's end; return whether it has ended."""
        self._thread.join(within)
        return not self._thread.is_alive()

    def wake(self, name: str | None = None) -> None:
        """Let a duty (or all) tick as soon as possible."""
        for key, (duty, _) in self._due.items():
            if name in (None, key):
                self._due[key] = (duty, 0.0)
        self._wake.set()

    def cut_if_stuck(self, seconds: float) -> None:
        """Cut the connection off, from another thread, if a tick has waited for the database for so long: a network
        that swallows everything, or a lock that somebody holds for ever. The routine connects again."""
        since = self._busy_since
        if since is None or time.monotonic() - since < seconds:
            return
        with self._cutting:
            if self._busy_since == since:
                log.error("database does not answer, connecting again routine=%s", self.name)
                self._busy_since = None
                _cut(self._raw)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._connect()
                self._turn()
                self._backoff.reset()
            except (*faults.ERRORS, OSError) as error:
                if faults.connection_is_lost(self._alias, error):
                    self._drop()
                self._pause(error)
            except Fatal as error:
                self._on_fatal(f"{self.name}: {error}")
                return
            except Exception:
                log.exception("duty failed routine=%s", self.name)
                self._on_fatal(f"{self.name}: unexpected error")
                return
        if self._connected:
            self._end()
        self._drop()

    def _connect(self) -> None:
        if self._connected:
            return
        self._raw = db.adopt(self._alias, prepared=self._prepared)
        self._connected = True
        if self._was_away:
            self._let_patient_ones_wait()
        self._was_away = False

    def _drop(self) -> None:
        self._connected = False
        self._was_away = True
        with self._cutting:
            db.drop(self._alias)

    def _let_patient_ones_wait(self) -> None:
        for key, (duty, at) in self._due.items():
            if isinstance(duty, PatientDuty):
                self._due[key] = (duty, max(at, time.monotonic() + duty.after_outage_seconds))

    def _end(self) -> None:
        for duty, _ in self._due.values():
            if isinstance(duty, EndingDuty):
                try:
                    duty.end()
                except (*faults.ERRORS, OSError) as error:
                    log.warning("duty did not end well duty=%s error=%s", duty.name, faults.words(error))

    def _turn(self) -> None:
        self._wake.clear()
        for key, (duty, at) in list(self._due.items()):
            if self._stopping.is_set():
                return
            if at <= time.monotonic():
                self._due[key] = (duty, float("inf"))
                delay = 1.0
                try:
                    self._busy_since = time.monotonic()
                    delay = duty.tick()
                finally:
                    self._busy_since = None
                    was_woken = self._due[key][1] == 0.0
                    self._due[key] = (duty, 0.0 if was_woken else time.monotonic() + delay)
        next_at = min((at for _, at in self._due.values()), default=float("inf"))
        self._wake.wait(min(60.0, max(0.0, next_at - time.monotonic())))

    def _pause(self, error: BaseException) -> None:
        """Wait before the next try, whoever wakes the duties meanwhile; of many failures in a row few are logged."""
        seconds = self._backoff.next(random.Random())
        if self._backoff.failures in (1, 2) or self._backoff.failures % 20 == 0:
            log.warning("database trouble routine=%s error=%s retry_in=%.1fs", self.name, faults.words(error), seconds)
        self._stopping.wait(seconds)


def _cut(raw: psycopg.Connection[Any] | None) -> None:
    """End both directions of a connection under whoever waits for it."""
    try:
        if raw is not None:
            with socket.socket(fileno=os.dup(raw.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)
    except (OSError, psycopg.Error):
        pass  # it is gone already
