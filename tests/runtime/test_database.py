"""R15, R19: what databases do to a queue. Workers go on by themselves, and each job runs once."""

import psycopg
import pytest
from django.db import connection
from psycopg import sql

from testproject.embedded import EmbeddedServer
from testproject.trials import tasks
from tests.conftest import StartSupervisor
from tests.helpers import eventually
from tests.runtime.trial import Trial, history, rows

pytestmark = pytest.mark.slow


@pytest.fixture
def server_trial(own_server: EmbeddedServer, start_supervisor: StartSupervisor, tmp_path: object) -> Trial:
    """A trial on a server of its own, which may be restarted."""
    return Trial(folder=tmp_path, start_supervisor=start_supervisor)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_in_the_middle_of_a_job_costs_no_second_run(
    own_server: EmbeddedServer, server_trial: Trial, mode: str
) -> None:
    """R19: the ack is repeated until it is answered; one run, same worker, no hot loop."""
    trial = server_trial
    tasks.hold.enqueue("through", trial.file("go"))
    supervisor = trial.supervisor("--processes", "1", "--threads", "2")
    trial.wait_for_starts("through")
    connection.close()
    own_server.restart(mode)  # type: ignore[arg-type]
    trial.make("go")
    trial.wait_until_done()
    tasks.note.enqueue("afterwards")
    trial.wait_until_done()

    assert trial.events() == {"through": 1, "afterwards": 1}
    assert history() == {"succeeded": 2}
    assert trial.pids("through") == trial.pids("afterwards")
    assert supervisor.output().count("database trouble") < 40


def test_a_worker_started_before_its_database_waits_for_it(own_server: EmbeddedServer, server_trial: Trial) -> None:
    """R19: at start-up too."""
    tasks.note.enqueue("early bird")
    supervisor = server_trial.supervisor(env={"DATABASE_URL": own_server.url_of("later")})
    supervisor.wait_for_output("database trouble")
    name = connection.settings_dict["NAME"]
    connection.close()
    with psycopg.connect(own_server.url_of("postgres"), autocommit=True) as other:
        other.execute(sql.SQL("create database later template {}").format(sql.Identifier(name)))

    server_trial.wait_for_starts("early bird", within=30)
    assert supervisor.is_running()


def listeners() -> int:
    mine = "select count(*) from pg_stat_activity where datname = current_database()"
    return int(rows(f"{mine} and query = 'listen djqueue'")[0][0])


def test_killed_backends_are_replaced_and_listening_goes_on(trial: Trial) -> None:
    """R15: LISTEN reconnects after its backend is killed; a job is started by notification again."""
    supervisor = trial.supervisor("--threads", "1", options={"poll_seconds": 60})
    tasks.note.enqueue("first")
    trial.wait_for_starts("first")
    eventually(lambda: listeners() == 1)

    rows(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    supervisor.wait_for_output("not listening")
    eventually(lambda: listeners() == 1, 20)
    tasks.note.enqueue("second")

    trial.wait_for_starts("second", within=10)


def test_without_notifications_the_poll_is_enough(trial: Trial) -> None:
    """R15: switched off."""
    trial.supervisor(options={"listen_alias": "", "poll_seconds": 0.2})
    eventually(lambda: rows("select count(*) from djqueue_worker")[0][0] == 1)

    tasks.note.enqueue("polled")

    trial.wait_for_starts("polled")
    assert listeners() == 0


@pytest.mark.parametrize(
    "setting", ["statement_timeout = '5s'", "lock_timeout = '1s'", "default_transaction_isolation = 'serializable'"]
)
def test_settings_of_the_role_do_not_stop_a_worker(trial: Trial, setting: str) -> None:
    """R19: timeouts set on the role, and SERIALIZABLE as the default level."""
    rows(f"alter database {connection.settings_dict['NAME']} set {setting}")
    tasks.note.enqueue_many([(f"job {number}",) for number in range(200)])
    trial.supervisor("--processes", "2")
    trial.wait_until_done(within=30)

    assert history() == {"succeeded": 200}


def test_a_read_only_phase_is_waited_out(trial: Trial) -> None:
    """R19: 25006, as during a failover."""
    name = connection.settings_dict["NAME"]
    supervisor = trial.supervisor()
    eventually(lambda: rows("select count(*) from djqueue_worker")[0][0] == 1)
    rows(f"alter database {name} set default_transaction_read_only = on")
    connection.close()
    rows(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    supervisor.wait_for_output("25006", within=20)
    rows("set default_transaction_read_only = off")
    rows(f"alter database {name} set default_transaction_read_only = off")
    connection.close()
    tasks.note.enqueue("after the failover")

    trial.wait_for_starts("after the failover", within=30)
    assert supervisor.is_running()
