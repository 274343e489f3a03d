"""An answer that is lost leaves the outcome unknown: it is asked for again, and no job runs twice."""

from collections.abc import Iterator
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from testproject.shop.models import Counter
from testproject.trials import tasks
from tests.helpers import database_url
from tests.proxy import Proxy
from tests.runtime.trial import PATIENCE, Trial, history, live, rows

pytestmark = pytest.mark.slow


@pytest.fixture
def proxy(trial: Trial) -> Iterator[Proxy]:
    """A proxy before the live database."""
    found = urlsplit(database_url())
    with Proxy(found.hostname or "127.0.0.1", found.port or 5432) as between:
        yield between


def through(proxy: Proxy) -> dict[str, str]:
    """The environment of a supervisor whose connections all pass through the proxy."""
    found = urlsplit(database_url())
    return {"DATABASE_URL": found._replace(netloc=f"{found.username}@127.0.0.1:{proxy.port}").geturl()}


@pytest.mark.parametrize("is_committed", [True, False], ids=["after the commit", "before the commit"])
def test_r19_an_ack_whose_answer_is_lost_is_settled_without_a_second_run(
    trial: Trial, proxy: Proxy, is_committed: bool
) -> None:
    """R1, R19: one run, same worker, no hot loop."""
    job = tasks.hold.enqueue("once", trial.file("go"))
    supervisor = trial.supervisor("--threads", "1", env=through(proxy))
    trial.wait_for_starts("once")

    # Of what a worker sends, an ack is what carries the id (heartbeats of the keeper come every ten seconds only).
    proxy.lose_answer_to(lambda data: UUID(job.id).hex.encode() in data, after_the_server_has_it=is_committed)
    trial.make("go")
    trial.wait_until_done()
    tasks.note.enqueue("afterwards")
    trial.wait_until_done()

    assert proxy.lost.wait(PATIENCE)
    assert trial.events() == {"once": 1, "afterwards": 1}
    assert history() == {"succeeded": 2}
    assert rows("select attempts, interruptions from djqueue_history where id = %s", job.id) == [(1, 0)]
    assert trial.pids("once") == trial.pids("afterwards")
    assert supervisor.output().count("database trouble") < 20


def test_r19_a_commit_of_an_atomic_handler_whose_answer_is_lost_counts_once(trial: Trial, proxy: Proxy) -> None:
    Counter.objects.create(name="sum", value=0)
    tasks.count_slowly.enqueue("sum", trial.file("go"))
    trial.supervisor("--threads", "1", env=through(proxy))
    trial.wait_for_starts("sum")

    proxy.lose_answer_to(lambda data: b"COMMIT" in data, after_the_server_has_it=True)
    trial.make("go")
    trial.wait_until_done()

    assert proxy.lost.wait(PATIENCE)
    assert Counter.objects.get(name="sum").value == 1
    assert history() == {"succeeded": 1}


def test_r3_a_claim_whose_answer_is_lost_charges_nobody(trial: Trial, proxy: Proxy) -> None:
    """The rows are leased by a worker that never heard of them: they are given back at its next connection."""
    supervisor = trial.supervisor("--threads", "1", options={"poll_seconds": 0.2}, env=through(proxy))
    tasks.note.enqueue("warm")
    trial.wait_until_done()

    proxy.lose_answer_to(lambda data: b"COMMIT" in data, after_the_server_has_it=True)
    tasks.note.using(max_attempts=1).enqueue("unheard")
    trial.wait_until_done()

    assert trial.events()["unheard"] == 1, supervisor.output()
    assert live() == []
    assert rows("select args->'args'->>0, attempts from djqueue_history order by 1") == [("unheard", 1), ("warm", 1)]
