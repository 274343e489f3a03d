"""Ordering keys: one live job of a key may run, the others are parked behind it; here the next one is let out.

    enqueue ─► head (nothing of the key is visible) ─► … ─► its end ─┬─► let out: parked → ready, the lowest seq
            └► parked, and a wake row                    the tick ───┘

Promised: never two leases of a key; a job whose transaction began after another's had committed, or that came later in
the same transaction, ends after it; of overlapping transactions by seq among those committed when one is let out.

Invariants: heads are made only under the key's advisory lock, which is tried and never waited for; whatever could leave
a key without a head (a parked enqueue, a missed lock, any end but an ack) writes a wake row in its own statement, and
the tick drops it only when the key needs nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from djqueue.store import db

MOST_LOCKS = 100
"""Advisory locks of one transaction: the server's lock table is finite, and shared with everybody."""

TICK_ROWS = 1_000
TICK_KEYS = 200
SWEEP_KEYS = 1_000


class Key(NamedTuple):
    """An ordering key orders within its queue."""

    queue_name: str
    ordering_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one turn of the tick has done."""

    let_out: int
    """Jobs that may be claimed now (or, scheduled, when they are due)."""
    after: int | None
    """Where the next turn goes on; None: the end was reached."""


# The locks come one statement before the let-out, whose snapshot is then younger than the lock: it sees every head that
# another holder has made. The answer (places of the keys whose lock is held, and, negative, of the others) stays in the
# transaction, so that both may be sent as one pipeline. A key behind whose head nothing is visible needs no lock: who
# is about to park there has seen the head, and its wake row comes with it.
LOCK = """
with k as materialized (
    select q, o, n from unnest(%(queues)s::text[], %(keys)s::text[]) with ordinality k(q, o, n)
    where (select true from djqueue_job j where j.queue_name = k.q and j.ordering_key = k.o and j.state = 'parked'
        and j.parked_for is null limit 1)),
tried as materialized (
    select n, case when row_number() over (order by n) <= %(most)s
        then pg_try_advisory_xact_lock(hashtextextended(q || chr(31) || o, 7)) else false end as held
    from k)
select set_config('djqueue.locked', coalesce(string_agg((case when held then n else -n end)::text, ','), ''), true)
from tried
"""

# What becomes of each key behind whose head somebody waits: `out`, the lowest seq was let out; `head`, a head lives,
# and its end will do it (firm: it is not being deleted at this moment); `none`, the key is blocked, or nothing waits by
# now; `busy`, ask again later. Nothing here waits for anybody: a next job that is being cancelled makes the key busy.
LET_OUT = """
with tried as materialized (
    select string_to_array(current_setting('djqueue.locked', true), ',')::bigint[] as places),
k as materialized (
    select q, o, n = any(places) as held
    from tried cross join unnest(%(queues)s::text[], %(keys)s::text[]) with ordinality k(q, o, n)
    where n = any(places) or -n = any(places)),
head as materialized (
    select k.q, k.o, h.id from k cross join lateral (
        select id from djqueue_job where queue_name = k.q and ordering_key = k.o
            and (state <> 'parked' or parked_for is not null) limit 1) h
    where k.held),
firm as materialized (
    select j.id from djqueue_job j where j.id = any(array(select id from head)) for key share skip locked),
next as materialized (
    select k.q, k.o, n.id from k cross join lateral (
        select id from djqueue_job where queue_name = k.q and ordering_key = k.o and state = 'parked'
            and parked_for is null order by seq limit 1) n
    where k.held and not exists (select from head where head.q = k.q and head.o = k.o)
        and (select true from djqueue_key_block b where b.queue_name = k.q and b.ordering_key = k.o limit 1) is null),
free as materialized (
    select j.id from djqueue_job j where j.id = any(array(select id from next)) and j.state = 'parked'
    for no key update skip locked),
let_out as (
    update djqueue_job j set state = case when j.run_at > clock_timestamp() then 'scheduled' else 'ready' end
    where j.id = any(array(select id from free)) returning j.id, j.state, j.queue_name),
found as materialized (
    select k.q, k.o, case
        when not k.held or (head.id is not null and firm.id is null) then 'busy'
        when head.id is not null then 'head'
        when next.id is null then 'none'
        when let_out.id is null then 'busy' else 'out' end as word
    from k left join head on head.q = k.q and head.o = k.o left join firm on firm.id = head.id
    left join next on next.q = k.q and next.o = k.o left join let_out on let_out.id = next.id),
missed as (
    insert into djqueue_wake (queue_name, ordering_key) select q, o from found where word = 'busy' and %(note)s),
told as (
    select pg_notify('djqueue', queue_name) from let_out
    where %(tell)s and state = 'ready' and exists (select from djqueue_worker w where w.wants_news
        and w.seen_at > clock_timestamp() - interval '30 s')
    group by queue_name)
select q, o, word, (select count(*) from told) from found
"""

WAITS = "select exists (select from djqueue_wake)"
TAKE = f"""
select id, queue_name, ordering_key from djqueue_wake where id > %(after)s order by id limit {TICK_ROWS}
for update skip locked
"""
DROP = "delete from djqueue_wake where id = any(%(ids)s::bigint[])"

# A net below: keys whose head has ended without a word, as under workers of a release that knows no ordering keys. From
# key to key by single descents of the index of what is parked.
SWEEP = f"""
with recursive k(q, o) as (
    (select queue_name, ordering_key from djqueue_job
    where state = 'parked' and parked_for is null and ordering_key is not null
        and (queue_name, ordering_key) > (%(queue)s, %(key)s) order by queue_name, ordering_key limit 1)
    union all
    select n.queue_name, n.ordering_key from k cross join lateral (
        select queue_name, ordering_key from djqueue_job
        where state = 'parked' and parked_for is null and ordering_key is not null
            and (queue_name, ordering_key) > (k.q, k.o) order by queue_name, ordering_key limit 1) n),
seen as materialized (select q, o from k limit {SWEEP_KEYS}),
lost as (
    insert into djqueue_wake (queue_name, ordering_key)
    select q, o from seen
    where (select true from djqueue_job j where j.queue_name = q and j.ordering_key = o
            and (j.state <> 'parked' or j.parked_for is not null) limit 1) is null
        and (select true from djqueue_key_block b where b.queue_name = q and b.ordering_key = o limit 1) is null
    returning 1)
select q, o, (select count(*) from seen), (select count(*) from lost) from seen order by q desc, o desc limit 1
"""


def start_let_out(alias: str, keys: Iterable[Key], *, tell: bool) -> None:
    """Send the let-out after an end of these keys' heads, in its transaction, on an adopted connection. Keys that can't
    be served at once get a wake row.

    `tell` says whether waiting workers are to be notified.
    """
    params = _arrays(list(dict.fromkeys(keys)))
    db.execute(alias, LOCK, params | {"most": MOST_LOCKS})
    db.execute(alias, LET_OUT, params | {"note": True, "tell": tell})


def let_out(alias: str, keys: Iterable[Key]) -> None:
    """Let out the next jobs of keys whose heads have ended in this transaction, which must be open."""
    params = _arrays(list(dict.fromkeys(keys)))
    db.rows(alias, LOCK, params | {"most": MOST_LOCKS})
    db.rows(alias, LET_OUT, params | {"note": True, "tell": True})


def waits(alias: str) -> bool:
    """Tell whether some key may have to be looked at."""
    return bool(db.rows(alias, WAITS)[0][0])


def turn(alias: str, after: int = 0) -> Turn:
    """Look at the next keys that have wake rows and let out what may run: up to 200 keys, in one transaction."""
    with db.one_transaction(alias):
        taken = db.rows(alias, TAKE, {"after": after})
        ids: dict[Key, list[int]] = {}
        last = after
        for id_, queue_name, ordering_key in taken:
            key = Key(queue_name, ordering_key)
            if key not in ids and len(ids) == TICK_KEYS:
                break
            ids.setdefault(key, []).append(id_)
            last = id_
        words = _look(alias, list(ids)) if ids else {}
        done = [id_ for key, word in words.items() if word != "busy" for id_ in ids[key]]
        if done:
            db.rows(alias, DROP, {"ids": done})
    is_end = len(taken) < TICK_ROWS and (not taken or last == taken[-1][0])
    return Turn(let_out=sum(word == "out" for word in words.values()), after=None if is_end else last)


def sweep(alias: str, after: Key | None = None) -> tuple[Key | None, int]:
    """Write wake rows for keys that have no head and should have one, of the next 1,000 keys; return where to go on
    (None: the end was reached) and how many there were."""
    start = after or Key("", "")
    found = db.rows(alias, SWEEP, {"queue": start.queue_name, "key": start.ordering_key})
    if not found:
        return None, 0
    queue_name, ordering_key, seen, lost = found[0]
    return (Key(queue_name, ordering_key) if seen == SWEEP_KEYS else None), lost


def _look(alias: str, keys: Sequence[Key]) -> dict[Key, str]:
    db.rows(alias, LOCK, _arrays(keys) | {"most": TICK_KEYS})
    found = db.rows(alias, LET_OUT, _arrays(keys) | {"note": False, "tell": True})
    words = {Key(queue_name, ordering_key): word for queue_name, ordering_key, word, _told in found}
    return dict.fromkeys(keys, "none") | words


def _arrays(keys: Sequence[Key]) -> dict[str, object]:
    return {"queues": [key.queue_name for key in keys], "keys": [key.ordering_key for key in keys]}
