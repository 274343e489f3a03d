"""R22: workers of the release before go on beside the new schema and beside new workers, under load.

Their code is that of the commit before the newest migration (under whatever name it was first committed), out of the
repository's own history: no tags are needed, and each new migration moves the test on by itself. A checkout without its
history (a shallow clone, an archive) can't be tested so: the skip says it, and what to do.
"""

import signal
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest
from django.db import transaction

from djqueue.api.doctor import known_migrations
from djqueue.store import enqueue
from testproject.trials import tasks
from tests.helpers import eventually
from tests.processes import ROOT, Supervisor
from tests.runtime.trial import Trial, dead, history, rows
from tests.store.factories import new_job

pytestmark = pytest.mark.slow

JOBS = 300
OPTIONS = '{"poll_seconds": 0.2, "code_version": "%s"}'


def git(*words: str) -> bytes:
    """What git says; a skip that tells why where it can't."""
    try:
        found = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr.decode() if isinstance(error, subprocess.CalledProcessError) else error
        pytest.skip(f"needs the repository's whole history (git fetch --unshallow): git {' '.join(words)}: {said}")
    return found.stdout


@pytest.fixture
def old_code(tmp_path: Path) -> Path:
    """The project as it was before its newest migration."""
    newest = f"djqueue/migrations/{max(known_migrations())}.py"
    added = git("log", "--follow", "--format=%H", "--diff-filter=A", "--", newest).decode().split()
    before = f"{added[-1]}^" if added else "HEAD"
    folder = tmp_path / "old"
    with tarfile.open(fileobj=BytesIO(git("archive", before))) as archive:
        archive.extractall(folder, filter="data")
    assert len(list(folder.glob("djqueue/migrations/0*.py"))) < len(known_migrations())
    return folder


def worker(trial: Trial, version: str, code: Path = ROOT) -> Supervisor:
    """A supervisor of that code, with its versions in its rows."""
    env = {"TRIALS_LEDGER": str(trial.ledger_path), "DJQUEUE_OPTIONS": OPTIONS % version}
    return trial.start_supervisor("--processes", "1", env=env, code=code)


def lives(version: str, supervisor: Supervisor) -> None:
    """Wait for a worker of that version."""
    eventually(
        lambda: rows("select 1 from djqueue_worker where version = %s and not stopping", version),
        30,
        message=supervisor.output,
    )


def load(label: str) -> None:
    """Jobs that every release knows."""
    with transaction.atomic():
        tasks.note.enqueue_many([(f"{label}{n}",) for n in range(JOBS)])


def test_old_workers_go_on_with_the_new_schema_and_beside_new_ones(trial: Trial, old_code: Path) -> None:
    stranger = enqueue.enqueue("default", new_job(task_name="only.later", queue_name="default")).id
    load("first")
    old = worker(trial, "old", old_code)
    lives("old", old)
    eventually(lambda: len(trial.events()) == JOBS, 60, message=old.output)

    load("second")
    new = worker(trial, "new")
    load("third")
    lives("new", new)
    load("fourth")
    eventually(lambda: len(trial.events()) == 4 * JOBS, 60, message=lambda: old.output() + new.output())
    old.signal(signal.SIGTERM)
    assert old.wait(30) == 0
    load("last")
    eventually(lambda: history().get("succeeded") == 5 * JOBS, 60, message=new.output)

    assert set(trial.events().values()) == {1}
    assert rows("select id, attempts, started_at from djqueue_job") == [(stranger, 0, None)]
    assert dead() == []
    assert "Traceback" not in old.output() + new.output()
