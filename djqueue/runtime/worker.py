"""One worker process: it claims, its slots run, it acks. The main thread does the bookkeeping and nothing else.

    ┌► orders ─► collect what ended ─► one exchange with the database: acks, claim ─► force what is overdue ─► wait ┐
    └──────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
       Orders     Settling              Exchange · Appetite · Claimer · Intake         Forcing                  Waiting

Invariants: the main loop beats in the slot table each time round; bookkeeping never uses a handler's connection.
"""

import time

from djqueue import signals
from djqueue.api import registry
from djqueue.runtime import chaos, handler_db
from djqueue.runtime.appetite import Appetite
from djqueue.runtime.async_loop import AsyncLoop
from djqueue.runtime.circuits import Circuits
from djqueue.runtime.claimer import Claimer
from djqueue.runtime.endings import Endings
from djqueue.runtime.exchange import Exchange
from djqueue.runtime.forcing import Forcing
from djqueue.runtime.holdings import Holdings
from djqueue.runtime.intake import Intake
from djqueue.runtime.isolation import Isolation
from djqueue.runtime.listener import SETTINGS_CHANGED, Listener
from djqueue.runtime.orders import Orders
from djqueue.runtime.plan import Plan
from djqueue.runtime.registration import Registration
from djqueue.runtime.settling import Settling
from djqueue.runtime.slot_table import BEAT, KIND, LOOKED, STATUS, Kind, Page, PageStatus, now_ns
from djqueue.runtime.slots import Slots
from djqueue.runtime.suspects import Suspects
from djqueue.runtime.tally import Tally
from djqueue.runtime.trouble import TROUBLE, Trouble
from djqueue.runtime.usage import Usage
from djqueue.runtime.waiting import Waiting
from djqueue.runtime.zygote import Zygote
from djqueue.store import db
from djqueue.store.claim import Claimed

HOARD_SECONDS = 1.0
"""A job that has waited so long in this worker is given back, for another to start."""


class Worker:
    """The main loop of a worker process."""

    def __init__(self, plan: Plan, page: Page, zygote: Zygote | None = None) -> None:
        options, alias, worker_id = plan.options, plan.alias, page.worker_id
        for_suspects = page.get(KIND) == Kind.SUSPECTS
        self._plan = plan
        self._page = page
        self._id = worker_id
        self._waited_since = 0.0
        self._orders = Orders(plan, page)
        self._waiting = Waiting(Listener(alias if options.listen_alias is None else options.listen_alias))
        self._holdings = Holdings(page)
        loop = AsyncLoop()
        isolation = Isolation(options, zygote, lambda: self._orders.stopping)
        executor = chaos.executor(plan, loop, lambda: self._orders.stopping, isolation=isolation)
        self._slots = Slots(1 if for_suspects else plan.threads, executor, self._waiting.poke)
        self._forcing = Forcing(self._slots, loop, options.grace_seconds)
        self._tally = Tally(alias)
        self._usage = Usage(options)
        endings = Endings(page, self._holdings, self._slots, self._tally, self._usage)
        self._settling = Settling(alias, options, worker_id, endings.answered)
        self._circuits = Circuits(alias, options.circuits, self._settling.give_back)
        self._claimer = Claimer(plan, worker_id)
        self._appetite = Appetite(plan, page, self._holdings, self._slots, self._settling)
        self._suspects = Suspects(plan, self._claimer, self._appetite, self._orders) if for_suspects else None
        self._exchange = Exchange(
            alias,
            self._claimer,
            self._settling,
            durable_acks=options.durable_acks,
            once_sent=self._slots.hand_over,
        )
        self._intake = Intake(alias, self._holdings, self._slots, self._claimer, self._circuits)
        self._registration = Registration(plan, worker_id, self._slots.count)
        self._trouble = Trouble(plan, worker_id, self._holdings, self._settling, self._registration, self._pause)

    @property
    def is_recycling(self) -> bool:
        """Tell whether it ends because it has done its share of jobs."""
        return self._orders.is_recycling

    def stop(self) -> None:
        """Stop claiming and end when what runs has ended. Safe to call from a signal handler."""
        self._orders.stopping = True
        self._waiting.poke(force=True)

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
                self._trouble.is_over()
            except TROUBLE as error:
                self._survive(error)
        self._end()

    # ------------------------------------------------------------------ the turn

    def _turn(self) -> None:
        self._take_orders()
        self._collect()
        busy = self._write_and_claim()
        self._forcing.look()
        if not busy:
            self._hear(self._waiting.wait(self._has_something, self._wait_seconds))

    def _take_orders(self) -> None:
        self._orders.take()
        if self._orders.stopping or self._is_hoarding():
            self._settling.give_back(self._slots.take_back())
            self._waited_since = time.monotonic()

    def _is_hoarding(self) -> bool:
        """Tell whether jobs wait here for slots that are busy with long ones."""
        if not self._slots.count_waiting():
            self._waited_since = time.monotonic()
        return time.monotonic() - self._waited_since > HOARD_SECONDS

    def _obey_pauses(self) -> None:
        """Give back what waits here and may not start any more. Who is busy and has nothing waiting need not look."""
        stops = self._claimer.stops
        may_start = self._appetite.free_slots() or self._slots.count_waiting()
        if self._orders.stopping or not may_start or not stops.look():
            return
        self._settling.give_back(self._slots.take_back(lambda held: stops.stops(held.job)))

    def _collect(self) -> None:
        finished = self._slots.finished
        seconds, count = 0.0, 0
        while finished:
            held = finished.popleft()
            self._settling.add(held)
            if held.permit is not None:
                self._circuits.ended(held)
            seconds += max(0.0, held.ended - held.began) if held.began else 0.0
            count += 1
        if count:
            self._appetite.observe(seconds, count)
            self._waited_since = time.monotonic()

    def _write_and_claim(self) -> bool:
        """Write what has ended and claim what can be started; return whether there was anything to do."""
        self._obey_pauses()
        if self._settling.has_others:
            self._slots.hand_over()
            self._settling.write_others()
            self._claimer.look_again()
        if self._circuits.tick():
            self._look_again()
        limit = self._limit()
        if limit and self._claimer.is_stale():
            self._slots.hand_over()
            self._claimer.refresh()
        if limit and self._suspects:
            return self._exchange_suspects(self._suspects)
        if not limit and (self._orders.stopping or not self._appetite.has_room()):
            self._page.set(LOOKED, now_ns())  # who is fully busy, or ends, needs no jobs
        if not limit and not self._settling.acks:
            self._slots.hand_over()
            return False
        free = self._appetite.free_slots()
        jobs = self._exchange.ack_and_claim(limit, free)
        self._intake.take_up(jobs)
        if self._claimer.has_many_lanes and len(jobs) < limit:
            more = self._claimer.steps(limit - len(jobs), free)
            self._intake.take_up(more)
            jobs += more
        if len(jobs) < limit:
            self._slots.hand_over()  # the next exchange may be a while
        if limit:
            self._learn(jobs, limit)
        self._tally.flush_sometimes()
        self._usage.flush_sometimes()
        return True

    def _limit(self) -> int:
        if self._orders.stopping:
            return 0
        return self._appetite.limit_alone() if self._suspects else self._appetite.limit()

    def _exchange_suspects(self, suspects: Suspects) -> bool:
        if self._settling.acks:
            self._exchange.ack_and_claim(0, 0)
        jobs = suspects.claim()
        self._page.set(LOOKED, now_ns())
        self._intake.take_up(jobs)
        self._slots.hand_over()
        self._tally.flush_sometimes()
        self._usage.flush_sometimes()
        return bool(jobs)

    def _learn(self, jobs: list[Claimed], limit: int) -> None:
        self._page.set(LOOKED, now_ns())
        nothing_more = self._claimer.learn(jobs, limit)
        self._appetite.learn(len(jobs), nothing_more)
        if nothing_more:
            self._orders.stop_if_drained(self._holdings, self._claimer)
        if self._registration.learn(len(jobs) >= limit):
            self._appetite.look_now()

    # ------------------------------------------------------------------ wait, trouble

    def _has_something(self) -> bool:
        return bool(self._slots.finished) or self._is_finished()

    def _is_finished(self) -> bool:
        return self._orders.stopping and not len(self._holdings) and not self._slots.finished

    def _wait_seconds(self) -> float:
        until = min(1.0, self._plan.options.poll_seconds, self._circuits.seconds_to_next())
        if self._appetite.free_slots() and not self._orders.stopping:
            until = min(until, self._appetite.seconds_to_next_look())
        deadline = self._forcing.seconds_to_next()
        return max(0.0, until if deadline is None else min(until, deadline))

    def _hear(self, news: list[str]) -> None:
        if SETTINGS_CHANGED in news:
            self._claimer.settings_changed()
        if news:
            self._look_again()

    def _look_again(self) -> None:
        self._appetite.look_now()
        self._claimer.look_again()

    def _survive(self, error: BaseException) -> None:
        self._slots.hand_over()
        if self._trouble.survive(error):
            self._look_again()

    def _pause(self, seconds: float) -> None:
        """Pause, but beat and notice a stop."""
        self._page.set(BEAT, now_ns())
        self._waiting.pause(seconds)
        self._take_orders()

    # ------------------------------------------------------------------ the start and the end

    def _connect(self) -> None:
        """Connect and register, however long the database takes to be there."""
        while not self._orders.stopping:
            self._page.set(BEAT, now_ns())
            try:
                self._trouble.connect()
                return
            except TROUBLE as error:
                self._survive(error)

    def _end(self) -> None:
        signals.worker_stopping.send_robust(sender=type(self), worker_id=self._id)
        self._slots.stop()
        try:
            self._tally.flush()
            self._circuits.flush()
            self._registration.remove()
        except TROUBLE:
            pass  # the row is information only
        self._waiting.close()
        db.drop(self._plan.alias)
