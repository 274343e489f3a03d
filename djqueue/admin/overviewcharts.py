"""The overview's charts: what ended, how long jobs waited, what took the time, what died. Figures in, pictures out."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from django.utils.safestring import SafeString

from djqueue.admin import charts, look, show
from djqueue.admin.charts import Mark, Series
from djqueue.admin.look import Figure
from djqueue.admin.spans import Span
from djqueue.policy import words
from djqueue.policy.histogram import quantile
from djqueue.store.figures import TaskRuns

OUTCOMES: tuple[tuple[str, str, str], ...] = (
    ("succeeded", "ok", "succeeded"),
    ("scheduled", "warn", "to be tried again"),
    ("cancelled", "quiet", "cancelled"),
    ("dead", "bad", "died"),
)
"""Outcome of an attempt, kind, words."""

MOST_TASKS = 8
Say = Callable[[float], str]
NOTHING = "Nothing has ended in this time."


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def throughput(
    by_outcome: Mapping[str, Sequence[int]], span: Span, now: datetime, versions: Sequence[tuple[str, float]]
) -> Figure:
    """Return how many attempts ended, stacked by what became of them."""
    series = [
        Series(name=name, kind=kind, values=by_outcome[outcome])
        for outcome, kind, name in OUTCOMES
        if sum(by_outcome.get(outcome, ()))
    ]
    totals = [sum(each.values[place] or 0 for each in series) for place in range(span.steps)]
    return Figure(
        title="Throughput",
        note=f"attempts ended per {span.step_words}, {words.amount(sum(totals))} in all",
        picture=charts.columns(
            series, _titles(series, span), _label("Throughput", totals, span), _marks(versions, span, now)
        ),
        legend=[(each.kind, each.name) for each in series],
        levels=_levels(charts.top_of(totals), words.amount),
        moments=_moments(span),
        heads=["from", *(each.name for each in series)],
        rows=_rows(series, span, now, _whole),
        empty="" if series else NOTHING,
        marks=_mark_words(versions),
    )


def latency(
    waits: Mapping[int, Sequence[float]], span: Span, now: datetime, versions: Sequence[tuple[str, float]]
) -> Figure:
    """Return how long attempts waited for their start: the median, and what one in twenty exceeds."""
    series = [
        Series(name=name, kind=kind, values=[quantile(waits.get(place, ()), part) for place in range(span.steps)])
        for name, kind, part in (("p95", "2", 0.95), ("p50", "1", 0.5))
    ]
    values = [value for each in series for value in each.values if value is not None]
    return Figure(
        title="Start latency",
        note="from the moment when a job could run to its start",
        picture=charts.lines(
            series, _titles(series, span, words.span), _latency_label(series), _marks(versions, span, now)
        ),
        legend=[(each.kind, each.name) for each in reversed(series)],
        levels=_levels(charts.top_of(values), words.span),
        moments=_moments(span),
        heads=["from", *(each.name for each in series)],
        rows=_rows(series, span, now, words.span),
        empty="" if values else "Nothing has started in this time.",
        marks=_mark_words(versions),
    )


def deaths(died: Sequence[int], span: Span, now: datetime) -> Figure:
    """Return how many jobs died."""
    series = [Series(name="died", kind="bad", values=died)]
    return Figure(
        title="Deaths",
        note=f"jobs that died per {span.step_words}, {sum(died):,} in all",
        picture=charts.columns(series, _titles(series, span), _label("Deaths", died, span)),
        levels=_levels(charts.top_of(died), words.amount),
        moments=_moments(span),
        heads=["from", "died"],
        rows=_rows(series, span, now, _whole),
        empty="" if sum(died) else "No job has died in this time.",
    )


def tasks(runs: Sequence[TaskRuns]) -> SafeString:
    """Return a table of the tasks that took most time: their share of it as a bar, and how long one attempt takes."""
    whole = sum(run.seconds for run in runs) or 1.0
    rows = [
        (
            show.dotted(run.task_name),
            look.meter(run.seconds, whole, words.share(run.seconds, whole), "1"),
            f"{run.count:,}",
            _span_of(quantile(run.histogram, 0.5)),
            _span_of(quantile(run.histogram, 0.95)),
        )
        for run in runs[:MOST_TASKS]
    ]
    return look.table(["task", "share of the time", "attempts", "p50", "p95"], rows, "Run time by task")


def _span_of(seconds: float | None) -> str:
    return show.EMPTY if seconds is None else words.span(seconds)


def _titles(series: Sequence[Series], span: Span, say: Say = _whole) -> list[str]:
    """What a pointer reads at each step."""
    return [
        f"{span.ago(place)}: "
        + (", ".join(f"{say(value)} {each.name}" for each in series if (value := each.values[place])) or "none")
        for place in range(span.steps)
    ]


def _rows(series: Sequence[Series], span: Span, now: datetime, say: Say) -> list[list[str | SafeString]]:
    """The table behind a chart, the latest first, without steps in which nothing was."""
    return [
        [
            show.moment(span.start_of(place, now)),
            *(show.EMPTY if (value := each.values[place]) is None else say(value) for each in series),
        ]
        for place in reversed(range(span.steps))
        if any(each.values[place] for each in series)
    ]


def _label(name: str, totals: Sequence[float], span: Span) -> str:
    most = max(totals, default=0)
    return f"{name}: {sum(totals):,.0f} in {words.span(span.seconds)}, at most {most:,.0f} per {span.step_words}"


def _latency_label(series: Sequence[Series]) -> str:
    greatest = [max((value for value in each.values if value is not None), default=None) for each in series]
    return "Start latency: " + ", ".join(
        f"{each.name} at most {words.span(value)}"
        for each, value in zip(series, greatest, strict=True)
        if value is not None
    )


def _levels(top: float, say: Say) -> list[str]:
    return [say(top), say(top / 2), "0"]


def _moments(span: Span) -> list[str]:
    return [f"{words.span(span.seconds)} ago", f"{words.span(span.seconds / 2)} ago", "now"]


def _marks(versions: Sequence[tuple[str, float]], span: Span, now: datetime) -> list[Mark]:
    return [
        Mark(place=span.place_of(ago, now), words=f"version {version}, first seen {words.span(ago)} ago")
        for version, ago in versions
    ]


def _mark_words(versions: Sequence[tuple[str, float]]) -> list[str]:
    return [f"version {version[:40]}, {words.span(ago)} ago" for version, ago in versions[-5:]]
