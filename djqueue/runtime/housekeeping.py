"""The leader's housekeeping: history, old rows, queue figures and the vacuum of the hot table.

Invariant: none of it is urgent. A step that the database refuses is logged, when it begins to be refused, and tried
again later; only what concerns the connection itself goes up to the routine.
"""

import logging
import time
from collections.abc import Callable, Iterable

from djqueue.conf import Options
from djqueue.runtime.leader import LeaderDuty
from djqueue.store import bulk, cron, faults, history, letters, limits, retention, stats, tenants, windows
from djqueue.store.vacuum import Vacuumed, vacuum_if_needed

log = logging.getLogger("djqueue")

IDLE_SECONDS = 1.0
"""How soon a keeper that has just become the leader begins."""

PRUNE_SECONDS = 60.0
PRUNE_SOON_SECONDS = 5.0
PRUNE_FOR_SECONDS = 1.0
SUMMARY_SECONDS = 5.0
SUMMARY_SHARE = 20
"""A summary may take a twentieth of the time: the longer it took, the later comes the next."""

VACUUM_SECONDS = 15.0
BULK_ACT_DAYS = 90


class Careful:
    """Runs steps whose failure matters to nobody else; logs each kind of trouble once, until it has gone."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._troubles: dict[str, str] = {}

    def run(self, name: str, step: Callable[[], bool]) -> bool:
        """Run a step and return its answer; False where the database refused. Raises what concerns the connection."""
        try:
            answer = step()
        except faults.ERRORS as error:
            if faults.connection_is_lost(self._alias, error):
                raise
            if self._troubles.get(name) != faults.sqlstate(error):
                log.warning("housekeeping refused step=%s error=%s", name, faults.words(error))
            self._troubles[name] = faults.sqlstate(error)
            return False
        self._troubles.pop(name, None)
        return answer


class PrunerDuty:
    """Makes partitions ahead and removes what is old."""

    name = "pruner"

    def __init__(self, alias: str, options: Options, leader: LeaderDuty) -> None:
        self._alias = alias
        self._options = options
        self._leader = leader
        self._careful = Careful(alias)

    def tick(self) -> float:
        """Do about a second of each kind of work; soon again where more is left."""
        if not self._leader.leads:
            return IDLE_SECONDS
        keep = retention.keep(self._alias, self._options.history_days)
        steps: list[tuple[str, Callable[[], bool]]] = [
            ("partitions ahead", self._ensure_partitions),
            ("old days", lambda: self._drop_partitions(keep)),
            ("old history", lambda: self._delete_old(keep)),
            ("overflow", lambda: history.drain_overflow(self._alias) >= history.BATCH),
            ("old fires", lambda: cron.prune_fires(self._alias) >= cron.PRUNE_BATCH),
            ("old statistics", lambda: stats.prune_stats(self._alias) >= stats.PRUNE_BATCH),
            ("old dedupe windows", lambda: windows.prune(self._alias) >= windows.BATCH),
            ("old dead letters", self._prune_letters),
            ("old bulk acts", lambda: bulk.prune(self._alias, BULK_ACT_DAYS) < 0),
            ("unused limits", lambda: limits.forget(self._alias) >= limits.BATCH),
            ("unused tenants", lambda: tenants.forget(self._alias) >= tenants.BATCH),
            ("gone workers", lambda: retention.delete_gone_workers(self._alias) < 0),
        ]
        more = [self._careful.run(name, step) for name, step in steps if self._leader.leads]
        if any(more):
            return IDLE_SECONDS
        return PRUNE_SOON_SECONDS if 0 in (keep.default, *keep.queues.values()) else PRUNE_SECONDS

    def _prune_letters(self) -> bool:
        days = self._options.dead_letter_days
        return days is not None and letters.prune(self._alias, days) >= letters.BATCH

    def _ensure_partitions(self) -> bool:
        made = history.ensure_partitions(self._alias)
        if made:
            log.info("history partitions made days=%d", made)
        return False

    def _drop_partitions(self, keep: retention.Keep) -> bool:
        dropped = history.drop_partitions(self._alias, keep.longest)
        if dropped:
            log.info("history partitions dropped days=%d kept=%d", dropped, keep.longest)
        return False

    def _delete_old(self, keep: retention.Keep) -> bool:
        until = time.monotonic() + PRUNE_FOR_SECONDS
        whole_days = history.can_partition(self._alias)
        return any(
            time.monotonic() > until for _ in retention.delete_old(self._alias, keep, whole_days_are_dropped=whole_days)
        )


class SummaryDuty:
    """Writes the figures of each queue into its row."""

    name = "summary"

    def __init__(self, alias: str, leader: LeaderDuty, queue_names: Iterable[str] = ()) -> None:
        self._alias = alias
        self._leader = leader
        self._names = sorted(queue_names)
        self._careful = Careful(alias)

    def tick(self) -> float:
        """Summarise."""
        if not self._leader.leads:
            return IDLE_SECONDS
        began = time.monotonic()
        self._careful.run("queue summary", self._summarise)
        return max(SUMMARY_SECONDS, SUMMARY_SHARE * (time.monotonic() - began))

    def _summarise(self) -> bool:
        stats.summarise_queues(self._alias, self._names)
        return True


class VacuumDuty:
    """Vacuums the hot table when it has many dead rows."""

    name = "vacuum"

    def __init__(self, alias: str, leader: LeaderDuty) -> None:
        self._alias = alias
        self._leader = leader
        self._careful = Careful(alias)
        self._said = False

    def tick(self) -> float:
        """Vacuum if need be."""
        if not self._leader.leads:
            return IDLE_SECONDS
        self._careful.run("vacuum", self._vacuum)
        return VACUUM_SECONDS

    def _vacuum(self) -> bool:
        answer = vacuum_if_needed(self._alias)
        if answer is Vacuumed.REFUSED and not self._said:
            self._said = True
            log.warning(
                "djqueue_job can't be vacuumed by this role, claims may become slower; make it the owner or, from "
                "PostgreSQL 17, grant it MAINTAIN on the table"
            )
        return answer is Vacuumed.DONE
