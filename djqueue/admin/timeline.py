"""A job's life as a picture to scale, and in words below it."""

from collections.abc import Sequence
from datetime import datetime

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from djqueue.admin import look, show
from djqueue.policy.timeline import Kind, Stretch, stretches
from djqueue.policy.words import span
from djqueue.store.story import Story

WIDTH = 1_000
LEAST = 2.0
"""How wide a stretch is at least, so that it can be seen."""

COLOURS = {
    Kind.WAITED: "quiet",
    Kind.FAILED: "bad",
    Kind.BACK_OFF: "warn",
    Kind.RUNNING: "busy",
    Kind.SUCCEEDED: "ok",
    Kind.ENDED: "busy",
    Kind.DEAD: "6",
}


def of(story: Story) -> SafeString:
    """Return the picture with its table."""
    found = stretches(
        now=story.now,
        state=story.state,
        attempts=story.attempts,
        created_at=story.created_at,
        started_at=story.started_at,
        ended_at=story.ended_at,
        entries=story.entries,
    )
    if not found:
        return SafeString("")
    whole = max((found[-1].ends_at - found[0].begins_at).total_seconds(), 1e-6)
    return look.figure(
        look.Figure(
            title="Timeline",
            note=f"{span(whole)} {'in all' if story.ended_at else 'until now'}",
            picture=_picture(found, whole),
            legend=[(COLOURS[kind], str(kind)) for kind in Kind if any(each.kind is kind for each in found)],
            moments=[show.moment(found[0].begins_at), show.moment(found[-1].ends_at)],
            heads=("what", "from", "to", "took"),
            rows=[(each.words, _exact(each.begins_at), _exact(each.ends_at), span(each.seconds)) for each in found],
        )
    )


def _picture(found: Sequence[Stretch], whole: float) -> SafeString:
    begin = found[0].begins_at
    rects = (
        (
            _n(min(WIDTH - LEAST, _place(each.begins_at, begin, whole))),
            _n(max(LEAST, WIDTH * each.seconds / whole)),
            COLOURS[each.kind],
            f"{each.words}: {span(each.seconds)}",
        )
        for each in found
    )
    return format_html(
        '<svg class="djq-timeline" viewBox="0 0 {} 40" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>',
        WIDTH,
        "Timeline: " + ", ".join(f"{each.words} {span(each.seconds)}" for each in found[:20]),
        format_html_join(
            "",
            '<rect x="{}" y="0" width="{}" height="40" class="djq-s-{}"><title>{}</title></rect>',
            rects,
        ),
    )


def _place(moment: datetime, begin: datetime, whole: float) -> float:
    return WIDTH * (moment - begin).total_seconds() / whole


def _exact(moment: datetime) -> SafeString:
    return SafeString(show.moment(moment))


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
