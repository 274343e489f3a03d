"""A step of a chain, before it starts: has the step before it been cancelled? Then this one is cancelled too.

Stands at the beginning of an attempt. Invariant: jobs that follow nobody pay for a look at a text that is in memory.
"""

import json
from uuid import UUID

from djqueue.exceptions import Cancel
from djqueue.states import State
from djqueue.store import results


def check(alias: str, options: str) -> None:
    """Raise `Cancel` where the job follows one that did not succeed."""
    if '"follows"' not in options:
        return
    before = json.loads(options).get("follows")
    if not isinstance(before, str):
        return
    found = results.find(alias, [UUID(before)]).get(UUID(before))
    if found is not None and found.state is State.CANCELLED:
        raise Cancel("the step of the chain before it was cancelled")
