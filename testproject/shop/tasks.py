"""The shop's tasks, one for each kind of work that a queue meets."""

import hashlib

from django.db.models import F

from djqueue import JobContext, task
from testproject.shop.models import Counter, PartnerCall, Receipt, Thumbnail


class PartnerOutOfOrder(Exception):
    """Say that the partner did not answer this time."""


@task(queue_name="emails", atomic=True)
def send_receipt(order_id: int) -> None:
    """Record the receipt of an order, exactly once: it commits together with the job's end."""
    Receipt.objects.create(order_id=order_id)


@task(queue_name="images", priority=-10, timeout_seconds=60)
def make_thumbnail(image: str, width: int = 200) -> str:
    """Do some work for the processor, as scaling a picture would; return a digest of it."""
    digest = image.encode()
    for _ in range(width):
        digest = hashlib.sha256(digest).digest()
    Thumbnail.objects.create(image=image, width=width)
    return digest.hex()


@task(queue_name="partner", max_attempts=5, takes_context=True)
def call_partner(context: JobContext, order_id: int, failures: int = 2) -> int:
    """Call the partner, who fails `failures` times before he answers; return the attempt that succeeded."""
    succeeded = context.attempt > failures
    PartnerCall.objects.create(order_id=order_id, attempt=context.attempt, succeeded=succeeded)
    if not succeeded:
        raise PartnerOutOfOrder(f"order {order_id}: no answer in attempt {context.attempt}")
    return context.attempt


@task()
def noop(number: int = 0) -> None:
    """Do nothing: what remains is the cost of the queue."""


@task(atomic=True, max_attempts=1000)
def add_one_to_counter(name: str) -> None:
    """Add one to a counter, exactly once per job."""
    Counter.objects.filter(name=name).update(value=F("value") + 1)
