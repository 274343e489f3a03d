"""pytest's part of the users' test kit: fixtures, found by pytest itself through the entry point `pytest11`.

    djqueue_jobs     run what was enqueued, and say what was; `djqueue_jobs.run()`, `.assert_enqueued(task, …)`, …
    djqueue_clock    the database's clock: `djqueue_clock.travel(timedelta(hours=1))`, `.freeze()`, undone at the end

Invariant: importing this module imports nothing of Django, since pytest does so before any settings are known.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from djqueue.testing import Clock, EnqueuedJob, Ran


class Jobs:
    """The helpers of `djqueue.testing` under one name; those that begin with an `a` are for async tests."""

    @property
    def _kit(self) -> Any:
        from djqueue import testing

        return testing

    def run(self, queue_name: str | None = None, **options: Any) -> "Ran":
        """Run what is ready; see `djqueue.testing.run_jobs`."""
        return self._kit.run_jobs(queue_name, **options)  # type: ignore[no-any-return]

    def enqueued(self, task: Any = None, **options: Any) -> "list[EnqueuedJob]":
        """Return the jobs that were enqueued; see `djqueue.testing.enqueued_jobs`."""
        return self._kit.enqueued_jobs(task, **options)  # type: ignore[no-any-return]

    def assert_enqueued(self, task: Any, **wish: Any) -> "list[EnqueuedJob]":
        """Fail unless such a job was enqueued; see `djqueue.testing.assert_enqueued`."""
        return self._kit.assert_enqueued(task, **wish)  # type: ignore[no-any-return]

    def assert_not_enqueued(self, task: Any = None, **wish: Any) -> None:
        """Fail if such a job was enqueued; see `djqueue.testing.assert_not_enqueued`."""
        self._kit.assert_not_enqueued(task, **wish)

    def assert_idempotent(self, task: Any, *args: Any, **options: Any) -> None:
        """Deliver a job as a bad day would; see `djqueue.testing.assert_idempotent`."""
        self._kit.assert_idempotent(task, *args, **options)

    async def arun(self, queue_name: str | None = None, **options: Any) -> "Ran":
        """Run what is ready, in an async test."""
        return await self._kit.arun_jobs(queue_name, **options)  # type: ignore[no-any-return]

    async def aenqueued(self, task: Any = None, **options: Any) -> "list[EnqueuedJob]":
        """Return the jobs that were enqueued, in an async test."""
        return await self._kit.aenqueued_jobs(task, **options)  # type: ignore[no-any-return]

    async def aassert_enqueued(self, task: Any, **wish: Any) -> "list[EnqueuedJob]":
        """Fail unless such a job was enqueued, in an async test."""
        return await self._kit.aassert_enqueued(task, **wish)  # type: ignore[no-any-return]

    async def aassert_not_enqueued(self, task: Any = None, **wish: Any) -> None:
        """Fail if such a job was enqueued, in an async test."""
        await self._kit.aassert_not_enqueued(task, **wish)


class Clocks:
    """Moves the database's clock until the test's end."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def travel(self, to: "timedelta | datetime", **options: Any) -> "Clock":
        """Be ahead by a timedelta, or go on from a moment; see `djqueue.testing.travel`."""
        from djqueue.testing import travel

        return self._stack.enter_context(travel(to, **options))

    def freeze(self, at: "datetime | None" = None, **options: Any) -> "Clock":
        """Stand still; see `djqueue.testing.freeze`."""
        from djqueue.testing import freeze

        return self._stack.enter_context(freeze(at, **options))


@pytest.fixture
def djqueue_jobs(db: None) -> Jobs:
    """Run what was enqueued, and say what was. Needs pytest-django; takes the kind of database that the test has."""
    return Jobs()


@pytest.fixture
def djqueue_clock(db: None) -> Iterator[Clocks]:
    """The database's clock, to be moved until the test's end, in tests that are not async."""
    with ExitStack() as stack:
        yield Clocks(stack)
