"""The state that costs a job's page most: everything that may hold a job back, everybody who belongs to it."""

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Permission
from django.utils import timezone

from djqueue.models import Circuit, KeyBlock, Lane, Limiter, Pause, Queue, Tenant, Worker
from djqueue.policy.gates import Gate, gate, lane
from tests.admin import rows

GATES = [
    (Gate.CIRCUIT, "stripe"),
    (Gate.RATE, "key api"),
    (Gate.CONCURRENCY, f"task {rows.TASK}"),
    (Gate.TENANT, "acme"),
]
LANE = lane(GATES)
FAIR: dict[str, Any] = {"tenant_id": "acme", "lane": LANE, "options": {"subject": "shop.order:7", "version": 2}}


def permissions() -> list[str]:
    """Every permission that there is: more questions than a superuser is asked."""
    return sorted(set(Permission.objects.filter(content_type__app_label="djqueue").values_list("codename", flat=True)))


def make() -> None:
    """A fair queue with limits, gates and a pace, many jobs, a pause, two workers, statistics."""
    now, later = timezone.now(), timezone.now() + timedelta(hours=1)
    Queue.objects.create(
        name="emails", max_running=50, tenant_max_running=9, rate_limit="1000/s", ready=40, summary_at=now,
        oldest_ready_at=now - timedelta(minutes=3),
    )  # fmt: skip
    for kind, name in GATES:
        Lane.objects.create(queue_name="emails", lane=gate(kind, name), max_running=100)
        Limiter.objects.create(name=gate(kind, name), label=name, max_running=100)
    Circuit.objects.create(name="stripe", gate=gate(*GATES[0]), changed_at=now, credited_at=now)
    Tenant.objects.create(queue_name="emails", tenant_id="acme", gate=gate(*GATES[-1]), max_running=9, weight=2)
    Pause.objects.create(kind="task", name="some.other", paused_until=later, reason="moving", paused_by="ada")
    Pause.objects.create(kind="tenant", name="globex", paused_until=later, reason="unpaid", paused_by="ada")
    for id_ in ("w1", "w2"):
        Worker.objects.create(id=id_, queues=["*"], task_names=[rows.TASK, f"{rows.TASK}@2"], slots=4, seen_at=now)
    for _ in range(30):
        rows.make_job(**FAIR, run_at=now - timedelta(minutes=2))
    KeyBlock.objects.create(queue_name="emails", ordering_key="blocked", job_id=rows.make_dead_letter(**_ended()).pk)


def jobs() -> dict[str, Any]:
    """A job for each way in which one can be, each with a parent and thirty children."""
    parent = str(rows.make_finished(**_ended()).pk)
    options = {**FAIR["options"], "parent": parent}
    fields = {**FAIR, "options": options}
    ended = {"tenant_id": "acme", "options": options}
    made = {
        "ready behind others": rows.make_job(**fields),
        "suspect": rows.make_job(**fields, suspect=True),
        "retrying": rows.make_scheduled_job(**fields),
        "running": rows.make_running_job(**fields),
        "paused": rows.make_job(**fields, state="parked", parked_for="tenant:acme"),
        "key blocked": rows.make_job(**fields, state="parked", ordering_key="blocked"),
        "expiring": rows.make_job(**fields, expires_at=rows.LAST_MOMENT),
        "succeeded": rows.make_finished(**ended),
        "dead": rows.make_dead_letter(**ended),
    }
    for job in made.values():
        for _ in range(3):
            rows.make_job(options={"parent": str(job.pk)}, state="parked", parked_for="task:x")
    return made


def _ended() -> dict[str, Any]:
    return {"tenant_id": "acme", "options": dict(FAIR["options"])}
