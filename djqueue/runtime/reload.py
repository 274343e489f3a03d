"""`--reload`, for development: the worker is started again whenever code changes.

    runworker --reload ─► Django's reloader, restarted by each change ─► runworker: the real one, a child of its own
The real worker needs a main thread for its signals, and so does the reloader. Invariant: no real worker outlives its
reloader, however that ends.
"""

import atexit
import logging
import os
import signal
import subprocess
import threading

from django.utils import autoreload

from djqueue.api import registry
from djqueue.runtime.process import die_with

log = logging.getLogger("djqueue")

RELOADER = "DJQUEUE_RELOADER"
"""In the environment of the real worker: the process id of its reloader."""

STOP_SECONDS = 10.0


def is_inside() -> bool:
    """Tell whether this process is the real worker of a reloader."""
    return RELOADER in os.environ


def end_with_reloader() -> None:
    """Stop gracefully as soon as the reloader is gone."""
    die_with(int(os.environ.pop(RELOADER)), signal.SIGTERM)


def run() -> None:
    """Run this same command as a child, and again whenever code changes."""
    autoreload.run_with_reloader(_run_child)


def _run_child() -> None:
    """Run beside the thread that watches the files. A worker that has failed is started again by the next change."""
    arguments = autoreload.get_child_arguments()
    environment = {**os.environ, RELOADER: str(os.getpid()), autoreload.DJANGO_AUTORELOAD_ENV: ""}
    child = subprocess.Popen(arguments, env=environment)
    is_ending = threading.Event()
    atexit.register(_end, child, is_ending)
    _watch_tasks()
    code = child.wait()
    if is_ending.is_set():
        return
    if code == 0:  # drained
        os._exit(0)
    log.error("worker ended, waiting for a change exit_code=%d", code)


def _watch_tasks() -> None:
    """Import the tasks here as well: only files of imported modules, and of those that failed, are watched."""
    try:
        autoreload.check_errors(registry.load)()
    except Exception as error:
        log.debug("tasks can't be imported error=%s", error)


def _end(child: "subprocess.Popen[bytes]", is_ending: threading.Event) -> None:
    """Let it stop; then a second signal, which gives back what still runs; then the hard way."""
    is_ending.set()
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        if child.poll() is None:
            child.send_signal(number)
            try:
                child.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                pass
