"""The slot table by itself: what one process writes, another reads; what is left over misleads nobody."""

import multiprocessing
import os
import pickle
import signal
from uuid import UUID

import pytest

from djqueue.runtime import slot_table
from djqueue.runtime.slot_table import (
    BEAT,
    R_LOST,
    R_REVOKED,
    R_SEQUENCE,
    REPLACE,
    JobState,
    Kind,
    Page,
    PageStatus,
    SlotTable,
    now_ns,
)

WORKER = UUID(int=(1 << 128) - 7)
JOB = UUID(int=(1 << 127) + 5)
TOKEN = (1 << 62) + 1


@pytest.fixture
def page() -> Page:
    """A page that a process was given."""
    page = SlotTable.inherited(2).pages[1]
    page.assign(WORKER, Kind.WORKER)
    return page


def test_a_page_shows_who_has_it_and_which_jobs_that_holds(page: Page) -> None:
    """R28: ids and tokens of 64 bits and more."""
    page.hold(3, JOB, TOKEN)
    page.hold(4, WORKER, 1)
    page.start(4, 10, 20)

    waiting, started = page.records()

    assert page.worker_id == str(WORKER)
    assert (waiting.index, waiting.id, waiting.lease_token, waiting.state) == (3, JOB, TOKEN, JobState.WAITING)
    assert (started.id, started.state, started.started, started.deadline) == (WORKER, JobState.STARTED, 10, 20)


def test_a_page_forgets_a_process_that_died_while_it_wrote(page: Page) -> None:
    """R4: an odd sequence number that stayed would hide every later job in that record from the heartbeat."""
    page.hold(0, JOB, TOKEN)
    page._words[page._record(0) + R_SEQUENCE] += 1  # killed in the middle of the next `hold`
    page.set(REPLACE, 1)
    assert page.records() == []

    page.assign(JOB, Kind.SUSPECTS)
    assert page.records() == []
    page.hold(0, JOB, TOKEN)

    assert [record.lease_token for record in page.records()] == [TOKEN]
    assert (page.get(REPLACE), page.status) == (0, PageStatus.STARTING)
    assert page.get(BEAT) > 0


def test_a_neighbour_page_is_left_alone() -> None:
    table = SlotTable.inherited(3)
    for each in table.pages:
        each.assign(WORKER, Kind.WORKER)
        each.hold(slot_table.RECORDS - 1, JOB, TOKEN)

    table.pages[1].assign(JOB, Kind.SUSPECTS)

    assert [len(each.records()) for each in table.pages] == [1, 0, 1]
    assert [each.worker_id for each in table.pages] == [str(WORKER), str(JOB), str(WORKER)]


def test_a_mark_is_for_one_lease_and_never_for_a_later_job_of_the_record(page: Page) -> None:
    page.hold(0, JOB, TOKEN)
    [before] = page.records()
    page.let_go(0)
    page.hold(0, JOB, TOKEN + 1)

    page.mark(before, R_REVOKED)

    assert page.is_marked(0, R_REVOKED, TOKEN)
    assert not page.is_marked(0, R_REVOKED, TOKEN + 1)
    assert not page.is_marked(0, R_LOST, TOKEN)


def test_a_handler_that_has_returned_is_past_no_limit(page: Page) -> None:
    """R19: what waits for its ack while the database is away must not be killed as an overdue handler."""
    page.hold(0, JOB, TOKEN)
    page.start(0, now_ns() - 2, now_ns() - 1)
    assert page.records()[0].is_overdue(now_ns())

    page.end(0)

    [record] = page.records()
    assert record.has_started
    assert not record.is_overdue(now_ns())


def test_a_forked_process_sees_and_writes_an_inherited_table_that_has_no_file() -> None:
    table = SlotTable.inherited(1)
    table.pages[0].assign(WORKER, Kind.WORKER)
    pid = os.fork()
    if pid == 0:
        table.pages[0].hold(5, JOB, TOKEN)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)

    assert [record.id for record in table.pages[0].records()] == [JOB]
    with pytest.raises(TypeError, match="in_file"):
        pickle.dumps(table)


def test_a_table_in_a_file_can_be_sent_to_another_process_and_the_file_has_no_name() -> None:
    table = SlotTable.in_file(2)
    child = multiprocessing.get_context("spawn").Process(target=_write_into, args=(table,))
    child.start()
    child.join(30)

    assert [page.worker_id for page in table.live()] == [str(WORKER)]
    assert os.fstat(table._handle).st_nlink == 0


def _write_into(table: SlotTable) -> None:
    table.pages[1].assign(WORKER, Kind.SUSPECTS)


def test_pages_are_free_then_live_then_ended(page: Page) -> None:
    table = SlotTable.inherited(2)
    first = table.free_page()
    assert first is not None
    first.assign(WORKER, Kind.WORKER)

    assert [each.index for each in table.live()] == [0]
    first.set(slot_table.STATUS, PageStatus.ENDED)
    assert [each.index for each in table.ended()] == [0]
    assert table.free_page() is table.pages[1]
    table.pages[1].assign(JOB, Kind.WORKER)
    assert table.free_page() is None
