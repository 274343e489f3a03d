"""Reading a crontab: its lines, and what of them can become cron entries.

    # comment                     CRON_TZ=Europe/Paris: the zone of the lines that follow
    30 2 * * *  command           @daily command          with a column for the user in /etc/crontab (`system`)

Other variables, TZ too, are the command's environment and say nothing about when it runs: they are passed over. A line
that can't become an entry says why; nothing is left out silently.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from djqueue.policy.cron import CronExpression

_VARIABLE = re.compile(r"""\s*([A-Za-z_]\w*)\s*=\s*(?:"([^"]*)"|'([^']*)'|(.*?))\s*""")
_NAME_LENGTH = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line that asks for something; `problem` says why it can't be an entry."""

    number: int
    text: str
    schedule: str = ""
    timezone: str = "UTC"
    command: str = ""
    problem: str = ""


def read(text: str, timezone: str = "UTC", *, system: bool = False) -> Iterator[Line]:
    """Yield the lines of a crontab that schedule a command; `system`: with a user before the command."""
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        variable = _VARIABLE.fullmatch(line)
        if variable and not stripped.startswith("@"):
            if variable[1] == "CRON_TZ":
                timezone = next((value for value in variable.groups()[1:] if value is not None), "")
            continue
        yield _line(number, stripped, timezone, system)


def entry_name(command: str, taken: set[str]) -> str:
    """Return a name for the entry of a command that is not taken yet."""
    words = re.sub(r"[^\w.-]+", "-", command, flags=re.ASCII).strip("-")[:_NAME_LENGTH] or "command"
    names = (words if number == 1 else f"{words}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def _line(number: int, text: str, timezone: str, system: bool) -> Line:
    fields = 1 if text.startswith("@") else 5
    words = text.split(maxsplit=fields + system)
    if len(words) <= fields + system:
        return Line(number=number, text=text, problem=f"expected {fields} fields of time and a command")
    schedule, command = " ".join(words[:fields]), words[-1]
    problem = _schedule_problem(schedule) or _zone_problem(timezone) or _command_problem(command)
    plain = command.replace(r"\%", "%")
    return Line(number=number, text=text, schedule=schedule, timezone=timezone, command=plain, problem=problem)


def _schedule_problem(schedule: str) -> str:
    try:
        CronExpression.parse(schedule, "crontab")
    except ValueError as fault:
        return str(fault)
    return ""


def _zone_problem(timezone: str) -> str:
    try:
        ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        return f"expected the name of a zone, got {timezone!r}"
    return ""


def _command_problem(command: str) -> str:
    if re.search(r"(?<!\\)%", command):
        return "% in a command means its standard input, which an entry does not have"
    return ""
