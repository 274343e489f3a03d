"""A live database, real supervisors and a ledger: the stage of the runtime's tests."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import connection

from testproject.trials import ledger
from tests.conftest import StartSupervisor
from tests.helpers import eventually
from tests.processes import Supervisor

PATIENCE = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a test needs to let real workers run trial handlers and to see what became of the jobs."""

    folder: Path
    start_supervisor: StartSupervisor

    @property
    def ledger_path(self) -> Path:
        """The file that handlers write to."""
        return self.folder / "ledger"

    def supervisor(
        self,
        *args: str,
        options: dict[str, Any] | None = None,
        env: dict[str, str] | None = None,
        command: str = "runworker",
    ) -> Supervisor:
        """Start `manage.py runworker` with the ledger, these backend options and further environment."""
        given = {"TRIALS_LEDGER": str(self.ledger_path), "DJQUEUE_OPTIONS": json.dumps(options or {}), **(env or {})}
        return self.start_supervisor(*args, env=given, command=command)

    def file(self, name: str) -> str:
        """Return the path of a file that handlers wait for."""
        return str(self.folder / name)

    def make(self, name: str) -> None:
        """Make the file, so that handlers go on."""
        (self.folder / name).touch()

    def events(self, event: str = "start") -> Counter[str]:
        """Count the ledger's lines with this event by label."""
        return Counter(line.label for line in ledger.read(self.ledger_path) if line.event == event)

    def pids(self, label: str, event: str = "start") -> list[int]:
        """Return the processes in which a label's event happened, in order."""
        return [line.pid for line in ledger.read(self.ledger_path) if (line.label, line.event) == (label, event)]

    def wait_for_starts(self, *labels: str, times: int = 1, within: float = PATIENCE) -> None:
        """Wait until each label has been started so often."""
        eventually(
            lambda: all(self.events()[label] >= times for label in labels),
            within,
            message=lambda: f"wanted {labels} x {times}, started: {self.events()}",
        )

    def wait_until_done(self, within: float = PATIENCE) -> None:
        """Wait until no live job is left."""
        eventually(lambda: not live(), within, message=lambda: f"left: {live()}")


def rows(sql: str, *params: Any) -> list[tuple[Any, ...]]:
    """Return what a query on the live database finds."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params or None)
        return cursor.fetchall() if cursor.description else []


def live() -> list[tuple[Any, ...]]:
    """Return the unfinished jobs."""
    return rows("select task_name, state, attempts, suspect, args::text from djqueue_job order by seq")


def history() -> dict[str, int]:
    """Count finished jobs by outcome."""
    both = "(select outcome from djqueue_history union all select outcome from djqueue_history_overflow)"
    return dict(rows(f"select outcome, count(*) from {both} x group by outcome"))


def dead() -> list[tuple[Any, ...]]:
    """Return the dead letters: first argument, reason, attempts."""
    return rows("select args->'args'->>0, reason, attempts from djqueue_dead_letter order by 1")
