"""The doctor: every look with its judgement, one after the other. The command and the admin page show what it says.

Invariant: what can't be looked at is a finding too, and never keeps the other looks from being taken.
"""

import pkgutil
from collections.abc import Callable, Iterable, Iterator

from djqueue import migrations
from djqueue.conf import Options
from djqueue.policy import diagnosis
from djqueue.policy.diagnosis import Finding, Severity
from djqueue.store import claim, doctor, faults

Judgement = Callable[[], Iterable[Finding]]


def examine(alias: str, options: Options) -> list[Finding]:
    """Return what should be otherwise, the worst first; nothing where all is well."""
    found = [finding for what, judge in _looks(alias, options) for finding in _looked(alias, what, judge)]
    return sorted(found, key=lambda each: each.severity is not Severity.ERROR)


def _looks(alias: str, options: Options) -> Iterator[tuple[str, Judgement]]:
    yield "the migrations", lambda: diagnosis.schema(doctor.applied(alias), known_migrations())
    yield "this role's rights", lambda: diagnosis.rights(doctor.rights(alias))
    yield "the plan of a claim", lambda: diagnosis.claim_plan(doctor.claim_plan(alias))
    yield "live workers", lambda: diagnosis.workers(doctor.budget(alias).processes, bool(claim.queues_with_jobs(alias)))
    yield "orphans", lambda: diagnosis.orphans(doctor.orphans(alias))
    yield "cron entries", lambda: diagnosis.cron(doctor.cron(alias))
    yield "who holds back vacuum", lambda: diagnosis.holders(doctor.holders(alias))
    yield "idle transactions", lambda: diagnosis.idle(doctor.idle(alias))
    yield "dead rows", lambda: diagnosis.dead_rows(doctor.tables(alias))
    yield "the days of history", lambda: diagnosis.partitions(*doctor.days(alias))
    yield "the notification queue", lambda: diagnosis.notifications(doctor.notify_queue(alias))
    yield "connections", lambda: diagnosis.connections(doctor.budget(alias))
    yield "versions of the code", lambda: diagnosis.versions(doctor.versions(alias))
    yield "settings", lambda: diagnosis.settings(options, doctor.limits(alias))


def known_migrations() -> list[str]:
    """Return the migrations that this code has."""
    return [module.name for module in pkgutil.iter_modules(migrations.__path__) if module.name[0].isdigit()]


def _looked(alias: str, what: str, judge: Judgement) -> list[Finding]:
    try:
        with doctor.look(alias):
            return list(judge())
    except faults.ERRORS as error:
        return [diagnosis.not_seen(what, faults.words(error))]
