"""Handlers that call a partner: one that is down while a file exists, or one behind HTTP."""

import os
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from djqueue import Dead, task
from djqueue.policy.retry import RetryPolicy
from testproject.trials import ledger
from testproject.trials.tasks import wait_for

SOON = RetryPolicy(base_seconds=0.05, cap_seconds=0.1)
BRIEFLY = RetryPolicy(base_seconds=0.5, cap_seconds=2)


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


def _get(path: str) -> None:
    """Ask the partner of `PARTNER_URL`; what he does not know is not asked for again."""
    try:
        with urlopen(os.environ["PARTNER_URL"] + path, timeout=5) as answer:
            answer.read()
    except HTTPError as error:
        if error.code == 404:
            raise Dead("the partner does not know it") from error
        raise


@task(queue_name="partner", circuit="partner", retry=BRIEFLY, keep_result=False)
def fetch(path: str) -> None:
    """Ask the partner, behind a circuit."""
    _get(path)


@task(queue_name="partner", retry=BRIEFLY, keep_result=False)
def fetch_bare(path: str) -> None:
    """Ask the partner, with retries alone."""
    _get(path)
