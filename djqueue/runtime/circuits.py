"""One worker's part in the circuits: it learns how they stand, asks before it starts their jobs, and reports calls.

    claimed ─► closed, as far as is known: start ────────────────────────► ended ─► counted here ─► reported in batches
           └─► not closed: ask ─► may start, under the row's lock                    (at once where that could open it)
                              └─► may not: given back, uncharged

Invariants: what waits for a slot is not started once its circuit is known to be open; a job without a circuit costs a
look at two attributes. Whether a job is held back goes by its lane, so that no job is given back that no gate closes.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from djqueue.api import registry
from djqueue.circuitconf import CircuitOptions
from djqueue.policy import circuit as policy
from djqueue.policy.circuit import CircuitState, Report
from djqueue.runtime.held import Held
from djqueue.runtime.outcome import Committed, Failed, NotStarted, Succeeded
from djqueue.runtime.permit import Permit
from djqueue.store import circuits
from djqueue.store.circuits import View

log = logging.getLogger("djqueue")

LOOK_SECONDS = 1.0
LOOK_SELDOM_SECONDS = 5.0
"""Where no task of this worker has a circuit."""

FRESH_SECONDS = 0.25
"""So old may be what is known when jobs of a circuit are taken up."""

REPORT_SECONDS = 1.0
URGENT_SECONDS = 0.05
"""Reports that could open a circuit or close it come no more often than that."""

PROBING_SECONDS = 1.0
"""How often a half-open circuit's probes are looked at: one may have been killed."""


class Circuits:
    """The circuits of one worker."""

    def __init__(
        self, alias: str, settings: Mapping[str, CircuitOptions], give_back: Callable[[Iterable[Held]], None]
    ) -> None:
        self._alias = alias
        self._settings = settings
        self._give_back = give_back
        self._names: list[str] | None = None
        self._views: dict[str, View] = {}
        self._by_gate: dict[str, str] = {}
        self._permits: dict[str, Permit] = {}
        self._due: dict[str, float] = {}
        self._calls: dict[str, list[_Calls]] = {}
        self._held_back: Counter[str] = Counter()
        self._looked_at = float("-inf")
        self._reported_at: dict[str, float] = {}
        self._has_news = False

    @staticmethod
    def concern(held: Held) -> bool:
        """Tell whether a job may have a circuit."""
        return bool(held.job.lane or held.task.circuit)

    def admitted(self, jobs: Sequence[Held]) -> list[Held]:
        """Return which of these claimed jobs may be started, in their order; the others are given back."""
        shut: list[Held] = []
        try:
            for name, mine in self._by_circuit(jobs).items():
                shut += self._refused(name, mine)
        except BaseException:
            self._give_back(jobs)  # unstarted; nobody else would think of them
            raise
        if not shut:
            return list(jobs)
        self._give_back(shut)
        refused = {held.job.id for held in shut}
        return [held for held in jobs if held.job.id not in refused]

    def ended(self, held: Held) -> None:
        """Count a call by its outcome; what says nothing about the dependency is no call."""
        permit, outcome = held.permit, held.outcome
        if permit is None:
            return
        if isinstance(outcome, Succeeded | Committed):
            self._calls_of(permit).add(failed=False)
        elif isinstance(outcome, Failed) and (outcome.is_transient or outcome.kind == "timeout"):
            self._calls_of(permit).add(failed=True)
        elif isinstance(outcome, NotStarted) and not permit.is_valid:
            self._held_back[permit.circuit] += 1

    def tick(self) -> bool:
        """Report, and look how circuits stand, when it is time; return whether jobs may start that could not before."""
        now = time.monotonic()
        if self._names is None or now - self._looked_at >= (LOOK_SECONDS if self._names else LOOK_SELDOM_SECONDS):
            self._look(now)
        self._report(now)
        self._let_time_pass(now)
        has_news, self._has_news = self._has_news, False
        return has_news

    def flush(self) -> None:
        """Report all that was counted."""
        self._report(float("inf"))

    def seconds_to_next(self) -> float:
        """Return when the next `tick` is wanted; may be below 0."""
        moments = [*self._due.values(), *(self._report_at(name) for name in self._unreported())]
        return min(moments, default=float("inf")) - time.monotonic()

    # ------------------------------------------------------------------ before a start

    def _by_circuit(self, jobs: Sequence[Held]) -> dict[str, list[Held]]:
        """Sort jobs whose lanes have a circuit's gate by circuit; those that only name one are counted, not held."""
        if time.monotonic() - self._looked_at > FRESH_SECONDS:
            self._look(time.monotonic())
        found: dict[str, list[Held]] = {}
        for held in jobs:
            gate = held.job.lane.partition(":")[0]
            name = self._by_gate.get(gate)
            if name is not None:
                found.setdefault(name, []).append(held)
            elif held.task.circuit:
                held.permit = Permit(held.task.circuit, self._term(held.task.circuit))
        return found

    def _refused(self, name: str, jobs: list[Held]) -> list[Held]:
        allowed = len(jobs)
        if self._views[name].state is not CircuitState.CLOSED:
            allowed, view = circuits.admit(self._alias, name, [held.lease for held in jobs], self._settings)
            if view is not None:
                self._learn(view)
        permit = self._permits[name]
        for held in jobs[:allowed]:
            held.permit = permit
        self._held_back[name] += len(jobs) - allowed
        return jobs[allowed:]

    # ------------------------------------------------------------------ what is known

    def _look(self, now: float) -> None:
        if self._names is None:
            self._names = sorted({task.circuit for task in registry.tasks() if task.circuit})
            if self._names:
                circuits.make(self._alias, self._names)
        self._looked_at = now
        for view in circuits.look(self._alias, [*self._names, *self._views], self._settings):
            self._learn(view, is_mine=False)

    def _learn(self, view: View, *, is_mine: bool = True) -> None:
        """Take in how a circuit stands; say so where this worker had a part in the change."""
        name, before = view.name, self._views.get(view.name)
        self._views[name] = view
        self._by_gate[view.gate] = name
        permit = self._permits.get(name)
        if permit is None or permit.term != view.term:
            if permit is not None:
                permit.is_valid = False
            self._permits[name] = Permit(name, view.term)
        self._set_due(view, is_new=before is None or before.state is not view.state)
        if before is not None:
            self._has_news = self._has_news or (_lets_start(view) and not _lets_start(before))
            if is_mine and before.state is not view.state:
                _say(view)

    def _set_due(self, view: View, *, is_new: bool) -> None:
        """Note when the row is to be looked at again; an earlier wish stays, since looks come more often than that."""
        if is_new or view.state is CircuitState.CLOSED:
            self._due.pop(view.name, None)
        wait = view.due_seconds
        if view.state in (CircuitState.HALF_OPEN, CircuitState.RAMP):
            wait = min(wait or PROBING_SECONDS, PROBING_SECONDS)
        if wait is not None:
            self._due[view.name] = min(self._due.get(view.name, float("inf")), time.monotonic() + wait)

    def _term(self, name: str) -> int:
        return self._views[name].term if name in self._views else 0

    def _let_time_pass(self, now: float) -> None:
        """Let the row change at the moments at which it may."""
        for name in [name for name, moment in self._due.items() if moment <= now]:
            del self._due[name]
            view = circuits.refresh(self._alias, name, self._settings)
            if view is not None:
                self._learn(view)

    # ------------------------------------------------------------------ after an end

    def _calls_of(self, permit: Permit) -> "_Calls":
        found = self._calls.setdefault(permit.circuit, [])
        for calls in found:
            if calls.term == permit.term:
                return calls
        found.append(_Calls(permit.term))
        return found[-1]

    def _report(self, now: float) -> None:
        for name in self._unreported():
            if self._report_at(name) <= now:
                reports = [calls.report() for calls in self._calls.get(name, [])]
                view = circuits.report(self._alias, name, reports, self._settings, self._held_back[name])
                self._calls.pop(name, None)
                self._held_back.pop(name, None)
                self._reported_at[name] = time.monotonic()
                if view is not None:
                    self._learn(view)

    def _unreported(self) -> list[str]:
        return [*self._calls, *(name for name, jobs in self._held_back.items() if jobs and name not in self._calls)]

    def _report_at(self, name: str) -> float:
        wait = URGENT_SECONDS if self._is_urgent(name) else REPORT_SECONDS
        return self._reported_at.get(name, float("-inf")) + wait

    def _is_urgent(self, name: str) -> bool:
        """Tell whether what is to be reported could change where the circuit stands."""
        view = self._views.get(name)
        if view is None:
            return True
        circuit = view.circuit
        for calls in self._calls.get(name, []):
            circuit = policy.count(circuit, calls.report(), view.now, view.options)
        return circuit.state is not view.state or (view.state is CircuitState.HALF_OPEN and name in self._calls)


class _Calls:
    """Calls of one circuit and term that are not reported yet."""

    __slots__ = ("failures", "streak", "successes", "term")

    def __init__(self, term: int) -> None:
        self.term = term
        self.successes = 0
        self.failures = 0
        self.streak = 0

    def add(self, *, failed: bool) -> None:
        if failed:
            self.failures += 1
            self.streak += 1
        else:
            self.successes += 1
            self.streak = 0

    def report(self) -> Report:
        return Report(term=self.term, successes=self.successes, failures=self.failures, streak=self.streak)


def _lets_start(view: View) -> bool:
    """Tell whether a claim may find jobs of this circuit now."""
    return view.state is CircuitState.CLOSED or (view.due_seconds == 0 and view.state is not CircuitState.OPEN)


def _say(view: View) -> None:
    level = logging.WARNING if view.state is CircuitState.OPEN else logging.INFO
    until = "" if view.circuit.open_until is None else f" for={view.circuit.open_until - view.now:.1f}s"
    reason = f" reason={view.circuit.reason}" if view.state is CircuitState.OPEN else ""
    words = {"half_open": "half-open", "ramp": "closing at a ramp"}.get(view.state, str(view.state))
    log.log(level, "circuit is %s circuit=%s%s%s", words, view.name, until, reason)
