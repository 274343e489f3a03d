"""The first steps of a child process, forked or spawned: die with the parent, set up Django if need be, then work."""

import ctypes
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection

from djqueue.runtime.plan import Plan

EXIT_RECYCLED = 75
"""A worker that has done its share; it is replaced at once."""

_PR_SET_PDEATHSIG = 1


def run_worker(plan: Plan, table_path: str, pages: int, index: int, parent_pid: int) -> None:
    """Be a worker process."""
    _begin(parent_pid)
    from djqueue.runtime.slot_table import SlotTable
    from djqueue.runtime.worker import Worker

    worker = Worker(plan, SlotTable(table_path, pages).pages[index])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    worker.run()
    _leave(EXIT_RECYCLED if worker.is_recycling else 0)


def run_keeper(
    plan: Plan, table_path: str, pages: int, wake: Connection, parent_write: Connection, parent_pid: int
) -> None:
    """Be the keeper process."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    _begin(parent_pid)
    from djqueue.runtime.keeper import Keeper
    from djqueue.runtime.slot_table import SlotTable

    os.set_blocking(wake.fileno(), False)
    os.set_blocking(parent_write.fileno(), False)
    keeper = Keeper(plan, SlotTable(table_path, pages), wake.fileno(), parent_write.fileno())
    _leave(keeper.run())


def _begin(parent_pid: int) -> None:
    signal.set_wakeup_fd(-1)
    _die_with(parent_pid)
    import django
    from django.apps import apps

    if not apps.ready:
        django.setup()


def _die_with(parent_pid: int) -> None:
    """End at once when the parent is gone: nobody would watch this process any more."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    else:
        threading.Thread(target=_watch, args=(parent_pid,), daemon=True).start()
    if os.getppid() != parent_pid:
        os._exit(1)


def _watch(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(0.2)
    os._exit(1)


def _leave(code: int) -> None:
    """End without waiting for slot threads: a handler that can't be stopped must not keep the process alive."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
