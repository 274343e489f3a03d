"""Handlers that misbehave on purpose, for tests and benchmarks. Each writes its start and its end to the ledger."""

import asyncio
import decimal
import logging
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path

from django.db import connection, connections, transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import activate as activate_language
from django.utils.translation import get_language

from djqueue import Cancel, Dead, JobContext, Retry, Snooze, task
from djqueue.policy.retry import RetryPolicy
from testproject.shop.models import Counter
from testproject.trials import ledger

AT_ONCE = RetryPolicy(base_seconds=0)
LOOK_AGAIN_SECONDS = 0.01
COLOUR: ContextVar[str] = ContextVar("colour", default="none")
LOCK = threading.Lock()

log = logging.getLogger(__name__)


def wait_for(path: str) -> None:
    """Wait until a file exists: the test decides how long a handler takes."""
    while not Path(path).exists():
        time.sleep(LOOK_AGAIN_SECONDS)


@task(retry=AT_ONCE)
def note(label: str) -> str:
    """Write a line and return the label."""
    ledger.write(label, "start")
    return label


@task(retry=AT_ONCE)
def hold(label: str, path: str) -> None:
    """Run until a file exists."""
    ledger.write(label, "start")
    wait_for(path)
    ledger.write(label, "end")


@task(retry=AT_ONCE, takes_context=True)
def hold_politely(context: JobContext, label: str, path: str) -> None:
    """Run until a file exists, the job is cancelled, or the worker stops."""
    ledger.write(label, "start")
    while not Path(path).exists():
        if context.cancelled:
            ledger.write(label, "cancelled")
            raise Cancel("as asked")
        if context.should_stop:
            ledger.write(label, "should stop")
            raise Snooze(0)
        time.sleep(LOOK_AGAIN_SECONDS)
    ledger.write(label, "end")


@task(retry=AT_ONCE)
async def hold_async(label: str, path: str) -> None:
    """Run until a file exists, on the event loop."""
    ledger.write(label, "start")
    try:
        while not Path(path).exists():
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
    except asyncio.CancelledError:
        ledger.write(label, "cancelled")
        raise
    ledger.write(label, "end")


@task(retry=AT_ONCE, max_attempts=3)
def poison(label: str, path: str = "") -> None:
    """Kill the whole process, once the file exists (or at once)."""
    ledger.write(label, "start")
    if path:
        wait_for(path)
    os.kill(os.getpid(), signal.SIGKILL)


@task(retry=AT_ONCE, max_attempts=3)
def topple(label: str, path: str) -> None:
    """Kill every process of the supervisor's group, the parent and the keeper too, once the file exists."""
    ledger.write(label, "start")
    wait_for(path)
    os.killpg(0, signal.SIGKILL)


@task(retry=AT_ONCE)
def leave_an_orphan(label: str) -> None:
    """Leave a process behind that ends a little later."""
    ledger.write(label, "start")
    subprocess.run(["sh", "-c", "sleep 0.2 &"], check=True)


@task(retry=AT_ONCE, timeout_seconds=None, takes_context=True)
def hold_without_limit(context: JobContext, label: str, path: str, beat: bool) -> None:
    """Run until a file exists, without a limit, and say so all the time, or never."""
    ledger.write(label, "start")
    while not Path(path).exists():
        if beat:
            context.heartbeat()
        time.sleep(LOOK_AGAIN_SECONDS)
    ledger.write(label, "end")


@task(retry=AT_ONCE)
def fail(label: str, message: str = "no luck") -> None:
    """Fail."""
    ledger.write(label, "start")
    raise RuntimeError(message)


@task(retry=AT_ONCE, max_attempts=1)
def need(label: str, path: str) -> None:
    """Fail unless a file exists: a cause that somebody mends."""
    ledger.write(label, "start")
    if not Path(path).exists():
        raise RuntimeError(f"{label}: the partner is away")


@task(retry=AT_ONCE)
def ask(label: str, wish: str) -> None:
    """End as one of djqueue's own signals says."""
    ledger.write(label, "start")
    match wish:
        case "retry":
            raise Retry(after=0)
        case "snooze":
            raise Snooze(3600)
        case "dead":
            raise Dead("as the test wished")
        case "cancel":
            raise Cancel("as the test wished")


@task(timeout_seconds=1, max_attempts=1)
def loop_for_ever(label: str) -> None:
    """Use the processor without end, in Python code."""
    ledger.write(label, "start")
    while True:
        pass


@task(timeout_seconds=1, max_attempts=1)
def sleep_for_ever(label: str) -> None:
    """Sleep without end, in C code that no exception reaches."""
    ledger.write(label, "start")
    time.sleep(100_000)


@task(timeout_seconds=1, max_attempts=1)
def read_for_ever(label: str) -> None:
    """Wait for bytes that never come."""
    ledger.write(label, "start")
    one, other = socket.socketpair()
    one.recv(1)
    other.close()


@task(timeout_seconds=1, max_attempts=1)
def ignore_the_limit(label: str) -> None:
    """Swallow whatever is sent into the thread."""
    ledger.write(label, "start")
    while True:
        try:
            time.sleep(LOOK_AGAIN_SECONDS)
        except BaseException:
            log.debug("swallowed")


@task(timeout_seconds=2, max_attempts=1)
def hold_the_gil(label: str) -> None:
    """Keep all other threads of the process from running, in C code."""
    ledger.write(label, "start")
    sum(range(1 << 62))


@task(retry=AT_ONCE, timeout_seconds=60)
def deadlock(label: str) -> None:
    """Wait for a lock that is never released, and break the process's main loop as well."""
    ledger.write(label, "start")
    select.select = lambda *_: threading.Event().wait()  # type: ignore[assignment]
    LOCK.acquire()
    LOCK.acquire()


@task(atomic=True, max_attempts=1000, retry=AT_ONCE)
def count(name: str) -> None:
    """Add one to a counter, exactly once per job."""
    ledger.write(name, "start")
    Counter.objects.filter(name=name).update(value=F("value") + 1)


@task(atomic=True, max_attempts=1000, retry=AT_ONCE)
def count_slowly(name: str, path: str) -> None:
    """Add one to a counter, and hold the transaction open until a file exists."""
    ledger.write(name, "start")
    Counter.objects.filter(name=name).update(value=F("value") + 1)
    wait_for(path)


@task(atomic=True, retry=AT_ONCE)
def count_and_hook(name: str, raises: str = "") -> None:
    """Add one to a counter, and leave work for after the commit, which may fail."""
    ledger.write(name, "start")
    Counter.objects.filter(name=name).update(value=F("value") + 1)
    transaction.on_commit(lambda: _after_commit(name, raises))


def _after_commit(name: str, raises: str) -> None:
    ended = "is committed" if is_in_history(name) else "is not committed"
    ledger.write(f"{name} {ended}", "hook")
    if raises:
        raise RAISED[raises]()


def is_in_history(name: str) -> bool:
    """Look from another connection."""
    import psycopg

    with psycopg.connect(os.environ["DATABASE_URL"]) as other:
        found = other.execute("select exists (select from djqueue_history where args->'args'->>0 = %s)", (name,))
        return bool((found.fetchone() or (False,))[0])


@task(max_attempts=1)
def leave_open_elsewhere(label: str) -> None:
    """Write to the second database, and leave the transaction open."""
    ledger.write(label, "start")
    with connections["other"].cursor() as cursor:
        cursor.execute("create table written (label text)")
        transaction.set_autocommit(False, using="other")
        cursor.execute("insert into written values (%s)", [label])


@task(max_attempts=1)
def write_elsewhere(label: str) -> None:
    """Write to the second database."""
    ledger.write(label, "start")
    with connections["other"].cursor() as cursor:
        cursor.execute("insert into written values (%s)", [label])


@task(max_attempts=1)
def make_dirty(how: str) -> None:
    """Leave the database connection in a bad state."""
    ledger.write(how, "start")
    DIRT[how]()


@task(max_attempts=1)
def look_around(label: str) -> list[str]:
    """Return what a handler finds in its thread and on its connection."""
    ledger.write(label, "start")
    with connection.cursor() as cursor:
        cursor.execute(SURROUNDINGS)
        found = [str(value) for value in cursor.fetchone()]
    here = [get_language(), timezone.get_current_timezone_name(), COLOUR.get(), str(decimal.getcontext().prec)]
    return [*found, *here, str(connection.in_atomic_block), str(connection.get_autocommit()), os.getcwd()]


SURROUNDINGS = """select current_user, current_setting('role'), current_setting('search_path'),
    current_setting('statement_timeout'), current_setting('default_transaction_read_only'), current_setting('TimeZone'),
    (select count(*) from pg_cursors), (select count(*) from pg_listening_channels()),
    (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())"""


@task(max_attempts=1)
def disorder(label: str) -> None:
    """Change everything that belongs to the thread or the process."""
    ledger.write(label, "start")
    activate_language("fr")
    timezone.activate("Asia/Tokyo")
    COLOUR.set("red")
    decimal.getcontext().prec = 3
    os.chdir("/")


class Unprintable(Exception):
    """Its text can't be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def _group(depth: int) -> BaseException:
    error: BaseException = ValueError("deepest")
    for _ in range(depth):
        error = BaseExceptionGroup("group", [error])
    return error


RAISED: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("as intended"),
    "SystemExit": lambda: SystemExit(1),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "NUL": lambda: ValueError("a\0b"),
    "surrogate": lambda: ValueError("a\ud800b"),
    "50 MB": lambda: ValueError("x" * 50_000_000),
    "unprintable": Unprintable,
    "500 deep": lambda: _group(500),
}


@task(max_attempts=1)
def throw(kind: str) -> None:
    """Raise something unusual."""
    ledger.write(kind, "start")
    raise RAISED[kind]()


@task(max_attempts=1)
def forget_to_await(label: str) -> object:
    """Return a coroutine instead of awaiting it."""
    ledger.write(label, "start")
    return asyncio.sleep(0)


@task(retry=AT_ONCE)
def return_a_set(label: str) -> set[int]:
    """Return what JSON has no word for."""
    ledger.write(label, "start")
    return {1, 2}


def _sql(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def _open_transaction() -> None:
    transaction.set_autocommit(False)
    _sql("select 1")


def _aborted_transaction() -> None:
    transaction.set_autocommit(False)
    try:
        _sql("select 1/0")
    except Exception:
        log.debug("as intended")


def _entered_atomic() -> None:
    transaction.atomic().__enter__()


def _server_cursor() -> None:
    _sql("declare djqueue_dirt cursor with hold for select generate_series(1, 10)")


def _closed() -> None:
    connection.ensure_connection()
    connection.connection.close()


def _killed() -> None:
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        (pid,) = cursor.fetchone()
    import psycopg

    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s)", (pid,))


DIRT = {
    "open transaction": _open_transaction,
    "aborted transaction": _aborted_transaction,
    "entered atomic": _entered_atomic,
    "role": lambda: _sql("set role pg_read_all_data"),
    "search path": lambda: _sql("set search_path to pg_catalog"),
    "statement timeout": lambda: _sql("set statement_timeout to 1"),
    "read only": lambda: _sql("set default_transaction_read_only to on"),
    "advisory lock": lambda: _sql("select pg_advisory_lock(4711)"),
    "cursor": _server_cursor,
    "listen": lambda: _sql("listen somebody"),
    "time zone": lambda: _sql("set time zone 'Asia/Tokyo'"),
    "closed": _closed,
    "killed": _killed,
}


@task(retry=AT_ONCE, max_attempts=100, ordering_key=lambda key, *_: key)
def in_order(key: str, number: int, path: str = "") -> None:
    """Run alone among the jobs of its key: for a few milliseconds, or until a file exists."""
    label = f"{key}:{number}"
    ledger.write(label, "start")
    if path:
        wait_for(path)
    time.sleep(LOOK_AGAIN_SECONDS)
    ledger.write(label, "end")
