"""The page of names says all that the code has, and nothing that it does not have."""

import inspect
import re
from pathlib import Path

from django.dispatch import Signal

import djqueue
from djqueue import exceptions, signals

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference.md").read_text()
CHECK = re.compile(r"djqueue\.[EW]\d{3}")


def named(heading: str) -> set[str]:
    """The names in code that stand in the first column below a heading."""
    part = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return {
        name for row in re.findall(r"^\| (`[^|]+) \|", part, re.MULTILINE) for name in re.findall(r"`([\w.]+)", row)
    }


def test_every_exception_stands_on_the_page() -> None:
    ours = {name for name, _ in inspect.getmembers(exceptions, inspect.isclass) if name != "ImproperlyConfigured"}
    ours -= {"timedelta", "JobInterrupt", "JobSignal"}

    assert named("Exceptions") == ours


def test_every_signal_stands_on_the_page() -> None:
    assert named("Signals") == {name for name, value in vars(signals).items() if isinstance(value, Signal)}


def test_every_check_stands_on_the_page() -> None:
    sources = [(ROOT / "djqueue" / name).read_text() for name in ("checks.py", "backend.py")]

    assert named("Checks") == {found for text in sources for found in CHECK.findall(text)}


def test_every_public_name_stands_on_the_page() -> None:
    assert set(djqueue.__all__) <= named("What can be imported from `djqueue`") | named("Exceptions")
