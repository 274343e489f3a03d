"""What can go wrong with an embedded server.

EmbeddedServerError
├── BinariesNotFound     no folder with initdb and postgres, or one that can't be used
├── ServerStartFailed    initdb or postgres said no; carries the end of the log
└── ServerNotOwned       asked to change a server that another process started
"""

from pathlib import Path

LOG_TAIL_LINES = 20


class EmbeddedServerError(Exception):
    """Stand above everything that this package raises."""


class BinariesNotFound(EmbeddedServerError):
    """Say where initdb and postgres were looked for, and how to name a folder that has them."""


class ServerStartFailed(EmbeddedServerError):
    """Say which step failed, with the end of the log in the message and in `log_tail`."""

    def __init__(self, problem: str, log: Path) -> None:
        self.log = log
        self.log_tail = tail(log)
        super().__init__(f"{problem} The end of {log}:\n{self.log_tail}")


class ServerNotOwned(EmbeddedServerError):
    """Say that only the process which started a server may restart it."""


def tail(log: Path, lines: int = LOG_TAIL_LINES) -> str:
    """Return the last lines of a log file, or a placeholder where there is none."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "(no log was written)"
    return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"
