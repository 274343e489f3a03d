"""Every page, in light, in dark and on a phone: it keeps the strict policy and has no serious fault.

With DJQUEUE_SCREENS=folder the pictures are kept; those of the documentation are made so.
"""

import pytest
from django.db import connection

from djqueue.models import CronEntry, DeadLetter, ErrorGroup, History, Job, Queue, Replay, Worker
from tests.browser import stage
from tests.browser.conftest import Look
from tests.store.factories import PARTITION_FOR_ALL

pytestmark = pytest.mark.browser

LOOKS = [("light", 1360), ("dark", 1360), ("light", 390)]


def pages() -> dict[str, tuple[str, tuple[object, ...], str]]:
    """Every page by its picture's name: the name of its address, arguments, query."""

    def of(model: type, page: str, /, **fields: object) -> tuple[str, tuple[object, ...], str]:
        pk = model.objects.filter(**fields).order_by("pk")[0].pk  # type: ignore[attr-defined]
        return f"djqueue_{page}", (pk,), ""

    return {
        "overview": ("app_list", ("djqueue",), "?span=1h"),
        "overview-week": ("app_list", ("djqueue",), "?span=7d"),
        "jobs": ("djqueue_job_changelist", (), ""),
        "job": of(Job, "job_change", state="scheduled"),
        "done": of(History, "history_change"),
        "queues": ("djqueue_queue_changelist", (), ""),
        "queue": of(Queue, "queue_change", name="emails"),
        "empty-queue": of(Queue, "queue_purge", name="emails"),
        "causes": ("djqueue_errorgroup_changelist", (), ""),
        "cause": of(ErrorGroup, "errorgroup_change", pk=stage.CAUSE),
        "dead-letters": ("djqueue_deadletter_changelist", (), ""),
        "dead-letter": of(DeadLetter, "deadletter_change"),
        "replays": ("djqueue_replay_changelist", (), ""),
        "replay": of(Replay, "replay_change", state="running"),
        "cron": ("djqueue_cronentry_changelist", (), ""),
        "cron-entry": of(CronEntry, "cronentry_change", name="nightly bill"),
        "fires": ("djqueue_cronfire_changelist", (), ""),
        "workers": ("djqueue_worker_changelist", (), ""),
        "worker": of(Worker, "worker_change"),
        "orphans": ("djqueue_orphans", (), ""),
        "circuits": ("djqueue_circuit_changelist", (), ""),
        "limits": ("djqueue_limiter_changelist", (), ""),
        "tenants": ("djqueue_tenant_changelist", (), ""),
        "acts": ("djqueue_bulkact_changelist", (), ""),
    }


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_every_page_is_whole(look: Look, scheme: str, width: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(PARTITION_FOR_ALL)
    stage.set_up()
    one = look(scheme=scheme, width=width)

    faults = []
    for name, (address, args, query) in pages().items():
        one.go(address, *args, query=query)
        look_name = "phone" if width < 640 else scheme
        one.picture(f"{name}-{look_name}", whole=(name, look_name) == ("overview", "light"))
        assert "djq-nav" in one.page.content(), name
        if width < 640:
            faults += [f"{name}: wider than the window: {which}" for which in one.too_wide()]
        else:
            faults += [f"{name}: {fault}" for fault in one.faults()]

    assert faults == []
