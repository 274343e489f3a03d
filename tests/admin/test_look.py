"""The shared look: pictures whole and escaped, the row of links, the live part of a page."""

import copy
import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import pytest
from django.urls import reverse

from djqueue.admin import charts, look
from djqueue.admin.charts import Mark, Series
from djqueue.admin.fragments import HEADER
from djqueue.admin.look import Figure, Tile
from djqueue.models import Queue
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import list_of, page_of, text_of

NASTY = "<script>alert('\u202e')</script>\"&"
LIVE = {HEADER: "1"}


def rects(picture: str, css: str) -> list[dict[str, str]]:
    """The shapes of a picture that have a class."""
    root = ElementTree.fromstring(picture)
    return [dict(each.attrib) for each in root.iter("rect") if each.get("class") == css]


@pytest.mark.parametrize(("values", "top"), [([], 1), ([0], 1), ([3], 5), ([5], 5), ([5.1], 10), ([0.014], 0.02)])
def test_an_axis_ends_at_a_round_number(values: Sequence[float], top: float) -> None:
    assert charts.top_of(values) == pytest.approx(top)


def test_columns_stand_on_each_other_to_scale() -> None:
    series = [Series(name="a", kind="ok", values=[40, 0]), Series(name="b", kind="bad", values=[60, None])]

    picture = charts.columns(series, ["now", "then"], "label")

    [ok] = rects(picture, "djq-s-ok")
    [bad] = rects(picture, "djq-s-bad")
    assert (ok["y"], ok["height"], bad["y"], bad["height"]) == ("60", "40", "0", "60")


def test_a_line_has_a_gap_where_there_is_no_value() -> None:
    picture = charts.lines([Series(name="a", kind="1", values=[1, 1, None, 0.5])], list("abcd"), "label")

    assert 'd="M0 0H10V0H20M30 50H40"' in picture


def test_a_bar_never_overflows_and_shows_what_is_there() -> None:
    full = rects(charts.bar([(7, "ok"), (9, "bad")], 10, "label"), "djq-s-bad")
    little = rects(charts.bar([(1, "ok")], 1_000_000, "label"), "djq-s-ok")

    assert full[0]["width"] == "30"
    assert little[0]["width"] == "0.5"
    assert rects(charts.bar([(1, "ok")], 0, "label"), "djq-s-ok") == []


def test_pictures_are_whole_escaped_and_without_style() -> None:
    one = [Series(name=NASTY, kind="ok", values=[1.0])]
    pictures = [
        charts.columns(one, [NASTY], NASTY, [Mark(place=0.5, words=NASTY)]),
        charts.lines(one, [NASTY], NASTY),
        charts.sparkline([1, 2], NASTY),
        charts.bar([(1, "ok")], 2, NASTY),
        charts.strip([("ok", NASTY)], NASTY),
        look.meter(1, 2, NASTY),
        look.badge(NASTY),
    ]

    for picture in pictures:
        root = ElementTree.fromstring(picture)
        assert not [each for each in root.iter() if each.tag == "script" or "style" in each.attrib]
        assert NASTY in "".join(root.itertext()) + "".join(each.get("aria-label", "") for each in root.iter())


def test_tiles_and_figures_are_escaped() -> None:
    picture = charts.sparkline([1], "label")
    tiles = look.tiles([Tile(label=NASTY, figure=NASTY, note=NASTY, url="/x?a=1&b=2")])
    figure = look.figure(
        Figure(title=NASTY, picture=picture, legend=[("ok", NASTY)], marks=[NASTY], heads=[NASTY], rows=[[NASTY]])
    )

    for page in (tiles, figure, look.table([NASTY], [[NASTY]]), look.link(NASTY, NASTY)):
        assert "<script" not in page
        assert "&lt;script" in page


@pytest.mark.parametrize(
    ("said", "kind"), [("leased, asked to cancel", "busy"), ("parked: task", "quiet"), ("x", "quiet")]
)
def test_a_badge_has_the_kind_of_its_state(said: str, kind: str) -> None:
    assert f"djq-{kind}" in look.badge(said)


def test_links_lead_to_what_the_user_may_see_only(login: Login) -> None:
    page = text_of(login("view_queue", "view_worker").get(list_of("queue")))

    keys = re.findall(r'data-djq-key="(\w)"', page)
    assert keys == ["o", "q", "w"]
    assert 'data-djq-key="q" aria-current="page"' in page


def test_the_live_part_comes_alone_and_only_when_it_has_changed(login: Login) -> None:
    client = login("*")
    queue = Queue.objects.create(name="emails")
    whole = text_of(client.get(list_of("queue")))

    first = client.get(list_of("queue"), headers=LIVE)
    again = client.get(list_of("queue"), headers={**LIVE, "If-None-Match": first["ETag"]})
    Queue.objects.filter(pk=queue.pk).update(ready=777)
    changed = client.get(list_of("queue"), headers={**LIVE, "If-None-Match": first["ETag"]})

    assert "<html" in whole
    assert "<html" not in text_of(first)
    assert "emails" in text_of(first)
    assert (again.status_code, again.content) == (304, b"")
    assert "777" in text_of(changed)
    assert HEADER in first["Vary"]
    assert HEADER in client.get(list_of("queue"))["Vary"]


def test_a_live_part_takes_no_message_away(login: Login, settings: Any) -> None:
    settings.MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
    client = login("*")
    queue = Queue.objects.create(name="emails")
    client.post(list_of("queue"), {"action": "pause", "index": "0", "_selected_action": [queue.pk]})

    client.get(list_of("queue"), headers=LIVE)

    assert "1 paused for an hour" in text_of(client.get(list_of("queue")))


def test_who_is_not_logged_in_gets_no_live_part(login: Login) -> None:
    client = login("view_queue")
    client.logout()

    assert client.get(list_of("queue"), headers=LIVE).status_code == 302


def test_pages_of_objects_have_the_links_too(login: Login) -> None:
    assert 'class="djq-nav"' in text_of(login("*").get(page_of(rows.make_job())))


def test_pages_do_not_need_the_request_in_the_context(login: Login, settings: Any) -> None:
    templates = copy.deepcopy(settings.TEMPLATES)
    processors = templates[0]["OPTIONS"]["context_processors"]
    processors.remove("django.template.context_processors.request")
    settings.TEMPLATES = templates
    client = login("*")

    for address in (reverse("admin:app_list", args=["djqueue"]), list_of("queue"), list_of("job")):
        assert 'class="djq-nav"' in text_of(client.get(address))
