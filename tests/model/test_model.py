"""The real store does what the model does, whatever the commands and their order."""

import os

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.live import LiveDatabase
from tests.model.machine import QueueMachine
from tests.store.conftest import way_of

EXAMPLES = int(os.environ.get("DJQUEUE_MODEL_EXAMPLES", "200"))
"""Runs of 50 commands. The nightly form is a thousand of them: DJQUEUE_MODEL_EXAMPLES=1000."""


def test_the_store_and_the_model_agree_after_every_command(live_database: LiveDatabase) -> None:
    checks = settings(
        max_examples=EXAMPLES,
        stateful_step_count=50,
        deadline=None,
        derandomize="CI" in os.environ,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    with way_of("adopted"):
        run_state_machine_as_test(QueueMachine, settings=checks)
