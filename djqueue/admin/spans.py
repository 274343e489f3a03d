"""Spans of time that charts show: one hour, a day, a week; each in so many steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from djqueue.policy import words


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span up to now, whose last step is not over yet."""

    key: str
    step_seconds: int
    steps: int

    @property
    def seconds(self) -> int:
        """How long it is."""
        return self.step_seconds * self.steps

    @property
    def step_words(self) -> str:
        """How long a step is, as in "per 20 m"."""
        return "minute" if self.step_seconds == 60 else words.span(self.step_seconds)

    def start_of(self, place: int, now: datetime) -> datetime:
        """Return when a step began."""
        last = int(now.timestamp()) // self.step_seconds * self.step_seconds
        return datetime.fromtimestamp(last, now.tzinfo) - timedelta(
            seconds=(self.steps - 1 - place) * self.step_seconds
        )

    def ago(self, place: int) -> str:
        """Say how long ago a step began; the same in every zone."""
        back = (self.steps - 1 - place) * self.step_seconds
        return f"{words.span(back)} ago" if back else "now"

    def place_of(self, seconds_ago: float, now: datetime) -> float:
        """Return the place, with a fraction, of a moment so many seconds back."""
        running = now.timestamp() % self.step_seconds
        return max(0.0, self.steps - 1 + (running - seconds_ago) / self.step_seconds)


SPANS: Mapping[str, Span] = {
    "1h": Span(key="1h", step_seconds=60, steps=60),
    "24h": Span(key="24h", step_seconds=1_200, steps=72),
    "7d": Span(key="7d", step_seconds=7_200, steps=84),
}
DEFAULT = "1h"


def chosen(key: str | None) -> Span:
    """Return the span that an address asks for; the hour where it asks for something else."""
    return SPANS.get(key or DEFAULT, SPANS[DEFAULT])
