"""R20: no page takes more than twelve queries, in whatever state what it shows is, for people who are asked for their
permissions one by one."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from djqueue.admin import spans
from djqueue.api import registry
from djqueue.policy.search import Tab
from tests.admin import rows, worst
from tests.admin.addresses import addresses, one_of_each
from tests.admin.conftest import Login
from tests.admin.pages import list_of, page_of, text_of

MOST = 12
LOOKS_AT_EVERYTHING = {"djqueue_doctor"}
"""Asked for by hand, a look at each setting and table by itself: dozens of small statements, by design."""


@pytest.fixture
def client(login: Login, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Somebody with all permissions; the task has other names, of which one might be paused."""
    client = login(*worst.permissions())
    monkeypatch.setattr(registry, "same", lambda name: [name, "former.name"])
    return client


def queries(client: Client, address: str) -> tuple[Any, list[str]]:
    """The answer, and what was asked for it once caches are warm."""
    client.get(address)
    with CaptureQueriesContext(connection) as found:
        answer = client.get(address)
    return answer, [each["sql"][:90] for each in found]


def test_r20_a_job_s_page_takes_twelve_queries_whatever_may_hold_it_back(client: Client) -> None:
    worst.make()

    for name, job in worst.jobs().items():
        answer, asked = queries(client, page_of(job))
        assert "djq-nav" in text_of(answer), name
        assert len(asked) <= MOST, (name, asked)


def test_r20_every_address_takes_twelve_queries_with_rows_of_every_kind(client: Client) -> None:
    objects = one_of_each()
    worst.jobs()
    rows.make_replay(state="paused")

    for name, address in addresses(objects):
        if name in LOOKS_AT_EVERYTHING:
            continue
        _, asked = queries(client, address)
        assert len(asked) <= MOST, (name, asked)


def test_r20_every_list_of_jobs_and_every_span_takes_twelve_queries(client: Client) -> None:
    worst.make()
    worst.jobs()
    app = reverse("admin:app_list", args=["djqueue"])
    tabs = [f"{list_of('job')}?state={tab}" for tab in Tab]

    for address in [*tabs, *(f"{app}?span={key}" for key in spans.SPANS), f"{list_of('job')}?q=tenant:acme"]:
        _, asked = queries(client, address)
        assert len(asked) <= MOST, (address, asked)
