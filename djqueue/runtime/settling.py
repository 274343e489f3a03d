"""From outcomes to rows: what a worker still has to write about the jobs that have ended, sorted by kind.

Invariant: a job leaves this worker's hands only when the database has answered; until then its lease is extended, and
after a lost answer the database is asked what became of it.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import assert_never
from uuid import UUID

from djqueue.conf import Options
from djqueue.policy.errors import FailureText, clean_text
from djqueue.runtime.budgeting import Budgeting
from djqueue.runtime.held import Held
from djqueue.runtime.outcome import Cancelled, Committed, Expired, Failed, NotStarted, Snoozed, Stale, Succeeded
from djqueue.runtime.reports import Reports
from djqueue.states import State
from djqueue.store import expire, faults, finish, lease, ordering

log = logging.getLogger("djqueue")

OnDone = Callable[[Held, str], None]


class Settling:
    """The jobs of one worker that have ended and are not written yet."""

    def __init__(self, alias: str, options: Options, worker_id: str, on_done: OnDone) -> None:
        self._alias = alias
        self._on_done = on_done
        self._reports = Reports(options, worker_id)
        self._budgeting = Budgeting(alias, options)
        self.acks: dict[UUID, Held] = {}
        self._failures: dict[UUID, tuple[Held, finish.Failure]] = {}
        self._snoozes: dict[UUID, Held] = {}
        self._releases: dict[UUID, Held] = {}
        self._expired: dict[UUID, Held] = {}

    def add(self, held: Held) -> None:
        """Sort a job that has ended by its outcome."""
        match held.outcome:
            case Succeeded():
                self.acks[held.job.id] = held
            case Committed():
                self._on_done(held, State.SUCCEEDED)
            case Failed() as failed:
                self._failures[held.job.id] = held, self._reports.failure(held, failed)
            case Cancelled(reason):
                self._failures[held.job.id] = held, self._reports.cancellation(held, reason)
            case Snoozed():
                self._snoozes[held.job.id] = held
            case NotStarted() | None:
                self._releases[held.job.id] = held
            case Expired():
                self._expired[held.job.id] = held
            case Stale():
                self.lost(held)
            case _ as never:
                assert_never(never)

    def give_back(self, jobs: Iterable[Held]) -> None:
        """Note jobs that were claimed and will not be started here."""
        self._releases |= {held.job.id: held for held in jobs}

    @property
    def has_others(self) -> bool:
        """Tell whether something besides acks is to be written."""
        return bool(self._failures or self._snoozes or self._releases or self._expired)

    def write_others(self) -> None:
        """Write failures, snoozes and releases. What was written is forgotten at once, so that an error in the next
        statement repeats nothing."""
        if self._failures:
            self._write_failures()
        if self._snoozes:
            self._write_snoozes()
        if self._releases:
            held = dict(self._releases)
            lease.release(self._alias, [h.lease for h in held.values()])
            self._forget(self._releases, held)
        if self._expired:
            self._write_expired()

    def take_acks(self) -> list[finish.Ack]:
        """Return what is to be acked; moments are on the monotonic clock and made relative when they are sent."""
        return [
            finish.Ack(h.job.id, h.job.lease_token, h.began, h.ended, h.outcome.result, h.key)
            for h in self.acks.values()
            if isinstance(h.outcome, Succeeded)
        ]

    def acked(self, sent: Iterable[finish.Ack], done: set[UUID]) -> None:
        """Take in the answer to an ack."""
        for ack in sent:
            held = self.acks.pop(ack.id, None)
            if held is not None and ack.id in done:
                self._on_done(held, State.SUCCEEDED)
            elif held is not None:
                self.lost(held)

    def refuse(self, held: Held, error: BaseException) -> None:
        """An ack that the database refuses for its content becomes a failure."""
        self.acks.pop(held.job.id, None)
        text = FailureText(exception="djqueue.HandlerFault", message=clean_text(str(error), 4_000), traceback="")
        reason = clean_text(f"permanent: the result could not be stored: {text.message}", 1_000)
        self._failures[held.job.id] = held, self._reports.failure(held, Failed(text, kind="fault", final_reason=reason))

    def after_lost_answer(self) -> None:
        """Ask what became of everything that was sent and not answered."""
        pending = {**self.acks, **{i: h for i, (h, _) in self._failures.items()}, **self._snoozes, **self._releases}
        pending |= self._expired
        if not pending:
            return
        standing = lease.look(self._alias, [held.lease for held in pending.values()])
        for id_, word in standing.items():
            if word is lease.Standing.MINE:
                continue
            held = pending[id_]
            for place in (self.acks, self._failures, self._snoozes, self._releases, self._expired):
                place.pop(id_, None)  # type: ignore[attr-defined]
            if word is lease.Standing.DONE:
                self._on_done(held, State.SUCCEEDED if isinstance(held.outcome, Succeeded) else State.DEAD)
            elif isinstance(held.outcome, Succeeded | Failed):
                self.lost(held)
            else:
                self._on_done(held, "")

    def lost(self, held: Held) -> None:
        """The lease went to somebody else meanwhile: say so, write nothing."""
        log.warning("lease lost, nothing written job=%s task=%s", held.job.id, held.job.task_name)
        self._on_done(held, "lost")

    def _write_failures(self) -> None:
        """Write them together; where the database refuses what one of them carries, one by one."""
        try:
            self._write_some_failures(dict(self._failures))
        except faults.ERRORS as error:
            if not faults.is_about_content(self._alias, error):
                raise
            for id_, pair in list(self._failures.items()):
                self._write_one_failure(id_, *pair)

    def _write_one_failure(self, id_: UUID, held: Held, failure: finish.Failure) -> None:
        """Recording a failure can't fail because of its content: at the worst the content is left out."""
        try:
            self._write_some_failures({id_: (held, failure)})
        except faults.ERRORS as error:
            if not faults.is_about_content(self._alias, error):
                raise
            log.error("failure recorded without its text job=%s error=%s", id_, faults.words(error))
            entry = {"attempt": held.job.attempts, "kind": "error", "message": "[the text could not be stored]"}
            bare = replace(failure, entry=entry, errors=[], reason="error", cause=replace(failure.cause, message=""))
            self._write_some_failures({id_: (held, bare)})

    def _write_some_failures(self, sent: dict[UUID, tuple[Held, finish.Failure]]) -> None:
        sent = self._budgeting.kept_to(sent)
        ended = {e.id: e for e in finish.fail(self._alias, [failure for _, failure in sent.values()])}
        for id_, (held, failure) in sent.items():
            self._failures.pop(id_, None)
            if id_ in ended:
                _log_failure(held, failure, ended[id_].state)
                self._on_done(held, ended[id_].state)
            else:
                self.lost(held)
        if any(e.is_head for e in ended.values()):
            ordering.turn(self._alias)  # the keepers' tick would do it a moment later

    def _write_snoozes(self) -> None:
        sent = dict(self._snoozes)
        delays = [h.outcome.delay_seconds if isinstance(h.outcome, Snoozed) else 0 for h in sent.values()]
        done = lease.snooze(self._alias, [h.lease for h in sent.values()], delays)
        for id_, held in sent.items():
            self._snoozes.pop(id_, None)
            if id_ in done:
                self._on_done(held, State.SCHEDULED)
            else:  # asked to cancel meanwhile, or the lease is lost: the failure's statement decides
                self._failures[id_] = held, self._reports.cancellation(held, "cancelled when it snoozed")

    def _write_expired(self) -> None:
        sent = dict(self._expired)
        done = expire.refuse(self._alias, [h.lease for h in sent.values()])
        for id_, held in sent.items():
            self._expired.pop(id_, None)
            if id_ in done:
                log.info("expired, not started job=%s task=%s", id_, held.job.task_name)
                self._on_done(held, State.CANCELLED)
            else:
                self.lost(held)

    def _forget(self, place: dict[UUID, Held], sent: dict[UUID, Held]) -> None:
        for id_, held in sent.items():
            place.pop(id_, None)
            self._on_done(held, State.READY)


def _log_failure(held: Held, failure: finish.Failure, state: State) -> None:
    level = logging.ERROR if state is State.DEAD else logging.WARNING
    if failure.cancel or state is State.CANCELLED:
        level = logging.INFO
    log.log(
        level,
        "attempt ended job=%s task=%s attempt=%d/%d state=%s error=%s",
        held.job.id,
        held.job.task_name,
        held.job.attempts,
        held.job.max_attempts,
        state.value,
        failure.entry.get("exception"),
    )
