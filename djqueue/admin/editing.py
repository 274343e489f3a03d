"""The page on which a dead letter's arguments are edited and the job is queued again."""

import json
from typing import Any

from django import forms
from django.http import HttpRequest

from djqueue.admin import source
from djqueue.api import arguments, registry
from djqueue.api.largeargs import ArgumentsMissing, reference, whole
from djqueue.exceptions import ArgumentsError
from djqueue.policy.payloads import UpgradeFailed, upgraded, version_of


class EditForm(forms.Form):
    """Arguments as JSON, checked against the task's signature."""

    arguments = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 16, "cols": 100, "spellcheck": "false"}),
        help_text="JSON: an object with “args” (a list) and “kwargs” (an object). They must fit the task's signature.",
    )

    wants_whole = False
    """Arguments that are kept in a file are to be read from there."""

    def __init__(self, letter: Any, *args: Any, **kwargs: Any) -> None:
        self._letter = letter
        super().__init__(*args, **kwargs)

    def clean_arguments(self) -> str:
        """Return the arguments as the row holds them."""
        try:
            given = json.loads(self.cleaned_data["arguments"])
        except (ValueError, RecursionError) as fault:
            raise forms.ValidationError(f"Expected JSON, got something else: {type(fault).__name__}: {fault}") from None
        if given == self._letter.args and reference(given):
            return self._in_file(given)
        if not isinstance(given, dict) or not isinstance(given.get("args"), list):
            raise forms.ValidationError("Expected an object with “args” (a list) and “kwargs” (an object).")
        if not isinstance(given.get("kwargs"), dict) or set(given) != {"args", "kwargs"}:
            raise forms.ValidationError("Expected “kwargs” to be an object, and nothing besides “args” and “kwargs”.")
        registry.load()
        task = registry.get(self._letter.task_name)
        if task is None:
            raise forms.ValidationError(f"No task is called {self._letter.task_name}: its signature is not known.")
        try:
            return arguments.frozen(task, given["args"], given["kwargs"], source.options().max_args_bytes)
        except ArgumentsError as fault:
            raise forms.ValidationError(str(fault)) from None

    def _in_file(self, given: Any) -> str:
        """Arguments in a file, left as they are: the row's own text, or (for a copy) what is in the file."""
        if not self.wants_whole:
            return json.dumps(given)
        try:
            return whole(json.dumps(given))
        except ArgumentsMissing as fault:
            raise forms.ValidationError(str(fault)) from None


def initial(letter: Any) -> str:
    """Return the text to begin with: nothing where arguments are redacted, since the marks must not be stored."""
    if source.redaction():
        return ""
    return json.dumps(_as_now(letter), indent=2, ensure_ascii=False)


def version_now(letter: Any) -> int:
    """Return the version that edited arguments have: they were checked against the task as it is now."""
    task = registry.get(letter.task_name)
    return 1 if task is None else task.version


def _as_now(letter: Any) -> Any:
    """The arguments as the task takes them now; as they are where they can't be upgraded."""
    registry.load()
    task, args = registry.get(letter.task_name), letter.args
    if reference(args):
        return args
    found = version_of(json.dumps(letter.options))
    if task is None or not 1 <= found < task.version:
        return args
    try:
        lists = upgraded(task.module_path, found, task.version, task.upgrades, args["args"], args["kwargs"])
    except (UpgradeFailed, TypeError, KeyError):
        return letter.args
    return {"args": lists[0], "kwargs": lists[1]}


def make_form(request: HttpRequest, letter: Any) -> EditForm:
    """Return the form of this request."""
    if request.method == "POST":
        return EditForm(letter, request.POST)
    form = EditForm(letter, initial={"arguments": initial(letter)})
    if source.redaction():
        form.fields["arguments"].help_text += " They are redacted here: give all of them anew."
    return form
