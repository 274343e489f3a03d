"""Tasks for the contract's tests, declared in both ways."""

from typing import Any

from djqueue import JobContext, RetryPolicy, task
from testproject.shop.models import Receipt

try:
    from django.tasks import task as django_task
except ImportError:
    from django_tasks import task as django_task  # type: ignore[no-redef,unused-ignore]


@task
def add(left: int, right: int = 0) -> int:
    """Add two numbers."""
    return left + right


@task(takes_context=True)
def who_am_i(context: JobContext, label: str) -> list[Any]:
    """Say what the context knows."""
    return [label, context.job_id, context.attempt, context.lease_token > 0, context.should_stop]


@task
async def add_later(left: int, right: int) -> int:
    """Add two numbers on the event loop."""
    return left + right


@task
async def count_receipts() -> int:
    """Ask the database on the event loop."""
    return await Receipt.objects.acount()


@task(max_attempts=2, retry=RetryPolicy(base_seconds=0))
def fail(message: str) -> None:
    """Fail."""
    raise ValueError(message)


@task(dedupe_key=lambda order_id, **_: f"receipt:{order_id}")
def receipt(order_id: int, copies: int = 1) -> int:
    """Stand for a receipt that must not be sent twice."""
    return order_id * copies


@task(circuit="stripe")
def charge(order_id: int) -> int:
    """Stand for a call to a partner."""
    return order_id


@task(keep_result=False)
def forget(value: int) -> int:
    """Return something that nobody wants to keep."""
    return value


@django_task(queue_name="emails", priority=5)  # type: ignore[untyped-decorator,unused-ignore]
def third_party(number: int) -> int:
    """Stand for the task of an app that knows nothing of djqueue."""
    return number


@django_task(takes_context=True)  # type: ignore[untyped-decorator,unused-ignore]
def third_party_with_context(context: Any) -> int:
    """The same, with Django's own context."""
    return int(context.attempt)


SEEN: list[str] = []
"""What `say` has said in this process."""


@task
def say(label: str, account: int = 0) -> str:
    """Say something; `fail` fails, `again` says `after` in a job of its own."""
    SEEN.append(label)
    if label == "fail":
        raise ValueError(label)
    if label == "again":
        say.using(ordering_key=f"account:{account}").enqueue("after", account)
    return label
