"""The overview: a verdict in words, alarms that lead to their cause, figures, charts, queues.

It stands on the app's own index page. Invariant: it reads what the leader and the workers have summed up, in a handful
of statements, and says how old that is; it never looks at jobs or history.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from djqueue.admin import charts, fragments, look, overviewcharts, show, source, spans
from djqueue.admin.look import Tile
from djqueue.admin.spans import Span
from djqueue.policy import health, words
from djqueue.policy.forecast import Forecast
from djqueue.policy.health import About, Level, QueueFacts
from djqueue.store import figures, forecast
from djqueue.store.figures import Fleet, QueueRow, Signs

KINDS = {Level.OK: "ok", Level.NOTE: "quiet", Level.WARN: "warn", Level.BAD: "bad"}
PERMISSION = "djqueue.view_queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at everything."""

    queues: Sequence[QueueRow]
    fleet: Fleet
    signs: Signs
    ended: figures.Ended
    waits: Mapping[int, Sequence[float]]
    runs: Sequence[figures.TaskRuns]
    orphans: Sequence[tuple[str, int]]
    forecasts: Mapping[str, Forecast]


def is_allowed(request: HttpRequest) -> bool:
    """Tell whether the user may see figures: whoever may see queues."""
    return request.user.has_perm(PERMISSION)


def view(request: HttpRequest, site_name: str) -> HttpResponse:
    """Answer the script with the live part; lead everybody else to the page that it is a part of."""
    if fragments.is_asked(request):
        return fragments.answer(request, panel(request, site_name).encode())
    address = reverse("admin:app_list", args=["djqueue"], current_app=site_name)
    return HttpResponseRedirect(f"{address}?{urlencode({'span': _span(request).key})}")


def panel(request: HttpRequest, site_name: str) -> SafeString:
    """Return the overview, without what stands around it."""
    span = _span(request)
    seen = _look(span)
    facts = _facts(seen)
    verdict = health.judge(facts)
    first, others = None, verdict.alarms
    if verdict.level >= Level.WARN:
        first, *others = verdict.alarms
    context = {
        "verdict": verdict.text if first is None else look.link(_cause(first, site_name), first.text),
        "kind": KINDS[verdict.level],
        "age": "" if facts.figures_seconds is None else words.span(facts.figures_seconds),
        "alarms": [(KINDS[each.level], look.link(_cause(each, site_name), each.text)) for each in others],
        "tiles": look.tiles(_tiles(seen, facts, site_name)),
        "spans": [(each.key, each.key == span.key) for each in spans.SPANS.values()],
        "figures": [look.figure(each) for each in _figures(seen, span)],
        "tasks": overviewcharts.tasks(seen.runs) if seen.runs else "",
        "queues": _queues(seen, facts, site_name),
    }
    return render_to_string("djqueue/overview.html", context)


def _span(request: HttpRequest) -> Span:
    return spans.chosen(request.GET.get("span"))


def _look(span: Span) -> Look:
    alias = source.alias()
    return Look(
        queues=figures.queues(alias),
        fleet=figures.fleet(alias),
        signs=figures.signs(alias, span.seconds),
        ended=figures.ended(alias, span.step_seconds, span.steps),
        waits=figures.waits(alias, span.step_seconds, span.steps),
        runs=figures.runs(alias, span.step_seconds, span.steps),
        orphans=[(name, jobs) for name, jobs, _, _ in figures.orphans(alias)],
        forecasts={queue.name: queue.forecast for queue in forecast.queues(alias)},
    )


def _facts(seen: Look) -> health.Facts:
    ages = [queue.figures_seconds for queue in seen.queues if queue.figures_seconds is not None]
    return health.Facts(
        figures_seconds=max(ages, default=None),
        queues=[queue_facts(queue, seen.fleet) for queue in seen.queues],
        workers=seen.fleet.workers,
        silent_workers=seen.fleet.silent,
        has_leader=seen.fleet.has_leader,
        died=seen.signs.died,
        ended=seen.signs.ended,
        causes=[
            health.Cause(fingerprint=print_, name=name, deaths=deaths, seconds_ago=ago)
            for print_, name, deaths, ago in seen.signs.causes
        ],
        orphans=seen.orphans,
        open_circuits=seen.signs.open_circuits,
        broken_entries=seen.signs.broken_entries,
        stopped_replays=seen.signs.stopped_replays,
    )


def queue_facts(queue: QueueRow, fleet: Fleet) -> QueueFacts:
    """Return what the verdict needs to know of a queue."""
    return QueueFacts(
        name=queue.name,
        ready=queue.ready,
        oldest_seconds=queue.oldest_seconds,
        target_seconds=queue.target_seconds,
        paused_seconds=queue.paused_seconds,
        paused_by=queue.paused_by,
        paused_reason=queue.paused_reason,
        is_served=bool({"*", queue.name} & fleet.served),
    )


def _cause(alarm: health.Alarm, site: str) -> str:
    """Where the cause of an alarm can be seen."""
    subject = alarm.subject
    match alarm.about:
        case About.QUEUE:
            return look.address("djqueue_queue_change", subject, site=site)
        case About.JOBS:
            return look.address("djqueue_job_changelist", site=site, queue=subject, state="ready")
        case About.WORKERS:
            return look.address("djqueue_worker_changelist", site=site)
        case About.DEATHS:
            return look.address("djqueue_deadletter_changelist", site=site)
        case About.CAUSE:
            return look.address("djqueue_errorgroup_change", subject, site=site)
        case About.ORPHANS:
            return look.address("djqueue_orphans", site=site)
        case About.CIRCUIT:
            return look.address("djqueue_circuit_change", subject, site=site)
        case About.CRON:
            return look.address("djqueue_cronentry_changelist", site=site, q=subject)
        case About.REPLAY:
            return look.address("djqueue_replay_change", subject, site=site)


def _tiles(seen: Look, facts: health.Facts, site: str) -> list[Tile]:
    ready, running = sum(queue.ready for queue in seen.queues), sum(queue.leased for queue in seen.queues)
    retrying = sum(queue.retrying for queue in seen.queues)
    scheduled = sum(queue.scheduled for queue in seen.queues) - retrying
    parked = sum(queue.parked for queue in seen.queues)
    slots, dead = seen.fleet.slots, seen.signs.died_in_a_day
    jobs = "djqueue_job_changelist"
    return [
        Tile(
            label="Ready", figure=f"{ready:,}", note="can start now", url=look.address(jobs, site=site, state="ready")
        ),
        Tile(
            label="Running",
            figure=f"{running:,}",
            note=f"of {words.count(slots, 'slot')}, {words.count(seen.fleet.workers, 'worker')}",
            bar=charts.bar([(running, "busy")], slots, f"{running} of {slots} slots"),
            url=look.address(jobs, site=site, state="running"),
        ),
        Tile(
            label="Scheduled",
            figure=f"{scheduled:,}",
            note=f"and {parked:,} parked" if parked else "for later",
            url=look.address(jobs, site=site, state="scheduled"),
        ),
        Tile(
            label="Retrying",
            figure=f"{retrying:,}",
            note="wait for another attempt",
            kind="warn" if retrying else "",
            url=look.address(jobs, site=site, state="retrying"),
        ),
        Tile(
            label="Dead in 24 h",
            figure=f"{dead:,}",
            note=f"{seen.signs.died:,} in the last hour",
            kind="bad" if dead else "",
            url=look.address("djqueue_deadletter_changelist", site=site),
        ),
        _oldest(facts),
    ]


def _oldest(facts: health.Facts) -> Tile:
    waiting = [queue for queue in facts.queues if queue.oldest_seconds is not None and queue.paused_seconds is None]
    if not waiting:
        return Tile(label="Oldest ready job", figure="none", note="nothing waits")
    oldest = max(waiting, key=lambda queue: queue.oldest_seconds or 0.0)
    is_late = any(map(health.is_late, waiting))
    return Tile(
        label="Oldest ready job",
        figure=words.span(oldest.oldest_seconds or 0.0),
        note=f"in {oldest.name}, target {words.span(health.target_of(oldest))}",
        kind="bad" if is_late else "",
    )


def _figures(seen: Look, span: Span) -> list[look.Figure]:
    now, versions = seen.fleet.now, seen.signs.versions
    return [
        overviewcharts.throughput(seen.ended.by_outcome, span, now, versions),
        overviewcharts.latency(seen.waits, span, now, versions),
        overviewcharts.deaths(seen.ended.by_outcome.get("dead", [0] * span.steps), span, now),
    ]


def _queues(seen: Look, facts: health.Facts, site: str) -> SafeString | str:
    """The table of queues; one that needs eyes stands first."""
    pairs = sorted(
        zip(seen.queues, facts.queues, strict=True), key=lambda pair: (not health.is_late(pair[1]), pair[0].name)
    )
    rows = [_queue_row(queue, each, seen, site) for queue, each in pairs]
    heads = ["queue", "state", "ready", "oldest", "running", "scheduled", "ended", "drains in", "weight"]
    return look.table(heads, rows, "Queues") if rows else ""


def _queue_row(queue: QueueRow, each: QueueFacts, seen: Look, site: str) -> list[object]:
    ended = seen.ended.by_queue.get(queue.name, [])
    return [
        look.link(look.address("djqueue_queue_change", queue.name, site=site), queue.name),
        queue_state(each, seen.fleet.workers),
        look.link(
            look.address("djqueue_job_changelist", site=site, queue=queue.name, state="ready"), f"{queue.ready:,}"
        ),
        show.EMPTY if queue.oldest_seconds is None else words.span(queue.oldest_seconds),
        f"{queue.leased:,}",
        f"{queue.scheduled:,}",
        charts.sparkline(ended, f"ended: {words.count(sum(ended), 'attempt')}"),
        drains_in(each, seen.forecasts.get(queue.name)),
        show.EMPTY if queue.weight is None else queue.weight,
    ]


def queue_state(queue: QueueFacts, workers: int) -> SafeString:
    """Return how a queue does, as a badge."""
    if queue.paused_seconds is not None:
        return look.badge("paused", "warn")
    if queue.ready and (not workers or not queue.is_served):
        return look.badge("not served", "bad")
    if health.is_late(queue):
        return look.badge("late", "bad")
    return look.badge("on time" if queue.ready else "idle", "ok" if queue.ready else "quiet")


def drains_in(queue: QueueFacts, found: Forecast | None) -> str:
    """Say when the queue is empty if it goes on as it did, and nothing more arrives."""
    if not queue.ready or found is None:
        return show.EMPTY
    if queue.paused_seconds is not None or found.drain_seconds is None:
        return "not at this pace"
    return f"about {words.span(max(1.0, found.drain_seconds))}"
