"""The account that a handler gives of itself while it runs: its progress and its checkpoints.

Stands between `Control` and `store.progress`. Invariants: progress costs at most one statement a second; a checkpoint
is written when `save` returns (with the transaction that is open there), or an error says that it is not.
"""

import json
import time
from typing import Any

from django.db import connections

from djqueue.exceptions import LeaseLost
from djqueue.policy.arguments import freeze_value
from djqueue.runtime.held import Held
from djqueue.store import progress

CHECKPOINT_BYTES = 256_000
MOST_OFTEN_SECONDS = 1.0

_UNREAD = object()
_LOST = "the lease has ended, the job belongs to another attempt by now: end without further effects"


class Account:
    """Progress and checkpoints of one attempt."""

    __slots__ = ("_alias", "_checkpoint", "_held", "_said_at")

    def __init__(self, alias: str, held: Held) -> None:
        self._alias = alias
        self._held = held
        self._said_at = float("-inf")
        self._checkpoint: Any = _UNREAD

    def tell(self, said: dict[str, Any], *, is_last: bool) -> None:
        """Write the progress, unless that was done within the last second; the last one always."""
        now = time.monotonic()
        if not is_last and now - self._said_at < MOST_OFTEN_SECONDS:
            return
        self._said_at = now
        apart = connections[self._alias].in_atomic_block
        progress.tell(self._alias, self._held.lease, json.dumps(said), apart=apart)

    def load(self) -> Any:
        """Return the last checkpoint of any attempt, None before the first; read once."""
        if self._checkpoint is _UNREAD:
            found = progress.load(self._alias, self._held.lease)
            if found is None:
                raise LeaseLost(f"checkpoint: {_LOST}")
            self._checkpoint = None if found[0] is None else json.loads(found[0])
        return self._checkpoint

    def save(self, value: Any) -> None:
        """Write a checkpoint."""
        if self._held.task.atomic:
            raise ValueError(
                "save_checkpoint: expected a task without atomic=True, got one with it: what it has done is rolled "
                "back with the attempt, so that no other one could go on from there"
            )
        text = freeze_value(value, what="checkpoint")
        if len(text.encode()) > CHECKPOINT_BYTES:
            raise ValueError(
                f"checkpoint: expected at most {CHECKPOINT_BYTES:,} bytes of JSON, got {len(text.encode()):,}; keep "
                "the data in a model or a file and save its key"
            )
        if not progress.save(self._alias, self._held.lease, text):
            raise LeaseLost(f"save_checkpoint: {_LOST}")
        self._checkpoint = json.loads(text)
