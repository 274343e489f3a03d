"""The options of a backend: what may stand in `TASKS[alias]["OPTIONS"]`, with defaults, limits and telling errors.

`Options.parse` never stops at the first mistake: it returns every problem, so that `manage.py check` can list them all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from djqueue.circuitconf import CircuitOptions, parse_circuits
from djqueue.nearest import nearest
from djqueue.queueconf import QueueOptions, parse_queues

__all__ = ["CircuitOptions", "Options", "QueueOptions", "nearest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything that can be set in `OPTIONS`. Durations are in seconds."""

    database: str = "default"
    """Alias of the PostgreSQL database that holds djqueue's tables; jobs are written and claimed there."""

    listen_alias: str | None = None
    """Alias for LISTEN where `database` goes through a pooler that drops it. None: the same as `database`.
    An empty string switches notifications off; workers then poll."""

    prepared_statements: bool = True
    """Workers prepare their statements, and so does a single enqueue (half the time). Off behind a pooler that can't
    carry prepared statements."""

    durable_acks: bool = True
    """An ack waits until the disk has it. False: one that rides with no claim does not wait (synchronous_commit off);
    what the server acked within its last half second runs once more after a crash of the server. Acks that ride with a
    claim wait with it in any case, and so do atomic handlers."""

    lease_seconds: float = 30
    """How long a claim holds without a heartbeat: 3 to 3,600."""

    heartbeat_seconds: float = 0
    """How often leases are extended; at most a third of `lease_seconds`, which is also the meaning of 0."""

    poll_seconds: float = 1
    """How often an idle worker looks without being told: 0.05 to 60."""

    timeout_seconds: float = 300
    """Hard time limit of one attempt, where the task names none: above 0 up to 604,800."""

    grace_seconds: float = 25
    """How long a stopping worker waits for its running jobs: 0 to 3,600."""

    max_attempts: int = 8
    """Starts allowed, where the task names no number (1 = never retried): 1 to 1,000."""

    retry_base_seconds: float = 15
    """Base of the exponential backoff: 0 to 86,400."""

    retry_cap_seconds: float = 3_600
    """Longest backoff: 0 to 604,800."""

    retry_budget_ratio: float | None = 0.1
    """Retries that a queue may make per job that succeeds in it; what is beyond is pushed later: 0 to 100. None: as
    many as there are."""

    retry_budget_floor: float = 10
    """Retries per second that a queue may make however little succeeds: 0.01 to 100,000."""

    history_days: int = 7
    """How long finished jobs are kept: 0 (about a minute) to 3,650 days."""

    dead_letter_days: int | None = None
    """How long dead letters are kept: 1 to 36,500 days. None: until somebody requeues or discards them."""

    digest_seconds: float = 900
    """How often the signal `deaths_digest` is sent for one fingerprint at the most: 0 to 604,800."""

    redact: str = ""
    """Dotted path of a function that takes secrets out of error messages and tracebacks before they are recorded, and
    out of arguments and results before the admin shows them: `redact(kind, task_name, text)` returns the text."""

    max_args_bytes: int = 1_000_000
    """Largest arguments of one job as JSON, in bytes: 100 to 100,000,000."""

    large_args: str = ""
    """Alias in Django's STORAGES, to which arguments above `large_args_over_bytes` go; the row keeps a reference.
    Empty: none do, and `max_args_bytes` is the limit."""

    large_args_over_bytes: int = 100_000
    """Arguments with more bytes of JSON go to the storage: 100 to 100,000,000."""

    large_args_max_bytes: int = 100_000_000
    """Largest arguments that go to the storage: 100 to 1,000,000,000."""

    task_modules: tuple[str, ...] = ()
    """Modules with tasks besides the `tasks` module of each installed app."""

    allow_chaos: bool = False
    """`runworker --chaos` may be used although DEBUG is off: on a staging system, say."""

    code_version: str = ""
    """Shown with workers and failed attempts, for example a commit."""

    queues: Mapping[str, QueueOptions] = field(default_factory=dict)
    """Settings by queue name."""

    circuits: Mapping[str, CircuitOptions] = field(default_factory=dict)
    """Settings by circuit, see `circuitconf.CircuitOptions`; a circuit that is not named has the defaults."""

    @property
    def beat_seconds(self) -> float:
        """The heartbeat in force: never slower than a third of the lease."""
        third = self.lease_seconds / 3
        return min(self.heartbeat_seconds, third) if self.heartbeat_seconds else third

    @classmethod
    def parse(cls, given: object) -> tuple["Options", list[str]]:
        """Return the options and every problem found in `given`; a value with a problem keeps its default."""
        if not isinstance(given, Mapping):
            return cls(), [f"expected a dict of options, got {given!r}; write {{}} for none"]
        problems: list[str] = []
        values: dict[str, Any] = {}
        for name, value in given.items():
            problem = _problem(name, value)
            if problem:
                problems.append(problem)
            elif name == "queues":
                values[name] = parse_queues(value, problems)
            elif name == "circuits":
                values[name] = parse_circuits(value, problems)
            else:
                values[name] = tuple(value) if name == "task_modules" else value
        return cls(**values), problems


_LIMITS: dict[str, tuple[float, float]] = {
    "lease_seconds": (3, 3_600),
    "heartbeat_seconds": (0, 1_200),
    "poll_seconds": (0.05, 60),
    "timeout_seconds": (0.001, 604_800),
    "grace_seconds": (0, 3_600),
    "max_attempts": (1, 1_000),
    "retry_base_seconds": (0, 86_400),
    "retry_cap_seconds": (0, 604_800),
    "retry_budget_ratio": (0, 100),
    "retry_budget_floor": (0.01, 100_000),
    "history_days": (0, 3_650),
    "dead_letter_days": (1, 36_500),
    "digest_seconds": (0, 604_800),
    "max_args_bytes": (100, 100_000_000),
    "large_args_over_bytes": (100, 100_000_000),
    "large_args_max_bytes": (100, 1_000_000_000),
}
_WHOLE = {
    "max_attempts",
    "history_days",
    "dead_letter_days",
    "max_args_bytes",
    "large_args_over_bytes",
    "large_args_max_bytes",
}
_STRINGS = {"database", "code_version", "redact", "large_args"}
_FLAGS = {"prepared_statements", "durable_acks", "allow_chaos"}
_OPTIONAL = {"dead_letter_days", "retry_budget_ratio"}


def _problem(name: str, value: Any) -> str | None:
    known = [f.name for f in fields(Options)]
    if name not in known:
        return f"unknown option {name!r}{nearest(name, known)}; known are: {', '.join(known)}"
    if value is None and name in _OPTIONAL:
        return None
    if name in _LIMITS:
        return _number_problem(name, value)
    if name in _STRINGS and not isinstance(value, str):
        return f"{name}: expected a string, got {value!r}"
    if name == "listen_alias" and not (value is None or isinstance(value, str)):
        return f"{name}: expected a database alias, '' or None, got {value!r}"
    if name in _FLAGS and not isinstance(value, bool):
        return f"{name}: expected True or False, got {value!r}"
    if name == "task_modules" and not _is_list_of_texts(value):
        return f'{name}: expected a list of module names, got {value!r}; write ["shop.jobs"], for example'
    return None


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list | tuple | set | frozenset) and all(isinstance(each, str) for each in value)


def _number_problem(name: str, value: Any) -> str | None:
    low, high = _LIMITS[name]
    kinds = int if name in _WHOLE else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        kind = "a whole number" if name in _WHOLE else "a number"
        return f"{name}: expected {kind} from {low:g} to {high:,.12g}, got {value!r}"
    return None
