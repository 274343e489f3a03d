"""Whether those who work are able to: what a health check decides.

Invariant: a worker is judged by when it last looked for jobs with success, or was fully busy; never by how many it has
found. So an idle one and a fully busy one are healthy; one that is frozen, without its database or stuck is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

LEAST_SECONDS = 20.0
"""How old the last look may be at the least; heartbeats tell of it every ten seconds by default."""

LEADER_SLACK_SECONDS = 5.0
"""So long may nobody lead: when a leader has died, another takes its lease over once that has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLook:
    """A worker, and when it last looked for jobs, by the database's clock."""

    id: str
    host: str
    pid: int
    looked_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is not healthy: its kind, and words for people."""

    id: str
    found: str


def patience(beat_seconds: float, poll_seconds: float) -> float:
    """Return how old a look may be with these settings: two heartbeats or two polls, 20 s at the least."""
    return max(LEAST_SECONDS, 2 * beat_seconds, 2 * poll_seconds)


def problems(workers: Sequence[WorkerLook], leaderless_seconds: float | None, max_age_seconds: float) -> list[Problem]:
    """Return what is not healthy. `leaderless_seconds`: how long nobody has led, negative while somebody does, None
    where nobody ever has."""
    found = [
        Problem(
            id="worker_stuck",
            found=f"worker {each.id} (pid {each.pid} on {each.host or 'an unknown host'}) has not looked for jobs for "
            f"{each.looked_seconds:.0f} s, expected {max_age_seconds:g} s at most",
        )
        for each in workers
        if each.looked_seconds > max_age_seconds
    ]
    if not workers:
        found.append(Problem(id="no_worker", found="no worker was seen in the last 90 s, expected one or more"))
    if leaderless_seconds is None or leaderless_seconds > LEADER_SLACK_SECONDS:
        since = "ever" if leaderless_seconds is None else f"for {leaderless_seconds:.0f} s"
        found.append(Problem(id="no_leader", found=f"nobody has led {since}, expected a supervisor that does"))
    return found
