"""The handler of an atomic task: its transaction's last statement is the ack, so that both happen, or neither.

    begin (READ COMMITTED) ─► handler ─► ack with the lease token ─► commit ─► hooks of `transaction.on_commit`

Invariant: a stale token rolls everything back; once the commit has happened the job has ended, whatever fails after.
"""

import logging
import time
from collections.abc import Callable

from django.db import connections, transaction

from djqueue.exceptions import LeaseLost
from djqueue.runtime.held import Held
from djqueue.runtime.outcome import Committed, Outcome, Stale
from djqueue.store import db, finish, lease

log = logging.getLogger("djqueue")

LONG_SECONDS = 10.0
"""An atomic handler that takes longer is warned about."""


def run(alias: str, held: Held, result_of: Callable[[], str]) -> Outcome:
    """Run the handler in a transaction of its own and ack at its end."""
    is_outermost = not connections[alias].in_atomic_block
    result: str | None = None
    try:
        with transaction.atomic(using=alias):
            if is_outermost:
                # Above READ COMMITTED a heartbeat that passes meanwhile would make the ack fail with 40001.
                db.rows(alias, "set transaction isolation level read committed")
            result = result_of()
            ack = finish.Ack(held.job.id, held.job.lease_token, time.monotonic() - held.began, 0, result, held.key)
            if not finish.ack(alias, [ack]):
                raise LeaseLost("the lease ended before the handler did")
    except LeaseLost:
        return Stale()
    except BaseException as error:  # SystemExit of a hook, or a time limit that comes while hooks run
        if result is None or not is_outermost or not _has_committed(alias, held):
            raise
        log.warning("committed, but what follows the commit failed job=%s", held.job.id, exc_info=error)
    return Committed(result)


def warn_if_long(held: Held) -> None:
    """An atomic handler holds a transaction open: it holds back vacuum, and locks whatever it has written."""
    seconds = held.ended - held.began
    if seconds > LONG_SECONDS:
        log.warning(
            "atomic handler held its transaction open for long job=%s task=%s seconds=%.1f",
            held.job.id,
            held.job.task_name,
            seconds,
        )


def _has_committed(alias: str, held: Held) -> bool:
    """Find out what became of a COMMIT whose answer was lost, or after which a hook failed."""
    db.drop(alias)
    try:
        return lease.look(alias, [held.lease])[held.job.id] is lease.Standing.DONE
    except Exception:
        return False
