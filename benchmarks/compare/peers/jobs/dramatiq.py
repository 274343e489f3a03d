"""Dramatiq's broker and actors."""

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.compare import handlers
from benchmarks.compare.peers import base

broker = RedisBroker(url=base.redis_url())
dramatiq.set_broker(broker)


@dramatiq.actor
def noop(number: int) -> None:
    """Do nothing."""
    handlers.noop(number)


@dramatiq.actor
def short(number: int) -> None:
    """Wait 10 ms."""
    handlers.short(number)
