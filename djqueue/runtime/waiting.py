"""Where a worker's main thread waits: for a finished job, a notification, a signal, or the time of the next look.

Invariant: a poke between the last look and the wait is not lost: who waits says so first and looks once more then.
"""

import os
import select
from collections.abc import Callable
from typing import Any

from djqueue.runtime.listener import Listener


class Waiting:
    """The wait of one main thread, and how to end it."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._is_waiting = False

    def poke(self, force: bool = False) -> None:
        """Wake the main thread, if it waits. Called by slot threads and signal handlers."""
        if self._is_waiting or force:
            self._is_waiting = False
            try:
                os.write(self._write, b"x")
            except BlockingIOError:
                pass

    def wait(self, is_over: Callable[[], bool], seconds: Callable[[], float]) -> list[str]:
        """Wait for a poke or a notification, not at all where `is_over`; return the queues with news, and
        `SETTINGS_CHANGED`."""
        self._listener.open()
        self._is_waiting = True
        if is_over():
            self._is_waiting = False
            return []
        listening = self._listener.fileno()
        wait_for: list[Any] = [self._read] if listening is None else [self._read, listening]
        readable, _, _ = select.select(wait_for, [], [], seconds())
        self._is_waiting = False
        if self._read in readable:
            self._empty()
        return self._listener.heard() if listening in readable else []

    def pause(self, seconds: float) -> None:
        """Wait so long, or until somebody pokes with force."""
        select.select([self._read], [], [], seconds)
        self._empty()

    def close(self) -> None:
        """End listening."""
        self._listener.close()

    def _empty(self) -> None:
        try:
            while os.read(self._read, 4096):
                pass
        except BlockingIOError:
            pass
