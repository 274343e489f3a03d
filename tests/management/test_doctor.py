"""`manage.py djqueue doctor`: silent where all is well, and each fault, really planted, is found by its name."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError

from djqueue.api import doctor
from djqueue.conf import Options
from djqueue.models import CronEntry, Queue, Worker
from djqueue.policy import diagnosis
from djqueue.policy.aside import orphan
from djqueue.policy.diagnosis import Severity
from djqueue.store import db, history
from testproject.embedded import EmbeddedServer
from tests.conftest import StartSupervisor
from tests.helpers import eventually, raw_connection
from tests.live import LiveDatabase
from tests.management.saying import partly, run
from tests.store.factories import ack, add, take_one

pytestmark = pytest.mark.slow


@pytest.fixture
def healthy(live_database: LiveDatabase) -> None:
    """A database as workers keep it: the days of history are there."""
    history.ensure_partitions("default")


def found(options: Options | None = None) -> list[str]:
    """The ids of what the doctor finds."""
    return [each.id for each in doctor.examine("default", options or Options())]


def execute(sql: str) -> None:
    db.rows("default", sql)


def test_nothing_is_found_where_workers_run_with_default_settings(
    live_database: LiveDatabase, start_supervisor: StartSupervisor
) -> None:
    start_supervisor("--processes", "1")

    eventually(lambda: Worker.objects.exists() and not db.rows("default", history.MISSING_DAYS, {"ahead": 14}), 30)

    assert doctor.examine("default", Options()) == []
    assert run("doctor") == "Nothing is wrong.\n"
    assert partly("doctor") == (0, {"healthy": True, "findings": []})


def test_a_session_with_an_old_snapshot_is_named(healthy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "HOLDS_TOO_LONG_SECONDS", 0)
    with raw_connection() as other:
        other.execute("set application_name = 'report'")
        other.execute("begin isolation level repeatable read")
        other.execute("select 'a secret'")

        [finding] = doctor.examine("default", Options())

        assert finding.id == "vacuum_held_back"
        assert f"session pid {other.info.backend_pid} of {other.info.user} (report), for" in finding.found
        assert "a secret" not in str(finding)
    assert found() == []


def test_a_replication_slot_that_nobody_reads_is_named(own_server: EmbeddedServer) -> None:
    history.ensure_partitions("default")
    execute("select pg_create_physical_replication_slot('gone', true)")

    [finding] = doctor.examine("default", Options())

    assert finding.id == "vacuum_held_back"
    assert "replication slot gone of nobody, inactive" in finding.found


def test_a_session_that_idles_in_a_transaction_is_named(healthy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "IDLE_TOO_LONG_SECONDS", 0)
    with raw_connection() as other:
        other.execute("begin")
        eventually(lambda: found() == ["idle_in_transaction"])


def test_many_dead_rows_are_found(healthy: None) -> None:
    execute("alter table djqueue_worker set (autovacuum_enabled = off)")
    execute("insert into djqueue_worker (id, seen_at) select n::text, '2000-01-01' from generate_series(1, 60000) n")
    execute("delete from djqueue_worker")

    assert eventually(found) == ["dead_rows"]


def test_a_partition_that_was_dropped_is_missed(healthy: None) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    execute(f"drop table djqueue_history_p{tomorrow:%Y%m%d}")

    assert found() == ["partitions_missing"]


def test_rows_that_found_no_partition_are_counted(healthy: None) -> None:
    execute(f"drop table djqueue_history_p{datetime.now(UTC):%Y%m%d}")
    add(1)
    ack(take_one())
    history.ensure_partitions("default")

    assert found() == ["history_overflow"]


def test_a_claim_without_its_index_is_found(healthy: None) -> None:
    execute("drop index djqueue_job_claim")

    assert found() == ["claim_without_index"]


def test_a_fleet_that_may_open_too_many_connections_is_found(healthy: None) -> None:
    Worker.objects.create(id="w1", supervisor_id="s1", slots=100_000)

    [finding] = doctor.examine("default", Options())

    assert finding.id == "connections"
    assert "1 supervisor, 1 worker and 100,000 slots that may open 100008" in finding.found


def test_a_task_that_no_worker_knows_is_an_orphan(healthy: None) -> None:
    add(2, task_name="old.gone")
    execute(f"update djqueue_job set state = 'parked', parked_for = '{orphan('old.gone')}'")

    [finding] = doctor.examine("default", Options())

    assert finding.id == "orphans"
    assert "2 jobs of old.gone" in finding.found


def test_ready_jobs_and_no_worker_are_an_error(healthy: None) -> None:
    add(1)

    assert [(each.id, each.severity) for each in doctor.examine("default", Options())] == [
        ("no_worker", Severity.ERROR)
    ]


def test_a_cron_entry_that_can_t_fire_is_found(healthy: None) -> None:
    CronEntry.objects.create(name="never", schedule="0 0 31 2 *", task_name="t", last_error="it never fires")

    assert found() == ["cron_never_fires"]


@contextmanager
def role_without(right: str, table: str) -> Iterator[None]:
    """Be a role that has all rights but one."""
    execute("create role djqueue_doctor_test")
    try:
        execute("grant all on all tables in schema public to djqueue_doctor_test")
        execute("grant all on all sequences in schema public to djqueue_doctor_test")
        execute(f"revoke {right} on {table} from djqueue_doctor_test")
        execute("set role djqueue_doctor_test")
        yield
    finally:
        execute("reset role")
        execute("drop owned by djqueue_doctor_test")
        execute("drop role djqueue_doctor_test")


def test_a_right_that_was_revoked_is_missed(healthy: None) -> None:
    with role_without("delete", "djqueue_dead_letter"):
        [finding] = doctor.examine("default", Options())

    assert finding.id == "rights_missing"
    assert finding.found == "expected all rights of a worker on djqueue_dead_letter, got none to DELETE"


def test_what_can_t_be_looked_at_is_said_and_hides_nothing_else(healthy: None) -> None:
    Queue.objects.create(name="q", max_running=0)
    with role_without("select", "djqueue_cron_entry"):
        ids = found()

    assert ids == ["rights_missing", "not_seen", "settings"]


def test_workers_of_two_versions_are_found(healthy: None) -> None:
    Worker.objects.create(id="w1", version="1.0")
    Worker.objects.create(id="w2", version="1.1")

    [finding] = doctor.examine("default", Options())

    assert (finding.id, "got 1.0, 1.1" in finding.found) == ("code_versions", True)


MIGRATED = "insert into django_migrations (app, name, applied) values ('djqueue', '9999_later', now())"
NOT_MIGRATED = "delete from django_migrations where app = 'djqueue' and name = '0004_queues'"


@pytest.mark.parametrize(("planted", "expected"), [(MIGRATED, "schema_newer"), (NOT_MIGRATED, "schema_older")])
def test_a_schema_of_another_release_is_found(healthy: None, planted: str, expected: str) -> None:
    execute(planted)

    assert found() == [expected]


@pytest.mark.parametrize(
    "options",
    [Options(lease_seconds=10, poll_seconds=30), Options(retry_base_seconds=100, retry_cap_seconds=10)],
)
def test_settings_that_contradict_each_other_are_found(healthy: None, options: Options) -> None:
    assert found(options) == ["settings"]


def test_findings_are_said_with_remedy_and_the_exit_code_says_that_there_are_some(healthy: None) -> None:
    Queue.objects.create(name="q", max_running=0)

    code, said = partly("doctor")

    assert (code, said["healthy"]) == (4, False)
    assert [set(each) for each in said["findings"]] == [{"id", "severity", "found", "why", "remedy"}]
    with pytest.raises(SystemExit):
        run("doctor")


def test_a_backend_that_is_none_is_refused(healthy: None) -> None:
    with pytest.raises(CommandError, match="--backend: expected"):
        run("doctor", "--backend", "none")


def test_every_finding_stands_in_the_documents() -> None:
    ids = set(re.findall(r'id="(\w+)"', Path(diagnosis.__file__).read_text()))
    said = Path("docs/operating.md").read_text().partition("## The doctor")[2]

    assert ids == set(re.findall(r"`(\w+)`(?=[^|]*\| [^|]*\|$)", said, re.MULTILINE)) | {"not_seen"}
