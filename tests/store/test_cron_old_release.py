"""R22: leaders of the release before 0002 go on beside the new columns, and what they write is understood."""

import pytest

from djqueue.policy.cronfires import Missed, Overlap
from djqueue.store import cron, db

pytestmark = pytest.mark.usefixtures("live_database")

OLD_ADD = """
insert into djqueue_cron_entry (name, schedule, timezone, task_name, queue_name, args, kwargs, enabled, last_error,
    next_fire_at, changed_at)
values ('old', '0 * * * *', 'UTC', 'noop', '', '[]', '{}', true, '', null, now())
"""
OLD_ENTRIES = """
select e.id, e.xmin::text, e.name, e.schedule, e.timezone, e.task_name, e.queue_name, e.args::text, e.kwargs::text,
    e.next_fire_at, m.last_fire_at, e.last_error, statement_timestamp()
from djqueue_cron_entry e left join djqueue_cron_memory m on m.name = e.name
where e.enabled order by e.next_fire_at nulls first, e.id
"""
OLD_SETTLE = """
with e as materialized (
    select id from djqueue_cron_entry
    where id = %(id)s and xmin::text = %(version)s and enabled for update skip locked)
update djqueue_cron_entry c set next_fire_at = now() - interval '1 min', last_error = '' from e where c.id = e.id
returning c.id
"""
OLD_FIRE = """
with raised as (
    insert into djqueue_cron_memory as m (name, last_fire_at) values ('old', now())
    on conflict (name) do update set last_fire_at = greatest(m.last_fire_at, excluded.last_fire_at)
    where m.last_fire_at < excluded.last_fire_at returning name)
insert into djqueue_cron_fire (name, fire_at, fired_at)
select name, now(), clock_timestamp() from raised
on conflict (name, fire_at) do nothing returning id
"""


def test_r22_an_old_leader_reads_plans_and_fires_beside_the_new_columns() -> None:
    db.rows("default", OLD_ADD)
    ((id_, version, *_),) = db.rows("default", OLD_ENTRIES)

    assert db.rows("default", OLD_SETTLE, {"id": id_, "version": version}) == [(id_,)]
    assert len(db.rows("default", OLD_FIRE)) == 1
    (entry,) = cron.read("default", [id_])
    assert (entry.missed, entry.overlap, entry.jitter_seconds, entry.queued_fire_at) == (
        Missed.RUN_ONCE,
        Overlap.ALLOW,
        0,
        None,
    )
    assert db.rows("default", "select outcome from djqueue_cron_fire") == [("enqueued",)]
