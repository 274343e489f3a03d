"""Who leads: one row per duty with a holder, a term and an end, by the database's clock. No session locks.

     nobody ──acquire──► A leads, term 1 ──renews──► A, term 1, later end
        ▲                      │ release, or the end passes
        └──────────────────────┴──acquire by B──► B leads, term 2

The lease saves work, it proves nothing: a holder that was frozen may believe in it for a moment after its end, so
whatever a leader does must be harmless when two do it.
"""

from dataclasses import dataclass

from djqueue.store import db


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """A lease that is held; `term` has grown with every new holder."""

    term: int


# One guarded upsert. The conflicting row is locked before the guard looks at it, so of two that want an ended lease one
# wins; `clock_timestamp()` is read again after that wait.
ACQUIRE = """
insert into djqueue_leader as l (name, holder, term, until)
values (%(name)s, %(holder)s, 1, clock_timestamp() + make_interval(secs => %(seconds)s::float8))
on conflict (name) do update set holder = excluded.holder,
    term = l.term + case when l.holder = excluded.holder then 0 else 1 end,
    until = clock_timestamp() + make_interval(secs => %(seconds)s::float8)
where l.holder = excluded.holder or l.until < clock_timestamp()
returning term
"""
# The row stays, and with it the term.
RELEASE = """
update djqueue_leader set holder = '', until = clock_timestamp() - interval '1 ms'
where name = %(name)s and holder = %(holder)s
returning term
"""


def acquire(alias: str, name: str, holder: str, seconds: float) -> Lead | None:
    """Take or renew the lease for so many seconds; None while another holds it."""
    found = db.rows(alias, ACQUIRE, {"name": name, "holder": holder, "seconds": seconds})
    return Lead(term=found[0][0]) if found else None


def release(alias: str, name: str, holder: str) -> bool:
    """End the lease at once; return whether this holder had it."""
    return bool(db.rows(alias, RELEASE, {"name": name, "holder": holder}))
