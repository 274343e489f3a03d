"""What a supervisor is asked to do: the command line and the settings, resolved once and passed to every process."""

import socket
from dataclasses import dataclass, field, replace
from uuid import UUID, uuid4

from djqueue.conf import Options
from djqueue.policy.fair import Pool
from djqueue.policy.weights import QueueSelection


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How this supervisor works. Picklable, so that it reaches processes that were not forked."""

    backend: str
    """Alias of the task backend."""
    options: Options
    selection: QueueSelection
    """Which queues, and their weights."""
    known_queues: tuple[str, ...]
    """Queues that the settings name."""
    processes: int = 1
    threads: int = 8
    """Slots per process."""
    drain: str = ""
    """`""`: run until stopped. `"due"`: end when no job is ready, leased or parked; `"all"`: nor scheduled."""
    max_jobs: int = 0
    """A worker is replaced after so many jobs; 0: never."""
    max_rss_mb: int = 0
    """A worker is replaced when it has more than so many MB in memory, and has done a job; 0: never."""
    chaos: float = 0
    """Share of the jobs that are delivered twice, or lose their process after their effect; see `chaos`."""
    liveness_file: str = ""
    """A file that the keeper touches every second while all workers are able to work; "": none."""
    pool: Pool | None = None
    """The pool of workers that this one belongs to; None: it serves all tenants."""
    reserved: tuple[tuple[str, int], ...] = ()
    """Queues that have slots of their own, and how many: each in a worker process beside the others."""
    cron: bool = True
    reaper: bool = True
    supervisor_id: str = field(default_factory=lambda: str(uuid4()))
    host: str = field(default_factory=socket.gethostname)

    @property
    def alias(self) -> str:
        """The alias of the database."""
        return self.options.database

    def of_reservation(self, place: int) -> "Plan":
        """Return the plan of the worker with the slots that are reserved for one queue."""
        name, slots = self.reserved[place]
        return replace(self, threads=slots, selection=QueueSelection(weights={name: 1}))


def new_worker_id() -> UUID:
    """Return a random identity: never a host name or a process id, which come again."""
    return uuid4()
