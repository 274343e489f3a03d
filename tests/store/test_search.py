"""Finding jobs wherever they stand, page by page, and counting them."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from djqueue.policy.ids import uuid7
from djqueue.policy.search import Search, Tab, parse
from djqueue.store import operate, search, searchcount
from djqueue.store.search import Place
from tests.admin import rows
from tests.admin.conftest import tables  # noqa: F401
from tests.store.factories import ALIAS

pytestmark = pytest.mark.usefixtures("tables")


def ids(text: str, **more: Any) -> list[UUID]:
    """The ids that a search finds."""
    return [hit.id for hit in search.page(ALIAS, parse(text), **more).hits]


def walk(asked: Search, limit: int) -> Iterator[UUID]:
    """The ids of all pages."""
    after: UUID | None = search.TOP
    while after is not None:
        found = search.page(ALIAS, asked, before=after, limit=limit)
        yield from (hit.id for hit in found.hits)
        after = found.after


def test_jobs_of_all_places_stand_in_one_list_newest_first() -> None:
    made = [rows.make_job(), rows.make_finished(), rows.make_dead_letter(), rows.make_scheduled_job()]

    found = search.page(ALIAS, Search()).hits

    states = dict(zip((job.id for job in made), ("ready", "succeeded", "dead", "retrying"), strict=True))
    assert [hit.id for hit in found] == sorted(states, reverse=True)
    assert {hit.id: hit.state for hit in found} == states


@pytest.mark.parametrize("tab", Tab)
def test_a_tab_shows_its_state_only(tab: Tab) -> None:
    made = {
        Tab.READY: rows.make_job(),
        Tab.RUNNING: rows.make_running_job(),
        Tab.SCHEDULED: rows.make_scheduled_job(attempts=0),
        Tab.RETRYING: rows.make_scheduled_job(),
        Tab.PARKED: rows.make_job(state="parked", parked_for="task:x"),
        Tab.SUCCEEDED: rows.make_finished(),
        Tab.CANCELLED: rows.make_finished(outcome="cancelled"),
        Tab.DEAD: rows.make_dead_letter(),
    }

    assert ids(f"state:{tab}") == [made[tab].id]
    assert searchcount.tabs(ALIAS)[tab].number == 1


@pytest.mark.parametrize(
    "text",
    [
        "queue:images",
        "task:make_thumbnail",
        "task:shop.tasks.make_*",
        "thumbnail",
        "MAKE_thumb",
        "thumb make_",
        "tenant:acme",
        "key:k1",
        "key:k*",
        "k1",
        "tag:slow",
        "args.0:7",
        "args.kwargs.width:200",
        "args.width:200",
        "args.image:cat*",
        "subject:shop.order:7",
        "older:1h",
        "error:partner",
    ],
)
def test_each_field_finds_the_one_that_fits_in_every_place(text: str) -> None:
    fields: dict[str, Any] = {
        "queue_name": "images",
        "task_name": "shop.tasks.make_thumbnail",
        "tenant_id": "acme",
        "dedupe_key": "k1",
        "options": {"tags": ["slow"], "subject": "shop.order:7"},
        "args": {"args": [7], "kwargs": {"width": 200, "image": "cat.png"}},
        "created_at": rows.FIRST_MOMENT,
        "errors": [{"message": "no Partner"}],
    }
    old = UUID("01000000-0000-7000-8000-000000000000")
    made = [
        rows.make_job(id=UUID(int=old.int + 1), **fields),
        rows.make_finished(id=UUID(int=old.int + 2), **fields),
        rows.make_dead_letter(id=UUID(int=old.int + 3), **fields),
    ]
    other = {"task_name": "other.task", "errors": []}
    rows.make_job(**other)
    rows.make_finished(**other)
    rows.make_dead_letter(**other)

    assert ids(text) == [job.id for job in reversed(made)]
    assert searchcount.count(ALIAS, parse(text)).number == 3


def test_a_percent_sign_and_an_underscore_are_no_wildcards() -> None:
    rows.make_job(dedupe_key="k1")

    assert ids("key:k_") == ids("key:%") == ids("task:%") == ids("testprojec_") == ids("%") == []


def test_pages_show_each_job_once_although_windows_end_at_different_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "WINDOW", 3)
    makers = (rows.make_job, rows.make_finished, rows.make_dead_letter, rows.make_job, rows.make_job)
    made = [makers[n % 5](tenant_id="acme" if n % 4 == 0 else "").id for n in range(60)]
    wanted = sorted((id_ for n, id_ in enumerate(made) if n % 4 == 0), reverse=True)

    for limit in (1, 2, 5, 50):
        assert list(walk(Search(tenant="acme"), limit)) == wanted
        assert list(walk(Search(), limit)) == sorted(made, reverse=True)


def test_a_search_without_an_index_says_how_far_it_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "WINDOW", 3)
    third = sorted(rows.make_job().id for _ in range(5))[2]

    found = search.page(ALIAS, Search(tenant="nobody"))

    assert (found.hits, found.looked_to, found.after) == ([], third, third)
    assert search.page(ALIAS, Search(tenant="nobody"), before=third).looked_to is None


def test_what_was_enqueued_later_is_left_out() -> None:
    first = rows.make_job()
    until = search.now(ALIAS)
    rows.make_job(created_at=rows.LAST_MOMENT)

    assert ids("", until=until) == [first.id]
    assert searchcount.count(ALIAS, Search(), until=until).number == 1


def test_only_the_allowed_places_are_looked_at() -> None:
    rows.make_job()
    dead = rows.make_dead_letter()

    assert ids("", places=frozenset({Place.DEAD})) == [dead.id]
    assert ids("state:ready", places=frozenset({Place.DEAD})) == []


def test_counts_are_exact_up_to_a_limit_and_then_say_so() -> None:
    for _ in range(4):
        rows.make_job()

    assert searchcount.count(ALIAS, Search(), most=4) == searchcount.Count(number=4)
    assert searchcount.count(ALIAS, Search(), most=3) == searchcount.Count(number=3, is_exact=False)
    assert searchcount.tabs(ALIAS, most=3)[Tab.READY].is_exact is False


def test_a_search_is_kept_as_json_and_read_back() -> None:
    asked = parse(f"id:{uuid7()} task:a state:dead tenant:t args.0:1 older:3m word")

    assert search.from_json(json.loads(search.to_json(asked))) == asked


def test_a_requeued_letter_moves_to_its_new_tab() -> None:
    letter = rows.make_dead_letter()
    operate.requeue(ALIAS, [letter.id])

    assert ids("state:dead") == []
    assert ids("state:ready") == [letter.id]


@pytest.mark.parametrize("text", ["", "tenant:a", "subject:x", "state:running", "state:dead error:x", "args.a:1"])
def test_a_page_is_at_most_five_statements(text: str, django_assert_max_num_queries: Any) -> None:
    with django_assert_max_num_queries(5):
        search.page(ALIAS, parse(text))
