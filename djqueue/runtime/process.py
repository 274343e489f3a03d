"""The first steps of a child process, forked or spawned: die with the parent, set up Django if need be, then work."""

import ctypes
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, NoReturn

from djqueue.runtime.plan import Plan
from djqueue.runtime.slot_table import KIND, ORDER_DRAIN, ORDERS, RESERVATION, ZYGOTE, Kind, Page, SlotTable

if TYPE_CHECKING:
    from djqueue.runtime.zygote import Zygote

log = logging.getLogger("djqueue")

EXIT_RECYCLED = 75
"""A worker that has done its share, or was told to stop by somebody else than its parent; it is replaced at once."""

SWITCH_SECONDS = 0.001
"""How long a busy handler may keep the interpreter to itself (Python's own default is 5 ms): the main thread has an
answer to take, and a server that waits for it."""

_PR_SET_PDEATHSIG = 1


def stop_signals() -> list[signal.Signals]:
    """Return the signals that stop a supervisor gracefully. One that was ignored from the start (`nohup`) stays so."""
    wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    return [number for number in wanted if signal.getsignal(number) is not signal.SIG_IGN]


def run_worker(plan: Plan, table: SlotTable, index: int, numbers: Iterable[int], parent_pid: int) -> None:
    """Be a worker process."""
    _begin(parent_pid)
    _live(lambda: _work(plan, table, index, numbers))


def run_keeper(
    plan: Plan, table: SlotTable, wake: Connection, parent_write: Connection, numbers: Iterable[int], parent_pid: int
) -> None:
    """Be the keeper process. It ignores the signals that stop workers: heartbeats are the last thing to stop."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
    _begin(parent_pid)
    _live(lambda: _keep(plan, table, wake, parent_write))


def run_preflight(plan: Plan, table: SlotTable, parent_pid: int) -> None:
    """Look at the database before the first worker starts; a signal to stop ends that at once."""
    for number in stop_signals():
        signal.signal(number, signal.SIG_DFL)
    _begin(parent_pid)
    _live(lambda: _look(plan))


def live_as_child(parent_pid: int, life: Callable[[], int]) -> NoReturn:
    """Live, in a process that was just forked by hand; it ends with its parent at the latest."""
    signal.set_wakeup_fd(-1)
    _live(lambda: _after(parent_pid, life))


def die_with(parent_pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Get this signal as soon as the parent is gone: nobody would watch this process any more."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    else:
        threading.Thread(target=_watch, args=(parent_pid, number), daemon=True).start()
    if os.getppid() != parent_pid:  # it ended before the line above
        os.kill(os.getpid(), number)


def _begin(parent_pid: int) -> None:
    signal.set_wakeup_fd(-1)
    die_with(parent_pid)
    import django
    from django.apps import apps

    if not apps.ready:
        django.setup()


def _after(parent_pid: int, life: Callable[[], int]) -> int:
    die_with(parent_pid)
    return life()


def _work(plan: Plan, table: SlotTable, index: int, numbers: Iterable[int]) -> int:
    from djqueue.runtime.worker import Worker

    page = table.pages[index]
    sys.setswitchinterval(SWITCH_SECONDS)
    if page.get(KIND) == Kind.RESERVED:
        plan = plan.of_reservation(page.get(RESERVATION))
    worker = Worker(plan, page, _zygote(plan, page, numbers))
    strays: list[int] = []

    def on_signal(number: int, frame: object) -> None:
        if not page.get(ORDERS) & ORDER_DRAIN:
            strays.append(number)
        worker.stop()

    for number in numbers:
        signal.signal(number, on_signal)
    worker.run()
    return EXIT_RECYCLED if worker.is_recycling or strays else 0


def _zygote(plan: Plan, page: Page, numbers: Iterable[int]) -> "Zygote | None":
    """Fork one if jobs want processes of their own, before this process has threads and connections."""
    from djqueue.api import registry
    from djqueue.runtime import isolation, jobprocess
    from djqueue.runtime.zygote import Zygote

    registry.load()
    if not isolation.is_wanted(plan):
        return None
    page.set(ZYGOTE, 1)
    return Zygote.start(lambda channel: jobprocess.live(plan, page, channel), numbers)


def _look(plan: Plan) -> int:
    from djqueue.runtime import preflight

    return preflight.run(plan)


def _keep(plan: Plan, table: SlotTable, wake: Connection, parent_write: Connection) -> int:
    from djqueue.runtime.keeper import Keeper

    os.set_blocking(wake.fileno(), False)
    os.set_blocking(parent_write.fileno(), False)
    return Keeper(plan, table, wake.fileno(), parent_write.fileno()).run()


def _live(life: Callable[[], int]) -> NoReturn:
    """Live, and end without waiting for threads: a handler that can't be stopped must not keep the process alive, nor
    may a loop that has failed leave it alive and idle."""
    code = 1
    try:
        code = life()
    except BaseException:
        log.critical("process can't go on pid=%d", os.getpid(), exc_info=True)
    finally:
        _leave(code)


def _leave(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass  # whoever read it is gone
    os._exit(code)


def _watch(parent_pid: int, number: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(0.2)
    os.kill(os.getpid(), number)
