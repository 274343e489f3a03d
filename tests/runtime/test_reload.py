"""`--reload`: for development, on a copy of the project that may be changed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testproject.trials import tasks
from tests.helpers import database_url, eventually
from tests.processes import ROOT, descendants_of, ignoring_the_dead, is_alive
from tests.runtime.trial import Trial

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the test project."""
    shutil.copytree(ROOT / "testproject", tmp_path / "testproject", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "manage.py", tmp_path)
    return tmp_path


@pytest.fixture
def reloader(trial: Trial, project: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A `runworker --reload` in a process group of its own, which works by now."""
    env = {
        **os.environ,
        "DATABASE_URL": database_url(),
        "TRIALS_LEDGER": str(trial.ledger_path),
        "PYTHONPATH": f"{project}{os.pathsep}{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "manage.py", "runworker", "--reload", "--threads", "1"]
    with (project / "output").open("wb") as output:
        process = subprocess.Popen(command, cwd=project, env=env, stdout=output, stderr=output, start_new_session=True)
    tasks.note.enqueue("first")
    trial.wait_for_starts("first")
    yield process
    left = descendants_of(process.pid)
    for pid in [process.pid, *left]:
        with ignoring_the_dead():
            os.kill(pid, signal.SIGKILL)
    process.wait()


def change(file: Path, text: str, until: Callable[[], object]) -> None:
    """Write another text and wait for its effect. The reloader looks for later times, once it has begun to watch."""
    later = file.stat().st_mtime
    file.write_text(text)
    touched_at = 0.0

    def has_an_effect() -> object:
        nonlocal later, touched_at
        if time.monotonic() - touched_at > 4:
            later, touched_at = later + 10, time.monotonic()
            os.utime(file, (later, later))
        return until()

    eventually(has_an_effect, 30)


def test_a_changed_task_runs_in_a_new_worker_and_a_broken_one_is_waited_for(
    trial: Trial, project: Path, reloader: subprocess.Popen[bytes]
) -> None:
    file, output = project / "testproject" / "trials" / "tasks.py", project / "output"
    text = file.read_text()
    [first] = trial.pids("first")
    changed = text.replace('ledger.write(label, "start")\n    return', 'ledger.write(label, "changed")\n    return')
    change(file, changed, lambda: not is_alive(first))
    tasks.note.enqueue("second")
    eventually(lambda: trial.events("changed")["second"], 20)

    change(file, text + "\nthis is no Python\n", lambda: "waiting for a change" in output.read_text())
    starts = output.read_text().count("supervisor starts")
    change(file, text, lambda: output.read_text().count("supervisor starts") > starts)
    tasks.note.enqueue("third")
    trial.wait_for_starts("third", within=20)

    assert reloader.poll() is None


@pytest.mark.parametrize("how", ["interrupt at a terminal", "terminate the reloader"])
def test_the_worker_ends_with_its_reloader(trial: Trial, reloader: subprocess.Popen[bytes], how: str) -> None:
    tree = descendants_of(reloader.pid)

    if how == "interrupt at a terminal":
        os.killpg(reloader.pid, signal.SIGINT)
    else:
        reloader.terminate()

    reloader.wait(20)
    eventually(lambda: not any(is_alive(pid) for pid in tree), 20)
