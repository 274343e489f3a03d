"""What `manage.py djqueue cron …` says to people."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any


def say(verb: str, answer: Any) -> str:
    """Return the answer of a verb in words."""
    match verb:
        case "list":
            return "\n".join(_listed(answer)) or "No cron entries."
        case "add" | "preview":
            return "\n".join(_previewed(answer))
        case "run-now":
            return f"{answer['name']}: job {answer['job']} is enqueued; its schedule goes on unchanged."
        case "pause":
            return f"{answer['name']} is paused; what is enqueued already will run."
        case "resume":
            return f"{answer['name']} is on; it fires next at its first time from now."
        case _:
            return "\n".join(_imported(answer))


def _listed(entries: list[dict[str, Any]]) -> Iterator[str]:
    for each in entries:
        yield f"{each['name']}  ({_state(each)})"
        yield f"    {each['words']}: {each['task']}"
        yield f"    next {_moment(each['next_fire_at'])}, last {_last(each)}"
        if each["error"]:
            yield f"    can't fire: {each['error']}"


def _state(each: dict[str, Any]) -> str:
    if each["removed_at"] is not None:
        return "removed from the code"
    return ("on" if each["enabled"] else "paused") + (", from the code" if each["in_code"] else "")


def _last(each: dict[str, Any]) -> str:
    if each["last_fire_at"] is None:
        return "-"
    late = (each["last_fired_at"] - each["last_fire_at"]).total_seconds()
    return (
        f"{_moment(each['last_fire_at'])} ({each['last_outcome']}, {late:,.1f} s late, job {each['last_job'] or '-'})"
    )


def _previewed(answer: dict[str, Any]) -> Iterator[str]:
    if answer.get("added"):
        yield f"{answer['name']} is added{'' if answer['enabled'] else ', paused'}; nothing fires because of it."
    yield f"{answer['name']}: {answer['words']}  [{answer['schedule']} {answer['timezone']}]"
    yield from (f"    {_both(each)}" for each in answer["fires"])
    if not answer["fires"]:
        yield "    no fires in this time"
    if answer["more"]:
        yield "    …"
    for change in answer["zone_changes"]:
        yield f"  The clock changes at {_moment(change['at'])}: {change['before']} is followed by {change['after']}"
        for each in change["fires"]:
            yield f"    {'after ' if each['is_after'] else 'before'}  {_both(each)}"
    if not answer["zone_changes"]:
        yield "  No change of the clock in twelve months."


def _imported(answer: dict[str, Any]) -> Iterator[str]:
    for each in answer["entries"]:
        yield f"{each['name']}  ({each['outcome']})"
        yield f"    from {each['source']}"
        if each["problem"]:
            yield f"    {each['problem']}"
        else:
            yield f"    {each['schedule']} {each['timezone']}: {each['task'] or 'no task named, see --task'}"
        if each["note"]:
            yield f"    note: {each['note']}"
    made = sum(each["outcome"].startswith(("made", "would")) for each in answer["entries"])
    rest = "paused; look at them and resume them" if answer["applied"] else "nothing was changed; --apply makes them"
    yield f"{made} of {len(answer['entries'])} {'made' if answer['applied'] else 'can be made'}: {rest}."


def _both(each: dict[str, Any]) -> str:
    return f"{each['local']:<36} {_moment(each['utc'])}"


def _moment(at: datetime | None) -> str:
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
