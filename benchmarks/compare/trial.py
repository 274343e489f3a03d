"""What a job does in the kill -9 trials, where KILL9_TRIAL says so: hold, kill its own process, or run for long.

An end is written to the ledger as well, as the number plus `ENDED`.
"""

import os
import signal

VARIABLE = "KILL9_TRIAL"
ENDED = 1_000_000
POISON = 4
NEIGHBOUR_SECONDS = 1.0


def seconds_of(number: int) -> float | None:
    """How long job `number` takes in the trial; None outside of one. Poison does not come back from here."""
    said = os.environ.get(VARIABLE)
    if not said:
        return None
    kind, _, value = said.partition(":")
    if kind == "poison":
        if number == POISON:
            os.kill(os.getpid(), signal.SIGKILL)
        return NEIGHBOUR_SECONDS
    return float(value)
