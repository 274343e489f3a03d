"""`manage.py djqueue circuits …`: see how circuits stand, open, close and reset them. It parses, calls and prints."""

from typing import Any

from django.core.management.base import CommandError

from djqueue.api import registry
from djqueue.backend import DjqueueBackend
from djqueue.management.verbs.common import Print, as_json, backend_of, said, seconds, stored, user, verb
from djqueue.nearest import nearest
from djqueue.policy.circuit import CircuitState, ramp_rate
from djqueue.store import circuits
from djqueue.store.circuits import Listed, View


def add_arguments(verbs: Any) -> None:
    """Declare the verb and its own verbs."""
    words = "see how circuits stand, open and close them by hand"
    mine = verbs.add_parser("circuits", help=words, description=words)
    own = mine.add_subparsers(dest="circuits_verb", required=True, metavar="VERB")
    verb(own, "list", "all circuits: where they stand, since when, and why").set_defaults(run=_list)
    opened = _on_one(own, "open", "let no job of a circuit start; what runs goes on", _open)
    opened.add_argument("--for", dest="duration", metavar="DURATION", help="for example 90s, 15m or 2h; then it probes")
    opened.add_argument("--reason", default="opened by hand", help="shown wherever the circuit is")
    _on_one(own, "close", "let jobs start again, at the ramp", _close)
    _on_one(own, "reset", "let all jobs start at once and forget what was counted", _reset)


def _on_one(own: Any, name: str, words: str, run: Any) -> Any:
    parser = verb(own, name, words)
    parser.add_argument("circuit", metavar="CIRCUIT")
    parser.add_argument("--by", default="", help="who says so (default: the user of the system)")
    parser.set_defaults(run=run)
    return parser


def _list(options: dict[str, Any], out: Print) -> None:
    backend = backend_of(options)
    found = circuits.listed(backend.alias_of_database, backend.djqueue_options.circuits)
    unmet = sorted(_declared() - {each.view.name for each in found})
    if options["json"]:
        out(as_json([*(_as_dict(each) for each in found), *({"circuit": name, "state": "closed"} for name in unmet)]))
        return
    lines = [*(_as_line(each) for each in found), *(f"{name}: closed, no worker has met it yet" for name in unmet)]
    out("\n".join(lines) or "No task names a circuit.")


def _open(options: dict[str, Any], out: Print) -> None:
    duration = None if options["duration"] is None else seconds("--for", options["duration"])
    backend, name = backend_of(options), options["circuit"]
    _check(backend, name)
    reason, by = stored("--reason", options["reason"]), stored("--by", options["by"]) or user()
    circuits.make(backend.alias_of_database, [name])
    _answer(
        options,
        out,
        circuits.force_open(
            backend.alias_of_database,
            name,
            backend.djqueue_options.circuits,
            seconds=duration,
            reason=reason,
            by=by,
        ),
    )


def _close(options: dict[str, Any], out: Print) -> None:
    backend, name = _met(options)
    settings = backend.djqueue_options.circuits
    _answer(
        options,
        out,
        circuits.close(backend.alias_of_database, name, settings, by=stored("--by", options["by"]) or user()),
    )


def _reset(options: dict[str, Any], out: Print) -> None:
    backend, name = _met(options)
    settings = backend.djqueue_options.circuits
    _answer(
        options,
        out,
        circuits.reset(backend.alias_of_database, name, settings, by=stored("--by", options["by"]) or user()),
    )


def _answer(options: dict[str, Any], out: Print, view: View | None) -> None:
    if view is None:
        raise CommandError(f"circuit {options['circuit']!r}: its row has gone in this moment; ask again")
    seconds_open = None if view.circuit.open_until is None else round(view.circuit.open_until - view.now, 3)
    if options["json"]:
        out(as_json({"circuit": view.name, "state": str(view.state), "open_for_seconds": seconds_open}))
        return
    match view.state:
        case CircuitState.OPEN:
            when = "until somebody closes it" if seconds_open is None else f"for {seconds_open:g} s"
            out(f"circuit {view.name} is open {when}: {view.circuit.reason}")
        case CircuitState.RAMP:
            rate = ramp_rate(view.circuit, view.now, view.options)
            out(f"circuit {view.name} is closing: {rate:g} starts per second, more and more")
        case _:
            out(f"circuit {view.name} is {_words(view.state)}")


def _met(options: dict[str, Any]) -> tuple[DjqueueBackend, str]:
    backend = backend_of(options)
    _check(backend, options["circuit"])
    if options["circuit"] not in _with_rows(backend):
        raise CommandError(f"expected a circuit that is open, got {options['circuit']!r}, which no worker has met yet")
    return backend, options["circuit"]


def _check(backend: DjqueueBackend, name: str) -> None:
    known = sorted(_declared() | _with_rows(backend))
    if name not in known:
        raise CommandError(
            f"expected a circuit that a task names or that has a row, got {name!r}{nearest(name, known)}"
        )


def _with_rows(backend: DjqueueBackend) -> set[str]:
    found = circuits.listed(backend.alias_of_database, backend.djqueue_options.circuits)
    return {each.view.name for each in found}


def _declared() -> set[str]:
    registry.load()
    return {task.circuit for task in registry.tasks() if task.circuit}


def _as_dict(each: Listed) -> dict[str, Any]:
    return {
        "circuit": each.view.name,
        "state": str(each.view.state),
        "since": each.changed_at,
        "open_until": each.open_until,
        "reason": each.view.circuit.reason,
        "changed_by": each.changed_by,
        "recent_calls": each.recent_calls,
        "recent_failures": each.recent_failures,
        "calls": each.calls,
        "failures": each.failures,
        "opened": each.opened,
        "held_back": each.held_back,
        "overrides": each.overrides,
    }


def _as_line(each: Listed) -> str:
    state = each.view.state
    parts = [f"{each.view.name}: {_words(state)} since {said(each.changed_at)}"]
    if state is CircuitState.OPEN:
        parts.append(f"until {said(each.open_until)}" if each.open_until else "until somebody closes it")
    if state is not CircuitState.CLOSED:
        parts.append(each.view.circuit.reason)
    if each.changed_by:
        parts.append(f"by {each.changed_by}")
    parts.append(f"{each.recent_failures:,} of {each.recent_calls:,} recent calls failed")
    return ", ".join(parts)


def _words(state: CircuitState) -> str:
    return {"half_open": "half-open", "ramp": "closing at a ramp"}.get(state, str(state))
