"""Tasks whose arguments have changed since some jobs were enqueued."""

from typing import Any

from djqueue import task

SEEN: list[dict[str, Any]] = []
"""What the handlers of this process were called with."""


def _named(args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    return [], {"order_id": args[0], **kwargs}


def _in_cents(args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    return args, {"order_id": kwargs["order_id"], "cents": round(float(kwargs["total"]) * 100)}


@task(version=3, upgrades={1: _named, 2: _in_cents}, aliases=["shop.old.bill"], dedupe_key="bill")
def bill(*, order_id: int, cents: int) -> int:
    """Take the cents since version 3; a total, in text, before; version 1 took the order by position."""
    SEEN.append({"order_id": order_id, "cents": cents})
    return cents
