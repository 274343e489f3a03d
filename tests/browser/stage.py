"""A busy shop: figures, statistics and rows of every kind, as three days of work would leave them."""

import math
import random
from datetime import datetime, timedelta

from django.utils import timezone

from djqueue.models import Circuit, CodeVersion, CronFire, Leader, Limiter, Queue, Stat, Tenant, Worker
from djqueue.policy.gates import Gate, gate, queue_gate
from djqueue.policy.histogram import BUCKETS, bucket
from djqueue.store.limits import of_key, of_rate
from tests.admin import rows

WORK = (
    ("emails", "shop.tasks.send_receipt", 0.08, 40),
    ("images", "shop.tasks.make_thumbnail", 1.4, 12),
    ("partner", "shop.tasks.call_partner", 0.6, 8),
    ("default", "shop.tasks.clean_up", 0.004, 60),
    ("reports", "shop.tasks.build_report", 25.0, 0.4),
)
"""Queue, task, seconds, jobs per minute."""

PARTNER_IS_AWAY = range(9, 22)
"""Minutes ago."""

CAUSE = "ab" * 16
TENANTS = ("acme", "acme", "acme", "globex", "initech", "initech")


def set_up() -> None:
    """Fill the tables."""
    now, dice = timezone.now(), random.Random(5)
    _statistics(now, dice)
    _queues(now)
    _fleet(now)
    _jobs(now)
    _letters(now)
    _circuits(now)
    _limits(now)
    _cron(now, dice)


def _statistics(now: datetime, dice: random.Random) -> None:
    minute = now.replace(second=0, microsecond=0)
    found = []
    for ago in (*range(180), *range(180, 3 * 1440, 9)):
        pace = 1 + 0.5 * math.sin(ago / 40) + 0.3 * dice.random()
        for queue, task, seconds, rate in WORK:
            number = int(rate * pace + dice.random())
            trouble = queue == "partner" and ago in PARTNER_IS_AWAY
            counts = {
                "succeeded": number if not trouble else number // 4,
                "scheduled": int(number * (0.7 if trouble else 0.03) + 0.6 * dice.random()),
                "dead": int(dice.random() < (0.8 if trouble else 0.005)),
            }
            wait = 0.4 if ago in PARTNER_IS_AWAY else 0.02
            for outcome, count in counts.items():
                if count:
                    found.append(
                        Stat(
                            minute=minute - timedelta(minutes=ago),
                            queue_name=queue,
                            task_name=task,
                            outcome=outcome,
                            count=count,
                            seconds=count * seconds,
                            histogram=_spread(seconds, count, dice),
                            wait_histogram=_spread(wait, count, dice),
                        )
                    )
    Stat.objects.bulk_create(found)


def _spread(seconds: float, count: int, dice: random.Random) -> list[int]:
    found = [0] * BUCKETS
    for _ in range(count):
        found[bucket(seconds * dice.lognormvariate(0, 0.7))] += 1
    return found


def _queues(now: datetime) -> None:
    def queue(name: str, ready: int, waited: float | None, **fields: object) -> None:
        oldest = None if waited is None else now - timedelta(seconds=waited)
        Queue.objects.update_or_create(
            name=name, defaults={"ready": ready, "oldest_ready_at": oldest, "summary_at": now, **fields}
        )

    queue("default", 12, 0.4, leased=3, scheduled=4, retrying=1, weight=5)
    queue("emails", 1_280, 252, leased=4, scheduled=410, retrying=22, target_seconds=30, weight=3)
    queue("images", 90, 40, leased=2)
    until = now + timedelta(minutes=42)
    queue("partner", 31, 800, scheduled=64, retrying=60, paused_until=until, paused_by="ada", paused_reason="they move")
    queue("reports", 0, None, leased=1, scheduled=8)


def _fleet(now: datetime) -> None:
    for number in range(3):
        Worker.objects.create(
            id=f"6f1c{number}a2e-5d1b-4c0e-9a53-1d2f7f0c1100",
            supervisor_id="s1" if number < 2 else "s2",
            host="web-1" if number < 2 else "web-2",
            pid=4_100 + number,
            version="2026.11.3",
            slots=8,
            queues=["*"],
            task_names=[rows.TASK],
            memory_bytes=(90 + 13 * number) << 20,
            jobs_per_minute=41.5 + 7 * number,
        )
    for duty in ("djqueue", "cron"):
        Leader.objects.create(name=duty, holder="s1", term=3, until=now + timedelta(hours=9))
    CodeVersion.objects.create(version="2026.11.3", first_seen_at=now - timedelta(minutes=26))
    CodeVersion.objects.create(version="2026.11.2", first_seen_at=now - timedelta(hours=20))


def _jobs(now: datetime) -> None:
    workers = list(Worker.objects.order_by("id").values_list("id", flat=True))
    for _ in range(9):
        rows.make_job(queue_name="emails")
    for number in range(5):
        attempts = 2 + number % 2
        rows.make_scheduled_job(
            queue_name="partner",
            task_name="testproject.shop.tasks.call_partner",
            attempts=attempts,
            created_at=now - timedelta(minutes=12),
            run_at=now + timedelta(minutes=4),
            errors=[_failure(now - timedelta(minutes=11 - 4 * attempt), attempt + 1) for attempt in range(attempts)],
        )
    for number in range(6):
        lane = f"{of_key('partner')}:{gate(Gate.TENANT, TENANTS[number])}" if number < 4 else ""
        began = now - timedelta(seconds=3**number)
        tenant = TENANTS[number]
        rows.make_running_job(leased_by=workers[number % 3], started_at=began, tenant_id=tenant, lane=lane)
    for _ in range(12):
        created = now - timedelta(hours=2)
        rows.make_job(state="parked", parked_for="task:old.gone", task_name="old.gone", created_at=created)
    for _ in range(10):
        rows.make_finished(created_at=now - timedelta(seconds=30), started_at=now - timedelta(seconds=20))


def _failure(at: datetime, attempt: int) -> dict[str, object]:
    began = at - timedelta(seconds=40 + 25 * attempt)
    exception = {"exception": "shop.PartnerDown", "message": "order 4711: no answer"}
    moments = {"started_at": began.isoformat(), "at": at.isoformat(), "seconds": (at - began).total_seconds()}
    return {**rows.ERROR, **exception, **moments, "attempt": attempt}


def _letters(now: datetime) -> None:
    first = now - timedelta(minutes=18)
    rows.make_group(fingerprint=CAUSE, count=14, first_seen_at=first, masked="order … : no answer in attempt …")
    invalid = "invalid literal for int() with base 10: '…'"
    before = now - timedelta(days=3)
    rows.make_group(
        exception="builtins.ValueError",
        masked=invalid,
        state="muted",
        count=23,
        first_seen_at=before,
        last_seen_at=before,
    )
    rows.make_group(
        exception="djqueue.JobTimeout", masked="ran for over … s", state="resolved", first_seen_at=before,
        last_seen_at=before,
    )  # fmt: skip
    for _ in range(14):
        rows.make_dead_letter(queue_name="partner", fingerprint=CAUSE)
    rows.make_replay(total=400, requeued=160, succeeded=150, failed=4, fingerprint=CAUSE, created_by="ada")
    rows.make_replay(total=90, requeued=90, succeeded=88, failed=2, state="finished", finished_at=now)
    why = "12 of 20 failed, more than 20 %"
    rows.make_replay(
        total=300, requeued=20, succeeded=8, failed=12, state="stopped", reason=why, finished_at=now - timedelta(days=2)
    )


def _circuits(now: datetime) -> None:
    for name, state, opened in (("stripe", "closed", 0), ("partner", "open", 3), ("maps", "half_open", 1)):
        Circuit.objects.create(
            name=name,
            gate=name,
            state=state,
            opened=opened,
            changed_at=now - timedelta(minutes=4),
            credited_at=now,
            open_until=now + timedelta(minutes=1) if state == "open" else None,
            calls=1_200,
            failures=90 * opened,
        )


def _limits(now: datetime) -> None:
    Limiter.objects.create(name=of_key("partner"), label="key partner", declared_running=4, task_name="shop.tasks.call")
    Limiter.objects.create(name=of_rate("maps"), label="key maps", declared_rate=100 / 60, declared_burst=20)
    Limiter.objects.create(name=queue_gate("emails"), label="queue emails", declared_running=8, max_running=12)
    for number, tenant in enumerate(sorted(set(TENANTS))):
        Tenant.objects.create(
            queue_name="emails", tenant_id=tenant, gate=gate(Gate.TENANT, tenant), weight=1 + number, used_at=now,
            mean_seconds=0.08 * (1 + number), max_running=3 if tenant == "acme" else None,
        )  # fmt: skip


def _cron(now: datetime, dice: random.Random) -> None:
    rows.make_entry(name="nightly bill", timezone="Europe/Paris", next_fire_at=now + timedelta(hours=5))
    rows.make_entry(name="sync partner", schedule="*/5 * * * *", next_fire_at=now + timedelta(minutes=3), in_code=True)
    rows.make_entry(name="monthly report", schedule="0 7 1 * *", enabled=False)
    dead = rows.make_dead_letter(task_name="testproject.shop.tasks.noop", queue_name="default")
    for number in range(24):
        at = now - timedelta(minutes=5 * (24 - number))
        late = 200 if number == 12 else 2 * dice.random()
        outcome = "overlapped" if number in (15, 16) else "enqueued"
        job = dead.pk if number == 17 else None if outcome == "overlapped" else rows.uuid7()
        CronFire.objects.create(
            name="sync partner", fire_at=at, fired_at=at + timedelta(seconds=late), outcome=outcome, job_id=job
        )
