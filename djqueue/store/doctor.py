"""What can be seen of the server and the tables around the queue: the eyes of `djqueue doctor`.

Invariant: each look is a transaction of its own that ends within seconds, changes nothing and is rolled back. Nobody's
query text is read.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from djqueue.policy.diagnosis import DAYS_AHEAD, Budget, Holder, Table
from djqueue.store import claim, db, figures, history, workers

MOST = 20

BRIEFLY = "select set_config('statement_timeout', '5s', true), set_config('lock_timeout', '1s', true)"
# A walsender's snapshot is its standby's or its slot's; an autovacuum worker's and a VACUUM's own hold back nobody.
HOLDERS = f"""
select 'session', 'pid ' || pid, usename::text || coalesce(' (' || nullif(application_name, '') || ')', ''),
    coalesce(extract(epoch from clock_timestamp() - xact_start), 0)::float8, age(backend_xmin)
from pg_stat_activity where backend_xmin is not null and backend_type = 'client backend' and pid <> pg_backend_pid()
    and datname = current_database()
union all
select 'prepared transaction', gid, owner::text, extract(epoch from clock_timestamp() - prepared)::float8,
    age(transaction)
from pg_prepared_xacts where database = current_database()
union all
select 'replication slot', slot_name::text, 'nobody, inactive', 0, greatest(age(xmin), age(catalog_xmin), 0)
from pg_replication_slots where not active and (xmin is not null or catalog_xmin is not null or restart_lsn is not null)
union all
select 'standby', coalesce(nullif(application_name, ''), client_addr::text, 'pid ' || pid), usename::text, 0,
    age(backend_xmin)
from pg_stat_replication where backend_xmin is not null
order by 5 desc limit {MOST}
"""
IDLE = f"""
select 'session', 'pid ' || pid, usename::text || coalesce(' (' || nullif(application_name, '') || ')', ''),
    coalesce(extract(epoch from clock_timestamp() - state_change), 0)::float8, 0
from pg_stat_activity
where state in ('idle in transaction', 'idle in transaction (aborted)') and datname = current_database()
order by 4 desc limit {MOST}
"""
TABLES = """
select relname::text, n_live_tup, n_dead_tup,
    extract(epoch from clock_timestamp() - greatest(last_vacuum, last_autovacuum))::float8
from pg_stat_user_tables where relname in ('djqueue_job', 'djqueue_worker', 'djqueue_queue', 'djqueue_leader')
    and relid = to_regclass(relname)
"""
OVERFLOW = "select count(*) from (select from djqueue_history_overflow limit 10000) x"
WITHOUT_SCANS = "select set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true)"
CLAIM_PLAN = f"explain {claim.CLAIM}"
NOTIFY_QUEUE = "select pg_notification_queue_usage()::float8"
# reserved_connections is new in PostgreSQL 16.
BUDGET = """
select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0),
    count(distinct supervisor_id)::int, count(*)::int, coalesce(sum(slots), 0)::int
from djqueue_worker where seen_at > clock_timestamp() - interval '90 s'
"""
VERSIONS = """
select distinct version from djqueue_worker where seen_at > clock_timestamp() - interval '90 s' and not stopping
"""
APPLIED = "select name from django_migrations where app = 'djqueue'"
CRON = f"""
select name, last_error, extract(epoch from clock_timestamp() - coalesce(next_fire_at, changed_at))::float8
from djqueue_cron_entry
where enabled and removed_at is null and queued_fire_at is null
    and (last_error <> '' or coalesce(next_fire_at, changed_at) < clock_timestamp())
order by name limit {MOST}
"""
RIGHTS = """
select t.name, r.name
from (values ('djqueue_job'), ('djqueue_dead_letter'), ('djqueue_history'), ('djqueue_history_overflow'),
    ('djqueue_worker'), ('djqueue_queue'), ('djqueue_leader'), ('djqueue_stat'), ('djqueue_cron_entry')) t(name)
cross join (values (1, 'SELECT'), (2, 'INSERT'), (3, 'UPDATE'), (4, 'DELETE')) r(n, name)
where to_regclass(t.name) is not null and not has_table_privilege(to_regclass(t.name), r.name)
order by t.name, r.n
"""


@contextmanager
def look(alias: str) -> Iterator[None]:
    """Look at something, for seconds at the most; whatever was set for it is put back."""
    with transaction.atomic(using=alias):
        db.rows(alias, BRIEFLY)
        yield
        transaction.set_rollback(True, using=alias)


def holders(alias: str) -> list[Holder]:
    """Return who keeps vacuum from removing dead rows, the oldest snapshot first."""
    return [_holder(row) for row in db.rows(alias, HOLDERS)]


def idle(alias: str) -> list[Holder]:
    """Return sessions that are idle in a transaction."""
    return [_holder(row) for row in db.rows(alias, IDLE)]


def tables(alias: str) -> list[Table]:
    """Return the tables whose rows change all the time."""
    return [
        Table(name=name, live=live, dead=dead, vacuumed_seconds=ago) for name, live, dead, ago in db.rows(alias, TABLES)
    ]


def days(alias: str) -> tuple[int, int]:
    """Return how many partitions of the next days are missing, and the rows of the overflow (counted to 10,000)."""
    [(overflow,)] = db.rows(alias, OVERFLOW)
    if not history.can_partition(alias):
        return 0, 0
    return len(db.rows(alias, history.MISSING_DAYS, {"ahead": DAYS_AHEAD - 1})), int(overflow)


def claim_plan(alias: str) -> str:
    """Return the plan of the everyday claim where it may neither scan nor sort, if there is any other way."""
    db.rows(alias, WITHOUT_SCANS)
    request = claim.Request(worker_id="doctor", limit=10, free=10, lease_seconds=30)
    place = {"queues": ["default"], "lanes": [""], "priorities": [0], "marks": [0.0], "quotas": [claim.NO_QUOTA]}
    return "\n".join(line for (line,) in db.rows(alias, CLAIM_PLAN, claim.params(request) | place))


def notify_queue(alias: str) -> float:
    """Return the share of the notification queue that is in use."""
    return float(db.rows(alias, NOTIFY_QUEUE)[0][0])


def budget(alias: str) -> Budget:
    """Return what the server allows, and who lives."""
    [(allowed, supervisors, processes, slots)] = db.rows(alias, BUDGET)
    return Budget(allowed=allowed, supervisors=supervisors, processes=processes, slots=slots)


def versions(alias: str) -> list[str]:
    """Return the versions of the code that live workers run."""
    return [version for (version,) in db.rows(alias, VERSIONS)]


def applied(alias: str) -> list[str]:
    """Return djqueue's migrations that the database has."""
    return [name for (name,) in db.rows(alias, APPLIED)]


def cron(alias: str) -> list[tuple[str, str, float]]:
    """Return enabled entries that are due or can't be planned: name, error, seconds since they were due."""
    return [(name, error, late) for name, error, late in db.rows(alias, CRON)]


def rights(alias: str) -> list[tuple[str, str]]:
    """Return the rights that this role lacks: table and right."""
    return [(table, right) for table, right in db.rows(alias, RIGHTS)]


def orphans(alias: str) -> list[tuple[str, int]]:
    """Return the tasks that no worker knows, with their jobs."""
    return [(name, jobs) for name, jobs, _, _ in figures.orphans(alias, MOST)]


def limits(alias: str) -> list[tuple[str, int | None]]:
    """Return the most jobs that each queue may run."""
    return [(name, each.max_running) for name, each in sorted(workers.queue_settings(alias).items())]


def _holder(row: db.Row) -> Holder:
    kind, name, who, seconds, transactions = row
    return Holder(kind=kind, name=name, who=who or "", seconds=seconds, transactions=transactions)
