"""Causes of death: counting deaths in their groups, and which groups have news.

    store.finish ──► djqueue_death ──fold──► djqueue_error_group ──take_news──► a digest per fingerprint
     (append)          (a second)              (one row per cause)               (once in so many minutes)

Invariant: a death is counted once: it leaves the list in the transaction that counts it.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from djqueue.policy.causes import Death, Group, GroupState, counted
from djqueue.policy.fingerprint import mask
from djqueue.store import db

BATCH = 2_000

# Two who fold at once take different deaths.
TAKE = f"""
with d as materialized (
    select id from djqueue_death order by id limit {BATCH} for update skip locked),
gone as (
    delete from djqueue_death x using d where x.id = d.id returning x.*)
select job_id, died_at, queue_name, task_name, tenant_id, reason, fingerprint, exception, frame, message, version
from gone order by fingerprint collate "C", id
"""
# Rows are made and locked in the order of fingerprints, so that two who fold can't deadlock.
MAKE = """
insert into djqueue_error_group (fingerprint, exception, frame, masked, first_seen_at, last_seen_at)
select x.fingerprint, x.exception, x.frame, x.masked, x.seen, x.seen
from unnest(%(fingerprints)s::text[], %(exceptions)s::text[], %(frames)s::text[], %(masked)s::text[],
    %(seen)s::timestamptz[]) x(fingerprint, exception, frame, masked, seen)
order by x.fingerprint collate "C"
on conflict (fingerprint) do nothing
"""
_GROUP = """fingerprint, exception, frame, masked, first_seen_at, last_seen_at, state, count, reopened, unannounced,
    tasks::text, tenants::text, versions::text, samples::text"""
LOCK = f"""
select {_GROUP} from djqueue_error_group where fingerprint = any(%(fingerprints)s::text[])
order by fingerprint for no key update
"""
WRITE = """
update djqueue_error_group g set first_seen_at = x.first, last_seen_at = x.last, state = x.state, count = x.count,
    reopened = x.reopened, unannounced = x.unannounced, tasks = x.tasks, tenants = x.tenants, versions = x.versions,
    samples = x.samples
from unnest(%(fingerprints)s::text[], %(firsts)s::timestamptz[], %(lasts)s::timestamptz[], %(states)s::text[],
    %(counts)s::bigint[], %(reopened)s::int[], %(unannounced)s::bigint[], %(tasks)s::jsonb[], %(tenants)s::jsonb[],
    %(versions)s::jsonb[], %(samples)s::jsonb[])
    x(fingerprint, first, last, state, count, reopened, unannounced, tasks, tenants, versions, samples)
where g.fingerprint = x.fingerprint
"""

# What is muted is never announced, and not all at once when somebody unmutes it.
FORGET_MUTED = """
update djqueue_error_group set unannounced = 0 where unannounced > 0 and state = 'muted' returning 1
"""
TAKE_NEWS = f"""
with n as materialized (
    select fingerprint as taken, unannounced as news from djqueue_error_group
    where unannounced > 0 and state = 'open' and (announced_at is null
        or announced_at <= clock_timestamp() - make_interval(secs => %(seconds)s::float8))
    order by fingerprint limit 100 for no key update skip locked)
update djqueue_error_group g set unannounced = 0, announced_at = clock_timestamp()
from n where g.fingerprint = n.taken
returning {_GROUP}, n.news
"""

SET_STATE = """
with g as materialized (
    select fingerprint from djqueue_error_group
    where fingerprint = any(%(fingerprints)s::text[]) and state <> %(state)s::text
    order by fingerprint for no key update)
update djqueue_error_group x set state = %(state)s::text from g where x.fingerprint = g.fingerprint
returning x.fingerprint
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """A group with deaths that nobody was told of yet."""

    group: Group
    count: int


def fold(alias: str) -> list[Death]:
    """Count up to 2,000 deaths in their groups, in one transaction; return them."""
    with db.one_transaction(alias):
        deaths = [_death(row) for row in db.rows(alias, TAKE)]
        by_cause = {key: list(some) for key, some in groupby(deaths, lambda each: each.fingerprint) if key}
        if by_cause:
            _make(alias, [some[0] for some in by_cause.values()])
            groups = [_group(row) for row in db.rows(alias, LOCK, {"fingerprints": list(by_cause)})]
            _write(alias, [counted(group, by_cause[group.fingerprint]) for group in groups])
    return deaths


def take_news(alias: str, at_most_every_seconds: float) -> list[News]:
    """Return the groups of which something is to be told now, and note that it was."""
    db.rows(alias, FORGET_MUTED)
    found = db.rows(alias, TAKE_NEWS, {"seconds": at_most_every_seconds})
    return [News(group=_group(row[:-1]), count=row[-1]) for row in found]


def set_state(alias: str, fingerprints: Sequence[str], state: GroupState) -> set[str]:
    """Mute, resolve or reopen groups; return those that were something else before."""
    params = {"fingerprints": list(fingerprints), "state": str(state)}
    return {row[0] for row in db.rows(alias, SET_STATE, params)}


def _make(alias: str, firsts: Iterable[Death]) -> None:
    found = list(firsts)
    params = {
        "fingerprints": [each.fingerprint for each in found],
        "exceptions": [each.exception for each in found],
        "frames": [each.frame for each in found],
        "masked": [mask(each.message) for each in found],
        "seen": [each.died_at for each in found],
    }
    db.rows(alias, MAKE, params)


def _write(alias: str, groups: Sequence[Group]) -> None:
    params: dict[str, Any] = {
        "fingerprints": [each.fingerprint for each in groups],
        "firsts": [each.first_seen_at for each in groups],
        "lasts": [each.last_seen_at for each in groups],
        "states": [str(each.state) for each in groups],
        "counts": [each.count for each in groups],
        "reopened": [each.reopened for each in groups],
        "unannounced": [each.unannounced for each in groups],
        "tasks": [json.dumps(each.tasks) for each in groups],
        "tenants": [json.dumps(each.tenants) for each in groups],
        "versions": [json.dumps(each.versions) for each in groups],
        "samples": [json.dumps(each.samples) for each in groups],
    }
    db.rows(alias, WRITE, params)


def _death(row: db.Row) -> Death:
    job_id, died_at, queue, task, tenant, reason, fingerprint, exception, frame, message, version = row
    return Death(
        job_id=job_id,
        died_at=died_at,
        queue_name=queue,
        task_name=task,
        tenant_id=tenant,
        reason=reason,
        fingerprint=fingerprint,
        exception=exception,
        frame=frame,
        message=message,
        version=version,
    )


def _group(row: db.Row) -> Group:
    (fingerprint, exception, frame, masked, first, last, state, count, reopened, unannounced, *texts) = row
    tasks, tenants, versions, samples = (json.loads(text) for text in texts)
    return Group(
        fingerprint=fingerprint,
        exception=exception,
        frame=frame,
        masked=masked,
        first_seen_at=first,
        last_seen_at=last,
        state=GroupState(state),
        count=count,
        reopened=reopened,
        unannounced=unannounced,
        tasks=tasks,
        tenants=tenants,
        versions=versions,
        samples=samples,
    )
