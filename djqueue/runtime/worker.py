"""One worker process: it claims, its slots run, it acks. The main thread does the bookkeeping and nothing else.

    ┌► orders ─► collect what ended ─► one exchange with the database: acks, claim ─► force what is overdue ─► wait ┐
    └──────────────────────────────────────────────────────────────────────────────────────────────────────────────┘

Invariants: a job is in the slot table before it can start and until the database has answered about its end; the main
loop beats in the table each time round; bookkeeping never uses a handler's connection.
"""

import logging
import os
import random
import select
import time
from collections import deque
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from djqueue import __version__, signals
from djqueue.api import registry
from djqueue.compat import task_signals
from djqueue.policy.backoff import Backoff
from djqueue.policy.pace import Pace
from djqueue.runtime import draining, handler_db, tasks_signals
from djqueue.runtime.async_loop import AsyncLoop
from djqueue.runtime.claimer import Claimer
from djqueue.runtime.executor import Executor
from djqueue.runtime.held import Held
from djqueue.runtime.isolation import Isolation
from djqueue.runtime.listener import Listener
from djqueue.runtime.plan import Plan
from djqueue.runtime.settling import Settling
from djqueue.runtime.slot_table import (
    BEAT,
    DONE,
    KIND,
    ORDER_DRAIN,
    ORDERS,
    RECORDS,
    STATUS,
    Kind,
    Page,
    PageStatus,
    now_ns,
)
from djqueue.runtime.slots import Slots
from djqueue.runtime.tally import Tally
from djqueue.runtime.zygote import Zygote
from djqueue.states import FINISHED, State
from djqueue.store import claim, db, faults, finish, history, lease, recover, workers
from djqueue.store.claim import Claimed

log = logging.getLogger("djqueue")

BATCH = 500
"""Jobs per claim at the most."""

HOARD_SECONDS = 1.0
"""A job that has waited so long in this worker is given back, for another to start."""

SUSPECT_IDLE_SECONDS = 5.0

TROUBLE = (*faults.ERRORS, OSError)
"""What a loop survives."""


class Worker:
    """The main loop of a worker process."""

    def __init__(self, plan: Plan, page: Page, zygote: Zygote | None = None) -> None:
        self._plan = plan
        self._alias = plan.alias
        self._page = page
        self._id = page.worker_id
        self._is_for_suspects = page.get(KIND) == Kind.SUSPECTS
        self._stopping = False
        self.is_recycling = False
        self._hungry = True
        self._next_look = 0.0
        self._looks = 0
        self._dry_since = time.monotonic()
        self._full_since: float | None = None
        self._wants_news = True
        self._oldest_waiting = 0.0
        self._held: dict[UUID, Held] = {}
        self._free = deque(range(RECORDS))
        self._pace = Pace()
        self._backoff = Backoff(0.05, 5)
        self._poke_read, self._poke_write = os.pipe()
        os.set_blocking(self._poke_read, False)
        os.set_blocking(self._poke_write, False)
        self._is_waiting = False
        self._loop = AsyncLoop()
        isolation = Isolation(plan.options, zygote, lambda: self._stopping)
        executor = Executor(self._alias, plan.options, self._loop, lambda: self._stopping, isolation=isolation)
        self._slots = Slots(1 if self._is_for_suspects else plan.threads, executor, self._poke)
        self._claimer = Claimer(plan, self._id)
        self._settling = Settling(self._alias, plan.options, self._id, self._let_go)
        self._tally = Tally(self._alias)
        listen = plan.options.listen_alias
        self._listener = Listener(self._alias if listen is None else listen)
        self._started_jobs = 0

    def stop(self) -> None:
        """Stop claiming and end when what runs has ended. Safe to call from a signal handler."""
        self._stopping = True
        self._poke(force=True)

    def run(self) -> None:
        """Work until stopped, drained or recycled."""
        registry.load()
        handler_db.watch_new_connections()
        self._slots.start()
        self._connect()
        self._page.set(STATUS, PageStatus.RUNNING)
        signals.worker_started.send_robust(sender=type(self), worker_id=self._id)
        while not self._is_finished():
            self._page.set(BEAT, now_ns())
            try:
                self._turn()
                self._backoff.reset()
            except TROUBLE as error:
                self._trouble(error)
        self._end()

    def _turn(self) -> None:
        self._take_orders()
        self._collect()
        busy = self._exchange()
        self._force_overdue()
        if not busy:
            self._wait()

    # ------------------------------------------------------------------ the start and the end

    def _connect(self) -> None:
        """Connect and register, however long the database takes to be there."""
        while not self._stopping:
            self._page.set(BEAT, now_ns())
            try:
                db.adopt(self._alias, prepared=self._plan.options.prepared_statements)
                workers.register(self._alias, self._info())
                return
            except TROUBLE as error:
                self._trouble(error)

    def _info(self) -> workers.WorkerInfo:
        names = sorted(registry.names())
        return workers.WorkerInfo(
            id=self._id,
            supervisor_id=self._plan.supervisor_id,
            host=self._plan.host,
            pid=os.getpid(),
            version=self._plan.options.code_version or __version__,
            slots=self._slots.count,
            queues=list(self._plan.selection.weights) or ["*"],
            task_names=names,
            tasks_hash=str(hash(tuple(names))),
        )

    def _is_finished(self) -> bool:
        return self._stopping and not self._held and not self._slots.finished

    def _end(self) -> None:
        signals.worker_stopping.send_robust(sender=type(self), worker_id=self._id)
        self._slots.stop()
        try:
            self._tally.flush()
            workers.remove(self._alias, [self._id])
        except TROUBLE:
            pass  # the row is information only
        self._listener.close()
        db.drop(self._alias)

    # ------------------------------------------------------------------ the turn

    def _take_orders(self) -> None:
        if self._page.get(ORDERS) & ORDER_DRAIN and not self._stopping:
            log.info("draining worker=%s", self._id)
            self._stopping = True
        if self._plan.max_jobs and self._page.get(DONE) >= self._plan.max_jobs and not self._stopping:
            log.info("recycling after %d jobs worker=%s", self._page.get(DONE), self._id)
            self._stopping = self.is_recycling = True
        if self._stopping or self._is_hoarding():
            self._settling.give_back(self._slots.take_back())
            self._oldest_waiting = time.monotonic()

    def _is_hoarding(self) -> bool:
        """Tell whether jobs wait here for slots that are busy with long ones."""
        if self._slots.waiting.empty():
            self._oldest_waiting = time.monotonic()
        return time.monotonic() - self._oldest_waiting > HOARD_SECONDS

    def _collect(self) -> None:
        finished = self._slots.finished
        seconds, count = 0.0, 0
        while finished:
            held = finished.popleft()
            self._settling.add(held)
            seconds += max(0.0, held.ended - held.began) if held.began else 0.0
            count += 1
        if count:
            self._pace.observe(seconds, count)
            self._oldest_waiting = time.monotonic()

    def _exchange(self) -> bool:
        """Write what has ended and claim what can be started; return whether there was anything to do."""
        if self._settling.has_others:
            self._settling.write_others()
            self._claimer.look_again()
        limit = 0 if self._stopping else self._limit()
        if limit and self._claimer.is_stale():
            self._claimer.refresh()
        if limit and self._is_for_suspects:
            return self._exchange_suspects()
        if not limit and not self._settling.acks:
            return False
        jobs = self._ack_and_claim(limit)
        if self._claimer.has_many_lanes and len(jobs) < limit:
            jobs += self._claimer.steps(limit - len(jobs), self._free_slots())
        self._take_up(jobs)  # before anything else can fail: a claimed job must not be forgotten
        if limit:
            self._learn(jobs, limit)
        self._tally.flush_sometimes()
        return True

    def _limit(self) -> int:
        """Return how many jobs to claim now."""
        if not self._hungry and time.monotonic() < self._next_look:
            return 0
        capacity = min(BATCH, len(self._free), self._jobs_left())
        if self._is_for_suspects:
            return min(self._free_slots(), capacity)
        waiting = self._slots.waiting.qsize()
        running = len(self._held) - waiting - len(self._settling.acks)
        return self._pace.want(slots=self._slots.count, running=max(0, running), waiting=waiting, capacity=capacity)

    def _jobs_left(self) -> int:
        """Return how many more jobs this process may take up before it is recycled."""
        if not self._plan.max_jobs:
            return BATCH
        return max(0, self._plan.max_jobs - self._page.get(DONE) - len(self._held))

    def _free_slots(self) -> int:
        running = len(self._held) - len(self._settling.acks)
        return max(0, self._slots.count - running)

    def _ack_and_claim(self, limit: int) -> list[Claimed]:
        acks = self._settling.take_acks()
        overflow = False
        while True:
            try:
                return self._send(acks, limit, overflow)
            except faults.ERRORS as error:
                if faults.should_repeat(error):
                    continue
                if faults.is_missing_partition(error) and not overflow:
                    history.ensure_partitions(self._alias)
                    overflow = True
                    continue
                if acks and faults.is_about_content(self._alias, error):
                    self._ack_one_by_one()
                    return []
                raise

    def _send(self, acks: list[finish.Ack], limit: int, overflow: bool) -> list[Claimed]:
        """One transaction, one round trip: acks, then the next claim."""
        ack_cursor = claim_cursor = None
        with db.together(self._alias):
            if acks:
                ack_cursor = finish.start_ack(self._alias, acks, time.monotonic(), overflow=overflow)
            if limit:
                claim_cursor = self._claimer.start(limit, self._free_slots())
        if ack_cursor is not None:
            self._settling.acked(acks, finish.acked(ack_cursor))
        return claim.claimed(claim_cursor) if claim_cursor is not None else []

    def _ack_one_by_one(self) -> None:
        """One ack of a batch can't be stored: find it, so that it harms only itself."""
        for ack in self._settling.take_acks():
            try:
                done = finish.ack(self._alias, [ack], time.monotonic())
                self._settling.acked([ack], done)
            except faults.ERRORS as error:
                if not faults.is_about_content(self._alias, error):
                    raise
                self._settling.refuse(self._settling.acks[ack.id], error)

    def _learn(self, jobs: list[Claimed], limit: int) -> None:
        nothing_more = self._claimer.learn(jobs, limit)
        now = time.monotonic()
        if not nothing_more:
            self._hungry = True
            self._looks = 0
        else:
            self._hungry = False
            self._looks = 0 if jobs else self._looks + 1
            pause = min(self._plan.options.poll_seconds, 0.01 * 2 ** min(self._looks, 10))
            self._next_look = now + pause * random.uniform(0.8, 1.0)
            self._end_when_drained()
        self._say_whether_news_is_wanted(len(jobs) >= limit, now)

    def _end_when_drained(self) -> None:
        if (
            self._plan.drain
            and not self._held
            and draining.is_done(self._plan, self._claimer.names, self._claimer.paused)
        ):
            log.info("drained worker=%s", self._id)
            self._stopping = True

    def _say_whether_news_is_wanted(self, was_full: bool, now: float) -> None:
        """Wanted: not "asleep", but "may run dry"; cleared only after a second of full claims."""
        if not was_full:
            self._full_since = None
            if not self._wants_news:
                workers.wants_news(self._alias, self._id, True)
                self._wants_news = True
                self._hungry = True  # what was enqueued before this was written told nobody
        elif self._full_since is None:
            self._full_since = now
        elif now - self._full_since > 1 and self._wants_news:
            workers.wants_news(self._alias, self._id, False)
            self._wants_news = False

    def _exchange_suspects(self) -> bool:
        """Acks, then one suspect; a worker for suspects ends when there have been none for a while."""
        if self._settling.acks:
            self._ack_and_claim(0)
        request = self._claimer.request(1, 1)
        names = self._claimer.names
        if self._plan.selection.everything:
            names = self._plan.selection.names([*names, *claim.suspect_queues(self._alias)])
        jobs = claim.claim_suspect(self._alias, request, names)
        now = time.monotonic()
        if jobs:
            self._dry_since = now
        elif now - self._dry_since > (0 if self._plan.drain else SUSPECT_IDLE_SECONDS):
            self._stopping = True
        self._hungry = bool(jobs)
        self._next_look = now + 0.1
        self._take_up(jobs)
        return bool(jobs)

    def _take_up(self, jobs: Iterable[Claimed]) -> None:
        """Put claimed jobs into the table and then before the slots; those on their last attempt first."""
        known: list[Held] = []
        strangers: list[Claimed] = []
        for job in jobs:
            task = registry.get(job.task_name)
            if task is None:
                strangers.append(job)
                continue
            held = Held(job, task, self._page, self._free.popleft())
            self._page.hold(held.index, job.id, job.lease_token)
            self._held[job.id] = held
            known.append(held)
        known.sort(key=lambda held: held.job.attempts < held.job.max_attempts)
        for held in known:
            self._slots.waiting.put(held)
        if strangers:
            self._refuse_strangers(strangers)

    def _refuse_strangers(self, jobs: list[Claimed]) -> None:
        """Leave tasks that another live worker knows to it; set aside those that nobody knows. Uncharged."""
        known = workers.known_tasks(self._alias)
        others = [job for job in jobs if job.task_name in known]
        orphans = [job for job in jobs if job.task_name not in known]
        if others:
            self._claimer.strangers |= {job.task_name for job in others}
            lease.release(self._alias, [lease.Lease(job.id, job.lease_token) for job in others])
        if orphans:
            lease.set_aside(self._alias, [lease.Lease(job.id, job.lease_token) for job in orphans])
            for queue_name in {job.queue_name for job in orphans}:
                names = sorted({job.task_name for job in orphans if job.queue_name == queue_name})
                log.warning("jobs of unknown tasks are set aside queue=%s tasks=%s", queue_name, names)
                recover.set_aside_tasks(self._alias, queue_name, names)

    def _let_go(self, held: Held, state: str) -> None:
        """The database has answered about a job's end."""
        self._held.pop(held.job.id, None)
        self._page.let_go(held.index)
        self._free.append(held.index)
        if held.began:
            self._page.set(DONE, self._page.get(DONE) + 1)
            self._tally.add(held, state)
        if state in FINISHED:
            self._tell_finished(held, state)

    def _tell_finished(self, held: Held, state: str) -> None:
        if tasks_signals.wanted(task_signals.task_finished):
            self._slots.waiting.put(lambda: tasks_signals.send_finished(held.task, held.job.id))
        else:
            tasks_signals.log_state(held.job, "SUCCESSFUL" if state == State.SUCCEEDED else "FAILED")

    # ------------------------------------------------------------------ force, wait, trouble

    def _force_overdue(self) -> None:
        """Send an exception into handlers that are past their limit, or were asked to cancel."""
        now = now_ns()
        for held in self._slots.running():
            if held.deadline_ns and now > held.deadline_ns:
                self._force(held, "timeout")
            elif held.is_cancel_requested and self._cancel_by_force(held):
                self._force(held, "cancel")

    def _cancel_by_force(self, held: Held) -> bool:
        """A handler with a context gets the grace period to look at `cancelled`; others can't know."""
        if not held.task.takes_context:
            return True
        held.cancel_seen = held.cancel_seen or time.monotonic()
        return time.monotonic() - held.cancel_seen > self._plan.options.grace_seconds

    def _force(self, held: Held, why: str) -> None:
        if held.forced == why:
            return
        log.warning("%s, ending the handler job=%s task=%s", why, held.job.id, held.job.task_name)
        if held.is_async:
            held.forced = why
            self._loop.cancel(held)
        else:
            self._slots.force(held, why)

    def _wait(self) -> None:
        """Wait for a finished job, a notification, an order, or the time of the next look."""
        self._listener.open()
        self._is_waiting = True
        if self._slots.finished or (self._stopping and not self._held):
            self._is_waiting = False
            return
        wait_for: list[Any] = [self._poke_read]
        listening = self._listener.fileno()
        if listening is not None:
            wait_for.append(listening)
        readable, _, _ = select.select(wait_for, [], [], self._wait_seconds())
        self._is_waiting = False
        if self._poke_read in readable:
            _empty(self._poke_read)
        if listening in readable and self._listener.heard():
            self._hungry = True
            self._looks = 0
            self._claimer.look_again()

    def _wait_seconds(self) -> float:
        now = time.monotonic()
        until = self._plan.options.poll_seconds
        if self._free_slots() and not self._stopping:
            until = min(until, self._next_look - now)
        deadlines = [held.deadline_ns for held in self._slots.running() if held.deadline_ns and not held.forced]
        if deadlines:
            until = min(until, (min(deadlines) - now_ns()) / 1e9)
        return max(0.0, min(until, 1.0))

    def _poke(self, force: bool = False) -> None:
        """Wake the main thread, if it waits. Called by slot threads and signal handlers."""
        if self._is_waiting or force:
            self._is_waiting = False
            try:
                os.write(self._poke_write, b"x")
            except BlockingIOError:
                pass

    def _trouble(self, error: BaseException) -> None:
        """Survive what databases do: wait a little, connect again, ask what became of unanswered statements."""
        pause = self._backoff.next(random.Random())
        if self._backoff.failures in (1, 2) or self._backoff.failures % 20 == 0:
            log.warning("database trouble worker=%s error=%s retry_in=%.1fs", self._id, faults.words(error), pause)
        lost = faults.connection_is_lost(self._alias, error)
        if lost:
            db.drop(self._alias)
        self._sleep(pause)
        self._reconnect()

    def _reconnect(self) -> None:
        try:
            db.adopt(self._alias, prepared=self._plan.options.prepared_statements)
            self._settling.after_lost_answer()
            held = {(h.job.id, h.job.lease_token) for h in self._held.values()}
            unheard = [row for row in lease.owned(self._alias, self._id) if tuple(row) not in held]
            if unheard:  # claimed, but the answer never came, or something failed before they were taken up
                lease.release(self._alias, unheard)
            workers.register(self._alias, self._info())
            self._hungry = True
            self._claimer.look_again()
        except TROUBLE as error:
            log.debug("not yet connected again worker=%s error=%s", self._id, faults.words(error))
            db.drop(self._alias)

    def _sleep(self, seconds: float) -> None:
        """Pause, but beat and notice a stop."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._page.set(BEAT, now_ns())
            select.select([self._poke_read], [], [], min(left, 0.5))
            _empty(self._poke_read)
            self._take_orders()


def _empty(pipe: int) -> None:
    try:
        while os.read(pipe, 4096):
            pass
    except BlockingIOError:
        pass
