"""The last step of a job in a worker: the database has answered about its end. Counted, told, forgotten."""

from djqueue.compat import task_signals
from djqueue.runtime import tasks_signals
from djqueue.runtime.held import Held
from djqueue.runtime.holdings import Holdings
from djqueue.runtime.slot_table import DONE, Page
from djqueue.runtime.slots import Slots
from djqueue.runtime.tally import Tally
from djqueue.runtime.usage import Usage
from djqueue.states import FINISHED, State


class Endings:
    """What one worker does about a job that is written."""

    def __init__(self, page: Page, holdings: Holdings, slots: Slots, tally: Tally, usage: Usage) -> None:
        self._page = page
        self._holdings = holdings
        self._slots = slots
        self._tally = tally
        self._usage = usage

    def answered(self, held: Held, state: str) -> None:
        """Let go of a job; `state` is what it has become (`lost`: somebody else's)."""
        self._holdings.let_go(held)
        if held.began:
            self._page.set(DONE, self._page.get(DONE) + 1)
            self._tally.add(held, state)
            self._usage.add(held)
        if state in FINISHED:
            self._tell_finished(held, state)

    def _tell_finished(self, held: Held, state: str) -> None:
        """Receivers run on a slot thread; the framework's own, which only logs, is replaced by its line."""
        if tasks_signals.wanted(task_signals.task_finished):
            self._slots.waiting.put(lambda: tasks_signals.send_finished(held.task, held.job.id))
        else:
            tasks_signals.log_state(held.job, "SUCCESSFUL" if state == State.SUCCEEDED else "FAILED")
