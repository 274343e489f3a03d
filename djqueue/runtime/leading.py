"""What every keeper does as a candidate for leadership: the duties of the leader, grouped by thread and connection.

Leases are renewed beside cron and pauses, which are quick; pruning and counting, which may take a second, and VACUUM,
which may take many, have threads of their own; so do deaths, replays and bulk acts, which wait for locks that people
may hold, and files of arguments, which lie in storages that may be far away.
"""

from djqueue.runtime.bulking import BulkDuty
from djqueue.runtime.cron import CronDuty
from djqueue.runtime.cron_code import CronCode
from djqueue.runtime.cron_jobs import CronJobs
from djqueue.runtime.deaths import DeathsDuty
from djqueue.runtime.duty import Duty
from djqueue.runtime.housekeeping import PrunerDuty, SummaryDuty, VacuumDuty
from djqueue.runtime.largeargs import LargeArgsDuty, storages_in_use
from djqueue.runtime.leader import CRON, HOUSE, LeaderDuty
from djqueue.runtime.pausing import PausesDuty
from djqueue.runtime.plan import Plan
from djqueue.runtime.replaying import ReplayDuty


def routines(plan: Plan) -> list[tuple[str, list[Duty]]]:
    """Return the duties by the name of their routine."""
    alias = plan.alias
    house = LeaderDuty(alias, plan.supervisor_id, HOUSE)
    files: list[Duty] = [LargeArgsDuty(alias, house)]
    names = {*plan.known_queues, *plan.options.queues}
    return [
        ("leading", [house, *_cron(plan), PausesDuty(alias, house)]),
        ("housekeeping", [PrunerDuty(alias, plan.options, house), SummaryDuty(alias, house, names)]),
        ("letters", [DeathsDuty(alias, plan.options, house), ReplayDuty(alias, house), BulkDuty(alias, house)]),
        *([("large arguments", files)] if storages_in_use() else []),
        ("vacuum", [VacuumDuty(alias, house)]),
    ]


def _cron(plan: Plan) -> list[Duty]:
    if not plan.cron:
        return []
    leader = LeaderDuty(plan.alias, plan.supervisor_id, CRON)
    return [leader, CronCode(plan.alias, leader), CronDuty(plan.alias, leader, CronJobs(plan.backend))]
