"""The list of all jobs: states as tabs, what is typed, pages, and everything in the address."""

import re
from typing import Any

import pytest
from django.test import Client

from djqueue.admin import joblist
from djqueue.models import Job
from djqueue.store import search, searchcount
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import list_of, text_of

PLACES = ("view_job", "view_history", "view_deadletter")


def listed(client: Client, query: str = "") -> list[str]:
    """The ids that the list shows, in its order."""
    return re.findall(r'class="djqueue-id">([-0-9a-f]{36})<', text_of(client.get(list_of("job") + query)))


def one_of_each() -> dict[str, Any]:
    """A job of each state."""
    return {
        "ready": rows.make_job(task_name="task.a"),
        "running": rows.make_running_job(task_name="task.c", dedupe_key="key.c"),
        "scheduled": rows.make_scheduled_job(attempts=0),
        "retrying": rows.make_scheduled_job(task_name="task.b", queue_name="images"),
        "parked": rows.make_job(state="parked", parked_for="task:x"),
        "succeeded": rows.make_finished(),
        "cancelled": rows.make_finished(outcome="cancelled"),
        "dead": rows.make_dead_letter(),
    }


@pytest.mark.parametrize(
    "query",
    ["?state={}", "?q=state:{}", "?state={}&q=state:{}"],
)
def test_each_state_has_its_tab(login: Login, query: str) -> None:
    client = login(*PLACES)
    made = one_of_each()

    for state, job in made.items():
        assert listed(client, query.format(state, state)) == [str(job.pk)], state


def test_without_a_state_all_stand_in_one_list_newest_first(login: Login) -> None:
    client = login(*PLACES)
    made = one_of_each()

    assert listed(client) == sorted((str(job.pk) for job in made.values()), reverse=True)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?state=leased", {"running"}),
        ("?queue=images", {"retrying"}),
        ("?queue=nowhere", set()),
        ("?q=task.a", {"ready"}),
        ("?q=key.c", {"running"}),
        ("?q=+task.a+", {"ready"}),
        ("?task=task.b", {"retrying"}),
        ("?task=task.b&queue=emails", set()),
    ],
)
def test_links_of_other_pages_and_words_find_their_jobs(login: Login, query: str, found: set[str]) -> None:
    client = login(*PLACES)
    made = one_of_each()

    assert set(listed(client, query)) == {str(made[state].pk) for state in found}


@pytest.mark.parametrize(
    ("permissions", "found"),
    [
        (("view_job",), {"ready", "running", "scheduled", "retrying", "parked"}),
        (
            ("view_job", "view_history"),
            {"ready", "running", "scheduled", "retrying", "parked", "succeeded", "cancelled"},
        ),
        (("view_job", "view_deadletter"), {"ready", "running", "scheduled", "retrying", "parked", "dead"}),
    ],
)
def test_who_may_not_see_a_place_sees_no_job_and_no_tab_of_it(
    login: Login, permissions: tuple[str, ...], found: set[str]
) -> None:
    client = login(*permissions)
    made = one_of_each()

    assert set(listed(client)) == {str(made[state].pk) for state in found}
    page = text_of(client.get(list_of("job")))
    assert set(re.findall(r'href="\?state=(\w+)"', page)) == found
    for state in set(made) - found:
        assert listed(client, f"?state={state}") == []


def test_pages_follow_by_a_cursor_and_keep_what_was_asked(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joblist, "PER_PAGE", 2)
    client = login(*PLACES)
    wanted = sorted((str(rows.make_job(queue_name="images").pk) for _ in range(5)), reverse=True)
    rows.make_job()

    seen: list[str] = []
    query = "?q=queue%3Aimages"
    for _ in range(3):
        page = text_of(client.get(list_of("job") + query))
        seen += re.findall(r'class="djqueue-id">([-0-9a-f]{36})<', page)
        found = re.search(r'rel="next" href="([^"]+)"', page)
        query = found[1].replace("&amp;", "&") if found else ""

    assert (seen, query) == (wanted, "")


def test_what_means_nothing_is_said_and_shows_nothing(login: Login) -> None:
    client = login(*PLACES)
    rows.make_job()

    page = text_of(client.get(list_of("job") + "?q=queu:emails"))

    assert "Did you mean queue:?" in page
    assert 'class="djqueue-id"' not in page


@pytest.mark.parametrize("query", ["?q=%00", "?state=%00", "?queue=%00", "?before=x", "?state=nonsense", "?q=a:%22"])
def test_rubbish_in_the_address_is_no_error(login: Login, query: str) -> None:
    rows.make_job()

    text_of(login(*PLACES).get(list_of("job") + query))


@pytest.mark.parametrize("asked", ["args.0:correct*", "error:horse"])
def test_r20_payload_cannot_be_searched_without_the_permission_to_see_it(login: Login, asked: str) -> None:
    job = rows.make_scheduled_job()

    blind = text_of(login(*PLACES).get(list_of("job"), {"q": asked}))

    assert str(job.pk) not in blind
    assert "need the permission" in blind


def test_r20_who_may_see_payloads_finds_by_them(login: Login) -> None:
    job = rows.make_scheduled_job()

    assert listed(login(*PLACES, "view_payload"), "?q=args.0:correct*") == [str(job.pk)]


def test_counts_are_exact_up_to_a_limit_then_about(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searchcount, "MOST_COUNTED", 3)
    client = login(*PLACES)
    for _ in range(4):
        rows.make_job()
    rows.make_dead_letter()

    page = text_of(client.get(list_of("job")))
    found = text_of(client.get(list_of("job") + "?q=queue:emails+state:ready"))

    assert re.search(r"ready <span[^>]*>3\+</span>", page)
    assert re.search(r"dead <span[^>]*>1</span>", page)
    assert "3+ match" in found


def test_a_search_that_did_not_look_at_all_says_so(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "WINDOW", 2)
    client = login(*PLACES)
    for _ in range(5):
        rows.make_job()

    page = text_of(client.get(list_of("job") + "?q=tenant:nobody"))

    assert "only the newest 2 jobs of each table" in page
    assert 'rel="next"' in page


def test_the_live_part_comes_alone_with_its_etag(login: Login) -> None:
    client = login(*PLACES)
    job = rows.make_job()

    first = client.get(list_of("job"), headers={"X-Djqueue-Live": "1"})
    second = client.get(list_of("job"), headers={"X-Djqueue-Live": "1", "If-None-Match": first["ETag"]})

    assert str(job.pk) in first.content.decode()
    assert "<html" not in first.content.decode()
    assert second.status_code == 304
    assert Job.objects.count() == 1
