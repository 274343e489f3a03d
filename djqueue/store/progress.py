"""What a running handler says about itself: how far it is, and from where another attempt may go on.

Invariant: each statement carries (id, lease token) and changes nothing when the token is stale. Neither column is in an
index, so the updates are HOT.
"""

from djqueue.store import db
from djqueue.store.lease import Lease

# Only information: a row that is locked at this moment (by the handler's own open transaction, say) is not waited for.
PROGRESS = """
with f as materialized (
    select j.id from djqueue_job j where j.id = %(id)s and j.lease_token = %(token)s for no key update skip locked)
update djqueue_job j set progress = %(progress)s::jsonb || jsonb_build_object('at', clock_timestamp())
from f where j.id = f.id
"""

SAVE = """
update djqueue_job set checkpoint = %(checkpoint)s::jsonb where id = %(id)s and lease_token = %(token)s returning id
"""
LOAD = "select checkpoint::text from djqueue_job where id = %(id)s and lease_token = %(token)s"


def tell(alias: str, lease: Lease, progress: str, *, apart: bool) -> None:
    """Write how far a job is (a JSON object); `apart` from the transaction that is open here, so that it is seen at
    once and locks nothing."""
    params = {"id": lease.id, "token": lease.lease_token, "progress": progress}
    (db.rows_apart if apart else db.rows)(alias, PROGRESS, params)


def save(alias: str, lease: Lease, checkpoint: str) -> bool:
    """Write a checkpoint (JSON text) in the open transaction, if there is one; return False for a stale lease."""
    return bool(db.rows(alias, SAVE, {"id": lease.id, "token": lease.lease_token, "checkpoint": checkpoint}))


def load(alias: str, lease: Lease) -> tuple[str | None] | None:
    """Return the checkpoint (JSON text, or None: never saved); no tuple for a stale lease."""
    found = db.rows(alias, LOAD, {"id": lease.id, "token": lease.lease_token})
    return (found[0][0],) if found else None
