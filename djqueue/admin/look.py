"""The shared look: badges, tiles, figures with their table, links. Everything that comes from a row is escaped.

Colours go by kind, and never alone: ok, warn, bad, busy (something happens), quiet. The style sheet knows the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from djqueue.admin import charts
from djqueue.policy import words

KINDS: Mapping[str, str] = {
    "ready": "busy",
    "scheduled": "quiet",
    "retrying": "warn",
    "parked": "quiet",
    "leased": "busy",
    "running": "busy",
    "succeeded": "ok",
    "cancelled": "quiet",
    "dead": "bad",
    "open": "bad",
    "closed": "ok",
    "half-open": "warn",
    "muted": "quiet",
    "resolved": "ok",
    "paused": "warn",
    "stopped": "bad",
    "finished": "ok",
    "done": "ok",
    "working": "ok",
    "stopping": "warn",
    "silent": "bad",
    "on": "ok",
}
"""The kind of each state, by its first word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One figure: what it is, how much, one line below, where it leads, and whether it is as it should be."""

    label: str
    figure: str
    note: str | SafeString = ""
    kind: str = ""
    url: str = ""
    bar: SafeString | str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart with its words: axis, legend, and the table behind it."""

    title: str
    picture: SafeString
    note: str = ""
    legend: Sequence[tuple[str, str]] = ()
    """Kind and name."""
    levels: Sequence[str] = ()
    """Words at the axis, from the top down."""
    moments: Sequence[str | SafeString] = ()
    """Words below, from left to right."""
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str | SafeString]] = ()
    empty: str = ""
    """What is said in place of a chart without numbers."""
    marks: Sequence[str] = field(default_factory=tuple)


def badge(text: str, kind: str = "") -> SafeString:
    """Return a state as a badge; its kind is that of the state's first word, unless another is given."""
    kind = kind or KINDS.get(text.split(",")[0].split(":")[0].strip(), "quiet")
    return format_html('<span class="djq-badge djq-{}">{}</span>', kind, text)


def meter(part: float, whole: float, text: str, kind: str = "busy") -> SafeString:
    """Return a bar with its words: a progress, a share, a level."""
    return format_html(
        '<span class="djq-meter">{}<span class="djq-meter-text">{}</span></span>',
        charts.bar([(part, kind)], whole, f"{text} ({words.share(part, whole)})"),
        text,
    )


def link(url: str, text: object) -> SafeString:
    """Return a link, or the mere text where it leads nowhere."""
    return format_html('<a href="{}">{}</a>', url, text) if url else format_html("{}", text)


def address(name: str, *args: object, site: str = "admin", **query: str) -> str:
    """Return the address of one of the admin's pages, with a query; nothing where there is no such page."""
    try:
        found = reverse(f"admin:{name}", args=args, current_app=site)
    except NoReverseMatch:
        return ""
    return f"{found}?{urlencode(query)}" if query else found


def tiles(items: Sequence[Tile]) -> SafeString:
    """Return a row of tiles."""
    return _part("tiles", tiles=items)


def figure(item: Figure) -> SafeString:
    """Return a chart with its words and its table."""
    return _part("figure", figure=item)


def table(heads: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> SafeString:
    """Return a plain table; the first column names its row."""
    body = format_html_join("", "<tr>{}</tr>", ((_cells(row),) for row in rows))
    return format_html(
        '<div class="djq-scroll" tabindex="0" role="region" aria-label="{}"><table class="djq-table">'
        "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        caption or ", ".join(heads),
        format_html_join("", '<th scope="col">{}</th>', ((head,) for head in heads)),
        body,
    )


def _cells(row: Sequence[object]) -> SafeString:
    first = format_html('<th scope="row">{}</th>', row[0])
    return format_html("{}{}", first, format_html_join("", "<td>{}</td>", ((cell,) for cell in row[1:])))


def _part(name: str, **context: Any) -> SafeString:
    return render_to_string(f"djqueue/parts/{name}.html", context)
