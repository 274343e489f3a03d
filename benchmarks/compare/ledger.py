"""What the handlers did, in a file that no queue can change: 16 bytes for each start of a job.

Every contender's handlers write here, so that all are counted, and timed, in the same way. A record is written with one
`write` to a file opened for appending: records of several processes never mix.
"""

import os
import struct
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "COMPARE_LEDGER"
RECORD = struct.Struct("<IId")

_handle = -1


def write(number: int) -> None:
    """Say that the handler of job `number` begins now."""
    os.write(_handle if _handle >= 0 else _open(), RECORD.pack(number, os.getpid(), time.time()))


def write_all(numbers: Iterable[int]) -> None:
    """Say it of many jobs at once."""
    pid, now = os.getpid(), time.time()
    os.write(_handle if _handle >= 0 else _open(), b"".join(RECORD.pack(number, pid, now) for number in numbers))


def _open() -> int:
    global _handle
    _handle = os.open(os.environ[VARIABLE], os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o666)
    return _handle


@dataclass(frozen=True, slots=True)
class Account:
    """A ledger as read: (number, process, moment) of each start, in the order of the file."""

    starts: Sequence[tuple[int, int, float]]

    @property
    def moments(self) -> dict[int, float]:
        """The moment of each job's first start, by its number."""
        first: dict[int, float] = {}
        for number, _, at in self.starts:
            first.setdefault(number, at)
        return first

    @property
    def doubles(self) -> list[int]:
        """The jobs that were started more than once."""
        return sorted(number for number, count in Counter(start[0] for start in self.starts).items() if count > 1)

    def seconds(self, until: float) -> float:
        """From the first start until a moment."""
        return max(1e-9, until - min(at for _, _, at in self.starts)) if self.starts else 1e-9


def count(path: Path) -> int:
    """Return how many starts there are so far, without reading them."""
    return path.stat().st_size // RECORD.size if path.exists() else 0


def read(path: Path) -> Account:
    """Read the whole ledger."""
    return Account(list(RECORD.iter_unpack(path.read_bytes())) if path.exists() else [])
