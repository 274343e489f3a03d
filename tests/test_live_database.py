"""The fixtures that chaos and runtime tests stand on."""

import os
import signal
import subprocess
import sys
import threading

import psycopg
import pytest
from django.db import connection, connections

from testproject.embedded import EmbeddedServer
from testproject.shop.models import Counter
from tests.helpers import database_url, eventually, raw_connection
from tests.live import LiveDatabase
from tests.processes import ROOT, Supervisor, children_of, is_alive, is_stopped


def test_rows_are_committed_and_seen_by_a_second_session(live_database: LiveDatabase) -> None:
    Counter.objects.create(name="seen", value=7)

    with raw_connection() as other:
        assert other.execute("SELECT value FROM shop_counter").fetchall() == [(7,)]


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_gets_an_empty_database(live_database: LiveDatabase, turn: int) -> None:
    assert not Counter.objects.exists()
    Counter.objects.create(name="left behind")


def test_database_url_and_every_thread_mean_the_live_database(live_database: LiveDatabase) -> None:
    names: list[str] = []

    def look() -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT current_database()")
            names.append(cursor.fetchone()[0])
        connections["default"].close()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()

    assert names == [live_database.name]
    assert os.environ["DATABASE_URL"] == database_url() == live_database.url


def test_another_process_works_on_the_same_rows(live_database: LiveDatabase) -> None:
    script = (
        "import django; django.setup(); from testproject.shop.models import Counter; Counter.objects.create(name='x')"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "testproject.settings"}

    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT, env=environment)

    assert Counter.objects.get().name == "x"


@pytest.mark.django_db
def test_django_db_is_not_touched_by_live_databases() -> None:
    assert str(connection.settings_dict["NAME"]).startswith("test_")
    assert not Counter.objects.exists()


def test_own_server_keeps_committed_rows_through_a_crash(own_server: EmbeddedServer) -> None:
    Counter.objects.create(name="durable", value=3)

    own_server.restart("immediate")

    with pytest.raises(Exception, match=r"closed|terminat"):
        Counter.objects.get()
    connection.close()
    assert Counter.objects.get().value == 3


def test_supervisor_shows_and_kills_its_whole_tree(live_database: LiveDatabase) -> None:
    forker = "import os, signal; [os.fork() for _ in range(2)]; print('forked', flush=True); signal.pause()"
    supervisor = Supervisor.start("-c", forker, command="shell")
    eventually(lambda: len(supervisor.tree()) == 4, within=10, message=supervisor.output)
    tree = supervisor.tree()

    assert supervisor.children() == children_of(supervisor.pid) != []
    supervisor.kill_tree()

    assert not supervisor.is_running()
    assert not [pid for pid in tree if is_alive(pid)]
    assert supervisor.wait() == -signal.SIGKILL


def test_supervisor_reports_signals_output_and_exit_code(live_database: LiveDatabase) -> None:
    pauser = "import signal; print('ready', flush=True); signal.pause()"
    supervisor = Supervisor.start("-c", pauser, command="shell", env={"DJANGO_DEBUG": "1"})

    supervisor.wait_for_output("ready")
    supervisor.signal(signal.SIGSTOP)
    eventually(lambda: is_stopped(supervisor.pid))
    supervisor.signal(signal.SIGCONT)
    supervisor.signal(signal.SIGTERM, group=True)

    assert supervisor.wait(within=10) == -signal.SIGTERM


def test_eventually_fails_with_the_message_when_the_time_is_over() -> None:
    with pytest.raises(AssertionError, match="the door stayed shut"):
        eventually(lambda: 0, within=0.02, message="the door stayed shut")


def test_a_dropped_copy_is_gone_although_somebody_was_connected(live_database: LiveDatabase) -> None:
    """Only the fixture's end can show it, so this drops and looks by itself."""
    from tests.live import Template

    template = Template("live_drop_check")
    with template.database("live_drop_check") as database:
        held = psycopg.connect(database.url)
    with pytest.raises(psycopg.OperationalError):
        held.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(database.url)
