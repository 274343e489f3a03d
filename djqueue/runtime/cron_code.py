"""What the code declares with `@cron`, written to the table by the leader: when it begins to lead, then each minute.

Invariant: one keeper at a time says what is in the code. While old and new releases run side by side, it is the
leader's; when the last old worker stops, a new one leads, and the table says what the new code says.
"""

import logging
import time

from djqueue.api import cron as declarations
from djqueue.compat import task_backends
from djqueue.runtime.leader import LeaderDuty
from djqueue.store import cronsync, faults

log = logging.getLogger("djqueue")

LOOK_SECONDS = 1.0
AGAIN_SECONDS = 60.0


class CronCode:
    """Syncs the declared entries while this keeper leads cron."""

    name = "cron code"

    def __init__(self, alias: str, leader: LeaderDuty) -> None:
        self._alias = alias
        self._leader = leader
        self._synced: tuple[int, float] = (0, 0.0)
        self._taken: set[str] = set()

    def tick(self) -> float:
        """Sync, if this keeper has just begun to lead, or a minute has passed."""
        term, at = self._synced
        if self._leader.leads and (self._leader.term != term or time.monotonic() - at >= AGAIN_SECONDS):
            try:
                self._tell(cronsync.sync(self._alias, declarations.declared(self._backends())))
                self._synced = self._leader.term, time.monotonic()
            except faults.ERRORS as error:
                # Somebody edits one of the rows; there is a next second.
                if faults.sqlstate(error) not in {"55P03", *faults.RETRY}:
                    raise
        return LOOK_SECONDS

    def _backends(self) -> list[str]:
        """Return the backends whose jobs are in this database: they share the table."""
        return [each.alias for each in task_backends.all() if getattr(each, "alias_of_database", None) == self._alias]

    def _tell(self, synced: cronsync.Synced) -> None:
        for what in ("made", "changed", "removed"):
            for name in getattr(synced, what):
                log.info("cron entry of the code %s name=%s", what, name)
        for name in set(synced.taken) - self._taken:
            log.warning("cron entry of the code left out, the name belongs to an entry of the admin name=%s", name)
        self._taken = set(synced.taken)
