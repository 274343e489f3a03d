"""The leader's bookkeeping of deaths: count them in their groups, and tell the project.

    djqueue_death ──fold──► groups ──► job_died for each, deaths_digest for each fingerprint once in `digest_seconds`

Invariant: receivers run in a thread of their own, with their own connections: whatever they do or however long they
take, deaths are counted and the leader leads.
"""

import logging
import queue
import threading
from collections.abc import Callable, Sequence

from django.db import connections

from djqueue import signals
from djqueue.conf import Options
from djqueue.policy.causes import Death, Group
from djqueue.runtime.leader import LeaderDuty
from djqueue.store import deaths

log = logging.getLogger("djqueue")

IDLE_SECONDS = 1.0
MOST_WAITING = 1_000
"""Batches that receivers may be behind."""

Tell = Callable[[Callable[[], None]], None]


class DeathsDuty:
    """Counts deaths and tells of them."""

    name = "deaths"

    def __init__(self, alias: str, options: Options, leader: LeaderDuty, tell: Tell | None = None) -> None:
        self._alias = alias
        self._options = options
        self._leader = leader
        self._tell = tell or Teller().tell

    def tick(self) -> float:
        """Count a batch; at once again while batches are full."""
        if not self._leader.leads:
            return IDLE_SECONDS
        count = count_and_tell(self._alias, self._options, self._tell)
        return 0.0 if count >= deaths.BATCH else IDLE_SECONDS


class Teller:
    """Calls receivers in a thread of its own, one batch after another."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[Callable[[], None]] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None

    def tell(self, call: Callable[[], None]) -> None:
        """Let it be called soon; drop it, with a log line, where receivers are too far behind."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="djqueue-teller", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(call)
        except queue.Full:
            log.error("receivers of job_died or deaths_digest are too slow, some are not told")

    def _run(self) -> None:
        while True:
            self._waiting.get()()
            connections.close_all()


def count_and_tell(alias: str, options: Options, tell: Tell) -> int:
    """Count a batch of deaths in their groups and tell of them; return how many there were."""
    found = deaths.fold(alias)
    if found and signals.job_died.receivers:
        tell(lambda: _tell_died(found))
    if signals.deaths_digest.receivers:
        news = deaths.take_news(alias, options.digest_seconds)
        if news:
            tell(lambda: _tell_news(news))
    return len(found)


def _tell_died(found: Sequence[Death]) -> None:
    for death in found:
        answers = signals.job_died.send_robust(
            sender=Death,
            job_id=death.job_id,
            died_at=death.died_at,
            queue_name=death.queue_name,
            task_name=death.task_name,
            tenant_id=death.tenant_id,
            reason=death.reason,
            exception=death.exception,
            message=death.message,
            fingerprint=death.fingerprint,
        )
        _log_failed("job_died", answers)


def _tell_news(news: Sequence[deaths.News]) -> None:
    for each in news:
        group = each.group
        answers = signals.deaths_digest.send_robust(
            sender=Group,
            fingerprint=group.fingerprint,
            count=each.count,
            total=group.count,
            exception=group.exception,
            frame=group.frame,
            message=group.masked,
            samples=group.samples,
            task_names=group.tasks,
            tenant_ids=group.tenants,
            versions=group.versions,
            first_seen_at=group.first_seen_at,
            last_seen_at=group.last_seen_at,
        )
        _log_failed("deaths_digest", answers)


def _log_failed(name: str, answers: Sequence[tuple[object, object]]) -> None:
    for receiver, answer in answers:
        if isinstance(answer, Exception):
            log.error("receiver failed signal=%s receiver=%r error=%s", name, receiver, type(answer).__name__)
