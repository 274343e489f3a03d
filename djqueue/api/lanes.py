"""Where a new job is placed: its lane, from the gates that can hold it back together with others; its tenant; and what
its limits are, for the worker that meets the first job of a limit.

Where a task has none of those options, which is the rule, this costs a look at its fields and nothing else. Invariant:
a job's lane depends on its own task's options and arguments alone, so that no change of settings strands a job.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from djqueue.api.arguments import Args, Kwargs, concurrency_key, rate_key, tenant_id
from djqueue.policy.gates import Gate, lane
from djqueue.policy.ratelimit import RateLimit
from djqueue.rates import Rate


class Placed(NamedTuple):
    """A job's place."""

    lane: str = ""
    tenant_id: str = ""
    limits: Mapping[str, Any] | None = None
    """By the letter of the gate: what the limit is called, and how much it allows."""


NOWHERE = Placed()


def place(task: Any, args: Args, kwargs: Kwargs) -> Placed:
    """Return the place of one job; raise `ArgumentsError` where a key can't be stored."""
    if not (task.circuit or task.tenant_id or task.concurrency_limit or task.rate_limit):
        return NOWHERE
    tenant = tenant_id(task, args, kwargs)
    said = {
        Gate.RATE: _rate(task, args, kwargs),
        Gate.CONCURRENCY: _concurrency(task, args, kwargs),
    }
    names = [(kind, limit["label"]) for kind, limit in said.items() if limit]
    names += [(Gate.CIRCUIT, task.circuit), (Gate.TENANT, tenant)]
    limits = {kind.value: limit for kind, limit in said.items() if limit}
    return Placed(lane=lane(names), tenant_id=tenant or "", limits=limits or None)


def rate_of(task: Any) -> Rate | None:
    """Return the numbers of a task's rate limit."""
    limit = task.rate_limit
    if limit is None:
        return None
    return limit.parsed if isinstance(limit, RateLimit) else Rate.parse(limit)


def _rate(task: Any, args: Args, kwargs: Kwargs) -> dict[str, Any] | None:
    rate = rate_of(task)
    if rate is None:
        return None
    keyed = isinstance(task.rate_limit, RateLimit) and task.rate_limit.key is not None
    label = _label(task, rate_key(task, args, kwargs) if keyed else "")
    return label and {"label": label, "rate": rate.per_second, "burst": rate.burst}


def _concurrency(task: Any, args: Args, kwargs: Kwargs) -> dict[str, Any] | None:
    if task.concurrency_limit is None:
        return None
    label = _label(task, "" if task.concurrency_key is None else concurrency_key(task, args, kwargs))
    return label and {"label": label, "most": task.concurrency_limit}


def _label(task: Any, key: str | None) -> Any:
    """A key that is None for this job: no limit."""
    if key is None:
        return None
    return f"key {key}" if key else f"task {task.module_path}"
