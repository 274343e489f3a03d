"""What crosses the border to a job's own process and back: JSON text behind its length, nothing else.

    worker ── job, its deadline ──► job's process ── outcome ──► worker

No object is ever unpickled: a process that a handler has broken can only send text that is no outcome.
"""

import json
import socket
import struct
from dataclasses import asdict
from typing import Any
from uuid import UUID

from djqueue.policy.errors import FailureText
from djqueue.runtime.held import Held
from djqueue.runtime.outcome import (
    Cancelled,
    Committed,
    Expired,
    Failed,
    NotStarted,
    Outcome,
    Snoozed,
    Stale,
    Succeeded,
)
from djqueue.store.claim import Claimed

LENGTH = struct.Struct(">Q")

_KINDS: dict[str, type[Outcome]] = {
    kind.__name__: kind
    for kind in (Succeeded, Committed, Failed, Snoozed, Cancelled, NotStarted, Expired, Stale)  # type: ignore[dict-item]
}


def job_text(held: Held) -> str:
    """Return a job that is about to run as text."""
    job = {**held.job._asdict(), "id": str(held.job.id)}
    return json.dumps({"job": job, "index": held.index, "began": held.began, "deadline_ns": held.deadline_ns})


def job_of(text: str) -> tuple[Claimed, dict[str, Any]]:
    """Return the job and what else is known of its start."""
    found = json.loads(text)
    job = found.pop("job")
    return Claimed(**{**job, "id": UUID(job["id"])}), found


def outcome_text(outcome: Outcome) -> str:
    """Return an outcome as text."""
    return json.dumps([type(outcome).__name__, asdict(outcome)])


def outcome_of(text: str) -> Outcome:
    """Return the outcome; raise `ValueError` where the text is none."""
    try:
        name, values = json.loads(text)
        kind = _KINDS[name]
        if kind is Failed:
            values["failure"] = FailureText(**values["failure"])
        return kind(**values)
    except (TypeError, KeyError, ValueError) as fault:
        raise ValueError(f"no outcome: {fault!r}") from fault


def send(channel: socket.socket, text: str) -> None:
    """Write one text; waits while the other side does not read."""
    data = text.encode()
    channel.sendall(LENGTH.pack(len(data)) + data)


def receive(channel: socket.socket) -> str:
    """Read one text; raise `EOFError` where the other side has gone."""
    (length,) = LENGTH.unpack(_exactly(channel, LENGTH.size))
    return _exactly(channel, length).decode()


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = channel.recv(min(size - len(data), 1 << 20))
        if not piece:
            raise EOFError("the other side has gone")
        data += piece
    return bytes(data)


class Incoming:
    """One text that arrives in pieces."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, piece: bytes) -> None:
        """Take in what has come."""
        self._data += piece

    @property
    def text(self) -> str | None:
        """The text, once all of it is there."""
        if len(self._data) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._data)
        whole = self._data[LENGTH.size : LENGTH.size + length]
        return whole.decode("utf-8", "replace") if len(whole) == length else None
