"""Who enqueues: in small transactions, over the whole time, and writes down what has surely been committed."""

import random
import threading
import time
from datetime import timedelta
from typing import Any

from django.db import Error, connection, transaction

KINDS = (["plain"] * 8) + (["atomic"] * 4) + (["ordered"] * 3) + (["limited"] * 2) + (["delayed"] * 2) + ["failing"]
KEYS = 20
BATCH = 10
PAUSE_SECONDS = 0.2


class Load(threading.Thread):
    """Enqueues so many jobs in so many seconds."""

    def __init__(self, jobs: int, seconds: float, seed: int) -> None:
        super().__init__(daemon=True)
        self._jobs = jobs
        self._seconds = seconds
        self._rng = random.Random(seed)
        self.committed: dict[str, str] = {}
        """Kind by job id: those whose commit was answered, in the order of their commits."""
        self.unknown = 0
        """Jobs of transactions whose commit was not answered: there or not, both are right."""

    def run(self) -> None:
        """Enqueue until all are there; trouble of the database is waited out."""
        began = time.monotonic()
        for number in range(0, self._jobs, BATCH):
            wait = began + self._seconds * number / self._jobs - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            batch = [(self._rng.choice(KINDS), number + place) for place in range(min(BATCH, self._jobs - number))]
            while not self._enqueue(batch):
                time.sleep(PAUSE_SECONDS)
                batch = [(kind, number + self._jobs) for kind, number in batch]  # other jobs: these may be there
        connection.close()

    def _enqueue(self, batch: list[tuple[str, int]]) -> bool:
        try:
            with transaction.atomic():
                found = {str(self._one(kind, number)): kind for kind, number in batch}
        except Error:
            self.unknown += len(batch)
            connection.close()
            return False
        self.committed |= found
        return True

    def _one(self, kind: str, number: int) -> Any:
        from testproject.trials import turmoil

        seconds = 0.5 if number % 10 == 0 else self._rng.choice([0.0, 0.002, 0.005, 0.02])
        task = getattr(turmoil, kind)
        if kind == "delayed":
            task = task.using(run_after=timedelta(seconds=self._rng.uniform(0.5, 5)))
        given = (number % KEYS, number, seconds) if kind == "ordered" else (number, seconds)
        return task.enqueue(*given).id
