"""The form beside a list's actions: which action, and why. What is said stands in the log entry of each row."""

from django import forms
from django.contrib.admin.helpers import ActionForm

MOST_REASON = 1_000


class ReasonForm(ActionForm):
    """An action, and why; only a discard needs to know."""

    reason = forms.CharField(required=False, max_length=MOST_REASON, label="Reason:")
