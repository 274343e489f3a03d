"""`runworker --chaos 0.05`: do on purpose what happens to every queue on a bad day, to see who can stand it.

    a share of the jobs ─┬─ one half: the handler runs, and runs again with the same token
                         └─ the other: the handler runs, then the process is gone, before the ack

Invariant: no job dies of it. One on its last attempt is left alone, and no process is killed while it holds such a one.
"""

import logging
import os
import random
import signal
import threading
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from djqueue.runtime.async_loop import AsyncLoop
from djqueue.runtime.executor import Executor, Guard, Isolating
from djqueue.runtime.held import Held
from djqueue.runtime.outcome import Committed, Outcome, Succeeded
from djqueue.runtime.plan import Plan

log = logging.getLogger("djqueue")


class Fate(Enum):
    """What becomes of a job."""

    NONE = auto()
    TWICE = auto()
    KILL = auto()


def executor(
    plan: Plan,
    loop: AsyncLoop,
    is_stopping: Callable[[], bool],
    guard: Guard | None = None,
    isolation: Isolating | None = None,
) -> Executor:
    """Return what runs this plan's jobs, in good days or in bad ones."""
    if plan.chaos:
        return ChaoticExecutor(plan, loop, is_stopping, guard, isolation)
    return Executor(plan.alias, plan.options, loop, is_stopping, guard, isolation)


class ChaoticExecutor(Executor):
    """Runs a share of the jobs twice, and kills its process after some."""

    def __init__(
        self,
        plan: Plan,
        loop: AsyncLoop,
        is_stopping: Callable[[], bool],
        guard: Guard | None,
        isolation: Isolating | None,
    ) -> None:
        super().__init__(plan.alias, plan.options, loop, is_stopping, guard, isolation)
        self._share = plan.chaos
        self._rng = random.Random()
        self._fates: dict[Held, Fate] = {}
        self._spared: list[Held] = []
        """Jobs on their last attempt that this process has started, until their end is written."""
        self._lock = threading.Lock()

    def perform(self, held: Held) -> Outcome:
        """Run the job, once or twice."""
        fate = self._draw(held)
        try:
            outcome = super().perform(held)
            if fate is not Fate.TWICE or not isinstance(outcome, Succeeded | Committed):
                return outcome
            log.warning("chaos, delivered twice job=%s task=%s", held.job.id, held.job.task_name)
            second = super().perform(held)
            return outcome if isinstance(outcome, Committed) else second
        finally:
            self._fates.pop(held, None)

    def _result_of(self, held: Held, call: Callable[[], Any]) -> str:
        result = super()._result_of(held, call)
        if self._fates.get(held) is Fate.KILL:
            self._kill(held)
        return result

    def _draw(self, held: Held) -> Fate:
        with self._lock:
            if _is_last(held):
                self._spared = [*filter(_is_in_hand, self._spared), held]
                return Fate.NONE
            roll = self._rng.random()
            fate = Fate.NONE if roll >= self._share else Fate.TWICE if roll < self._share / 2 else Fate.KILL
            self._fates[held] = fate
            return fate

    def _kill(self, held: Held) -> None:
        with self._lock:  # nobody on a last attempt may start meanwhile
            if any(map(_is_in_hand, self._spared)):
                return
            log.warning("chaos, killing the process after the effect job=%s task=%s", held.job.id, held.job.task_name)
            os.kill(os.getpid(), signal.SIGKILL)


def _is_last(held: Held) -> bool:
    return held.job.attempts >= held.job.max_attempts


def _is_in_hand(held: Held) -> bool:
    record = held.page.read(held.index)
    return record is not None and (record.id, record.lease_token) == (held.job.id, held.job.lease_token)
