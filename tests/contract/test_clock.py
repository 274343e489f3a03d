"""R16: the database's clock in tests: moved or still for this session, and as it was afterwards."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models.functions import Now

from djqueue.compat import TaskResultStatus
from djqueue.pytest_plugin import Clocks, Jobs
from djqueue.testing import arun_jobs, assert_enqueued, freeze, run_jobs, travel
from testproject.shop.models import Order
from testproject.shop.tasks import call_partner, noop
from tests.helpers import raw_connection

MOMENT = datetime(2030, 3, 31, 0, 59, tzinfo=UTC)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


def one(sql: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def database_now() -> datetime:
    found: datetime = one("select clock_timestamp()")
    return found


def is_clean() -> bool:
    """Whether nothing is left of a block."""
    left = one("select count(*) from pg_namespace where nspname = 'djqueue_test_clock'")
    return left == 0 and "djqueue" not in one("show search_path") and abs(database_now() - datetime.now(UTC)) < MINUTE


@pytest.mark.django_db
def test_a_delayed_job_is_due_once_the_clock_has_passed_its_moment() -> None:
    noop.using(run_after=DAY).enqueue()
    assert run_jobs().attempts == 0

    with travel(DAY - MINUTE) as clock:
        assert run_jobs().attempts == 0
        clock.move(MINUTE)
        assert run_jobs().succeeded == 1

    assert is_clean()


@pytest.mark.django_db
def test_retries_and_expiry_follow_the_clock() -> None:
    retried = call_partner.enqueue(1, failures=1)
    expired = noop.using(run_after=DAY, expires_after=DAY).enqueue()
    run_jobs()

    with travel(3 * DAY):
        run_jobs()

    retried.refresh()
    assert (retried.status, retried.attempts) == (TaskResultStatus.SUCCESSFUL, 2)
    expired.refresh()
    assert (expired.status, expired.attempts) == (TaskResultStatus.FAILED, 0)


@pytest.mark.django_db
def test_a_frozen_clock_stands_still_until_it_is_moved() -> None:
    with freeze(MOMENT) as clock:
        noop.using(run_after=MINUTE).enqueue()
        assert {clock.now, clock.now, one("select now()"), one("select statement_timestamp()")} == {MOMENT}
        [job] = assert_enqueued(noop, run_after=MOMENT + MINUTE)
        assert job.enqueued_at == MOMENT
        clock.move(MINUTE)
        assert clock.now == MOMENT + MINUTE
        assert run_jobs().succeeded == 1

    with freeze() as clock:
        assert clock.now == clock.now
        assert abs(clock.now - datetime.now(UTC)) < MINUTE
    assert is_clean()


@pytest.mark.django_db
def test_a_clock_that_travels_to_a_moment_goes_on_from_there() -> None:
    with travel(MOMENT) as clock:
        first = clock.now
        assert MOMENT <= first < clock.now < MOMENT + MINUTE


@pytest.mark.django_db
def test_blocks_stand_within_one_another_and_each_puts_back_what_it_found() -> None:
    with travel(DAY) as outer:
        with travel(DAY):
            assert abs(database_now() - datetime.now(UTC) - 2 * DAY) < MINUTE
            with freeze(MOMENT):
                assert database_now() == MOMENT
            assert abs(database_now() - datetime.now(UTC) - 2 * DAY) < MINUTE
        assert abs(outer.now - datetime.now(UTC) - DAY) < MINUTE
    assert is_clean()


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["''", "'$user', public", "pg_catalog, public"])
def test_whatever_search_path_the_session_has_is_there_again(path: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"set local search_path = {path}")
    before = one("show search_path")

    with travel(DAY):
        assert abs(database_now() - datetime.now(UTC) - DAY) < MINUTE

    assert one("show search_path") == before
    assert is_clean()


@pytest.mark.django_db
def test_djangos_own_queries_see_the_clock_too() -> None:
    Order.objects.create(number="1", customer_email="a@example.com", total="1")
    with freeze(MOMENT):
        assert Order.objects.annotate(at=Now()).get().at == MOMENT


@pytest.mark.django_db
def test_a_rollback_within_the_block_does_not_bring_the_real_clock_back() -> None:
    with freeze(MOMENT):
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            noop.enqueue()
            raise ZeroDivisionError
        assert database_now() == MOMENT


@pytest.mark.django_db
def test_an_error_that_breaks_the_transaction_is_not_hidden_by_the_clocks_end() -> None:
    with pytest.raises(IntegrityError), transaction.atomic(), travel(DAY):
        for _ in range(2):
            Order.objects.create(pk=1, number="1", customer_email="a@example.com", total="1")

    assert is_clean()


@pytest.mark.django_db(transaction=True)
def test_where_the_test_commits_other_sessions_keep_the_real_clock_and_nothing_is_left() -> None:
    with travel(DAY), raw_connection() as other:
        noop.using(run_after=timedelta(hours=23)).enqueue()
        [(seen,)] = other.execute("select clock_timestamp()").fetchall()
        assert abs(seen - datetime.now(UTC)) < MINUTE
        assert abs(database_now() - seen - DAY) < MINUTE

    assert is_clean()
    assert run_jobs().attempts == 0


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_was_closed_within_the_block_is_told() -> None:
    with pytest.raises(RuntimeError, match="travel: expected the connection to 'default' to stay open"), travel(DAY):
        connection.close()

    assert is_clean()


@pytest.mark.parametrize(
    ("helper", "given", "error"),
    [(travel, 60, TypeError), (travel, datetime(2030, 1, 1), ValueError), (freeze, DAY, TypeError)],  # noqa: DTZ001
)
def test_what_is_no_moment_is_refused(helper: Any, given: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"{helper.__name__}: expected "):
        helper(given)


def test_the_fixtures_do_the_same(djqueue_jobs: Jobs, djqueue_clock: Clocks) -> None:
    noop.using(run_after=DAY).enqueue()
    djqueue_jobs.assert_enqueued(noop, run_after=DAY)
    assert djqueue_jobs.run().attempts == 0

    clock = djqueue_clock.travel(DAY)
    assert djqueue_jobs.run().succeeded == 1
    clock.move(DAY)
    djqueue_clock.freeze(MOMENT)

    assert database_now() == MOMENT
    djqueue_jobs.assert_not_enqueued(call_partner)
    assert len(djqueue_jobs.enqueued()) == 1


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_connection_left")
async def test_async_tests_move_the_clock_too(djqueue_jobs: Jobs) -> None:
    await noop.using(run_after=DAY).aenqueue()

    async with travel(DAY - MINUTE) as clock:
        assert (await arun_jobs()).attempts == 0
        await clock.amove(MINUTE)
        assert (await djqueue_jobs.arun()).succeeded == 1
