"""Arguments in a file under real workers: read in the slot and in a job's own process."""

from pathlib import Path

import pytest
from django.test import override_settings

from testproject.trials.isolated import hog
from testproject.trials.tasks import note
from tests.runtime.trial import Trial, history

pytestmark = pytest.mark.slow

LARGE = "x" * 5_000
OPTIONS = {"large_args": "default", "large_args_over_bytes": 1_000}


def test_workers_and_processes_of_their_own_read_the_file(trial: Trial, tmp_path: Path) -> None:
    backend = {"BACKEND": "djqueue.backend.DjqueueBackend", "QUEUES": [], "OPTIONS": OPTIONS}
    with override_settings(TASKS={"default": backend}, MEDIA_ROOT=str(tmp_path / "media")):
        note.enqueue(f"in a slot {LARGE}")
        hog.enqueue(f"alone {LARGE}", 1)
    assert len(list((tmp_path / "media").rglob("*.json"))) == 2

    options = {**OPTIONS, "task_modules": ["testproject.trials.isolated"]}
    trial.supervisor(options=options, env={"MEDIA_ROOT": str(tmp_path / "media")})
    trial.wait_until_done()

    assert history() == {"succeeded": 2}
    assert trial.events() == {f"in a slot {LARGE}": 1, f"alone {LARGE}": 1}
