"""The states of a job, and where each transition may lead.

This is the whole state machine; the SQL, the CHECK constraints and the admin follow it, and one test ties them.

     enqueue ─► scheduled ─due─► ready ─claim─► leased ─ack─► succeeded   (history)
        │           ▲              ▲              │──cancel─► cancelled   (history)
        ├─► ready   └─retry/snooze─┼──────────────┤──fail───► dead        (dead letter) ─requeue─► ready
        └─► parked ─let out────────┴──── release ─┘                        └─discard─► cancelled

People may put a ready job off (ready ─► scheduled). The live table holds unfinished jobs only; what has ended leaves it
in the statement that ends it.
"""

from enum import StrEnum


class State(StrEnum):
    """Where a job stands. The first four are live, the last three are ends."""

    READY = "ready"
    """Claimable this moment."""
    SCHEDULED = "scheduled"
    """`run_at` lies ahead: delayed by its caller, snoozed, or waiting for a retry."""
    PARKED = "parked"
    """Behind the head of its ordering key, or set aside (`parked_for` says why)."""
    LEASED = "leased"
    """Claimed by a worker until `lease_until`; started or about to start."""
    SUCCEEDED = "succeeded"
    """Ended well; a row of history."""
    CANCELLED = "cancelled"
    """Ended by request; a row of history."""
    DEAD = "dead"
    """Out of attempts, or failed for good; a dead letter, until it is requeued or discarded."""


LIVE = (State.READY, State.SCHEDULED, State.PARKED, State.LEASED)
FINISHED = (State.SUCCEEDED, State.CANCELLED, State.DEAD)

TRANSITIONS: dict[State, frozenset[State]] = {
    State.READY: frozenset({State.LEASED, State.PARKED, State.SCHEDULED, State.CANCELLED}),
    State.SCHEDULED: frozenset({State.READY, State.CANCELLED}),
    State.PARKED: frozenset({State.READY, State.SCHEDULED, State.CANCELLED}),
    State.LEASED: frozenset({State.READY, State.SCHEDULED, State.PARKED, State.SUCCEEDED, State.CANCELLED, State.DEAD}),
    State.SUCCEEDED: frozenset(),
    State.CANCELLED: frozenset(),
    State.DEAD: frozenset({State.READY, State.PARKED, State.CANCELLED}),
}


class OnConflict(StrEnum):
    """What a call does where an unfinished job holds its dedupe key."""

    IGNORE = "ignore"
    """Nothing; it returns that job."""
    REPLACE = "replace"
    """The waiting job gets this call's arguments, priority and time."""
    RESCHEDULE = "reschedule"
    """The waiting job gets this call's time."""
    RAISE = "raise"
    """It fails with `DuplicateJob`."""


class OnDead(StrEnum):
    """What the death of a head means for the jobs behind its ordering key."""

    SKIP = "skip"
    """They go on without it (the option calls this `continue`)."""
    BLOCK = "block"
    """They wait until somebody requeues or discards it."""
