"""The life of a job's own process: read one job, run it with the steps of any other, write its outcome, end.

Nothing of the worker is used here but the slot table, which it shares: marks (cancelled, lost) and proofs of life pass
through it. Connections are the process's own, and are gone with it.
"""

import socket

from django.db import connections

from djqueue.api import registry
from djqueue.runtime import chaos, handler_db, wire
from djqueue.runtime.async_loop import AsyncLoop
from djqueue.runtime.held import Held
from djqueue.runtime.plan import Plan
from djqueue.runtime.slot_table import STOPPING, Page


def live(plan: Plan, page: Page, channel: socket.socket) -> None:
    """Run the job that comes through the channel."""
    leave_pools()
    job, start = wire.job_of(wire.receive(channel))
    held = Held(job, registry.get(job.task_name), page, start["index"])
    held.began, held.deadline_ns = start["began"], start["deadline_ns"]
    executor = chaos.executor(plan, AsyncLoop(), lambda: bool(page.get(STOPPING)), guard=Fresh())
    wire.send(channel, wire.outcome_text(executor.perform(held)))


def leave_pools() -> None:
    """A pool would open several connections at once, and threads, for this one job."""
    for alias in connections:
        connections.settings[alias]["OPTIONS"].pop("pool", None)


class Fresh:
    """The guard of connections that no other job will ever use."""

    def check_before(self) -> None:
        """Nothing is open yet."""

    def reset_after(self) -> str:
        """Close everything; return what the handler did wrong, or an empty string."""
        fault = ""
        for connection in connections.all(initialized_only=True):
            fault = handler_db.open_transaction(connection) or fault
        handler_db.close_all()
        return fault
