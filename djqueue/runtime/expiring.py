"""A duty of every keeper: end waiting jobs whose time to be started has passed."""

import logging

from djqueue.store import expire

log = logging.getLogger("djqueue")

TURNS = 10


class Expire:
    """Ends what expired without being claimed: in a paused queue, behind other jobs, without a worker."""

    name = "expire"

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def tick(self) -> float:
        """End batches until one is short."""
        for _ in range(TURNS):
            ended = expire.end_overdue(self._alias)
            if ended:
                log.info("jobs expired jobs=%d first=%s", len(ended), ended[0].id)
            if len(ended) < expire.BATCH:
                return 1.0
        return 0.0
