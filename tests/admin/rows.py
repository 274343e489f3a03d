"""Rows of every kind, written straight into the tables, as the store and the workers would leave them."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

from django.utils import timezone

from djqueue.models import Circuit, CronEntry, DeadLetter, ErrorGroup, History, Job, Replay
from djqueue.policy.gates import Gate, gate
from djqueue.policy.ids import uuid7

TASK = "testproject.shop.tasks.send_receipt"
SECRET = "correct horse battery staple"
ARGS = {"args": [SECRET], "kwargs": {}}
ERROR = {
    "attempt": 1,
    "run": 1,
    "at": "2026-01-02T03:04:05+00:00",
    "worker": "w1",
    "kind": "error",
    "exception": "builtins.ValueError",
    "message": f"no {SECRET}",
    "traceback": f"Traceback (most recent call last):\n  {SECRET}",
    "seconds": 0.25,
}
LAST_MOMENT = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
FIRST_MOMENT = datetime(1, 1, 1, tzinfo=UTC)

_seq = count(1)


def make_job(**fields: Any) -> Job:
    """A ready job, unless told otherwise."""
    base = {"id": uuid7(), "seq": next(_seq), "queue_name": "emails", "task_name": TASK, "args": ARGS}
    return Job.objects.create(**{**base, **fields})


def make_scheduled_job(**fields: Any) -> Job:
    """A job that waits an hour for its second attempt."""
    later = timezone.now() + timedelta(hours=1)
    return make_job(**{"state": "scheduled", "run_at": later, "attempts": 1, "errors": [ERROR], **fields})


def make_running_job(**fields: Any) -> Job:
    """A job that a worker holds."""
    until = timezone.now() + timedelta(seconds=30)
    lease = {"state": "leased", "lease_until": until, "leased_by": "w1", "started_at": timezone.now(), "attempts": 1}
    return make_job(**{**lease, **fields})


def make_dead_letter(**fields: Any) -> DeadLetter:
    """A job that died after eight attempts."""
    now = timezone.now()
    base = {
        "id": uuid7(),
        "seq": next(_seq),
        "died_at": now,
        "created_at": now,
        "lease_token": 5,
        "priority": 0,
        "attempts": 8,
        "max_attempts": 8,
        "interruptions": 0,
        "runs": 1,
        "reason": "attempts used up",
        "queue_name": "emails",
        "lane": "",
        "task_name": TASK,
        "tenant_id": "",
        "on_dead": "skip",
        "worker_ids": ["w1"],
        "args": ARGS,
        "errors": [ERROR],
        "options": {},
    }
    return DeadLetter.objects.create(**{**base, **fields})


def make_finished(**fields: Any) -> History:
    """A job that succeeded just now."""
    now = timezone.now()
    base = {
        "id": uuid7(),
        "finished_at": now,
        "created_at": now,
        "started_at": now,
        "lease_token": 5,
        "attempts": 1,
        "interruptions": 0,
        "runs": 1,
        "priority": 0,
        "outcome": "succeeded",
        "queue_name": "emails",
        "task_name": TASK,
        "tenant_id": "",
        "worker_ids": ["w1"],
        "args": ARGS,
        "result": SECRET,
        "errors": [ERROR],
        "options": {},
    }
    return History.objects.create(**{**base, **fields})


def make_entry(**fields: Any) -> CronEntry:
    """A nightly entry."""
    base = {"name": "nightly", "schedule": "30 2 * * *", "task_name": "testproject.shop.tasks.noop"}
    return CronEntry.objects.create(**{**base, **fields})


def lease_behind_the_page(id_: UUID) -> None:
    """A worker claims the job while somebody looks at a page."""
    until = timezone.now() + timedelta(seconds=30)
    Job.objects.filter(pk=id_).update(state="leased", lease_until=until, leased_by="w1", attempts=1)


def make_group(**fields: Any) -> ErrorGroup:
    """A cause of which three jobs died."""
    now = timezone.now()
    base = {
        "fingerprint": f"{next(_seq):032x}",
        "exception": "shop.PartnerDown",
        "frame": "shop/partner.py:fetch",
        "masked": "no account '…'",
        "count": 3,
        "first_seen_at": now,
        "last_seen_at": now,
        "tasks": [TASK],
        "samples": [f"no account '{SECRET}'"],
    }
    return ErrorGroup.objects.create(**{**base, **fields})


def make_replay(**fields: Any) -> Replay:
    """A replay that runs."""
    return Replay.objects.create(**{"created_at": timezone.now(), "total": 10, "requeued": 4, **fields})


def make_circuit(**fields: Any) -> Circuit:
    """A circuit that is closed."""
    now = timezone.now()
    gate_name = gate(Gate.CIRCUIT, fields.get("name", "stripe"))
    return Circuit.objects.create(
        **{"name": "stripe", "gate": gate_name, "changed_at": now, "credited_at": now, **fields}
    )
