"""How long claims take, by the server's own log: the shipped workers are watched from outside, all in the same way."""

import re
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.compare.programs import RunFailed
from benchmarks.compare.run import Run

# A statement of the extended protocol is logged in parts: parse, bind, execute. Binding includes planning.
ENTRY = re.compile(
    r"^\S+ \S+ \S+ \[(?P<pid>\d+)\] LOG:  duration: (?P<ms>[\d.]+) ms  (?P<part>statement|execute|bind|parse)"
    r"(?P<text>.*?)(?=^\d{4}-\d\d-\d\d )",
    re.M | re.S,
)


class Claims:
    """The claims that a log shows since a position, in their order."""

    def __init__(self, log: Path, position: int, pattern: str) -> None:
        self._log = log
        self._position = position
        self._pattern = re.compile(pattern, re.I)

    def durations(self) -> list[float]:
        """Return milliseconds of each claim."""
        with self._log.open("rb") as file:
            file.seek(self._position)
            text = file.read().decode(errors="replace") + "9999-99-99 "
        bound: dict[str, float] = {}
        found: list[float] = []
        for entry in ENTRY.finditer(text):
            if not self._pattern.search(entry["text"]):
                continue
            if entry["part"] == "bind":
                bound[entry["pid"]] = float(entry["ms"])
            elif entry["part"] != "parse":
                found.append(float(entry["ms"]) + bound.pop(entry["pid"], 0.0))
        return found

    def tenths(self) -> tuple[float, float]:
        """Return the medians of the first and of the last tenth."""
        found = self.durations()
        size = len(found) // 10
        if not size:
            raise RunFailed(f"only {len(found)} claims in the server's log match {self._pattern.pattern!r}")
        return statistics.median(found[:size]), statistics.median(found[-size:])


@contextmanager
def watched_claims(run: Run, pattern: str) -> Iterator[Claims]:
    """Let the server log every statement of the run's database."""
    log = run.databases.server.log
    run.databases.execute(f"alter database {run.database} set log_min_duration_statement = 0", "postgres")
    yield Claims(log, log.stat().st_size, pattern)
