"""Every order of what two or three parties do, statement by statement: no luck, and nothing left out.

A party is a thread with a Django connection of its own. It stops before every statement of the store and before every
end of a transaction; the scheduler lets one party go on at a time, until it stops again, has ended, or waits for a lock
that another one holds (as `pg_blocking_pids` says): then the others go on. Which of the parties goes next is a choice,
and the choices are gone through one after the other, like the digits of a counter, so that each order is run once.

Invariant: while a choice is made, every party stands still.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import pytest
from django.db import connections

from djqueue.store import db
from tests.helpers import LOOK_AGAIN_SECONDS, eventually, raw_connection
from tests.store.factories import ALIAS, Party

W = TypeVar("W")
Answers = dict[str, Any]

MOST_ORDERS = 500
"""A story that has more takes a minute, and says no more than a shorter one."""

_here = threading.local()

# Those that wait for a lock: they will go on by themselves, when its holder has.
BLOCKED = "select p from unnest(%s::int[]) p where cardinality(pg_blocking_pids(p)) > 0"


@dataclass(slots=True)
class Actor:
    """One party's part of a story, stopped before each step."""

    name: str
    party: Party
    at: str | None = None
    """Before which step it stands; None while it moves, and when it has ended."""
    has_ended: bool = False
    said: "queue.Queue[tuple[str, Any]]" = field(default_factory=queue.Queue)
    may_go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def play(self, action: Callable[[], Any]) -> None:
        """Do all of it, in the party's thread."""
        _here.actor = self
        try:
            with _gated_ends():
                self.said.put(("ended", action()))
        except BaseException as error:
            self.said.put(("raised", error))
        finally:
            _here.actor = None

    def stop_before(self, step: str) -> None:
        """Stand still until the scheduler says go."""
        self.said.put(("at", step))
        self.may_go.acquire()

    def hear(self) -> tuple[str, Any] | None:
        """What it has said, if anything, within a moment."""
        try:
            return self.said.get(timeout=LOOK_AGAIN_SECONDS / 5)
        except queue.Empty:
            return None


class Stage:
    """Parties that play stories, and the observer that sees who waits for a lock."""

    def __init__(self, parties: list[Party]) -> None:
        self._parties = parties
        self._observer = raw_connection()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._observer.close()

    def in_every_order(
        self,
        actions: Mapping[str, Callable[[W], Any]],
        arrange: Callable[[], W],
        judge: Callable[[W, Answers], None],
    ) -> int:
        """Arrange, play and judge the story once for each order; return how many orders there were."""
        choices: list[tuple[int, int]] = []
        played = 0
        while True:
            given = [chosen for chosen, _ in choices]
            choices = self._once(given, actions, arrange, judge)
            played += 1
            assert played <= MOST_ORDERS, f"more than {MOST_ORDERS} orders: tell the story with fewer steps"
            while choices and choices[-1][0] + 1 == choices[-1][1]:
                choices.pop()
            if not choices:
                return played
            chosen, among = choices.pop()
            choices.append((chosen + 1, among))

    def _once(
        self,
        given: list[int],
        actions: Mapping[str, Callable[[W], Any]],
        arrange: Callable[[], W],
        judge: Callable[[W, Answers], None],
    ) -> list[tuple[int, int]]:
        """Play one order: the given choices, then always the first; return all choices, each with how many there were
        to choose from."""
        self._observer.execute(EMPTY)
        world = arrange()
        answers: Answers = {}
        order: list[str] = []
        choices: list[tuple[int, int]] = []
        actors = [Actor(name, party) for name, party in zip(actions, self._parties, strict=False)]
        for actor in actors:
            actor.party.start(actor.play, lambda name=actor.name: actions[name](world))  # type: ignore[misc]
        try:
            self._settle(actors, answers)
            while standing := [actor for actor in actors if actor.at is not None]:
                chosen = given[len(choices)] if len(choices) < len(given) else 0
                choices.append((chosen, len(standing)))
                actor = standing[chosen]
                order.append(f"{actor.name}: {actor.at}")
                actor.at = None
                actor.may_go.release()
                self._settle(actors, answers)
            judge(world, answers)
        except BaseException as error:
            error.add_note("in this order:\n  " + "\n  ".join(order))
            raise
        finally:
            for actor in actors:
                actor.may_go.release(1_000)
        return choices

    def _settle(self, actors: list[Actor], answers: Answers) -> None:
        """Return when nobody moves: each stands, has ended, or waits for one who stands. A deadlock is not left alone:
        the server breaks it within a second, and the party whom it hits raises."""

        def nobody_moves() -> bool:
            heard = [self._heard(actor, answers) for actor in actors if _moves(actor)]
            moving = [actor for actor in actors if _moves(actor)]
            if not moving or any(heard):
                return not moving
            found = self._observer.execute(BLOCKED, ([actor.party.pid for actor in moving],)).fetchall()
            return len(found) == len(moving) and any(actor.at is not None for actor in actors)

        eventually(nobody_moves, within=20, message=lambda: f"these move on and on: {[a.name for a in actors]}")

    def _heard(self, actor: Actor, answers: Answers) -> bool:
        word = actor.hear()
        match word:
            case ("at", step):
                actor.at = step
            case ("ended", answer):
                actor.has_ended = True
                answers[actor.name] = answer
            case ("raised", error):
                actor.has_ended = True
                raise error
        return word is not None


def _moves(actor: Actor) -> bool:
    return actor.at is None and not actor.has_ended


def stop_before(step: str) -> None:
    """Where a party plays in this thread: a step of its own, not of the store's."""
    actor = getattr(_here, "actor", None)
    if actor is not None:
        actor.stop_before(step)


@contextmanager
def _gated_ends() -> Iterator[None]:
    """Stop before each commit and rollback of this thread's connection."""
    connection: Any = connections[ALIAS]
    connection._commit = lambda: (stop_before("commit"), type(connection)._commit(connection))[1]
    connection._rollback = lambda: (stop_before("rollback"), type(connection)._rollback(connection))[1]
    try:
        yield
    finally:
        del connection._commit, connection._rollback


def gate_statements(patch: pytest.MonkeyPatch) -> None:
    """Stop before every statement of the store."""
    rows, execute = db.rows, db.execute

    def gated(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(alias: str, sql: str, params: Any = ()) -> Any:
            stop_before(" ".join(sql.split())[:60])
            return function(alias, sql, params)

        return run

    patch.setattr(db, "rows", gated(rows))
    patch.setattr(db, "execute", gated(execute))


EMPTY = "; ".join(
    f"delete from djqueue_{table}"
    for table in (
        "job",
        "history",
        "history_overflow",
        "dead_letter",
        "death",
        "wake",
        "key_block",
        "limiter",
        "circuit",
        "lane",
        "dedupe_window",
        "cron_entry",
        "cron_memory",
        "cron_fire",
        "leader",
        "replay",
    )
)
