"""The form of a cron entry: whatever it accepts can fire, and its job can run."""

from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.contrib.admin.widgets import AdminTextareaWidget, AdminTextInputWidget

from djqueue.admin import source
from djqueue.api import registry
from djqueue.api.arguments import frozen
from djqueue.exceptions import ArgumentsError
from djqueue.models import CronEntry
from djqueue.policy.cron import CronExpression
from djqueue.policy.cronfires import MOST_GRACE_SECONDS, MOST_JITTER_SECONDS, MOST_MISSED

MOST_NAME = 200
LIMITS = (
    ("missed_max", 1, MOST_MISSED),
    ("grace_seconds", 0, MOST_GRACE_SECONDS),
    ("jitter_seconds", 0, MOST_JITTER_SECONDS),
)


class CronEntryForm(forms.ModelForm):  # type: ignore[type-arg]
    """Checks what the entry says against the calendar, the known tasks and their signatures."""

    class Meta:
        model = CronEntry
        fields = (
            "name",
            "enabled",
            "task_name",
            "args",
            "kwargs",
            "queue_name",
            "schedule",
            "timezone",
            "missed",
            "missed_max",
            "grace_seconds",
            "overlap",
            "jitter_seconds",
        )
        widgets = {
            "name": AdminTextInputWidget(),
            "args": AdminTextareaWidget(attrs={"rows": 3}),
            "kwargs": AdminTextareaWidget(attrs={"rows": 3}),
            "schedule": AdminTextInputWidget(),
            "timezone": AdminTextInputWidget(),
        }
        help_texts = {
            "schedule": "Minute, hour, day of month, month, day of week; or an alias such as @daily. Where day of "
            "month and day of week are both given, either is enough. L is the last day of the month, friL its last "
            "Friday, fri#2 its second Friday; H is a number that the name chooses.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._offer("task_name", source.task_names(), "")
        self._offer("queue_name", sorted(source.settings_queues()), "(the task's own)")
        for field, low, high in LIMITS:
            self._limit(field, low, high)

    def clean_name(self) -> str:
        """Refuse a name that another entry has, wherever djqueue's tables are."""
        name: str = self.cleaned_data["name"]
        if len(name) > MOST_NAME:
            raise forms.ValidationError(f"Expected at most {MOST_NAME} characters, got {len(name)}.")
        others = CronEntry.objects.using(source.alias()).filter(name=name).exclude(pk=self.instance.pk)
        if others.exists():
            raise forms.ValidationError("Another cron entry has this name.")
        return name

    def clean_schedule(self) -> str:
        """Refuse what no calendar has and what cron implementations read differently."""
        text: str = self.cleaned_data["schedule"].strip()
        # A name that was refused says so itself.
        _checked(lambda: CronExpression.parse(text, self.cleaned_data.get("name", "")))
        return text

    def clean_timezone(self) -> str:
        """Refuse a zone that the zone database does not have."""
        name: str = self.cleaned_data["timezone"].strip()
        try:
            ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            raise forms.ValidationError(
                f'Expected the name of a zone, such as "Europe/Paris" or "UTC", got {name!r}.'
            ) from None
        return name

    def clean_args(self) -> list[Any]:
        """Nothing means no positional arguments."""
        return self._json("args", list, "list")  # type: ignore[no-any-return]

    def clean_kwargs(self) -> dict[str, Any]:
        """Nothing means no named arguments."""
        return self._json("kwargs", dict, "object")  # type: ignore[no-any-return]

    def clean(self) -> dict[str, Any]:
        """Refuse a task that is not known, and arguments that it would not take."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        task: Any = registry.get(data["task_name"]) if "task_name" in data else None
        if "task_name" in data and task is None:
            self.add_error("task_name", f"No task with this name is known: {data['task_name']!r}.")
        if task is not None and "args" in data and "kwargs" in data:
            try:
                frozen(task, data["args"], data["kwargs"], source.options().max_args_bytes)
            except ArgumentsError as fault:
                self.add_error(None, str(fault))
        return data

    def _offer(self, field: str, names: list[str], empty: str) -> None:
        """Make a text field a choice; what the row says stays visible, also if it is no longer offered."""
        if field not in self.fields:
            return
        current = getattr(self.instance, field)
        choices = [("", empty or "---------"), *((name, name) for name in names)]
        if current and current not in names:
            choices.append((current, f"{current} (not known)"))
        old = self.fields[field]
        self.fields[field] = forms.ChoiceField(
            choices=choices, required=old.required, label=old.label, help_text=old.help_text
        )

    def _limit(self, field: str, low: int, high: int) -> None:
        """Bound a number where it is typed; the table refuses the rest in its own words."""
        old = self.fields.get(field)
        if old is not None:
            self.fields[field] = forms.IntegerField(
                min_value=low, max_value=high, initial=old.initial, label=old.label, help_text=old.help_text
            )

    def _json(self, field: str, kind: type, words: str) -> Any:
        value = self.cleaned_data[field]
        if value is None:
            return kind()
        if not isinstance(value, kind):
            raise forms.ValidationError(f"Expected a JSON {words}, got {type(value).__name__}.")
        return value


def _checked(action: Callable[[], object]) -> None:
    try:
        action()
    except ValueError as fault:
        raise forms.ValidationError(str(fault)) from None
