"""A date and time field that keeps to what every zone can express, and shows what it can't."""

from datetime import UTC, date, datetime, time
from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime


class MomentWidget(AdminSplitDateTime):
    """Shows a moment of year 9999 that the zone can't express as the zone's last."""

    def decompress(self, value: Any) -> Any:
        """Return the date and the time in the current zone."""
        try:
            return super().decompress(value)
        except (OverflowError, ValueError):
            return [date.max, time(23, 59, 59)] if value.year > 1 else [date.min, time()]


class MomentField(forms.SplitDateTimeField):
    """A moment; PostgreSQL would store one beyond the year 9999 that Python can't read back."""

    widget = MomentWidget

    def compress(self, data_list: Any) -> datetime | None:
        """Return the moment in UTC."""
        value: datetime | None = super().compress(data_list)
        if value is None or value.tzinfo is None:
            return value
        try:
            return value.astimezone(UTC)
        except OverflowError:
            raise forms.ValidationError("Expected a moment between the years 1 and 9999 in UTC.") from None
