"""Looking whether a job has ended, for who waits for that: one descent of the primary key, which sees no ended job."""

from uuid import UUID

from djqueue.store import db

LIVES = "select state from djqueue_job where id = %(id)s"


def lives(alias: str, id_: UUID) -> bool:
    """Tell whether the job is unfinished."""
    return bool(db.rows(alias, LIVES, {"id": id_}))
