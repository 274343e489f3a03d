"""An account of what handlers did that no database and no worker can change: lines appended to a file.

A line is written with one `write` call to a file opened for appending, so that lines of several processes never mix.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "TRIALS_LEDGER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line: a handler's label, what happened, in which process, and when (seconds of the machine's clock)."""

    label: str
    event: str
    pid: int
    at: float


def write(label: str, event: str) -> None:
    """Append a line, if there is a ledger."""
    path = os.environ.get(VARIABLE)
    if path:
        handle = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)
        try:
            os.write(handle, f"{label}\t{event}\t{os.getpid()}\t{time.time()}\n".encode())
        finally:
            os.close(handle)


def read(path: Path) -> list[Line]:
    """Return all lines so far."""
    if not path.exists():
        return []
    rows = (row.split("\t") for row in path.read_text().splitlines())
    return [Line(label=row[0], event=row[1], pid=int(row[2]), at=float(row[3])) for row in rows]
