"""The retry budget of a queue in words, for its page."""

from typing import Any

from django.contrib import admin

from djqueue.admin import show, source
from djqueue.policy import durations
from djqueue.store import budget


@admin.display(description="retry budget")
def column(self: Any, queue: Any) -> str:
    """Say what it allows, and how many retries were pushed later for it."""
    found = budget.standing(source.alias(), queue.name)
    if found is None:
        return show.EMPTY
    text = f"{found.per_second:.1f} per second; {found.pushed:,} of {found.retries:,} retries were pushed later"
    if found.pushed_seconds_ago is not None:
        text += f", the last {durations.in_words(max(0.0, found.pushed_seconds_ago))} ago"
    return text
