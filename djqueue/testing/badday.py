"""What a bad day does to a job, in a test: the end before the ack, two attempts side by side, and all of it undone."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction

from djqueue.conf import Options
from djqueue.runtime.executor import Executor
from djqueue.runtime.held import Held
from djqueue.testing.standins import HereAndNow, Untouched

ABREAST_SECONDS = 1.0
"""How long one of two attempts side by side waits before its first write for the other to come as far."""

_WRITES = ("INSERT", "UPDATE", "DELETE", "MERGE ")


class Crash(BaseException):
    """Where the process would be gone."""


class Crashing(Executor):
    """Ends after the handler's effect and before the ack."""

    def __init__(self, alias: str, options: Options) -> None:
        super().__init__(alias, options, HereAndNow(), lambda: False, guard=Untouched())

    def _result_of(self, held: Held, call: Callable[[], Any]) -> str:
        super()._result_of(held, call)
        raise Crash


class Abreast:
    """Lets two attempts read before either of them writes, if they can: what check-then-act gets wrong shows then."""

    def __init__(self) -> None:
        self._barrier = threading.Barrier(2)
        self._passed = threading.local()

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if not getattr(self._passed, "yes", False) and sql.lstrip()[:6].upper() in _WRITES:
            self._passed.yes = True
            self._wait()
        return execute(sql, params, many, context)

    def leave(self) -> None:
        """One of the two has ended: the other one waits for nobody."""
        self._barrier.abort()

    def _wait(self) -> None:
        try:
            self._barrier.wait(ABREAST_SECONDS)
        except threading.BrokenBarrierError:
            pass  # the other one waits for a lock that this one holds, or has ended


@contextmanager
def undone(alias: str) -> Iterator[None]:
    """A transaction of which nothing stays; `durable` blocks of handlers take it for a TestCase's."""
    block = transaction.atomic(using=alias)
    block._from_testcase = True  # type: ignore[attr-defined]
    with block:
        yield
        transaction.set_rollback(True, using=alias)
