"""What every process of a supervisor can see without asking: a table in shared memory.

    head  │ stop · suspects wait · the keeper's beat
    page  │ status · pid · id · beat · … │ record │ record │ …      one page per worker process
                                          └ id · token · state · started · deadline · marks

Each word is an aligned 64-bit integer with one writer, so no lock can be left held by a process that dies. A worker
writes its records; the keeper writes the marks; the parent writes status after a death. A mark names the token that it
means, so that it can never hit a later job in the same record. Moments are nanoseconds of CLOCK_MONOTONIC, which all
processes of a machine share.
"""

import mmap
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from multiprocessing.reduction import DupFd
from typing import Any
from uuid import UUID

RECORDS = 2_048
"""Jobs that one worker can hold."""

_HEAD = 16
_PAGE_HEAD = 24
_RECORD = 10
_PAGE = _PAGE_HEAD + RECORDS * _RECORD
_MASK = (1 << 64) - 1
_EMPTY_PAGE = memoryview(bytes(8 * _PAGE)).cast("q")

STOP_KEEPER, SUSPECTS_WAIT, KEEPER_BEAT = range(3)
STATUS, PID, ID_HIGH, ID_LOW, BEAT, PROGRESS, ORDERS, EXIT_CODE, WHY, KIND, DONE, REPLACE, ENDED_AT = range(13)
STOPPING, ZYGOTE, RESERVATION, LOOKED = range(13, 17)
R_SEQUENCE, R_HIGH, R_LOW, R_TOKEN, R_STATE, R_STARTED, R_DEADLINE, R_REVOKED, R_LOST, R_CANCEL = range(10)


class PageStatus(IntEnum):
    """Where a page stands."""

    FREE = 0
    STARTING = 1
    RUNNING = 2
    ENDED = 3
    """The process is gone; the keeper has yet to settle what it held."""


class JobState(IntEnum):
    """What a worker does with a job that it holds."""

    NONE = 0
    WAITING = 1
    STARTED = 2
    """Its handler runs."""
    ENDED = 3
    """Its handler has returned; what became of it is not in the database yet. No time limit holds any more."""


class Why(IntEnum):
    """Why a worker process was ended."""

    DIED = 0
    STOPPED = 1
    """A graceful stop came to its end: what still ran is given back, uncharged."""
    TIMEOUT = 2
    """A job ran past its hard time limit."""


class Kind(IntEnum):
    """What a page's worker is for."""

    WORKER = 0
    SUSPECTS = 1
    RESERVED = 2
    """The slots that are reserved for one queue: the one at this place in the plan's `reserved`."""


ORDER_DRAIN = 1
"""Stop claiming, give back what waits, end when what runs has ended."""


def now_ns() -> int:
    """Return the moment on the clock of the table."""
    return time.monotonic_ns()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A copy of one record."""

    index: int
    id: UUID
    lease_token: int
    state: JobState
    started: int
    deadline: int
    """0: no hard limit."""
    revoked: bool

    @property
    def has_started(self) -> bool:
        """Tell whether its handler was begun, whether or not it has returned."""
        return self.state in (JobState.STARTED, JobState.ENDED)

    def is_overdue(self, now: int, slack: int = 0) -> bool:
        """Tell whether its handler has run past its hard limit by more than `slack` nanoseconds."""
        return self.state is JobState.STARTED and 0 < self.deadline < now - slack


class Page:
    """One worker's part of the table."""

    __slots__ = ("_at", "_words", "index")

    def __init__(self, words: "memoryview[int]", index: int) -> None:
        self._words = words
        self._at = _HEAD + index * _PAGE
        self.index = index

    def get(self, word: int) -> int:
        """Return one word of the page's head."""
        return self._words[self._at + word]

    def set(self, word: int, value: int) -> None:
        """Write one word of the page's head."""
        self._words[self._at + word] = value

    @property
    def status(self) -> PageStatus:
        """Where the page stands."""
        return PageStatus(self.get(STATUS))

    @property
    def worker_id(self) -> str:
        """The identity of the process that the page belongs to; random at each start."""
        return str(UUID(int=(self.get(ID_HIGH) & _MASK) << 64 | self.get(ID_LOW) & _MASK))

    def assign(self, worker_id: UUID, kind: Kind) -> None:
        """Give the page to a process that is about to start.

        Nothing of the last one is left, not even sequence numbers: one that died while it wrote left an odd one.
        The page is free, so that nobody reads it meanwhile; its status is written last.
        """
        self._words[self._at : self._at + _PAGE] = _EMPTY_PAGE
        self.set(ID_HIGH, _signed(worker_id.int >> 64))
        self.set(ID_LOW, _signed(worker_id.int & _MASK))
        self.set(KIND, kind)
        self.set(BEAT, now_ns())
        self.set(PROGRESS, now_ns())
        self.set(LOOKED, now_ns())
        self.set(STATUS, PageStatus.STARTING)

    def hold(self, index: int, id_: UUID, token: int) -> None:
        """Write that the job is claimed and waits."""
        at, words = self._record(index), self._words
        words[at + R_SEQUENCE] += 1
        words[at + R_HIGH] = _signed(id_.int >> 64)
        words[at + R_LOW] = _signed(id_.int & _MASK)
        words[at + R_TOKEN] = token
        words[at + R_STARTED] = 0
        words[at + R_DEADLINE] = 0
        words[at + R_STATE] = 1
        words[at + R_SEQUENCE] += 1

    def start(self, index: int, started: int, deadline: int) -> None:
        """Write that the job's handler runs, until `deadline` at the latest (0: no limit)."""
        at, words = self._record(index), self._words
        words[at + R_STARTED] = started
        words[at + R_DEADLINE] = deadline
        words[at + R_STATE] = 2
        words[self._at + PROGRESS] = started

    def extend(self, index: int, deadline: int) -> None:
        """Write a later deadline of a running job."""
        self._words[self._record(index) + R_DEADLINE] = deadline

    def deadline(self, index: int) -> int:
        """Return the deadline of a running job, which its own process may have moved."""
        return self._words[self._record(index) + R_DEADLINE]

    def end(self, index: int) -> None:
        """Write that the job's handler has returned."""
        self._words[self._record(index) + R_STATE] = JobState.ENDED

    def let_go(self, index: int) -> None:
        """Write that the worker holds the job no more."""
        self._words[self._record(index) + R_STATE] = 0

    def mark(self, record: Record, word: int) -> None:
        """Write a mark (R_REVOKED, R_LOST or R_CANCEL) for the job that this copy of a record shows."""
        self._words[self._record(record.index) + word] = record.lease_token

    def is_marked(self, index: int, word: int, token: int) -> bool:
        """Tell whether the record has a mark for this very lease."""
        return self._words[self._record(index) + word] == token

    def read(self, index: int) -> Record | None:
        """Return a copy of one record, or None where nothing is held or it is being written."""
        at = self._record(index)
        words = self._words[at : at + _RECORD].tolist()
        if not words[R_STATE] or words[R_SEQUENCE] % 2 or words[R_SEQUENCE] != self._words[at + R_SEQUENCE]:
            return None
        return Record(
            index=index,
            id=UUID(int=(words[R_HIGH] & _MASK) << 64 | words[R_LOW] & _MASK),
            lease_token=words[R_TOKEN],
            state=JobState(words[R_STATE]),
            started=words[R_STARTED],
            deadline=words[R_DEADLINE],
            revoked=words[R_REVOKED] == words[R_TOKEN],
        )

    def records(self) -> list[Record]:
        """Return copies of all records in use."""
        first = self._at + _PAGE_HEAD
        states: Sequence[int] = self._words[first + R_STATE : first + RECORDS * _RECORD : _RECORD].tolist()
        found = (self.read(index) for index, state in enumerate(states) if state)
        return [record for record in found if record is not None]

    def _record(self, index: int) -> int:
        return self._at + _PAGE_HEAD + index * _RECORD


class SlotTable:
    """The whole table. Made by the parent; forked processes inherit it, others get its open file when it is sent to
    them (it is picklable then). The file has no name from the start, so none is left by a kill -9."""

    def __init__(self, memory: mmap.mmap, pages: int, handle: int = -1) -> None:
        self._handle = handle
        self.count = pages
        self._words: memoryview[int] = memoryview(memory).cast("q")
        self.pages = [Page(self._words, index) for index in range(pages)]

    @classmethod
    def inherited(cls, pages: int) -> "SlotTable":
        """Make a new table for processes that will be forked."""
        return cls(mmap.mmap(-1, _size(pages)), pages)

    @classmethod
    def in_file(cls, pages: int) -> "SlotTable":
        """Make a new table that other processes can be sent: in shared memory, or where there is no such file system
        in the temporary folder."""
        folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        handle, path = tempfile.mkstemp(prefix="djqueue-", dir=folder)
        os.unlink(path)
        os.truncate(handle, _size(pages))
        return cls.opened(handle, pages)

    @classmethod
    def opened(cls, handle: int, pages: int) -> "SlotTable":
        """Open a table that this or another process has made."""
        return cls(mmap.mmap(handle, _size(pages)), pages, handle)

    @classmethod
    def received(cls, sent: Any, pages: int) -> "SlotTable":
        """Open a table that was sent here."""
        return cls.opened(sent.detach(), pages)

    def __reduce__(self) -> tuple[object, ...]:
        if self._handle < 0:
            raise TypeError("an inherited slot table can't be sent to another process; make it with in_file()")
        return SlotTable.received, (DupFd(self._handle), self.count)

    def get(self, word: int) -> int:
        """Return one word of the table's head."""
        return self._words[word]

    def set(self, word: int, value: int) -> None:
        """Write one word of the table's head."""
        self._words[word] = value

    def live(self) -> Iterator[Page]:
        """Iterate over the pages whose processes run or are about to."""
        return (page for page in self.pages if page.status in (PageStatus.STARTING, PageStatus.RUNNING))

    def ended(self) -> list[Page]:
        """Return the pages whose processes are gone and whose jobs are not settled."""
        return [page for page in self.pages if page.status is PageStatus.ENDED]

    def free_page(self) -> Page | None:
        """Return a page for a new process."""
        return next((page for page in self.pages if page.status is PageStatus.FREE), None)


def _size(pages: int) -> int:
    return 8 * (_HEAD + pages * _PAGE)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
