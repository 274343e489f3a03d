"""What is wrong with a queue's surroundings, from what was seen there: the judgement of `djqueue doctor`.

Invariant: pure, and silent where all is well: what is merely unusual is no finding, and every finding names a remedy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from djqueue.conf import Options
from djqueue.policy import sizing
from djqueue.policy.words import count, share, span

HOLDS_TOO_LONG_SECONDS = 300
"""An older snapshot keeps dead rows that claims must then step over."""
IDLE_TOO_LONG_SECONDS = 60
STANDBY_LAGS_TRANSACTIONS = 1_000_000
TOO_MANY_DEAD_ROWS = 50_000
"""The leader vacuums at 10,000: with five times as many, it can't, or vacuum is held back."""
DAYS_AHEAD = 2
"""Partitions are made for 14 days ahead: where tomorrow's is missing, making them has failed for long."""
NOTIFY_QUEUE_SHARE = 0.1
CRON_LATE_SECONDS = 600


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"
    """Jobs do not run, or soon will not."""
    WARNING = "warning"
    """It works, but worse than it could, or not for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that should be otherwise."""

    id: str
    severity: Severity
    found: str
    """What was expected and what was there."""
    why: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Somebody who keeps vacuum from removing dead rows."""

    kind: str
    """`session`, `prepared transaction`, `replication slot` or `standby`."""
    name: str
    who: str
    seconds: float
    transactions: int
    """The age of its snapshot in transactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table's rows, by the server's statistics."""

    name: str
    live: int
    dead: int
    vacuumed_seconds: float | None
    """How long ago it was vacuumed; None: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Connections: what the server gives to ordinary roles, and who may want them."""

    allowed: int
    supervisors: int
    processes: int
    slots: int


def holders(found: Sequence[Holder]) -> Iterator[Finding]:
    """Judge who holds back vacuum."""
    remedies = {
        "session": "End it: select pg_terminate_backend(pid). Set idle_in_transaction_session_timeout or, from "
        "PostgreSQL 17, transaction_timeout for its role.",
        "prepared transaction": "End it: COMMIT PREPARED or ROLLBACK PREPARED.",
        "replication slot": "Let its standby connect again, or drop it: select pg_drop_replication_slot(name).",
        "standby": "Cancel the long query there, or set hot_standby_feedback off there.",
    }
    for each in found:
        lags = each.transactions > STANDBY_LAGS_TRANSACTIONS
        if (
            each.kind == "replication slot"
            or lags
            or (each.kind != "standby" and each.seconds > HOLDS_TOO_LONG_SECONDS)
        ):
            old = f"for {span(each.seconds)}, " if each.seconds else ""
            yield Finding(
                id="vacuum_held_back",
                severity=Severity.WARNING,
                found=f"expected no old snapshot, got {each.kind} {each.name} of {each.who or 'nobody'}, {old}"
                f"{each.transactions:,} transactions old",
                why="Vacuum can't remove rows that died since: claims step over them, and tables and WAL grow.",
                remedy=remedies[each.kind],
            )


def idle(sessions: Sequence[Holder]) -> Iterator[Finding]:
    """Judge sessions that do nothing inside a transaction: atomic handlers that wait, or clients that forgot it."""
    for each in sessions:
        if each.seconds > IDLE_TOO_LONG_SECONDS:
            yield Finding(
                id="idle_in_transaction",
                severity=Severity.WARNING,
                found=f"expected short transactions, got session {each.name} of {each.who}, idle in one for "
                f"{span(each.seconds)}",
                why="It holds its locks and a connection; an atomic handler should not wait for others meanwhile.",
                remedy="Move what waits (HTTP, files) out of the transaction or of the task with atomic=True.",
            )


def dead_rows(tables: Sequence[Table]) -> Iterator[Finding]:
    """Judge how many dead rows lie in the tables."""
    for each in tables:
        if each.dead > TOO_MANY_DEAD_ROWS and each.dead > each.live:
            ago = "never" if each.vacuumed_seconds is None else f"{span(each.vacuumed_seconds)} ago"
            yield Finding(
                id="dead_rows",
                severity=Severity.WARNING,
                found=f"expected at most {TOO_MANY_DEAD_ROWS:,} dead rows in {each.name}, got {each.dead:,} beside "
                f"{each.live:,} live ones; vacuumed {ago}",
                why="Each claim may have to step over them.",
                remedy="Look who holds back vacuum; let the workers' role own the table or grant MAINTAIN; see that "
                "autovacuum is on.",
            )


def partitions(missing: int, overflow: int) -> Iterator[Finding]:
    """Judge the days of history: how many of the next ones are missing, and rows that found none."""
    why = "Finished jobs then go to the overflow, which is pruned row by row."
    remedy = "Let workers run; their role must own djqueue_history. Look for `ensure partitions` in their log, and for "
    remedy += "long transactions that read djqueue_history."
    if missing:
        yield Finding(
            id="partitions_missing",
            severity=Severity.WARNING,
            found=f"expected a partition of djqueue_history for each day until tomorrow, got {missing} too few",
            why=why,
            remedy=remedy,
        )
    if overflow:
        more = "+" if overflow >= 10_000 else ""
        yield Finding(
            id="history_overflow",
            severity=Severity.WARNING,
            found=f"expected no rows in djqueue_history_overflow, got {overflow:,}{more}",
            why=why,
            remedy=remedy,
        )


def claim_plan(plan: str) -> Iterator[Finding]:
    """Judge the plan of a claim, made with sequential scans off."""
    if "djqueue_job_claim" not in plan:
        yield Finding(
            id="claim_without_index",
            severity=Severity.ERROR,
            found="expected the claim to go by the index djqueue_job_claim, got a plan without it",
            why="Each claim reads and sorts the whole table.",
            remedy="See that the index exists and is valid (\\d djqueue_job); REINDEX INDEX CONCURRENTLY "
            "djqueue_job_claim, or make it again as the migration does.",
        )


def notifications(used: float) -> Iterator[Finding]:
    """Judge the queue of notifications."""
    if used > NOTIFY_QUEUE_SHARE:
        yield Finding(
            id="notify_queue",
            severity=Severity.WARNING,
            found=f"expected a notification queue that is almost empty, got {share(used, 1)} in use",
            why="When it is full, every transaction that notifies fails: enqueues too.",
            remedy="A session that has said LISTEN stays in a transaction: end it.",
        )


def connections(budget: Budget) -> Iterator[Finding]:
    """Judge whether the fleet fits into the server."""
    wanted = sizing.KEEPER_CONNECTIONS * budget.supervisors + sizing.WORKER_CONNECTIONS * budget.processes
    wanted += budget.slots
    if wanted > budget.allowed:
        yield Finding(
            id="connections",
            severity=Severity.WARNING,
            found=f"expected at most {count(budget.allowed, 'connection')} (max_connections without the reserved "
            f"ones), got {count(budget.supervisors, 'supervisor')}, {count(budget.processes, 'worker')} and "
            f"{count(budget.slots, 'slot')} that may open {wanted}",
            why="When all slots are busy, handlers and web servers are refused with `too many clients`.",
            remedy="Raise max_connections, run fewer slots, or put PgBouncer between.",
        )


def orphans(tasks: Sequence[tuple[str, int]]) -> Iterator[Finding]:
    """Judge tasks that no worker knows, each with its jobs."""
    for name, jobs in tasks:
        yield Finding(
            id="orphans",
            severity=Severity.WARNING,
            found=f"expected workers to know every task, got {count(jobs, 'job')} of {name}, which none knows",
            why="These jobs wait, for ever if need be.",
            remedy="Deploy the code with this task, give the task its old name as an alias, or cancel them.",
        )


def workers(live: int, ready: bool) -> Iterator[Finding]:
    """Judge whether somebody works."""
    if ready and not live:
        yield Finding(
            id="no_worker",
            severity=Severity.ERROR,
            found="expected a live worker, got none, and jobs are ready",
            why="Nothing runs.",
            remedy="Start manage.py runworker.",
        )


def versions(found: Sequence[str]) -> Iterator[Finding]:
    """Judge the versions of the code that live workers run."""
    if len(found) > 1:
        yield Finding(
            id="code_versions",
            severity=Severity.WARNING,
            found=f"expected one version of the code among live workers, got {', '.join(sorted(found))}",
            why="During a deploy that is as it should be; later it is a worker that was forgotten.",
            remedy="Restart the older ones.",
        )


def schema(applied: Sequence[str], known: Sequence[str]) -> Iterator[Finding]:
    """Judge djqueue's migrations: those of the database against those of this code."""
    if newer := sorted(set(applied) - set(known)):
        yield Finding(
            id="schema_newer",
            severity=Severity.WARNING,
            found=f"expected a schema that this code knows, got {', '.join(newer)} as well",
            why="Migrations are additive, so this code goes on; what is new there it does not do.",
            remedy="Install the release of djqueue that the database was migrated with.",
        )
    if older := sorted(set(known) - set(applied)):
        yield Finding(
            id="schema_older",
            severity=Severity.ERROR,
            found=f"expected all migrations of this code, got none of {', '.join(older)}",
            why="Statements fail on columns and tables that are not there.",
            remedy="Run manage.py migrate.",
        )


def cron(entries: Sequence[tuple[str, str, float]]) -> Iterator[Finding]:
    """Judge entries that do not fire: each with its error, or how late it is."""
    for name, error, late in entries:
        if error or late > CRON_LATE_SECONDS:
            yield Finding(
                id="cron_never_fires",
                severity=Severity.WARNING,
                found=f"expected cron entry {name} to fire, got {error or f'nothing for {span(late)}'}",
                why="Its jobs are not enqueued.",
                remedy="Mend the entry (manage.py djqueue cron list); see that a worker runs without --no-cron.",
            )


def rights(missing: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """Judge the rights that this role lacks on the tables that a worker uses."""
    by_table: dict[str, list[str]] = {}
    for table, right in missing:
        by_table.setdefault(table, []).append(right)
    for table, lacking in by_table.items():
        yield Finding(
            id="rights_missing",
            severity=Severity.ERROR,
            found=f"expected all rights of a worker on {table}, got none to {', '.join(lacking)}",
            why="Statements of workers that connect with this role fail.",
            remedy=f"GRANT {', '.join(lacking)} ON {table} TO the role.",
        )


def settings(options: Options, limits_of_queues: Sequence[tuple[str, int | None]]) -> Iterator[Finding]:
    """Judge settings that contradict each other."""
    if options.poll_seconds >= options.lease_seconds:
        yield _contradiction(
            f"poll_seconds below lease_seconds ({options.lease_seconds:g})",
            f"{options.poll_seconds:g}",
            "What came back from a lost worker waits longer for a look than for its lease.",
            "Lower poll_seconds.",
        )
    if options.retry_base_seconds > options.retry_cap_seconds:
        yield _contradiction(
            f"retry_base_seconds up to retry_cap_seconds ({options.retry_cap_seconds:g})",
            f"{options.retry_base_seconds:g}",
            "Every retry waits at the cap: the backoff does not grow.",
            "Raise the cap or lower the base.",
        )
    for name, most in limits_of_queues:
        if most == 0:
            yield _contradiction(
                f"max_running of queue {name} to be 1 or more",
                "0",
                "Nothing of it ever runs.",
                "Raise it, or pause it.",
            )


def not_seen(what: str, error: str) -> Finding:
    """Say that something could not be looked at."""
    return Finding(
        id="not_seen",
        severity=Severity.WARNING,
        found=f"expected to see {what}, got {error}",
        why="What could not be looked at may be wrong.",
        remedy="Give this role the right to look, or ask again when the server is less busy.",
    )


def _contradiction(expected: str, got: str, why: str, remedy: str) -> Finding:
    return Finding(
        id="settings", severity=Severity.WARNING, found=f"expected {expected}, got {got}", why=why, remedy=remedy
    )
