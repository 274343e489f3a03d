"""What stands in a test where a worker has its connections' guard and its page of the slot table."""

from collections.abc import Coroutine
from typing import Any

from asgiref.sync import async_to_sync

from djqueue.runtime.async_loop import AsyncLoop
from djqueue.runtime.held import Held


class HereAndNow(AsyncLoop):
    """Async handlers run while this thread waits: what they ask of the database runs on its connection, and so in the
    test's transaction."""

    def run(self, held: Held, handler: Coroutine[Any, Any, Any]) -> Any:
        """Run the handler to its end and return its result, or raise what it raised."""
        value, error = async_to_sync(_guarded)(handler)
        if error is not None:
            raise error
        return value


async def _guarded(handler: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
    """Let no exception reach the loop: SystemExit would end the test's."""
    try:
        return await handler, None
    except BaseException as error:
        return None, error


class Untouched:
    """The test's own connections and transactions are left alone."""

    def check_before(self) -> None:
        """Do nothing."""

    def reset_after(self) -> str:
        """Find no fault."""
        return ""


class NoPage:
    """Nobody looks into this one."""

    def start(self, index: int, started: int, deadline: int) -> None:
        """Nobody looks."""

    def extend(self, index: int, deadline: int) -> None:
        """Nobody looks."""

    def is_marked(self, index: int, word: int, token: int) -> bool:
        """Nobody marks."""
        return False
