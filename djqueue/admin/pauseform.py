"""For how long, and why: what the action bar asks who pauses something."""

from datetime import timedelta

from django import forms
from django.contrib.admin.helpers import ActionForm
from django.http import HttpRequest

SPANS = {
    "15m": ("15 minutes", timedelta(minutes=15)),
    "1h": ("an hour", timedelta(hours=1)),
    "4h": ("four hours", timedelta(hours=4)),
    "1d": ("a day", timedelta(days=1)),
    "7d": ("a week", timedelta(days=7)),
    "10y": ("until resumed", timedelta(days=3_650)),
}
DEFAULT = "1h"
MOST_REASON = 1_000


class PauseForm(ActionForm):
    """An action, for how long, and why."""

    span = forms.ChoiceField(
        choices=[(key, words) for key, (words, _) in SPANS.items()], initial=DEFAULT, required=False, label="Pause for:"
    )
    reason = forms.CharField(required=False, max_length=MOST_REASON, label="Reason:")


def asked(request: HttpRequest) -> tuple[str, timedelta, str]:
    """Return the words of the span, the span, and the reason that a request asks for."""
    words, span = SPANS.get(request.POST.get("span", DEFAULT), SPANS[DEFAULT])
    return words, span, request.POST.get("reason", "").strip().replace("\0", "")[:MOST_REASON]
