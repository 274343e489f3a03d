"""Why a job is set aside: what stands in its `parked_for`, and what that says in words.

    task:NAME     no live worker knows the task            back when a worker that knows it starts
    task:NAME@3   nor that version of its arguments        the same
    paused:NAME   the task is paused                       back when it is resumed or the pause is over
    tenant:NAME   the tenant is paused                     the same

Invariant: a reason names what has to change for the job to come back, so that one index finds all who wait for it.
"""

from djqueue.policy.payloads import parts

ORPHAN = "task:"
TASK = "paused:"
TENANT = "tenant:"


def orphan(task_name: str) -> str:
    """Return the reason of a task that no live worker knows."""
    return ORPHAN + task_name


def paused_task(task_name: str) -> str:
    """Return the reason of a paused task."""
    return TASK + task_name


def paused_tenant(tenant_id: str) -> str:
    """Return the reason of a paused tenant."""
    return TENANT + tenant_id


def is_pause(reason: str) -> bool:
    """Tell whether a pause is the reason."""
    return reason.startswith((TASK, TENANT))


def in_words(reason: str) -> str:
    """Return the reason as people read it; one that is not known stays as it is."""
    name, version = parts(reason.removeprefix(ORPHAN))
    if reason.startswith(ORPHAN) and version > 1:
        return f"no worker knows version {version} of task {name}"
    for prefix, words in ((ORPHAN, "no worker knows task "), (TASK, "paused task "), (TENANT, "paused tenant ")):
        if reason.startswith(prefix):
            return words + reason.removeprefix(prefix)
    return reason
