"""The queue in memory: what the store's statements do to jobs, in plain Python, with time passed in.

It is the reference that the real store is compared with, step by step (`tests/model`), and what the lease simulation
runs on. It knows one queue, no SQL, no clock and no concurrency; every method is one statement of the store.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

READY, SCHEDULED, PARKED, LEASED = "ready", "scheduled", "parked", "leased"
SUCCEEDED, CANCELLED, DEAD = "succeeded", "cancelled", "dead"


class Lease(NamedTuple):
    """A job in somebody's hands; the token tells an old holder from the present one."""

    id: int
    token: int


@dataclass(slots=True)
class Job:
    """A job: in `live` while unfinished, else in `history` or `dead`."""

    id: int
    seq: int
    run_at: float
    priority: int = 0
    max_attempts: int = 8
    dedupe_key: str | None = None
    timeout_seconds: float | None = None
    ordering_key: str | None = None
    blocks: bool = False
    state: str = READY
    token: int = 0
    attempts: int = 0
    interruptions: int = 0
    runs: int = 1
    suspect: bool = False
    cancel_asked: bool = False
    lease_until: float = 0
    started_at: float | None = None

    @property
    def rank(self) -> tuple[int, float, int]:
        """The order of claims: higher priority first, then by due time, then as enqueued."""
        return (-self.priority, self.run_at, self.seq)


@dataclass(slots=True)
class ModelQueue:
    """Live jobs, and the ends of all others."""

    live: dict[int, Job] = field(default_factory=dict)
    history: dict[int, Job] = field(default_factory=dict)
    dead: dict[int, Job] = field(default_factory=dict)
    blocked: dict[str, set[int]] = field(default_factory=dict)
    """The dead heads that block an ordering key."""
    _last_id: int = 0

    def enqueue(
        self,
        now: float,
        *,
        delay: float = 0,
        priority: int = 0,
        dedupe_key: str | None = None,
        max_attempts: int = 8,
        timeout_seconds: float | None = None,
        ordering_key: str | None = None,
        blocks: bool = False,
    ) -> tuple[int, bool]:
        """Return the id of the new job and True, or the id of the unfinished job that holds the key and False."""
        holder = self._holder(dedupe_key)
        if holder is not None:
            return holder.id, False
        self._last_id += 1
        job = Job(self._last_id, self._last_id, now + delay, priority, max_attempts, dedupe_key, timeout_seconds)
        job.ordering_key, job.blocks = ordering_key, blocks
        job.state = PARKED if self._is_held_up(ordering_key) else SCHEDULED if delay > 0 else READY
        self.live[job.id] = job
        return self._last_id, True

    def claim(self, now: float, limit: int, free: int, lease_seconds: float) -> list[Lease]:
        """Lease the first ready jobs; those on their last attempt only as far as `free` slots go."""
        found = sorted((job for job in self._in(READY) if not job.suspect), key=lambda job: job.rank)[:limit]
        taken: list[Job] = []
        for job in found:
            if job.attempts + 1 >= job.max_attempts:
                if free <= 0:
                    continue
                free -= 1
            taken.append(job)
        return [self._lease(job, now, lease_seconds) for job in taken]

    def claim_suspect(self, now: float, lease_seconds: float) -> list[Lease]:
        """Lease the suspect that has been due for longest."""
        found = sorted((job for job in self._in(READY) if job.suspect), key=lambda job: (job.run_at, job.seq))
        return [self._lease(job, now, lease_seconds) for job in found[:1]]

    def heartbeat(self, now: float, leases: Iterable[Lease], lease_seconds: float, began_ago: float | None) -> set[int]:
        """Extend leases; return those that are lost."""
        lost = set()
        for lease in leases:
            job = self._held(lease)
            if job is None:
                lost.add(lease.id)
                continue
            job.lease_until = now + lease_seconds
            if job.started_at is None and began_ago is not None:
                job.started_at = now - began_ago
        return lost

    def ack(self, now: float, lease: Lease) -> bool:
        """End a job well; let out the next of its ordering key, where that has no head (any more)."""
        done = self._end(self._held(lease), SUCCEEDED)
        job = self.live.get(lease.id) or self.history.get(lease.id) or self.dead.get(lease.id)
        self._let_out(now, job.ordering_key if job else None)
        return done

    def let_out(self, now: float) -> int:
        """Let out the next jobs of all ordering keys that have no head: the tick after every other end."""
        keys = {job.ordering_key for job in self._in(PARKED)}
        return sum(self._let_out(now, key) for key in keys)

    def fail(
        self, now: float, lease: Lease, *, delay: float = 0, final: bool = False, crash: bool = False
    ) -> str | None:
        """End an attempt badly; return what the job became, None where the lease was lost."""
        job = self._held(lease)
        if job is None:
            return None
        return self._failed(job, now, delay, final, crash)

    def release(self, lease: Lease, *, interrupted: bool = False) -> bool:
        """Give a job back, its attempt not used up; one that was asked to cancel ends."""
        job = self._held(lease)
        if job is None or job.cancel_asked:
            return self._end(job, CANCELLED)
        job.interruptions += interrupted
        self._uncharge(job, READY)
        return True

    def snooze(self, now: float, lease: Lease, delay: float) -> bool:
        """Run a job again later, its attempt not used up."""
        job = self._held(lease)
        if job is None or job.cancel_asked:
            return False
        job.run_at, job.suspect = now + delay, False
        self._uncharge(job, SCHEDULED if delay > 0 else READY)
        return True

    def promote(self, now: float) -> int:
        """Make due jobs ready."""
        due = [job for job in self._in(SCHEDULED) if job.run_at <= now]
        for job in due:
            job.state = READY
        return len(due)

    def reap(self, now: float, grace_seconds: float) -> dict[int, str]:
        """End the leases whose time is over: the attempt is charged, what ran becomes a suspect."""
        late = [job for job in self._in(LEASED) if self._is_late(job, now, grace_seconds)]
        return {job.id: self._failed(job, now, 0, False, crash=True) for job in late}

    def cancel(self, ids: Sequence[int]) -> dict[int, str]:
        """End what waits, ask what runs."""
        answers = {}
        for id_ in ids:
            job = self.live.get(id_)
            if job is not None and job.state == LEASED:
                job.cancel_asked = True
            answers[id_] = "gone" if job is None else "asked" if job.cancel_asked else "cancelled"
            if answers[id_] == "cancelled":
                self._end(job, CANCELLED)
        return answers

    def requeue(self, now: float, id_: int) -> str:
        """Make a dead job a live one with all its attempts, unless somebody holds its key."""
        job = self.dead.get(id_)
        if job is None:
            return "gone"
        if self._holder(job.dedupe_key) is not None:
            return "refused"
        del self.dead[id_]
        self.live[id_] = replace(
            job,
            state=READY if job.ordering_key is None else PARKED,
            run_at=now,
            token=job.token + 1,
            attempts=0,
            interruptions=0,
            suspect=False,
            runs=job.runs + 1,
        )
        self._unblock(job)
        return "requeued"

    def discard(self, id_: int) -> bool:
        """End a dead job for good; what it blocked may go on."""
        job = self.dead.pop(id_, None)
        if job is None:
            return False
        self._unblock(job)
        job.state = CANCELLED
        self.history[id_] = job
        return True

    def holds(self, lease: Lease) -> bool:
        """Tell whether a lease goes on."""
        return self._held(lease) is not None

    def _in(self, state: str) -> list[Job]:
        return [job for job in self.live.values() if job.state == state]

    def _is_held_up(self, key: str | None) -> bool:
        """Whether a job with this key comes after another one."""
        return key is not None and (key in self.blocked or any(job.ordering_key == key for job in self.live.values()))

    def _let_out(self, now: float, key: str | None) -> bool:
        mine = [job for job in self.live.values() if key is not None and job.ordering_key == key]
        if not mine or key in self.blocked or any(job.state != PARKED for job in mine):
            return False
        first = min(mine, key=lambda job: job.seq)
        first.state = SCHEDULED if first.run_at > now else READY
        return True

    def _unblock(self, job: Job) -> None:
        blocking = self.blocked.get(job.ordering_key or "", set())
        blocking.discard(job.id)
        if not blocking:
            self.blocked.pop(job.ordering_key or "", None)

    def _holder(self, key: str | None) -> Job | None:
        return next((job for job in self.live.values() if key is not None and job.dedupe_key == key), None)

    def _held(self, lease: Lease) -> Job | None:
        job = self.live.get(lease.id)
        return job if job is not None and job.token == lease.token else None

    def _lease(self, job: Job, now: float, lease_seconds: float) -> Lease:
        job.state, job.attempts, job.token = LEASED, job.attempts + 1, job.token + 1
        job.lease_until, job.started_at = now + lease_seconds, None
        return Lease(job.id, job.token)

    def _is_late(self, job: Job, now: float, grace: float) -> bool:
        if job.lease_until < now:
            return True
        limits = job.started_at is not None and job.timeout_seconds is not None
        return limits and job.started_at + job.timeout_seconds + grace < now  # type: ignore[operator]

    def _failed(self, job: Job, now: float, delay: float, final: bool, crash: bool) -> str:
        if job.cancel_asked:
            self._end(job, CANCELLED)
        elif final or job.attempts >= job.max_attempts:
            self._end(job, DEAD)
            if job.blocks and job.ordering_key is not None:
                self.blocked.setdefault(job.ordering_key, set()).add(job.id)
        else:
            job.run_at, job.suspect, job.token = now + delay, crash, job.token + 1
            job.state = SCHEDULED if delay > 0 else READY
        return job.state

    def _uncharge(self, job: Job, state: str) -> None:
        job.state, job.attempts, job.token, job.started_at = state, job.attempts - 1, job.token + 1, None

    def _end(self, job: Job | None, state: str) -> bool:
        if job is None:
            return False
        del self.live[job.id]
        job.state = state
        (self.dead if state == DEAD else self.history)[job.id] = job
        return True
