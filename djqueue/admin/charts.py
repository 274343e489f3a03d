"""Charts and bars: numbers in, SVG out. Shapes only; words stand beside them as text, and every number in a table.

Invariant: attributes and classes, never a style or a script, so that the strictest content security policy lets them
be; and every shape has a name for those who don't see it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

STEP = 10
HEIGHT = 100
SPARK_HEIGHT = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One row of numbers; `kind` names its colour: ok, warn, bad, busy, quiet, or a number from 1 to 6."""

    name: str
    kind: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment that is marked in a chart: at which place of the row, and what happened."""

    place: float
    words: str


def top_of(values: Iterable[float]) -> float:
    """Return the end of an axis: 1, 2 or 5 times a power of ten, at or above the greatest value."""
    greatest = max(values, default=0.0)
    if greatest <= 0 or not math.isfinite(greatest):
        return 1.0
    power = 10.0 ** math.floor(math.log10(greatest))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= greatest * (1 - 1e-9))


def columns(series: Sequence[Series], titles: Sequence[str], label: str, marks: Sequence[Mark] = ()) -> SafeString:
    """Return stacked columns, one for each title, which a pointer that rests there reads."""
    stacks = [[each.values[place] or 0.0 for each in series] for place in range(len(titles))]
    top = top_of(sum(stack) for stack in stacks)
    kinds = [each.kind for each in series]
    groups = ((titles[place], _column(place, stack, kinds, top)) for place, stack in enumerate(stacks))
    body = format_html_join("", "<g><title>{}</title>{}</g>", groups)
    return _picture(len(titles), label, body, marks)


def lines(series: Sequence[Series], titles: Sequence[str], label: str, marks: Sequence[Mark] = ()) -> SafeString:
    """Return stepped lines, with a gap where there is no value."""
    top = top_of(value for each in series for value in each.values if value is not None)
    paths = format_html_join(
        "", '<path class="djq-line djq-s-{}" d="{}"/>', ((each.kind, _path(each.values, top)) for each in series)
    )
    hits = format_html_join("", "<g><title>{}</title>{}</g>", ((titles[n], _hit(n)) for n in range(len(titles))))
    return _picture(len(titles), label, format_html("{}{}", paths, hits), marks)


def sparkline(values: Sequence[float], label: str) -> SafeString:
    """Return a small row of columns without any words."""
    top = max(values, default=0.0) or 1.0
    rects = format_html_join(
        "",
        '<rect x="{}" y="{}" width="{}" height="{}"/>',
        (
            (n * STEP + 1, _n(SPARK_HEIGHT - tall), STEP - 2, _n(tall))
            for n, tall in enumerate(_tall(value, top, SPARK_HEIGHT) for value in values)
            if tall
        ),
    )
    return format_html(
        '<svg class="djq-spark" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>',
        max(1, len(values)) * STEP,
        SPARK_HEIGHT,
        label,
        rects,
    )


def bar(parts: Sequence[tuple[float, str]], whole: float, label: str) -> SafeString:
    """Return a level bar, filled by parts of a whole from the left; each part with the kind of its colour."""
    at, rects = 0.0, []
    for part, kind in parts:
        width = min(100.0 - at, 100 * max(0.0, part) / whole) if whole > 0 else 0.0
        if width > 0:
            rects.append((_n(at), _n(max(width, 0.5)), kind))
            at += width
    return format_html(
        '<svg class="djq-bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>',
        label,
        format_html_join("", '<rect x="{}" y="0" width="{}" height="8" class="djq-s-{}"/>', rects),
    )


def strip(cells: Sequence[tuple[str, str]], label: str) -> SafeString:
    """Return a row of cells: what happened, one time after another. Each has its kind and its words."""
    rects = ((n * STEP, kind, words) for n, (kind, words) in enumerate(cells))
    return format_html(
        '<svg class="djq-strip" viewBox="0 0 {} 16" width="{}" height="16" role="img" aria-label="{}">{}</svg>',
        max(1, len(cells)) * STEP,
        max(1, len(cells)) * STEP,
        label,
        format_html_join(
            "",
            '<rect x="{}" y="0" width="8" height="16" rx="2" class="djq-s-{}"><title>{}</title></rect>',
            rects,
        ),
    )


def _picture(count: int, label: str, body: SafeString, marks: Sequence[Mark]) -> SafeString:
    return format_html(
        '<svg class="djq-plot" viewBox="0 0 {0} {1}" preserveAspectRatio="none" role="img" aria-label="{2}">'
        '<path class="djq-grid" d="M0 0.5H{0}M0 50H{0}M0 99.5H{0}"/>{3}{4}</svg>',
        max(1, count) * STEP,
        HEIGHT,
        label,
        body,
        format_html_join(
            "",
            '<g class="djq-mark"><title>{}</title><path d="M{} 0V100"/></g>',
            ((mark.words, _n(mark.place * STEP)) for mark in marks),
        ),
    )


def _column(place: int, stack: Sequence[float], kinds: Sequence[str], top: float) -> SafeString:
    rects, below = [], 0.0
    for value, kind in zip(stack, kinds, strict=True):
        tall = _tall(value, top, HEIGHT)
        if tall:
            rects.append((place * STEP + 1, _n(max(0.0, HEIGHT - below - tall)), STEP - 2, _n(tall), kind))
            below += tall
    found = format_html_join("", '<rect x="{}" y="{}" width="{}" height="{}" class="djq-s-{}"/>', rects)
    return format_html("{}{}", _hit(place), found)


def _hit(place: int) -> SafeString:
    """What a pointer meets above a low column."""
    return format_html('<rect class="djq-hit" x="{}" y="0" width="{}" height="{}"/>', place * STEP, STEP, HEIGHT)


def _path(values: Sequence[float | None], top: float) -> str:
    found, down = [], False
    for place, value in enumerate(values):
        if value is None:
            down = False
            continue
        y = _n(HEIGHT - min(HEIGHT, HEIGHT * value / top))
        found.append(f"{'V' if down else f'M{place * STEP} '}{y}H{(place + 1) * STEP}")
        down = True
    return "".join(found)


def _tall(value: float | None, top: float, height: int) -> float:
    """How high a value stands; what is there is seen."""
    return 0.0 if not value or value <= 0 else max(1.0, min(float(height), height * value / top))


def _n(number: float) -> str:
    """A number as SVG wants it, in whatever language the page is."""
    return f"{number:.2f}".rstrip("0").rstrip(".")
