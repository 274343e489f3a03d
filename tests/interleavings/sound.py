"""What must be true after every order, whatever the story was."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from djqueue.store import db
from tests.store.factories import ALIAS

PLACES = """
select x.id, array_agg(x.place) from (
    select id, state as place from djqueue_job
    union all select id, outcome from djqueue_history
    union all select id, outcome from djqueue_history_overflow
    union all select id, 'dead' from djqueue_dead_letter) x
group by x.id
"""
# Each a fault, in words; none may be found.
FAULTS = """
select 'charged more than it may be', id::text from djqueue_job
    where attempts + (state <> 'leased')::int > max_attempts
union all select 'a lease without a holder, or the other way round', id::text from djqueue_job
    where (state = 'leased') <> (leased_by is not null and lease_until is not null)
union all select 'attempts are not the workers that made them', id::text from djqueue_job
    where cardinality(worker_ids) <> attempts
union all select 'charged more than it may be', id::text from djqueue_dead_letter where attempts > max_attempts
union all select 'two heads of one ordering key', min(ordering_key) from djqueue_job
    where ordering_key is not null and (state <> 'parked' or parked_for is not null)
    group by queue_name, ordering_key having count(*) > 1
union all select 'two holders of one dedupe key', min(dedupe_key) from djqueue_job
    where dedupe_key is not null group by queue_name, dedupe_key having count(*) > 1
"""


def places() -> dict[UUID, str]:
    """Where each job is: its live state, `succeeded`, `cancelled` or `dead`; in one place only, or this fails."""
    found = {id_: list(where) for id_, where in db.rows(ALIAS, PLACES)}
    assert all(len(where) == 1 for where in found.values()), f"in two places: {found}"
    return {id_: where[0] for id_, where in found.items()}


def place(id_: UUID) -> str:
    """Where one job is."""
    return places().get(id_, "lost")


def assert_sound(ids: Sequence[UUID] = ()) -> None:
    """Nothing is lost, doubled, held twice or charged too often."""
    found: list[Any] = db.rows(ALIAS, FAULTS)
    assert found == []
    assert set(ids) <= set(places()), "a job is lost"
