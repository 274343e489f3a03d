"""When `--drain` is done: nothing is left that this supervisor's workers could still do.

Jobs of paused queues don't count: nobody may claim them, and the command would wait until somebody resumes.
"""

import logging
from collections.abc import Collection

from djqueue.runtime.plan import Plan
from djqueue.store import workers

log = logging.getLogger("djqueue")


def is_done(plan: Plan, names: Collection[str], paused: Collection[str]) -> bool:
    """Tell whether the queues that are served hold nothing more; say so where paused ones do."""
    selection = plan.selection
    scheduled = plan.drain == "all"
    excluded = sorted({*selection.excluded, *paused})
    open_names = sorted(set(names) - set(paused))
    if workers.has_pending(
        plan.alias, open_names, everything=selection.everything, excluded=excluded, scheduled=scheduled
    ):
        return False
    left = sorted(set(selection.names(paused)) & set(paused))
    if left and workers.has_pending(plan.alias, left, everything=False, excluded=[], scheduled=scheduled):
        log.warning("paused queues are not drained, their jobs stay queues=%s", ",".join(left))
    return True
