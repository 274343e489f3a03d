"""Handlers that call a partner, which is down while a file exists. Each writes its start to the ledger."""

from pathlib import Path

from djqueue import task
from djqueue.policy.retry import RetryPolicy
from testproject.trials import ledger
from testproject.trials.tasks import wait_for

SOON = RetryPolicy(base_seconds=0.05, cap_seconds=0.1)


@task(circuit="partner", max_attempts=100, retry=SOON)
def call(label: str, down: str) -> None:
    """Call the partner."""
    ledger.write(label, "start")
    if Path(down).exists():
        raise ConnectionError("nobody answers")


@task(circuit="partner", max_attempts=100, retry=SOON)
def call_slowly(label: str, path: str) -> None:
    """Call the partner, who answers when a file exists."""
    ledger.write(label, "start")
    wait_for(path)


@task(circuit="partner", max_attempts=100, retry=SOON)
def stumble(label: str) -> None:
    """Fail for a reason that has nothing to do with the partner."""
    ledger.write(label, "start")
    raise ValueError("a mistake in the code")
