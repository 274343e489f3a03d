"""Handlers that fail for one of five causes until somebody mends it, and hooks for what is recorded of them."""

import re
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from djqueue import task
from djqueue.policy.retry import RetryPolicy

AT_ONCE = RetryPolicy(base_seconds=0)
CAUSES = 5


class PartnerDown(Exception):
    """The partner does not answer."""


@task(max_attempts=1)
def die_of_one_of_five(number: int, mended: str) -> int:
    """Fail for the cause that the number says, unless the file exists by which it is mended."""
    if Path(mended).exists():
        return number
    match number % CAUSES:
        case 0:
            return _ask_partner(number)
        case 1:
            raise ValueError(f"no account '{number}'")
        case 2:
            raise LookupError(f"nothing under {UUID(int=number)}")
        case 3:
            raise PartnerDown(f"partner answered 503 for order {number}")
        case _:
            return number // 0


@task(max_attempts=1)
def die_saying(text: str) -> None:
    """Fail with this message."""
    raise ValueError(text)


@task(retry=AT_ONCE, max_attempts=2, expires_after=3600)
def briefly(label: str) -> str:
    """Return the label, within the hour."""
    return label


def without_card_numbers(kind: str, task_name: str, text: str) -> str:
    """Take card numbers out."""
    return re.sub(r"\d{16}", "[card]", text)


def broken_hook(kind: str, task_name: str, text: str) -> str:
    """Fail on every text, with the text in the error."""
    raise RuntimeError(text)


def _ask_partner(number: int) -> int:
    raise PartnerDown(f"partner answered 503 for order {number}")


class Mute(Exception):
    """Says nothing."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def _deep() -> BaseException:
    found: BaseException = ValueError("the innermost")
    for _ in range(500):
        found = ExceptionGroup("layer", [found])  # type: ignore[list-item]
    return found


HOSTILE: dict[str, Callable[[], BaseException]] = {
    "nul": lambda: ValueError("before\0after"),
    "surrogate": lambda: LookupError("half a pair \ud800"),
    "huge": lambda: OverflowError("x" * 50_000_000),
    "mute": Mute,
    "deep": _deep,
    "exit": lambda: SystemExit(3),
}


@task(max_attempts=1)
def die_hostile(kind: str) -> None:
    """Raise what is hard to record."""
    raise HOSTILE[kind]()


@task(max_attempts=1)
def die_with_a_local(text: str) -> None:
    """Fail with the argument in a local variable."""
    local = text * 2
    raise ValueError(len(local))


@task(max_attempts=2, retry=RetryPolicy(base_seconds=60, cap_seconds=3_600))
def fail_and_wait(number: int) -> None:
    """Fail, to be tried again within two minutes."""
    raise PartnerDown("not now")
