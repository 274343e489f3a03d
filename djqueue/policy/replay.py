"""How fast a replay goes on, and when it stops by itself.

    canary: a few jobs, then wait for them ──► the others at the rate, never far ahead of what is known ──► finished
        └────────────── more than `stop_ratio` of those that are known have failed ──► stopped ◄──┘

Invariant: it never does more than the rate allows, also after a pause or a restart: at most one second's worth at once.
"""

from dataclasses import dataclass

AHEAD_SECONDS = 5.0
"""How far a replay may be ahead of what is known of its jobs: so many seconds' worth of its rate."""

JUDGED_AT_LEAST = 10
"""Where no canary goes first, a ratio of fewer jobs than that says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a replay has been asked to do, and what is known of it."""

    per_second: float
    canary: int
    """Jobs that go first; 0: none."""
    stop_ratio: float
    """Stop when a larger share than this has failed: 0 to 1."""
    requeued: int
    unknown: int
    """Of those, how many have neither ended nor failed an attempt yet."""
    failed: int
    """Of those, how many died again or failed an attempt and wait for the next one."""
    credit: float
    """Jobs that the rate allows at this moment, carried over from the last step."""
    idle_seconds: float
    """Since the last step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to do now."""

    count: int
    """Dead letters to requeue."""
    credit: float
    """What is left of the rate when they are."""
    stop: str = ""
    """Not empty: stop, for this reason."""
    is_waiting: bool = False
    """Nothing is requeued until more is known."""


def next_step(run: Run) -> Step:
    """Return what a running replay does next."""
    credit = min(run.credit + run.per_second * max(0.0, run.idle_seconds), max(1.0, run.per_second))
    judged = run.requeued - run.unknown
    problem = _too_many_failed(run, judged)
    if problem:
        return Step(count=0, credit=credit, stop=problem)
    if run.requeued < run.canary:
        room = run.canary - run.requeued
    elif judged < run.canary and run.unknown > 0:
        room = 0
    else:
        room = max(run.canary, 1, int(run.per_second * AHEAD_SECONDS)) - run.unknown
    count = max(0, min(int(credit), room))
    return Step(count=count, credit=credit - count, is_waiting=room <= 0)


def _too_many_failed(run: Run, judged: int) -> str:
    """Say that too many have failed, once enough is known: of the whole canary, or of all that were requeued."""
    enough = judged >= (run.canary or JUDGED_AT_LEAST) or run.unknown == 0
    if not judged or not enough or run.failed <= run.stop_ratio * judged:
        return ""
    who = "of the canary" if run.canary and run.requeued <= run.canary else "of those replayed"
    return f"{run.failed:,} of {judged:,} {who} failed ({run.failed / judged:.0%}; at most {run.stop_ratio:.0%} may)"
