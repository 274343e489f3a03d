"""The part that all contenders share: what describes one, and the verbs of its program.

setup                         make the tables in DATABASE_URL
single SECONDS FIRST          enqueue one job per transaction, numbered from FIRST; print jobs and seconds
bulk JOBS SECONDS [TASK]      enqueue JOBS in one call, again and again for SECONDS (0: once)
paced JOBS                    enqueue one job after another with pauses; print the moment before each call
worker PROCESSES CONCURRENCY TASK    run until SIGTERM
version                       print the version of the package
"""

import asyncio
import inspect
import json
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

PAUSES = (0.02, 0.08)


class Client(Protocol):
    """How a contender enqueues. All four may be coroutine functions instead, all of them together."""

    def open(self) -> Any: ...

    def one(self, number: int, task: str) -> Any: ...

    def many(self, numbers: Sequence[int], task: str) -> Any: ...

    def close(self) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A contender. SQL in here is run on its database by the comparison itself."""

    name: str
    label: str
    package: str
    """The distribution whose version is reported."""
    client: Callable[[], Client]
    setup: Callable[[], None]
    worker: Callable[[int, int, str], None] | None
    """Run with so many processes and so many jobs at a time in each, of this task. None: enqueues only."""
    settings: str = ""
    """How it is run where that is not its default, in words, for the report."""
    requires: tuple[str, ...] = ()
    """What pip installs for it."""
    store: str = "postgresql"
    guess: float = 500
    """Jobs per second, for the size of the first run."""
    drain_concurrency: int = 8
    """Jobs at a time in one process when they do nothing: what suits this contender best."""
    runs_processes: bool = False
    """Its own command runs several processes; else the comparison starts several workers."""
    one_at_a_time: bool = False
    """A process runs one job at a time: jobs side by side take as many processes."""
    left: str = ""
    """How many jobs have not ended."""
    finished: str = ""
    """Put so many finished jobs (`{count}`) there, as the contender keeps them; empty: it keeps none."""
    scheduled: str = ""
    """Put so many no-op jobs (`{count}`) there, due `{seconds}` from now, numbered from 0."""
    claim: str = ""
    """A regular expression that finds the claiming statement in the server's log."""


def run(peer: Peer, arguments: Sequence[str] | None = None) -> None:
    """Carry out the verb on the command line."""
    verb, *values = sys.argv[1:] if arguments is None else arguments
    if verb == "version":
        _print({"version": version(peer.package)})
    elif verb == "setup":
        peer.setup()
        _print({})
    elif verb == "worker":
        assert peer.worker is not None
        peer.worker(int(values[0]), int(values[1]), values[2])
    else:
        _print(_enqueue(peer, verb, values))


def version(package: str) -> str:
    """Return the version of an installed distribution, or of a package that runs from its checkout."""
    from importlib import import_module, metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return str(import_module(package).__version__)


def _enqueue(peer: Peer, verb: str, values: Sequence[str]) -> dict[str, Any]:
    client = peer.client()
    if inspect.iscoroutinefunction(client.one):
        return asyncio.run(_async_verbs(client, verb, values))
    client.open()
    try:
        return _sync_verbs(client, verb, values)
    finally:
        client.close()


def _sync_verbs(client: Client, verb: str, values: Sequence[str]) -> dict[str, Any]:
    if verb == "single":
        end, number = time.monotonic() + float(values[0]), int(values[1])
        began = time.monotonic()
        while number == int(values[1]) or time.monotonic() < end:
            client.one(number, "noop")
            number += 1
        return _said(number - int(values[1]), time.monotonic() - began)
    if verb == "bulk":
        jobs, limit, task = int(values[0]), float(values[1]), values[2] if len(values) > 2 else "noop"
        done, began = 0, time.monotonic()
        while not done or time.monotonic() - began < limit:
            client.many(range(done, done + jobs), task)
            done += jobs
        return _said(done, time.monotonic() - began)
    moments = []
    for number, pause in _pauses(int(values[0])):
        time.sleep(pause)
        moments.append(time.time())
        client.one(number, "noop")
    return {"moments": moments}


async def _async_verbs(client: Client, verb: str, values: Sequence[str]) -> dict[str, Any]:
    await client.open()
    try:
        if verb == "single":
            end, number = time.monotonic() + float(values[0]), int(values[1])
            began = time.monotonic()
            while number == int(values[1]) or time.monotonic() < end:
                await client.one(number, "noop")
                number += 1
            return _said(number - int(values[1]), time.monotonic() - began)
        if verb == "bulk":
            jobs, limit, task = int(values[0]), float(values[1]), values[2] if len(values) > 2 else "noop"
            done, began = 0, time.monotonic()
            while not done or time.monotonic() - began < limit:
                await client.many(range(done, done + jobs), task)
                done += jobs
            return _said(done, time.monotonic() - began)
        moments = []
        for number, pause in _pauses(int(values[0])):
            await asyncio.sleep(pause)
            moments.append(time.time())
            await client.one(number, "noop")
        return {"moments": moments}
    finally:
        await client.close()


def _pauses(jobs: int) -> Sequence[tuple[int, float]]:
    """Pauses long enough that the worker has run dry each time; the same ones for every contender."""
    rng = random.Random(7)
    return [(number, rng.uniform(*PAUSES)) for number in range(jobs)]


def _said(jobs: int, seconds: float) -> dict[str, Any]:
    return {"jobs": jobs, "seconds": seconds}


def _print(answer: dict[str, Any]) -> None:
    """The last line of the output is the answer."""
    print(json.dumps(answer), flush=True)


def dsn() -> str:
    """Return the address of the database, as libpq takes it."""
    return os.environ["DATABASE_URL"].replace("postgres://", "postgresql://", 1)


def redis_url() -> str:
    """Return the address of the Redis server."""
    return os.environ["COMPARE_REDIS_URL"]
