"""Tasks as somebody who comes from Celery has them, with one line changed."""

from typing import Any

from djqueue.contrib.celery import shared_task

SEEN: list[Any] = []


class Busy(Exception):
    """Worth another try."""


@shared_task
def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


@shared_task(bind=True, name="shop.old.pay", max_retries=2, default_retry_delay=60)
def pay(self: Any, order_id: int, failures: int = 0) -> str:
    """Ask for a retry as Celery's tasks do."""
    SEEN.append((self.request.id, self.request.retries, self.request.args))
    if self.request.retries < failures:
        try:
            raise Busy("the bank is closed")
        except Busy as error:
            raise self.retry(exc=error, countdown=5) from error
    return f"paid {order_id}"


@shared_task(autoretry_for=(Busy,), retry_backoff=4, retry_backoff_max=100, max_retries=None, queue="emails")
def send(kind: str) -> None:
    """Fail in one way or the other."""
    raise Busy(kind) if kind == "busy" else ValueError(kind)


@shared_task
def break_down() -> None:
    """Fail where no retry was asked for."""
    raise ValueError("broken")


@shared_task(bind=True)
def clumsy(self: Any, what: str) -> Any:
    """Want what there is not."""
    return self.retry(args=[1]) if what == "args" else getattr(self, what)
