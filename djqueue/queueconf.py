"""The settings of a queue: what may stand in `OPTIONS["queues"][name]`; what its row says in the admin goes first.

Invariant: a value that is not obeyed is a problem with a sentence of its own; none is ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from djqueue.nearest import nearest
from djqueue.rates import Rate

Fairness = Literal["round_robin", "weighted"]

LATER = {"target_seconds"}
EXAMPLE = 'write {"emails": {"weight": 5}}, for example'
MOST_RUNNING = 1_000_000
LONGEST_AGEING = 31_536_000
LEAST_WEIGHT, MOST_WEIGHT = 0.000_001, 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """Settings of one queue; the Queue row in the admin overrides them at run time."""

    weight: int = 1
    """Share of a worker's attention among the queues that it serves: 1 to 1,000."""

    isolation: str | None = None
    """`"process"`: each job of the queue runs in a process of its own. None: as its task says."""

    max_running: int | None = None
    """Jobs of the queue that run at once at the most, in the whole fleet: 1 to 1,000,000. None: no limit."""

    rate_limit: str | None = None
    """Starts of the queue's jobs, in the whole fleet, on average: `"100/m"`, `"5/s"`, `"3/10s"`. None: no limit."""

    burst: int | None = None
    """Starts at once that `rate_limit` allows: 1 to 1,000,000. None: what one second allows, at least 1."""

    fair: Fairness = "round_robin"
    """Whose turn it is among tenants: `"round_robin"`, one after the other; `"weighted"`, who has had least run time
    for its weight. Jobs without a tenant are not concerned."""

    tenant_max_running: int | None = None
    """Jobs of one tenant that run at once, about (each worker may be late by one claim): 1 to 1,000,000. A tenant's own
    row says otherwise for that one. None: no limit."""

    ageing_seconds: float | None = None
    """A job counts as one priority higher for every so many seconds that it has waited: 0.001 to 31,536,000. None:
    priority is strict."""

    tiers: Mapping[str, float] = field(default_factory=dict)
    """Weights by tier, for tenants whose row names one: `{"free": 1, "pro": 5}`. 0.000001 to
    1,000,000."""


def parse_queues(given: Any, problems: list[str]) -> dict[str, QueueOptions]:
    """Return the settings by queue; add a sentence to `problems` for each value that is wrong."""
    if not isinstance(given, Mapping):
        problems.append(f"queues: expected a dict of queue names to settings, got {given!r}; {EXAMPLE}")
        return {}
    return {str(name): _queue(name, settings, problems) for name, settings in given.items()}


def _queue(name: object, settings: object, problems: list[str]) -> QueueOptions:
    if not isinstance(name, str):
        problems.append(f"queues: expected names of queues as keys, got {name!r}; {EXAMPLE}")
    if not isinstance(settings, Mapping):
        problems.append(f"queues[{name!r}]: expected a dict of settings, got {settings!r}; {EXAMPLE}")
        return QueueOptions()
    values: dict[str, Any] = {}
    for key, value in settings.items():
        problem = _problem(str(key), value, settings)
        if problem:
            problems.append(f"queues[{name!r}]: {problem}")
        else:
            values[key] = value
    return QueueOptions(**values)


def _problem(key: str, value: object, settings: Mapping[str, Any]) -> str:
    known = [each.name for each in fields(QueueOptions)]
    if key in LATER:
        return f"{key!r} is not supported by this version of djqueue yet; remove it"
    if key not in known:
        return f"unknown setting {key!r}{nearest(key, known)}; known are: {', '.join(known)}"
    match key:
        case "weight":
            return _whole(key, value, 1_000)
        case "isolation":
            return "" if value in ("process", None) else f"isolation: expected 'process' or None, got {value!r}"
        case "max_running" | "tenant_max_running":
            return "" if value is None else _whole(key, value, MOST_RUNNING)
        case "ageing_seconds":
            return "" if value is None else _seconds(key, value)
        case "rate_limit":
            return "" if value is None else _rate(value, settings.get("burst"))
        case "burst":
            return "" if settings.get("rate_limit") else "burst: expected a rate_limit beside it, got none"
        case "fair":
            kinds = get_args(Fairness)
            return "" if value in kinds else f"fair: expected {' or '.join(map(repr, kinds))}, got {value!r}"
        case _:
            return _tiers(value)


def _whole(key: str, value: object, most: int) -> str:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        return f"{key}: expected a whole number from 1 to {most:,}, got {value!r}"
    return ""


def _seconds(key: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.001 <= value <= LONGEST_AGEING:
        return f"{key}: expected seconds from 0.001 to {LONGEST_AGEING:,}, got {value!r}"
    return ""


def _rate(value: object, burst: Any) -> str:
    try:
        Rate.parse(value, burst)
    except ValueError as error:
        return str(error)
    return ""


def _tiers(value: object) -> str:
    good = isinstance(value, Mapping) and all(
        isinstance(name, str)
        and name.isprintable()
        and isinstance(weight, int | float)
        and not isinstance(weight, bool)
        and LEAST_WEIGHT <= weight <= MOST_WEIGHT
        for name, weight in value.items()
    )
    return (
        ""
        if good
        else f"tiers: expected a dict of printable names to weights from 0.000001 to 1,000,000, got {value!r}"
    )
