"""What a job's lane is called: the gates that can block it as one of a group.

A job that can be blocked together with others (by an open circuit, an empty rate limit, a full concurrency limit, its
tenant's cap) carries the names of those gates as its lane; all other jobs have the lane ''. A claim then steps over a
closed gate with all that lies behind it, instead of walking through its jobs.

Invariant: a lane depends on the names alone, so that every process computes the same, in every release.
"""

from collections.abc import Iterable
from enum import StrEnum
from hashlib import blake2b

SEPARATOR = ":"


class Gate(StrEnum):
    """The kinds of gates, in the order in which they stand in a lane: what closes most lanes at once comes first."""

    CIRCUIT = "c"
    RATE = "r"
    CONCURRENCY = "k"
    TENANT = "t"


def gate(kind: Gate, name: str) -> str:
    """Return the name of a gate as it stands in a lane and in `djqueue_lane`: a letter and 16 hexadecimal digits.

    A hash, since names hold any character; two of a million names share one with a probability of 3e-8.
    """
    return kind + blake2b(name.encode(), digest_size=8).hexdigest()


def queue_gate(queue_name: str) -> str:
    """Return the name of a queue's own limits in `djqueue_limiter`. All its jobs pass it: it stands in no lane."""
    return "q" + blake2b(queue_name.encode(), digest_size=8).hexdigest()


def lane(names: Iterable[tuple[Gate, str | None]]) -> str:
    """Return the lane of a job with these gates (a None or '' name: no such gate); '' where it has none."""
    order = list(Gate)
    given = sorted((order.index(kind), gate(kind, name)) for kind, name in names if name)
    return SEPARATOR.join(each for _, each in given)


def gates(lane: str) -> list[str]:
    """Return the gates of a lane."""
    return lane.split(SEPARATOR) if lane else []
