"""A job in this worker's hands, from its claim to its end."""

import inspect
import json
import time
from typing import Any

from djqueue.api import largeargs
from djqueue.policy import payloads
from djqueue.runtime.outcome import Outcome
from djqueue.runtime.permit import Permit
from djqueue.runtime.slot_table import R_CANCEL, R_LOST, R_REVOKED, Page, now_ns
from djqueue.store.claim import Claimed
from djqueue.store.lease import Lease
from djqueue.store.ordering import Key


class BadPayload(ValueError):
    """The row's arguments are not what djqueue writes; no other attempt can mend that."""


class Held:
    """One claimed job: its row, its record in the slot table, and how it went. One slot thread at a time changes it."""

    __slots__ = (
        "began",
        "cancel_seen",
        "deadline_ns",
        "ended",
        "expires",
        "forced",
        "index",
        "is_async",
        "is_isolated",
        "job",
        "lease",
        "outcome",
        "page",
        "permit",
        "taken",
        "task",
    )

    def __init__(self, job: Claimed, task: Any, page: Page, index: int) -> None:
        self.job = job
        self.task = task
        self.page = page
        self.index = index
        self.lease = Lease(job.id, job.lease_token)
        self.taken = time.monotonic()
        self.began = 0.0
        self.ended = 0.0
        self.expires = None if job.expires_in is None else time.monotonic() + job.expires_in
        """Moment on the monotonic clock after which it may not be started; a little late, never early."""
        self.deadline_ns = 0
        self.outcome: Outcome | None = None
        self.cancel_seen = 0.0
        self.is_async = inspect.iscoroutinefunction(self.task.func) and not self.task.atomic
        self.is_isolated = False
        """It runs in a process of its own; the slot's thread only watches that."""
        self.permit: Permit | None = None
        """The leave of its circuit to start."""
        self.forced = ""
        """Why the handler is to be ended by force: `timeout` or `cancel`."""

    @property
    def waited_seconds(self) -> float:
        """Seconds from the moment when the job could have run to its start: by the database's clock up to the claim,
        of which the token tells, and by this process's own from then on."""
        return max(0.0, self.job.lease_token / 1e6 - self.job.run_at + self.began - self.taken)

    @property
    def key(self) -> Key | None:
        """The ordering key that the job holds."""
        return None if self.job.ordering_key is None else Key(self.job.queue_name, self.job.ordering_key)

    @property
    def is_revoked(self) -> bool:
        """The keeper has given the job back before it was started."""
        return self.page.is_marked(self.index, R_REVOKED, self.job.lease_token)

    @property
    def is_lost(self) -> bool:
        """The lease has gone to somebody else."""
        return self.page.is_marked(self.index, R_LOST, self.job.lease_token)

    @property
    def is_cancel_requested(self) -> bool:
        """Somebody asked for the job to be cancelled."""
        return self.page.is_marked(self.index, R_CANCEL, self.job.lease_token)

    @property
    def is_shut_out(self) -> bool:
        """Its circuit has opened since it was claimed."""
        return self.permit is not None and not self.permit.is_valid

    @property
    def is_expired(self) -> bool:
        """The job may not be started any more."""
        return self.expires is not None and time.monotonic() >= self.expires

    def start(self, default_timeout: float) -> bool:
        """Write that the handler begins; return False where the keeper was faster and has given the job back.

        The order matters: first the start is written, then the mark is read; the keeper does it the other way round,
        so that at least one of the two sees the other.
        """
        seconds = self.job.timeout_seconds
        started = now_ns()
        self.deadline_ns = started + int((default_timeout if seconds is None else seconds) * 1e9)
        self.page.start(self.index, started, self.deadline_ns)
        self.began = time.monotonic()
        return not self.is_revoked

    def prove_life(self, default_timeout: float) -> None:
        """Move the deadline of a job without a time limit: it is alive."""
        if self.job.timeout_seconds is None:
            self.deadline_ns = now_ns() + int(default_timeout * 1e9)
            self.page.extend(self.index, self.deadline_ns)

    def remaining_seconds(self) -> float:
        """Return the seconds until the hard time limit."""
        return (self.deadline_ns - now_ns()) / 1e9

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Return the handler's arguments, those of an older version upgraded; raise `BadPayload` where the row holds
        something else, `UpgradeFailed` where they can't be upgraded, `ArgumentsMissing` where their file is gone."""
        text = largeargs.whole(self.job.args)
        if text is not self.job.args:
            self.job = self.job._replace(args=text)
        found = json.loads(text)
        if not isinstance(found, dict) or not isinstance(found.get("args"), list):
            raise BadPayload(
                f"args: expected an object with 'args' (a list) and 'kwargs' (an object), got {_short(found)}"
            )
        kwargs = found.get("kwargs")
        if not isinstance(kwargs, dict):
            raise BadPayload(f"args: expected an object 'kwargs', got {_short(kwargs)}")
        return self._upgraded(found["args"], kwargs)

    def _upgraded(self, args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        version, task = payloads.version_of(self.job.options), self.task
        if version == task.version:
            return args, kwargs
        if not 1 <= version < task.version:
            raise BadPayload(
                f"options.version: expected a version from 1 to {task.version}, which this code has of "
                f"{task.module_path}, got {version or 'something else'}"
            )
        return payloads.upgraded(task.module_path, version, task.version, task.upgrades, args, kwargs)


def _short(value: object) -> str:
    return repr(value)[:200]
