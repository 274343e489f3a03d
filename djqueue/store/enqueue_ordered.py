"""Writing jobs with ordering keys: as heads where that needs no waiting, else parked behind the head.

Invariant: no enqueuer ever waits for another because of an ordering key, and none leaves a parked job without a wake
row; `store.ordering` lets it out.
"""

from djqueue.store.ordering import MOST_LOCKS

_NOTIFY = """(select pg_notify('djqueue', %(queue_name)s) from djqueue_worker
    where wants_news and seen_at > clock_timestamp() - interval '30 s' limit 1)"""

# One or many, in the order given. A job leads at once where that needs no waiting: no job of its key
# is visible (one look for each partial index), nothing blocks the key, its lock is free, and no head was committed
# unseen (on conflict). All others are parked, in the same statement, with a wake row for each key. Each lock stays to
# the end of the transaction, so that after 100 the others are let out by the tick, when all is committed. The counter
# is a setting of the transaction: rolled back with a savepoint, as the locks are.
_LED = "coalesce(nullif(current_setting('djqueue.led', true), ''), '0')::int"
_WRITTEN = """id, queue_name, lane, tenant_id, task_name, priority, run_at, created_at, dedupe_key, ordering_key,
        on_dead, max_attempts, timeout_seconds, expires_at, args, options, state"""
_OF_ROW = """x.id, %(queue_name)s::text, coalesce((%(lanes)s::text[])[x.n], %(lane)s::text),
        coalesce((%(tenants)s::text[])[x.n], %(tenant)s::text), %(task_name)s::text, %(priority)s::smallint,
        coalesce(%(run_at)s::timestamptz, statement_timestamp()) + make_interval(secs => %(delay)s::float8),
        statement_timestamp(), x.dedupe_key, x.ordering_key, %(on_dead)s::text, %(max_attempts)s::smallint,
        %(timeout_seconds)s::float8, coalesce(%(run_at)s::timestamptz, statement_timestamp())
            + make_interval(secs => %(delay)s::float8 + %(expires)s::float8), x.args,
        coalesce((%(all_options)s::jsonb[])[x.n], %(options)s::jsonb)"""
_DUE = """case when coalesce(%(run_at)s::timestamptz, '-infinity') > clock_timestamp() or %(delay)s::float8 > 0
            then 'scheduled' else 'ready' end"""
ENQUEUE_ORDERED = f"""
with x as materialized (
    select * from (
        select *, row_number() over (partition by dedupe_key order by n) as copy
        from unnest(%(ids)s::uuid[], %(args)s::jsonb[], %(dedupe_keys)s::text[], %(ordering_keys)s::text[])
            with ordinality r(id, args, dedupe_key, ordering_key, n)) r
    where dedupe_key is null or copy = 1),
firsts as materialized (
    select ordering_key, min(n) as n from x where ordering_key is not null group by ordering_key),
free as materialized (
    select f.n, f.ordering_key from firsts f
    where (select true from djqueue_job j where j.queue_name = %(queue_name)s and j.ordering_key = f.ordering_key
            and (j.state <> 'parked' or j.parked_for is not null) limit 1) is null
        and (select true from djqueue_job j where j.queue_name = %(queue_name)s and j.ordering_key = f.ordering_key
            and j.state = 'parked' and j.parked_for is null limit 1) is null
        and (select true from djqueue_key_block b where b.queue_name = %(queue_name)s
            and b.ordering_key = f.ordering_key limit 1) is null
    order by f.n limit greatest(0, {MOST_LOCKS} - {_LED})),
lead as materialized (
    select n, pg_try_advisory_xact_lock(hashtextextended(%(queue_name)s::text || chr(31) || ordering_key, 7)) as held
    from free),
head as (
    insert into djqueue_job ({_WRITTEN})
    select {_OF_ROW}, {_DUE} from x where x.n = any(array(select n from lead where held)) order by x.n
    on conflict do nothing returning id, created_at, dedupe_key, ordering_key, state),
rest as (
    insert into djqueue_job ({_WRITTEN})
    select {_OF_ROW}, case when x.ordering_key is null then {_DUE} else 'parked' end
    from x where not exists (select from head where head.id = x.id) order by x.n
    on conflict do nothing returning id, created_at, dedupe_key, ordering_key, state),
woken as (
    insert into djqueue_wake (queue_name, ordering_key)
    select distinct %(queue_name)s::text, ordering_key from rest where state = 'parked'),
counted as materialized (
    select set_config('djqueue.led', ({_LED} + (select count(*) from lead where held))::text, true)),
new as (select * from head union all select * from rest)
select id, created_at, true, dedupe_key, case when state = 'ready' then {_NOTIFY} end, (select count(*) from counted)
from new
union all
select j.id, j.created_at, false, j.dedupe_key, null, 0
from x join djqueue_job j on j.queue_name = %(queue_name)s and j.dedupe_key = x.dedupe_key
where not exists (select from new where new.dedupe_key = x.dedupe_key)
"""
