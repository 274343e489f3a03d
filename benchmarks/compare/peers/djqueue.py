"""djqueue as shipped: `manage.py runworker` with default options, as many processes and threads as a workload says."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.compare.peers import base

ROOT = Path(__file__).resolve().parents[3]
TASKS = "benchmarks.compare.djqueue_tasks"


def start_django() -> None:
    """Set Django up with the test project's settings and the comparison's tasks."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "testproject.settings"
    os.environ["DJQUEUE_OPTIONS"] = json.dumps({"task_modules": [TASKS]})
    import django

    django.setup()


def setup() -> None:
    """Migrate."""
    start_django()
    from django.core.management import call_command

    call_command("migrate", verbosity=0, interactive=False)


class Client:
    """Enqueues through Django, in autocommit."""

    def open(self) -> None:
        """Connect."""
        start_django()
        from django.db import connection

        from benchmarks.compare import djqueue_tasks

        connection.ensure_connection()
        self._tasks = vars(djqueue_tasks)

    def one(self, number: int, task: str) -> Any:
        """Enqueue a job."""
        return self._tasks[task].enqueue(number)

    def many(self, numbers: Sequence[int], task: str) -> Any:
        """Enqueue many."""
        return self._tasks[task].enqueue_many([(number,) for number in numbers])

    def close(self) -> None:
        """Disconnect."""
        from django.db import connection

        connection.close()


def worker(processes: int, concurrency: int, task: str) -> None:
    """Become the shipped worker."""
    os.environ["DJQUEUE_OPTIONS"] = json.dumps({"task_modules": [TASKS]})
    command = ["manage.py", "runworker", "-v", "0", f"--processes={processes}", f"--threads={concurrency}"]
    os.chdir(ROOT)
    os.execv(sys.executable, [sys.executable, *command])


FINISHED = """
insert into djqueue_history (id, finished_at, created_at, started_at, lease_token, attempts, interruptions, runs,
    priority, outcome, queue_name, task_name, tenant_id, worker_ids, args, result, errors, options)
select gen_random_uuid(), clock_timestamp(), clock_timestamp(), clock_timestamp(), n, 1, 0, 1, 0, 'succeeded',
    'default', 'benchmarks.compare.djqueue_tasks.noop', '', array['w'], '{{"args": [1], "kwargs": {{}}}}', 'null', '[]',
    '{{}}'
from generate_series(1, {count}) n
"""
SCHEDULED = """
insert into djqueue_job (id, queue_name, task_name, state, run_at, args)
select gen_random_uuid(), 'default', 'benchmarks.compare.djqueue_tasks.noop', 'scheduled',
    now() + {seconds} * interval '1 s', jsonb_build_object('args', jsonb_build_array(n), 'kwargs', '{{}}'::jsonb)
from generate_series(0, {count} - 1) n
"""

PEER = base.Peer(
    name="djqueue",
    label="djqueue",
    package="djqueue",
    client=Client,
    setup=setup,
    worker=worker,
    settings="as shipped",
    guess=6_000,
    runs_processes=True,
    left="select count(*) from djqueue_job where state <> 'scheduled' or run_at <= now()",
    finished=FINISHED,
    scheduled=SCHEDULED,
    claim=r"update djqueue_job j set state = 'leased'",
)

if __name__ == "__main__":
    base.run(PEER)
