"""How cron entries look: the strip of their last runs, lateness in words, what a change of the clock does to them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from djqueue.admin import charts, look, show
from djqueue.models import DeadLetter, Job
from djqueue.policy import words
from djqueue.policy.cron import CronExpression
from djqueue.policy.cronfires import Outcome
from djqueue.policy.cronpreview import local, zone_changes
from djqueue.store import cronedit
from djqueue.store.cronedit import Fired

RUNS = 20
LATE_SECONDS = 30.0
"""A fire or a plan that is later than this is shown as late."""

AHEAD = timedelta(days=366)
MOST_CHANGES = 4
WITHOUT_JOB: Mapping[str, str] = {Outcome.MISSED: "bad", Outcome.OVERLAPPED: "quiet", Outcome.REPLACED: "quiet"}


def strips(alias: str, names: Sequence[str]) -> dict[str, SafeString]:
    """Return the strip of each entry: its last runs, the latest at the right. Three statements for all of them."""
    fires: defaultdict[str, list[Fired]] = defaultdict(list)
    for fired in cronedit.recent(alias, names, RUNS):
        fires[fired.name].append(fired)
    ends = _ends(alias, [fired.job_id for row in fires.values() for fired in row if fired.job_id is not None])
    return {name: _strip(row, ends) for name, row in fires.items()}


def _strip(fires: Sequence[Fired], ends: Mapping[Any, tuple[str, str]]) -> SafeString:
    cells = [_cell(fired, ends) for fired in sorted(fires, key=lambda fired: fired.fire_at)]
    return charts.strip(cells, f"last {words.count(len(cells), 'run')}: {', '.join(said for _, said in cells[-3:])}")


def _cell(fired: Fired, ends: Mapping[Any, tuple[str, str]]) -> tuple[str, str]:
    kind, what = ends.get(fired.job_id, ("ok", "ended"))
    late = (fired.fired_at - fired.fire_at).total_seconds()
    if fired.job_id is None:
        kind, what = WITHOUT_JOB.get(fired.outcome, "busy"), fired.outcome
    elif kind == "ok" and late > LATE_SECONDS:
        kind = "warn"
    return kind, f"{fired.fire_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC, {what}, {words.span(late)} late"


def _ends(alias: str, ids: Sequence[Any]) -> dict[Any, tuple[str, str]]:
    """Tell what became of jobs that have not ended well: those of history have, or were cancelled."""
    live = (
        Job.objects.using(alias).filter(pk__in=ids).only("id", "state", "attempts", "cancel_requested_at", "parked_for")
    )
    found = {job.pk: (look.KINDS.get(show.state_of(job).split(",")[0], "busy"), show.state_of(job)) for job in live}
    dead = DeadLetter.objects.using(alias).filter(pk__in=ids).values_list("pk", flat=True)
    return {**found, **dict.fromkeys(dead, ("bad", "died"))}


def planned(entry: Any) -> SafeString | str:
    """Return when an entry fires next, and by how much that is overdue."""
    if entry.next_fire_at is None or not entry.enabled or entry.removed_at is not None:
        return show.EMPTY
    late = (entry.now - entry.next_fire_at).total_seconds()
    if late <= LATE_SECONDS:
        return show.moment(entry.next_fire_at)
    return format_html("{} {}", show.moment(entry.next_fire_at), look.badge(f"{words.span(late)} late", "warn"))


def changes(expression: CronExpression, zone: ZoneInfo, now: datetime) -> SafeString | str:
    """Return what the clock changes of the coming year do to an entry: the fires around each."""
    found = zone_changes(expression, zone, now, now + AHEAD)[:MOST_CHANGES]
    rows = [
        (
            format_html("{} <br>→ {}", change.before, change.after),
            format_html_join("", "{}<br>", ((local(fire, zone),) for fire in change.fires)),
        )
        for change in found
    ]
    return look.table(["the clock changes", "fires around that"], rows, "Changes of the clock") if rows else ""
